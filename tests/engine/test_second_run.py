"""A page is run a second time until it has once given the same bytes twice."""

import pytest

from galley.book import Book
from galley.run.pool import run_jobs
from galley.show import notebook_of_page
from tests.pages.second_run import differing

PAGE = "# Page\n\n```python\nimport os\nimport matplotlib.pyplot as plt\n\n{}\n```\n"
FIGURE = "\n![A line](figures/{}.svg)\n"
SAME = PAGE.format("print(1)\nplt.plot([1, 2])") + FIGURE.format("same")
PRINTS = PAGE.format("print(os.urandom(8))")
DRAWS = PAGE.format("plt.plot([1, int.from_bytes(os.urandom(2))])") + FIGURE.format("draws")


@pytest.fixture
def first_run(project, monkeypatch):
    """A book, what its pages gave, and a list that the names of the pages that run from now on go into."""
    for name, text in {"same.md": SAME, "prints.md": PRINTS, "draws.md": DRAWS}.items():
        project.page(name, text)
    book = Book(project.root)
    results = book.run(book.pages())
    names = []

    def run(jobs, workers, done):
        names.extend(sorted(job.filename for job in jobs))
        run_jobs(jobs, workers, done)

    monkeypatch.setattr("galley.book.run_jobs", run)
    return book, results, names


def test_a_page_that_gives_something_else_is_found_and_one_that_does_not_is_asked_once(first_run):
    book, results, names = first_run
    assert differing(book, results, {}) == ["docs/draws.md", "docs/prints.md"]
    assert names == ["docs/draws.md", "docs/prints.md", "docs/same.md"]
    names.clear()
    differing(book, results, {})
    assert names == ["docs/draws.md", "docs/prints.md"]
    names.clear()
    differing(book, results, {}, every=True)
    assert "docs/same.md" in names


def test_a_notebook_that_gave_the_same_was_the_second_run(first_run):
    book, results, names = first_run
    jobs = notebook_of_page.run(book, results)
    names.clear()
    assert differing(book, results, jobs) == ["docs/draws.md", "docs/prints.md"]
    assert names == ["docs/draws.md", "docs/prints.md"]
