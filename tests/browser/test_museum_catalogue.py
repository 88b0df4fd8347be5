"""The museum's catalogue: it is found, filtered, shared, steered by the keyboard and read on a phone."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser import axe
from tests.browser.live_figures import until

pytestmark = pytest.mark.full

ROWS = ".finder tbody tr"


@pytest.fixture
def enter(open_page):
    """Return a function that opens the entrance with a query string."""

    def opened(query="", **options):
        page = open_page(f"museum/{query}", **options)
        page.wait_for_selector(".finder-bar")
        return page

    return opened


def count(page):
    return page.locator(f"{ROWS}:visible").count()


def count_line(page):
    return page.locator(".finder-count").inner_text()


def query(page):
    return parse_qs(urlsplit(page.url).query)


def tag(page, name):
    return page.locator(f".finder-tag button[data-mark='{name}']")


def number(button):
    return int(button.locator(".finder-number").inner_text())


def tags_of_rows(page):
    """Return the tags of each row that is left."""
    cells = page.locator(f"{ROWS}:visible td:nth-child(3)").all_inner_texts()
    assert cells
    return [set(cell.split(", ")) for cell in cells]


def test_without_a_script_the_whole_table_stands(open_without_scripts):
    page = open_without_scripts("museum/")
    total = page.locator(ROWS).count()
    assert total >= 9
    assert count(page) == total
    assert page.locator(".finder-bar").count() == 0


def test_a_text_filters_at_once_and_stands_in_the_address(site, enter):
    page = enter()
    total = count(page)
    assert count_line(page) == f"All {total} entries"
    assert page.locator(".finder-all").is_hidden()
    box = page.get_by_role("searchbox", name="Find")
    box.fill("Shuffle changes")
    assert 0 < count(page) < total
    assert count_line(page) == f"{count(page)} of {total} entries"
    at_once = "(box) => { box.dispatchEvent(new Event('input')); return location.href }"  # the theme edits it later
    assert box.evaluate(at_once) == f"{site}museum/?q=Shuffle+changes#find-an-entry"
    for row in page.locator(f"{ROWS}:visible").all_inner_texts():
        assert {"shuffle", "changes"} <= {*re.findall(r"\w+", row.lower())}
    page.get_by_role("button", name="Show all").click()
    assert count(page) == total
    assert query(page) == {}
    assert page.evaluate("document.activeElement.type") == "search"


def test_tags_narrow_and_their_numbers_tell_how_far(enter):
    page = enter()
    masks = number(tag(page, "mask"))
    tag(page, "mask").click()
    assert count(page) == masks
    assert tag(page, "mask").get_attribute("aria-pressed") == "true"
    rows_with_both = number(tag(page, "alibi"))
    tag(page, "alibi").click()
    assert count(page) == rows_with_both
    assert 0 < rows_with_both < masks
    assert sorted(query(page)["tag"]) == ["alibi", "mask"]
    assert all({"alibi", "mask"} <= tags for tags in tags_of_rows(page))
    tag(page, "mask").click()
    assert tag(page, "mask").get_attribute("aria-pressed") == "false"


def test_an_exhibit_has_one_kind(enter):
    page = enter()
    kinds = page.locator(".finder-kind button").all()
    assert sum(number(kind) for kind in kinds) == count(page)
    for kind in kinds:
        kind.click()
        assert page.locator(".finder-kind [aria-pressed=true]").count() == 1
        assert query(page) == {"kind": [kind.get_attribute("data-mark")]}


def test_an_address_opens_what_it_says(enter):
    page = enter("?tag=mask&q=causal&tag=nothing-of-ours")
    assert page.get_by_role("searchbox").input_value() == "causal"
    assert page.locator(".finder-bar [aria-pressed=true]").all_inner_texts()[0].startswith("mask")
    assert 0 < count(page) < page.locator(ROWS).count()


def test_where_nothing_is_found_it_says_so(enter):
    page = enter("?q=a-word-that-no-exhibit-has")
    assert count(page) == 0
    assert page.get_by_text("No entries have all of these").is_visible()
    assert count_line(page).startswith("0 of ")


def test_a_label_in_a_hall_leads_to_others_like_it_without_loading_a_document(site, visit):
    visited = visit(f"{site}museum/order/")
    page = visited.page
    page.locator(".exhibit a", has_text="alibi").first.click()
    page.wait_for_selector(".finder-bar")
    page.wait_for_url(re.compile(r"museum/\?tag=alibi"))
    assert tag(page, "alibi").get_attribute("aria-pressed") == "true"
    until(page, "document.querySelector('#find-an-entry').getBoundingClientRect().y < 900")
    assert all("alibi" in tags for tags in tags_of_rows(page))
    page.locator(f"{ROWS}:visible a").first.click()
    page.wait_for_selector(".exhibit")
    page.go_back()
    page.wait_for_selector(".finder-bar")
    assert page.locator(".finder-bar").count() == 1
    assert len(visited.documents) == 1
    assert not visited.errors


def test_the_keyboard_alone_filters(enter):
    page = enter()
    total = count(page)
    page.get_by_role("searchbox").focus()
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.dataset.mark") != "mask":
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert 0 < count(page) < total
    assert page.evaluate("document.activeElement.dataset.mark") == "mask"


@pytest.mark.parametrize("width", [390, 1440])
def test_it_reads_on_a_phone_and_in_the_dark(enter, judged, width):
    page = enter("?tag=mask", width=width, height=844)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(f"{ROWS}:visible td:first-child").first.bounding_box()["width"] > 250
    assert axe.unread_in_both_schemes(page, judged) == []
