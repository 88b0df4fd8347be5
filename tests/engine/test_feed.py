"""The feed of changes, and the day of each."""

from xml.etree import ElementTree

import pytest

from galley.around import feed
from tests.engine.sites import html, shown, small

LOG = """# Changelog

## Unreleased

- A thing with `code` & a [link](https://example.org/).

## [0.2.0] — 2026-12-01

| a | b |
|---|---|
| 1 | 2 |

## 0.1.0 — 2026-11-21

- The first.
"""
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def entries(project, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796169600")  # 2 December 2026
    (project.root / "CHANGELOG.md").write_text(LOG, encoding="utf-8")
    site = small(project)
    feed.files(site)
    root = ElementTree.parse(site.folder / "feed.xml").getroot()
    assert root.tag == f"{ATOM}feed"
    return root, root.findall(f"{ATOM}entry")


def test_each_part_of_the_changelog_is_an_entry(entries):
    _, found = entries
    assert [entry.findtext(f"{ATOM}title") for entry in found] == [
        "book Unreleased",
        "book 0.2.0",
        "book 0.1.0",
    ]
    assert [entry.findtext(f"{ATOM}updated") for entry in found] == [
        "2026-12-02T00:00:00Z",
        "2026-12-01T00:00:00Z",
        "2026-11-21T00:00:00Z",
    ]
    assert "<code>code</code> &amp; a" in found[0].findtext(f"{ATOM}content")
    assert "<td>1</td>" in found[1].findtext(f"{ATOM}content")


def test_the_feed_has_what_atom_asks_for(entries):
    root, found = entries
    for part in (root, *found):
        assert all(part.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated"))
    ids = [entry.findtext(f"{ATOM}id") for entry in found]
    assert len({*ids}) == len(ids)
    assert root.find(f"{ATOM}link[@rel='self']").get("href") == "https://example.org/book/feed.xml"
    assert root.findtext(f"{ATOM}author/{ATOM}name") == "Someone"


def test_a_part_that_is_not_released_says_so():
    assert [change.title for change in feed.changes("## 0.3.0 — unreleased\n\n- Soon.\n")] == ["0.3.0 (unreleased)"]


def test_a_page_names_the_feed_if_there_is_one(project):
    site = small(project)
    page = shown(site, "chapters/3-rope/turn.md")
    assert feed.page(html(site, page.uri), page, site) == html(site, page.uri)
    (project.root / "CHANGELOG.md").write_text(LOG, encoding="utf-8")
    link = '<link rel="alternate " type="application/atom+xml" title="Changes of book" href="../../../feed.xml">'
    assert link in feed.page(html(site, page.uri), page, site)
