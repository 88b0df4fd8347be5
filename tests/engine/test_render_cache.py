"""What was made of a page is remembered, and nothing that goes into it can change without the site changing too."""

import logging
import os
import re
import shutil
import sys
from typing import NamedTuple

import pytest

pytest.importorskip("material", reason="no theme: pip install -e '.[docs]'")

from mkdocs.commands.build import build as mkdocs_build
from mkdocs.config import load_config
from mkdocs.structure.pages import Page

from galley.book import Book, shared_book
from galley.run.content_cache import ContentCache, engine_digest
from galley.show.render_cache import _opened

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


PAGES = ["index.md", "library.md", "more.md", "other.md", "tags.md"]
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("default")]  # warnings of the theme and its plugins


@pytest.fixture
def book(project, monkeypatch):
    """A project with all that the real book has: theme, glossary, reference, search, tags, a figure, a quotation."""
    for name, text in FILES.items():
        project.write(name, text)
    hook = re.search(r"^hooks: .*$", (project.root / "mkdocs.yml").read_text(), re.M)
    project.write("mkdocs.yml", f"{SITE}{hook[0]}\n")
    project.append("pyproject.toml", 'exclude = ["includes/", "overrides/", "assets/"]\n')
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763683200")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    monkeypatch.syspath_prepend(str(project.root))
    yield project
    shared_book.cache_clear()
    engine_digest.cache_clear()


class Build(NamedTuple):
    """The files of a site, what the build warned of, and the pages that it rendered."""

    files: dict[str, bytes]
    warnings: list[str]
    rendered: list[str]


@pytest.fixture
def build(book, caplog, monkeypatch):
    """Return a function that builds the site as a new process would."""
    caplog.set_level(logging.INFO, "mkdocs")
    rendered, render = [], Page.render
    monkeypatch.setattr(Page, "render", lambda page, *rest: (rendered.append(page.file.src_uri), render(page, *rest)))

    def run(fresh=False, **settings):
        if fresh:
            shutil.rmtree(book.root / ".galley" / "made", ignore_errors=True)
        for forgotten in (shared_book.cache_clear, engine_digest.cache_clear, caplog.clear, rendered.clear):
            forgotten()
        config = load_config(str(book.root / "mkdocs.yml"), **settings)
        config.plugins.on_startup(command="build", dirty=False)
        mkdocs_build(config)
        config.plugins.on_shutdown()
        site = book.root / "site"
        files = {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}
        warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
        return Build(files, warnings, sorted(rendered))

    return run


def forbidden(*_):
    pytest.fail("this was made before")


def test_nothing_is_made_twice_and_the_site_is_the_same(build, monkeypatch):
    first = build()
    assert first.warnings == []
    assert first.rendered == PAGES
    assert "objects.inv" in first.files
    for name in ("galley.book.check_static", "galley.book.check_results", "galley.show.notebook_of_page._cell"):
        monkeypatch.setattr(name, forbidden)
    monkeypatch.setattr("galley.show.search_index._Sections.feed", forbidden)
    assert build() == Build(first.files, [], [])
    elsewhere = build(site_url="http://127.0.0.1:8000/book/")
    assert elsewhere.rendered == []
    assert b"http://127.0.0.1:8000/book/other/" in elsewhere.files["other/index.html"]


FOOTER = "%}{% block footer %}mine{% endblock %}\n"
EDITS = {
    "a term of the glossary": ("docs/includes/glossary.md", "a rotation", "a turn", "index.html", "a turn"),
    "an option": ("mkdocs.yml", "Link here", "Link to it", "other/index.html", "Link to it"),
    "an extension": ("mkdocs.yml", "  - tables\n", "  - tables\n  - smarty\n", "index.html", "&rsquo;s number"),
    "a snippet": ("docs/data/shown.txt", "a snippet", "another snippet", "other/index.html", "another snippet"),
    "a template": ("docs/overrides/main.html", "%}\n", FOOTER, "index.html", "mine"),
    "a docstring": ("library/code.py", "Return twice x.", "Return x and x.", "library/index.html", "Return x and x."),
    "another docstring": ("library/more.py", "how high it is.", "its height.", "more/index.html", "Return its height."),
    "a heading": ("docs/library.md", "# Library", "# The library", "index.html", "The library"),
    "a tag": ("docs/index.md", "[first]", "[second]", "tags/index.html", "second"),
    "an address": ("mkdocs.yml", "docs_dir", "use_directory_urls: false\ndocs_dir", "index.html", 'href="other.html"'),
}


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_shows_as_if_all_were_made_anew(build, book, what):
    before = build()
    name, old, new, page, text = EDITS[what]
    book.edit(name, old, new)
    after = build()
    assert text in after.files[page].decode()
    assert after.files != before.files
    fresh = build(fresh=True)
    assert (fresh.files, fresh.warnings) == (after.files, after.warnings)


