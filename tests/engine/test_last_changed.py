"""The day on which a page was last changed: from git, from the environment, or not at all."""

import os
import shutil
import subprocess

import pytest

from galley.show.last_changed import history, last_changed


@pytest.fixture(autouse=True)
def undated(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    history.cache_clear()


def git(folder, *command, day="2026-11-20"):
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    subprocess.run(["git", *command], cwd=folder, env=os.environ | who, check=True, capture_output=True)


@pytest.fixture
def committed(project):
    """A book in a repository: all of 20 November, the labs changed four days later, and a page not known."""
    if not shutil.which("git"):
        pytest.skip("no git")
    for name in ("index.md", "labs.md"):
        project.page(name, "# A page\n")
    git(project.root, "init", "--quiet")
    git(project.root, "add", "docs")
    git(project.root, "commit", "-m", "All")
    project.page("labs.md", "# The labs\n\nMore.\n")
    git(project.root, "commit", "-am", "More", day="2026-11-24")
    project.page("new.md", "# New\n")
    return project.root


def test_a_file_was_changed_on_the_day_of_its_last_commit(committed):
    days = [last_changed(committed, f"docs/{name}.md") for name in ("index", "labs", "new")]
    assert [day and day.isoformat() for day in days] == ["2026-11-20", "2026-11-24", None]


def test_without_a_repository_no_day_is_claimed(project):
    assert last_changed(project.root, "docs/index.md") is None


def test_without_git_itself_no_day_is_claimed(committed, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert history(committed) == {}


def test_without_a_repository_the_day_may_be_given(project, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1763683200")
    assert str(last_changed(project.root, "docs/index.md")) == "2025-11-21"


def test_a_clone_of_the_last_commit_alone_knows_no_days(committed, tmp_path_factory):
    clone = tmp_path_factory.mktemp("shallow") / "clone"
    git(clone.parent, "clone", "--quiet", "--depth=1", committed.as_uri(), str(clone))
    assert history(clone) == {}
    assert history(committed)
