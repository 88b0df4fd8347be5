"""What does not hold, in sight: on its page, in the counts at its foot, and on the page about proof."""

import html
import re

from galley.around.site import Shown, Site

TITLE = "Not everything on this page holds"
TITLE_OF_BOOK = "Not everything in this book holds"
TITLE_ENDS, BODY = re.compile("</h1>"), re.compile(r"<body\b[^>]*>")
FOOT = re.compile(r'(<p class="counts"[^>]*>.*?)\.</p>', re.S)


def put(page: str, shown: Shown, site: Site) -> str:
    """Return a page that says what is wrong with it; the page about proof says so of all."""
    if report := shown.result.report:
        page = FOOT.sub(rf"\1; <strong>{_counted(len(report))}</strong>.</p>", page)
        listed = "".join(f"<pre>{html.escape(problem)}</pre>" for problem in report)
        page = _below_the_title(page, f"{TITLE}: {_counted(len(report))}", listed)
    if shown.uri == site.book.proof:
        page = _of_the_book(page, shown, site)
    return page


def _of_the_book(page: str, shown: Shown, site: Site) -> str:
    wrong = [(other, len(other.result.report)) for other in site.pages if other.result.report]
    if not wrong:
        return page
    links = [f'<a href="{shown.up}{other.url}">{html.escape(other.title)}</a>: {_counted(n)}' for other, n in wrong]
    title = f"{TITLE_OF_BOOK}: {_counted(sum(n for _, n in wrong))} on {len(wrong)} of {len(site.pages)} pages"
    return _below_the_title(page, title, f"<ul>{''.join(f'<li>{link}</li>' for link in links)}</ul>")


def _below_the_title(page: str, title: str, content: str) -> str:
    box = f'\n<div class="admonition danger"><p class="admonition-title">{title}</p>{content}</div>'
    place = TITLE_ENDS if TITLE_ENDS.search(page) else BODY
    return place.sub(lambda end: end[0] + box, page, count=1)


def _counted(problems: int) -> str:
    return f"{problems} problem{'s' * (problems > 1)}"
