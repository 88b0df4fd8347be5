"""What the doctor writes down: one finding a check, and the report that puts the bad news first."""

import textwrap
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from posenc.diagnosis.call import attempt

SECONDS = 30
WIDTH = 88
SHOWN = 240  # characters: what pytest shows of an object in a failed assertion
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
    """All findings on one function; printed, it has a line or two for each check, what is wrong first.

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
        return not self._wrong()

    def told(self, check: str) -> Finding:
        """Return the gravest finding of one check.

        Raises:
            ValueError: If nothing is said of `check`.
        """
        for finding in self._sorted():
            if finding.check == check:
                return finding
        known = ", ".join(dict.fromkeys(finding.check for finding in self.findings))
        raise ValueError(f"doctor: check must be one of {known}, got {check!r}")

    def _wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == "wrong"]

    def _sorted(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: VERDICTS.index(finding.verdict))

    def _head(self) -> str:
        wrong = len(self._wrong())
        state = f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong" if wrong else "nothing wrong found"
        article = "an" if self.kind[0] == "a" else "a"
        return f"{self.name}, examined as {article} {self.kind}: {state}"

    def __str__(self) -> str:
        lines = [self._head()]
        for check, verdict, words, _ in self._sorted():
            mark = f"{verdict.upper() if verdict == 'wrong' else verdict:<13}"
            lines.append(textwrap.fill(f"{mark}{check}: {words}", WIDTH, subsequent_indent=" " * len(mark)))
        return "\n".join(lines)

    def __repr__(self) -> str:  # a line for pytest, which shows it where `assert doctor(function).healthy` fails
        head, wrong = self._head(), self._wrong()
        room = max(20, (SHOWN - len(f"<{head}>")) // max(1, len(wrong)) - len(" | "))
        said = [textwrap.shorten(f"{finding.check}: {finding.words}", room, placeholder=" ...") for finding in wrong]
        return f"<{' | '.join([head, *said])}>"


def ok(words: str, number: float | None = None) -> Finding:
    """Return what a check found to be right; `findings` adds the name of the check."""
    return Finding("", "ok", words, number)


def note(words: str, number: float | None = None) -> Finding:
    """Return what a check found and the user has to judge."""
    return Finding("", "note", words, number)


def wrong(words: str, number: float | None = None) -> Finding:
    """Return what a check found to be wrong."""
    return Finding("", "wrong", words, number)


def unchecked(words: str) -> Finding:
    """Return why a check could not be made."""
    return Finding("", "not checked", words)


def findings(checks: Iterable[Callable[[Any], Any]], case: Any) -> list[Finding]:
    """Run the checks on a case; each returns a finding, several, or None. One that raises counts as not checked."""
    found, last = [], time.monotonic() + SECONDS
    for check in checks:
        if time.monotonic() > last:
            result, failed = unchecked(f"the checks before took more than {SECONDS} s"), ""
        else:
            result, failed = attempt(check, case)
        if failed:
            result = unchecked(f"the check itself met {failed}")
        name = check.__name__.replace("_", " ")
        several = result if isinstance(result, list) else [result]
        found += [finding._replace(check=finding.check or name) for finding in several if finding]
    return found
