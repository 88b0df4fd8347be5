"""The tests of one session run a page once, however many processes they share, and whether it fails or not."""

import os
import re
import subprocess
import sys

TOKEN = "# Page\n\n```python\nimport os\n\n{}(os.urandom(8).hex())\n```\n"
ASKS = """\
from galley.pytest_plugin import results


def test_page(pytestconfig, worker_id):
    with open(f"seen-{worker_id}.txt", "w") as file:
        for result in results(pytestconfig, ["docs/good.md", "docs/bad.md"]).values():
            print(result.steps[0], file=file)
"""


def test_no_page_is_run_twice_in_a_session(project):
    project.page("good.md", TOKEN.format("print"))
    project.page("bad.md", TOKEN.format("raise ValueError"))
    (project.root / "tests").mkdir()
    (project.root / "tests/test_ask.py").write_text(ASKS)
    command = [sys.executable, "-m", "pytest", "-p", "galley.pytest_plugin", "-p", "no:cacheprovider", "-n", "2"]
    command += ["--dist", "each", "--no-page-cache", "tests", "docs"]
    done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
    said = [done.stdout, *(path.read_text() for path in project.root.glob("seen-*.txt"))]
    assert len(said) == 3, done.stdout + done.stderr
    tokens = [set(re.findall(r"\b[0-9a-f]{16}\b", text)) for text in said]
    assert [len(found) for found in tokens] == [2] * 3
    assert len(set.union(*tokens)) == 2


def test_one_page_asked_for_is_one_page_run(project):
    project.page("one.md", TOKEN.format("raise ValueError"))
    project.page("two.md", TOKEN.format("raise ValueError"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "galley.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "docs",
        "-k",
        "one",
    ]
    subprocess.run(command, cwd=project.root, capture_output=True, check=False)
    assert "docs/one.md" in (project.root / ".galley/times.json").read_text()
    assert "docs/two.md" not in (project.root / ".galley/times.json").read_text()
    assert not os.path.exists(project.root / ".galley/sessions")
