"""Hand the world's code to the doctor, as it stands and with each bug, and write down what it says.

    python -m tests.world.judge [--half known|unknown] [--only PACKAGE] [--jobs 2]

Each package runs in a process of its own. Half of the implementations were looked at while the doctor was written, the
other half was not: a name's checksum tells which.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.world import Bug, Implementation, attentions, biases, rotations, tables
from tests.world.load import made, prepare

VERDICTS = Path(__file__).with_name("verdicts.json")
SHELVES = (rotations, tables, biases, attentions)
SHELF = {one.name: shelf for shelf in SHELVES for one in shelf.IMPLEMENTATIONS}
IMPLEMENTATIONS = [one for shelf in SHELVES for one in shelf.IMPLEMENTATIONS]
SECONDS = 900  # for a package


def half(implementation: Implementation) -> str:
    """Tell whether the implementation was known while the doctor was written."""
    return ("known", "unknown")[zlib.crc32(implementation.name.encode()) % 2]


def examined(thing: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the doctor says of one thing: its kind and findings, or why it refuses."""
    from posenc.diagnosis import doctor

    begun = time.perf_counter()
    try:
        report = doctor(thing, **settings)
    except ValueError as error:
        return {"refused": str(error)[:400], "seconds": time.perf_counter() - begun}
    except Exception as error:  # what the doctor must never do
        return {"crashed": f"{type(error).__name__}: {error}"[:400], "seconds": time.perf_counter() - begun}
    found = [[f.verdict, f.check, f.id, f.words] for f in report.findings if f.verdict in ("wrong", "note")]
    head = str(report).split("\nWRONG")[0].split("\nnote")[0].split("\nok")[0].replace("\n", " ")
    said = {"kind": report.kind, "healthy": report.healthy, "findings": found, "head": head}
    return said | {"seconds": time.perf_counter() - begun}


def told(implementation: Implementation) -> dict[str, Any]:
    """Return what the doctor says of an implementation and of each bug in it."""
    first = _tried(implementation, None, False)
    glued = "kind" not in first and bool(implementation.glue)
    sound = _tried(implementation, None, True) if glued else first
    bugs = {bug.name: _tried(implementation, bug, glued) for bug in implementation.bugs}
    other = {}
    if not glued and implementation.glue:  # what the first try cannot see
        other = {name: _tried(implementation, bug, True) for name, bug in _missed(implementation, sound, bugs)}
    return {"first": first, "sound": sound, "bugs": bugs, "glued": other}


def _missed(implementation: Implementation, sound: dict[str, Any], bugs: dict[str, Any]) -> Iterator[tuple[str, Bug]]:
    for bug in implementation.bugs:
        if "kind" not in bugs[bug.name] or not new(bugs[bug.name], sound):
            yield bug.name, bug


def new(said: dict[str, Any], sound: dict[str, Any], verdict: str = "wrong") -> list[list[str]]:
    """Return what is said beyond what is said of the code without the bug."""
    before = {(check, cause) for found, check, cause, _ in sound.get("findings", []) if found == verdict}
    return [f for f in said.get("findings", []) if f[0] == verdict and (f[1], f[2]) not in before]


def _tried(implementation: Implementation, bug: Bug | None, glued: bool) -> dict[str, Any]:
    settings = dict(implementation.settings)
    try:
        thing = made(implementation, bug, glued)
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"[:300], "seconds": 0.0}
    return examined(thing, settings)


def _of_package(name: str, which: str) -> dict[str, Any]:
    """Return what is told of a package, in this process."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shelf, _, name = name.partition("/")
    packages = {package.name: package for package in _shelf(shelf).PACKAGES}
    prepare(packages[name], packages)
    wanted = [one for one in _shelf(shelf).IMPLEMENTATIONS if one.package == name and which in ("", half(one))]
    return {one.name: told(one) for one in wanted}


def _shelf(name: str) -> Any:
    return next(shelf for shelf in SHELVES if shelf.__name__.endswith(name))


def _in_a_process(name: str, which: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.world.judge", "--inside", name, "--half", which]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        print(f"{name}: {done.stderr[-600:]}", file=sys.stderr)
        return {}
    return json.loads(lines[-1])


def main() -> None:
    """Judge all, or a part, and write verdicts.json."""
    parser = argparse.ArgumentParser()
    for name in ("--half", "--only", "--inside"):
        parser.add_argument(name, default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=VERDICTS)
    asked = parser.parse_args()
    if asked.inside:
        print(json.dumps(_of_package(asked.inside, asked.half)))
        return
    names = sorted(
        {
            f"{shelf.__name__.rpartition('.')[2]}/{one.package}"
            for shelf in SHELVES
            for one in shelf.IMPLEMENTATIONS
            if asked.only in ("", one.package, shelf.__name__.rpartition(".")[2]) and asked.half in ("", half(one))
        }
    )
    with ThreadPoolExecutor(asked.jobs) as pool:
        parts = list(pool.map(lambda name: _in_a_process(name, asked.half), names))
    found = {name: said for part in parts for name, said in part.items()}
    asked.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
