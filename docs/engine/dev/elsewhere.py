"""Run the book and the package's tests as on other machines: python -m dev.elsewhere [--only PAGE] [--profiles NAME].

`profiles` has the machines, each made by environment variables in a child process. Other Pythons take part, on the
machine as it is, where they have an environment: `make .venv-3.13/ready` makes one. A table shows each page that has a
problem somewhere, or shows another number; `.galley/elsewhere/ranges.json` keeps the measured range of every number.
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from dev import ROOT
from dev.changed import changed
from dev.profiles import PROFILES, Profile, environment
from galley.book import Book
from galley.check.sentences import parts
from galley.read.number import printed, read
from galley.read.page import Block, Number
from galley.update import updated

FOLDER = ROOT / ".galley" / "elsewhere"
FOLDERS = ("contract", "add", "rotate", "bias", "score", "models", "fast", "in_models", "config", "doctor", "book")
PACKAGE = ["posenc", "docs/book", *(f"tests/{name}" for name in FOLDERS)]


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
    for line in pythons_left_out():
        print(line)
    runs = {}
    for label, profile, python in wanted(options):
        runs[label] = run_profile(profile, python, only, tests=options.tests)
        print(label, "|", verdict(runs[label]), flush=True)
    measured = ranges(runs)
    (FOLDER / "ranges.json").write_text(json.dumps(measured, indent=0) + "\n", encoding="utf-8")
    print("\n".join(["", *table(runs), "", "Near the edge of what the page says:", *near_the_edge(measured)]))
    return 1 if any(failures(run) for run in runs.values()) else 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m dev.elsewhere", description="Run the book as on other machines.")
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="end of a page's path; repeatable")
    parser.add_argument("--changed", action="store_true", help="only pages that git says have changed")
    parser.add_argument("--profiles", nargs="+", choices=PROFILES, default=list(PROFILES), metavar="NAME")
    parser.add_argument("--pythons", nargs="*", metavar="FILE", help="of other environments; without it, .venv-*")
    parser.add_argument("--tests", action="store_true", help="run the package's tests too")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pythons is None:
        options.pythons = [str(path) for path in sorted(ROOT.glob(".venv-*/bin/python"))]
    return options


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, Profile, str]]:
    """Yield what is run, with its name: this Python under each profile, and the others as the machine is."""
    for name in options.profiles:
        yield name, PROFILES[name], sys.executable
    for python in options.pythons:
        yield Path(python).parents[1].name.removeprefix(".venv-"), PROFILES["here"], python


def pythons_left_out() -> Iterator[str]:
    """Yield a line for each supported Python that is found on this machine and has no environment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for version in re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])):
        here = version == f"{sys.version_info.major}.{sys.version_info.minor}"
        if not here and not (ROOT / f".venv-{version}").exists() and starts(f"python{version}"):
            yield f"left out: Python {version} has no environment; make .venv-{version}/ready makes one"


def starts(python: str) -> bool:
    """Tell whether a Python runs: pyenv has a program for each version that it could start, and starts some."""
    return bool(shutil.which(python)) and not subprocess.run([python, "-c", ""], capture_output=True).returncode


def changed_pages() -> list[str]:
    """Return the pages that git says have changed."""
    return sorted(changed(ROOT) & Book.find(ROOT).pages().keys())


def run_book(file: Path, only: list[str]) -> int:
    """Run the pages here and now, and write what came of each into `file`: the work of a child process."""
    book = Book.find(use_cache=False)
    pages = {}
    for name, result in book.run(book.pages(only)).items():
        steps = zip(result.page.steps, result.steps, strict=False)
        numbers = [numbers_of(step, outcome) for step, outcome in steps]
        problems = result.report
        if not problems and updated(result, book) != result.page.source:
            problems = [f"{name}: an update would rewrite this page here"]
        pages[name] = {"problems": problems, "seconds": result.seconds, "numbers": list(filter(None, numbers))}
    file.write_text(json.dumps(pages), encoding="utf-8")
    return 0


def numbers_of(step: object, outcome: dict) -> dict | None:
    """Return the label of a step and its numbers; of a number in a sentence also the bounds between which it holds."""
    if isinstance(step, Number) and isinstance(outcome.get("value"), list):
        label = f"{step.line}: {step.written} {step.operator} {step.body}"
        return {"label": label, "values": outcome["value"], "room": room(step, len(outcome["value"]))}
    if isinstance(step, Block) and outcome.get("stdout"):
        values = [read(text.rstrip(".")).value for text in printed(outcome["stdout"])]
        return {"label": f"{step.line}: output", "values": values, "room": None}
    return None


def room(number: Number, count: int) -> list[tuple[float, float]] | None:
    """Return the least and the greatest value with which each part of a sentence's number would hold."""
    try:
        written = [read(text) for text in parts(number.written)]
    except ValueError:
        return None  # a word that the code decides
    if len(written) != count:
        return None
    if number.operator == "=":
        return [(part.value - part.half_unit, part.value + part.half_unit) for part in written]
    if number.operator in (">", ">="):
        return [(-math.inf, part.value) for part in written]
    return [(part.value, math.inf) for part in written]


def run_profile(profile: Profile, python: str, only: list[str], tests: bool) -> dict:
    """Return what the book, and with `tests` the package's tests, give under a profile."""
    root = copied(FOLDER / "projet à part") if profile.strange else ROOT
    variables = environment(profile, FOLDER)
    variables["PYTHONPATH"] = os.pathsep.join(map(str, (root, root / "docs/engine", root / "docs/book")))
    file = FOLDER / "run.json"
    begin = time.perf_counter()
    command = [python, "-W", "ignore", "-m", "dev.elsewhere", "--child", str(file)]
    for page in only:
        command += ["--only", page]
    subprocess.run(command, cwd=root, env=variables, check=True)
    run = {"pages": json.loads(file.read_text(encoding="utf-8")), "seconds": time.perf_counter() - begin}
    if tests:
        run |= run_tests(python, root, variables)
    return run


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
    reference = next(iter(runs.values()))
    rows = []
    alike = 0
    for name in reference["pages"]:
        cells = [cell(name, run, reference) for run in runs.values()]
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


def ranges(runs: dict[str, dict]) -> dict[str, dict[str, list]]:
    """Return by page and number its least and greatest value over all runs, and the room that the page gives it."""
    measured: dict[str, dict[str, list]] = {}
    for run in runs.values():
        for name, page in run["pages"].items():
            numbers = measured.setdefault(name, {})
            for number in page["numbers"]:
                values = number["values"]
                least, greatest, rooms = numbers.get(number["label"], (values, values, number["room"]))
                least = [min(pair) for pair in zip(least, values, strict=False)]
                greatest = [max(pair) for pair in zip(greatest, values, strict=False)]
                numbers[number["label"]] = [least, greatest, rooms]
    return measured


def near_the_edge(measured: dict[str, dict[str, list]]) -> list[str]:
    """Return the numbers in sentences that move, and that would not hold if they moved as much again."""
    near = []
    for name, numbers in measured.items():
        for label, (least, greatest, rooms) in numbers.items():
            for low, high, (bottom, top) in zip(least, greatest, rooms or [], strict=False):
                spread = high - low
                if spread and (low - spread < bottom or high + spread > top):
                    near.append(f"{name}:{label}: from {low:.6g} to {high:.6g}")
    return near


if __name__ == "__main__":
    sys.exit(main())
