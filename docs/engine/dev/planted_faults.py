"""Plant faults into the book's pages and see which the checker finds: python -m dev.planted_faults prints the table.

Ten kinds, fifteen faults each, drawn from all places of their kind by a fixed seed, at most one a page and kind as
long as there are pages; numbers in sentences in equal parts from each binding. A fault is found if the page has a
problem; without it, it has none. A change of code after which a page shows the same, letter by letter, is no fault.
"""

import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dev import ROOT
from galley.book import Book
from galley.check.compare import rewritten
from galley.check.sentences import VERDICT
from galley.read.notebook import SUFFIX
from galley.read.number import PRINTED, read
from galley.read.page import COMMENT, Page, parse

EACH = 15
SPARE = 15  # changes of code that are drawn beside these, for those that change nothing
PAIRS = """
    rises falls, rise fall, grows shrinks, grow shrink, climbs sinks, never always, best worst, better worse, more less,
    larger smaller, largest smallest, bigger smaller, closest farthest, higher lower, highest lowest, faster slower,
    fastest slowest, longer shorter, longest shortest, nearer farther, nearest farthest, wider narrower,
    strongest weakest, steeper flatter
"""
OPPOSITE = {word: other for pair in PAIRS.split(",") for word, other in (pair.split(), pair.split()[::-1])} | {
    "drops": "climbs",
    "fewer": "more",
}
SENTENCES = [
    "It takes 17.3 steps.",
    "The error is 1e-5 then.",
    "About 10³ rows are enough.",
    "At ½ it stops.",
    "A 70B model needs it.",
    "That is three times as long.",
    "It is 47,117 wide.",
    "The 12th row differs.",
    "From 5-100 it holds.",
    "It gains 5 percent.",
    "More than half of them agree.",
    "At step 500 it breaks.",
    "In 1/3 of all cases it holds.",
    "Below $10^{-7}$ it is noise.",
    "A dozen heads do.",
]
DRAWN = re.compile(r"\b(?:ax|axes|fig|plt|color|style|label|title|print|import|assert|seed|range|f\"|figsize)\b|[#\"']")


@dataclass
class Plant:
    """A fault: what stood at a line of a page, what stands there now, and the page with it."""

    kind: str
    page: str
    line: int
    was: str
    becomes: str
    text: str


EXACT = ("=", "cite", "given")
Site = tuple[int, int, str]  # where in the text, and what takes its place


def numbers(binding: str) -> Callable[[Page], Iterator[Site]]:
    """A digit of a number in a sentence with this binding; a bound is moved to the wrong side."""

    def find(page: Page) -> Iterator[Site]:
        starts = _starts(page)
        for number in page.numbers:
            digits = re.search(r"\d", number.written)
            if number.start < 0 or digits is None or number.written[0] in "`$*":
                continue
            kind = number.operator if number.operator in EXACT else "bound"
            if kind != binding:
                continue
            begin = starts[number.line - 1] + number.start
            changed = number.written.replace(digits[0], str((int(digits[0]) + 1) % 10 or 1), 1)
            if binding == "bound":
                factor = 0.1 if ">" in number.operator else 10.0
                changed = rewritten(number.written, factor * read(number.written).value) or ""
            if changed and changed != number.written and not re.search(r"^0+$", changed):
                yield begin, begin + len(number.written), changed

    return find


def outputs(page: Page) -> Iterator[Site]:
    """A digit of what a block prints."""
    starts = _starts(page)
    for block in page.blocks:
        if block.output_span and block.runs:
            begin, end = starts[block.output_span[0]], starts[block.output_span[1]]
            for match in PRINTED.finditer(page.text, begin, end):
                for place in range(match.start(), match.end()):
                    if page.text[place].isdecimal():
                        yield place, place + 1, str((int(page.text[place]) + 5) % 10)


