"""Count what stands behind a page's numbers, for its foot and for the table of the whole book."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from galley import formulas
from galley.page import Page

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
    found = Counter(KINDS.get(number.operator, "bounded") for number in page.numbers)
    running = [block for block in page.blocks if block.runs]
    found["output"] = sum(block.output is not None or block.lang == "pycon" for block in running)
    found["figure"] = sum(len(block.figures) for block in running)
    tally = formulas.tally(page)
    found["formula"] = tally.get("read", 0) + tally.get("checked", 0)
    found["reason"] = tally.get("reason", 0)
    return found


def foot(found: Counter[str], link: str = "") -> str:
    """Return the line at the foot of a page, or nothing where there is nothing to count."""
    kinds = [kind for kind in NUMBERS if found[kind]]
    numbers = [_counted(found[kind], "" if n else "number", kind) for n, kind in enumerate(kinds)]
    parts = [", ".join(numbers)] * bool(numbers)
    parts += [_counted(found[key], noun, what) for key, (noun, what) in OTHERS.items() if found[key]]
    here = f"[On this page]({link})" if link else "On this page"
    return f'<p class="counts" data-search-exclude="" markdown="span">{here}: {"; ".join(parts)}.</p>' if parts else ""


def _counted(count: int, noun: str, what: str) -> str:
    return " ".join([f"{count:,}", *([noun + "s" * (count > 1)] if noun else []), what])


def table(pages: Iterable[tuple[str, Page]]) -> str:
    """Return the counts of pages, by their places in the book, as a Markdown table with a row for each part."""
    parts: dict[str, Counter[str]] = {}
    titles: dict[str, str] = {}
    for place, page in pages:
        path = PurePosixPath(place)
        part = path.parent.as_posix()
        parts.setdefault(part, Counter()).update(counts(page) + Counter(pages=1))
        if path.stem == "index" and part != ".":
            titles[part] = next((title for _, level, title, _ in page.headings if level == 1), "")
    shown = ["pages", *NUMBERS, *OTHERS]
    heads = ["Part", "Pages", *(kind.capitalize() for kind in NUMBERS), "Outputs", "Figures", "Formulas", "Reasons"]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * len(shown) + "|"]
    for part, found in sorted(parts.items(), key=lambda item: (item[0] == ".", item[0])):
        title = titles.get(part) or ("Pages of their own" if part == "." else PurePosixPath(part).name.capitalize())
        lines.append(_row(title, [found[kind] for kind in shown]))
    whole = sum(parts.values(), Counter())
    lines.append(_row("**The book**", [whole[kind] for kind in shown]))
    return "\n".join(["", '<div class="counts" markdown="1">', "", *lines, "", "</div>", "", _share(whole), ""])


def _share(whole: Counter[str]) -> str:
    """Return how many of the displayed formulas are checked, as a sentence."""
    checked, reasons = whole["formula"], whole["reason"]
    said = f"Of {checked + reasons:,} displayed formulas, {checked:,} are checked with numbers"
    return (said + "; each of the others says why it is not" * bool(reasons) + ".") * bool(checked + reasons)


def _row(title: str, cells: list[int]) -> str:
    return f"| {title} | {' | '.join(f'{count:,}' for count in cells)} |"
