"""Lists to search: gallery, models and questions are filtered, sorted and shared like the museum's catalogue."""

import pytest

from tests.browser.live_figures import until

pytestmark = pytest.mark.full
SCREEN = 900


def left(page, items):
    return page.locator(f"{items}:visible").count()


def test_the_gallery_is_short_and_its_cards_are_found(open_page):
    page = open_page("gallery/")
    page.wait_for_selector(".finder-bar")
    assert page.evaluate("document.body.scrollHeight") <= 12 * SCREEN
    assert page.locator(".card h3").first.inner_text().startswith("RoPE")
    total = left(page, ".card")
    page.get_by_role("button", name="bias by offset").click()
    assert 3 < left(page, ".card") < total
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("searchbox", name="Find").fill("bloom")
    assert page.locator(".card:visible h3").all_inner_texts()[0].startswith("ALiBi")
    assert "q=bloom" in page.url


def test_a_card_opens_and_the_jump_list_leads_to_it(open_page):
    page = open_page("gallery/")
    page.get_by_role("link", name="KERPLE", exact=True).click()
    assert page.locator("#kerple").evaluate("(h) => h.getBoundingClientRect().top") < SCREEN / 2
    card = page.locator(".card:has(#kerple)")
    assert not card.locator("dl").is_visible()
    card.get_by_text("Formula, cost, code").click()
    assert card.locator("dl").is_visible()


def test_models_are_filtered_and_sorted(open_page):
    page = open_page("models/")
    page.wait_for_selector(".finder-bar")
    total = left(page, "tbody tr")
    page.get_by_role("button", name="MLA").click()
    assert 5 < left(page, "tbody tr") < total
    page.get_by_role("button", name="Show all").click()
    head = page.locator("th", has_text="Base")
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    cells = page.locator("tbody tr td:nth-child(4)").all_inner_texts()
    bases = [float(cell.strip("()").replace(",", "")) for cell in cells if cell]
    assert bases == sorted(bases)
    head.get_by_role("button").click()
    assert page.locator("tbody tr td:nth-child(4)").first.inner_text() == f"{max(bases):,.0f}"


def test_questions_are_filtered_with_what_stands_below_them(open_page):
    page = open_page("questions/")
    page.wait_for_selector(".finder-bar")
    total = left(page, "article h3")
    page.get_by_role("searchbox", name="Find").fill("mscale")
    until(page, "() => document.querySelector('.finder-filtered')")
    assert 0 < left(page, "article h3") < total / 4
    assert 0 < left(page, "article h2") <= left(page, "article h3")
    assert "mscale" in page.locator("article").inner_text()
    assert "Why does a Transformer need positions?" not in page.locator("article").inner_text()


@pytest.mark.parametrize(
    ("words", "title"), [("10000", "7. Why the base"), ("10,000", "7. Why the base"), ("kv cache", "36. Can I cache")]
)
def test_questions_are_found_by_what_their_answers_say_and_by_numbers_without_a_comma(open_page, words, title):
    page = open_page("questions/")
    page.get_by_role("searchbox", name="Find").fill(words)
    until(page, "() => document.querySelector('.finder-filtered')")
    assert any(found.startswith(title) for found in page.locator("article h3:visible").all_inner_texts())


def test_of_a_question_that_is_not_found_nothing_stays(open_page):
    page = open_page("questions/")
    page.get_by_role("searchbox", name="Find").fill("zzzz")
    until(page, "() => document.querySelector('.finder-filtered')")
    assert left(page, "article :is(h2, h3, figure, details.fold)") == 0
