"""What the search finds of a page: its sections, without code, folded answers and what is marked."""

import json

import pytest

from galley.run.content_cache import ContentCache
from galley.show.search_index import SHOWN, page_entries, write_index

PAGE = """\
<h1 id="turn">Turn &amp; <code>scale</code><a class="headerlink" href="#turn">&para;</a></h1>
<p>One <code>x &lt; y</code>.</p><pre><code>code</code></pre><p>Two.<br>Three.</p>
<table><tr><td>4</td><td>5</td></tr></table>
<h2 id="b">Then</h2>
<p>With <span class="formula"><math><mi>z</mi></math><span>w</span></span>.</p>
"""


def entries(html, tmp_path, keywords=()):
    return page_entries(html, "a/", "A page", [*keywords], ContentCache(tmp_path))


def test_each_heading_begins_an_entry_of_plain_text_without_code(tmp_path):
    first, second = entries(PAGE, tmp_path)
    assert first == {"location": "a/", "title": "Turn & scale", "text": "One x < y. Two. Three. 4 5"}
    assert second == {"location": "a/#b", "title": "Then", "text": "With w."}


def test_a_page_without_a_title_of_its_own_has_its_name(tmp_path):
    assert entries("<p>Words.</p>", tmp_path) == [{"location": "a/", "title": "A page", "text": "Words."}]


@pytest.mark.parametrize("name", ["Hint", "Answer", "Solution"])
def test_what_stands_folded_until_one_asks_is_left_out(tmp_path, name):
    html = f"<p>Compute it.</p><details><summary>{name}</summary><p>Four.</p></details><p>And then?</p>"
    assert entries(html, tmp_path)[0]["text"] == "Compute it. And then?"


def test_other_folds_and_sections_of_the_depth_are_found(tmp_path):
    depth = '<details class="depth"><summary><h3 id="c">Deep</h3></summary><p>Found.</p></details>'
    html = f"<details><summary>The rule</summary><p>Seen.</p></details>{depth}"
    first, second = entries(html, tmp_path)
    assert first["text"] == "The rule Seen."
    assert (second["location"], second["title"], second["text"]) == ("a/#c", "Deep", "Found.")


def test_a_figure_is_found_by_its_caption(tmp_path):
    html = "<figure><div data-figure></div><figcaption>Each pair turns.</figcaption></figure>"
    assert entries(html, tmp_path)[0]["text"] == "Each pair turns."


def test_what_is_marked_is_left_out_with_all_that_is_in_it(tmp_path):
    html = '<p>In.</p><div data-search-exclude=""><div><h2 id="x">No</h2>out</div>out</div><p>Again in.</p>'
    assert [entry["text"] for entry in entries(html, tmp_path)] == ["In. Again in."]


def test_a_prefix_stands_before_the_title_of_its_section(tmp_path):
    html = '<h2 id="x">Low is slow</h2><p data-search-exclude="" data-search-prefix="Myth: ">out</p><p>In.</p>'
    _, section = entries(html, tmp_path)
    assert (section["title"], section["text"]) == ("Myth: Low is slow", "In.")


def test_the_first_entry_of_a_page_has_its_keywords(tmp_path):
    first, second = entries(PAGE, tmp_path, ["rope_scaling"])
    assert first["keywords"] == ["rope_scaling"]
    assert "keywords" not in second


def test_a_long_section_keeps_its_beginning_and_the_words_that_its_page_says_nowhere_else(tmp_path):
    long = "word " * (SHOWN // 5) + "elsewhere rope_theta again rope_theta 7 10000"
    made, other = entries(f'<p>{long}</p><h2 id="b">B</h2><p>Said elsewhere.</p>', tmp_path)
    assert made["text"] == ("word " * (SHOWN // 5)).strip()
    assert made["more"] == "rope_theta again"
    assert "more" not in other


def test_an_entry_comes_from_the_cache_until_its_page_changes(tmp_path):
    assert entries("<p>One.</p>", tmp_path) == entries("<p>One.</p>", tmp_path)
    assert entries("<p>Two.</p>", tmp_path)[0]["text"] == "Two."


def test_the_index_is_one_file(tmp_path):
    write_index(tmp_path, [{"location": "", "title": "A", "text": "é"}])
    assert json.loads((tmp_path / "search/index.json").read_text("utf-8"))["docs"][0]["text"] == "é"


def test_a_dirty_build_keeps_the_pages_that_it_did_not_build(tmp_path):
    write_index(tmp_path, [{"location": "a/"}, {"location": "a/#old"}, {"location": "b/"}])
    write_index(tmp_path, [{"location": "a/"}, {"location": "a/#new"}], is_dirty=True)
    docs = json.loads((tmp_path / "search/index.json").read_text("utf-8"))["docs"]
    assert [entry["location"] for entry in docs] == ["b/", "a/", "a/#new"]
    write_index(tmp_path, [{"location": "a/"}])
    assert len(json.loads((tmp_path / "search/index.json").read_text("utf-8"))["docs"]) == 1
