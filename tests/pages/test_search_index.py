"""The index of the search: what the theme finds, though it is given less of a page to read, in a lean form."""

import gzip
import json
import re

import pytest
from mkdocs.utils.meta import get_data

from galley.show.chapter_layout import without_folds
from galley.show.search_index import without_excluded
from tests.browser.pages import PAGES

parser = pytest.importorskip("material.plugins.search.plugin", reason="no theme: pip install -e '.[docs]'")
MOST = 350_000  # bytes on their way to a reader
ARTICLE = re.compile(r"<article\b[^<>]*>(.*)</article>", re.S)


@pytest.mark.parametrize("path", PAGES)
def test_it_finds_what_the_theme_finds_in_the_whole_page(built_site, path):
    whole = ARTICLE.search((built_site / path / "index.html").read_text(encoding="utf-8"))[1]
    assert _sections(without_excluded(without_folds(whole))) == _sections(without_folds(whole))


def test_a_section_of_the_depth_is_found_under_its_heading(built_site):
    entries = json.loads((built_site / "search/index.json").read_text(encoding="utf-8"))["docs"]
    (section,) = [entry for entry in entries if entry["location"].endswith("derivation/#why-not-rotate-the-values")]
    assert "averaged" in section["text"]


def test_it_is_light_and_no_page_brings_it(built_site):
    whole = (built_site / "search/index.json").read_bytes()
    assert len(gzip.compress(whole, 9)) <= MOST
    assert (built_site / "search/search_index.json").stat().st_size < 1000, "the theme fetches this with every page"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_by_which_words_people_look_for_it(path):
    """Write into its front matter keywords: [rope_scaling, YaRN, …], what people type and its title may not say."""
    keywords = get_data(PAGES[path].text)[1].get("keywords", [])
    assert 5 <= len(keywords) <= 12, f"{path or 'the landing page'}: {len(keywords)} keywords"
    assert len({word.casefold() for word in keywords}) == len(keywords), f"{path}: a keyword stands twice in {keywords}"


def _sections(html: str) -> list[tuple]:
    reader = parser.Parser()
    reader.feed(html)
    reader.close()
    return [(part.id, part.is_excluded(), "".join(part.title), "".join(part.text)) for part in reader.data]
