"""python -m galley: run and check pages without building the site."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
GOOD = "# Good\n\n```python\nprint(1 + 1)\n```\n\n```output\n2\n```\n"
STALE = GOOD.replace("output\n2", "output\n3")


@pytest.fixture
def galley(project):
    def run(*arguments):
        command = [sys.executable, "-m", "galley", *arguments]
        done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    project.page("good.md", GOOD)
    project.page("stale.md", STALE)
    return run


def test_it_says_what_ran_what_was_kept_and_how_long_it_took(galley):
    status, out, _ = galley("--only", "good.md")
    assert status == 0
    assert "ran docs/good.md in" in out
    assert "1 pages: 1 run, 0 from the cache, 0 problems," in out
    assert "0 run, 1 from the cache" in galley("--only", "good.md")[1]
    assert "1 run, 0 from the cache" in galley("--only", "good.md", "--no-cache")[1]


def test_it_names_what_is_wrong(galley):
    status, _, errors = galley()
    assert status == 1
    assert "docs/stale.md:8: output differs\n--- the page shows\n+++ the code prints\n@@ -1 +1 @@\n-3\n+2\n" in errors


def test_it_shows_the_beginning_of_a_long_difference(galley, project):
    project.page("long.md", '# Long\n\n```python\nprint(*range(60), sep="\\n")\n```\n\n```output\n0\n```\n')
    _, _, errors = galley("--only", "long.md")
    assert "@@ -1 +1,60 @@\n 0\n+1\n" in errors
    assert "\n+20\n... 39 more lines of this difference\n" in errors


def test_it_updates(galley, project):
    assert galley("--update")[0] == 0
    assert (project.docs / "stale.md").read_text() == GOOD


def test_it_refuses_a_page_that_is_not_there(galley):
    status, _, errors = galley("--only", "nothing.md")
    assert status == 2
    assert "no page ends with nothing.md" in errors


def test_it_writes_notebooks(galley, project, tmp_path):
    galley("--notebooks", str(tmp_path / "made"))
    assert sorted(path.name for path in (tmp_path / "made").glob("*")) == ["good.ipynb", "stale.ipynb"]


@pytest.mark.parametrize(("asked", "strict"), [([], False), (["STRICT=1"], True)])
def test_make_builds_strictly_where_it_is_asked_to(asked, strict):
    command = ["make", "--dry-run", "--always-make", "build", *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    [line] = [line for line in done.stdout.splitlines() if "mkdocs build" in line]
    assert ("--strict" in line) == strict
