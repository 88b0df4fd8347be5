"""Count what stands behind a page's numbers, for its foot and for the table of the whole book."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from galley.read.page import Page

MARKER = re.compile(r"^<!--\s*galley:\s*counts\s*-->\s*$")
KINDS = {"=": "computed", "cite": "cited", "given": "given"}  # any other operator bounds a number
NUMBERS = ("computed", "bounded", "cited", "given")
OTHERS = {  # what is counted beside numbers, and what is said of it
    "output": ("output", "compared"),
    "figure": ("figure", "drawn"),
    "formula": ("formula", "checked"),
    "reason": ("formula", "with a reason instead"),
}


def counts(page: Page) -> Counter[str]:
    """Return how many numbers, outputs, figures and displayed formulas a page holds, by what stands behind them."""
    tally = Counter(KINDS.get(number.operator, "bounded") for number in page.numbers)
    running = [block for block in page.blocks if block.runs]
    tally["output"] = sum(block.output is not None or block.lang == "pycon" for block in running)
    tally["figure"] = sum(len(block.figures) for block in running)
    tally["formula"] = sum(formula.runs for formula in page.displayed)
    tally["reason"] = sum(formula.kind == "reason" for formula in page.displayed)
    return tally


def in_words(tally: Counter[str]) -> str:
    """Return the counts of a page as its foot says them, or nothing where there is nothing to count."""
    parts = []
    kinds = [kind for kind in NUMBERS if tally[kind]]
    if kinds:
        # The noun stands once, with the first kind: `12 numbers computed, 3 cited`.
        first, *others = kinds
        numbers = [_counted(tally[first], "number", first), *(f"{tally[kind]:,} {kind}" for kind in others)]
        parts.append(", ".join(numbers))
    parts += [_counted(tally[key], noun, state) for key, (noun, state) in OTHERS.items() if tally[key]]
    return "; ".join(parts)


def _counted(count: int, noun: str, state: str) -> str:
    plural = "s" if count > 1 else ""
    return f"{count:,} {noun}{plural} {state}"


def table(pages: Iterable[tuple[str, Page]]) -> str:
    """Return the counts of pages, by their places in the book, as a Markdown table with a row for each part."""
    parts: dict[str, Counter[str]] = {}
    titles: dict[str, str] = {}
    for place, page in pages:
        path = PurePosixPath(place)
        part = path.parent.as_posix()
        parts.setdefault(part, Counter()).update(counts(page) + Counter(pages=1))
        # A part has its name from its own index. The index of the whole book stands among the pages without a part.
        if path.stem == "index" and part != ".":
            titles[part] = next((title for _, level, title, _ in page.headings if level == 1), "")
    columns = ["pages", *NUMBERS, *OTHERS]
    heads = ["Part", "Pages", *(kind.capitalize() for kind in NUMBERS), "Outputs", "Figures", "Formulas", "Reasons"]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * len(columns) + "|"]
    # The parts stand in the order of their folders; pages in none, which pathlib calls ".", come last.
    for part, tally in sorted(parts.items(), key=lambda item: (item[0] == ".", item[0])):
        title = titles.get(part) or ("Pages of their own" if part == "." else PurePosixPath(part).name.capitalize())
        lines.append(_row(title, [tally[kind] for kind in columns]))
    total = sum(parts.values(), Counter())
    lines.append(_row("**The book**", [total[kind] for kind in columns]))
    return "\n".join(["", '<div class="counts" markdown="1">', "", *lines, "", "</div>", "", _share(total), ""])


def _share(total: Counter[str]) -> str:
    """Return how many of the displayed formulas are checked, as a sentence."""
    checked, reasons = total["formula"], total["reason"]
    if not checked + reasons:
        return ""
    others = "; each of the others says why it is not" if reasons else ""
    return f"Of {checked + reasons:,} displayed formulas, {checked:,} are checked with numbers{others}."


def _row(title: str, cells: list[int]) -> str:
    return f"| {title} | {' | '.join(f'{count:,}' for count in cells)} |"
