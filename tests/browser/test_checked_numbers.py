"""A checked number says what it is, by pointer, tap and keyboard, and leads to the code that gives it."""

import pytest

PAGE = "chapters/3-rope/derivation/"
BOX = ".checked-box"


@pytest.fixture
def opened(open_page):
    """Return a chapter whose numbers can be asked."""
    page = open_page(PAGE)
    page.wait_for_selector(".checked[tabindex='0']")
    return page


def number(page, expression):
    return page.locator(f'.checked[data-expression="{expression}"]').first


def test_a_tap_says_what_a_number_is_and_where_it_is_computed(opened):
    one = number(opened, "2 * np.pi / rotate.theta[-1]")
    one.scroll_into_view_if_needed()
    one.click()
    box = opened.locator(BOX)
    assert "2 * np.pi / rotate.theta[-1]" in box.inner_text()
    assert one.get_attribute("aria-expanded") == "true"
    box.get_by_role("link", name="The code").click()
    block = opened.locator(opened.evaluate("location.hash"))
    assert block.evaluate("(place) => place.getBoundingClientRect().top") < 900
    assert "rotate, p = RoPE(64)" in block.evaluate("(place) => (place.nextElementSibling ?? place).textContent")


def test_a_number_is_reached_by_the_keyboard_and_leads_to_the_next(opened):
    first = opened.locator(".checked[tabindex='0']").first
    first.focus()
    assert opened.locator(BOX).is_visible()
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate("document.activeElement.matches('.checked')")
    assert first.get_attribute("aria-expanded") is None
    opened.keyboard.press("Tab")
    assert opened.evaluate(f"document.activeElement.closest('{BOX}') !== null")
    opened.keyboard.press("Escape")
    assert opened.locator(BOX).count() == 0


def test_each_section_has_one_stop_for_its_numbers(opened):
    stops = opened.locator(".checked[tabindex='0']").count()
    assert 0 < stops <= opened.locator(".md-content :is(h1, h2, h3)").count()


def test_a_quoted_number_leads_to_its_source(open_page):
    page = open_page("chapters/5-pope/evidence/")
    quoted = page.locator('.checked[data-expression^="cite "]:visible').first
    quoted.scroll_into_view_if_needed()
    quoted.click()
    address = page.locator(BOX).get_by_role("link", name="The source").get_attribute("href")
    key = quoted.get_attribute("data-expression").removeprefix("cite ").partition(",")[0]
    assert address.endswith(f"reference/bibliography/#{key}")


def test_the_box_stays_on_a_phone(open_page):
    page = open_page(PAGE, width=390, height=844)
    page.wait_for_selector(".checked[tabindex='0']")
    for one in page.locator(".checked[tabindex]:visible").all()[:6]:
        one.scroll_into_view_if_needed()
        one.click()
        box = page.locator(BOX).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
