"""The package's files on the site, what leads to them from pages, and what a page can be taken along as."""

from pathlib import Path

import pytest

import posenc
from galley.around import code, copies, notebooks, offers, tools
from galley.around.site import Shown, Site
from galley.book import Book, Result
from galley.cells import read
from galley.page import parse
from tests.site_links import faults

ROOT = Path(__file__).parents[2]
FILES = copies.copies(ROOT)
SHELL = """\
<html><head>
<meta name="description" content="A book."><title>posenc</title>
<link rel="stylesheet" href="{root}assets/css/look.css">
<script>scope=new URL("{root}",location); scope.pathname.endsWith("/")</script>
</head><body><div data-md-component="skip"> </div><a href="{root}labs/">Labs</a><img alt="">
<div class="md-sidebar" data-md-component="sidebar"></div>
<article class="md-content__inner md-typeset"><h1>No page</h1></article>
<script type="application/json">{{"base": "{base}", "more": ""}}</script></body></html>
"""
CARD = "<p>Chapter · <code class='short'>posenc copy rope</code></p>"
ENTRY = (
    '<h1 id="x">Rotating</h1><h2 id="posenc.rotate.rope" class="doc doc-heading">\nrope</h2>\n<span>It turns.</span>'
    '</summary><!--depth-->\n<a href="#posenc.rotate.rope" class="headerlink">&para;</a>\n<dl></dl>'
)
SOURCES = "<p>Then</p>".join(
    f'<details class="mkdocstrings-source">\n<summary>Source code in <code>posenc/{place}.py</code></summary>\n'
    '<div><table><pre><span></span><span class="normal"> 55</span>\n<span class="normal">56</span></pre></table></div>'
    "\n</details>"
    for place in ("rotate/rope", "fast/rope")
)
COPY_THIS = '<details class="depth"><summary><h3 id="copy-this">Copy this</h3></summary><p>x</p></details><!--depth-->'


@pytest.fixture(scope="module")
def results():
    """The pages as they were read, with nothing run."""
    return {name.removeprefix("docs/"): Result(name, read(name, text)) for name, text in Book(ROOT).pages().items()}


@pytest.fixture
def site(tmp_path, results):
    made = Site.of(tmp_path, Book(ROOT), results)
    made.write("404.html", SHELL.format(root="/posenc/", base="/posenc"))
    made.write("assets/css/look.css", "")
    return made


def page(uri, text="# A page\n"):
    return Shown(uri, Result(f"docs/{uri}", parse(text)))


def test_every_file_of_a_door_can_be_copied():
    folders = (*posenc.DOORS, "models")
    paths = [path for folder in folders for path in (ROOT / "posenc" / folder).glob("*.py")]
    assert {copy.file for copy in FILES.values() if "/" in copy.place} == {p for p in paths if p.stem != "__init__"}
    assert {place for place in FILES if "/" not in place} == {"attention", "positions"}


def test_a_file_says_what_it_is_and_needs():
    rope, config = FILES["rotate/rope"], FILES["models/from_config"]
    assert rope.says == "RoPE: turn each pair of channels of queries and keys by an angle that grows with position."
    assert (rope.libraries, rope.needs) == (["numpy", "torch"], [])
    assert (config.libraries, config.needs) == (["numpy"], ["frequencies"])
    assert {*FILES["attention"].libraries} == {"torch"}


def test_a_chapter_is_about_the_files_whose_cards_lead_to_it_or_that_it_imports(site, results):
    concerns = lambda uri: [copy.place for copy in copies.concerns(Shown(uri, results[uri]), site)]  # noqa: E731
    assert concerns("chapters/3-rope/derivation.md") == ["rotate/rope"]
    assert concerns("chapters/4-biases/families.md") == ["bias/kerple", "bias/sandwich", "bias/fire"]
    assert concerns("chapters/1-sinusoidal/adding.md") == ["add/sinusoidal", "attention"]
    assert concerns("chapters/5-pope/phase-bias.ipynb") == ["rotate/pope"]


def test_each_file_has_one_card(site):
    assert {*copies.cards(site)} == {place for place in FILES if "/" in place}


def test_files_lie_on_the_site_as_they_are_below_their_license(site):
    code.write(site)
    for copy in FILES.values():
        for place in (copy.raw, copy.text):
            first, second, rest = (site.folder / place).read_text(encoding="utf-8").split("\n", 2)
            assert f"posenc/{copy.place}.py" in first
            assert "MIT. Copyright" in second
            assert rest == copy.source
        shown = (site.folder / copy.url / "index.html").read_text(encoding="utf-8")
        assert f'<h1 id="file"><code>posenc/{copy.place}.py</code></h1>' in shown
        assert shown.count("<title>") == shown.count('name="description"') == shown.count('rel="canonical"') == 1


@pytest.mark.parametrize(("root", "base"), [("/posenc/", "/posenc"), ("/posenc/1.0/", "/posenc/1.0/"), ("/", "/")])
def test_a_page_of_a_file_finds_the_site_wherever_it_lies(site, root, base):
    site.write("404.html", SHELL.format(root=root, base=base))
    code.write(site)
    shown = (site.folder / "code/rotate/rope/index.html").read_text(encoding="utf-8")
    for found in (
        'href="../../../assets/stylesheets/all.',
        'URL("../../../",',
        'href="../../../labs/"',
        '"base": "../../..',
    ):
        assert found in shown
    for kept in ('endsWith("/")', 'alt=""', '"more": ""'):
        assert kept in shown
    assert f'rel="canonical" href="https://posenc.github.io{root}code/rotate/rope/"' in shown
    assert 'href="../../../chapters/3-rope/derivation/">Chapter</a>' in shown


