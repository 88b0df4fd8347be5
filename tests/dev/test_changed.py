"""What git says has changed, in every state that a checkout can be in."""

import shutil
import subprocess

import pytest

from dev.changed import changed
from tests.contract import test_contract
from tests.contract.encoding_inputs import encodings

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


@pytest.fixture
def project(tmp_path):
    """A project of two commits, the second of which has written b.py."""
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path, "a.py", "1")
    commit(tmp_path, "b.py", "1")
    changed.cache_clear()
    yield tmp_path
    changed.cache_clear()


def git(root, *arguments):
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def commit(root, name, text):
    (root / name).write_text(text)
    git(root, "add", name)
    git(root, "commit", "--quiet", "-m", name)


def test_the_last_commit_counts_where_nothing_is_public(project):
    assert changed(project) == {"b.py"}


def test_what_is_not_committed_counts(project):
    (project / "a.py").write_text("2")
    (project / "new.py").write_text("2")
    assert changed(project) == {"a.py", "b.py", "new.py"}


def test_all_that_is_not_public_counts(project):
    git(project, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(project, "c.py", "1")
    commit(project, "d.py", "1")
    assert changed(project) == {"c.py", "d.py"}


def test_the_last_commit_counts_where_all_is_public(project):
    git(project, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert changed(project) == {"b.py"}


def test_a_history_of_one_commit_has_no_change(tmp_path):
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "a.py", "1")
    assert changed(tmp_path) == frozenset()


def test_without_git_nothing_has_changed(tmp_path, monkeypatch):
    assert changed(tmp_path) == frozenset()
    monkeypatch.setenv("PATH", "")
    assert changed(tmp_path / "..") == frozenset()


@pytest.mark.parametrize("path", ["posenc/rotate/rope.py", "tests/rotate/test_rope.py"])
def test_a_changed_encoding_is_compiled_in_every_variant(monkeypatch, path):
    rope = next(encoding for encoding in encodings() if encoding.key == "rotate/rope")
    monkeypatch.setattr(test_contract, "changed", lambda: {path})
    assert by_day(test_contract.worth_compiling(rope)) == len(rope.variants()) > 1
    monkeypatch.setattr(test_contract, "changed", lambda: {"posenc/rotate/pope.py"})
    assert by_day(test_contract.worth_compiling(rope)) == 1


def by_day(variants):
    return sum(pytest.mark.slow not in getattr(variant, "marks", ()) for variant in variants)
