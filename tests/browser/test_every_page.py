"""Every page of the site, visited once: everybody can read it, it fits a phone and a finger, it is quiet and alone."""

import re

import pytest

from tests.browser import axe
from tests.browser.live_figures import settled, until, wake_all
from tests.browser.pages import LIVE, ONE_OF_EACH_KIND, PAGES, assert_faultless

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PATHS = [pytest.param(path, marks=() if path in ONE_OF_EACH_KIND else pytest.mark.full) for path in PAGES]
TEX_LEFT_OVER = r"/.{0,20}(?:\\\(|\\\[|\$\$).{0,20}/.exec(document.querySelector('article').innerText)?.[0]"
UNFOLD = """() => {
  document.querySelectorAll("details").forEach((details) => details.open = true)
  for (const far of document.querySelectorAll("pre > code, .drawn-svg, .katex-display"))
    far.style.contentVisibility = "visible"
}"""

TOO_SMALL = """(figure) => [...figure.querySelectorAll("button, select, .stage-choice label")]
  .map((part) => [part, part.getBoundingClientRect().height])
  .filter(([part, height]) => part.checkVisibility({ visibilityProperty: true }) && height < 24)
  .map(([part, height]) => `${part.innerText} has ${height}`)"""


def test_each_page_of_the_site_is_visited(site, visit):
    sitemap = visit(site).page.request.get(f"{site}sitemap.xml").text()
    listed = [path.removeprefix(site) for path in re.findall("<loc>(.*?)</loc>", sitemap)]
    assert sorted(path for path in listed if not path.startswith("code/")) == sorted(PAGES)  # test_copies visits those
    assert PAGES.keys() >= ONE_OF_EACH_KIND


@pytest.mark.parametrize("path", PATHS)
def test_a_page(site, visit, judged, path):
    visited = visit(site + path, **PHONE, touch=True)
    page = visited.page
    faults = []
    if rest := page.evaluate(TEX_LEFT_OVER):
        faults.append(f"TeX in place of a formula: {rest}")
    if page.locator("script[src*=katex], script[src*=mathjax]").count():
        faults.append("it loads a script for formulas, which are set when the site is built")
    page.evaluate(UNFOLD)
    faults += _too_wide(page)
    if path in LIVE:
        faults += _not_for_a_finger(visited) + _too_wide(page)
    visited.lift()
    page.set_viewport_size(DESK)
    settled(page)
    until(page, "!document.querySelector('.md-code__nav:not([role])')")  # the theme adds copy buttons when it is idle
    faults += axe.unread_in_both_schemes(page, judged)
    assert_faultless(faults, visited, site)


def _too_wide(page) -> list[str]:
    width = page.evaluate("document.documentElement.scrollWidth")
    return [f"on a phone of {PHONE['width']} pixels it is {width} wide"] if width > PHONE["width"] else []


def _not_for_a_finger(visited) -> list[str]:
    """Touch every picture of the live figures; return which of them run out, or are too small to hit."""
    faults = []
    for figure in wake_all(visited.page):
        name = figure.get_attribute("name")
        box = figure.bounding_box()
        if box["x"] < 0 or box["x"] + box["width"] > PHONE["width"]:
            faults.append(f"{name} runs out of a phone's screen, from {box['x']} to {box['x'] + box['width']}")
        for canvas in figure.query_selector_all("canvas"):
            if canvas.is_visible():
                visited.tap(canvas)
        faults += [f"{name}: a finger needs 24 pixels, {target}" for target in figure.evaluate(TOO_SMALL)]
    return faults
