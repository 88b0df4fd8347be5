"""A tag is released only where every place that names a version, or a date, names the same."""

import re
import shutil
import tomllib

import pytest

from dev.release import ROOT, main, notes, problems

PLACES = ("pyproject.toml", "docs/book/pyproject.toml", "CITATION.cff", "CHANGELOG.md")
CHANGELOG = "# Changelog\n\n## 0.2.0 — 2027-01-31\n\n- A door.\n\n## 0.1.0 — 2026-11-21\n\n- A book.\n"


@pytest.fixture
def ready(tmp_path):
    """The project with all that it says of versions, ready to be released as 0.1.0."""
    for place in PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    edit(tmp_path / "CITATION.cff", r"date-released: \S+", "date-released: 2026-11-21")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    return tmp_path


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert re.search(old, text), old
    path.write_text(re.sub(old, new, text, count=1), encoding="utf-8")


def test_what_agrees_can_be_released(ready):
    assert list(problems("v0.1.0", ready)) == []


@pytest.mark.parametrize(
    ("place", "old", "new", "message"),
    [
        ("pyproject.toml", '"0.1.0"', '"0.1.1"', "pyproject.toml says 0.1.1, the tag 0.1.0"),
        ("docs/book/pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"', "docs/book/pyproject.toml says 0.2.0"),
        (
            "docs/book/pyproject.toml",
            "posenc==0.1.0",
            "posenc==0.0.9",
            "what docs/book/pyproject.toml needs says",
        ),
        ("CITATION.cff", "version: 0.1.0", "version: 1.0.0", "CITATION.cff says 1.0.0"),
        ("CITATION.cff", "2026-11-21", "2026-11-20", "CITATION.cff has the date 2026-11-20, CHANGELOG.md 2026-11-21"),
        (
            "CHANGELOG.md",
            "## 0.1.0 — 2026-11-21",
            "## 0.1.0 — unreleased",
            "CHANGELOG.md has no `## 0.1.0 — YYYY-MM-DD`",
        ),
    ],
)
def test_what_does_not_agree_is_named(ready, place, old, new, message):
    edit(ready / place, old, new)
    (problem,) = problems("v0.1.0", ready)
    assert problem.startswith(message)


def test_another_tag_is_refused(ready):
    assert len(list(problems("v0.2.0", ready))) == 5


def test_what_is_new_is_the_part_of_the_version():
    assert notes(CHANGELOG, "0.2.0") == ("2027-01-31", "- A door.")
    assert notes(CHANGELOG, "0.1.0") == ("2026-11-21", "- A book.")


def test_a_tag_that_does_not_agree_fails(capsys):
    assert main("v99.0.0") == 1
    assert "pyproject.toml says" in capsys.readouterr().err


def test_all_versions_agree_at_any_time():
    """Only the day is open before a release."""
    assert not [problem for problem in problems(f"v{_version()}") if " says " in problem]


def _version():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
