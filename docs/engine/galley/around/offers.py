"""What leads from a page to the files that it is about: see one, copy it, download it."""

import re

from galley.around import copies
from galley.around.copies import Copy
from galley.around.site import Shown, Site

CARD = re.compile(r"<code[^>]*>posenc copy (?P<name>[\w/]+)</code>")
ENTRY = re.compile(
    r'<h\d id="posenc\.(?P<place>\w+\.\w+)" class="doc doc-heading">.*?</summary><!--depth-->'
    r'(?:\s*<a [^<>]*class="headerlink"[^<>]*>[^<>]*</a>)?',
    re.S,
)
SOURCE = re.compile(
    r'<details class="mkdocstrings-source">\s*<summary>Source code in <code>posenc/(?P<place>[\w/]+)\.py</code>'
    r'</summary>.*?<span class="normal">\s*(?P<line>\d+)</span>.*?</details>',
    re.S,
)
COPY_THIS = re.compile(r'<h3 id="copy-this">.*?(?=</details><!--depth-->)', re.S)
TITLE = re.compile(r"<h1\b.*?</h1>", re.S)


def offer(copy: Copy, up: str, whole: bool = False) -> str:
    """Return what offers a file; `up` leads to the site's root. Where the whole file is shown, it can be seen raw."""
    view, raw, download = (
        f'<a href="{up}{address}" aria-label="{does} {copy.name}"{more}>{does}</a>'
        for does, address, more in (("View", copy.url, ""), ("Raw", copy.text, ""), ("Download", copy.raw, " download"))
    )
    button = f'<button type="button" data-copies="{up}{copy.raw}" aria-label="Copy {copy.name}">Copy</button>'
    links = [button, download, raw] if whole else [f"<code>{copy.name}</code>", view, button, download]
    return f'<span class="offer">{" ".join(links)}</span>'


def put(html: str, shown: Shown, site: Site) -> str:
    """Return a page with what it offers: on a card of the gallery, in the reference, where a chapter says Copy this."""
    known = copies.copies(site.book.root)
    if shown.uri == "gallery.md":
        return _on_cards(html, shown, {copy.command_name: copy for copy in known.values()})
    if shown.uri.startswith("reference/"):
        return _in_the_reference(html, shown, known)
    return COPY_THIS.sub(lambda section: section[0] + _whole_files(shown, site), html, count=1)


def _on_cards(html: str, shown: Shown, files: dict[str, Copy]) -> str:
    """Return the gallery with an offer on each card, but for what is no file: its output is wrong, and says so."""

    def below(card: re.Match) -> str:
        copy = files.get(card["name"])
        return card[0] + offer(copy, shown.up) if copy else card[0]

    return CARD.sub(below, html)


def _whole_files(shown: Shown, site: Site) -> str:
    rows = "".join(offer(copy, shown.up) for copy in copies.concerns(shown, site))
    return rows and f'<p>Whole, from the package:</p><div class="offers">{rows}</div>'


def _in_the_reference(html: str, shown: Shown, known: dict[str, Copy]) -> str:
    """Return a page of the reference with an offer below the name of each file, or of the page's own.

    What is shown whole on its own page is not shown again in parts: links lead to the lines.
    """

    def below(entry: re.Match) -> str:
        copy = known.get(entry["place"].replace(".", "/"))
        return f"{entry[0]}<p>{offer(copy, shown.up)}</p>" if copy else entry[0]

    def there(source: re.Match) -> str:
        copy, line = known.get(source["place"]), source["line"]
        if copy is None:
            return source[0]
        says = f"Source: from line {line} of <code>{copy.name}</code>"
        return f'<p class="source"><a href="{shown.up}{copy.url}#line-{line}">{says}</a></p>'

    html = SOURCE.sub(there, ENTRY.sub(below, html))
    own = [copy for place, copy in known.items() if "/" not in place and copy.reference == shown.url]
    rows = "".join(f"<p>{offer(copy, shown.up)}</p>" for copy in own)
    return TITLE.sub(lambda title: title[0] + rows, html, count=1)
