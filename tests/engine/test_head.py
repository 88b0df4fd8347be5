"""What a page's head says to other sites and to search engines."""

import json
import re

import pytest

from galley.around import head, structured
from tests.engine.sites import html, shown, small

TURN = "chapters/3-rope/turn.md"


def headed(site, uri):
    return head.page(html(site, uri), shown(site, uri), site)


def properties(text):
    return dict(re.findall(r'<meta property="([^"]*)" content="([^"]*)">', text))


def graph(text):
    found = re.search(r'<script type="application/ld\+json">(.*?)</script>', text, re.S)
    return json.loads(found[1])["@graph"]


def test_a_page_says_what_it_is_to_other_sites(project):
    site = small(project, fonts=True)
    text = headed(site, TURN)
    said = properties(text)
    assert said["og:title"] == "3.1 Turn"
    assert said["og:type"] == "article"
    assert said["og:site_name"] == "book"
    assert said["og:description"] == "It &quot;turns&quot;."
    assert said["og:url"] == "https://example.org/book/chapters/3-rope/turn/"
    assert said["og:image"] == "https://example.org/book/assets/social/chapters-3-rope-turn.png"
    assert (
        said["og:image:alt"] == "3 RoPE: 3.1 Turn, over a drawing of clocks with a query&#x27;s and a key&#x27;s hand"
    )
    assert '<meta name="twitter:card" content="summary_large_image">' in text
    assert text.index("og:title") < text.index("</head>")


def test_a_home_page_is_a_website_and_a_site_without_fonts_has_no_cards(project):
    text = headed(small(project), "index.md")
    assert properties(text)["og:type"] == "website"
    assert "og:image" not in text
    assert '<meta name="twitter:card" content="summary">' in text


@pytest.mark.parametrize(
    ("uri", "kinds"),
    [
        ("index.md", ["Course", "WebSite", ["SoftwareSourceCode", "SoftwareApplication"]]),
        ("chapters/3-rope/index.md", ["Course", "BreadcrumbList"]),
        (TURN, [["LearningResource", "TechArticle"], "BreadcrumbList"]),
        ("labs.md", [["TechArticle"], "BreadcrumbList"]),
    ],
)
def test_search_engines_learn_the_kind_of_a_page(project, uri, kinds):
    assert [part["@type"] for part in graph(headed(small(project), uri))] == kinds


def test_a_course_has_its_parts_and_these_their_chapters(project):
    site = small(project)
    course, part = (graph(headed(site, uri))[0] for uri in ("index.md", "chapters/3-rope/index.md"))
    chapter, trail = graph(headed(site, TURN))
    assert [each["name"] for each in course["hasPart"]] == ["Part 3: RoPE", "The labs"]
    assert [each["@id"] for each in part["hasPart"]] == [chapter["@id"]]
    assert chapter["isPartOf"]["@id"] == part["@id"]
    assert chapter["keywords"] == ["rope"]
    assert [item["name"] for item in trail["itemListElement"]] == ["book", "3 RoPE", "3.1 Turn"]
    assert trail["itemListElement"][1]["item"] == "https://example.org/book/chapters/3-rope/"


def test_the_package_is_told_as_the_project_names_it(project):
    package = graph(headed(small(project), "index.md"))[-1]
    assert package["softwareVersion"] == "0.2.0"
    assert package["codeRepository"] == "https://example.org/source"


def test_a_title_cannot_end_the_script_it_stands_in(project):
    site = small(project, odd="# Ends with </script><b>\n")
    text = headed(site, "odd.md").replace(html(site, "odd.md").partition("</head>")[0], "")
    assert text.partition("</head>")[0].count("</script>") == 1
    assert structured.called(shown(site, "odd.md")) == graph(text)[0]["name"]


def test_a_served_page_stays_as_it_is(project):
    site = small(project, served=True)
    assert headed(site, TURN) == html(site, TURN)
