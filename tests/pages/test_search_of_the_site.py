"""The index of the search: each section of each page, light, and with the words by which people look for a page."""

import gzip
import json
import re

import pytest
from mkdocs.utils.meta import get_data

from tests.browser.pages import PAGES

MOST = 4_000  # bytes a page on their way to a reader
ARTICLE = re.compile(r"<article\b[^<>]*>(.*)</article>", re.S)
HEADING = re.compile(r'<h[2-6]\b[^<>]*\bid="([^"]+)"')


@pytest.fixture(scope="module")
def entries(built_site):
    return json.loads((built_site / "search/index.json").read_text(encoding="utf-8"))["docs"]


@pytest.mark.parametrize("path", PAGES)
def test_each_section_of_a_page_is_an_entry(built_site, entries, path):
    article = ARTICLE.search((built_site / path / "index.html").read_text(encoding="utf-8"))[1]
    found = [entry["location"] for entry in entries if entry["location"].partition("#")[0] == path]
    assert found == [path, *(f"{path}#{anchor}" for anchor in HEADING.findall(article))]


def test_a_section_of_the_depth_is_found_under_its_heading(entries):
    (section,) = [entry for entry in entries if entry["location"].endswith("derivation/#why-not-rotate-the-values")]
    assert "averaged" in section["text"]


def test_no_answer_of_an_exercise_is_found(entries):
    """That of 3.1.5 stands under an anchor which does not say so."""
    (section,) = [entry for entry in entries if entry["location"].endswith("#what-goes-in-what-comes-out")]
    assert not re.search(r"\b(?:Hint|Answer|Solution)\b", section["text"])


def test_it_is_light_and_no_page_brings_it(built_site):
    whole = (built_site / "search/index.json").read_bytes()
    assert len(gzip.compress(whole, 9)) <= MOST * len(PAGES)
    assert (built_site / "search/search_index.json").stat().st_size < 1000, "the theme fetches this with every page"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_says_by_which_words_people_look_for_it(path):
    """Write into its front matter keywords: [rope_scaling, YaRN, …], what people type and its title may not say."""
    keywords = get_data(PAGES[path].text)[1].get("keywords", [])
    assert 5 <= len(keywords) <= 12, f"{path or 'the landing page'}: {len(keywords)} keywords"
    assert len({word.casefold() for word in keywords}) == len(keywords), f"{path}: a keyword stands twice in {keywords}"
