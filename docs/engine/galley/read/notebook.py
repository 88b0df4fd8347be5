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
LINE = re.compile(r'(File "[^"]*\.ipynb", |the block at )line (\d+)')


def read(name: str, text: str) -> Page:
    """Read the file of a page, Markdown or by its name a notebook; what it says is Markdown either way."""
    if not name.endswith(SUFFIX):
        return parse(text)
    try:
        lines, spans, strange = _markdown(json.loads(text)["cells"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        lines, spans, strange = [""], [], [Problem(1, f"this is no notebook of Jupyter's format 4: {error!r}")]
    page = parse("\n".join(lines))
    page.source, page.cells = text, spans
    own = {cell.span[0] + 1 for cell in spans}
    fenced = [block.line for block in page.blocks if block.runs and block.line not in own]
    page.problems += strange + [Problem(line, "code that runs needs a cell of its own") for line in fenced]
    return page


def where(page: Page, line: int) -> str:
    """Return where a line of the page's Markdown stands: `12`, or ` cell 3, line 2` of a notebook."""
    before = [cell for cell in page.cells if cell.span[0] < line]
    if not before:
        return str(line)
    begin, end = before[-1].span
    return f" cell {before[-1].number}, " + (f"line {line - begin}" if line <= end else "output")


def placed(page: Page, message: str) -> str:
    """Return a message with the lines that it names put as `where` puts them."""
    return LINE.sub(lambda m: m[1] + where(page, int(m[2])).strip(), message) if page.cells else message


def written(page: Page, lines: list[str | None], printed: dict[int, str]) -> str:
    """Return the notebook with what changed: `lines` for the page's own, and outputs by the line of their block."""
    import nbformat

    book = json.loads(page.source)
    changed = False
    for place in page.cells:
        cell, (begin, end) = book["cells"][place.number - 1], place.span
        if cell["cell_type"] == "code" and begin + 1 in printed:
            text = printed[begin + 1]
            outputs = [{"output_type": "stream", "name": "stdout", "text": text + "\n"}] if text else []
            if _strange(cell) or _printed(cell) != text or cell.get("execution_count"):
                cell["outputs"], cell["execution_count"], changed = outputs, None, True
        elif edits := {n: lines[n] for n in range(begin, end) if lines[n] != page.lines[n]}:
            own = enumerate(_text(cell["source"]).split("\n"), begin)
            cell["source"], changed = "\n".join(t for n, old in own if (t := edits.get(n, old)) is not None), True
    return nbformat.v4.writes(nbformat.from_dict(book)) + "\n" if changed else page.source


def _markdown(cells: list[dict]) -> tuple[list[str], list[Cell], list[Problem]]:
    """Return the page's lines, where in them each cell stands, and what cells hold that no page can check."""
    lines: list[str] = []
    spans, problems = [], []
    for number, cell in enumerate(cells, 1):
        code, kind = _text(cell["source"]), cell["cell_type"]
        if not code.strip() or (kind == "raw" and number > 1):
            continue
        fence = ticks(code)
        if kind == "code":
            lines.append(f"{fence}python")
        source = (code if kind == "code" else IMAGE.sub(r"\1", code)).split("\n")
        spans.append(Cell(number, (len(lines), len(lines) + len(source))))
        lines += source
        if kind == "code":
            lines += [fence, ""]
            lines += _output(cell)
            if strange := _strange(cell):
                advice = "only what a cell prints is kept and compared; the update command removes the rest"
                problems.append(Problem(spans[-1].span[0] + 1, f"this cell keeps {strange}; {advice}"))
        lines.append("")
    return lines, spans, problems


def _output(cell: dict) -> list[str]:
    text = _printed(cell)
    if not text:
        return []
    if "markdown" in cell.get("metadata", {}).get("tags", []):
        return [REGION_OPEN, "", *text.split("\n"), "", REGION_CLOSE, ""]
    return [f"{ticks(text)}output", *text.split("\n"), ticks(text), ""]


def _printed(cell: dict) -> str:
    """Return what a cell prints, and the error that Jupyter keeps apart."""
    texts = [_text(output["text"]) for output in cell["outputs"] if output.get("name") == "stdout"]
    texts += [f"{output['ename']}: {output['evalue']}" for output in cell["outputs"] if "ename" in output]
    return "".join(texts).rstrip()


def _strange(cell: dict) -> str:
    """Return the first kind of output of a cell that is not printed text."""
    kinds = (output.get("name", output["output_type"]) for output in cell["outputs"] if "ename" not in output)
    return next((kind for kind in kinds if kind != "stdout"), "")


def _text(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)
