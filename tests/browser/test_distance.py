"""What is far from the screen is not drawn, and nobody notices: links, search in the page, marks of what scrolls."""

import pytest

from galley.around.lighter import UNSTYLED
from tests.browser.live import settled

CHAPTER = "chapters/1-sinusoidal/sinusoidal/"
CODE = ".md-typeset pre > code:not(details:not([open]) *)"
HEIGHTS = f"""() => [...document.querySelectorAll('{CODE}')].map((code) => code.offsetHeight)"""


@pytest.fixture
def page(site, visit):
    """Return a long chapter, as it opens on a phone."""
    return visit(site + CHAPTER, width=390, height=844).page


def drawn(page, whether):
    """Draw all code and drawings, or only what is near."""
    value = "visible" if whether else "auto"
    page.evaluate(
        """(value) => document.querySelectorAll('pre > code, .drawn-svg, .katex-display')
          .forEach((part) => (part.style.contentVisibility = value))""",
        value,
    )
    settled(page)


def test_code_takes_the_room_that_it_will_take(page):
    before = page.evaluate(HEIGHTS)
    drawn(page, True)
    after = page.evaluate(HEIGHTS)
    assert len(before) > 2
    assert all(abs(a - b) <= 16 for a, b in zip(before, after, strict=True)), (before, after)  # a bar to scroll with


def test_drawings_take_the_room_that_they_will_take(page):
    page.route("**/figures.js", lambda route: route.abort())
    page.reload()
    heights = "() => [...document.querySelectorAll('.drawn-svg')].map((still) => still.offsetHeight)"
    before = page.evaluate(heights)
    drawn(page, True)
    after = page.evaluate(heights)
    shown = [(a, b) for a, b in zip(before, after, strict=True) if b]
    assert len(shown) > 1
    assert all(abs(a - b) <= 0.1 * b for a, b in shown), shown


def test_a_link_leads_to_its_heading(site, visit):
    page = visit(f"{site}{CHAPTER}#depth", width=390, height=844).page
    settled(page)
    assert 0 <= page.evaluate("document.getElementById('depth').getBoundingClientRect().top") < 844


def test_the_browser_finds_what_is_far_away(page):
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    last = page.evaluate(f"[...document.querySelectorAll('{CODE}')].at(-1).textContent.trim().split('\\n')[0]")
    page.evaluate("scrollTo(0, 0)")
    assert page.evaluate("(text) => window.find(text)", last)
    settled(page)
    place = page.evaluate("getSelection().getRangeAt(0).getBoundingClientRect().top")
    assert 0 <= place < 844


def test_what_scrolls_says_so_once_it_is_near(page):
    page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
    far = page.locator("pre > code").last
    far.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    wrong = """() => [...document.querySelectorAll('pre > code')].filter((code) => {
      const { top, bottom } = code.getBoundingClientRect()
      return bottom > 0 && top < innerHeight && code.classList.contains('wide') !== code.scrollWidth > code.clientWidth
    }).length"""
    assert page.evaluate(wrong) == 0
    assert page.locator("pre > code.wide[tabindex]").count() > 0


def test_kinds_of_tokens_without_a_span_have_no_color(page):
    odd = """(kinds) => {
      const code = document.querySelector('.highlight pre > code')
      return kinds.filter((kind) => {
        const span = code.appendChild(Object.assign(document.createElement('span'), { className: kind }))
        const [a, b] = [getComputedStyle(span), getComputedStyle(code)]
        const odd = ['color', 'fontWeight', 'fontStyle', 'backgroundColor'].some((name) =>
          a[name] !== b[name] && !(name === 'backgroundColor' && a[name] === 'rgba(0, 0, 0, 0)'))
        span.remove()
        return odd
      })
    }"""
    assert page.evaluate(odd, ["mi"]) == ["mi"]
    assert page.evaluate(odd, UNSTYLED.split("|")) == []
