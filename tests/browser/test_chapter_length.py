"""A main line is read in ten minutes: it takes six screens at most, or eight sheets of paper with all its code."""

import re

import pytest

from dev.page_form import chapters
from tests.browser.live_figures import settled, until
from tests.browser.pages import path_of

pytestmark = [pytest.mark.full, pytest.mark.parametrize("name", chapters())]

DESK = {"width": 1440, "height": 900}
SCREENS, SHEETS = 6, 8
HEIGHT = """() => document.querySelector("#depth").getBoundingClientRect().top
  - document.querySelector("h1").getBoundingClientRect().top"""
WITHOUT_DEPTH = """() => { for (let part = document.querySelector("#depth"), next; part; part = next) {
    next = part.nextElementSibling
    part.remove()
} }"""


def test_the_main_line_takes_six_screens(site, visit, name):
    page = visit(site + path_of(name), **DESK).page
    for figure in page.query_selector_all("posenc-figure:not(details *)"):  # awake, a figure is higher
        figure.scroll_into_view_if_needed()
        until(page, "(figure) => figure.hasAttribute('live')", arg=figure)
    settled(page)
    screens = page.evaluate(HEIGHT) / DESK["height"]
    assert 0 < screens <= SCREENS, f"{name}: {screens:.2f} screens above ## Depth"


def test_the_main_line_takes_few_sheets(site, visit, name):
    page = visit(site + path_of(name)).page
    page.emulate_media(media="print")
    page.evaluate(WITHOUT_DEPTH)
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert 1 < len(sheets) <= SHEETS
