"""Find a page's entries in the theme's search index by what the page says, and read less of it where it is new.

The theme parses every page at every build to find them, and most of what it parses (figures, formulas, folded code) it
then throws away. The entry of a whole page gets the page's keywords.
"""

import re
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
