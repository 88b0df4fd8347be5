"""The index that the search's worker reads, made of the theme's, and the pages that lead to the worker."""

import json
from pathlib import Path

from galley.around import Site
from galley.around.found import SHOWN, files, lean
from galley.book import Book

PAGE = """<div class="md-search" role="dialog"></div>
<script id="__config">{"search": "../assets/javascripts/workers/search.a7633da7.min.js"}</script>"""


def finish(folder: Path) -> None:
    files(Site(folder, Book(folder), {}))


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


def test_pages_are_led_to_the_worker_once(tmp_path):
    (tmp_path / "search").mkdir()
    (tmp_path / "search/search_index.json").write_text(json.dumps({"config": {}, "docs": [entry("<p>One.</p>")]}))
    (tmp_path / "404.html").write_text(PAGE)
    for _ in range(2):
        finish(tmp_path)
        page = (tmp_path / "404.html").read_text()
        assert '"../assets/js/search.js"' in page
        assert page.count("<noscript>") == 1
        assert json.loads((tmp_path / "search/search_index.json").read_text()) == {"config": {}, "docs": []}
        assert json.loads((tmp_path / "search/index.json").read_text())["docs"][0]["text"] == "One."


def test_a_site_of_another_builder_stays_as_it_is(tmp_path):
    (tmp_path / "index.html").write_text(PAGE)
    finish(tmp_path)
    assert (tmp_path / "index.html").read_text() == PAGE
