"""What the doctor writes down: a finding a check, and the report that puts the bad news first."""

import textwrap
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from posenc.checkup.patient import attempt

SECONDS = 30
WIDTH = 88
VERDICTS = ("wrong", "note", "ok", "not checked")


class Finding(NamedTuple):
    """One check: its name, the verdict ("ok", "wrong", "note", "not checked"), why in words, what was measured.

    Examples:
        >>> Finding("norm", "ok", "lengths stay the same").words
        'lengths stay the same'
    """

    check: str
    verdict: str
    words: str
    number: float | None = None


class Report(NamedTuple):
    """All findings on one patient; printed, it has a line or two for each check, what is wrong first.

    Examples:
        >>> print(Report("rotate", "rotation", (Finding("norm", "wrong", "lengths change"),)))
        rotate, examined as a rotation: 1 thing is wrong
        WRONG        norm: lengths change
    """

    name: str
    kind: str
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong; notes and what could not be checked do not count."""
        return not any(finding.verdict == "wrong" for finding in self.findings)

    def told(self, check: str) -> Finding:
        """Return the gravest finding of one check.

        Raises:
            ValueError: If nothing is said of `check`.
        """
        found = [finding for finding in self._sorted() if finding.check == check]
        if not found:
            known = ", ".join(dict.fromkeys(finding.check for finding in self.findings))
            raise ValueError(f"doctor: check must be one of {known}, got {check!r}")
        return found[0]

    def _sorted(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: VERDICTS.index(finding.verdict))

    def __str__(self) -> str:
        wrong = sum(finding.verdict == "wrong" for finding in self.findings)
        state = f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong" if wrong else "nothing wrong found"
        article = "an" if self.kind[0] == "a" else "a"
        lines = [f"{self.name}, examined as {article} {self.kind}: {state}"]
        for check, verdict, words, _ in self._sorted():
            mark = f"{verdict.upper() if verdict == 'wrong' else verdict:<13}"
            lines.append(textwrap.fill(f"{mark}{check}: {words}", WIDTH, subsequent_indent=" " * len(mark)))
        return "\n".join(lines)


def findings(checks: Iterable[Callable[[Any], Any]], case: Any) -> list[Finding]:
    """Run the checks on a case; one that raises counts as not checked, with the error."""
    found, last = [], time.monotonic() + SECONDS
    for check in checks:
        name = check.__name__.replace("_", " ")
        if time.monotonic() > last:
            found.append(Finding(name, "not checked", f"the checks before took more than {SECONDS} s"))
            continue
        result, failed = attempt(check, case)
        if failed:
            found.append(Finding(name, "not checked", f"the check itself met {failed}"))
        elif result:
            found += result if isinstance(result, list) else [result]
    return found
