"""Fonts and colors of the site, and what its navigation and its links do."""

import pytest

from tests.browser.live_figures import until

CHAPTER = "chapters/1-sinusoidal/sinusoidal/"
DERIVATION = "chapters/3-rope/derivation/"
FAMILIES = {
    "article p:not([class])": "Posenc Serif",
    ".md-tabs": "Source Sans 3",
    "article pre code": "Source Code Pro",
    "article .katex": "KaTeX_Main",
}


def test_formulas_and_texts_are_set_in_the_fonts_of_the_site(open_page):
    page = open_page(CHAPTER)
    fonts = "[...document.fonts].filter((font) => font.status === 'loaded').map((font) => [font.family, font.style])"
    loaded = [(family.strip('"'), style) for family, style in page.evaluate(fonts)]
    for css, name in FAMILIES.items():
        family = page.locator(css).first.evaluate("(element) => getComputedStyle(element).fontFamily")
        assert family.split(",")[0].strip('"') == name
        assert (name, "normal") in loaded
    question = page.locator(".md-content blockquote :is(strong, em)").first
    assert question.evaluate("(element) => getComputedStyle(element).fontStyle") == "italic"
    assert ("Posenc Serif", "italic") in loaded


def test_the_palette_recolors_the_text_of_a_figure(open_page):
    page = open_page(CHAPTER)
    text = page.locator("figure.drawn svg text").first
    color = "(element) => getComputedStyle(element).fill"
    assert text.evaluate(color) == "rgb(31, 36, 45)"
    for _ in ("from the system's colors to light", "to dark"):
        page.locator('[data-md-component="palette"] label:visible').click()
    assert page.locator("body").get_attribute("data-md-color-scheme") == "slate"
    assert text.evaluate(color) == "rgb(221, 225, 231)"
    assert "Source Sans 3" in text.evaluate("(element) => getComputedStyle(element).fontFamily")


@pytest.mark.full
@pytest.mark.parametrize("slow", [0, 400])
@pytest.mark.parametrize("pause", [0, 80, 150, 300])
def test_a_link_leads_to_its_place_though_the_page_still_scrolls(site, open_page, slow, pause):
    page = open_page("museum/order/")
    until(page, "history.state !== null")
    page.evaluate(
        """([href, slow, pause]) => {
          const send = XMLHttpRequest.prototype.send
          XMLHttpRequest.prototype.send = function (...body) { setTimeout(() => send.apply(this, body), slow) }
          const link = document.querySelector(".md-content").appendChild(document.createElement("a"))
          link.href = href
          scrollTo(0, 3000)
          setTimeout(() => link.click(), pause)
        }""",
        [f"{site}museum/#find-an-entry", slow, pause],
    )
    page.wait_for_selector("#find-an-entry")
    page.wait_for_timeout(600)  # longer than the theme takes to note where a page stands
    assert 0 < page.evaluate("document.querySelector('#find-an-entry').getBoundingClientRect().y") < 300


def test_a_link_into_the_depth_opens_its_section(open_page):
    page, anchor = open_page(DERIVATION), "#why-not-rotate-the-values"
    section = f"details.depth:has({anchor})"
    assert page.locator(section).get_attribute("open") is None
    page.evaluate("(anchor) => (location.hash = anchor)", anchor)
    until(page, f"document.querySelector('{section}').open")
    page.evaluate("document.querySelector('details.depth[open]').open = false")
    page.locator(f".md-nav--secondary a[href$='{anchor}']").last.click()  # the address stays as it is
    until(page, f"document.querySelector('{section}').open")


def test_an_address_into_the_depth_opens_its_section(open_page):
    page = open_page(f"{DERIVATION}#exercise-313-medium")
    until(page, "document.querySelector('details.depth:has(#exercise-313-medium)').open")
    until(page, "document.querySelector('#exercise-313-medium').getBoundingClientRect().top < innerHeight")


@pytest.mark.full
def test_a_missing_page_still_finds_its_styles(site, open_page):
    page = open_page("404.html")
    assert "position" in page.locator("h1").inner_text()
    assert page.locator("article a").first.evaluate("(link) => link.href") == site


def test_chapters_offer_their_source_and_their_notebook(open_page):
    page = open_page(CHAPTER)
    edit = page.locator('.md-content__button[rel="edit"]').get_attribute("href")
    assert edit == "https://github.com/posenc/posenc/edit/main/docs/chapters/1-sinusoidal/sinusoidal.md"
    notebook = page.locator(".md-content__button[download]").evaluate("(link) => link.href")
    assert page.request.get(notebook).json()["nbformat"] == 4
