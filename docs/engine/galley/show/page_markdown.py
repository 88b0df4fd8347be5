"""Turn a page that has run into the Markdown that the builder renders.

Bound numbers become marks, block options and bindings of formulas go, what is built is put in, and code is folded as
`folds` says. Where a figure stands, an empty element waits for it: Markdown need not read what is drawn.
"""

import html
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import PurePosixPath

from galley.book import Book, Result
from galley.check.counts import MARKER
from galley.read.bindings import bound, home, shared_blocks
from galley.read.page import OPENINGS, OPTIONS, REGION_CLOSE, Block, is_caption
from galley.show import folds

Lines = list[str | None]  # of a page, with None where nothing is left
NARROW = 'data-narrow=""'  # where the address of a figure's narrow file is put in


def page_markdown(result: Result, book: Book) -> str:
    """Return what the builder renders of a page, from below its front matter."""
    page = result.page
    lines: Lines = [*page.lines]
    # What stands behind a formula goes. In a quote the mark stays, or the quote would end there.
    for formula in page.displayed:
        for n in range(*formula.span):
            lines[n] = ">" if page.lines[n].lstrip().startswith(">") else ""
    # A number is found by its place in its line, so the line must still be as it was read.
    homes = _mark_numbers(result, lines)
    _clear_comments(result, lines, book)
    for n, text in result.built_outputs.items():
        lines[n] = text
    for block in page.blocks:
        _place_figures(block, lines)
        _fold(block, lines, homes.get(block.line, ""))
    # The front matter is MkDocs' own to read.
    return "\n".join(line for line in lines[page.meta_lines :] if line is not None)


def figures(result: Result) -> Iterator[tuple[str, str, str]]:
    """Yield the element that waits for each figure of a page, the HTML of the figure, and its narrow SVG."""
    undrawn = "Being drawn" if result.waits else "Not drawn"
    by_block = result.by_block
    for block in result.page.blocks:
        outcome = by_block.get(block.line) or {}
        drawn = zip_longest(outcome.get("figures", []), outcome.get("narrow", []), fillvalue="")
        for n, (figure, svgs) in enumerate(zip_longest(block.figures, drawn)):
            if figure is None or not block.runs:
                break
            wide, narrow = svgs or ("", "")
            label = html.escape(" ".join(figure.alt.split()))
            content = _still(wide, narrow, label, block, outcome) if wide else _frame(undrawn, label)
            yield _waiting(block, n), content, narrow and _labeled(narrow, label)


def _waiting(block: Block, n: int) -> str:
    """Return the empty element in which figure `n` of a block is put when the page has been rendered."""
    return f'<div data-figure="{block.line}-{n}"></div>'


def _mark_numbers(result: Result, lines: Lines) -> dict[int, str]:
    """Put a mark around each bound number, with its expression and the block that gives its value.

    Return the anchors of these blocks by their lines. Later numbers come first, as those before them move nothing.
    """
    blocks = [(block, bound(block)[0]) for block in shared_blocks(result.page)]
    anchors = {block.line: f"code-{n}" for n, (block, _) in enumerate(blocks, 1)}
    homes: dict[int, str] = {}
    for number in sorted(result.page.numbers, key=lambda n: (n.line, n.start), reverse=True):
        line = lines[number.line - 1]
        # A number in words, such as `two thirds`, may begin on the line before that of its binding.
        if line is None or number.start < 0:
            continue
        why = number.body if number.operator == "=" else f"{number.operator} {number.body}"
        # Markdown reads these marks in an attribute too: a | would end the cell of a table, and a ` begin code.
        escaped = re.sub(r"[$|_*\[\]`\\]", lambda mark: f"&#{ord(mark[0])};", html.escape(why))
        marked = number.written
        if marked and number.operator != "given":
            block = home(number, blocks)
            code = f' data-code="{anchors[block.line]}"' if block else ""
            if block:
                homes[block.line] = anchors[block.line]
            marked = f'<span class="checked" data-expression="{escaped}"{code}>{marked}</span>'
        lines[number.line - 1] = line[: number.start] + marked + line[number.end :]
    return homes


