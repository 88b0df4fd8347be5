"""Find numbers whose meaning depends on where a reader looks: above, or in the block that follows.

A number in a sentence is computed where it stands, or at the end of the page if a name in it is not known by then. A
sentence that announces the block below it would silently take an older value of the same name.
"""

import builtins
import doctest
import math
from collections.abc import Iterator

from galley.read import python_names
from galley.read.formula import Displayed
from galley.read.page import Block, Number, Page


def check(page: Page) -> Iterator[tuple[int, str]]:
    """Yield line and message of each number with a name that could have two values: where it stands and below."""
    headings = [line for line, *_ in page.headings]
    # A block that stands alone has a namespace of its own, so that no sentence can take a value from it.
    running = [block for block in page.blocks if block.runs and "standalone" not in block.options]
    blocks = [(block.line, *_bound(block)) for block in running]
    for number in (*page.numbers, *page.displayed):
        used = _used(number)
        if not used:
            continue
        known = set[str]().union(*(assigned | imported for line, assigned, imported in blocks if line < number.line))
        # A sentence announces blocks of its own section. But an expression with a name from further below is computed
        # when the whole page has run: then each of its names has the value of the last block that assigns it.
        in_section = used <= known
        end = next((line for line in headings if line > number.line), math.inf) if in_section else math.inf
        for name in sorted(used):
            lines = [line for line, assigned, _ in blocks if number.line < line < end and name in assigned]
            if len(lines) > 1 or (lines and name in known):
                where = f"the block at line {lines[-1]}"
                advice = "rename one of the two, or move the sentence"
                yield number.line, f"{name} could have two values here, one of them from {where}; {advice}"


def _used(number: Number | Displayed) -> set[str]:
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


def _bound(block: Block) -> tuple[set[str], set[str]]:
    """Return the names that a block assigns, and those that it imports."""
    code = block.code
    if block.lang == "pycon":
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(code + "\n"))
    try:
        names = python_names.of_module(code)
    except SyntaxError:
        return set(), set()
    return names.bound, names.imported
