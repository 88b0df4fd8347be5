"""What each page says of itself to other sites, its twin in Markdown, and what one meets at a wrong address."""

import re

from tests.browser.pages import PAGES

CHAPTER = "chapters/3-rope/derivation/"
PROPERTY = re.compile(r'<meta property="([^"]*)" content="([^"]*)">')


def test_each_page_says_what_it_is_and_has_a_card_and_a_twin(built_site):
    assert (built_site / "assets/images/card.png").is_file()
    faults = []
    for path in PAGES:
        page = (built_site / path / "index.html").read_text(encoding="utf-8")
        head = page[: page.index("</head>")]
        properties = dict(PROPERTY.findall(head))
        canonical = re.search(r'<link rel="canonical" href="([^"]*)"', head)[1]
        wrong = {
            "its address": properties["og:url"] != canonical,
            "its title": not properties["og:title"],
            "its description": not properties["og:description"],
            "its card": not properties["og:image"].endswith("posenc/assets/images/card.png"),
            "its twin": not (built_site / path / "index.md").read_text(encoding="utf-8").startswith("# "),
            "the link to its twin": head.count("text/markdown") != 1,
        }
        faults += [f"{path or 'the landing page'}: {what}" for what, is_wrong in wrong.items() if is_wrong]
    assert not faults


def test_twins_have_no_marks_of_the_engine(built_site):
    for path in PAGES:
        text = (built_site / path / "index.md").read_text(encoding="utf-8")
        prose = re.sub(r"^(`{3,}|~{3,}).*?^\1\s*$|`[^`\n]+`", "", text, flags=re.S | re.M)
        assert not re.findall(r"<!--.*|</?(?:div|details|summary)\b.*|^:::.*", prose, re.M), path


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
