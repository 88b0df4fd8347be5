"""The tests of one session run a page once, however many processes they share, and whether it fails or not."""

import os
import re

TOKEN = "# Page\n\n```python\nimport os\n\n{}(os.urandom(8).hex())\n```\n"
ASKS = """\
from galley.pytest_plugin import results


def test_page(pytestconfig, worker_id):
    with open(f"seen-{worker_id}.txt", "w") as file:
        for result in results(pytestconfig, ["docs/good.md", "docs/bad.md"]).values():
            print(result.steps[0], file=file)
"""
PYTEST = ("pytest", "-p", "galley.pytest_plugin", "-p", "no:cacheprovider")


def test_no_page_is_run_twice_in_a_session(project):
    project.page("good.md", TOKEN.format("print"))
    project.page("bad.md", TOKEN.format("raise ValueError"))
    project.write("tests/test_ask.py", ASKS)
    _, output = project.command(*PYTEST, "-n", "2", "--dist", "each", "--no-page-cache", "tests", "docs")
    reports = [output, *(path.read_text() for path in project.root.glob("seen-*.txt"))]
    assert len(reports) == 3, output
    tokens = [set(re.findall(r"\b[0-9a-f]{16}\b", report)) for report in reports]
    assert [len(of_report) for of_report in tokens] == [2] * 3
    assert len(set.union(*tokens)) == 2


def test_one_page_asked_for_is_one_page_run(project):
    project.page("one.md", TOKEN.format("raise ValueError"))
    project.page("two.md", TOKEN.format("raise ValueError"))
    project.command(*PYTEST, "docs", "-k", "one")
    times = (project.root / ".galley/times.json").read_text()
    assert "docs/one.md" in times
    assert "docs/two.md" not in times
    assert not os.path.exists(project.root / ".galley/sessions")
