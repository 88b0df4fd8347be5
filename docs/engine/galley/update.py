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
        # A file that says what it should keeps its time, which servers and editors watch.
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
            # A full disk may report an error only here, before the page is replaced.
            os.fsync(part.fileno())
        except OSError:
            aside.unlink()
            raise
    # A temporary file is readable by its owner alone.
    shutil.copymode(path, aside)
    os.replace(aside, path)


def updated(result: Result, book: Book) -> str:
    """Return the page's text as its code would have it. A block that fails keeps all that it shows."""
    lines: list[str | None] = list(result.page.lines)
    printed: dict[int, str] = {}
    # Steps can change and thus have no hash, so they are found again by identity.
    outcomes = dict(zip(map(id, result.page.steps), result.steps, strict=False))
    steps = sorted([*result.page.blocks, *result.page.numbers], key=lambda s: (s.line, getattr(s, "start", 0)))
    # From the last to the first: an output that gets longer moves only lines that are done.
    for step in reversed(steps):
        outcome = outcomes.get(id(step), {})
        if isinstance(step, Block) and "source" in step.options:
            _rewrite_source(step, book.root, lines)
        elif outcome.get("error") or not outcome:
            continue
        elif isinstance(step, Block) and step.lang == "python":
            output = _updated_output(step, outcome)
            # A notebook keeps outputs beside its cells, and not among its lines.
            if result.page.cells:
                printed[step.line] = output
            elif output != (step.output or "") and not step.output_is_built:
                _rewrite_output(step, output, lines)
        elif isinstance(step, Number) and step.operator == "=":
            _rewrite_number(step, outcome["value"], lines)
    if result.page.cells:
        return notebook.written(result.page, lines, printed)
    return "\n".join(line for line in lines if line is not None)


def _rewrite_source(block: Block, root: Path, lines: list[str | None]) -> None:
    """Put the code that a block quotes in place of what it shows."""
    # The check reports a source that is missing.
    with contextlib.suppress(OSError, LookupError, SyntaxError):
        first = block.span[0]
        last = block.span[1] - 1
        source = f"{lines[first]}\n{read_source(root, block.options['source'])}"
        # The list keeps its length: what stands above is still found by its line, and a notebook finds its cells.
        lines[first:last] = [source, *[None] * (last - first - 1)]


def _updated_output(block: Block, outcome: dict) -> str:
    """Return what a block's output should be: what it shows already, wherever that agrees."""
    expected = block.output or ""
    printed = outcome["stdout"].rstrip()
    return expected if shows(block, outcome) else merged(expected, printed, block.tolerance)


def _rewrite_output(block: Block, output: str, lines: list[str | None]) -> None:
    """Put an output under its block: a new one, between the marks of one that is Markdown, or in place of the old."""
    body = output.split("\n") if output else []
    fence = ticks(output)
    if block.output_span is None:
        lines[block.span[1] : block.span[1]] = ["", f"{fence}output", *body, fence]
    elif block.output_is_markdown:
        lines[slice(*block.output_span)] = ["", *body, ""]
    else:
        # With its fence, which may need more ticks now; a block that prints nothing loses both.
        # With its fence, which may need more ticks now; a block that prints nothing loses both.
        first, last = block.output_span[0] - 1, block.output_span[1] + 1
        lines[first:last] = [f"{fence}output", *body, fence] if body else []


def _rewrite_number(number: Number, value, lines: list[str | None]) -> None:
    """Write a number anew where it no longer rounds to what its expression gives."""
    if not isinstance(value, list) or len(value) != 1:
        return
    text = rewritten(number.written, value[0])
    if text is None or holds("=", read(number.written), value[0]):
        return
    line = lines[number.line - 1] or ""
    lines[number.line - 1] = line[: number.start] + text + line[number.start + len(number.written) :]
