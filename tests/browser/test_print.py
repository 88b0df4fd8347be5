"""A page on paper: nothing is folded, nothing waits for a click, a live figure is its still, black stands on white."""

import pytest

from tests.browser.live_figures import settled, until

CHAPTER = "chapters/3-rope/derivation/"
FRAME = ".md-header, .md-tabs, .md-sidebar, .md-footer, .md-top, .md-content__button, .headerlink, .md-clipboard"
CONTROLS = ".md-content :is(input, select, button, canvas)"
VISIBLE = "(selector) => [...document.querySelectorAll(selector)].filter((part) => part.checkVisibility()).length"
FOLDS = ".md-content details:not(.figure-menu)"
HIDDEN = f"""() => [...document.querySelectorAll("{FOLDS} > :not(summary)")]
    .filter((part) => !part.matches("a, .offers, p:has(+ .offers)") && !part.checkVisibility())
    .map((part) => part.outerHTML.slice(0, 80))"""


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


def test_what_is_folded_is_open_while_it_is_printed(paper):
    page = paper(CHAPTER)
    folds = page.locator(FOLDS).count()
    assert folds > 20
    assert page.locator(f"{FOLDS}[open]").count() == folds
    assert page.evaluate(HIDDEN) == []
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator(f"{FOLDS}[open] > summary").all_inner_texts() == ["Proof, in five steps"]
    assert page.evaluate(HIDDEN) == [], "the style alone opens what no script has opened"


def test_a_live_figure_is_its_still(paper):
    page = paper(CHAPTER)
    stills = page.locator("posenc-figure > .drawn-svg").count()
    assert stills > 0
    assert page.evaluate(VISIBLE, "posenc-figure > .drawn-svg") == stills
    assert page.locator("posenc-figure[live]").count() > 0


@pytest.mark.parametrize("path", ["", CHAPTER, "gallery/", "explorer/", "museum/", "workbook/cards/"])
def test_nothing_that_is_clicked_is_printed(paper, path):
    assert paper(path).evaluate(VISIBLE, f"{FRAME}, {CONTROLS}") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_black_on_white(paper, scheme):
    ink = "() => ['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])"
    assert paper(CHAPTER, scheme=scheme).evaluate(ink) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]


def test_a_source_says_where_it_is_and_a_link_within_the_book_does_not(paper):
    page = paper(CHAPTER)
    address = """(link) => getComputedStyle(link, "::after").content.replace(/[" ]/g, "")"""
    source = page.locator("article a[href^='https://arxiv.org']").first
    assert source.evaluate(address) == f"({source.get_attribute('href')})"
    assert page.locator("article a", has_text="Part 1").first.evaluate(address) == "none"
