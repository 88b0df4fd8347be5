"""What the doctor writes down: one finding a check, and the report that puts the bad news first."""

import os
import textwrap
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from posenc.doctor.attempt import error_line
from posenc.doctor.findings import page_of

OURS = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, torch.__file__))  # the doctor and PyTorch
SECONDS = 30
WIDTH = 88
SHOWN = 140  # characters of a finding in the line for pytest, which shows 240
VERDICTS = ("wrong", "note", "ok", "not checked")
ESSENTIAL = {  # the checks without which nothing can be called healthy
    "rotation": ("norm", "shift"),
    "table": ("rows",),
    "bias": ("offsets", "slopes", "parts"),
    "attention": ("future", "heads"),
    "model": ("future", "batch"),
}


class Finding(NamedTuple):
    """One check: its name, the verdict ("ok", "wrong", "note", "not checked"), why in words, what was measured.

    `id` stays the same from release to release: the cause of what is wrong, else the name of the check.

    Examples:
        >>> Finding("norm", "ok", "lengths stay the same").words
        'lengths stay the same'
    """

    check: str
    verdict: str
    words: str
    number: float | None = None
    id: str = ""

    @property
    def page(self) -> str:
        """The address of what explains a cause; "" for what is not wrong."""
        return page_of(self.id) if self.verdict == "wrong" else ""


class Report(NamedTuple):
    """All findings on one function; printed, it has a line or two for each check, what is wrong first.

    Examples:
        >>> print(Report("rotate", "rotation", (Finding("norm", "wrong", "lengths change"),)))
        rotate, examined as a rotation: 1 thing is wrong; of 1 check 0 passed
        WRONG        norm: lengths change
    """

    name: str
    kind: str
    findings: tuple[Finding, ...]
    examined: dict[str, Any] = {}  # noqa: RUF012  # what was found out on the way: dim, heads, axes, layout ...

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong and enough could be examined to say so."""
        return not self._with("wrong") and not self.missing

    @property
    def missing(self) -> tuple[str, ...]:
        """The checks that the kind stands on and that could not be made, where none of them could."""
        wanted = ESSENTIAL.get(self.kind, ())
        made = {finding.check for finding in self.findings if finding.verdict != "not checked"}
        return () if made & {*wanted} or self._with("wrong") else wanted

    def finding(self, check: str) -> Finding:
        """Return the gravest finding of one check.

        Raises:
            ValueError: If nothing is said of `check`.
        """
        for finding in self._sorted():
            if finding.check == check:
                return finding
        known = ", ".join(dict.fromkeys(finding.check for finding in self.findings))
        raise ValueError(f"doctor: check must be one of {known}, got {check!r}")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON: each finding with its id and the page that explains it."""
        found = [finding._asdict() | {"page": finding.page} for finding in self._sorted()]
        whole = {"name": self.name, "kind": self.kind, "healthy": self.healthy, "examined": dict(self.examined)}
        return whole | {"checks": self._counts(), "findings": found}

    def _with(self, verdict: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == verdict]

    def _sorted(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: VERDICTS.index(finding.verdict))

    def _counts(self) -> dict[str, int]:
        return {verdict: len(self._with(verdict)) for verdict in VERDICTS}

    def _state(self) -> str:
        wrong = len(self._with("wrong"))
        if wrong:
            return f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong"
        if self.missing:
            return f"too little could be examined to call it healthy ({' and '.join(self.missing)} are not checked)"
        return "nothing wrong found"

    def _head(self) -> str:
        counts = self._counts()
        made = len(self.findings) - counts["not checked"]
        about = ", ".join(str(value) for value in self.examined.values() if value not in (None, ""))
        tally = f"of {made} check{'s' * (made != 1)} {counts['ok']} passed"
        for verdict, words in (("note", "noted"), ("not checked", "could not be made")):
            tally += f", {counts[verdict]} {words}" if counts[verdict] else ""
        return f"{self._subject()}{f' ({about})' if about else ''}: {self._state()}; {tally}"

    def _subject(self) -> str:
        return f"{self.name}, examined as {with_article(self.kind)}"

    def __str__(self) -> str:
        lines = [textwrap.fill(self._head(), WIDTH)]
        for finding in self._sorted():
            mark = f"{finding.verdict.upper() if finding.verdict == 'wrong' else finding.verdict:<13}"
            words = f"{mark}{finding.check}: {finding.words}"
            lines.append(textwrap.fill(words, WIDTH, subsequent_indent=" " * len(mark)))
            if finding.page:
                lines.append(f"{'':13}{finding.id}: {finding.page}")
        return "\n".join(lines)

    def __repr__(self) -> str:  # a line for pytest, which shows it where `assert doctor(function).healthy` fails
        said = [f"{finding.check}: {finding.words}" for finding in self._with("wrong")]
        shown = [textwrap.shorten(words, SHOWN, placeholder=" ...") for words in said]
        return f"<{' | '.join([f'{self._subject()}: {self._state()}', *shown])}>"


def with_article(kind: str) -> str:
    """Return "a rotation", "an attention"."""
    return f"{'an' if kind[0] == 'a' else 'a'} {kind}"


def passed(words: str, number: float | None = None) -> Finding:
    """Return what a check found to be right; `findings` adds the name of the check."""
    return Finding("", "ok", words, number)


def note(words: str, number: float | None = None) -> Finding:
    """Return what a check found and the user has to judge."""
    return Finding("", "note", words, number)


def wrong(cause: str, words: str, number: float | None = None) -> Finding:
    """Return what a check found to be wrong, by a cause of posenc.doctor.findings."""
    return Finding("", "wrong", words, number, cause)


def not_checked(words: str) -> Finding:
    """Return why a check could not be made."""
    return Finding("", "not checked", words)


def run_checks(checks: Iterable[Callable[[Any], Any]], case: Any) -> list[Finding]:
    """Run the checks on a case; each returns a finding, several, or None. One that raises counts as not checked."""
    found, began = [], time.thread_time()
    for check in checks:
        late = time.thread_time() - began > SECONDS
        result = not_checked(f"the checks before took more than {SECONDS} s") if late else _result(check, case)
        name = check.__name__.removeprefix("check_").replace("_", " ")
        several = result if isinstance(result, list) else [result]
        found += [with_check_name(finding, name) for finding in several if finding]
    return found


def _result(check: Callable[[Any], Any], case: Any) -> Any:
    """Return what a check finds, or that it could not be made and whose error that is."""
    try:
        return check(case)
    except Exception as error:
        whose = "your code raises" if _is_theirs(error) else "the check itself raises"
        return not_checked(f"{whose} {error_line(error)}")


def _is_theirs(error: Exception) -> bool:
    """Tell whether code was running that is neither the doctor's nor PyTorch's."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return not all(file.startswith(OURS) for file in files)


def with_check_name(finding: Finding, check: str) -> Finding:
    """Return the finding with the name of its check, and with its id."""
    check = finding.check or check
    return finding._replace(check=check, id=finding.id or check.replace(" ", "-"))
