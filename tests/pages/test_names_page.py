"""The page on names one may meet: they stand in order, each is explained, sourced and in a file that has it."""

import re

import pytest

from galley.check import citations
from tests.conftest import ROOT

NAMES = (ROOT / "docs/reference/names.md").read_text(encoding="utf-8")
WORKS = citations.read(ROOT / "docs/references.bib").entries
IN_FILE = re.compile(r"`(\w+)` in `(posenc/[\w/]+\.py)`")
NO_PAPER = {"APE", "LeRoPE"}  # a word for a whole door; known from code alone


def rows(text: str) -> list[list[str]]:
    """Return the cells of the first table, without its head."""
    table = re.search(r"(?:^\|.*\n)+", text, re.M)
    assert table
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]


def defined(named: tuple[str, str]) -> bool:
    """Return whether a file of the package defines a function."""
    function, file = named
    return f"def {function}(" in (ROOT / file).read_text(encoding="utf-8")


def lacking(text: str) -> list[str]:
    """Return what the table of names lacks."""
    table = rows(text)
    names = [row[0] for row in table]
    wanting = [] if names == sorted(names, key=str.casefold) else ["the names are not in order"]
    if len({*names}) < len(names):
        wanting.append("a name stands there twice")
    for name, *cells in table:
        does, here, by = (cell.rstrip(" |") for cell in cells)
        key = re.search(r"bibliography\.md#(\w+)\)", by)
        files = re.findall(r"`(posenc/[\w/]+\.py)`", here)
        lacks = {
            "a sentence that says what it does": not does.endswith("."),
            "what it is in the terms of the book": not here,
            "a source": name not in NO_PAPER and not (key and key[1] in WORKS),
            "a file that exists": not all((ROOT / file).is_file() for file in files),
            "a function that is in its file": not all(map(defined, IN_FILE.findall(here))),
        }
        wanting += [f"{name} lacks {what}" for what, is_so in lacks.items() if is_so]
    return wanting


def test_each_name_is_explained_placed_and_sourced():
    assert lacking(NAMES) == []
    assert len(rows(NAMES)) >= 25


PLANTED = {
    "out of order": (r"^\| 3D-RPE ", "| RPE-3D "),
    "no source": (r"bibliography\.md#oka2025", "bibliography.md#oka2024"),
    "no such file": (r"posenc/rotate/xpos\.py", "posenc/rotate/x_pos.py"),
    "another file": (r"`self_extend_positions` in `posenc/positions", "`self_extend_positions` in `posenc/attention"),
    "nothing said": (r"^(\| PoSE \|).*?\|", r"\1 skips |"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_fault_is_found(fault):
    pattern, becomes = PLANTED[fault]
    text, count = re.subn(pattern, becomes, NAMES, count=1, flags=re.M)
    assert count == 1
    assert lacking(text)
