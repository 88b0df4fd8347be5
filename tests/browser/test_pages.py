"""Every page of the site, visited once: everybody can read it, it fits a phone and a finger, it is quiet and alone."""

import re

import pytest

from tests.browser import axe
from tests.browser.live import settled, wake_all
from tests.browser.pages import LIVE, ONE_OF_EACH_KIND, PAGES

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EACH = [pytest.param(path, marks=() if path in ONE_OF_EACH_KIND else pytest.mark.full) for path in PAGES]
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
    assert sorted(path.removeprefix(site) for path in re.findall("<loc>(.*?)</loc>", sitemap)) == sorted(PAGES)
    assert PAGES.keys() >= ONE_OF_EACH_KIND


@pytest.mark.parametrize("path", EACH)
def test_a_page(site, visit, judged, path):
    seen = visit(site + path, **PHONE, touch=True)
    page, faults = seen.page, []
    if left := page.evaluate(TEX_LEFT_OVER):
        faults.append(f"TeX in place of a formula: {left}")
    if page.locator("script[src*=katex], script[src*=mathjax]").count():
        faults.append("it loads a script for formulas, which are set when the site is built")
    page.evaluate(UNFOLD)
    faults += _too_wide(page)
    if path in LIVE:
        faults += _not_for_a_finger(seen) + _too_wide(page)
    seen.lift()
    page.set_viewport_size(DESK)
    settled(page)
    faults += axe.unread_in_both_schemes(page, judged)
    faults += [f"it complains: {error}" for error in seen.errors]
    faults += [f"it asks another host: {url}" for url in seen.foreign(site)]
    assert not faults, "\n".join([f"{path or 'the landing page'}:", *faults])


def _too_wide(page) -> list[str]:
    width, most = page.evaluate("document.documentElement.scrollWidth"), PHONE["width"]
    return [f"on a phone of {most} pixels it is {width} wide"] if width > most else []


def _not_for_a_finger(seen) -> list[str]:
    """Touch every picture of the live figures; return which of them run out, or are too small to hit."""
    faults = []
    for figure in wake_all(seen.page):
        name, box = figure.get_attribute("name"), figure.bounding_box()
        if box["x"] < 0 or box["x"] + box["width"] > PHONE["width"]:
            faults.append(f"{name} runs out of a phone's screen, from {box['x']} to {box['x'] + box['width']}")
        for canvas in figure.query_selector_all("canvas"):
            if canvas.is_visible():
                seen.tap(canvas)
        faults += [f"{name}: a finger needs 24 pixels, {target}" for target in figure.evaluate(TOO_SMALL)]
    return faults
