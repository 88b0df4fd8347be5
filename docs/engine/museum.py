"""The museum of the book: the entries that its halls hold, what its entrance shows of them, and their labels.

It is a Python-Markdown extension too, which puts the label in place of the line that describes an entry.
"""

import html
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

from galley.read.page import Block, parse

LINE = re.compile(r"^<!--\s*entry:\s*(?P<fields>.*?)\s*-->\s*$")
# The halls in the order of a visit.
HALLS = (
    "order", "sinusoids", "tables", "rotations", "long-texts", "biases", "bugs-formulas", "bugs-caches", "bugs-systems",
)  # fmt: skip
# The tags that entries may have; a test refuses others.
TAGS = (
    "order", "mask", "sinusoidal", "learned", "rope", "alibi", "bias", "pope", "long context",
    "precision", "cache", "padding", "vision", "scaling", "code", "history", "training",
)  # fmt: skip
CLAIM = "> **Claim."  # how the quote of a myth begins
THREAD = re.compile(r"https://github\.com/(?P<repo>[\w.-]+/[\w.-]+)/(?:issues|pull|commit|discussions)/\w+")
LONG = 120  # letters of a message on a label
FINDER = (
    '<div class="finder" data-script="finder" data-noun="entries" data-label="Entries of the museum" '
    'data-hint="cache, bfloat16, transformers …" data-facets=\'[{"name": "kind", "column": 1, "one": true, '
    '"plural": true}, {"name": "tag", "column": 2}]\' markdown="1">'
)


@dataclass
class Entry:
    """A false claim or a bug: where it stands, what it concerns, and the text and the blocks below its heading."""

    hall: str
    hall_title: str
    title: str
    anchor: str
    line: int
    rows: list[str]
    tags: list[str]
    text: str
    blocks: list[Block]

    @property
    def kind(self) -> str:
        """What the entry shows: something said wrongly, or something programmed wrongly."""
        return "bug" if self.hall.startswith("bugs-") else "myth"

    @property
    def quote(self) -> str:
        """The claim or the bug as the entry states it, with the places where it was met."""
        lines = [line for line in self.text.split("\n") if line.startswith(">")]
        return " ".join(line.lstrip("> ") for line in lines)

    @property
    def failure(self) -> str:
        """What the build saw when it ran the first block."""
        output = next((block.output for block in self.blocks if block.output), None) or ""
        # The error is the last line. Of an assertion the message alone tells something.
        return output.strip().rpartition("\n")[2].removeprefix("AssertionError: ")

    @property
    def threads(self) -> dict[str, str]:
        """The public threads that the entry links to: repository to address, the first of each."""
        threads: dict[str, str] = {}
        for match in THREAD.finditer(self.text):
            threads.setdefault(match["repo"], match[0])
        return threads


def read(folder: Path) -> list[Entry]:
    """Return the entries of all halls in the order of a visit; the entrance itself, index.md, is none."""
    paths = [path for path in folder.glob("*.md") if path.stem != "index"]
    # A hall that is not in the list yet comes last.
    place = {name: n for n, name in enumerate(HALLS)}
    paths.sort(key=lambda path: (place.get(path.stem, len(place)), path.stem))
    return [entry for path in paths for entry in entries(path.stem, path.read_text(encoding="utf-8"))]


def entries(hall: str, text: str) -> list[Entry]:
    """Return the entries of one hall: each heading of level 2 with an entry line under it."""
    page = parse(text)
    # An entry ends before the next heading of its level or above, or where the page ends.
    ends = [line for line, level, *_ in page.headings if level <= 2] + [len(page.lines) + 1]
    hall_title = next((title for _, level, title, _ in page.headings if level == 1), hall)
    entries_of_hall = []
    for line, level, title, anchor in page.headings:
        end = min(later for later in ends if later > line)
        body = page.lines[line : end - 1]
        first = next((text_line for text_line in body if text_line.strip()), "")
        if level != 2 or not LINE.match(first):
            continue
        fields = _fields(first)
        if not anchor or set(fields) != {"rows", "tags"}:
            raise ValueError(f'{hall}.md:{line}: an entry needs {{#anchor}}, and rows="…" tags="…" under its heading')
        blocks = [block for block in page.blocks if line < block.line < end]
        where = (hall, hall_title, title, anchor, line)
        entries_of_hall.append(Entry(*where, fields["rows"].split(), _tags(fields), "\n".join(body), blocks))
    return entries_of_hall


