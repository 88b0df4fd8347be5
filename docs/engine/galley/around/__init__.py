"""What a built site has around its pages, whichever builder has made them.

A builder turns the book into a folder of HTML. What readers expect beside that is made here, in parts: one of `PAGES`
changes the HTML of one page, one of `FILES` adds files to the whole. MkDocs' hook gives each page to `page` as it
is written and calls `files` at the end; a builder without hooks is followed by `finish`, which does both.
"""

from collections.abc import Callable

from galley.around import (
    cards,
    code,
    dates,
    early,
    feed,
    found,
    head,
    icons,
    keywords,
    lighter,
    moved,
    notebooks,
    offers,
    policy,
    problems,
    tools,
    twins,
)
from galley.around.site import Shown, Site

PAGES: tuple[Callable[[str, Shown, Site], str], ...] = (
    keywords.said,
    problems.put,
    offers.put,
    tools.put,
    dates.page,
    moved.page,
    head.page,
    twins.page,
    feed.page,
    icons.page,
    early.early,
    lighter.lighter,
)
FILES: tuple[Callable[[Site], None], ...] = (
    code.write,
    notebooks.write,
    dates.sitemap,
    moved.files,
    cards.files,
    twins.files,
    feed.files,
    icons.files,
    found.files,
    policy.files,  # the last: it reads what all others have written
)


def page(html: str, shown: Shown, site: Site) -> str:
    """Return the HTML of a page with what belongs around it."""
    for part in PAGES:
        html = part(html, shown, site)
    return html


def files(site: Site) -> None:
    """Add the files that belong around the pages."""
    for part in FILES:
        part(site)


def finish(site: Site) -> None:
    """Add what belongs around pages that a builder without hooks has written."""
    for shown in site.pages:
        site.write(shown.file, page((site.folder / shown.file).read_text(encoding="utf-8"), shown, site))
    files(site)
