"""Find numbers whose meaning depends on where a reader looks: above, or in the block that follows.

A number in a sentence is computed where it stands, or at the end of the page if a name in it is not known by then. A
sentence that announces the block below it would silently take an older value of the same name.
"""

import ast
import builtins
import doctest
import math
import symtable
from collections.abc import Iterator

from galley.page import Block, Number, Page


def check(page: Page) -> Iterator[tuple[int, str]]:
    """Yield line and message of each number with a name that could have two values: where it stands and below."""
    headings = [line for line, *_ in page.headings]
    blocks = [block for block in page.blocks if block.runs and "standalone" not in block.options]
    for number in page.numbers:
        used = _used(number)
        known = set[str]().union(*(_bound(block) for block in blocks if block.line < number.line))
        waits = not used <= known  # for a name from below: then every name has its value at the end of the page
        end = math.inf if waits else next((line for line in headings if line > number.line), math.inf)
        below = [block for block in blocks if number.line < block.line < end]
        for name in sorted(used):
            lines = [block.line for block in below if name in _bound(block, imports=False)]
            if len(lines) + (name in known) > 1:
                where = f"the block at line {lines[-1]}"
                advice = "rename one of the two, or move the sentence"
                yield number.line, f"{name} could have two values here, one of them from {where}; {advice}"


def _used(number: Number) -> set[str]:
    if not number.runs:
        return set()
    try:
        names = [node for node in ast.walk(ast.parse(number.body, mode="eval")) if isinstance(node, ast.Name)]
    except SyntaxError:
        return set()  # running it says so
    stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - stored - set(dir(builtins))


def _bound(block: Block, imports: bool = True) -> set[str]:
    code = block.code
    if block.lang == "pycon":
        code = "".join(example.source for example in doctest.DocTestParser().get_examples(code + "\n"))
    try:
        symbols = symtable.symtable(code, "page", "exec").get_symbols()
    except SyntaxError:
        return set()
    return {s.get_name() for s in symbols if s.is_assigned() or (imports and s.is_imported())}
