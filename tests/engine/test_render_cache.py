"""What was made of a page is remembered, and nothing that goes into it can change without the site changing too."""

import logging
import re
import shutil
import sys

import pytest

pytest.importorskip("material", reason="no theme: pip install -e '.[docs]'")

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.structure.pages import Page

from galley.book import Book, shared_book
from galley.run.content_cache import ContentCache, engine_digest

SITE = """\
site_name: book
site_url: https://example.org/book/
docs_dir: docs
exclude_docs: |
  /includes/
  /overrides/
theme:
  name: material
  custom_dir: docs/overrides
  font: false
plugins:
  - search
  - tags
  - autorefs
  - mkdocstrings:
      handlers:
        python:
          paths: ["."]
          options: {show_source: true}
markdown_extensions:
  - abbr
  - attr_list
  - md_in_html
  - tables
  - toc: {permalink: true, permalink_title: Link here}
  - pymdownx.arithmatex: {generic: true}
  - pymdownx.snippets: {auto_append: [docs/includes/glossary.md], check_paths: true}
  - pymdownx.superfences
  - galley.show.extension
validation:
  links: {not_found: warn, anchors: warn, unrecognized_links: warn}
"""
HOME = """\
---
tags: [first]
---

# Home

RoPE turns $q$ by 47,117<!-- = n --> degrees; see [it][other], [its part][part] and [double][library.code.double].
A paper's number is 94.82<!-- cite: someone2020, table 1 -->.

```python
from library.code import double
from library.more import height

n = double(23_558.5)
```

<!-- block: live=rise -->
```python
import matplotlib.pyplot as plt

plt.figure(figsize=(2, 1))
plt.plot([0, height()])
```

![A line](figures/line.svg)

<!-- block: source=library/code.py:double -->
```python
def double(x):
    \"\"\"Return twice x.\"\"\"
    return 2 * x
```

[other]: other.md
[part]: other.md#a-part
"""
OTHER = '# Other\n\n## A part\n\n```text\n--8<-- "docs/data/shown.txt"\n```\n'
FILES = {
    "docs/index.md": HOME,
    "docs/other.md": OTHER,
    "docs/library.md": "# Library\n\n::: library.code\n",
    "docs/more.md": "# More\n\n::: library.more\n",
    "docs/tags.md": "# Tags\n\n<!-- material/tags -->\n",
    "docs/includes/glossary.md": "*[RoPE]: a rotation\n",
    "docs/overrides/main.html": '{% extends "base.html" %}\n',
    "docs/data/shown.txt": "a snippet\n",
    "docs/assets/js/figures/rise.js": "export default function rise(stage) {}\n",
    "library/__init__.py": '"""A library."""\n',
    "library/more.py": 'def height():\n    """Return how high it is."""\n    return 1\n',
}


@pytest.fixture
def book(project, monkeypatch):
    """A project with all that the real book has: theme, glossary, reference, search, tags, a figure, a quotation."""
    for name, text in FILES.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    hook = re.search(r"^hooks: .*$", (project.root / "mkdocs.yml").read_text(), re.M)
    (project.root / "mkdocs.yml").write_text(f"{SITE}{hook[0]}\n")
    settings = project.root / "pyproject.toml"
    settings.write_text(settings.read_text() + 'exclude = ["includes/", "overrides/", "assets/"]\n')
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763683200")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    monkeypatch.syspath_prepend(str(project.root))
    yield project
    shared_book.cache_clear()


@pytest.fixture
def made(book, caplog, monkeypatch):
    """Return a function that builds the site as a new process would, and says what it warned of and what it made."""
    caplog.set_level(logging.INFO, "mkdocs")
    rendered, render = [], Page.render
    monkeypatch.setattr(Page, "render", lambda page, *rest: (rendered.append(page.file.src_uri), render(page, *rest)))

    def run(fresh=False, **settings):
        if fresh:
            shutil.rmtree(book.root / ".galley" / "made", ignore_errors=True)
        shared_book.cache_clear()
        caplog.clear()
        rendered.clear()
        config = load_config(str(book.root / "mkdocs.yml"), **settings)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
        site = book.root / "site"
        files = {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}
        warned = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        return files, warned, sorted(rendered)

    return run


