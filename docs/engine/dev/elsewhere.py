"""Run the book and the package's tests as on other machines: python -m dev.elsewhere [--only PAGE] [--profiles NAME].

`profiles` has the machines, each made by environment variables in a child process. Other Pythons take part where an
environment is named: --python .venv-3.13/bin/python. A table shows each page that has a problem under some profile, or
shows another number; `.galley/elsewhere/ranges.json` keeps the measured range of every number.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from dev.profiles import PROFILES, Profile, environment
from galley.book import Book
from galley.number import printed, read
from galley.page import Block, Number
from tests.changed import changed

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".galley" / "elsewhere"
PACKAGE = ["posenc", "docs/book", *(f"tests/{name}" for name in ("add", "rotate", "bias", "score", "fast", "lab"))]
Ranges = dict[str, list[tuple[float, float]]]


def main() -> int:
    """Run what is asked for, print the table, and return 1 where something fails."""
    options = arguments()
    if options.child:
        return run_book(options.child, options.only)
    FOLDER.mkdir(parents=True, exist_ok=True)
    only = changed_pages() if options.changed else options.only
    if options.changed and not only:
        print("no page has changed")
        return 0
    runs = {}
    for python in options.python:
        for name in options.profiles:
            label = name if python == sys.executable else f"{name}, {Path(python).parents[1].name}"
            runs[label] = run_profile(PROFILES[name], python, only, tests=options.tests)
            print(label, "|", verdict(runs[label]), flush=True)
    print("\n" + "\n".join(table(runs)))
    (FOLDER / "ranges.json").write_text(json.dumps(ranges(runs), indent=0) + "\n", encoding="utf-8")
    return 1 if any(failures(run) for run in runs.values()) else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m dev.elsewhere", description="Run the book as on other machines.")
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="end of a page's path; repeatable")
    parser.add_argument("--changed", action="store_true", help="only pages that git says have changed, or their code")
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=list(PROFILES), metavar="NAME")
    parser.add_argument("--python", action="append", metavar="FILE", help="of another environment; repeatable")
    parser.add_argument("--tests", action="store_true", help="run the package's tests too")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.python = options.python or [sys.executable]
    return options


def changed_pages() -> list[str]:
    """Return the pages that git says have changed."""
    return sorted(changed(ROOT) & Book.find(ROOT).pages().keys())


def run_book(file: Path, only: list[str]) -> int:
    """Run the pages here and now, and write what came of each into `file`: the work of a child process."""
    book = Book.find(use_cache=False)
    found = {}
    for name, result in book.run(book.pages(only)).items():
        steps = zip(result.page.steps, result.steps, strict=False)
        numbers = [entry for step, outcome in steps if (entry := numbers_of(step, outcome))]
        found[name] = {"problems": result.report, "seconds": result.seconds, "numbers": numbers}
    file.write_text(json.dumps(found), encoding="utf-8")
    return 0


def numbers_of(step: object, outcome: dict) -> tuple[str, list[float]] | None:
    """Return what a step is called, and the numbers that it gave."""
    if isinstance(step, Number) and isinstance(outcome.get("value"), list):
        return f"{step.line}: {step.written} {step.operator} {step.body}", outcome["value"]
    if isinstance(step, Block) and outcome.get("stdout"):
        numbers = [read(text.rstrip(".")).value for text in printed(outcome["stdout"])]
        return f"{step.line}: output", numbers
    return None


def run_profile(profile: Profile, python: str, only: list[str], tests: bool) -> dict:
    """Return what the book, and with `tests` the package's tests, give under a profile."""
    root = copied(FOLDER / "projet à part") if profile.strange else ROOT
    variables = environment(profile, FOLDER)
    variables["PYTHONPATH"] = os.pathsep.join(map(str, (root, root / "docs/engine", root / "docs/book")))
    file, begin = FOLDER / "run.json", time.perf_counter()
    command = [python, "-W", "ignore", "-m", "dev.elsewhere", "--child", str(file)]
    command += [word for page in only for word in ("--only", page)]
    subprocess.run(command, cwd=root, env=variables, check=True)
    found = {"pages": json.loads(file.read_text(encoding="utf-8")), "seconds": time.perf_counter() - begin}
    return found | (run_tests(python, root, variables) if tests else {})


def run_tests(python: str, root: Path, variables: dict[str, str]) -> dict:
    """Return how the package's tests end, and those that fail."""
    command = [python, "-m", "pytest", "-q", "-n", "logical", "--dist", "worksteal", "-p", "no:cacheprovider"]
    places = [*PACKAGE, *(str(path.relative_to(root)) for path in sorted(root.glob("tests/test_*.py")))]
    done = subprocess.run(
        [*command, "-m", "not slow and not full", *places], cwd=root, env=variables, stdout=subprocess.PIPE, text=True
    )
    lines = done.stdout.splitlines()
    return {"tests": lines[-1].strip("= "), "failed": [line for line in lines if line.startswith(("FAILED", "ERROR"))]}


def copied(folder: Path) -> Path:
    """Copy the project's files to `folder`, which git does not know."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def failures(run: dict) -> int:
    """Return how many problems and failing tests a run has."""
    return sum(len(page["problems"]) for page in run["pages"].values()) + len(run.get("failed", []))


def verdict(run: dict) -> str:
    """Return a run in one line, and below it what fails."""
    wrong = [problem for page in run["pages"].values() for problem in page["problems"]]
    counts = f"{len(run['pages'])} pages, {len(wrong)} problems, {run['seconds']:.0f} s"
    if "tests" in run:
        counts += f"; {run['tests']}"
    return "\n".join([counts, *wrong, *run.get("failed", [])])


def table(runs: dict[str, dict]) -> list[str]:
    """Return a row for each page that is not the same everywhere: its problems under each profile, "~" where moved."""
    names = list(next(iter(runs.values()))["pages"])
    rows, alike = [], 0
    for name in names:
        cells = [cell(name, run, next(iter(runs.values()))) for run in runs.values()]
        if any(cells):
            rows.append(f"| {name} | " + " | ".join(cells) + " |")
        else:
            alike += 1
    head = "| page | " + " | ".join(runs) + " |"
    rule = "|---|" + "---|" * len(runs)
    return [head, rule, *rows, "", f"{alike} other pages give the same numbers everywhere."]


def cell(name: str, run: dict, reference: dict) -> str:
    """Return how many problems a page has, or "~" where it gives other numbers than in the first run."""
    problems = len(run["pages"][name]["problems"])
    if problems:
        return str(problems)
    return "" if run["pages"][name]["numbers"] == reference["pages"][name]["numbers"] else "~"


def ranges(runs: dict[str, dict]) -> dict[str, Ranges]:
    """Return least and greatest value of every number of every page over all runs."""
    found: dict[str, Ranges] = {}
    for run in runs.values():
        for name, page in run["pages"].items():
            for label, values in page["numbers"]:
                known = found.setdefault(name, {}).get(label, [(value, value) for value in values])
                pairs = zip(known, values, strict=False)
                found[name][label] = [(min(low, value), max(high, value)) for (low, high), value in pairs]
    return found


if __name__ == "__main__":
    sys.exit(main())
