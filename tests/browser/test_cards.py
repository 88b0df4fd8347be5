"""The flash cards in a browser: dealt one at a time, turned, answered by hand or key, and remembered."""

import pytest

from tests.browser import axe

pytestmark = pytest.mark.full

CARDS = "workbook/cards/"
FRONT, BACK = ".deal-front", ".deal-back"


@pytest.fixture
def sit(site, visit):
    """Return a function that opens the cards."""

    def opened(**options):
        seen = visit(site + CARDS, **options)
        seen.page.wait_for_selector(".deal")
        return seen

    return opened


def press(page, name):
    page.locator(".deal-buttons button", has_text=name).click()


def known(page):
    return int(page.locator(".deal-count").inner_text().split()[0])


def test_without_a_script_every_card_is_a_fold(site, browser):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site + CARDS)
        assert page.locator("details.flash").count() >= 40
        assert page.locator(".deal").count() == 0
        page.locator("details.flash summary").first.click()
        assert page.locator("details.flash .katex").first.is_visible()


def test_a_card_turns_and_shows_its_formula(sit):
    seen = sit()
    assert seen.page.locator(BACK).is_hidden()
    press(seen.page, "Turn")
    assert seen.page.locator(f"{BACK} .katex").first.is_visible()
    assert seen.page.locator(f"{BACK} a").first.get_attribute("href")
    assert not seen.errors


def test_a_card_rests_when_it_was_known_twice_and_is_remembered(sit):
    seen = sit()
    seen.page.locator(".deal select").select_option("The position problem")
    first = seen.page.locator(FRONT).inner_text()
    for _ in range(2 * 3):
        press(seen.page, "Turn")
        press(seen.page, "I knew it")
    assert known(seen.page) == 3
    assert seen.page.locator(FRONT).inner_text() == "You know them all."
    seen.page.reload()
    seen.page.wait_for_selector(".deal")
    assert known(seen.page) == 3
    assert seen.page.locator(FRONT).inner_text() != first
    press(seen.page, "Start afresh")
    assert known(seen.page) == 0
    assert seen.page.locator(FRONT).inner_text() == first


def test_a_card_that_was_missed_comes_back_after_three_others(sit):
    seen = sit()
    first = seen.page.locator(FRONT).inner_text()
    press(seen.page, "Turn")
    press(seen.page, "Again")
    met = []
    for _ in range(3):
        met.append(seen.page.locator(FRONT).inner_text())
        press(seen.page, "Turn")
        press(seen.page, "I knew it")
    assert first not in met
    assert seen.page.locator(FRONT).inner_text() == first


def test_keys_turn_and_answer(sit):
    seen = sit()
    first = seen.page.locator(FRONT).inner_text()
    seen.page.locator(FRONT).focus()
    seen.page.keyboard.press("Space")
    assert seen.page.locator(BACK).is_visible()
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator(BACK).is_hidden()
    assert seen.page.locator(FRONT).inner_text() != first


def test_what_a_browser_kept_may_be_broken(sit):
    seen = sit()
    for kept in ("not JSON", "[1]", '{"x": "y"}'):
        seen.page.evaluate("text => localStorage.setItem('posenc-cards', text)", kept)
        seen.page.reload()
        seen.page.wait_for_selector(".deal")
        assert known(seen.page) == 0
    assert not seen.errors


def test_it_fits_a_phone_and_can_be_read(sit):
    seen = sit(width=390, height=844)
    press(seen.page, "Turn")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert axe.in_both_schemes(seen.page) == []