def test_a_figure_that_changes_without_its_page_is_shown(build, book):
    builds = [build()]
    for old, new in (("return 1", "return 1 if height else 5"), ("return 1 if height", "return 1 if not height")):
        book.edit("library/more.py", old, new)
        builds.append(build())
    drawings = [re.findall(r"<svg .*?</svg>", built.files["index.html"].decode(), re.S) for built in builds]
    assert drawings[0] == drawings[1]
    assert drawings[1] != drawings[2]
    assert build(fresh=True).files == builds[2].files


def test_only_the_page_with_the_edit_is_rendered(build, book):
    build()
    book.edit("docs/other.md", "# Other\n", "# Other\n\nA sentence.\n")
    edited = build()
    assert edited.rendered == ["other.md"]
    assert b"A sentence." in edited.files["other/index.html"]
    assert b"A sentence." in edited.files["search/index.json"]


RISE = "docs/assets/js/figures/rise.js"
COMPLAINTS = {  # a file, what is replaced in it, or the whole file if it goes, and the complaint
    "a page that others link to goes": ("docs/other.md", "", "", "target is not found"),
    "a heading that others link to is renamed": (
        "docs/other.md",
        "## A part",
        "## Another part",
        "does not contain an anchor '#a-part'",
    ),
    "a name that others link to goes": (
        "docs/library.md",
        "::: library.code",
        "Nothing.",
        "Could not find cross-reference target 'library.code.double'",
    ),
    "a quotation changes": ("docs/references.bib", "94.82", "94.83", "94.82 is not among the numbers that"),
    "quoted code changes": ("library/code.py", "2 * x", "x * 2", "library/code.py:double reads otherwise now"),
    "a script goes": (RISE, "", "", "there is no assets/js/figures/rise.js"),
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_what_becomes_wrong_elsewhere_is_complained_about_at_every_build(build, book, what):
    assert build().warnings == []
    name, old, new, complaint = COMPLAINTS[what]
    if old:
        book.edit(name, old, new)
    else:
        (book.root / name).unlink()
    for fresh in (False, False, True):
        assert complaint in "\n".join(build(fresh).warnings)


@pytest.mark.parametrize(
    ("level", "old", "new"),
    [
        (logging.CRITICAL, ": other.md\n", ": nowhere.md\n"),  # as --quiet
        (logging.DEBUG, "#a-part", "#no-part"),  # as --verbose, with which MkDocs lists no anchors
    ],
    ids=["nobody heard it", "nobody checked it"],
)
def test_a_complaint_that_was_not_made_comes_at_the_next_build(build, book, caplog, level, old, new):
    book.edit("docs/index.md", old, new)
    caplog.set_level(level, "mkdocs")
    assert new.strip(": \n") not in "\n".join(build().warnings)
    caplog.set_level(logging.INFO, "mkdocs")
    assert new.strip(": \n") in "\n".join(build().warnings)


def install_another_version(root, monkeypatch):
    (root / "installed" / "markdown-99.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "installed")])


def edit_the_engine(root, monkeypatch):
    (root / "engine").mkdir()
    (root / "engine" / "page.py").write_text("changed = True\n")
    monkeypatch.setattr("galley.run.content_cache.ENGINE_AND_EXTENSIONS", root / "engine")


def ask_for_all_anew(root, monkeypatch):
    monkeypatch.setenv("GALLEY_FRESH", "1")


@pytest.mark.parametrize("change", [install_another_version, edit_the_engine, ask_for_all_anew])
def test_a_change_of_what_goes_into_every_page_makes_all_anew(build, book, monkeypatch, change):
    build()
    change(book.root, monkeypatch)
    assert build().rendered == PAGES


def test_a_package_outside_of_the_book_is_documented_anew_at_every_build(build, book):
    """Who documents it second does not even open its files."""
    for page in ("library", "more"):
        book.append(f"docs/{page}.md", "\n::: elsewhere\n")
    for text in ("First.", "Second."):
        book.write("elsewhere.py", f'"""{text}"""\n')
        files = build().files
        assert all(text.encode() in files[f"{page}/index.html"] for page in ("library", "more"))


def test_a_check_of_one_page_reads_no_other_page(book):
    """What it reads must be in its key: any file of the book but pages; see `Book._surroundings`."""
    engine_book = Book(book.root)
    with _opened() as opened:
        for result in engine_book.run(engine_book.pages()).values():
            engine_book.content_cache.values.clear()
            opened.clear()
            engine_book._own_problems(result)
            assert not [path for path in opened if path.endswith((".md", ".ipynb"))]


def test_what_is_damaged_is_made_anew(build, book):
    files = build().files
    for path in (book.root / ".galley" / "made").glob("*.json"):
        path.write_bytes(b"0123\n[]")
    assert build() == Build(files, [], PAGES)


def test_what_was_not_used_for_longest_goes_first(tmp_path, monkeypatch):
    cache = ContentCache(tmp_path)
    for age, key in enumerate(["new", "old", "older"]):
        cache.put(key, "x" * 1000)
        os.utime(tmp_path / f"{key}.json", (1e9 - age, 1e9 - age))
    (tmp_path / "half.part").touch()
    monkeypatch.setattr("galley.run.content_cache.MOST_BYTES", 2500)
    cache.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.json", "old.json"]
