"""The words by which people look for a page, from its front matter: under its title, and in its head."""

import html
import re

from mkdocs.utils.meta import get_data

from galley.around.site import Shown, Site

IN_SIGHT = 3  # as many as stand in a line
TITLE_ENDS = re.compile(r"</h1>")


def of(shown: Shown) -> dict:
    """Return what the front matter of a page says."""
    return get_data(shown.result.page.text)[1]


def said(page: str, shown: Shown, site: Site) -> str:
    """Return a page's HTML with its keywords, the first of them in sight; with `hide: [keywords]` none is."""
    told = of(shown)
    words = [html.escape(word) for word in told.get("keywords", [])]
    if not words:
        return page
    page = page.replace("</head>", f'<meta name="keywords" content="{", ".join(words)}">\n</head>', 1)
    if "keywords" in told.get("hide", []):
        return page
    line = f'<p class="look-here">Look here for: {" · ".join(words[:IN_SIGHT])}</p>'
    return TITLE_ENDS.sub(lambda end: f"{end[0]}\n{line}", page, count=1)
