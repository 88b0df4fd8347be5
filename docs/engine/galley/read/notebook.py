"""Read a page that is a notebook as the Markdown of any other page, and write back what its code gives.

A first raw cell is the front matter. A Markdown cell is prose; its last line may hold the options of the code cell
below. A code cell is a block of Python, and what it printed is the output that the page shows: as Markdown, if the cell
has the tag `markdown`. Image line and caption of a figure open the Markdown cell below, the line within a comment,
since Jupyter shows the figure itself. Nothing else that a cell has shown is kept: the build draws figures anew.
"""

import json
import re

from galley.read.page import REGION_CLOSE, REGION_OPEN, Cell, Page, Problem, parse, ticks

SUFFIX = ".ipynb"
IMAGE = re.compile(r"^<!--\s*(!\[[^\]]*\]\([^)\s]+\.svg\))\s*-->[ \t]*$", re.M)
# The two ways in which a message names a line: a traceback of Python, and the checks of the engine.
NAMED_LINE = re.compile(r'(File "[^"]*\.ipynb", |the block at )line (\d+)')


def read(name: str, text: str) -> Page:
    """Read the file of a page, Markdown or by its name a notebook; what it says is Markdown either way."""
    if not name.endswith(SUFFIX):
        return parse(text)
    try:
        lines, cells, problems = _markdown(json.loads(text)["cells"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Any JSON may stand in the file, so each way in which it can differ from a notebook is one problem.
        problem = Problem(1, f"this is no notebook of Jupyter's format 4: {error!r}")
        lines, cells, problems = [""], [], [problem]
    page = parse("\n".join(lines))
    page.source = text
    page.cells = cells
    # A fence in a Markdown cell would run here, and not in Jupyter.
    code_lines = {cell.span[0] + 1 for cell in cells}
    fenced = [block.line for block in page.blocks if block.runs and block.line not in code_lines]
    page.problems += problems + [Problem(line, "code that runs needs a cell of its own") for line in fenced]
    return page


def where(page: Page, line: int) -> str:
    """Return where a line of the page's Markdown stands: `12`, or ` cell 3, line 2` of a notebook."""
    before = [cell for cell in page.cells if cell.span[0] < line]
    if not before:
        return str(line)
    begin, end = before[-1].span
    # The Markdown of a page has what a cell prints below its code: a line past the span stands in it.
    return f" cell {before[-1].number}, " + (f"line {line - begin}" if line <= end else "output")


def placed(page: Page, message: str) -> str:
    """Return a message with the lines that it names put as `where` puts them."""
    if not page.cells:
        return message
    return NAMED_LINE.sub(lambda m: m[1] + where(page, int(m[2])).strip(), message)


def written(page: Page, lines: list[str | None], printed: dict[int, str]) -> str:
    """Return the notebook with what changed: `lines` for the page's own, and outputs by the line of their block."""
    import nbformat

    book = json.loads(page.source)
    changed = False
    for place in page.cells:
        cell = book["cells"][place.number - 1]
        # A block counts its lines from 1, a span from 0.
        line = place.span[0] + 1
        if cell["cell_type"] == "code" and line in printed:
            rewritten = _set_output(cell, printed[line])
        else:
            rewritten = _set_source(cell, place, page, lines)
        changed = changed or rewritten
    # An unchanged file keeps its bytes: nbformat may lay the same JSON out in another way.
    return nbformat.v4.writes(nbformat.from_dict(book)) + "\n" if changed else page.source


def _set_output(cell: dict, text: str) -> bool:
    """Let a cell hold `text` as its only output, and tell whether that is a change."""
    if not _unprinted(cell) and _printed(cell) == text and not cell.get("execution_count"):
        return False
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text + "\n"}] if text else []
    # The counter tells how often Jupyter ran the cell, which says nothing of the page.
    cell["execution_count"] = None
    return True


def _set_source(cell: dict, place: Cell, page: Page, lines: list[str | None]) -> bool:
    """Write the lines that differ from the page's own into a cell, and tell whether there are any."""
    begin, end = place.span
    edits = {n: lines[n] for n in range(begin, end) if lines[n] != page.lines[n]}
    if not edits:
        return False
    # The other lines are those of the file: the page's lack the comments around its image lines.
    edited = [edits.get(n, line) for n, line in enumerate(_text(cell["source"]).split("\n"), begin)]
    cell["source"] = "\n".join(line for line in edited if line is not None)
    return True


def _markdown(cells: list[dict]) -> tuple[list[str], list[Cell], list[Problem]]:
    """Return the page's lines, where in them each cell stands, and what cells hold that no page can check."""
    lines: list[str] = []
    places: list[Cell] = []
    problems: list[Problem] = []
    for number, cell in enumerate(cells, 1):
        source = _text(cell["source"])
        is_code = cell["cell_type"] == "code"
        # Only the first raw cell is part of the page: its front matter.
        if not source.strip() or (cell["cell_type"] == "raw" and number > 1):
            continue
        if is_code:
            lines.append(f"{ticks(source)}python")
        shown = (source if is_code else IMAGE.sub(r"\1", source)).split("\n")
        places.append(Cell(number, (len(lines), len(lines) + len(shown))))
        lines += shown
        if is_code:
            lines += [ticks(source), "", *_output(cell)]
            if kind := _unprinted(cell):
                advice = "only what a cell prints is kept and compared; the update command removes the rest"
                problems.append(Problem(places[-1].span[0] + 1, f"this cell keeps {kind}; {advice}"))
        # Without a blank line the prose of two cells would be one paragraph.
        lines.append("")
    return lines, places, problems


def _output(cell: dict) -> list[str]:
    """Return what a cell prints as the lines under a block of a page."""
    text = _printed(cell)
    if not text:
        return []
    if "markdown" in cell.get("metadata", {}).get("tags", []):
        return [REGION_OPEN, "", *text.split("\n"), "", REGION_CLOSE, ""]
    return [f"{ticks(text)}output", *text.split("\n"), ticks(text), ""]


def _printed(cell: dict) -> str:
    """Return what a cell prints, and the error that Jupyter keeps apart."""
    texts = [_text(output["text"]) for output in cell["outputs"] if output.get("name") == "stdout"]
    # A page prints a raised error as its last line; Jupyter has an output of its own for it.
    texts += [f"{output['ename']}: {output['evalue']}" for output in cell["outputs"] if "ename" in output]
    return "".join(texts).rstrip()


def _unprinted(cell: dict) -> str:
    """Return the first kind of output of a cell that is neither printed text nor an error."""
    kinds = (output.get("name", output["output_type"]) for output in cell["outputs"] if "ename" not in output)
    return next((kind for kind in kinds if kind != "stdout"), "")


def _text(source: str | list[str]) -> str:
    """Return a text of the file, which the format allows to be one string or a list of lines."""
    return source if isinstance(source, str) else "".join(source)
