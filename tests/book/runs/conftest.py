"""What tests of runs share: a folder for the toy study, and an engine without processes."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posenc_book.runs import command, engines, run
from tests.book.runs import toy

ROOT = Path(__file__).parents[3]
TOY = toy.__name__


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder in which a test runs the toy study, as the current one."""
    monkeypatch.setenv("TOY_FOLDER", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def at_once(monkeypatch):
    """Measure in this process, one cell after the other, where a test is not about processes."""
    monkeypatch.setattr(command, "in_processes", lambda tasks, workers: (engines.measured(*task) for task in tasks))


def run_toy(*only, **options):
    return run(TOY, only=only or None, **options)


def data(folder, name="toy.json"):
    return json.loads((folder / name).read_text())


def cells_in_rows(folder):
    lines = (folder / ".cache/posenc-runs/toy.jsonl").read_text().splitlines()
    return sorted(str(engines.Row.from_line(line).cell) for line in map(str.encode, lines))


@contextlib.contextmanager
def started(folder, *arguments):
    """Start the command on the toy study, as from a shell in `folder`, and see that it has ended in the end."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "docs/book")))
    command_line = [sys.executable, "-m", "posenc_book", "run", TOY, *arguments]
    environment = os.environ | {"PYTHONPATH": paths, "TOY_FOLDER": str(folder)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command_line, cwd=folder, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()
