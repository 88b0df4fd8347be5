"""Which names a number takes from its page, and which block binds them."""

import builtins
import doctest
import functools

from galley.read import python_names
from galley.read.formula import Displayed
from galley.read.page import Block, Number, Page


def used(number: Number | Displayed) -> set[str]:
    """Return the names of the page that a number or a formula is computed from."""
    if not number.runs:
        return set()
    if isinstance(number, Displayed):
        return number.names
    try:
        return python_names.of_module(number.body).taken - set(dir(builtins))
    except SyntaxError:
        # The page reports it when the expression is computed.
        return set()


def bound(block: Block) -> tuple[set[str], set[str]]:
    """Return the names that a block assigns, and those that it imports."""
    return _bound(block.code, block.lang)


# The check of a page and its rendering both ask, and a server asks again at every build.
@functools.cache
def _bound(code: str, lang: str) -> tuple[set[str], set[str]]:
    if lang == "pycon":
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(code + "\n"))
    try:
        names = python_names.of_module(code)
    except SyntaxError:
        return set(), set()
    return names.bound, names.imported


def shared_blocks(page: Page) -> list[Block]:
    """Return the blocks that run in the page's namespace: one that stands alone has a namespace of its own."""
    return [block for block in page.blocks if block.runs and "standalone" not in block.options]


def home(number: Number, blocks: list[tuple[Block, set[str]]]) -> Block | None:
    """Return the block that gave a number its value, of `blocks` with the names that each assigns.

    It is the last one before the number that assigns one of its names, or else the last of the page.
    """
    names = used(number)
    givers = [block for block, assigned in blocks if assigned & names]
    before = [block for block in givers if block.line < number.line]
    return (before or givers or [None])[-1]
