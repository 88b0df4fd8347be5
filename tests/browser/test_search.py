"""The search, asked as people ask: the right page is among the first three, and nothing comes before it is wanted."""

import pytest

from tests.browser.asked import ASKED, HELD_OUT
from tests.browser.live import open_search, until

INDEX = "search/index.json"
FOUND = ".md-search-result__item"
ANSWERED = f"""document.querySelector('{FOUND}')
  || /No matching/.test(document.querySelector('.md-search-result__meta').innerText)"""
FIRST_THREE = "(items) => items.slice(0, 3).map((item) => new URL(item.querySelector('a').href).pathname)"


def ask(page, query: str) -> list[str]:
    """Type a query in place of the one before, and return the paths of the first three pages."""
    page.locator(".md-search__input").fill("")
    page.keyboard.press("End")
    page.locator(FOUND).first.wait_for(state="detached")
    page.keyboard.insert_text(query[:-1])
    page.keyboard.type(query[-1])
    until(page, ANSWERED)
    return page.eval_on_selector_all(FOUND, FIRST_THREE)


def missed(page, site: str, asked: dict[str, list[str]]) -> list[str]:
    """Return the queries whose pages are not among the first three, with what is."""
    root = page.evaluate("(site) => new URL(site).pathname", site)
    open_search(page)
    found = {query: [path.removeprefix(root) for path in ask(page, query)] for query in asked}
    return [f"{query}: {', '.join(found[query])}" for query in asked if not {*found[query]} & {*asked[query]}]


@pytest.mark.parametrize(("asked", "least"), [(ASKED, 0.95), (HELD_OUT, 0.9)], ids=["asked", "held out"])
def test_the_right_page_is_among_the_first_three(site, visit, asked, least, record_property):
    missing = missed(visit(site).page, site, asked)
    record_property("missed", missing)
    assert len(missing) <= (1 - least) * len(asked), "\n".join(missing)


def test_the_index_comes_when_the_search_is_focused(site, visit):
    seen = visit(site)
    seen.page.wait_for_load_state("networkidle")
    assert not [url for url in seen.requests if INDEX in url]
    with seen.page.expect_request(f"**/{INDEX}"):
        open_search(seen.page)


def test_a_query_that_is_typed_before_the_index_is_there_is_answered(site, visit):
    page = visit(site).page
    page.context.route(f"**/{INDEX}", lambda route: None)  # waits until nobody holds it
    open_search(page)
    with page.context.expect_event("request", lambda request: INDEX in request.url):
        page.keyboard.type("yarn")
    assert not page.locator(FOUND).count()
    page.context.unroute(f"**/{INDEX}")
    page.locator(FOUND).first.wait_for()


def test_an_answer_shows_the_passage(site, visit):
    page = visit(site).page
    open_search(page)
    ask(page, "slowest pairs never met angles")
    text = page.locator(f"{FOUND} article:has(mark)").first.inner_text()
    assert "angles" in text
    assert len(text) < 400


def test_one_finds_one_s_way_from_an_address_without_a_page(site, visit):
    page = visit(f"{site}404.html").page
    open_search(page)
    assert any("stretching" in path for path in ask(page, "rope_scaling"))


def test_without_scripts_the_search_says_so(site, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site)
    needed = page.locator("header noscript")  # in which playwright looks for no text
    assert needed.is_visible()
    assert needed.text_content() == "Search needs JavaScript."
    context.close()
