"""Find a page's entries in the theme's search index by what the page says, and set them apart for a search of our own.

The theme parses every page at every build to find them, and most of what it parses (figures, formulas, folded code) it
then throws away. Its script fetches the index with every page that is shown, and its search knows a word only as it is
written. So its script gets an empty index, and the address of a worker of ours (assets/js/search.js), which fetches a
lean one when somebody searches.
"""

import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

from galley import stage
from galley.memory import Memory, common, plain
from galley.store import digest

EXCLUDED = re.compile(r'<(?P<tag>[\w-]+)\b[^<>]*? data-search-exclude="[^<>]*>')
MATHML = re.compile(
    r'(<span class="formula" data-search-exclude=""><span class="katex">(?:<span [^<>]*>)?)<math.*?</math>', re.S
)
HEADING = re.compile(r"<h[1-6]\b")
CODE = re.compile(r"<pre\b.*?</pre>", re.S)
ROWS = re.compile(r"</?(?:p|pre|li|ol|ul)>")
TAG = re.compile(r"<[^<>]+>")
ANSWER = re.compile(r" (?:Hint|Answer|Solution) ")  # stands folded under an exercise
WORD = re.compile(r"[^\W\d]\w{2,}")
SHOWN = 600  # letters that are kept of a section; of the rest, its words that the page says nowhere else
WORKER = re.compile(r"assets/javascripts/workers/search\.[^\"]*\.js")
OURS = "assets/js/search.js"
FORM = re.compile(r'(<form class="md-search__form" name="search">)(?!<noscript>)')
NEEDED = r"\1<noscript>Search needs JavaScript.</noscript>"
COLOR = re.compile(r'</?span(?: (?:class|id|title)="[^"<>]*")*>')


def remember(config: MkDocsConfig, memory: Memory) -> None:
    """Let the index look into `memory` before it parses a page.

    The plugin has no event of its own between its pages and its index, so the index's method is replaced.
    """
    plugin: Any = config.plugins.get("material/search")
    if not plugin or not plugin.config.enabled:
        return
    index = plugin.search_index

    def add(page: Page) -> None:
        said = page.meta.get("title", page.title), page.meta.get("tags"), page.meta.get("search")
        key = digest("search", common(), page.url, page.content or "", plain(said))
        known, before = memory.get(key), len(index.entries)
        if known is None:
            whole = page.content
            page.content = without_excluded(stage.without_folds(whole or ""))
            type(index).add_entry_from_context(index, page)
            page.content = whole
            memory.put(key, index.entries[before:])
        else:
            index.entries += known
        if page.meta.get("keywords") and index.entries[before:]:
            index.entries[before] = {**index.entries[before], "keywords": page.meta["keywords"]}

    vars(index)["add_entry_from_context"] = add


def set_apart(folder: Path) -> None:
    """Let a built site search by our worker: write its index, and lead all pages to it.

    The theme's script keeps an index without entries, and a form that says when it cannot be used.
    """
    given = folder / "search/search_index.json"
    if not given.exists():
        return
    theirs = json.loads(given.read_text(encoding="utf-8"))
    if not theirs["docs"]:
        return  # set apart before
    _write(folder / "search/index.json", theirs | {"docs": lean(theirs["docs"])})
    _write(given, theirs | {"docs": []})
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(FORM.sub(NEEDED, WORKER.sub(OURS, text), count=1), encoding="utf-8")


def _write(path: Path, value: dict) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def lean(entries: list[dict]) -> list[dict]:
    """Return entries of plain text without code and answers; a long section keeps its beginning, and all words."""
    parts = [_parted(_plain(entry)) for entry in entries]
    said: dict[str, set[str]] = {}
    for entry, (begin, _) in zip(entries, parts, strict=True):
        said.setdefault(_page(entry), set()).update(_words(begin))
    return [_entry(entry, *part, said[_page(entry)]) for entry, part in zip(entries, parts, strict=True)]


def _parted(text: str) -> tuple[str, str]:
    """Return the beginning of a text, whole words, and the rest."""
    end = text.rfind(" ", 0, SHOWN + 1) if len(text) > SHOWN else len(text)
    return text[:end], text[end:]


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _entry(entry: dict, begin: str, rest: str, said: set[str]) -> dict:
    """Return what the index holds of a section; its words join those that its page has `said`."""
    more = [word for word in dict.fromkeys(_words(rest)) if word not in said]
    said.update(more)
    kept = {name: entry[name] for name in ("location", "keywords") if name in entry}
    return kept | {"title": _bare(entry["title"]), "text": begin} | ({"more": " ".join(more)} if more else {})


def _page(entry: dict) -> str:
    return entry["location"].partition("#")[0]


def _plain(entry: dict) -> str:
    text = _bare(ROWS.sub(" ", CODE.sub(" ", entry["text"])))
    return ANSWER.split(text, maxsplit=1)[0] if "exercise" in entry["location"] else text


def _bare(html_text: str) -> str:
    return " ".join(html.unescape(TAG.sub("", html_text)).split())


def without_excluded(html: str) -> str:
    """Return a page without what the theme throws away of it; elements that are excluded from search stay, empty.

    The theme takes an element's first inner end tag of its own kind for its end, and keeps what follows: of a formula
    in a line, which is spans within a span, it throws away the MathML alone. And a heading begins an entry anywhere.
    """
    parts, position = [], 0
    html = MATHML.sub(r"\1", html)
    while start := EXCLUDED.search(html, position):
        parts.append(html[position : start.end()])
        position = start.end()
        end = html.find(f"</{start['tag']}>", position)
        inside = html[position:end]
        if end >= 0 and f"<{start['tag']}" not in inside and not HEADING.search(inside):
            position = end
    return CODE.sub(_without_colors, "".join(parts) + html[position:])


def _without_colors(code: re.Match) -> str:
    """Return code as one text, in place of one for each colored word, where it has nothing but colors."""
    plain_code = COLOR.sub("", code[0])
    return code[0] if "<span" in plain_code else plain_code
