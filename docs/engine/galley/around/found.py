"""A search of our own in the window of Material's, made of the entries that the theme's plugin found.

The theme's script fetches the index with every page that is shown, and its search knows a word only as it is written.
So the script gets an empty index, and the address of a worker of ours (assets/js/search.js), which fetches a lean one
when somebody searches. A site that another builder made stays as it is.
"""

import html
import json
import re
from pathlib import Path

from galley.around.site import Site
from galley.search import CODE

ROWS = re.compile(r"</?(?:p|pre|li|ol|ul)>")
TAG = re.compile(r"<[^<>]+>")
ANSWER = re.compile(r" (?:Hint|Answer|Solution) ")  # stands folded under an exercise
WORD = re.compile(r"[^\W\d]\w{2,}")
SHOWN = 600  # letters that are kept of a section; of the rest, its words that the page says nowhere else
WORKER = re.compile(r"assets/javascripts/workers/search\.[^\"]*\.js")
OURS = "assets/js/search.js"
ROOM = re.compile(r'(?<!</noscript>)(?=<div class="md-search" )')  # which the theme hides where scripts do not run
NEEDED = "<noscript>Search needs JavaScript.</noscript>"


def files(site: Site) -> None:
    """Let a built site search by our worker: write its index, and lead all pages to it.

    The theme's script keeps an index without entries; who runs no scripts reads why there is no search.
    """
    given = site.folder / "search/search_index.json"
    if not given.exists():
        return
    theirs = json.loads(given.read_text(encoding="utf-8"))
    if not theirs["docs"]:
        return  # set apart before
    _write(site.folder / "search/index.json", theirs | {"docs": lean(theirs["docs"])})
    _write(given, theirs | {"docs": []})
    for page in site.folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(ROOM.sub(NEEDED, WORKER.sub(OURS, text), count=1), encoding="utf-8")


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
