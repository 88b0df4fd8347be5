"""Count the images in the prose of main lines: words such as hand or toll, where the field has a term.

python -m dev.words             each page's images in a thousand words, and which they are
python -m dev.words --update    write the counts that fell into tests/pages/images.csv
"""

import csv
import re
import sys
from collections import Counter
from pathlib import Path

from dev import ROOT
from dev.page_form import depth, prose
from galley.book import Book
from galley.read.notebook import read
from galley.read.page import Page

COUNTS = ROOT / "tests" / "pages" / "images.csv"
STARTS = ("docs/index.md", "docs/start/tour.md", "docs/start/ten-minutes.md")
# A pair of channels, a rotation, a position, a bias, a kind of encoding, a model, a query or key, in other clothes.
IMAGE = re.compile(
    r"\b(?:hands?|arrows?|clocks?|dials?|wedges?|turn(?:s|ed|ing)?|places?|seats?|tolls?|tariffs?|prices?|charges?|fees?"
    r"|doors?|stretch(?:es|ed|ing)?|readers?|asks?|offers?|hears?|heard|listens?|blind|unfinished|loud(?:er|est)?"
    r"|rulers?|streets?|zoos?|pages?)\b",
    re.I,
)
# What is no image: a page of this book, to be in place of something, by hand, in turn.
PLAIN = re.compile(
    r"\b(?:this|the next|each|a|every|its|our|of the|on the|these) pages?\b|\bin (?:its |their )?places? of\b"
    r"|\bin place\b|\b(?:takes?|took) place\b|\bby hand\b|\bon the (?:one|other) hand\b|\bin turn\b"
    r"|\bfor readers\b|\ba reader\b",
    re.I,
)


def pages() -> dict[str, Page]:
    """Return the pages with a main line: the home page, the two starts, and all chapters."""
    texts = Book(ROOT).pages()
    names = [name for name in texts if name.startswith("docs/chapters/") or name in STARTS]
    return {name: read(name, texts[name]) for name in names}


def main_text(page: Page) -> str:
    """Return the prose above the depth, with its headings, without code, formulas and tables."""
    return prose("\n".join(page.lines[page.meta_lines : depth(page) - 1]))


def images(text: str) -> Counter[str]:
    """Count the images of a text."""
    return Counter(match.lower() for match in IMAGE.findall(PLAIN.sub("", text)))


def rate(page: Page) -> float:
    """Return how many images there are in a thousand words."""
    text = main_text(page)
    return 1000 * images(text).total() / max(1, len(text.split()))


def stored() -> dict[str, float]:
    """Return the rates that no page may exceed."""
    with COUNTS.open(encoding="utf-8", newline="") as file:
        return {row["page"]: float(row["images"]) for row in csv.DictReader(file)}


def update() -> None:
    """Write the rates anew; none of them rises."""
    known = stored() if COUNTS.exists() else {}
    rates = {name: min(round(rate(page) + 0.05, 1), known.get(name, 1000.0)) for name, page in pages().items()}
    with COUNTS.open("w", encoding="utf-8", newline="\n") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("page", "images"), *rates.items()])


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    for name, page in pages().items():
        common = ", ".join(f"{word} {n}" for word, n in images(main_text(page)).most_common(6))
        print(f"{Path(name).stem:28} {rate(page):5.1f}  {common}")
