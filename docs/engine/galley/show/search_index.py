"""What the search finds: an index of the sections of all pages, which `assets/js/search.js` reads.

A section is a heading with an id and the text up to the next one. Left out are code blocks, displayed formulas, what is
marked `data-search-exclude`, and hints and answers that stand folded. A `data-search-prefix` within a section stands
before its title. The theme's own plugin fetches its index with every page that is shown, and knows a word only as it is
written; so all pages are excluded from that, and ours is fetched when somebody searches.
"""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from galley.run.content_cache import ContentCache, engine_digest
from galley.run.dependencies import digest

PLACE = "search/index.json"
SHOWN = 600  # letters that are kept of a section; of the rest, its words that the page says nowhere else
WORD = re.compile(r"[^\W\d]\w{2,}")
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
SKIPPED = {"pre", "script", "style", "math", "svg"}
SPOILERS = {"Hint", "Answer", "Solution"}  # summaries of what is folded until a reader asks for it
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
INLINE = {"a", "abbr", "b", "code", "em", "i", "kbd", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup"}


def page_entries(html: str, url: str, title: str, keywords: list[str], cache: ContentCache) -> list[dict]:
    """Return the entries of a page: for each section its `location`, `title` and `text`; the first has its keywords."""
    key = digest("search", engine_digest(), url, title, html, *keywords)
    entries = cache.get(key)
    if entries is None:
        reader = _Sections(title)
        reader.feed(html)
        reader.close()
        entries = _entries(reader.sections, url)
        if keywords and entries:
            entries[0]["keywords"] = keywords
        cache.put(key, entries)
    return entries


def write_index(folder: Path, entries: list[dict], is_dirty: bool = False) -> None:
    """Write the index into the folder of the site; a dirty build keeps what it has of pages that it did not build."""
    path = folder / PLACE
    # Pages that were built replace their entries: a section of theirs may be gone.
    if is_dirty and path.exists():
        built = {_page(entry) for entry in entries}
        known = json.loads(path.read_text(encoding="utf-8"))["docs"]
        entries = [*(entry for entry in known if _page(entry) not in built), *entries]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"docs": entries}, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def _page(entry: dict) -> str:
    return entry["location"].partition("#")[0]


def _entries(sections: list["_Section"], url: str) -> list[dict]:
    """Return what the index holds: of a long section its beginning, and as `more` the words that follow."""
    texts = [(section, *_cut(section.text)) for section in sections]
    # A word is stored once for a page: what a beginning holds leads to the page already.
    known = {word for _, beginning, _ in texts for word in _words(beginning)}
    entries = []
    for section, beginning, rest in texts:
        location = f"{url}#{section.anchor}" if section.anchor else url
        entry = {"location": location, "title": section.title, "text": beginning}
        # A dictionary keeps the order of the text, and each word once.
        if more := [word for word in dict.fromkeys(_words(rest)) if word not in known]:
            known.update(more)
            entry["more"] = " ".join(more)
        entries.append(entry)
    return entries


def _cut(text: str) -> tuple[str, str]:
    """Return the beginning of a text, whole words, and the rest."""
    end = text.rfind(" ", 0, SHOWN + 1) if len(text) > SHOWN else len(text)
    return text[:end], text[end:]


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


class _Section:
    """A section as it is read: the pieces of its title and of its text."""

    def __init__(self, anchor: str, title: str = "") -> None:
        self.anchor = anchor
        self.title_parts = [title]
        self.text_parts: list[str] = []

    @property
    def title(self) -> str:
        return " ".join("".join(self.title_parts).split())

    @property
    def text(self) -> str:
        # KaTeX sets a space without width after an index; it would stand within a word.
        return " ".join("".join(self.text_parts).replace("\u200b", "").split())


class _Sections(HTMLParser):
    """Reads the sections of a page."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.sections = [_Section("", title)]
        self.open: list[tuple[str, bool]] = []  # the elements that are open: their tag, and whether they are left out
        self.in_title = False
        self.summary = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # These have no end tag, and would stay open for ever.
        if tag in VOID:
            self._separate(tag)
            return
        attributes = dict(attrs)
        is_marked = "data-search-exclude" in attributes or attributes.get("class") == "headerlink"
        is_out = tag in SKIPPED or is_marked or self._is_out()
        if tag in HEADINGS and "id" in attributes and not is_out:
            self._begin(tag, attributes["id"] or "")
        if prefix := attributes.get("data-search-prefix"):
            self.sections[-1].title_parts.insert(0, prefix)
        if tag == "summary":
            self.summary = ""
        self.open.append((tag, is_out))
        self._separate(tag)

    def handle_endtag(self, tag: str) -> None:
        # As in a browser, an end tag without a beginning is nothing, and any other ends what is still open within its
        # element, such as an <li>, whose own end tag HTML lets authors leave out.
        if tag not in [name for name, _ in self.open]:
            return
        while self.open.pop()[0] != tag:
            pass
        if tag in HEADINGS:
            self.in_title = False
        # Only here is it known that the fold around the summary is an answer: what follows in it is left out.
        if tag == "summary" and self.summary.strip() in SPOILERS and self.open:
            fold, _ = self.open[-1]
            self.open[-1] = (fold, True)
        self._separate(tag)

    def handle_data(self, data: str) -> None:
        is_summary = bool(self.open) and self.open[-1][0] == "summary"
        if is_summary:
            self.summary += data
        if self._is_out() or (is_summary and data.strip() in SPOILERS):
            return
        section = self.sections[-1]
        parts = section.title_parts if self.in_title else section.text_parts
        parts.append(data)

    def _begin(self, tag: str, anchor: str) -> None:
        self.in_title = True
        # The page's own heading takes the place of its name in the navigation, and what stands above belongs to it.
        if tag == "h1" and len(self.sections) == 1:
            self.sections[0].title_parts = []
        else:
            self.sections.append(_Section(anchor))

    def _is_out(self) -> bool:
        return any(is_out for _, is_out in self.open)

    def _separate(self, tag: str) -> None:
        """Keep the words of two blocks apart."""
        if tag not in INLINE and not self._is_out():
            self.sections[-1].text_parts.append(" ")
