"""python -m galley: run and check pages without building the site."""

import subprocess

import pytest

from tests.engine.conftest import ROOT, block

pytestmark = pytest.mark.full

GOOD = "# Good\n\n" + block("print(1 + 1)", output="2")
STALE = GOOD.replace("output\n2", "output\n3")


@pytest.fixture
def book(project):
    project.page("good.md", GOOD)
    project.page("stale.md", STALE)
    return project


def test_it_says_what_ran_what_was_kept_and_how_long_it_took(book):
    status, output = book.command("galley", "--only", "good.md")
    assert status == 0
    assert "ran docs/good.md in" in output
    assert "1 pages: 1 run, 0 from the cache, 0 problems," in output
    assert "0 run, 1 from the cache" in book.command("galley", "--only", "good.md")[1]
    assert "1 run, 0 from the cache" in book.command("galley", "--only", "good.md", "--no-cache")[1]


def test_it_names_what_is_wrong_and_shows_the_beginning_of_a_long_difference(book):
    book.page("long.md", "# Long\n\n" + block(r'print(*range(60), sep="\n")', output="0"))
    status, output = book.command("galley")
    assert status == 1
    assert "docs/stale.md:8: output differs\n--- the page shows\n+++ the code prints\n@@ -1 +1 @@\n-3\n+2\n" in output
    assert "@@ -1 +1,60 @@\n 0\n+1\n" in output
    assert "\n+20\n... 39 more lines of this difference\n" in output


def test_it_updates(book):
    assert book.command("galley", "--update")[0] == 0
    assert (book.docs / "stale.md").read_text() == GOOD


def test_it_refuses_a_page_that_is_not_there(book):
    status, output = book.command("galley", "--only", "nothing.md")
    assert status == 2
    assert "no page ends with nothing.md" in output


def test_it_writes_notebooks(book, tmp_path):
    book.command("galley", "--notebooks", str(tmp_path / "notebooks"))
    assert sorted(path.name for path in (tmp_path / "notebooks").glob("*")) == ["good.ipynb", "stale.ipynb"]


@pytest.mark.parametrize(("variables", "strict"), [([], False), (["STRICT=1"], True)])
def test_make_builds_strictly_where_it_is_asked_to(variables, strict):
    command = ["make", "--dry-run", "--always-make", "build", *variables]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    [line] = [line for line in done.stdout.splitlines() if "mkdocs build" in line]
    assert ("--strict" in line) == strict
