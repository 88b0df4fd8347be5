"""The museum: every known error hangs somewhere, fails at every build, says where it was met, and is put right."""

import ast
import re
from pathlib import Path

import pytest

import museum
from galley.book import Book
from galley.read.page import COMMENT, parse

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/museum"
ENTRIES = museum.read(FOLDER)
OVER_ENTRIES = pytest.mark.parametrize("entry", ENTRIES, ids=[f"{entry.hall}-{entry.anchor}" for entry in ENTRIES])
BUGS = [entry for entry in ENTRIES if entry.kind == "bug"]

# Myths (M), errors in the book's source documents (E) and bugs in public code (B)
ROWS = {f"M{n}" for n in range(1, 31)} | {f"E{n:02}" for n in range(1, 36)} | {f"B{n}" for n in range(1, 24)}


def test_every_row_hangs_in_a_hall():
    exhibited = {row for entry in ENTRIES for row in entry.rows}
    assert sorted(ROWS - exhibited) == []
    assert sorted(exhibited - ROWS) == []


def test_there_is_every_hall_and_no_other():
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted(["index", *museum.HALLS])


def test_every_exhibit_is_an_entry():
    """A heading of level 2 without an entry line would not be in the catalogue."""
    for path in set(FOLDER.glob("*.md")) - {FOLDER / "index.md"}:
        titles = [title for _, level, title, _ in parse(path.read_text(encoding="utf-8")).headings if level == 2]
        assert titles == [entry.title for entry in ENTRIES if entry.hall == path.stem], path.name


def test_anchors_are_short_and_unique():
    anchors = [entry.anchor for entry in ENTRIES]
    assert sorted(anchors) == sorted(set(anchors))
    assert [anchor for anchor in anchors if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+){0,6}", anchor)] == []


@OVER_ENTRIES
def test_an_entry_fails_first_and_is_then_put_right(entry):
    first, *others = entry.blocks
    assert "raises" in first.options
    assert first.output
    assert any(block.runs and "raises" not in block.options for block in others)


@OVER_ENTRIES
def test_the_message_names_the_number(entry):
    """Python's own errors speak for themselves."""
    assert entry.failure
    first = entry.blocks[0]
    assert first.options["raises"] != "AssertionError" or re.search(r"\d", entry.failure)


@OVER_ENTRIES
def test_an_entry_says_what_it_is_about_and_where_it_was_met(entry):
    assert entry.tags
    assert [tag for tag in entry.tags if tag not in museum.TAGS] == []
    assert re.match(r"\*\*(Claim|The bug)\.\*\* ", entry.quote)
    assert re.search(r"\bMet\b", entry.quote)
    assert re.search(r"\bChecked in [A-Z][a-z]+ 20\d\d\b", entry.quote)
    assert "**What is true.**" in entry.text or "**The fix.**" in entry.text


@OVER_ENTRIES
def test_a_label_is_short(entry):
    prose = COMMENT.sub("", re.sub(r"```.*?```|\]\([^)]*\)", "", entry.text, flags=re.S))
    assert 40 <= len(re.findall(r"[A-Za-z]{2,}", prose)) <= 180


@pytest.mark.parametrize("entry", BUGS, ids=[entry.anchor for entry in BUGS])
def test_a_bug_links_its_thread_and_passes_the_same_test_once_mended(entry):
    assert entry.threads
    first, *others = entry.blocks
    again = set().union(*(_called(block.code) for block in others if "raises" not in block.options))
    assert _called(first.code) & again & _defined(entry.hall), "the fixed version passes through another test"


def _called(code):
    calls = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _defined(hall):
    blocks = parse((FOLDER / f"{hall}.md").read_text(encoding="utf-8")).blocks
    nodes = [node for block in blocks if block.lang == "python" for node in ast.walk(ast.parse(block.code))]
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_a_claim_that_held_would_stop_the_build():
    """In each hall, take the mark from its last exhibit that fails, or put it on the block that puts it right."""
    unmarked, moved = {}, {}
    for hall in dict.fromkeys(entry.hall for entry in ENTRIES):
        entry = [entry for entry in ENTRIES if entry.hall == hall][-1]
        name = f"docs/museum/{hall}.md"
        lines = (ROOT / name).read_text(encoding="utf-8").split("\n")
        first = entry.blocks[0]
        right = next(block for block in entry.blocks if "raises" not in block.options)
        unmarked[name] = [*lines]
        unmarked[name][first.options_line] = "<!-- block: -->"
        option = f"<!-- block: raises={first.options['raises']} -->"
        moved[name] = [*lines[: right.span[0]], option, *lines[right.span[0] :]]
    book = Book(ROOT)
    for wrong, complaint in ((unmarked, ": "), (moved, "it raises nothing")):
        for name, result in book.run({name: "\n".join(lines) for name, lines in wrong.items()}).items():
            assert any(complaint in problem.message for problem in result.problems), name


def test_the_entrance_lists_every_entry():
    entrance = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert [entry.anchor for entry in ENTRIES if f"]({entry.hall}.md#{entry.anchor})**" not in entrance] == []
