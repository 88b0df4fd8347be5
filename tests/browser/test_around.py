"""What stands around the pages of the real site: its policy, its cards and twins, old addresses and wrong ones."""

import json
import re
import struct

import pytest

from tests.browser.live_figures import settled, wake_all
from tests.browser.pages import LIVE, PAGES

CHAPTER = "chapters/3-rope/derivation/"
INJECTED = """() => {
  const script = document.createElement("script")
  script.textContent = "window.injected = true"
  document.head.append(script)
  const picture = new Image()
  picture.src = "https://example.org/pixel.png"
  const link = document.createElement("a")
  link.setAttribute("onclick", "window.clicked = true")
  link.click()
  return [window.injected, window.clicked]
}"""


def heads(folder):
    for path in PAGES:
        text = (folder / path / "index.html").read_text(encoding="utf-8")
        yield path, text[: text.index("</head>")]


def test_each_page_says_what_it_is_and_has_a_card_and_a_twin(built_site):
    faults = []
    for path, head in heads(built_site):
        said = dict(re.findall(r'<meta property="([^"]*)" content="([^"]*)">', head))
        canonical = re.search(r'<link rel="canonical" href="([^"]*)"', head)[1]
        card = built_site / "assets/social" / said["og:image"].rpartition("/")[2]
        kinds = json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', head, re.S)[1])["@graph"]
        wrong = {
            "its address": said["og:url"] != canonical or kinds[0]["url"] != canonical,
            "its title": not said["og:title"],
            "its description": not said["og:description"],
            "its card": struct.unpack(">II", card.read_bytes()[16:24]) != (1200, 630),
            "its twin": not (built_site / path / "index.md").read_text(encoding="utf-8").startswith("# "),
            "links to twin, feed and manifest": len(re.findall(r"text/markdown|atom\+xml|webmanifest", head)) != 3,
        }
        faults += [f"{path or 'the landing page'}: {what}" for what, is_wrong in wrong.items() if is_wrong]
    assert not faults


def test_twins_have_no_marks_of_the_engine(built_site):
    for path in PAGES:
        text = (built_site / path / "index.md").read_text(encoding="utf-8")
        prose = re.sub(r"^(`{3,}|~{3,}).*?^\1\s*$|`[^`\n]+`", "", text, flags=re.S | re.M)
        assert not re.findall(r"<!--.*|</?(?:div|details|summary)\b.*|^:::.*", prose, re.M), path


def test_all_pages_have_one_policy(built_site):
    found = {
        re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', path.read_text(encoding="utf-8"))[1]
        for path in built_site.rglob("*.html")
    }
    assert len(found) == 1
    assert "script-src 'self' 'sha256-" in found.pop()


@pytest.mark.parametrize("path", ["", CHAPTER, "explorer/", "museum/", "workbook/cards/", "reference/read-a-config/"])
def test_a_page_works_under_the_policy(site, visit, path):
    seen = visit(site + path)
    if path in LIVE:
        wake_all(seen.page)
    settled(seen.page)
    assert seen.errors == []


def test_pages_that_come_without_a_document_keep_to_it(site, visit):
    seen = visit(site, still=False)
    for path in ("chapters/1-sinusoidal/", "reference/"):
        seen.page.click(f'.md-tabs a[href$="{path}"]')
        seen.page.wait_for_url(f"{site}{path}")
        seen.page.wait_for_selector(f'link[rel=canonical][href$="/{path}"]', state="attached")
        settled(seen.page)
    assert seen.documents == [site]
    assert seen.page.locator("meta[http-equiv=Content-Security-Policy]").count() == 1
    assert seen.errors == []


def test_what_others_put_into_a_page_does_not_run(site, visit):
    seen = visit(site + CHAPTER)
    assert seen.page.evaluate(INJECTED) == [None, None]
    settled(seen.page)
    assert len([error for error in seen.errors if "Content Security Policy" in error]) == 3


def test_an_old_section_leads_to_its_place(site, visit):
    page = visit(f"{site}chapters/4-biases/alibi/#alibi-with-12-heads").page
    page.wait_for_selector("details.depth[open] #alibi-with-twelve-heads")
    page = visit(f"{site}{CHAPTER}#rope-and-bfloat16").page
    page.wait_for_url(f"{site}chapters/6-guide/precision/#rope-and-bfloat16")


def test_an_address_without_a_page_leads_on(site, visit):
    page = visit(site).page
    page.goto(f"{site}start/")
    page.wait_for_url(f"{site}start/tour/")


def test_a_wrong_address_finds_the_right_one(site, visit, built_site):
    page = visit(site).page
    lost = {"status": 200, "content_type": "text/html", "path": built_site / "404.html"}
    page.route("**/3-rope/derivatoin/", lambda route: route.fulfill(**lost))
    page.goto(f"{site}chapters/3-rope/derivatoin/")
    page.wait_for_selector(".lost li")
    assert page.locator(".lost li a").first.get_attribute("href").endswith(CHAPTER)
    assert page.locator(".lost input").input_value() == "derivatoin"
    page.fill(".lost input", "rope")
    page.click(".lost button")
    page.wait_for_url(f"{site}?q=rope")
    assert page.locator(".md-search__input").input_value() == "rope"
