"""Old addresses lead on, and each line of the book's own table leads somewhere."""

import re
from pathlib import Path

import pytest

from galley.around import moved
from galley.around.site import Site
from galley.book import Book, Result
from galley.links import anchors
from tests.engine.sites import html, shown, small

ROOT = Path(__file__).parents[2]
TURN = "chapters/3-rope/turn.md"
TABLE = f"""
pages:
  chapters/: index.md
  old/place/: {TURN}
sections:
  {TURN}:
    wherefore: why-it-turns
    in-the-lab: labs.md#the-labs
"""


@pytest.fixture
def site(project):
    (project.docs / "moved.yml").write_text(TABLE, encoding="utf-8")
    return small(project)


def test_a_page_that_moved_leads_to_its_new_place(site):
    moved.files(site)
    stub = (site.folder / "old/place/index.html").read_text(encoding="utf-8")
    assert '<meta http-equiv="refresh" content="0; url=../../chapters/3-rope/turn/">' in stub
    assert '<link rel="canonical" href="https://example.org/book/chapters/3-rope/turn/">' in stub
    assert '<a href="../../chapters/3-rope/turn/">3.1 Turn</a>' in stub
    assert "url=../" in (site.folder / "chapters/index.html").read_text(encoding="utf-8")


def test_a_section_answers_to_its_old_name(site):
    page = moved.page(html(site, TURN), shown(site, TURN), site)
    assert '<h2 id="why-it-turns"><span id="wherefore"></span>Why it turns</h2>' in page


def test_a_section_that_is_on_another_page_is_named_there(site):
    page = moved.page(html(site, TURN), shown(site, TURN), site)
    assert '<a id="in-the-lab" class="moved" href="../../../labs/#the-labs" hidden>' in page


def test_a_page_of_which_nothing_moved_stays_as_it_is(site):
    assert moved.page(html(site, "labs.md"), shown(site, "labs.md"), site) == html(site, "labs.md")


@pytest.fixture(scope="module")
def book():
    book = Book(ROOT)
    results = {name.removeprefix("docs/"): Result(name, book.read(name, text)) for name, text in book.pages().items()}
    return Site.of(ROOT / "site", book, results)


def faults(book, table):
    """Yield the lines of a table that lead nowhere, or away from what is still there."""
    known = {uri: anchors(result.page) for uri, result in book.results.items()}
    urls = {shown.url for shown in book.pages}
    for old, uri in table["pages"].items():
        if uri not in known or old in urls or not re.fullmatch(r"([\w.-]+/)+", old):
            yield f"pages: {old}: {uri}"
    for uri, sections in table["sections"].items():
        for old, new in sections.items():
            goal, _, anchor = new.rpartition("#")
            if anchor not in known.get(goal or uri, ()) or old in known.get(uri, ()):
                yield f"{uri}: {old}: {new}"


def test_each_line_of_the_books_table_leads_somewhere(book):
    assert list(faults(book, moved.table(book))) == []


def test_a_line_that_leads_nowhere_is_found(book):
    nowhere = {
        "pages": {"labs/": "explorer.md", "gone/": "gone.md"},
        "sections": {"labs.md": {"a": "b", "c": "questions.md#d"}, "explorer.md": {"things-to-try": "how-to-read-it"}},
    }
    assert len(list(faults(book, nowhere))) == 5
