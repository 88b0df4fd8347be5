"""A page that is a notebook is run, checked, updated and shown like any other."""

import json
import re

import nbformat
import pytest

from galley.read.notebook import read
from galley.show import notebook_of_page

ANSWER = "answer = 42\nprint(answer / 4)"
FRONT = "---\ntitle: A page\n---"
DRAW = "import matplotlib.pyplot as plt\n\ndouble = {2: 4}.get\nplt.plot([1, double(2)])"
IMAGE = "<!-- ![A rising line](figures/line.svg) -->\n*It goes to 4<!-- = double(2) -->.*"
PLUGIN = 'plugins:\n  - mkdocs-jupyter: {cache: false, ignore: ["*.md"], include: ["*.ipynb"]}\n'


def prose(*lines):
    return {"cell_type": "markdown", "metadata": {}, "source": "\n".join(lines)}


def code(source, printed="", tags=(), outputs=None):
    if printed:
        outputs = [{"output_type": "stream", "name": "stdout", "text": printed}]
    cell = {"cell_type": "code", "execution_count": None, "metadata": {"tags": list(tags)}, "source": source}
    return cell | {"outputs": outputs or []}


def book_of(*cells):
    named = [cell | {"id": f"cell{n}"} for n, cell in enumerate(cells)]
    return json.dumps({"cells": named, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


GOOD = [
    {"cell_type": "raw", "metadata": {}, "source": FRONT},
    prose("# A page", "", "There are 42<!-- = answer --> and $a < b$.", "", "## Rows"),
    code(ANSWER, "10.5\n"),
    prose("<!-- block: fold=How -->"),
    code(DRAW),
    prose(IMAGE, "", "See [rows](#rows)."),
]
STALE = code(ANSWER, "10.6\n")


@pytest.fixture
def page(project):
    """Write a book of one notebook; `page(n, cell)` first replaces a cell, counted from 1."""

    def write(number=None, cell=None):
        cells = [cell if n == number else old for n, old in enumerate(GOOD, 1)]
        project.page("page.ipynb", book_of(*cells))
        return project

    return write


def report(project):
    return project.run()["page.ipynb"].report


def test_it_runs(page):
    result = page().run()["page.ipynb"]
    assert result.report == []
    assert [block.code for block in result.page.blocks] == [ANSWER, DRAW]
    assert len(result.steps[-2]["figures"]) == 1
    assert result.page.blocks[1].options == {"fold": "How"}
    assert result.page.text.startswith(FRONT)


def test_a_figure_of_it_may_come_to_life(page):
    project = page(4, prose('<!-- block: live=line data="double(2)" -->'))
    project.write("docs/assets/js/figures/line.js", "")
    result = project.run()["page.ipynb"]
    assert result.report == []
    assert result.page.blocks[1].options == {"live": "line", "data": "double(2)"}
    assert [step["data"] for step in result.steps if "data" in step] == ["4"]


WRONG = {
    "a wrong output": (3, STALE, " cell 3, output: output differs"),
    "a missing output": (3, code(ANSWER), " cell 3, output: output differs"),
    "a failing block": (
        3,
        code("answer = 42\n\nanswer / 0"),
        ' cell 3, line 3: Traceback (most recent call last):\n  File "docs/page.ipynb", cell 3, line 3, in <module>\n'
        "    answer / 0",
    ),
    "a number": (2, prose("# A page", "", "## Rows", "", "41<!-- = answer -->"), " cell 2, line 5: 41 stands here"),
    "an unbound number": (2, prose("# Rows", "", "It has 17.3."), " cell 2, line 3: no code stands behind 17.3"),
    "a link": (6, prose(IMAGE, "", "See [it](#nowhere)."), " cell 6, line 4: link to nowhere: this page has no #"),
    "a formula": (2, prose("## Rows", "", r"$\nonsense$"), " cell 2, line 3: KaTeX parse error"),
    "one figure more": (6, prose("## No image"), " cell 5, line 1: the block draws 1 figure(s), and 0 image line(s)"),
    "one figure less": (5, code("double = {2: 4}.get"), " cell 5, line 1: the block draws 0 figure(s)"),
    "an option": (4, prose("<!-- block: folded -->"), " cell 4, line 1: unknown block option 'folded'"),
    "a figure that is kept": (
        5,
        code(DRAW, outputs=[{"output_type": "display_data", "metadata": {}, "data": {}}]),
        " cell 5, line 1: this cell keeps display_data; only what a cell prints is kept",
    ),
    "a fence that would not run in Jupyter": (
        6,
        prose(IMAGE, "", "## More", "", "```python", "x = 1", "```"),
        " cell 6, line 7: code that runs needs a cell of its own",
    ),
    "an end of the interpreter": (
        3,
        code("import os\n\nos._exit(3)"),
        " cell 3, line 1: the page ended its own process (exit code 3)",
    ),
    "a number that could have two values": (
        5,
        code(DRAW + "\nanswer = 3"),
        " cell 2, line 3: answer could have two values here, one of them from the block at cell 5, line 1;",
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_fault_is_found_in_its_cell(page, fault):
    number, cell, message = WRONG[fault]
    assert any(line.startswith(f"docs/page.ipynb:{message}") for line in report(page(number, cell)))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"worksheets": []}', '{"cells": [{"cell_type": "code"}]}'])
def test_what_is_no_notebook_is_said_to_be_none(project, text):
    project.page("page.ipynb", text)
    [line] = report(project)
    assert line.startswith("docs/page.ipynb:1: this is no notebook")


def test_a_link_from_elsewhere_may_name_a_heading_of_it(page):
    project = page()
    project.page("other.md", "# Other\n\nSee [rows](page.ipynb#rows) and [columns](page.ipynb#columns).\n")
    assert project.run()["other.md"].report == ["docs/other.md:3: link to nowhere: page.ipynb has no #columns"]


def test_copies_that_jupyter_keeps_are_no_pages(page):
    project = page()
    project.page(".ipynb_checkpoints/page-checkpoint.ipynb", "{}")
    assert list(project.run()) == ["page.ipynb"]


def test_it_is_remembered_until_its_code_changes(page):
    project = page()
    assert not project.run()["page.ipynb"].cached
    page(2, prose("# A page", "", "Other words.", "", "42<!-- = answer -->", "", "## Rows"))
    assert project.run()["page.ipynb"].cached
    page(3, code("answer = 6 * 7\nprint(answer / 4)", "10.5\n"))
    assert not project.run()["page.ipynb"].cached


def update(project):
    """Return the notebook after its update, and its problems."""
    results = project.update()
    return (project.docs / "page.ipynb").read_text(), results["docs/page.ipynb"].report


def test_an_update_writes_outputs_numbers_and_sources_and_nothing_else(page):
    project = page()
    before = (project.docs / "page.ipynb").read_text()
    assert update(project) == (before, [])
    quoted = ("<!-- block: source=library/code.py:double -->", "```python", "```")
    page(2, prose("# A page", "", "There are 41<!-- = answer -->.", "", "## Rows", "", *quoted, "", "After."))
    text, problems = update(project)
    assert problems == []
    cells = nbformat.reads(text, as_version=4).cells
    source = 'def double(x):\n    """Return twice x."""\n    return 2 * x\n```\n\nAfter.'
    assert cells[1].source.endswith(source)
    assert "There are 42<!-- = answer -->." in cells[1].source
    assert [cell.source for cell in cells[2:]] == [cell["source"] for cell in GOOD[2:]]
    assert [cell.id for cell in cells] == [f"cell{n}" for n in range(6)]


def test_an_update_takes_away_what_jupyter_saves_and_keeps_what_a_failing_cell_shows(page):
    image = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "aGk="}}
    project = page(5, code(DRAW, outputs=[image]) | {"execution_count": 7})
    text, problems = update(project)
    assert problems == []
    assert nbformat.reads(text, as_version=4) == nbformat.reads(book_of(*GOOD), as_version=4)
    project = page(3, code("print(1 / 0)", "5\n"))
    before = (project.docs / "page.ipynb").read_text()
    text, problems = update(project)
    assert text == before
    assert "ZeroDivisionError" in problems[0]


def test_a_close_output_is_kept_and_a_wrong_one_replaced(page):
    project = page(3, code("answer = 42\nprint(answer / 4 + 1e-9)", "10.500000002\n"))
    assert "10.500000002" in update(project)[0]
    text, problems = update(page(3, STALE))
    assert problems == []
    assert nbformat.reads(text, as_version=4).cells[2].outputs[0].text == "10.5\n"


def test_a_table_that_a_cell_prints_is_markdown_by_its_tag(project):
    table = code('print("| a |\\n| - |\\n| 2.5 |")', "| a |\n| - |\n| 2.5 |\n", tags=["markdown"])
    result = project.run_page(book_of(prose("# Page"), table), "page.ipynb")
    assert result.report == []
    assert "<!-- output -->\n\n| a |" in result.page.text


def test_ticks_in_code_and_output_close_no_fence(project):
    ticks = code('print("""\n```\nx\n````""")', "\n```\nx\n````\n")
    assert project.run_page(book_of(prose("# Page"), ticks), "page.ipynb").report == []


def test_an_error_as_jupyter_keeps_it_is_the_one_that_is_raised(project):
    error = [{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": []}]
    option = prose("# Page", "", "<!-- block: raises=ZeroDivisionError -->")
    assert project.run_page(book_of(option, code("1 / 0", outputs=error)), "page.ipynb").report == []


@pytest.fixture
def book(page):
    project = page()
    project.page("index.md", "# Home\n\nSee [rows](page.ipynb#rows).\n")
    project.append("mkdocs.yml", PLUGIN)
    return project


@pytest.mark.full
def test_the_site_shows_it_like_any_other_page_and_two_builds_give_the_same_bytes(book):
    site = book.build("--strict")
    html = site["page"]
    assert re.search(r'<span class="checked" data-expression="answer" data-code="code-\d">42</span>', html)
    assert 'role="img" aria-label="A rising line"' in html
    assert '<figcaption>It goes to <span class="checked"' in html
    assert '<details class="fold"' in html
    assert 'class="katex"' in html
    assert '<h2 id="rows">' in html
    assert "<title>A page" in html
    for foreign in ("jupyter", "MathJax", "require.js", "<!-- !["):
        assert foreign.lower() not in html.lower().replace("page.ipynb", "")
    assert 'href="page/#rows"' in site["."]
    download = nbformat.reads((book.root / "site/page.ipynb").read_text(), as_version=4)
    nbformat.validate(download)
    assert [cell.source for cell in download.cells if cell.cell_type == "code"][3] == DRAW
    files = files_of(book.root / "site")
    book.build("--strict", "--site-dir", "again")
    assert files_of(book.root / "again") == files


def files_of(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.full
def test_a_strict_build_and_pytest_fail_with_the_cell(page, book):
    page(3, STALE)
    pytest_docs = ("pytest", "-p", "galley.pytest_plugin", "-p", "no:cacheprovider", "docs")
    for command in (("mkdocs", "build", "--strict"), pytest_docs):
        status, output = book.command(*command)
        assert status == 1
        assert "docs/page.ipynb: cell 3, output: output differs" in output


def test_its_download_leads_to_pages_and_to_downloads(page):
    project = page()
    project.page("other.md", "# Other\n\n```python\nx = 1\n```\n")
    page(6, prose(IMAGE, "", "See [me](page.ipynb#rows), [it](other.md) and [its notebook](other.ipynb)."))
    result = project.run()["page.ipynb"]
    assert result.report == []
    download = notebook_of_page.notebook(result, "https://example.org/book/", project.root)
    assert "[me](https://example.org/book/page/#rows)" in download
    assert "[it](https://example.org/book/other/)" in download
    assert "[its notebook](https://example.org/book/other.ipynb)" in download


def test_a_markdown_page_is_read_as_it_is():
    assert read("page.md", "# Page\n").source == read("page.md", "# Page\n").text == "# Page\n"
