"""What a site has around its pages: where a page lies, what leads to it, and who changes it when."""

from pathlib import Path

import pytest

from galley import around
from galley.around.site import Shown, Site
from galley.book import Book, Result
from galley.page import parse

ROOT = Path(__file__).parents[2]


def shown(uri, text="# A *title*\n"):
    return Shown(uri, Result(f"docs/{uri}", parse(text)))


@pytest.fixture
def site(tmp_path):
    pages = [shown("labs.md"), shown("index.md"), shown("chapters/3-rope/derivation.md"), shown("unlisted.md")]
    return Site.of(tmp_path, Book(ROOT), {page.uri: page.result for page in pages})


@pytest.mark.parametrize(
    ("uri", "file", "up"),
    [
        ("index.md", "index.html", ""),
        ("labs.md", "labs/index.html", "../"),
        ("museum/index.md", "museum/index.html", "../"),
        ("chapters/5-pope/phase-bias.ipynb", "chapters/5-pope/phase-bias/index.html", "../../../"),
    ],
)
def test_a_page_lies_in_a_folder_of_its_own(uri, file, up):
    assert (shown(uri).file, shown(uri).up) == (file, up)


def test_a_title_is_read_without_its_marks():
    assert shown("labs.md").title == "A title"


def test_pages_come_in_the_order_of_the_navigation(site):
    assert [page.uri for page in site.pages] == [
        "index.md",
        "chapters/3-rope/derivation.md",
        "labs.md",
        "unlisted.md",
    ]
    assert site.trails["chapters/3-rope/derivation.md"] == ("3 RoPE",)


def test_each_page_is_changed_by_each_part_and_then_files_are_added(site, monkeypatch):
    monkeypatch.setattr(around, "PAGES", (lambda html, page, site: html + page.title, lambda html, *_: f"<{html}>"))
    monkeypatch.setattr(
        around, "FILES", (lambda site: site.write("of/all.txt", (site.folder / "index.html").read_bytes()),)
    )
    for page in site.pages:
        site.write(page.file, "text ")
    around.finish(site)
    assert (site.folder / "labs/index.html").read_text() == "<text A title>"
    assert (site.folder / "of/all.txt").read_text() == "<text A title>"


def test_the_address_is_that_of_the_sitemap(site):
    assert site.address == site.book.site
    version = Site.of(site.folder, site.book, site.results)
    version.write("sitemap.xml", "<loc>https://example.org/latest/a/</loc><loc>https://example.org/latest/</loc>")
    assert version.address == "https://example.org/latest/"
