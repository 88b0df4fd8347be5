"""Find numbers whose meaning depends on where a reader looks: above, or in the block that follows.

A number in a sentence is computed where it stands, or at the end of the page if a name in it is not known by then. A
sentence that announces the block below it would silently take an older value of the same name.
"""

import math
from collections.abc import Iterator

from galley.read.bindings import bound, shared_blocks, used
from galley.read.page import Page


def check(page: Page) -> Iterator[tuple[int, str]]:
    """Yield line and message of each number with a name that could have two values: where it stands and below."""
    headings = [line for line, *_ in page.headings]
    blocks = [(block.line, *bound(block)) for block in shared_blocks(page)]
    for number in (*page.numbers, *page.displayed):
        names = used(number)
        if not names:
            continue
        known = set[str]().union(*(assigned | imported for line, assigned, imported in blocks if line < number.line))
        # A sentence announces blocks of its own section. But an expression with a name from further below is computed
        # when the whole page has run: then each of its names has the value of the last block that assigns it.
        in_section = names <= known
        end = next((line for line in headings if line > number.line), math.inf) if in_section else math.inf
        for name in sorted(names):
            lines = [line for line, assigned, _ in blocks if number.line < line < end and name in assigned]
            if len(lines) > 1 or (lines and name in known):
                where = f"the block at line {lines[-1]}"
                advice = "rename one of the two, or move the sentence"
                yield number.line, f"{name} could have two values here, one of them from {where}; {advice}"
