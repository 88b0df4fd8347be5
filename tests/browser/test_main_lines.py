"""A chapter's main line is read in ten minutes: it takes six screens at most, with what lives on them."""

import pytest

from dev.page_form import chapters
from tests.browser.live import settled, until
from tests.browser.pages import path_of

DESK, SCREENS = {"width": 1440, "height": 900}, 6
ABOVE_DEPTH = "posenc-figure:not(details *)"
HEIGHT = """() => document.querySelector("#depth").getBoundingClientRect().top
  - document.querySelector("h1").getBoundingClientRect().top"""


@pytest.mark.full
@pytest.mark.parametrize("name", chapters())
def test_the_main_line_takes_six_screens(site, visit, name):
    page = visit(site + path_of(name), **DESK).page
    for figure in page.query_selector_all(ABOVE_DEPTH):
        figure.scroll_into_view_if_needed()
        until(page, "(figure) => figure.hasAttribute('live')", arg=figure)
    settled(page)
    high = page.evaluate(HEIGHT) / DESK["height"]
    assert 0 < high <= SCREENS, f"{name}: {high:.2f} screens above ## Depth"
