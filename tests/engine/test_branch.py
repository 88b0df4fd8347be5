"""The book as GitHub shows it: figures are files, links and anchors lead somewhere, and prose alone is changed."""

import json
from xml.etree import ElementTree

import pytest

from galley.__main__ import by_place, main
from galley.around import branch
from galley.around.site import Site
from galley.book import Book
from tests.engine.conftest import Project

SETTINGS = "site_name: book\nrepo_name: some/book\nrepo_url: https://github.com/some/book\nnav:\n"
SETTINGS += "  - Home: page.md\n  - A part: [other.md, code.md]\n"
PAGE = """\
---
title: A page
---

# A page

It has 42<!-- = {"a": [answer]}["a"][0] --> rows: [some](other.md#rows),
[alive](other.md?rows=3#rows), [`code`][library.code.double], \
[data](data.json), [elsewhere](https://example.org/a.md), `[none][library.code]`.

## A title, "quoted" {#its-name}

## Plain words

```python
class Line:
    def _repr_svg_(self):
        return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><path d="M0 0L9 9"/></svg>'


answer = 42  # [not](a-link.md)
Line()
```

![A line](figures/line.svg)
*A caption, [some](other.md).*

```python
print("## Printed {#in-print}")
print("[the list](code.md)")
```

<!-- output -->

## Printed {#in-print}
[the list](code.md)

<!-- /output -->

```python
print("| made |\\n|---|\\n| here |")
```

<!-- output: built -->

*Rows.*

<!-- /output -->
"""
WRITTEN = """\
It has 42<!-- = {"a": [answer]}["a"][0] --> rows: [some](other.md#rows),
[alive](https://example.org/book/other/?rows=3#rows), [`code`](https://example.org/book/code/#library.code.double), \
[data](data.json), [elsewhere](https://example.org/a.md), `[none][library.code]`.

## A title, "quoted" <a id="its-name"></a>

## Plain words

```python
class Line:
    def _repr_svg_(self):
        return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 30"><path d="M0 0L9 9"/></svg>'


answer = 42  # [not](a-link.md)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of the branch of a book of three pages."""
    project, folder = Project(tmp_path_factory.mktemp("book")), tmp_path_factory.mktemp("branch")
    (project.root / "mkdocs.yml").write_text(SETTINGS, encoding="utf-8")
    project.page("page.md", PAGE)
    project.page("other.md", "# Other\n\n## Rows\n\n```python\nprint(1)\n```\n\n```output\n1\n```\n")
    project.page("code.md", "# The code\n\n::: library.code\n")
    project.page("data.json", "[1]")
    book = Book(project.root)
    results = book.run(book.pages())
    assert [problem for result in results.values() for problem in result.report] == []
    branch.write(Site.of(folder, book, by_place(book, results)))
    return folder


def test_prose_leads_to_the_branch_and_else_to_the_site_and_code_is_as_it_was(written):
    text = (written / "page.md").read_text(encoding="utf-8")
    assert WRITTEN in text
    assert "*A caption, [some](other.md).*" in text
    assert '## Printed <a id="in-print"></a>\n[the list](https://example.org/book/code/)' in text
    assert "| made |\n|---|\n| here |" in text
    assert "Rows." not in text


def test_the_front_matter_gives_way_to_where_else_the_page_is(written):
    top, _, title, *_ = (written / "page.md").read_text(encoding="utf-8").split("\n")
    assert title == "# A page"
    assert "[On the site](https://example.org/book/page/)" in top
    assert "[Notebook](page.ipynb)" in top
    assert "(https://colab.research.google.com/github/some/book/blob/notebooks/page.ipynb)" in top


def test_a_figure_is_a_file_with_its_size_and_paper_of_its_own(written):
    drawn = (written / "figures/line.svg").read_text(encoding="utf-8")
    head = ElementTree.fromstring(drawn).attrib
    assert (head["width"], head["height"]) == ("120", "40"), "pixels, of 90 × 30 points"
    assert f"#{head['id']} {{ background: #fff; color: #1f2328;" in drawn
    assert "prefers-color-scheme: dark" in drawn
    assert 'fill="currentColor"' in drawn


def test_there_is_nothing_but_what_github_can_show(written):
    files = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    assert files == {"README.md", "page.md", "page.ipynb", "other.md", "other.ipynb", "figures/line.svg", "data.json"}


def test_the_list_of_pages_follows_the_navigation(written):
    lines = (written / "README.md").read_text(encoding="utf-8").split("\n")
    pages = [line.partition(" · ")[0] for line in lines if line.startswith(("- ", "## "))]
    assert pages == ["- [A page](page.md)", "## A part", "- [Other](other.md)"]


def test_the_command_writes_pages_and_notebooks(project, tmp_path, monkeypatch):
    (project.root / "mkdocs.yml").write_text(SETTINGS, encoding="utf-8")
    project.page("page.md", "# A page\n\n```python\nprint(1)\n```\n\n```output\n1\n```\n")
    monkeypatch.chdir(project.root)
    monkeypatch.setattr("sys.argv", ["galley", "--branch", str(tmp_path / "out")])
    assert main() == 0
    assert json.loads((tmp_path / "out/page.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
    assert (tmp_path / "out/page.md").exists()