def formulas(page: Page) -> Iterator[Site]:
    """A sign, a number or a function of a displayed formula."""
    swaps = {"+": "-", "-": "+", r"\sin": r"\cos", r"\cos": r"\sin"}
    for formula in re.finditer(r"\$\$.+?\$\$", page.text, re.S):
        for part in re.finditer(r"(?<=[\w})\]]) ?[-+](?= ?[\w\\])|\\sin\b|\\cos\b|(?<![\w{,])[2-9]\b", formula[0]):
            token = part[0].strip()
            changed = swaps.get(token) or str(int(token) + 1)
            yield formula.start() + part.start(), formula.start() + part.end(), part[0].replace(token, changed)


def words(page: Page) -> Iterator[Site]:
    """A word by which a caption says how its figure came out."""
    starts = _starts(page)
    for block in page.blocks:
        for figure in block.figures:
            begin = starts[figure.line] if figure.caption else 0
            for match in VERDICT.finditer(COMMENT.sub(lambda m: " " * len(m[0]), figure.caption)):
                other = OPPOSITE.get(match[0].lower())
                if other is not None:
                    yield begin + match.start(), begin + match.end(), other


def code(page: Page) -> Iterator[Site]:
    """A number, a sign or a function in a line of code that computes."""
    starts = _starts(page)
    swaps = {" + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", ".sin(": ".cos(", ".cos(": ".sin("}
    for block in page.blocks:
        for n, line in enumerate(block.code.split("\n")):
            if not block.runs or "raises" in block.options or DRAWN.search(line) or not re.search(r"[=]|return", line):
                continue
            for match in re.finditer(r" [-+*/] |\.(?:sin|cos)\(|(?<![\w.])[1-9]\d*\b(?![.\w])", line):
                changed = swaps.get(match[0]) or str(int(match[0]) + 1)
                yield starts[block.line - 1 + n] + match.start(), starts[block.line - 1 + n] + match.end(), changed


def links(page: Page) -> Iterator[Site]:
    """The file or the section that a link leads to."""
    for match in re.finditer(r"\]\((?![a-z]+:)([^)\s]*?)(\w)((?:\.(?:md|ipynb))?)\)", page.text):
        yield match.start(2), match.end(2), f"{match[2]}x"


def alt_texts(page: Page) -> Iterator[Site]:
    """A number in a figure's words, or all of them."""
    starts = _starts(page)
    for block in page.blocks:
        for figure in block.figures:
            begin = starts[figure.line - 1] + page.lines[figure.line - 1].index("[") + 1
            matches = [match for match in re.finditer(r"(?<![\w.,])\d{2,}\b(?!,)", figure.alt) if match[0] != "10"]
            for match in matches:
                yield begin + match.start(), begin + match.end(), str(int(match[0]) + 13)
            if not matches:
                yield begin, begin + len(figure.alt), ""


def citations(page: Page) -> Iterator[Site]:
    """The author, the year or the key of a work, or a number quoted from it."""
    for match in re.finditer(r"\[([A-Z]\w+)( et al\.|,| and \w+,?) \(?(\d{4})\)?\]\(", page.text):
        yield match.start(3), match.end(3), str(int(match[3]) - 1)
        yield match.start(1), match.end(1), "Miller"
    for match in re.finditer(r"(\d)<!-- cite: (\w+),", page.text):
        yield match.start(1), match.end(1), str((int(match[1]) + 1) % 10)
        yield match.start(2), match.end(2), f"{match[2]}b"


def unbound(page: Page) -> Iterator[Site]:
    """A sentence with a number behind which nothing stands, at the end of a paragraph."""
    for n, match in enumerate(re.finditer(r"(?<=[a-z])\.(?=\n\n[A-Z])", page.text)):
        if not any(match.start() in range(*_span(page, block)) for block in page.blocks):
            yield match.end(), match.end(), f" {SENTENCES[(len(page.text) + n) % len(SENTENCES)]}"


def labels(page: Page) -> Iterator[Site]:
    """The number of a chapter that a link names."""
    for match in re.finditer(r"\[(?:[Cc]hapter )?(\d)\.(\d)\b[^\]\n]*\]\((?![a-z]+:|#)", page.text):
        yield match.start(2), match.end(2), str(int(match[2]) % 5 + 1)


