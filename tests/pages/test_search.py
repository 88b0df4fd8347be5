"""The index of the search is the theme's own, though the theme is given less of a page to read."""

import json
import re

import pytest

from galley.search import without_excluded
from galley.stage import without_folds
from tests.browser.pages import PAGES

parser = pytest.importorskip("material.plugins.search.plugin", reason="no theme: pip install -e '.[docs]'")
ARTICLE = re.compile(r"<article\b[^<>]*>(.*)</article>", re.S)


@pytest.mark.parametrize("path", PAGES)
def test_it_finds_what_the_theme_finds_in_the_whole_page(built_site, path):
    whole = ARTICLE.search((built_site / path / "index.html").read_text(encoding="utf-8"))[1]
    assert _sections(without_excluded(without_folds(whole))) == _sections(without_folds(whole))


def test_a_section_of_the_depth_is_found_under_its_heading(built_site):
    entries = json.loads((built_site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    (found,) = [entry for entry in entries if entry["location"].endswith("derivation/#why-not-rotate-the-values")]
    assert "averaged" in found["text"]


def _sections(html: str) -> list[tuple]:
    reader = parser.Parser()
    reader.feed(html)
    reader.close()
    return [(part.id, part.is_excluded(), "".join(part.title), "".join(part.text)) for part in reader.data]
