"""Say which of a page's code is folded, under a label that says what it did.

A figure's or a table's code goes below it, and a block that only asserts becomes the count of what it checked.
"""

import ast
import builtins
import re

from galley.read import python_names
from galley.read.page import Block, Page

DETAILS = re.compile(r"<(/?)details\b")
IMPORTS = (ast.Import, ast.ImportFrom)
QUIET = (ast.Assert, *IMPORTS)


def label(block: Block) -> str:
    """Return what stands on the fold of a block, or nothing where it is open."""
    if title := block.options.get("fold"):
        return title
    if "fold" not in block.options:
        return count_of_assertions(block) if only_asserts(block) else ""
    if block.figures:
        return "Code of these figures" if len(block.figures) > 1 else "Code of this figure"
    return "Code of this table" if block.output_is_markdown else count_of_assertions(block)


def count_of_assertions(block: Block) -> str:
    """Return how many assertions a block holds, in words."""
    count = sum(isinstance(node, ast.Assert) for node in ast.walk(_tree(block)))
    return f"Checked: {count} assertion{'s' * (count != 1)}" if count else "Code"


def only_asserts(block: Block) -> bool:
    """Whether a block shows nothing and makes nothing, but asserts."""
    shows = block.output is not None or block.figures or block.options.keys() & {"standalone", "raises"}
    if shows or not block.runs or block.lang != "python":
        return False
    body = _tree(block).body
    return any(_is_quiet(line) and not isinstance(line, IMPORTS) for line in body) and all(map(_is_quiet, body))


def unseen(page: Page) -> list[tuple[int, str]]:
    """Return the names, with the line of a block, that open code uses and only a fold binds before it."""
    answers = in_details(page)
    open_names, bound, hidden = {*dir(builtins), "__name__"}, set(), []
    for block in page.blocks:
        if not block.runs or block.lang != "python":
            continue
        takes, binds = _names(block)
        if label(block) or block.line in answers:
            bound |= binds
            continue
        hidden += [(block.line, name) for name in sorted((takes - binds - open_names) & bound)]
        open_names |= binds
    return hidden


def in_details(page: Page) -> set[int]:
    """Return the lines inside of `<details>` that the page itself opens, such as hints and answers."""
    fenced = {n for block in page.blocks for n in range(*block.span)}
    depth, inside = 0, set()
    for n, line in enumerate(page.lines):
        if n in fenced:
            inside |= {n + 1} if depth else set()
            continue
        for mark in DETAILS.finditer(line):
            depth += -1 if mark[1] else 1
        inside |= {n + 1} if depth else set()
    return inside


def _is_quiet(line: ast.stmt) -> bool:
    loops = isinstance(line, ast.For | ast.With)
    return isinstance(line, QUIET) or (loops and all(map(_is_quiet, line.body)))  # type: ignore[attr-defined]


def _tree(block: Block) -> ast.Module:
    try:
        return ast.parse(block.code)
    except SyntaxError:
        return ast.Module([], [])


def _names(block: Block) -> tuple[set[str], set[str]]:
    """Return the names that a block's code takes from what stands before it, and those that it binds."""
    try:
        names = python_names.of_module(block.code)
    except SyntaxError:
        return set(), set()
    return names.taken, names.bound | names.imported
