"""How far do a page's printed numbers differ from machine to machine? This decides the tolerances that pages state.

Run from the root: python docs/bench/spread.py adding.md table.md. Each page runs again with the kernels that other
processors get. For each block and number that differs, the widest difference stands beside the tolerance it states.
"""

import json
import os
import subprocess
import sys

from galley.book import Book
from galley.number import holds, printed, read, same
from galley.page import Block, Number

MACHINES = {
    "this one": {},
    "one with AVX2": {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell", "MKL_CBWR": "AVX2"},
    "an old one": {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Nehalem", "MKL_CBWR": "COMPATIBLE"},
}
RUN = """
import json, sys
from galley.book import Book
book = Book.find(use_cache=False, jobs=1)
print(json.dumps({name: result.steps for name, result in book.run(book.pages(sys.argv[1:])).items()}))
"""


def main(only: list[str]) -> None:
    """Print, for each page, what differs."""
    runs = {name: _run(environment, only) for name, environment in MACHINES.items()}
    book = Book.find()
    for page_name, result in book.run(book.pages(only)).items():
        for n, step in enumerate(result.page.steps):
            found = [steps[page_name][n] for steps in runs.values()]
            said = _block(step, found) if isinstance(step, Block) else _number(step, found)
            if said:
                print(f"{page_name}:{step.line}: {said}")


def _run(environment: dict[str, str], only: list[str]) -> dict[str, list[dict]]:
    command = [sys.executable, "-W", "ignore", "-c", RUN, *only]
    done = subprocess.run(command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _block(block: Block, found: list[dict]) -> str:
    if any("stdout" not in outcome or outcome.get("error") for outcome in found):
        return "\n".join(["it did not finish on one of them", *(outcome.get("error", "") for outcome in found)])
    first, *others = (outcome["stdout"].rstrip() for outcome in found)
    stated = " ".join(f"{name}={size:g}" for name, size in block.tolerances.items())
    if all(text in (first, block.output) for text in others) and block.output in (first, None):
        return f"nothing differs; {stated} is stated" if stated else ""
    rows = [printed(text) for text in (block.output or first, first, *others)]
    if all(text == first for text in others):
        return f"nothing differs; {stated} is stated" if stated else ""
    if len({len(row) for row in rows}) > 1 or block.output is None:
        return f"the text differs; {stated or 'nothing'} is stated"
    columns = [[read(text.rstrip(".")).value for text in column] for column in zip(*rows, strict=True)]
    widest = max((max(column) - min(column) for column in columns), default=0.0)
    relative = max(((max(c) - min(c)) / max(map(abs, c)) for c in columns if any(c)), default=0.0)
    fits = all(same(block.output, text, **block.tolerances) for text in (first, *others))
    verdict = "" if fits else ": FAILS"
    return f"differs by {widest:.2g}, relatively {relative:.2g}; {stated or 'nothing'} is stated{verdict}"


def _number(number: Number, found: list[dict]) -> str:
    values = [outcome.get("value", outcome.get("error")) for outcome in found]
    if all(value == values[0] for value in values):
        return ""
    if not all(isinstance(value, list) and len(value) == 1 for value in values):
        return f"{number.written}: {values}"
    holding = [holds(number.operator, read(number.written.strip("$*`")), value[0]) for value in values]
    return "" if all(holding) else f"{number.written} ({number.operator} {number.body}) fails: {values}"


if __name__ == "__main__":
    main(sys.argv[1:])
