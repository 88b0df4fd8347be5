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
    if not count:
        return "Code"
    return f"Checked: {count} assertion" if count == 1 else f"Checked: {count} assertions"


def only_asserts(block: Block) -> bool:
    """Whether a block shows nothing and makes nothing, but asserts."""
    shows = block.output is not None or block.figures or block.options.keys() & {"standalone", "raises"}
    if shows or not block.runs or block.lang != "python":
        return False
    # Imports alone assert nothing: what they bind is for the blocks below.
    body = _tree(block).body
    return all(map(_is_quiet, body)) and not all(isinstance(statement, IMPORTS) for statement in body)


def unseen(page: Page) -> list[tuple[int, str]]:
    """Return the names, with the line of a block, that open code uses and only a fold binds before it."""
    answers = in_details(page)
    open_names = {*dir(builtins), "__name__"}
    folded_names: set[str] = set()
    hidden: list[tuple[int, str]] = []
    for block in page.blocks:
        if not block.runs or block.lang != "python":
            continue
        takes, binds = _names(block)
        # An answer may use what a fold binds: who opens it is looking behind the page already.
        if label(block) or block.line in answers:
            folded_names |= binds
            continue
        hidden += [(block.line, name) for name in sorted((takes - binds - open_names) & folded_names)]
        open_names |= binds
    return hidden


def in_details(page: Page) -> set[int]:
    """Return the lines inside of `<details>` that the page itself opens, such as hints and answers."""
    fenced = {n for block in page.blocks for n in range(*block.span)}
    inside: set[int] = set()
    depth = 0
    for n, line in enumerate(page.lines):
        # A tag in code is text, and opens nothing.
        tags = () if n in fenced else DETAILS.finditer(line)
        for tag in tags:
            depth += -1 if tag[1] else 1
        if depth:
            inside.add(n + 1)
    return inside


def _is_quiet(statement: ast.stmt) -> bool:
    """Whether a statement only asserts or imports, or repeats what does."""
    if isinstance(statement, ast.For | ast.With):
        return all(map(_is_quiet, statement.body))
    return isinstance(statement, QUIET)


def _tree(block: Block) -> ast.Module:
    """Return the syntax of a block; of one that Python cannot read an empty one, since running it says so."""
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
