"""The index of the search is the theme's own, though the theme is given less of a page to read."""

import re

import pytest

from galley.search import without_excluded
from tests.browser.pages import PAGES

parser = pytest.importorskip("material.plugins.search.plugin", reason="no theme: pip install -e '.[docs]'")
ARTICLE = re.compile(r"<article\b[^<>]*>(.*)</article>", re.S)


@pytest.mark.parametrize("path", PAGES)
def test_it_finds_what_the_theme_finds_in_the_whole_page(built_site, path):
    whole = ARTICLE.search((built_site / path / "index.html").read_text(encoding="utf-8"))[1]
    assert _sections(without_excluded(whole)) == _sections(whole)


def _sections(html: str) -> list[tuple]:
    reader = parser.Parser()
    reader.feed(html)
    reader.close()
    return [(part.id, part.is_excluded(), "".join(part.title), "".join(part.text)) for part in reader.data]