KINDS: dict[str, list[Callable[[Page], Iterator[Site]]]] = {
    "a number in a sentence": [numbers("="), numbers("bound"), numbers("cite"), numbers("given")],
    "an output": [outputs],
    "a displayed formula": [formulas],
    "a word of a caption": [words],
    "code": [code],
    "a link": [links],
    "a figure's words": [alt_texts],
    "a citation": [citations],
    "an unbound number": [unbound],
    "a chapter's label": [labels],
}


def plant(pages: dict[str, str], seed: int = 0) -> list[Plant]:
    """Return fifteen faults of each kind and some more of code, on as many pages as there are."""
    parsed = {name: parse(text) for name, text in pages.items() if not name.endswith(SUFFIX)}
    planted: list[Plant] = []
    for kind, finds in KINDS.items():
        chance = random.Random(f"{seed} {kind}")
        quotient, remainder = divmod(EACH, len(finds))
        for n, find in enumerate(finds):
            count = quotient
            if n < remainder:
                count += 1
            if kind == "code":
                count += SPARE
            planted += _of_kind(kind, find, parsed, chance, count)
    return planted


def _of_kind(kind: str, find: Callable, parsed: dict[str, Page], chance: random.Random, count: int) -> list[Plant]:
    sites = {name: list(find(page)) for name, page in parsed.items()}
    planted: list[Plant] = []
    while len(planted) < count and any(sites.values()):
        names = [name for name, left in sites.items() if left]
        for name in chance.sample(names, min(len(names), count - len(planted))):
            begin, end, becomes = sites[name].pop(chance.randrange(len(sites[name])))
            text = parsed[name].text
            line = text.count("\n", 0, begin) + 1
            planted.append(Plant(kind, name, line, text[begin:end], becomes, text[:begin] + becomes + text[end:]))
    return planted


def judge(planted: list[Plant]) -> tuple[list[Plant], list[bool]]:
    """Return the faults that count, and for each whether the checker finds it.

    Each page lies beside the one that it was made from.
    """
    aside = {f"{Path(p.page).with_suffix('')}~{n}.md": p for n, p in enumerate(planted)}
    book = Book(ROOT)
    whole = book.run(book.pages())
    results = book.run({name: p.text for name, p in aside.items()})
    counted: dict[str, list[tuple[Plant, bool]]] = {kind: [] for kind in KINDS}
    for name, p in aside.items():
        caught = bool(results[name].problems)
        if caught or p.kind != "code" or results[name].outcome_digest != whole[p.page].outcome_digest:
            counted[p.kind].append((p, caught))
    faults = [fault for kind in counted.values() for fault in kind[:EACH]]
    return [p for p, _ in faults], [caught for _, caught in faults]


def table(planted: list[Plant], caught: list[bool]) -> str:
    """Return the table as Markdown, and below it the faults that were not found."""
    lines = ["| Fault in | planted | found |", "|---|--:|--:|"]
    for kind in KINDS:
        hits = [hit for p, hit in zip(planted, caught, strict=True) if p.kind == kind]
        lines.append(f"| {kind} | {len(hits)} | {sum(hits)} |")
    lines += [f"| **all** | {len(caught)} | {sum(caught)} ({sum(caught) / len(caught):.0%}) |", ""]
    for p, hit in zip(planted, caught, strict=True):
        if not hit:
            lines.append(f"- not found: {p.kind}, {p.page}:{p.line}: `{p.was}` became `{p.becomes}`")
    return "\n".join(lines)


def _starts(page: Page) -> list[int]:
    starts = [0]
    for line in page.lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _span(page: Page, block) -> tuple[int, int]:
    starts = _starts(page)
    return starts[block.span[0]], starts[(block.output_span or block.span)[1]]


if __name__ == "__main__":
    faults = plant(Book(ROOT).pages(), int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(table(*judge(faults)))
