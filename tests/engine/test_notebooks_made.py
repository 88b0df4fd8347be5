"""A page as a notebook: its code in cells, its prose readable, the same bytes each time."""

import nbformat
import pytest
from mkdocs.utils.yaml import yaml_load

from galley.book import Book
from galley.show import notebook_of_page
from tests.engine.conftest import ROOT, block

PAGE = """\
---
title: A page
---

# A page

It has 42<!-- = answer --> rows; see [there](other.md#rows) and [the code][library.code].
[So it is](other.md?length=8#rows).

> [!WARNING]
> Mind the gap.

<!-- block: fold="How" -->
```python
import matplotlib.pyplot as plt

answer = 42
plt.plot([1, 2])
```

![A line](figures/line.svg)
*A caption.*

<details markdown="1"><summary>Hint</summary>

```pycon
>>> answer + 1  # one more (than before
43
```

</details>

<!-- block: raises=ZeroDivisionError -->
```python
1 / 0
```

```output
ZeroDivisionError: division by zero
```
"""


SITE = "https://example.org/book/"


def notebook_of(result, project, site=SITE):
    return nbformat.reads(notebook_of_page.notebook(result, site, project.root), as_version=4)


@pytest.fixture
def result(project):
    project.page("other.md", "# Other\n\n## Rows\n")
    result = project.run_page(PAGE)
    assert result.problems == []
    return result


@pytest.fixture
def cells(project, result):
    return notebook_of(result, project).cells


def code_of(cells):
    return [cell for cell in cells if cell.cell_type == "code"]


def test_it_is_valid_and_stable(project, result):
    nbformat.validate(notebook_of(result, project))
    text = notebook_of_page.notebook(result, SITE, project.root)
    assert notebook_of_page.notebook(project.run()["page.md"], SITE, project.root) == text


def installed(cells, monkeypatch):
    """Return the package that the first cell looks for, and what it installs where nothing of ours is."""
    commands, packages = [], []
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: packages.append(name))
    exec(code_of(cells)[0].source, {})
    [[_, *install]] = commands
    assert install[:4] == ["-m", "pip", "install", "-q"]
    return packages, install[4:]


@pytest.mark.parametrize(
    ("lang", "line"), [("python", "from posenc_book import __doc__"), ("pycon", ">>> import posenc_book")]
)
def test_it_installs_what_it_needs_from_where_it_was_made(project, cells, monkeypatch, lang, line):
    with (ROOT / "mkdocs.yml").open(encoding="utf-8") as file:
        source = f"git+{yaml_load(file)['repo_url']}"
    assert installed(cells, monkeypatch) == (["posenc"], [source, "matplotlib"])
    cells = notebook_of(project.run_page(f"# A page\n\n```{lang}\n{line}\n```\n"), project).cells
    book = f"{source}#subdirectory=docs/book"
    assert installed(cells, monkeypatch) == (["posenc_book"], [source, book, "matplotlib"])


def test_it_installs_nothing_where_all_is_there(cells, monkeypatch):
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("it installs"))
    exec(code_of(cells)[0].source, {})


def test_it_brings_the_measurements_that_its_page_reads(project, tmp_path, monkeypatch):
    project.write("data/sizes.json", '{"it\'s": 7}')
    code = "import json\nfrom pathlib import Path\n\nsizes = json.loads(Path('data/sizes.json').read_text())"
    result = project.run_page("# A page\n\n" + block(code))
    assert result.problems == []
    monkeypatch.chdir(tmp_path)
    space = {}
    for cell in notebook_of(result, project).cells[3:]:
        exec(cell.source, space)
    assert space["sizes"] == {"it's": 7}


def test_a_page_that_reads_the_projects_files_is_none(project):
    project.page("page.md", "# A page\n\n" + block("with open('docs/references.bib'):\n    pass"))
    project.page("list.md", "# A list\n\n" + block("import os\n\nos.listdir('docs')"))
    project.page("good.md", "# A page\n\n" + block("pass"))
    assert [name for name, result in project.run().items() if notebook_of_page.is_portable(result)] == ["good.md"]


def test_code_and_outputs_are_in_cells(cells):
    code = code_of(cells)
    beginnings = ["import matplotlib.pyplot as plt", "print(repr(", "1 / 0"]
    assert [cell.source.splitlines()[0] for cell in code[2:]] == beginnings
    assert code[2].outputs[0].data["text/plain"] == "A line"
    assert code[4].metadata.tags == ["raises-exception"]


def test_prose_is_readable_and_its_links_lead_to_the_site(cells):
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "It has 42 rows; see [there](https://example.org/book/other/#rows) and the code." in prose
    assert "[So it is](https://example.org/book/other/?length=8#rows)." in prose
    assert "> **Warning.**" in prose
    assert "**Hint.**" in prose
    assert "<!--" not in prose
    assert "title: A page" not in prose


RUNS = """\
# A page

```python
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

sizes = json.loads(Path("docs/sizes.json").read_text())
print(sizes, np.random.rand())
plt.plot(sizes)
```

![A line](figures/line.svg)

<!-- block: raises=ZeroDivisionError -->
```python
1 / 0
```
"""
NOT_ALONE = {
    "uses the engine": ("import galley", "ModuleNotFoundError: import of galley halted"),
    "looks for the project": ("assert Path('docs/references.bib').exists()", "AssertionError"),
    "goes on after an error": ("sizes[9]", "IndexError"),
}


@pytest.fixture
def book_and_results(project):
    """A book of a page that runs alone, and one for each reason for which a page does not."""
    project.page("sizes.json", "[1, 2]")
    project.page("page.md", RUNS)
    for fault, (line, _) in NOT_ALONE.items():
        guarded = f"if Path('pyproject.toml').exists():\n    pass\nelse:\n    {line}"
        project.page(f"{fault}.md", RUNS.replace("plt.plot(sizes)", f"plt.plot(sizes)\n{guarded}"))
    book = Book(project.root)
    return book, book.run(book.pages())


def test_it_runs_in_an_empty_folder_and_gives_what_the_page_gives(book_and_results):
    book, results = book_and_results
    jobs = notebook_of_page.run(book, results)
    assert [job.cached for job in jobs.values()] == [False] * 4
    *setup, first, second = jobs["docs/page.md"].results
    assert len(setup) == 3
    assert first["stdout"] == results["docs/page.md"].steps[0]["stdout"]
    assert len(first["figures"]) == 1
    assert second["stdout"] == "ZeroDivisionError: division by zero\n"
    for fault, (_, message) in NOT_ALONE.items():
        [error] = [step["error"] for step in jobs[f"docs/{fault}.md"].results if "error" in step]
        assert message in error
    again = notebook_of_page.run(book, results)
    assert [name for name, job in again.items() if job.cached] == ["docs/page.md"]
