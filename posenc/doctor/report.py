"""The report of the doctor: the findings of each check, what is wrong first."""

import os
import textwrap
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from posenc.doctor.findings import page_of
from posenc.doctor.safe_call import error_line

Record = TypeVar("Record")

# The doctor's and PyTorch's: an error raised with no other file involved is the doctor's own.
OWN_FOLDERS = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, torch.__file__))
SECONDS = 30  # of processor time for the checks of one function
LINE_WIDTH = 88
SHORT = 140  # characters of a finding in the line for pytest, which shows 240
EVERYTHING_ELSE = "everything else"  # the check that stands for those that are not made
VERDICTS = ("wrong", "note", "ok", "not checked")
# The checks of which one must have been made before a function is called healthy.
ESSENTIAL = {
    "rotation": ("norm", "shift"),
    "table": ("rows",),
    "bias": ("offsets", "slopes", "parts"),
    "attention": ("future", "heads"),
    "model": ("future", "batch"),
}


class Finding(NamedTuple):
    """One check: its name, the verdict ("ok", "wrong", "note", "not checked"), a sentence, the number measured.

    `id` stays the same from release to release: the cause of what is wrong, else the name of the check.

    Examples:
        >>> Finding("norm", "ok", "vectors keep their norm").words
        'vectors keep their norm'
    """

    check: str
    verdict: str
    words: str
    number: float | None = None
    id: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict is "wrong"."""
        return self.verdict == "wrong"

    @property
    def page(self) -> str:
        """The address of the page that explains a cause; "" for what is not wrong."""
        return page_of(self.id) if self.is_wrong else ""


class Report(NamedTuple):
    """All findings on one function; printed, it has a line or two for each check, what is wrong first.

    Examples:
        >>> print(Report("rotate", "rotation", (Finding("norm", "wrong", "norms change"),)))
        rotate, examined as a rotation: 1 thing is wrong; of 1 check 0 passed
        WRONG        norm: norms change
    """

    name: str
    kind: str
    findings: tuple[Finding, ...]
    examined: dict[str, Any] = {}  # noqa: RUF012  # what was measured on the way: sizes, axes, layout, base ...

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong and enough could be examined to say so."""
        return not self._with("wrong") and not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The essential checks of the kind, where none of them could be made and nothing is wrong."""
        essential = ESSENTIAL.get(self.kind, ())
        # What is wrong needs no more evidence; what is called healthy does.
        checked = {finding.check for finding in self.findings if finding.verdict != "not checked"}
        return () if checked & {*essential} or self._with("wrong") else essential

    def finding(self, check: str) -> Finding:
        """Return the gravest finding of one check.

        Raises:
            ValueError: If there is no finding of `check`.
        """
        for finding in self._by_gravity():
            if finding.check == check:
                return finding
        checks = ", ".join(dict.fromkeys(finding.check for finding in self.findings))
        raise ValueError(f"doctor: check must be one of {checks}, got {check!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON: each finding with its id and the page that explains it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "healthy": self.healthy,
            "examined": dict(self.examined),
            "checks": self._counts(),
            "findings": [finding._asdict() | {"page": finding.page} for finding in self._by_gravity()],
        }

    def _with(self, verdict: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == verdict]

    def _by_gravity(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: VERDICTS.index(finding.verdict))

    def _counts(self) -> dict[str, int]:
        return {verdict: len(self._with(verdict)) for verdict in VERDICTS}

    def _state(self) -> str:
        faults = len(self._with("wrong"))
        if faults:
            return f"{faults} thing{'s are' if faults > 1 else ' is'} wrong"
        if self.missing:
            return f"too little could be examined to call it healthy ({' and '.join(self.missing)} are not checked)"
        return "nothing wrong found"

    def _subject(self) -> str:
        return f"{self.name}, examined as {with_article(self.kind)}"

    def _head(self) -> str:
        counts = self._counts()
        # A check that could not be made says nothing on the code, and is counted apart.
        checked = len(self.findings) - counts["not checked"]
        examined = ", ".join(str(value) for value in self.examined.values() if value not in (None, ""))
        checks = "1 check" if checked == 1 else f"{checked} checks"
        tally = f"of {checks} {counts['ok']} passed"
        for verdict, participle in (("note", "noted"), ("not checked", "could not be made")):
            if counts[verdict]:
                tally += f", {counts[verdict]} {participle}"
        subject = f"{self._subject()} ({examined})" if examined else self._subject()
        return f"{subject}: {self._state()}; {tally}"

    def __str__(self) -> str:
        lines = [textwrap.fill(self._head(), LINE_WIDTH)]
        for finding in self._by_gravity():
            mark = "WRONG" if finding.is_wrong else finding.verdict
            line = f"{mark:<13}{finding.check}: {finding.words}"
            lines.append(textwrap.fill(line, LINE_WIDTH, subsequent_indent=" " * 13))
            if finding.page:
                lines.append(f"{'':13}{finding.id}: {finding.page}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        # One line for pytest, which shows it where `assert diagnose(function).healthy` fails.
        sentences = [f"{finding.check}: {finding.words}" for finding in self._with("wrong")]
        shown = [textwrap.shorten(sentence, SHORT, placeholder=" ...") for sentence in sentences]
        return f"<{' | '.join([f'{self._subject()}: {self._state()}', *shown])}>"


def with_article(kind: str) -> str:
    """Return "a rotation", "an attention"."""
    article = "an" if kind.startswith("a") else "a"
    return f"{article} {kind}"


def passed(sentence: str, number: float | None = None) -> Finding:
    """Return what a check found to be right; `run_checks` adds the name of the check."""
    return Finding("", "ok", sentence, number)


def note(sentence: str, number: float | None = None) -> Finding:
    """Return what a check found and the user has to judge."""
    return Finding("", "note", sentence, number)


def wrong(cause: str, sentence: str, number: float | None = None) -> Finding:
    """Return what a check found to be wrong, by a cause that stands in posenc.doctor.findings."""
    return Finding("", "wrong", sentence, number, cause)


def not_checked(reason: str) -> Finding:
    """Return why a check could not be made."""
    return Finding("", "not checked", reason)


def with_check_name(finding: Finding, check: str) -> Finding:
    """Return the finding with the name of its check, and with its id, unless it has them."""
    # A check may return the finding of another, which has its name already.
    check = finding.check or check
    return finding._replace(check=check, id=finding.id or check.replace(" ", "-"))


def stopped(findings: list[Finding]) -> list[Finding]:
    """Return the findings, and that nothing else can be checked after what is wrong in them."""
    # All else would only show the same fault again.
    remaining = not_checked("repair what is wrong above first, then run the doctor again")
    return [*findings, with_check_name(remaining, EVERYTHING_ELSE)]


def run_checks(checks: Iterable[Callable[[Record], Finding | list[Finding] | None]], record: Record) -> list[Finding]:
    """Run the checks on a record; each returns a finding, several, or None. One that raises counts as not checked."""
    findings: list[Finding] = []
    start = time.thread_time()
    for check in checks:
        # By processor time, so that a machine that is busy makes the same checks.
        if time.thread_time() - start > SECONDS:
            result = not_checked(f"the checks before took more than {SECONDS} s")
        else:
            result = _run(check, record)
        name = check.__name__.removeprefix("check_").replace("_", " ")
        several = result if isinstance(result, list) else [result]
        findings += [with_check_name(finding, name) for finding in several if finding]
    return findings


def _run(check: Callable[[Record], Any], record: Record) -> Any:
    """Return what a check finds, or that it could not be made and whose error that is."""
    # Code of others may raise anything in a call that it does not expect; the other checks are still made.
    try:
        return check(record)
    except Exception as error:
        raised_by = "your code raises" if _is_from_examined_code(error) else "the check itself raises"
        return not_checked(f"{raised_by} {error_line(error)}")


def _is_from_examined_code(error: Exception) -> bool:
    """Return whether a frame of the traceback is neither the doctor's nor PyTorch's."""
    # A frame of other code may be the first or the last: a check may call theirs, and theirs call PyTorch.
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return not all(file.startswith(OWN_FOLDERS) for file in files)
