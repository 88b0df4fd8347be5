"""Each builder makes the same site of the book: what pages say, their heads, what leads to them, all other files."""

import importlib.util
import os
import re
from pathlib import Path
from urllib.parse import urljoin

import pytest

from galley.around.site import Shown
from galley.book import Book
from galley.builders import BUILDERS
from tests.chromium import served

pytestmark = pytest.mark.full
ROOT = Path(__file__).parents[2]
PAGES = Book(ROOT).pages()
HOME = "https://site/"
OWN = re.compile(r"assets/(?:javascripts|stylesheets)/|assets/css/zensical\.css|search|tags\.json|sitemap\.xml\.gz")

if importlib.util.find_spec("zensical") is None:
    if os.environ.get("REQUIRE_SUCCESSOR") == "1":
        pytest.fail("zensical is not installed; `make successor` installs it", pytrace=False)
    pytest.skip("needs zensical; `make successor` installs it", allow_module_level=True)


@pytest.fixture(scope="module")
def results():
    return Book(ROOT).run(PAGES)


@pytest.fixture(scope="module")
def sites(built_site, tmp_path_factory):
    """The site as each builder makes it; `built_site` is the work of the one that is in use."""
    book = Book(ROOT)
    made = {book.builder: built_site}
    for name in BUILDERS.keys() - made:
        made[name] = tmp_path_factory.mktemp(name) / "site"
        assert BUILDERS[name](book, made[name]) == 0, f"{name} does not build the site"
    return made


def shown(name):
    return Shown(name.removeprefix("docs/"), None)


def html(site, name):
    return (site / shown(name).file).read_text(encoding="utf-8")


def article(page):
    """Return what a page says; its table of contents says the headings again, with their numbers."""
    return page[page.index("<article") : page.index("</article>")]


def resolved(text, name):
    """Return HTML whose links are whole, for each builder writes them in its own way."""
    whole = HOME + shown(name).url
    return re.sub(r'\b(href|src)="([^"]*)"', lambda m: f'{m[1]}="{urljoin(whole, m[2])}"', text)


def said(page, name):
    """Return what a page says, line by line, without marks that only its search reads."""
    text = re.sub(r"<!--.*?-->", "", article(page), flags=re.S)
    text = re.sub(r""" data-search-exclude=(?:""|'')|<a id="__skip" tabindex="-1"></a>""", "", text)
    text = re.sub(r"\s+", " ", resolved(text, name))
    return re.sub(r"(?<=>) ?(?=<)", "\n", text).split("\n")


def head(page, name):
    """Return what a page's head says of it, without the names of its builder and of stylesheets and fonts."""
    top = resolved(page[: page.index("</head>")], name)
    tags = re.findall(r'<title>.*?</title>|<meta [^>]*>|<link [^>]*>|<script type="application/.*?</script>', top, re.S)
    own = re.compile(r'name="generator"|rel="(?:stylesheet|preload)"|http-equiv="Content-Security-Policy"')
    return sorted(tag for tag in tags if not own.search(tag))


def leads(page, name, part):
    """Return where the links of a column or row lead, in their order."""
    links = re.findall(rf'<a href="([^"]*)" class="{part}__link', page)
    return [urljoin(HOME + shown(name).url, link).removesuffix("./") for link in links]


def pair(sites, name):
    return [html(sites[builder], name) for builder in sorted(BUILDERS)]


@pytest.mark.parametrize("builder", sorted(BUILDERS))
@pytest.mark.parametrize("name", PAGES)
def test_a_page_arrives_intact(sites, results, name, builder):
    page, result = article(html(sites[builder], name)), results[name]
    blocks = result.page.blocks
    assert page.count('class="drawn-svg"') == sum(len(block.figures) for block in blocks)
    outputs = [block for block in blocks if block.output is not None and not block.output_is_markdown]
    assert len(re.findall(r'class="[^"]*language-output', page)) == len(outputs)
    assert page.count('class="katex"') >= len(result.page.formulas)
    assert page.count('class="checked"') == sum(n.operator != "given" for n in result.page.numbers)
    assert "arithmatex" not in page
    assert "<!-- =" not in page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_the_same(sites, name):
    theirs, ours = (said(page, name) for page in pair(sites, name))
    assert [(a, b) for a, b in zip(theirs, ours, strict=False) if a != b][:3] == []
    assert len(theirs) == len(ours)


@pytest.mark.parametrize("name", PAGES)
def test_a_head_says_the_same(sites, name):
    theirs, ours = (head(page, name) for page in pair(sites, name))
    assert theirs == ours


@pytest.mark.parametrize("part", ["md-nav", "md-tabs"])
@pytest.mark.parametrize("name", PAGES)
def test_the_same_leads_away_from_a_page(sites, name, part):
    theirs, ours = (leads(page, name, part) for page in pair(sites, name))
    assert theirs == ours
    assert theirs


def test_nothing_is_lost(sites):
    files = [{path.relative_to(sites[b]).as_posix() for path in sites[b].rglob("*")} for b in sorted(BUILDERS)]
    theirs, ours = ({name for name in names if not OWN.match(f"{name}/")} for names in files)
    assert theirs == ours


@pytest.mark.parametrize("builder", sorted(BUILDERS))
def test_links_lead_somewhere(sites, builder):
    folder, broken = sites[builder], []
    for path in folder.rglob("*.html"):
        if path.name == "404.html":
            continue
        for target in re.findall(r'<a[^>]+href="([^"#:]+)(?:#[^"]*)?"', path.read_text(encoding="utf-8")):
            goal = (path.parent / target.partition("?")[0]).resolve()
            if not (goal.is_file() or (goal / "index.html").exists()):
                broken.append(f"{path.relative_to(folder)}: {target}")
    assert broken == []


def test_a_live_figure_wakes_and_answers(sites, visit):
    with served(sites["zensical"]) as address:
        visited = visit(f"{address}chapters/1-sinusoidal/designing-a-code/")
        figure = visited.page.locator("posenc-figure[name=bits-and-hands]")
        figure.scroll_into_view_if_needed()
        figure.locator("canvas").first.wait_for()
        figure.locator("input[type=range]").press("End")
        figure.locator(".stage-say", has_text="Position 63 is 111111").wait_for()
        assert not visited.foreign(address)
        assert not visited.errors
