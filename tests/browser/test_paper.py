"""A page on paper: nothing is folded, nothing waits for a click, and a chapter's main line is a few sheets."""

import re

import pytest

from dev.page_form import chapters
from tests.browser.live import settled, until
from tests.browser.pages import path_of

CHAPTER, SHEETS = "chapters/3-rope/derivation/", 15
SEEN = (
    """(selector) => [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility()).length"""
)
HIDDEN = """() => [...document.querySelectorAll(".md-content details > :not(summary)")]
    .filter((part) => !part.matches("a, .offers, p:has(+ .offers)") && !part.checkVisibility())
    .map((part) => part.outerHTML.slice(0, 80))"""
WITHOUT_DEPTH = """() => { for (let part = document.querySelector("#depth"), next; part; part = next) {
    next = part.nextElementSibling
    part.remove()
} }"""
INK = "() => ['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])"


@pytest.fixture
def paper(site, visit):
    """Return a function that opens a page, its live figures awake, and shows it as a printer would."""

    def opened(path, **options):
        page = visit(site + path, **options).page
        page.evaluate("document.querySelector('posenc-figure')?.scrollIntoView()")
        until(page, "!document.querySelector('posenc-figure') || document.querySelector('posenc-figure[live]')")
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        settled(page)
        return page

    return opened


def test_what_is_folded_is_open_while_it_is_printed_and_closed_again_after(paper):
    page = paper(CHAPTER)
    folds = page.locator(".md-content details").count()
    assert folds > 20
    assert page.locator(".md-content details[open]").count() == folds
    assert page.evaluate(HIDDEN) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(".md-content details[open]").count() == 0


def test_what_is_folded_is_open_without_the_script(paper):
    page = paper(CHAPTER)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(HIDDEN) == []


def test_a_live_figure_is_its_still(paper):
    page = paper(CHAPTER)
    assert page.locator("posenc-figure[live]").count() > 0
    assert page.evaluate(SEEN, ".md-content :is(input, select, button, canvas)") == 0
    stills = page.locator("posenc-figure > .drawn-svg")
    assert page.evaluate(SEEN, "posenc-figure > .drawn-svg") == stills.count() > 0


@pytest.mark.parametrize("path", ["", CHAPTER, "gallery/", "explorer/", "museum/", "workbook/cards/"])
def test_nothing_that_is_clicked_is_printed(paper, path):
    page = paper(path)
    frame = ".md-header, .md-tabs, .md-sidebar, .md-footer, .md-top, .md-content__button, .headerlink, .md-clipboard"
    assert page.evaluate(SEEN, frame) == 0
    assert page.evaluate(SEEN, ".md-content :is(input, select, button, canvas)") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_black_on_white(paper, scheme):
    assert paper(CHAPTER, scheme=scheme).evaluate(INK) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]


def test_a_source_says_where_it_is_and_a_link_within_the_book_does_not(paper):
    page = paper(CHAPTER)
    said = """(link) => getComputedStyle(link, "::after").content.replace(/[" ]/g, "")"""
    outer = page.locator("article a[href^='https://arxiv.org']").first
    assert outer.evaluate(said) == f"({outer.get_attribute('href')})"
    assert page.locator("article a", has_text="Part 1").first.evaluate(said) == "none"


@pytest.mark.full
@pytest.mark.parametrize("name", chapters())
def test_the_main_line_takes_few_sheets(site, visit, name):
    page = visit(site + path_of(name)).page
    page.evaluate(WITHOUT_DEPTH)
    sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert 1 < len(sheets) <= SHEETS
