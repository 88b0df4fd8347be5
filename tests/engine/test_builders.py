"""Whichever builder makes the site, problems of pages stop it, and what stood before stays until it is whole."""

import errno
import json
from pathlib import PurePosixPath

import pytest

from galley import builders, successor
from galley.__main__ import main
from galley.book import Book
from tests.engine.conftest import SETTINGS

PAGE = "# Page\n\n```python\nprint({})\n```\n\n```output\n1\n```\n"
SITE = """\
site_name: book
hooks: [hook.py]
nav: [{Home: index.md}, {Parts: [part.ipynb]}]
theme: {name: material}
extra_css: [look.css]
plugins: [search, {mkdocs-jupyter: {cache: false}}]
"""
NOTEBOOK = """\
{"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Part\\n"]}], "metadata": {},
 "nbformat": 4, "nbformat_minor": 5}
"""


@pytest.fixture
def site(project, monkeypatch):
    """A site of before, and a Zensical that makes a page of nothing."""
    (project.root / "mkdocs.yml").write_text(SITE)
    project.page("part.ipynb", NOTEBOOK)
    folder = project.root / "site"
    folder.mkdir()
    (folder / "index.html").write_text("before")

    def made(copy, strict):
        for place in ("site", "site/part"):
            (copy / place).mkdir()
            (copy / place / "index.html").write_text('<h1>Made</h1><a href="part.ipynb">made</a>')
        items = [{"location": location, "text": "Text."} for location in ("", "#end", "part/")]
        (copy / "site/search.json").write_text(json.dumps({"items": items}))
        return True

    monkeypatch.setattr(builders, "_made", made)
    return folder


def test_zensical_makes_the_site_of_a_book_that_is_right(project, site):
    project.page("index.md", PAGE.format(1))
    assert builders.zensical(Book(project.root), site) == 0
    assert (site / "index.html").read_text() == '<h1>Made</h1><a href="part/">made</a>'
    assert [path.name for path in project.root.glob("site*")] == ["site"]


def test_the_search_of_zensical_finds_a_page_by_its_keywords(project, site):
    project.page("index.md", "---\nkeywords: [why 10000, a < b]\n---\n\n" + PAGE.format(1))
    assert builders.zensical(Book(project.root), site) == 0
    items = json.loads((site / "search.json").read_text())["items"]
    assert [item["text"] for item in items] == ["Text.<p>why 10000, a &lt; b</p>", "Text.", "Text."]


def test_a_wrong_page_stops_a_strict_zensical(project, site, capsys):
    project.page("index.md", PAGE.format(2))
    assert builders.zensical(Book(project.root), site, strict=True) == 1
    assert "docs/index.md:8: " in capsys.readouterr().err
    assert (site / "index.html").read_text() == "before"
    assert [path.name for path in project.root.glob("site*")] == ["site"]


def test_a_wrong_page_says_so_on_the_site_of_another(project, site, capsys):
    project.page("index.md", PAGE.format(2))
    assert builders.zensical(Book(project.root), site) == 0
    assert "docs/index.md:8: " in capsys.readouterr().err
    assert "docs/index.md:8: output differs" in (site / "index.html").read_text()


@pytest.mark.parametrize(
    ("error", "status", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_zensical_ends_in_one_sentence(project, site, monkeypatch, capsys, error, status, why):
    def fails(copy, strict):
        raise error

    project.page("index.md", PAGE.format(1))
    monkeypatch.setattr(builders, "_made", fails)
    assert builders.zensical(Book(project.root), site) == status
    assert capsys.readouterr().err == f"build: {why}; the site in {site} stays as it was\n"
    assert (site / "index.html").read_text() == "before"


def test_a_zensical_that_fails_leaves_the_site_as_it_was(project, site, monkeypatch, capsys):
    project.page("index.md", PAGE.format(1))
    monkeypatch.setattr(builders, "_made", lambda copy, strict: False)
    assert builders.zensical(Book(project.root), site) == 1
    assert "stays as it was" in capsys.readouterr().err
    assert (site / "index.html").read_text() == "before"


def test_a_page_that_is_a_notebook_is_copied_as_markdown(project, site):
    project.page("index.md", PAGE.format(1))
    book = Book(project.root)
    results = {name.removeprefix("docs/"): result for name, result in book.run(book.pages()).items()}
    copy = successor.prepare(book, results, project.root / "copy")
    assert (copy / "docs/part.md").read_text().rstrip() == "# Part"
    assert not (copy / "docs/part.ipynb").exists()
    settings = (copy / "mkdocs.yml").read_text()
    assert "part.md" in settings
    assert "hook" not in settings
    assert "jupyter" not in settings


@pytest.mark.parametrize(
    ("link", "mended"),
    [
        ('<a href="part.ipynb">', '<a href="part/">'),
        ('<a href="../../of/part.ipynb#end">', '<a href="../../of/part/#end">'),
        ('<a href="../other-part.ipynb">', '<a href="../other-part.ipynb">'),
        ('<a href="https://example.org/part.ipynb">', '<a href="https://example.org/part.ipynb">'),
        ('<a href="/edit/docs/of/part.md" title="Edit">', '<a href="/edit/docs/of/part.ipynb" title="Edit">'),
    ],
)
def test_a_link_to_the_notebook_of_a_page_leads_to_the_page(link, mended):
    assert successor.mended(link, PurePosixPath("of/part.ipynb")) == mended


def test_a_heading_of_the_tags_has_a_link_as_all_others():
    linked = '<h2 id="tag:a">a<a class="headerlink" href="#tag:a" title="Link to this section">&para;</a></h2>'
    plain = '<h2 id="tag:a">a</h2><h2 id="b">b</h2>'
    assert successor.TAG.sub(successor.LINKED, plain) == linked + '<h2 id="b">b</h2>'
    assert successor.TAG.sub(successor.LINKED, linked) == linked


@pytest.mark.parametrize(("line", "asked"), [("", "mkdocs"), ('builder = "zensical"\n', "zensical")])
def test_one_line_says_who_builds(project, monkeypatch, line, asked):
    (project.root / "pyproject.toml").write_text(SETTINGS + line)
    calls = []
    for name in builders.BUILDERS:
        monkeypatch.setitem(
            builders.BUILDERS, name, lambda book, place, strict, name=name: calls.append((name, place, strict)) or 0
        )
    monkeypatch.chdir(project.root)
    monkeypatch.setattr("sys.argv", ["galley", "--build", "--site-dir", "made"])
    assert main() == 0
    assert calls == [(asked, project.root / "made", False)]
