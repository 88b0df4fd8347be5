"""Measure a chapter: the main line that is read in ten minutes, and the depth below it.

python -m dev.page_form derivation    words, lines of code, figures and folds of a chapter's main line
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from dev import ROOT
from galley.book import Book
from galley.read.notebook import read
from galley.read.page import Block, Page
from galley.show import folds

DETAILS = re.compile(r"<details\b.*?</details>", re.S)
CODE = r"^(`{3,}).*?^\1\s*$|<!-- output(?:: built)? -->.*?<!-- /output -->|<!--.*?-->"  # and what it prints
OTHER = r"\$\$.*?\$\$|^\|.*?$|^!\[.*?\]\(\S+\)$"  # formulas, tables, the words of a figure for those who do not see it
UNREAD = re.compile(f"{CODE}|{OTHER}", re.S | re.M)
TARGET = re.compile(r"\]\([^)]*\)")
WORD = re.compile(r"[^\W_]+(?:['\u2019.,-][^\W_]+)*")


@dataclass
class MainLine:
    """What a reader meets between a chapter's title and its heading Depth."""

    answer: int
    words: int
    code: int
    figures: int
    live: int
    bets: int

    @property
    def minutes(self) -> float:
        """How long it takes: 200 words a minute, 5 s a line of code, 30 s a figure."""
        return self.words / 200 + self.code / 12 + self.figures / 2


def chapters() -> dict[str, Page]:
    """Return all chapters by name."""
    pages = Book(ROOT).pages()
    names = [n for n in pages if n.startswith("docs/chapters/") and not n.endswith("index.md")]
    return {name: read(name, pages[name]) for name in names}


def depth(page: Page) -> int:
    """Return the line of the heading Depth, or one behind the end."""
    starts = (line for line, level, title, _ in page.headings if (level, title) == (2, "Depth"))
    return next(starts, len(page.lines) + 1)


def main_line(page: Page) -> MainLine:
    """Measure what stands above the depth."""
    end = depth(page)
    text = "\n".join(page.lines[page.meta_lines : end - 1])
    unfolded = DETAILS.sub("", text)
    answers = folds.in_details(page)
    blocks = [block for block in page.blocks if block.line < end and block.line not in answers]
    figures = [block for block in blocks if block.figures]
    return MainLine(
        answer=words(next((part for part in text.split("\n\n") if part.startswith("**In short.**")), "")),
        words=words(unfolded),
        code=sum(lines(block) for block in blocks if not folds.label(block)),
        figures=sum(len(block.figures) for block in figures),
        live=sum("live" in block.options for block in figures),
        bets=text.count("**Bet first.**"),
    )


def words(text: str) -> int:
    """Count the words that are read."""
    return len(WORD.findall(prose(text)))


def prose(text: str) -> str:
    """Return what is read of a text: no code, outputs, comments, formulas, tables, nor addresses of links."""
    return TARGET.sub("", UNREAD.sub("", text))


def lines(block: Block) -> int:
    """Count the lines of code, without those that are empty."""
    return sum(bool(line.strip()) for line in block.code.split("\n"))


def asserting(page: Page) -> list[Block]:
    """Return the open blocks that show nothing and assert in half of their lines or more."""
    answers = folds.in_details(page)
    return [block for block in page.blocks if block.line not in answers and _mostly_asserts(block)]


def _mostly_asserts(block: Block) -> bool:
    if folds.label(block) or not block.runs:
        return False
    if block.output is not None or block.figures or "standalone" in block.options:
        return False
    statements = [line.strip() for line in block.code.split("\n") if line.strip()]
    asserts = sum(line.startswith("assert") for line in statements)
    return 2 * asserts >= len(statements)


if __name__ == "__main__":
    for name, page in chapters().items():
        if any(wanted in name for wanted in sys.argv[1:]) or not sys.argv[1:]:
            measures = main_line(page)
            print(f"{Path(name).stem:28} {measures.minutes:4.1f} min  {measures}")
            print(*(f"    line {line}: {n} is bound only in a fold" for line, n in folds.unseen(page)), sep="\n")
            print(*(f"    line {block.line}: mostly asserts" for block in asserting(page)), sep="\n")
