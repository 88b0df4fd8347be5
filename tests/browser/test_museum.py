"""The museum's entrance in a browser: its catalogue is found, filtered, shared and read on a phone."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser import axe
from tests.browser.live import until

pytestmark = pytest.mark.full

ENTRANCE = "museum/"
ROWS = ".finder tbody tr"
NAMES = (
    "() => [...document.querySelectorAll('.finder tbody tr')].filter((r) => !r.hidden).map((r) => r.cells[0].innerText)"
)


@pytest.fixture
def enter(site, visit):
    """Return a function that opens the entrance with a query string."""

    def opened(query="", **options):
        seen = visit(f"{site}{ENTRANCE}{query}", **options)
        seen.page.wait_for_selector(".finder-bar")
        return seen

    return opened


def shown(page):
    return page.locator(f"{ROWS}:visible").count()


def said(page):
    return page.locator(".finder-count").inner_text()


def query(page):
    return parse_qs(urlsplit(page.url).query)


def tag(page, name):
    return page.locator(f".finder-tags button[data-mark='{name}']")


def test_without_a_script_the_whole_table_stands(site, browser):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(site + ENTRANCE)
        total = page.locator(ROWS).count()
        assert total >= 9
        assert shown(page) == total
        assert page.locator(".finder-bar").count() == 0


def test_words_filter_at_once_and_stand_in_the_address(site, enter):
    seen = enter()
    total = shown(seen.page)
    assert said(seen.page) == f"All {total} entries"
    assert seen.page.locator(".finder-all").is_hidden()
    box = seen.page.get_by_role("searchbox", name="Find")
    box.fill("Shuffle changes")
    left = shown(seen.page)
    assert 0 < left < total
    assert said(seen.page) == f"{left} of {total} entries"
    at_once = "(box) => { box.dispatchEvent(new Event('input')); return location.href }"  # the theme edits it later
    assert box.evaluate(at_once) == f"{site}{ENTRANCE}?q=Shuffle+changes#find-an-entry"
    for row in seen.page.locator(f"{ROWS}:visible").all_inner_texts():
        assert "shuffle" in row.lower()
        assert "changes" in row.lower()
    seen.page.get_by_role("button", name="Show all").click()
    assert shown(seen.page) == total
    assert query(seen.page) == {}
    assert seen.page.evaluate("document.activeElement.type") == "search"
    assert not seen.errors


def test_tags_narrow_and_their_numbers_tell_how_far(enter):
    seen = enter()
    number = int(tag(seen.page, "mask").locator(".finder-number").inner_text())
    tag(seen.page, "mask").click()
    assert shown(seen.page) == number
    assert tag(seen.page, "mask").get_attribute("aria-pressed") == "true"
    both = int(tag(seen.page, "alibi").locator(".finder-number").inner_text())
    tag(seen.page, "alibi").click()
    assert 0 < shown(seen.page) == both < number
    assert sorted(query(seen.page)["tag"]) == ["alibi", "mask"]
    cells = seen.page.locator(f"{ROWS}:visible td:nth-child(3)").all_inner_texts()
    assert all({"alibi", "mask"} <= set(cell.split(", ")) for cell in cells)
    tag(seen.page, "mask").click()
    assert tag(seen.page, "mask").get_attribute("aria-pressed") == "false"


def test_an_exhibit_has_one_kind(enter):
    seen = enter()
    total = shown(seen.page)
    kinds = seen.page.locator(".finder-kinds button")
    assert sum(int(n) for n in kinds.locator(".finder-number").all_inner_texts()) == total
    for n in range(kinds.count()):
        kinds.nth(n).click()
        assert seen.page.locator(".finder-kinds [aria-pressed=true]").count() == 1
        assert query(seen.page) == {"kind": [kinds.nth(n).get_attribute("data-mark")]}


def test_an_address_opens_what_it_says(enter):
    seen = enter("?tag=mask&q=causal&tag=nothing-of-ours")
    assert seen.page.get_by_role("searchbox").input_value() == "causal"
    assert seen.page.locator(".finder-bar [aria-pressed=true]").all_inner_texts()[0].startswith("mask")
    assert 0 < shown(seen.page) < seen.page.locator(ROWS).count()


def test_where_nothing_is_found_it_says_so(enter):
    seen = enter("?q=a-word-that-no-exhibit-has")
    assert shown(seen.page) == 0
    assert seen.page.get_by_text("No exhibit has all of these").is_visible()
    assert said(seen.page).startswith("0 of ")


def test_a_label_in_a_hall_leads_to_others_like_it_without_loading_a_document(site, visit):
    seen = visit(f"{site}{ENTRANCE}order/")
    seen.page.locator(".exhibit a", has_text="alibi").first.click()
    seen.page.wait_for_selector(".finder-bar")
    seen.page.wait_for_url(re.compile(r"museum/\?tag=alibi"))
    assert tag(seen.page, "alibi").get_attribute("aria-pressed") == "true"
    until(seen.page, "document.querySelector('#find-an-entry').getBoundingClientRect().y < 900")
    cells = seen.page.locator(f"{ROWS}:visible td:nth-child(3)").all_inner_texts()
    assert cells
    assert all("alibi" in cell.split(", ") for cell in cells)
    seen.page.locator(f"{ROWS}:visible a").first.click()
    seen.page.wait_for_selector(".exhibit")
    seen.page.go_back()
    seen.page.wait_for_selector(".finder-bar")
    assert seen.page.locator(".finder-bar").count() == 1
    assert len(seen.documents) == 1
    assert not seen.errors


def test_the_keyboard_alone_filters(enter):
    seen = enter()
    total = shown(seen.page)
    seen.page.get_by_role("searchbox").focus()
    seen.page.keyboard.press("Tab")
    while seen.page.evaluate("document.activeElement.dataset.mark") != "mask":
        seen.page.keyboard.press("Tab")
    seen.page.keyboard.press("Space")
    assert 0 < shown(seen.page) < total
    assert seen.page.evaluate("document.activeElement.dataset.mark") == "mask"


def test_it_reads_on_a_phone_and_in_the_dark(enter):
    seen = enter("?tag=mask", width=390, height=844)
    for width in (390, 1440):
        seen.page.set_viewport_size({"width": width, "height": 844})
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert seen.page.locator(f"{ROWS}:visible td:first-child").first.bounding_box()["width"] > 250
        assert axe.in_both_schemes(seen.page) == []
    assert not seen.errors