def _fields(line: str) -> dict[str, str]:
    """Return the fields of an entry line: its rows and its tags."""
    mark = LINE.match(line)
    try:
        fields = shlex.split(mark["fields"]) if mark else []
    except ValueError:
        # A quote is not closed. The line then has none of its fields, and `entries` says what it needs.
        return {}
    return dict(word.split("=", 1) for word in fields if "=" in word)


def _tags(fields: dict[str, str]) -> list[str]:
    return [tag.strip() for tag in fields.get("tags", "").split(",")]


def label(line: str, is_myth: bool = False) -> str:
    """Return what a hall shows for an entry line: its tags, each a link to the entries that share it.

    The heading of a myth states what is false; where the search shows it, without its entry, it says that it is a myth.
    """
    tags = _tags(_fields(line))
    # The finder at the entrance reads the tag from the address.
    links = [f"[{tag}](index.md?tag={tag.replace(' ', '+')}#find-an-entry){{ .md-tag }}" for tag in tags]
    prefix = "data-search-prefix='Myth: ' " if is_myth else ""
    return f"\n{' '.join(links)}\n{{: .exhibit data-search-exclude='' {prefix}}}\n"


def plan(entries: list[Entry]) -> str:
    """Return the halls as a Markdown list: name, number of entries, and a frame for each on the wall."""
    lines = []
    for hall in dict.fromkeys(entry.hall for entry in entries):
        in_hall = [entry for entry in entries if entry.hall == hall]
        first = in_hall[0]
        plural = "s" if len(in_hall) > 1 else ""
        # A screen reader would read nothing from empty frames; the count says the same.
        wall = f'<span class="wall {first.kind}" aria-hidden="true">{"<i></i>" * len(in_hall)}</span>'
        lines.append(f"- {wall} [{first.hall_title}]({hall}.md) {len(in_hall)} {first.kind}{plural}")
    return "\n".join(lines)


def finder(entries: list[Entry]) -> str:
    """Return the table of all entries, in the element that a script gives a search box and buttons."""
    return f"{FINDER}\n\n{table(entries)}\n\n</div>"


def table(entries: list[Entry]) -> str:
    """Return all entries as a Markdown table, each linked to its place, with what the build saw."""
    lines = ["| Entry | Kind | Tags | Hall | Met in |", "|---|---|---|---|---|"]
    for entry in entries:
        title = f"**[{entry.title}]({entry.hall}.md#{entry.anchor})**"
        threads = ", ".join(f"[{repo}]({url})" for repo, url in entry.threads.items())
        hall = f"[{entry.hall_title}]({entry.hall}.md)"
        cells = [f"{title}<br>{_message(entry.failure)}", entry.kind, ", ".join(entry.tags), hall, threads]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _message(message: str) -> str:
    """Return a message as text that Markdown leaves alone, cut where it is long."""
    if len(message) > LONG:
        message = message[:LONG].rpartition(" ")[0] + " …"
    # A message may hold any mark of Markdown; as entities they neither begin emphasis nor end the cell of the table.
    plain = re.sub(r"[\\`*_{}\[\]()#+!|~^$-]", lambda m: f"&#{ord(m[0])};", html.escape(message, quote=False))
    return f"<samp>{plain}</samp>"


class Labels(Preprocessor):
    """Put an exhibit's label where its entry line stands."""

    def run(self, lines: list[str]) -> list[str]:
        """Return the lines with each entry line replaced."""
        labelled = []
        for n, line in enumerate(lines):
            if not LINE.match(line):
                labelled.append(line)
                continue
            quote = next((later for later in lines[n + 1 :] if later.strip()), "")
            labelled += label(line, quote.startswith(CLAIM)).split("\n")
        return labelled


class MuseumExtension(Extension):
    """Hangs the labels."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Register after fences are put aside, since one may show an entry line, and before comments are."""
        md.preprocessors.register(Labels(md), "museum", 24)


def makeExtension(**options) -> MuseumExtension:
    """Return the extension, as Python-Markdown asks for it."""
    return MuseumExtension(**options)
