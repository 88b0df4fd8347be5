"""The flash cards: dealt one at a time, turned, answered by hand or key, and remembered."""

import pytest

from tests.browser import axe

pytestmark = pytest.mark.full

CARDS = "workbook/cards/"
FRONT, BACK = ".deal-front", ".deal-back"


@pytest.fixture
def deal(open_page):
    """Return a function that opens the cards."""

    def opened(**options):
        page = open_page(CARDS, **options)
        page.wait_for_selector(".deal")
        return page

    return opened


def press(page, *names):
    for name in names:
        page.locator(".deal-buttons button", has_text=name).click()


def front(page):
    return page.locator(FRONT).inner_text()


def known_count(page):
    return int(page.locator(".deal-count").inner_text().split()[0])


def reload(page):
    page.reload()
    page.wait_for_selector(".deal")


def test_without_a_script_every_card_is_a_fold(open_without_scripts):
    page = open_without_scripts(CARDS)
    assert page.locator("details.flash").count() >= 40
    assert page.locator(".deal").count() == 0
    page.locator("details.flash summary").first.click()
    assert page.locator("details.flash .katex").first.is_visible()


def test_a_card_turns_shows_its_formula_and_fits_a_phone(deal, judged):
    page = deal(width=390, height=844)
    assert page.locator(BACK).is_hidden()
    press(page, "Turn")
    assert page.locator(f"{BACK} .katex").first.is_visible()
    assert page.locator(f"{BACK} a").first.get_attribute("href")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert axe.unread_in_both_schemes(page, judged) == []


def test_a_card_rests_when_it_was_known_twice_and_is_remembered(deal):
    page = deal()
    page.locator(".deal select").select_option("The position problem")
    first = front(page)
    press(page, *6 * ["Turn", "I knew it"])
    assert known_count(page) == 3
    assert front(page) == "You know them all."
    reload(page)
    assert known_count(page) == 3
    assert front(page) != first
    press(page, "Start afresh")
    assert known_count(page) == 0
    assert front(page) == first


def test_a_card_that_was_missed_comes_back_after_three_others(deal):
    page = deal()
    first = front(page)
    press(page, "Turn", "Again")
    for _ in range(3):
        assert front(page) != first
        press(page, "Turn", "I knew it")
    assert front(page) == first


def test_keys_turn_and_answer(deal):
    page = deal()
    first = front(page)
    page.locator(FRONT).focus()
    page.keyboard.press("Space")
    assert page.locator(BACK).is_visible()
    page.keyboard.press("ArrowRight")
    assert page.locator(BACK).is_hidden()
    assert front(page) != first


def test_what_a_browser_kept_may_be_broken(deal):
    page = deal()
    for stored in ("not JSON", "[1]", '{"x": "y"}'):
        page.evaluate("text => localStorage.setItem('posenc-cards', text)", stored)
        reload(page)
        assert known_count(page) == 0
