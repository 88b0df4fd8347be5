"""All that the doctor says in its tests, as it was looked at: python -m dev.doctor_reports writes it anew.

A test of the doctor asserts what its name says. Beside that, each report that it makes must read as `reports.json`
says: what was examined, the verdict and the number of each check, and the words of what is wrong or noted. So a change
of the doctor shows in `git diff` with all that it does.
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from itertools import zip_longest

from dev import ROOT
from posenc.doctor.report import Finding, Report

PATH = ROOT / "tests/doctor/reports.json"
WRITES = "NEW_REPORTS"  # the variable of the environment under which the tests write
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
BY_TIME = {"limit"}  # checks that go as far as time allows
NEAR = 0.2  # machines round differently: so far apart numbers may be
ROUNDING, FACTOR = 0.01, 4  # below this a number is a rounding error, and its size alone is compared
NOTHING = 1e-4  # numbers below this are all alike


def lines(report: Report) -> list[str]:
    """Return a report in short, a line for all that passed."""
    about = ", ".join(str(value) for value in report.examined.values() if value not in (None, ""))
    passed = [_passed(f) for f in report.findings if f.verdict == "ok"]
    skipped = [f.check for f in report.findings if f.verdict == "not checked"]
    problems = [
        f"{f.verdict} {f.id}: {f.words}{_printed(f.number)}" for f in report.findings if f.verdict in ("wrong", "note")
    ]
    return [f"{report.kind} ({about})", *problems, f"ok: {', '.join(passed)}", f"not checked: {', '.join(skipped)}"]


def _passed(finding: Finding) -> str:
    if finding.check in BY_TIME:
        return finding.check
    return finding.check + _printed(finding.number)


def _printed(number: float | None) -> str:
    return "" if number is None else f" {number:.3g}"


def differences(reports: list[list[str]], known: list[list[str]]) -> list[str]:
    """Return the lines of reports that do not read as the known ones, each beside the line that it was."""
    changes = []
    for report, before in zip(reports, known, strict=False):  # of unequal counts the last line speaks
        for line, line_before in zip_longest(report, before, fillvalue=""):
            if not alike(line, line_before):
                changes.append(f"  was {line_before}\n  now {line}")
    if len(reports) != len(known):
        changes.append(f"  {len(known)} reports were made, now {len(reports)}")
    return changes


def alike(line: str, other: str) -> bool:
    """Tell whether two lines have the same words, and numbers that are nearly the same."""
    if NUMBER.sub("#", line) != NUMBER.sub("#", other):
        return False
    return all(_near(a, b) for a, b in zip(NUMBER.findall(line), NUMBER.findall(other), strict=True))


def _near(number: str, other: str) -> bool:
    a, b = (abs(float(text.replace(",", ""))) for text in (number, other))
    large, small = max(a, b), min(a, b)
    return large - small <= NEAR * large or large < NOTHING or (large < ROUNDING and large <= FACTOR * small)


@cache
def known() -> dict[str, list[list[str]]]:
    """Return the reports of each test."""
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


def main() -> int:
    """Run the tests of the doctor in one process, which writes their reports; it needs the peers, as they do."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-q", "-m", "", "tests/doctor"]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {WRITES: "1", "REQUIRE_PEERS": "1"}, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
