"""Hand the corpus of public implementations to the doctor, each as it stands and with each bug, and keep its diagnoses.

    python -m dev.doctor_corpus [--half known|unknown|later] [--only PACKAGE] [--jobs 2] [--output FILE]

Each package runs in a process of its own. The diagnoses go to `.world/diagnoses.json`; a run over the whole corpus
writes the verdicts that the doctor's page shows. While the doctor was written, one half of the implementations was
looked at; the other half was not, until it was judged for the first time. A name's checksum tells which.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from dev import ROOT
from posenc.doctor import diagnose
from posenc.doctor.report import Report
from tests.doctor.corpus import IMPLEMENTATIONS, PACKAGES, Bug, Implementation, verdict
from tests.doctor.corpus.load import FOLDER, build, prepare

VERDICTS = ROOT / "docs/assets/data/doctor.json"
HALVES = ("known", "unknown", "later")
SECONDS = 1800  # for a package


def half_of(implementation: Implementation) -> str:
    """Tell whether an implementation was known while the doctor was written, or was gathered afterwards."""
    if implementation.later:
        return "later"
    checksum = zlib.crc32(implementation.name.encode())
    return "unknown" if checksum % 2 else "known"


def selected(package: str, half: str) -> list[Implementation]:
    """Return the implementations of a package and of a half; an empty name stands for all."""
    return [
        implementation
        for implementation in IMPLEMENTATIONS
        if package in ("", implementation.package) and half in ("", half_of(implementation))
    ]


def diagnosis_of(subject: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Examine one object.

    Args:
        subject: A function, class or module, as a user would hand it in.
        settings: What the user tells the doctor besides.

    Returns:
        The kind and the findings, or why the doctor refuses, and the seconds that it took.
    """
    start = time.thread_time()
    try:
        diagnosis = _summary(diagnose(subject, **settings))
    except ValueError as error:
        diagnosis = {"refused": str(error)[:400]}
    except Exception as error:  # what the doctor must never do
        diagnosis = {"crashed": f"{type(error).__name__}: {error}"[:400]}
    return diagnosis | {"seconds": time.thread_time() - start}


def _summary(report: Report) -> dict[str, Any]:
    findings = [[f.verdict, f.check, f.id, f.words] for f in report.findings if f.verdict in ("wrong", "note")]
    head = re.split(r"\n(?:WRONG|note|ok)", str(report), maxsplit=1)[0].replace("\n", " ")
    return {"kind": report.kind, "healthy": report.healthy, "findings": findings, "head": head}


def result_of(implementation: Implementation) -> dict[str, Any]:
    """Diagnose an implementation as it stands and with each bug.

    Returns:
        The diagnosis of what a user hands in first; of the sound code, by its glue if the first was refused; of each
        bug, handed in the same way; and, where there is glue still, of each bug that was missed without it.
    """
    torch.manual_seed(0)  # so that the result is the same whatever ran before it
    first = _built_and_diagnosed(implementation)
    glued = "kind" not in first and bool(implementation.glue)
    sound = _built_and_diagnosed(implementation, glued=True) if glued else first
    bugs = {bug.name: _built_and_diagnosed(implementation, bug, glued) for bug in implementation.bugs}
    result = {"first": first, "sound": sound, "bugs": bugs, "glued": {}, "glued sound": {}}

    missed = [bug for bug in implementation.bugs if _is_missed(bugs[bug.name], sound)]
    if missed and implementation.glue and not glued:
        result["glued"] = {bug.name: _built_and_diagnosed(implementation, bug, glued=True) for bug in missed}
        result["glued sound"] = _built_and_diagnosed(implementation, glued=True)
    return result


def _is_missed(diagnosis: dict[str, Any], sound: dict[str, Any]) -> bool:
    return "kind" not in diagnosis or not verdict.new_findings(diagnosis, sound)


def _built_and_diagnosed(implementation: Implementation, bug: Bug | None = None, glued: bool = False) -> dict[str, Any]:
    try:
        subject = build(implementation, bug, glued)
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"[:300], "seconds": 0.0}
    return diagnosis_of(subject, dict(implementation.settings))


def results_of_package(package: str, half: str) -> dict[str, Any]:
    """Return the result of each implementation of a package by its name, reached in this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    prepare(PACKAGES[package])
    return {implementation.name: result_of(implementation) for implementation in selected(package, half)}


def _results_of_a_process(package: str, half: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "dev.doctor_corpus", "--inside", package, "--half", half]
    process = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = process.stdout.strip().splitlines()
    if process.returncode or not lines:
        print(f"{package}: {process.stderr[-600:]}", file=sys.stderr)
        return {}
    return json.loads(lines[-1])  # the packages may print before


def results_of_packages(packages: list[str], half: str, jobs: int) -> dict[str, Any]:
    """Return the results of several packages, each reached in a process of its own, `jobs` at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda package: _results_of_a_process(package, half), packages))
    return {name: result for part in parts for name, result in part.items()}


def write_verdicts(results: dict[str, Any]) -> None:
    """Write the verdicts, with the origin and the licence of each package, and what they were reached with."""
    data = json.loads(VERDICTS.read_text(encoding="utf-8")) if VERDICTS.exists() else {}
    judged = [implementation for implementation in IMPLEMENTATIONS if implementation.name in results]
    data["date"] = datetime.now(UTC).date().isoformat()
    data["torch"] = torch.__version__.partition("+")[0]
    data["seconds"] = statistics.median(results[implementation.name]["sound"]["seconds"] for implementation in judged)
    data["packages"] = _origins()
    data["implementations"] = [verdict.verdict(each, results[each.name]) for each in judged]
    VERDICTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _origins() -> list[dict[str, str]]:
    """Return where each package with an implementation is from; the others are only imported by these."""
    names = {implementation.package for implementation in IMPLEMENTATIONS}
    packages = [PACKAGES[name] for name in sorted(names, key=lambda name: (name.lower(), name))]
    return [{"name": p.name, "version": p.version, "licence": p.licence, "url": p.url} for p in packages]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", default="", choices=("", *HALVES), metavar="|".join(HALVES))
    parser.add_argument("--only", default="", metavar="PACKAGE")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=FOLDER / "diagnoses.json")
    return parser.parse_args()


def main() -> None:
    """Diagnose the corpus or a part of it, and write the diagnoses; of the whole, the verdicts too."""
    arguments = _arguments()
    if arguments.inside:
        print(json.dumps(results_of_package(arguments.inside, arguments.half)))
        return
    packages = sorted({implementation.package for implementation in selected(arguments.only, arguments.half)})
    results = results_of_packages(packages, arguments.half, arguments.jobs)
    arguments.output.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if not arguments.only and not arguments.half:
        write_verdicts(results)


if __name__ == "__main__":
    main()
