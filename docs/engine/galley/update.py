"""Rewrite what a page shows: outputs, quoted sources and numbers in sentences, after an intended change."""

import contextlib
import re

from galley import cells
from galley.book import Book, Result
from galley.check import _holds, read_source, same, written_value
from galley.page import Block, Number


def updated(result: Result, book: Book) -> str:
    """Return the page's text as its code would have it. A block that fails keeps all that it shows."""
    lines: list[str | None] = list(result.page.lines)
    printed: dict[int, str] = {}
    outcomes = dict(zip(map(id, result.page.steps), result.steps, strict=False))
    steps = sorted([*result.page.blocks, *result.page.numbers], key=lambda s: (s.line, getattr(s, "start", 0)))
    for step in reversed(steps):
        outcome = outcomes.get(id(step), {})
        if isinstance(step, Block) and "source" in step.options:
            with contextlib.suppress(OSError, LookupError, SyntaxError):  # the check says what is missing
                first, last = step.span[0], step.span[1] - 1
                source = f"{lines[first]}\n{read_source(book.root, step.options['source'])}"
                lines[first:last] = [source, *[None] * (last - first - 1)]  # as many as before
        elif outcome.get("error") or not outcome:
            continue
        elif isinstance(step, Block) and step.lang == "python":
            given = outcome["stdout"].rstrip()
            if result.page.cells:
                printed[step.line] = step.output if _shows(step, given) and step.output else given
            else:
                _output(step, given, lines)
        elif isinstance(step, Number) and step.operator == "=":
            _number(step, outcome["value"], lines)
    if result.page.cells:
        return cells.written(result.page, lines, printed)
    return "\n".join(line for line in lines if line is not None)


def _shows(block: Block, given: str) -> bool:
    rtol, atol = block.options.get("rtol"), float(block.options.get("atol", 0))
    return same(block.output or "", given, float(rtol) if rtol else None, atol)


def _output(block: Block, given: str, lines: list[str | None]) -> None:
    if _shows(block, given):
        return
    body = given.split("\n") if given else []
    if block.output_span is None:
        lines[block.span[1] : block.span[1]] = ["", "```output", *body, "```"]
    elif block.output_is_markdown:
        lines[slice(*block.output_span)] = ["", *body, ""]
    elif body:
        lines[slice(*block.output_span)] = body
    else:
        lines[block.output_span[0] - 1 : block.output_span[1] + 1] = []


def _number(number: Number, value, lines: list[str | None]) -> None:
    if not isinstance(value, list) or len(value) != 1 or not re.fullmatch(r"[-−+]?[\d,]+(\.\d+)?", number.written):
        return
    shown, unit = written_value(number.written)
    if _holds("=", shown, unit, value[0]):
        return
    decimals = len(number.written.partition(".")[2])
    separator = "," if "," in number.written or abs(value[0]) >= 10_000 else ""
    text = f"{value[0]:{separator}.{decimals}f}"
    line = lines[number.line - 1] or ""
    lines[number.line - 1] = line[: number.start] + text + line[number.start + len(number.written) :]
