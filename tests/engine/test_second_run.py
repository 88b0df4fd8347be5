"""A page is run a second time until it has once given the same bytes twice."""

import pytest

from galley.book import Book
from galley.show import notebook_of_page
from tests.pages.second_run import differing

PAGE = "# Page\n\n```python\nimport os\nimport matplotlib.pyplot as plt\n\n{}\n```\n"
FIGURE = "\n![A line](figures/{}.svg)\n"
SAME = PAGE.format("print(1)\nplt.plot([1, 2])") + FIGURE.format("same")
PRINTS = PAGE.format("print(os.urandom(8))")
DRAWS = PAGE.format("plt.plot([1, int.from_bytes(os.urandom(2))])") + FIGURE.format("draws")


@pytest.fixture
def ran(project, monkeypatch):
    """Run a book, and count what is run after that."""
    for name, text in {"same.md": SAME, "prints.md": PRINTS, "draws.md": DRAWS}.items():
        project.page(name, text)
    book = Book(project.root)
    results = book.run(book.pages())
    seconds = []
    monkeypatch.setattr("galley.book.run_jobs", _counting(seconds))
    return book, results, seconds


def _counting(seconds):
    from galley.run.pool import run_jobs

    def run(jobs, workers, done):
        seconds.extend(sorted(job.filename for job in jobs))
        run_jobs(jobs, workers, done)

    return run


def test_a_page_that_gives_something_else_is_found_and_one_that_does_not_is_asked_once(ran):
    book, results, seconds = ran
    assert differing(book, results, {}) == ["docs/draws.md", "docs/prints.md"]
    assert seconds == ["docs/draws.md", "docs/prints.md", "docs/same.md"]
    seconds.clear()
    differing(book, results, {})
    assert seconds == ["docs/draws.md", "docs/prints.md"]
    seconds.clear()
    differing(book, results, {}, every=True)
    assert "docs/same.md" in seconds


def test_a_notebook_that_gave_the_same_was_the_second_run(ran):
    book, results, seconds = ran
    jobs = notebook_of_page.run(book, results)
    seconds.clear()
    assert differing(book, results, jobs) == ["docs/draws.md", "docs/prints.md"]
    assert seconds == ["docs/draws.md", "docs/prints.md"]