THEIRS = pytest.mark.filterwarnings("default")  # warnings of the theme and its plugins
pytestmark = [pytest.mark.full, THEIRS]


def edit(book, name, old, new):
    path = book.root / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def forbidden(*_):
    pytest.fail("this was made before")


def test_nothing_is_made_twice_and_the_site_is_the_same(made, monkeypatch):
    files, warned, rendered = made()
    assert warned == []
    assert rendered == ["index.md", "library.md", "more.md", "other.md", "tags.md"]
    for name in ("galley.book.check_static", "galley.book.check_results", "galley.show.notebook._run"):
        monkeypatch.setattr(name, forbidden)
    monkeypatch.setattr("galley.show.search_index._Sections.feed", forbidden)
    again, warned, rendered = made()
    assert (warned, rendered) == ([], [])
    assert again == files
    assert "objects.inv" in files


EDITS = {
    "a term of the glossary": ("docs/includes/glossary.md", "a rotation", "a turn", "index.html", "a turn"),
    "an option": ("mkdocs.yml", "Link here", "Link to it", "other/index.html", "Link to it"),
    "an extension": ("mkdocs.yml", "  - tables\n", "  - tables\n  - smarty\n", "index.html", "&rsquo;s number"),
    "a snippet": ("docs/data/shown.txt", "a snippet", "another snippet", "other/index.html", "another snippet"),
    "a template": (
        "docs/overrides/main.html",
        "%}\n",
        "%}{% block footer %}mine{% endblock %}\n",
        "index.html",
        "mine",
    ),
    "a docstring": ("library/code.py", "Return twice x.", "Return x and x.", "library/index.html", "Return x and x."),
    "another docstring": ("library/more.py", "how high it is.", "its height.", "more/index.html", "Return its height."),
    "a heading": ("docs/library.md", "# Library", "# The library", "index.html", "The library"),
    "a tag": ("docs/index.md", "[first]", "[second]", "tags/index.html", "second"),
    "an address": ("mkdocs.yml", "docs_dir", "use_directory_urls: false\ndocs_dir", "index.html", 'href="other.html"'),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_shows_as_if_all_were_made_anew(made, book, what):
    before, _, _ = made()
    name, old, new, page, shown = EDITS[what]
    edit(book, name, old, new)
    after, warned, _ = made()
    assert shown in after[page].decode()
    assert after != before
    assert made(fresh=True)[:2] == (after, warned)


def test_a_figure_that_changes_without_its_page_is_shown(made, book):
    before, _, _ = made()
    edit(book, "library/more.py", "return 1", "return 1 if height else 5")
    same, _, _ = made()
    edit(book, "library/more.py", "return 1 if height", "return 1 if not height")
    after, _, _ = made()
    drawn = [re.findall(r"<svg .*?</svg>", files["index.html"].decode(), re.S) for files in (before, same, after)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert made(fresh=True)[0] == after


def test_only_the_page_with_the_edit_is_rendered(made, book):
    made()
    edit(book, "docs/other.md", "# Other\n", "# Other\n\nA sentence.\n")
    files, _, rendered = made()
    assert rendered == ["other.md"]
    assert b"A sentence." in files["other/index.html"]
    assert b"A sentence." in files["search/index.json"]


COMPLAINTS = {
    "a page that others link to goes": (lambda book: (book.docs / "other.md").unlink(), "target is not found"),
    "a heading that others link to is renamed": (
        lambda book: edit(book, "docs/other.md", "## A part", "## Another part"),
        "does not contain an anchor '#a-part'",
    ),
    "a name that others link to goes": (
        lambda book: edit(book, "docs/library.md", "::: library.code", "Nothing."),
        "Could not find cross-reference target 'library.code.double'",
    ),
    "a quotation changes": (
        lambda book: edit(book, "docs/references.bib", "94.82", "94.83"),
        "94.82 is not among the numbers that references.bib quotes",
    ),
    "quoted code changes": (
        lambda book: edit(book, "library/code.py", "    return 2 * x", "    return x * 2"),
        "library/code.py:double reads otherwise now",
    ),
    "a script goes": (
        lambda book: (book.docs / "assets/js/figures/rise.js").unlink(),
        "there is no assets/js/figures/rise.js",
    ),
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_what_becomes_wrong_elsewhere_is_complained_about_at_every_build(made, book, what):
    assert made()[1] == []
    change, complaint = COMPLAINTS[what]
    change(book)
    for fresh in (False, False, True):
        assert complaint in "\n".join(made(fresh)[1])


def test_a_complaint_that_nobody_heard_comes_at_the_next_build(made, book, caplog):
    edit(book, "docs/index.md", "[other]: other.md", "[other]: nowhere.md")
    caplog.set_level(logging.CRITICAL, "mkdocs")  # as --quiet
    assert made()[1] == []
    caplog.set_level(logging.INFO, "mkdocs")
    assert "nowhere.md" in "\n".join(made()[1])


def test_a_check_that_was_not_made_is_made_at_the_next_build(made, book, caplog):
    edit(book, "docs/index.md", "other.md#a-part", "other.md#no-part")
    caplog.set_level(logging.DEBUG, "mkdocs")  # as --verbose, with which MkDocs keeps no list of anchors
    made()
    caplog.set_level(logging.INFO, "mkdocs")
    assert "#no-part" in "\n".join(made()[1])


def test_another_address_of_the_site_makes_nothing_anew(made):
    made()
    files, _, rendered = made(site_url="http://127.0.0.1:8000/book/")
    assert rendered == []
    assert b"http://127.0.0.1:8000/book/other/" in files["other/index.html"]


def test_another_version_of_anything_installed_makes_all_anew(made, tmp_path, monkeypatch):
    made()
    (tmp_path / "installed" / "markdown-99.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "installed")])
    engine_digest.cache_clear()
    assert len(made()[2]) == 5
    monkeypatch.undo()
    engine_digest.cache_clear()


def test_an_edit_of_the_engine_makes_all_anew(made, tmp_path, monkeypatch):
    made()
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "page.py").write_text("changed = True\n")
    monkeypatch.setattr("galley.run.content_cache.ENGINE_AND_EXTENSIONS", tmp_path / "engine")
    engine_digest.cache_clear()
    assert len(made()[2]) == 5
    engine_digest.cache_clear()


def test_a_package_outside_of_the_book_is_documented_anew_at_every_build(made, book):
    """Who documents it second does not even open its files."""
    (book.root / "elsewhere.py").write_text('"""First."""\n')
    for page in ("library", "more"):
        path = book.docs / f"{page}.md"
        path.write_text(path.read_text() + "\n::: elsewhere\n")
    pages = ("library/index.html", "more/index.html")
    before, _, _ = made()
    assert all(b"First." in before[page] for page in pages)
    (book.root / "elsewhere.py").write_text('"""Second."""\n')
    after, _, _ = made()
    assert all(b"Second." in after[page] for page in pages)


def test_the_environment_can_ask_for_all_anew(made, monkeypatch):
    made()
    monkeypatch.setenv("GALLEY_FRESH", "1")
    assert len(made()[2]) == 5


def test_a_check_of_one_page_reads_no_other_page(book):
    """What it reads must be in its key: any file of the book but pages; see `Book._around`."""
    from galley.show.render_cache import _opened

    found = Book(book.root)
    with _opened() as opened:
        for result in found.run(found.pages()).values():
            found.content_cache.values.clear()
            opened.clear()
            found._own_problems(result)
            assert not [path for path in opened if path.endswith((".md", ".ipynb"))]


@pytest.mark.parametrize("damage", [b"", b"\x00\xff", b"0123\n[]"], ids=["empty", "binary", "forged"])
def test_what_is_damaged_is_made_anew(made, book, damage):
    files, _, _ = made()
    for path in (book.root / ".galley" / "made").glob("*.json"):
        path.write_bytes(damage)
    again, _, rendered = made()
    assert again == files
    assert len(rendered) == 5


def test_what_was_not_used_for_longest_goes_first(tmp_path, monkeypatch):
    import os

    cache = ContentCache(tmp_path)
    for age, key in enumerate(["new", "old", "older"]):
        cache.put(key, "x" * 1000)
        os.utime(tmp_path / f"{key}.json", (1e9 - age, 1e9 - age))
    (tmp_path / "half.part").touch()
    monkeypatch.setattr("galley.run.content_cache.MOST_BYTES", 2500)
    cache.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.json", "old.json"]
