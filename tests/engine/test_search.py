"""The index that the search's worker reads, made of the theme's, and the pages that lead to the worker."""

import json
import re

import pytest

from galley.around import keywords
from galley.around.found import SHOWN, files, lean
from galley.around.site import Shown, Site
from galley.book import Book

PAGE = """<div class="md-search" role="dialog"></div>
<script id="__config">{"search": "../assets/javascripts/workers/search.a7633da7.min.js"}</script>"""


def entry(text, location="a/", **more):
    return {"location": location, "title": "Turn &amp; <code>scale</code>", "text": text} | more


def test_an_entry_is_plain_text_without_code():
    (made,) = lean([entry("<p>One <code>x &lt; y</code>.</p><pre><code>code</code></pre><p>Two.</p>", tags=["rope"])])
    assert made == {"location": "a/", "title": "Turn & scale", "text": "One x < y. Two."}


def test_what_stands_folded_under_an_exercise_is_not_told():
    (made,) = lean([entry("<p>Compute it.</p> Hint <p>Halve.</p> Answer <p>Four.</p>", "a/#exercise-1")])
    assert made["text"] == "Compute it."


def test_keywords_stay():
    assert lean([entry("", keywords=["rope_scaling"])])[0]["keywords"] == ["rope_scaling"]


def test_a_long_section_keeps_its_beginning_and_the_words_that_its_page_has_not_said():
    long = "word " * (SHOWN // 5) + "elsewhere rope_theta again rope_theta 7 10000"
    made, other = lean([entry(long), entry("<p>Said elsewhere.</p>", "a/#b")])
    assert made["text"] == ("word " * (SHOWN // 5)).strip()
    assert made["more"] == "rope_theta again"
    assert "more" not in other


@pytest.fixture
def site(project):
    site = Site(project.root / "site", Book(project.root), {})
    site.write("404.html", PAGE)
    return site


def test_pages_are_led_to_the_worker_once(site):
    site.write("search/search_index.json", json.dumps({"config": {}, "docs": [entry("<p>One.</p>")]}))
    for _ in range(2):
        files(site)
        page = (site.folder / "404.html").read_text()
        assert '"../assets/js/search.js"' in page
        assert page.count("<noscript>") == 1
        assert json.loads((site.folder / "search/search_index.json").read_text()) == {"config": {}, "docs": []}
        assert json.loads((site.folder / "search/index.json").read_text())["docs"][0]["text"] == "One."


def test_a_site_of_another_builder_stays_as_it_is(site):
    files(site)
    assert (site.folder / "404.html").read_text() == PAGE


def test_keywords_stand_under_the_title_and_in_the_head(project):
    assert keywords_of(project, "") == ['content="rope_scaling, a &lt; b"', "rope_scaling · a &lt; b"]


def test_a_page_can_keep_its_keywords_in_the_head(project):
    assert keywords_of(project, "hide: [toc, keywords]\n") == ['content="rope_scaling, a &lt; b"']


def keywords_of(project, more: str) -> list[str]:
    """Return the places at which a page shows its keywords."""
    project.page("page.md", f"---\nkeywords: [rope_scaling, a < b]\n{more}---\n\n# One\n")
    shown = Shown("page.md", project.run()["page.md"])
    html = keywords.said("<head></head><h1>One</h1><h1>Two</h1>", shown, Site(project.root, Book(project.root), {}))
    return re.findall(r'content=".*?"|rope_scaling ·[^<]*', html)
