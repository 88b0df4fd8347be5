"""Kind and identifiers of each report that the doctor's tests make: python -m dev.doctor_reports writes them anew.

    python -m dev.doctor_reports [tests/doctor/bias ...]

A test of the doctor asserts what its name says. Beside that, each report that it makes must have the kind, and the
identifiers of what is wrong, noted and not checked, that `reports.json` lists. So a change of the doctor shows in
`git diff` with all that it does. No sentence, no number and no check that passed is listed.
"""

import json
import os
import subprocess
import sys
from functools import cache

from dev import ROOT
from posenc.doctor import Report

TESTS = ROOT / "tests/doctor"
PATH = TESTS / "reports.json"
WRITES = "NEW_REPORTS"  # the variable of the environment under which the tests write
LISTED = ("wrong", "note", "not checked")
BY_TIME = "limit"  # this check goes as far as time allows, so that only what is wrong is listed of it


def summary(report: Report) -> str:
    """Return the kind of a report, and the identifiers under each verdict: "table: wrong clipped; note rows"."""
    parts = []
    for verdict in LISTED:
        listed = {finding.id for finding in report.findings if finding.verdict == verdict}
        if verdict != "wrong":
            listed.discard(BY_TIME)
        if listed:
            parts.append(f"{verdict} {', '.join(sorted(listed))}")
    return f"{report.kind}: {'; '.join(parts) or 'ok'}"


@cache
def known() -> dict[str, list[str]]:
    """Return the summaries of each test's reports."""
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


def write(summaries: dict[str, list[str]], files: set[str], skipped: set[str]) -> None:
    """Write the summaries of the tests that ran, and keep those of skipped tests, and of files that did not run."""
    kept = {test: lines for test, lines in known().items() if test in skipped or _is_of_another_file(test, files)}
    listed = {test: lines for test, lines in sorted((kept | summaries).items()) if lines}
    lines = [f"{json.dumps(test, ensure_ascii=False)}: {json.dumps(value)}" for test, value in listed.items()]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _is_of_another_file(test: str, files: set[str]) -> bool:
    file = test.partition(" ")[0]
    return file not in files and (TESTS / f"{file}.py").exists()


def main(paths: list[str]) -> int:
    """Run the doctor's tests in one process, which writes their reports; those of missing peers stay as they are."""
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-q", *(paths or ["tests/doctor"])]
    environment = os.environ | {WRITES: "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
