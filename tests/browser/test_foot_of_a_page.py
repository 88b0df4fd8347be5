"""At the foot of a page: how to cite it, where to say that something is wrong; at its head, its text to copy."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

CHAPTER = "chapters/3-rope/derivation/"


def test_a_chapter_and_the_book_can_be_cited(open_page):
    for path, title in ((CHAPTER, "3.1 RoPE"), ("", "positional encodings")):
        page = open_page(path)
        page.locator("details.cite > summary").click()
        entry = page.locator("details.cite code").text_content()  # inner text only once drawn
        assert re.match(r"@misc\{posenc[\w-]*,\n", entry)
        assert title in entry
        assert entry.count("{") == entry.count("}")
        assert re.search(r"year\s+= \{20\d\d\}", entry)
        assert f"/posenc/{path}}}" in entry


def test_a_mistake_is_reported_with_the_page_filled_in(open_page):
    for path in (CHAPTER, "gallery/", ""):
        link = open_page(path).get_by_role("link", name="Tell us").get_attribute("href")
        asked = parse_qs(urlsplit(link).query)
        assert urlsplit(link).path.endswith("/issues/new")
        assert path in asked["body"][0]
        assert asked["title"][0].startswith("Mistake on: ")


def test_a_page_is_copied_as_markdown(open_page, built_site):
    page = open_page(CHAPTER)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="Copy this page as Markdown")
    button.hover()
    tip = page.get_by_role("tooltip", name="Copy this page as Markdown")
    tip.wait_for()
    button.click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.get_by_role("tooltip").text_content() == "Copied"
    twin = (built_site / CHAPTER / "index.md").read_text(encoding="utf-8")
    assert page.evaluate("navigator.clipboard.readText()") == twin
    tip.wait_for()


@pytest.mark.parametrize("path", [CHAPTER, "workbook/glossary/"])
def test_the_way_back_to_the_top_covers_no_text(open_page, path):
    page = open_page(path, width=1440, height=900)
    page.mouse.move(700, 500)
    for way in (3000, -500):
        page.mouse.wheel(0, way)
        page.wait_for_timeout(300)
    button = page.locator(".md-top")
    if path != CHAPTER:  # no contents beside it
        assert not button.is_visible()
        return
    box, content = button.bounding_box(), page.locator(".md-content__inner").bounding_box()
    assert box["x"] > content["x"] + content["width"]
    scrolled = ".md-sidebar--secondary .md-sidebar__scrollwrap"
    room = "(list) => list.getBoundingClientRect().top + list.clientHeight"
    assert box["y"] >= page.locator(scrolled).evaluate(room)


def test_the_contents_mark_the_section_that_a_link_leads_to(site, visit):
    for path, anchor in ((CHAPTER, "in-a-model"), (CHAPTER, "in-any-width"), ("jobs/", "grouped-queries")):
        page = visit(f"{site}{path}#{anchor}").page
        page.wait_for_selector(f'.md-nav--secondary .md-nav__link--active[href$="#{anchor}"]', state="attached")
        lit = page.locator(".md-nav--secondary .md-nav__link--active")
        assert lit.last.get_attribute("href").endswith(f"#{anchor}")


def test_prove_it_shows_the_proof(open_page):
    page = open_page(CHAPTER)
    page.get_by_role("link", name="Prove it").click()
    assert page.locator("summary", has_text="Proof").locator("xpath=..").get_attribute("open") is not None
