"""What is far from the screen is not drawn, and nobody notices: links, search in the page, marks of what scrolls."""

import pytest

from tests.browser.live_figures import settled

CHAPTER = "chapters/1-sinusoidal/sinusoidal/"
PHONE = {"width": 390, "height": 844}
CODE = ".md-typeset pre > code:not(details:not([open]) *)"
HEIGHTS = "(selector) => [...document.querySelectorAll(selector)].map((part) => part.offsetHeight).filter(Boolean)"
DRAW_ALL = """() => document.querySelectorAll('pre > code, .drawn-svg, .katex-display')
  .forEach((part) => (part.style.contentVisibility = 'visible'))"""


@pytest.fixture
def page(open_page):
    """Return a long chapter, as it opens on a phone."""
    return open_page(CHAPTER, **PHONE)


def open_folds(page):
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")


def seen_from_top(page, expression):
    """Return how far below the top of the screen something stands, once the page has moved there."""
    settled(page)
    return page.evaluate(f"{expression}.getBoundingClientRect().top")


@pytest.mark.parametrize(("selector", "pixels", "share"), [(CODE, 16, 0), (".drawn-svg", 0, 0.1)])  # 16: a scroll bar
def test_what_is_far_takes_the_room_that_it_will_take(site, visit, selector, pixels, share):
    page = visit(site).page
    page.route("**/figures.js", lambda route: route.abort())
    page.set_viewport_size(PHONE)
    page.goto(site + CHAPTER)
    before = page.evaluate(HEIGHTS, selector)
    page.evaluate(DRAW_ALL)
    settled(page)
    after = page.evaluate(HEIGHTS, selector)
    assert len(before) > 1
    assert all(abs(a - b) <= pixels + share * b for a, b in zip(before, after, strict=True)), (before, after)


def test_a_link_leads_to_its_heading(open_page):
    page = open_page(f"{CHAPTER}#depth", **PHONE)
    assert 0 <= seen_from_top(page, "document.getElementById('depth')") < PHONE["height"]


def test_the_browser_finds_what_is_far_away(page):
    open_folds(page)
    last = page.locator(CODE).last.text_content().strip().split("\n")[0]
    page.evaluate("scrollTo(0, 0)")
    assert page.evaluate("(text) => window.find(text)", last)
    assert 0 <= seen_from_top(page, "getSelection().getRangeAt(0)") < PHONE["height"]


def test_what_scrolls_says_so_once_it_is_near(page):
    open_folds(page)
    page.locator("pre > code").last.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    wrong = """() => [...document.querySelectorAll('pre > code')].filter((code) => {
      const { top, bottom } = code.getBoundingClientRect()
      return bottom > 0 && top < innerHeight && code.classList.contains('wide') !== code.scrollWidth > code.clientWidth
    }).length"""
    assert page.evaluate(wrong) == 0
    assert page.locator("pre > code.wide[tabindex]").count() > 0
