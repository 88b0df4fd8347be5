"""A built site says itself what does not hold: on the page, in the counts at its foot, and on the page about proof."""

import re

import pytest

from galley.around import problems
from galley.page import Problem
from tests.engine import sites

FOOT = '<p class="counts" data-search-exclude="">On this page: 1 number computed; 2 outputs compared.</p>'


@pytest.fixture
def site(project):
    settings = project.root / "pyproject.toml"
    settings.write_text(settings.read_text() + 'proof = "proof.md"\n')
    return sites.small(project, proof="# Proof\n")


def put(site, uri, html):
    return problems.put(html, sites.shown(site, uri), site)


def test_a_page_that_holds_is_left_as_it_is(site):
    for uri in ("labs.md", "proof.md"):
        assert put(site, uri, sites.html(site, uri)) == sites.html(site, uri)


def test_what_does_not_hold_stands_below_the_title(site):
    site.results["labs.md"].problems = [Problem(3, "output differs\n- <b>"), Problem(7, "no figure")]
    page = put(site, "labs.md", sites.html(site, "labs.md"))
    assert re.search(
        rf'</h1>\s*<div class="admonition danger"><p class="admonition-title">{problems.TITLE}: 2 problems</p>', page
    )
    assert "<pre>docs/labs.md:3: output differs\n- &lt;b&gt;</pre><pre>docs/labs.md:7: no figure</pre></div>" in page


def test_a_page_without_a_title_says_it_first(site):
    site.results["labs.md"].problems = [Problem(3, "output differs")]
    page = put(site, "labs.md", '<body class="a"><p>Text.</p></body>')
    assert page.startswith('<body class="a">\n<div class="admonition danger">')


def test_the_counts_of_a_page_count_its_problems(site):
    site.results["labs.md"].problems = [Problem(3, "output differs")]
    assert "2 outputs compared; <strong>1 problem</strong>.</p>" in put(site, "labs.md", f"<h1>Labs</h1>{FOOT}")
    assert FOOT in put(site, "index.md", f"<h1>Home</h1>{FOOT}")


def test_the_page_about_proof_names_the_pages_that_do_not_hold(site):
    site.results["chapters/3-rope/turn.md"].problems = [Problem(3, "output differs"), Problem(4, "no figure")]
    site.results["labs.md"].problems = [Problem(3, "output differs")]
    page = put(site, "proof.md", sites.html(site, "proof.md"))
    assert "3 problems on 2 of 5 pages" in page
    assert '<li><a href="../chapters/3-rope/turn/">3.1 Turn</a>: 2 problems</li>' in page
    assert '<li><a href="../labs/">The labs</a>: 1 problem</li></ul></div>' in page
