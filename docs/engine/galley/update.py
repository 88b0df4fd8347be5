"""Rewrite what a page shows: outputs, quoted sources and numbers in sentences, after an intended change."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from galley.book import Book, Result
from galley.check.blocks import read_source
from galley.check.compare import holds, merged, rewritten
from galley.check.outputs import shows
from galley.read import notebook
from galley.read.number import read
from galley.read.page import Block, Number, ticks


def rewrite(book: Book, results: dict[str, Result]) -> dict[str, str]:
    """Write what the pages should show, and return their texts."""
    pages = {}
    for name, result in results.items():
        pages[name] = updated(result, book)
        if pages[name] != result.page.source:
            write(book.root / name, pages[name])
    book.record(results)
    return pages


def write(path: Path, text: str) -> None:
    """Write a file that exists aside and move it into place, whole or not at all, with the line ends that it has."""
    ends = "\r\n" if b"\r\n" in path.read_bytes() else "\n"
    with tempfile.NamedTemporaryFile("w", dir=path.parent, newline=ends, delete=False, encoding="utf-8") as part:
        aside = Path(part.name)
        try:
            part.write(text)
            part.flush()
            os.fsync(part.fileno())
        except OSError:
            aside.unlink()
            raise
    shutil.copymode(path, aside)
    os.replace(aside, path)


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
                # the list keeps its length: what stands above is still found by its line
                lines[first:last] = [source, *[None] * (last - first - 1)]
        elif outcome.get("error") or not outcome:
            continue
        elif isinstance(step, Block) and step.lang == "python":
            output = _printed(step, outcome)
            if result.page.cells:
                printed[step.line] = output
            elif output != (step.output or "") and not step.output_is_built:
                _output(step, output, lines)
        elif isinstance(step, Number) and step.operator == "=":
            _number(step, outcome["value"], lines)
    if result.page.cells:
        return notebook.written(result.page, lines, printed)
    return "\n".join(line for line in lines if line is not None)


def _printed(block: Block, outcome: dict) -> str:
    """Return what a block's output should be: what it shows already, wherever that agrees."""
    expected, printed = block.output or "", outcome["stdout"].rstrip()
    return expected if shows(block, outcome) else merged(expected, printed, block.tolerance)


def _output(block: Block, output: str, lines: list[str | None]) -> None:
    body = output.split("\n") if output else []
    fence = ticks(output)
    if block.output_span is None:
        lines[block.span[1] : block.span[1]] = ["", f"{fence}output", *body, fence]
    elif block.output_is_markdown:
        lines[slice(*block.output_span)] = ["", *body, ""]
    else:
        first, last = block.output_span[0] - 1, block.output_span[1] + 1
        lines[first:last] = [f"{fence}output", *body, fence] if body else []


def _number(number: Number, value, lines: list[str | None]) -> None:
    if not isinstance(value, list) or len(value) != 1:
        return
    text = rewritten(number.written, value[0])
    if text is None or holds("=", read(number.written), value[0]):
        return
    line = lines[number.line - 1] or ""
    lines[number.line - 1] = line[: number.start] + text + line[number.start + len(number.written) :]
