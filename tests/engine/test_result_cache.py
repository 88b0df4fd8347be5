"""What a page gave is remembered until something that could change it changes."""

import threading

import pytest

PAGE = "# Page\n\nSome prose.\n\n```python\nfrom pathlib import Path\n\nprint(1 + 1)\n```\n\n```output\n2\n```\n"


@pytest.fixture
def page(project):
    project.page("page.md", PAGE)
    assert not project.run()["page.md"].cached
    return project


def entry(project):
    [path] = (project.root / ".galley" / "pages").glob("*.json")
    return path


def test_an_unchanged_page_is_not_run(page):
    assert page.run()["page.md"].cached


def test_an_edit_of_prose_runs_nothing(page):
    page.page("page.md", PAGE.replace("Some prose.", "Other prose.\n\nAnd more."))
    result = page.run()["page.md"]
    assert result.cached
    assert result.problems == []


def test_an_edit_of_an_output_runs_nothing_and_is_judged(page):
    page.page("page.md", PAGE.replace("output\n2", "output\n3"))
    result = page.run()["page.md"]
    assert result.cached
    assert [p.line for p in result.problems] == [12]


def test_an_edit_of_code_runs_the_page(page):
    page.page("page.md", PAGE.replace("1 + 1", "2 * 1"))
    assert not page.run()["page.md"].cached


def test_an_edit_of_a_bound_expression_runs_the_page(page):
    page.page("page.md", PAGE + "\nSome 12<!-- = 3 * 4 -->.\n")
    assert not page.run()["page.md"].cached


def test_another_version_of_a_library_runs_the_page(page, monkeypatch):
    monkeypatch.setattr("galley.run.result_cache.version", lambda name: "99.0")
    assert not page.run()["page.md"].cached


def test_an_edit_of_the_engine_runs_the_page(page, monkeypatch, tmp_path):
    (tmp_path / "worker.py").write_text("changed")
    monkeypatch.setattr("galley.run.result_cache.RUNNING_CODE", [tmp_path / "worker.py"])
    assert not page.run()["page.md"].cached


@pytest.mark.parametrize(
    "damage", [b"", b"\x00\xff", b'{"half": ', b"0123\n[]"], ids=["empty", "binary", "cut", "forged"]
)
def test_a_damaged_entry_is_run_again(page, damage):
    entry(page).write_bytes(damage)
    assert not page.run()["page.md"].cached
    assert page.run()["page.md"].cached


def test_a_flipped_digit_in_an_entry_is_noticed(page):
    path = entry(page)
    path.write_text(path.read_text().replace('"2\\n"', '"3\\n"'))
    result = page.run()["page.md"]
    assert not result.cached
    assert result.problems == []


def test_what_a_killed_build_left_half_written_is_ignored(page):
    path = entry(page)
    path.with_suffix(".part").write_text(path.read_text()[:40])
    path.unlink()
    assert not page.run()["page.md"].cached
    assert page.run()["page.md"].cached


def test_deleting_the_folder_is_safe(page):
    for path in (page.root / ".galley" / "pages").iterdir():
        path.unlink()
    (page.root / ".galley" / "pages").rmdir()
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
    project.page("page.md", "# Page\n\n```python\n1 / 0\n```\n")
    project.run()
    assert not project.run()["page.md"].cached
