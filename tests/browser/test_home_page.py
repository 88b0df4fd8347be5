"""The home page: its figure moves and can be held, and what it says of numbers and errors is what the engine does."""

import re

import pytest

from galley.book import Book
from tests.browser.live_figures import until
from tests.conftest import ROOT

TEXT = (ROOT / "docs/index.md").read_text(encoding="utf-8")
PLACE = "getComputedStyle(document.querySelector('.live')).getPropertyValue('--p')"


@pytest.mark.full
def test_the_figure_moves_and_can_be_held(open_page):
    page = open_page(still=False)
    until(page, f"(before) => {PLACE} > before", arg=float(page.evaluate(PLACE)))
    page.locator(".live").focus()
    page.wait_for_timeout(200)
    place = page.evaluate(PLACE)
    page.wait_for_timeout(300)
    assert page.evaluate(PLACE) == place


@pytest.mark.full
def test_the_figure_stands_still_for_who_wants_no_motion(open_page):
    assert float(open_page(still=True).evaluate(PLACE)) == 21


def test_a_number_says_where_it_comes_from(open_page):
    number = open_page().locator(".checked", has_text="47,117")
    assert number.get_attribute("data-expression") == "wavelengths(64)[-1]"


def test_the_message_that_it_shows_is_what_the_engine_says():
    message = re.search(r"```text\n(docs/index\.md:\d+: .*)\n```", TEXT)[1]
    wrong = TEXT.replace("47,117<!-- =", "47,118<!-- =", 1)
    result = Book.find(ROOT).run({"docs/index.md": wrong})["docs/index.md"]
    assert message in [f"docs/index.md:{problem.line}: {problem.message}" for problem in result.problems]
