"""Old addresses lead to new ones: docs/moved.yml says which pages and sections have gone where.

A page that moved leaves one behind that leads on. A section that got another name keeps its old one beside it, so that
an old link finds it without a script.
"""

import re
from functools import cache
from html import escape
from pathlib import Path

from mkdocs.utils.yaml import yaml_load

from galley.around.site import Shown, Site

TABLE = "moved.yml"
STUB = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Moved to {title}</title>
<meta name="robots" content="noindex">
<meta http-equiv="refresh" content="0; url={goal}">
<link rel="canonical" href="{canonical}">
</head>
<body>
<p>This page has moved to <a href="{goal}">{title}</a>.</p>
</body>
</html>
"""


def table(site: Site) -> dict[str, dict]:
    """Return what has moved: pages by their old address, and for each page its sections by their old name."""
    path = site.book.docs / TABLE
    return _read(path, path.stat().st_mtime_ns) if path.exists() else {"pages": {}, "sections": {}}


@cache
def _read(path: Path, changed: int) -> dict[str, dict]:
    with path.open(encoding="utf-8") as file:
        return yaml_load(file)


def page(html: str, shown: Shown, site: Site) -> str:
    """Let the sections of a page answer to their old names too; a script follows those that are on another page now."""
    for old, new in table(site)["sections"].get(shown.uri, {}).items():
        uri, other, anchor = new.rpartition("#")
        if other:
            way = f"{shown.up}{Shown(uri, shown.result).url}#{anchor}"
            mark = f'<a id="{escape(old)}" class="moved" href="{escape(way)}" hidden>{escape(anchor)}</a>'
            html = html.replace("</article>", f"{mark}</article>", 1)
        else:
            heading = re.compile(rf'<h[1-6]\b[^>]*\bid="{re.escape(new)}"[^>]*>')
            html = heading.sub(rf'\g<0><span id="{escape(old)}"></span>', html, count=1)
    return html


def files(site: Site) -> None:
    """Write a page that leads on in each place that a page has left."""
    shown = {each.uri: each for each in site.pages}
    for old, uri in table(site)["pages"].items():
        goal = shown[uri]
        way = "../" * old.count("/") + goal.url
        title, canonical = escape(goal.title), site.address + goal.url
        site.write(f"{old}index.html", STUB.format(title=title, goal=escape(way or "./"), canonical=escape(canonical)))
