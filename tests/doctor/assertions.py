"""What the doctor's tests assert of a report: identifiers and numbers, not sentences.

    assert_report(diagnose(patient), "clipped", notes="origin")

says that `clipped` is all that is wrong and that `origin` is among the notes; without identifiers that the patient is
healthy.
"""

from posenc.doctor import Finding, Report

VERDICTS = ("wrong", "note", "ok", "not checked")  # the gravest first


def wrong_ids(report: Report) -> set[str]:
    """Return the identifiers of what is wrong."""
    return {finding.id for finding in report.findings if finding.verdict == "wrong"}


def note_ids(report: Report) -> set[str]:
    """Return the identifiers of what is noted."""
    return {finding.id for finding in report.findings if finding.verdict == "note"}


def finding(report: Report, check: str) -> Finding:
    """Return the gravest finding of one check."""
    of_check = [finding for finding in report.findings if finding.check == check]
    assert of_check, f"{check} is not among the checks of {report}"
    return min(of_check, key=lambda finding: VERDICTS.index(finding.verdict))


def verdicts(report: Report, *checks: str) -> list[str]:
    """Return the gravest verdict of each check."""
    return [finding(report, check).verdict for check in checks]


def assert_report(report: Report, wrong: str = "", notes: str = "") -> None:
    """Assert which identifiers, divided by spaces, are wrong, no more and no fewer, and which are among the notes."""
    assert wrong_ids(report) == set(wrong.split()), str(report)
    assert report.healthy == (not wrong), str(report)
    assert set(notes.split()) <= note_ids(report), str(report)


def label(value: object) -> str:
    """Return what stands for a parameter in the name of its test."""
    return getattr(value, "__name__", str(value))
