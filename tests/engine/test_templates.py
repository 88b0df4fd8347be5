"""What the site's templates show beside a page's text: its head, tools, keywords, problems and foot."""

import re

import pytest

from tests.engine.conftest import Project

pytest.importorskip("material", reason="no theme: pip install -e '.[docs]'")

RUNS = "\n```python\nprint({})\n```\n\n```output\n1\n```\n"
FRONT = 'title: "One & two"\ndescription: It "runs".\nkeywords: [rope_scaling, a < b, third, fourth]\n'
PAGES = {
    "index.md": "# Home\n",
    "plain.md": "---\nhide: [keywords]\nkeywords: [hidden]\n---\n\n# Plain\n",
    "right.md": f"---\n{FRONT}---\n\n# One & two\n" + RUNS.format(1),
    "wrong.md": "# Wrong\n" + RUNS.format("'<b>'"),
    "untitled.md": "Words.\n" + RUNS.format(2) + RUNS.format(3),
    "proof.md": "# Proof\n",
}
PROPERTY = re.compile(r'<meta property="([^"]*)" content="([^"]*)">')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of a small book under the site's theme, by name."""
    project = Project(tmp_path_factory.mktemp("book"))
    for name, text in PAGES.items():
        project.page(name, text)
    project.take_theme()
    repository = "https://github.com/some/book"
    project.append("mkdocs.yml", f"repo_url: {repository}\nrepo_name: some/book\nedit_uri: edit/main/docs/\n")
    project.append("pyproject.toml", 'proof = "proof.md"\n')
    return project.build()


def article(page):
    return " ".join(re.search(r"<article.*?</article>", page, re.S)[0].split())


def tools(page):
    return dict(re.findall(r'<a href="([^"]*)" title="([^"]*)"[^>]*md-content__button', page))


def test_a_page_says_what_it_is_to_other_sites(site):
    properties = dict(PROPERTY.findall(site["right"]))
    assert properties["og:title"] == "One &amp; two"
    assert properties["og:description"] == "It &#34;runs&#34;."
    assert properties["og:type"] == "article"
    assert properties["og:url"] == "https://example.org/book/right/"
    assert properties["og:image"] == "https://example.org/book/assets/images/card.png"
    assert dict(PROPERTY.findall(site["."]))["og:type"] == "website"


def test_keywords_stand_in_the_head_and_the_first_three_under_the_title(site):
    assert '<meta name="keywords" content="rope_scaling, a &lt; b, third, fourth">' in site["right"]
    under = '</h1> <p class="look-here">Look here for: rope_scaling · a &lt; b · third</p>'
    assert under in article(site["right"])
    assert 'content="hidden"' in site["plain"]
    assert "look-here" not in site["plain"]


def test_a_page_names_its_twin_and_what_runs_is_offered_as_a_notebook_too(site):
    assert tools(site["right"]) == {
        "https://github.com/some/book/edit/main/docs/right.md": "Edit this page",
        "index.md": "This page as Markdown",
        "../right.ipynb": "Download this page as a notebook",
        "https://colab.research.google.com/github/some/book/blob/notebooks/right.ipynb": (
            "Run this page in Colab: its first cell installs posenc"
        ),
    }
    assert [*tools(site["plain"]).values()] == ["Edit this page", "This page as Markdown"]
    assert tools(site["."]) == {}
    assert '<link rel="alternate " type="text/markdown" title="This page as Markdown" href="index.md">' in site["right"]


def test_the_foot_says_what_stands_behind_a_page_that_holds_and_leads_to_how(site):
    assert '<p class="counts"><a href="../proof/">On this page</a>: 1 output compared.</p>' in article(site["right"])
    assert "counts" not in article(site["plain"])
    assert "admonition danger" not in site["right"]
    assert "progress" not in site["right"]  # which a server shows


def test_what_does_not_hold_stands_below_the_title_and_in_the_foot(site):
    text = article(site["wrong"])
    box = '</h1> <div class="admonition danger"><p class="admonition-title">'
    assert f"{box}Not everything on this page holds: 1 problem</p>" in text
    assert (
        "<pre>docs/wrong.md:8: output differs --- the page shows +++ the code prints @@ -1 +1 @@ -1 +&lt;b&gt;</pre>"
        in text
    )
    assert "1 output compared; <strong>1 problem</strong>.</p>" in text
    assert re.search(r"<h1>.*?</h1> <div class=\"admonition danger\">.*?: 2 problems</p>", article(site["untitled"]))


def test_the_page_about_proof_names_the_pages_that_do_not_hold(site):
    text = article(site["proof"])
    assert "Not everything in this book holds: 3 problems on 2 of 6 pages" in text
    assert '<li><a href="../wrong/">Wrong</a>: 1 problem</li>' in text
    assert "holds" not in article(site["plain"])