def test_a_shell_that_cannot_be_filled_is_refused(site):
    site.write("404.html", '<link href="/posenc/assets/a.css">')
    with pytest.raises(ValueError, match=r"404\.html: <title>.* must be in it, to show a file in its place"):
        code.write(site)


def test_a_card_of_what_is_no_file_stops_no_build(site, results):
    card = CARD.replace("rope", "rops")
    assert offers.put(card, Shown("gallery.md", results["gallery.md"]), site) == card


def test_cards_entries_and_chapters_offer_their_files(site, results):
    place = '<a href="../code/rotate/rope/" aria-label="View rope.py">View</a>'
    card = offers.put(CARD, Shown("gallery.md", results["gallery.md"]), site)
    assert card.startswith(CARD.removesuffix("</p>"))
    assert place in card
    entry = offers.put(ENTRY, page("reference/rotate.md"), site)
    assert entry.index("headerlink") < entry.index('data-copies="../../code/rotate/rope.py"') < entry.index("<dl>")
    chapter = offers.put(
        COPY_THIS, Shown("chapters/3-rope/derivation.md", results["chapters/3-rope/derivation.md"]), site
    )
    assert "<p>x</p><p>Whole" in chapter
    assert '<a href="../../../code/rotate/rope.py" aria-label="Download rope.py" download>Download</a>' in chapter
    assert chapter.endswith("</div></details><!--depth-->")


def test_the_reference_leads_to_the_lines_of_what_is_shown_whole(site):
    shown = offers.put(SOURCES, page("reference/rotate.md"), site)
    assert '<a href="../../code/rotate/rope/#line-55">Source: from line 55 of <code>rope.py</code></a>' in shown
    assert shown.count("mkdocstrings-source") == 1
    assert "in <code>posenc/fast/rope.py</code>" in shown


def test_a_page_of_the_reference_offers_its_own_file(site):
    shown = offers.put("<h1>Positions</h1>", page("reference/positions.md"), site)
    assert [name in shown for name in ("positions.py", "attention.py")] == [True, False]
    assert "attention.py" in offers.put("<h1>Attention</h1>", page("reference/attention.md"), site)


def test_a_page_without_files_stays_as_it_is(site):
    assert offers.put("<h1>Labs</h1>", page("labs.md"), site) == "<h1>Labs</h1>"


RUNS = "# A page\n\n```python\npass\n```\n"


@pytest.mark.parametrize(
    ("uri", "own"),
    [("labs.md", "../labs.ipynb"), ("museum/index.md", "../museum/index.ipynb"), ("a/b.ipynb", "../../a/b.ipynb")],
)
def test_what_runs_is_offered_as_a_notebook_too(site, uri, own):
    html = tools.put('<article class="x"><h1>', page(uri, RUNS), site)
    assert html.startswith('<article class="x"><div class="tools"><a ')
    found = {tool.does.split()[0]: tool.address for tool in tools.tools(page(uri, RUNS), site)}
    place = notebooks.place(uri)
    assert found == {
        "Edit": f"https://github.com/posenc/posenc/edit/main/docs/{uri}",
        "This": "index.md",
        "Download": own,
        "Run": f"https://colab.research.google.com/github/posenc/posenc/blob/notebooks/{place}",
    }
    assert all(f'aria-label="{tool.does}"' in html for tool in tools.tools(page(uri, RUNS), site))


def test_what_does_not_run_or_has_no_repository_is_offered_as_less(site):
    does = lambda text: [tool.does.split()[0] for tool in tools.tools(page("labs.md", text), site)]  # noqa: E731
    assert does("# A page\n") == ["Edit", "This"]
    del site.settings["repo_url"]
    assert does(RUNS) == ["This", "Download"]


def test_the_landing_page_has_no_tools(site):
    assert tools.put("<article><h1>", page("index.md"), site) == "<article><h1>"


@pytest.fixture
def made(tmp_path):
    """A site of one page that runs, with its tools, its notebook and the files to copy."""
    shown = page("labs.md", RUNS)
    site = Site.of(tmp_path, Book(ROOT, use_cache=False), {"labs.md": shown.result})
    site.write("404.html", SHELL.format(root="/posenc/", base="/posenc"))
    site.write("assets/css/look.css", "")
    html = f'<article class="md-content__inner md-typeset">{CARD}</article>'
    site.write("labs/index.html", tools.put(html, shown, site))
    code.write(site)
    notebooks.write(site)
    return tmp_path


def test_links_to_files_and_notebooks_hold(made):
    assert faults(made) == []


FAULTS = {
    "another place in the repository": (
        "labs/index.html",
        lambda path: path.write_text(path.read_text().replace("/docs/labs.md", "/docs/lab.md")),
        "is not in the repository",
    ),
    "another file": ("code/rotate/rope.py", lambda path: path.write_bytes(path.read_bytes() + b"\n"), "package has"),
    "no text": ("code/rotate/rope.txt", Path.unlink, "leads nowhere"),
    "no page": ("code/rotate/rope/index.html", Path.unlink, "leads nowhere"),
    "no notebook": ("labs.ipynb", Path.unlink, "leads nowhere"),
    "another branch": (
        "labs/index.html",
        lambda path: path.write_text(path.read_text().replace("/blob/notebooks/", "/blob/main/")),
        "is no notebook of the branch",
    ),
}


@pytest.mark.parametrize(("place", "plant", "said"), FAULTS.values(), ids=FAULTS)
def test_a_link_that_is_wrong_is_told(made, place, plant, said):
    (made / "labs/more.html").write_text('<a href="../code/rotate/rope/">View</a>')
    plant(made / place)
    assert any(said in fault for fault in faults(made))
