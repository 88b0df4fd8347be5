"""The items that the book's source documents teach: each has a section or a test of its own, or a reason why not."""

import ast
import csv
import re
from functools import cache
from pathlib import Path

from galley.check.links import anchors
from galley.read.notebook import read

ROOT = Path(__file__).parents[2]
ROWS = list(csv.DictReader((Path(__file__).parent / "coverage.csv").read_text(encoding="utf-8").splitlines()))


def ids(prefix, *spans, digits=1):
    return {f"{prefix}{n:0{digits}}" for first, last in spans for n in range(first, last + 1)}


# Documents (S), the errors found in them (E) and the bad inputs that their code was given (B)
SECTIONS = enumerate([8, 1, 5, 4, 3, 2, 4, 4, 2, 2, 4, 3, 4, 4, 3])  # of S0, with the number of their items
EVERY = set().union(*(ids(f"S0-{section}.", (1, last)) for section, last in SECTIONS))
EVERY |= ids("S1-", (1, 14)) | ids("S2-", (1, 13)) | ids("S3-", (1, 29)) | ids("S4-", (1, 43)) | {"S4-7.8"}
EVERY |= ids("E", (1, 35), digits=2) | ids("B", (1, 39), digits=2)


@cache
def offered(page):
    """Return what an anchor may name in a page of the book, or in a file of tests."""
    path = ROOT / page if page.startswith("tests/") else ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    return anchors(read(path.name, text))


def test_every_item_is_listed():
    assert {row["item"] for row in ROWS} == EVERY


def test_no_item_is_listed_twice_for_one_place():
    places = [(row["item"], row["page"], row["anchor"]) for row in ROWS]
    assert [place for place in places if places.count(place) > 1] == []


def test_every_page_offers_its_anchor():
    placed = [row for row in ROWS if row["anchor"]]
    assert [row["item"] for row in placed if row["anchor"] not in offered(row["page"])] == []


def test_every_anchor_is_on_the_built_site(built_site):
    placed = [row for row in ROWS if row["anchor"] and not row["page"].startswith("tests/")]
    assert len(placed) > 150
    assert [row["item"] for row in placed if row["anchor"] not in _ids(built_site, row["page"])] == []


@cache
def _ids(folder, page):
    """Return the ids on a page of the built site."""
    place = folder / page.removesuffix("index.md").removesuffix(".md").removesuffix(".ipynb") / "index.html"
    return set(re.findall(r'\bid="([^"]+)"', place.read_text(encoding="utf-8")))


def test_a_row_without_an_anchor_names_a_page_of_the_book():
    pages = {row["page"] for row in ROWS if row["page"] and not row["anchor"]}
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []


def test_only_page_furniture_has_no_page():
    for row in ROWS:
        furniture = re.search(r" \(page furniture: .+\)$", row["what"])
        assert bool(row["page"]) != bool(furniture), row["item"]
