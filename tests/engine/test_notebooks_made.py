"""A page as a notebook: its code in cells, its prose readable, the same bytes each time."""

from pathlib import Path

import nbformat
import pytest
from mkdocs.utils.yaml import yaml_load

from galley.book import Book
from galley.show import notebook_of_page

PAGE = """\
---
title: A page
---

# A page

It has 42<!-- = answer --> rows; see [there](other.md#rows) and [the code][library.code].

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


@pytest.fixture
def made(project):
    project.page("page.md", PAGE)
    project.page("other.md", "# Other\n\n## Rows\n")
    result = project.run()["page.md"]
    assert result.problems == []
    return notebook_of_page.notebook(result, "https://example.org/book/", project.root)


def test_it_is_valid_and_stable(project, made):
    nbformat.validate(nbformat.reads(made, as_version=4))
    assert notebook_of_page.notebook(project.run()["page.md"], "https://example.org/book/", project.root) == made


def installed(made, monkeypatch):
    """Return what the first cell of a notebook installs where nothing of ours is."""
    asked = []
    monkeypatch.setattr("subprocess.run", lambda command, check: asked.append(command))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: asked.append(name))
    exec(next(cell.source for cell in nbformat.reads(made, as_version=4).cells if cell.cell_type == "code"), {})
    package, (_, *install) = asked
    assert install[:4] == ["-m", "pip", "install", "-q"]
    return package, install[4:]


@pytest.mark.parametrize("line", ["from posenc_book import __doc__", ">>> import posenc_book"])
def test_it_installs_what_it_needs_from_where_it_was_made(project, made, monkeypatch, line):
    with (Path(__file__).parents[2] / "mkdocs.yml").open(encoding="utf-8") as file:
        source = f"git+{yaml_load(file)['repo_url']}"
    assert installed(made, monkeypatch) == ("posenc", [source, "matplotlib"])
    project.page("page.md", f"# A page\n\n```{'pycon' if '>' in line else 'python'}\n{line}\n```\n")
    made = notebook_of_page.notebook(project.run()["page.md"], "", project.root)
    book = f"{source}#subdirectory=docs/book"
    assert installed(made, monkeypatch) == ("posenc_book", [source, book, "matplotlib"])


def test_it_installs_nothing_where_all_is_there(made, monkeypatch):
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("it installs"))
    exec(next(cell.source for cell in nbformat.reads(made, as_version=4).cells if cell.cell_type == "code"), {})


def test_it_brings_the_measurements_that_its_page_reads(project, tmp_path, monkeypatch):
    (project.root / "data").mkdir()
    (project.root / "data/found.json").write_text('{"it\'s": 7}')
    code = "import json\nfrom pathlib import Path\n\nfound = json.loads(Path('data/found.json').read_text())"
    project.page("page.md", f"# A page\n\n```python\n{code}\n```\n")
    result = project.run()["page.md"]
    assert result.problems == []
    cells = nbformat.reads(notebook_of_page.notebook(result, "", project.root), as_version=4).cells
    monkeypatch.chdir(tmp_path)
    space = {}
    for cell in cells[3:]:
        exec(cell.source, space)
    assert space["found"] == {"it's": 7}


def test_a_page_that_reads_the_projects_files_is_none(project):
    project.page("page.md", "# A page\n\n```python\nwith open('docs/references.bib'):\n    pass\n```\n")
    project.page("list.md", "# A list\n\n```python\nimport os\n\nos.listdir('docs')\n```\n")
    project.page("good.md", "# A page\n\n```python\npass\n```\n")
    made = [name for name, result in project.run().items() if notebook_of_page.is_portable(result)]
    assert made == ["good.md"]


def test_code_and_outputs_are_in_cells(made):
    code = [cell for cell in nbformat.reads(made, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.source.splitlines()[0] for cell in code[2:]] == [
        "import matplotlib.pyplot as plt",
        "print(repr(",
        "1 / 0",
    ]
    assert code[2].outputs[0].data["text/plain"] == "A line"
    assert code[4].metadata.tags == ["raises-exception"]


def test_a_link_to_a_view_of_a_page_leads_there(project):
    project.page("other.md", "# Other\n\n## Rows\n")
    project.page("page.md", "# Page\n\nSee [it](other.md?length=8#rows).\n\n```python\npass\n```\n")
    result = project.run()["page.md"]
    assert result.problems == []
    assert "(https://example.org/book/other/?length=8#rows)" in notebook_of_page.notebook(
        result, "https://example.org/book/", project.root
    )


def test_prose_is_readable(made):
    prose = "\n".join(cell.source for cell in nbformat.reads(made, as_version=4).cells if cell.cell_type == "markdown")
    assert "It has 42 rows; see [there](https://example.org/book/other/#rows) and the code." in prose
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

found = json.loads(Path("docs/found.json").read_text())
print(found, np.random.rand())
plt.plot(found)
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
    "goes on after an error": ("found[9]", "IndexError"),
}


def test_it_runs_in_an_empty_folder_and_gives_what_the_page_gives(project):
    (project.docs / "found.json").write_text("[1, 2]")
    project.page("page.md", RUNS)
    for fault, (line, _) in NOT_ALONE.items():
        guarded = f"if Path('pyproject.toml').exists():\n    pass\nelse:\n    {line}"
        project.page(f"{fault}.md", RUNS.replace("plt.plot(found)", f"plt.plot(found)\n{guarded}"))
    book = Book(project.root)
    results = book.run(book.pages())
    jobs = notebook_of_page.run(book, results)
    assert [job.cached for job in jobs.values()] == [False] * 4
    *setup, first, second = jobs["docs/page.md"].results
    assert len(setup) == 3
    page = results["docs/page.md"].steps
    assert first["stdout"] == page[0]["stdout"]
    assert len(first["figures"]) == 1
    assert second["stdout"] == "ZeroDivisionError: division by zero\n"
    for fault, (_, message) in NOT_ALONE.items():
        errors = [step["error"] for step in jobs[f"docs/{fault}.md"].results if "error" in step]
        assert len(errors) == 1
        assert message in errors[0]
    again = notebook_of_page.run(book, results)
    assert [name for name, job in again.items() if job.cached] == ["docs/page.md"]
