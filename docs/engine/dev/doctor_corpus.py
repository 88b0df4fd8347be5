"""Hand the world's code to the doctor, as it stands and with each bug, and write down what it says.

    python -m dev.doctor_corpus [--half known|unknown|later] [--only PACKAGE] [--jobs 2]

Each package runs in a process of its own. What the doctor said goes to `.world/said.json`; a run over all of them
writes the verdicts that the doctor's page shows. While the doctor was written, one half of the implementations was
looked at; the other half was not, until it was judged for the first time. A name's checksum tells which.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dev import ROOT
from tests.doctor.corpus import Bug, Implementation, Package, attentions, biases, later, rotations, tables, verdict
from tests.doctor.corpus.load import FOLDER, made, prepare

VERDICTS = ROOT / "docs/assets/data/doctor.json"
SHELVES = (rotations, tables, biases, attentions, later)
SHELF = {implementation.name: shelf for shelf in SHELVES for implementation in shelf.IMPLEMENTATIONS}
IMPLEMENTATIONS = [implementation for shelf in SHELVES for implementation in shelf.IMPLEMENTATIONS]
SECONDS = 900  # for a package


def half(implementation: Implementation) -> str:
    """Tell whether the implementation was known while the doctor was written, or was gathered afterwards."""
    if SHELF[implementation.name] is later:
        return "later"
    is_odd = zlib.crc32(implementation.name.encode()) % 2
    return "unknown" if is_odd else "known"


def examined(thing: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the doctor says of one thing: its kind and findings, or why it refuses."""
    from posenc.doctor import diagnose

    begin = time.thread_time()
    try:
        report = diagnose(thing, **settings)
    except ValueError as error:
        return {"refused": str(error)[:400], "seconds": time.thread_time() - begin}
    except Exception as error:  # what the doctor must never do
        return {"crashed": f"{type(error).__name__}: {error}"[:400], "seconds": time.thread_time() - begin}
    findings = [[f.verdict, f.check, f.id, f.words] for f in report.findings if f.verdict in ("wrong", "note")]
    head = str(report).split("\nWRONG")[0].split("\nnote")[0].split("\nok")[0].replace("\n", " ")
    seconds = time.thread_time() - begin
    return {"kind": report.kind, "healthy": report.healthy, "findings": findings, "head": head, "seconds": seconds}


def diagnoses(implementation: Implementation) -> dict[str, Any]:
    """Return what the doctor says of an implementation and of each bug in it."""
    first = _tried(implementation, None, False)
    glued = "kind" not in first and bool(implementation.glue)
    sound = _tried(implementation, None, True) if glued else first
    bugs = {bug.name: _tried(implementation, bug, glued) for bug in implementation.bugs}
    other = {}
    if not glued and implementation.glue:  # what the first try cannot see
        other = {bug.name: _tried(implementation, bug, True) for bug in _missed(implementation, sound, bugs)}
    alike = _tried(implementation, None, True) if other else {}
    return {"first": first, "sound": sound, "bugs": bugs, "glued": other, "glued sound": alike}


def _missed(implementation: Implementation, sound: dict[str, Any], bugs: dict[str, Any]) -> Iterator[Bug]:
    for bug in implementation.bugs:
        if "kind" not in bugs[bug.name] or not verdict.new(bugs[bug.name], sound):
            yield bug


def _tried(implementation: Implementation, bug: Bug | None, glued: bool) -> dict[str, Any]:
    settings = dict(implementation.settings)
    try:
        thing = made(implementation, bug, glued)
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"[:300], "seconds": 0.0}
    return examined(thing, settings)


def _of_package(name: str, which: str) -> dict[str, Any]:
    """Return the diagnoses of a package's implementations, made in this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shelf, _, name = name.partition("/")
    packages = {package.name: package for package in _shelf(shelf).PACKAGES}
    prepare(packages[name], packages)
    implementations = [
        implementation
        for implementation in _shelf(shelf).IMPLEMENTATIONS
        if implementation.package == name and which in ("", half(implementation))
    ]
    return {implementation.name: diagnoses(implementation) for implementation in implementations}


def _shelf(name: str) -> Any:
    return next(shelf for shelf in SHELVES if shelf.__name__.endswith(name))


def _in_a_process(name: str, which: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "dev.doctor_corpus", "--inside", name, "--half", which]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        print(f"{name}: {done.stderr[-600:]}", file=sys.stderr)
        return {}
    return json.loads(lines[-1])


def main() -> None:
    """Diagnose all, or a part, and write the diagnoses; of all, the verdicts too."""
    parser = argparse.ArgumentParser()
    for name in ("--half", "--only", "--inside"):
        parser.add_argument(name, default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=FOLDER / "said.json")
    arguments = parser.parse_args()
    if arguments.inside:
        print(json.dumps(_of_package(arguments.inside, arguments.half)))
        return
    names = _packages_to_run(arguments.only, arguments.half)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        parts = list(pool.map(lambda name: _in_a_process(name, arguments.half), names))
    results = {name: result for part in parts for name, result in part.items()}
    arguments.output.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if not arguments.only and not arguments.half:
        write(results)


def _packages_to_run(only: str, which: str) -> list[str]:
    """Return shelf/package for each that holds an implementation of a half; `only` names a package or a shelf."""
    names = set()
    for shelf in SHELVES:
        folder = shelf.__name__.rpartition(".")[2]
        for implementation in shelf.IMPLEMENTATIONS:
            package = implementation.package
            if only in ("", package, folder) and which in ("", half(implementation)):
                names.add(f"{folder}/{package}")
    return sorted(names)


def write(results: dict[str, Any]) -> None:
    """Write the verdicts, with the origin and the licence of each package, and what they were reached with."""
    data = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    judged = [
        (implementation, results[implementation.name])
        for implementation in IMPLEMENTATIONS
        if implementation.name in results
    ]
    data["date"] = datetime.now(UTC).date().isoformat()
    data["torch"] = torch.__version__.partition("+")[0]
    data["seconds"] = statistics.median(result["sound"]["seconds"] for _, result in judged)
    data["packages"] = [
        {"name": package.name, "version": package.version, "licence": package.licence, "url": package.url}
        for package in _packages()
    ]
    data["implementations"] = [verdict.verdict(implementation, result) for implementation, result in judged]
    VERDICTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _packages() -> list[Package]:
    """Return each package that is examined, once."""
    names = {implementation.package for implementation in IMPLEMENTATIONS}
    packages = {package.name: package for shelf in SHELVES for package in shelf.PACKAGES}
    return [packages[name] for name in sorted(packages, key=str.lower) if name in names]


if __name__ == "__main__":
    main()
