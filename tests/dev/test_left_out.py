"""The end of a run says what was left out; --rest runs that and nothing else; helpers are no tests."""

import pytest

pytest_plugins = ["pytester"]

FILE = """
import os

import pytest


def test_passes():
    pass


@pytest.mark.parametrize("n", range(3))
def test_needs_a_peer(n):
    if "PEER" not in os.environ:
        pytest.skip("no peer: make peers")


def test_fails():
    assert "PEER" in os.environ


@pytest.mark.full
@pytest.mark.parametrize("n", range(2))
def test_takes_long(n):
    pass


@pytest.mark.slow
def test_takes_very_long():
    pass
"""
MARKS = "[pytest]\naddopts = -m 'not slow'\nmarkers =\n    full: left out by day\n    slow: left out till night\n"


@pytest.fixture
def run(pytester, monkeypatch):
    """Return a function that runs pytest in a project with one file of tests, and returns what it says."""
    tests = pytester.mkdir("tests")
    (tests / "test_it.py").write_text(FILE)
    (tests / "helper.py").write_text("import missing_library\n")
    (pytester.path / "pytest.ini").write_text(MARKS)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return lambda *options: pytester.runpytest_subprocess("-p", "tests.left_out", "--doctest-modules", *options)


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_a_line_says_why_tests_were_left_out(run, processes):
    result = run("-m", "not slow and not full", *processes)
    result.assert_outcomes(passed=1, skipped=3, failed=1, deselected=0 if processes else 3)
    lines = ["no peer: make peers", "marked full: make test-rest", "marked slow: make test-all"]
    result.stdout.fnmatch_lines(
        ["left out:", *(f"  {count} tests: {line}" for count, line in zip((3, 2, 1), lines, strict=True))]
    )


def test_the_rest_is_what_did_not_pass(run, monkeypatch):
    run("-m", "not slow and not full")
    monkeypatch.setenv("PEER", "1")
    run("--rest").assert_outcomes(passed=6, deselected=1)
    run("--rest").assert_outcomes(passed=6, deselected=1)
    run().assert_outcomes(passed=7, deselected=1)
    run("--rest").assert_outcomes(deselected=1)


def test_a_part_adds_to_what_passed(run, monkeypatch):
    run()
    monkeypatch.setenv("PEER", "1")
    run("tests/test_it.py::test_fails").assert_outcomes(passed=1)
    run("--rest").assert_outcomes(passed=3, deselected=1)
    monkeypatch.delenv("PEER")
    run("tests/test_it.py::test_fails").assert_outcomes(failed=1)
    run("--rest").assert_outcomes(skipped=3, failed=1, deselected=1)
