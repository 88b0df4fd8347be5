"""What a page gave is remembered until something that could change it changes."""

import shutil
import threading

import pytest

PAGE = """\
# Page

Some prose.

```python
from pathlib import Path

print(1 + 1)
```

```output
2
```

$$
y = 2 x
$$

<!-- formula: x = 3.5; y = 7 -->
"""
DAMAGES = {
    "empty": lambda entry: b"",
    "binary": lambda entry: b"\x00\xff",
    "cut": lambda entry: entry[: len(entry) // 2],
    "forged": lambda entry: b"0123\n[]",
    "a flipped digit": lambda entry: entry.replace(rb'"2\n"', rb'"3\n"'),
}


@pytest.fixture
def page(project):
    assert not project.run_page(PAGE).cached
    return project


def entry(project):
    [path] = (project.root / ".galley" / "pages").glob("*.json")
    return path


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("# Page", "# Page", []),
        ("Some prose.", "Other prose.\n\nAnd more.", []),
        ("output\n2", "output\n3", [12]),
    ],
    ids=["nothing", "prose", "an output"],
)
def test_an_edit_of_what_does_not_run_runs_nothing_and_is_judged(page, old, new, lines):
    result = page.run_page(PAGE.replace(old, new))
    assert result.cached
    assert [p.line for p in result.problems] == lines


@pytest.mark.parametrize(
    "edited",
    [PAGE.replace("1 + 1", "2 * 1"), PAGE + "\nSome 12<!-- = 3 * 4 -->.\n", PAGE.replace("2 x", "x + x")],
    ids=["a block", "a bound expression", "a formula"],
)
def test_an_edit_of_code_runs_the_page(page, edited):
    assert not page.run_page(edited).cached


def test_another_version_of_a_library_runs_the_page(page, monkeypatch):
    monkeypatch.setattr("galley.run.result_cache.version", lambda name: "99.0")
    assert not page.run()["page.md"].cached


def test_an_edit_of_the_engine_runs_the_page(page, monkeypatch):
    worker = page.write("worker.py", "changed")
    monkeypatch.setattr("galley.run.result_cache.RUNNING_CODE", [worker])
    assert not page.run()["page.md"].cached


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_run_again(page, damage):
    path = entry(page)
    damaged = DAMAGES[damage](path.read_bytes())
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    result = page.run()["page.md"]
    assert not result.cached
    assert result.problems == []
    assert page.run()["page.md"].cached


def test_what_a_killed_build_left_half_written_is_ignored(page):
    path = entry(page)
    path.with_suffix(".part").write_text(path.read_text()[:40])
    path.unlink()
    assert not page.run()["page.md"].cached
    assert page.run()["page.md"].cached


def test_deleting_the_folder_is_safe(page):
    shutil.rmtree(page.root / ".galley" / "pages")
    assert page.run()["page.md"].problems == []


def test_two_builds_at_once_agree(project):
    for n in range(6):
        project.page(f"page{n}.md", PAGE.replace("1 + 1", f"2 + {n} - {n}"))
    results = []
    threads = [threading.Thread(target=lambda: results.append(project.run())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    assert not [p for result in results for page in result.values() for p in page.problems]
    assert all(page.cached for page in project.run().values())


def test_a_failure_is_not_remembered(project):
    for _ in range(2):
        assert not project.run_page("# Page\n\n```python\n1 / 0\n```\n").cached