def _clear_comments(result: Result, lines: Lines, book: Book) -> None:
    """Take away what only the engine reads, and put in the table of counts."""
    fenced = {n for block in result.page.blocks for n in range(*block.span)}
    for n, line in enumerate(result.page.lines):
        if n not in fenced and (OPTIONS.match(line) or line.strip() in (*OPENINGS, REGION_CLOSE)):
            lines[n] = ""
        elif n not in fenced and MARKER.match(line):
            lines[n] = book.counts()


def _place_figures(block: Block, lines: Lines) -> None:
    """Put a figure with its caption in the place of each image line, and take the lines of the caption away."""
    # An image under code that is only shown is an image like any other.
    for n, figure in enumerate(block.figures if block.runs else ()):
        below = figure.line
        caption = []
        while below < len(lines) and is_caption(lines[below] or ""):
            caption.append(re.sub(r"^\s*[*_]|[*_]\s*$", "", lines[below] or ""))
            lines[below] = None
            below += 1
        figcaption = f'\n<figcaption markdown="span">{" ".join(caption)}</figcaption>' if caption else ""
        content = f"{_waiting(block, n)}\n{figcaption}"
        # The name of its file is the figure's address on the page.
        opening = f'<figure class="drawn" id="fig-{PurePosixPath(figure.src).stem}" markdown="1">'
        lines[figure.line - 1] = f"\n{opening}\n\n{content}\n</figure>\n"


def _fold(block: Block, lines: Lines, anchor: str) -> None:
    """Fold a block's code, below what it has drawn or printed as Markdown; `anchor` is what numbers lead to it by."""
    title = folds.label(block)
    code = "\n".join(lines[n] or "" for n in range(*block.span))
    if not title:
        first = lines[block.span[0]] or ""
        if anchor and not first.startswith((" ", "\t", ">")):
            lines[block.span[0]] = f'\n<div id="{anchor}"></div>\n\n{first}'
        return
    named = f' id="{anchor}"' if anchor else ""
    opening = (
        f'<details class="fold"{named} markdown="1" data-search-exclude=""><summary>{html.escape(title)}</summary>'
    )
    folded = f"\n{opening}\n\n{code}\n\n</details>\n"
    for n in range(*block.span):
        lines[n] = None
    # The last line of the code, of a figure or of printed Markdown: the fold goes under it.
    ends = [block.span[0], *(figure.line - 1 for figure in block.figures)]
    if block.output_is_markdown and block.output_span:
        ends.append(block.output_span[1])
    above = lines[max(ends)] or ""
    lines[max(ends)] = f"{above}\n{folded}"


def _frame(why: str, label: str) -> str:
    """Return what stands in place of a figure that is not there: why, and what it would show."""
    text = f"<strong>{why}</strong><br>{label}"
    return f'<div class="drawn-svg undrawn" role="img" aria-label="{label}">{text}</div>'


def _labeled(svg: str, label: str) -> str:
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def _still(svg: str, narrow: str, label: str, block: Block, outcome: dict) -> str:
    """Return a figure; one that is live, within the element that brings it to life."""
    shapes = f"--shape:{_shape(svg):.3g}" + (f";--narrow-shape:{_shape(narrow):.3g}" if narrow else "")
    waits = f" {NARROW}" if narrow else ""
    still = f'<div class="drawn-svg" style="{shapes}"{waits}>{_labeled(svg, label)}</div>'
    if "live" not in block.options:
        return still
    # JSON is full of double quotes. Between single ones only these and the ampersand need another form.
    data = outcome.get("data", "null").replace("&", "&amp;").replace("'", "&#39;")
    return f"<posenc-figure name='{block.options['live']}' data='{data}'>{still}</posenc-figure>"


def _shape(svg: str) -> float:
    """Return the height of a figure as a share of its width: the room that it takes before it is drawn."""
    size = re.search(r'viewBox="[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)"', svg)
    return float(size[2]) / float(size[1]) if size else 0.5
