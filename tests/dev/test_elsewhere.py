"""Machine profiles change what libraries compute, and the report says which pages do not hold there."""

import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from dev import elsewhere
from dev.profiles import PROFILES, environment

ROUNDS = """
import torch
torch.manual_seed(0)
a, b = torch.randn(2, 64, 66)
print(a.exp().double().sum().item(), (a @ b[:64].T).double().sum().item(), a.sum().item())
"""


def run(pages):
    return {"pages": {name: {"problems": problems, "numbers": numbers} for name, (problems, numbers) in pages.items()}}


def number(label, *values, room=None):
    return {"label": label, "values": list(values), "room": room}


@pytest.mark.skipif(sys.platform != "linux", reason="the profiles are those of Linux")
def test_a_profile_makes_libraries_round_otherwise(tmp_path):
    sums = set()
    for name in ("here", "SSE4.2"):
        variables = environment(PROFILES[name], tmp_path)
        done = subprocess.run([sys.executable, "-c", ROUNDS], env=variables, capture_output=True, text=True, check=True)
        sums.add(done.stdout)
    assert len(sums) == 2


def test_there_is_no_git_in_the_strange_surroundings(tmp_path):
    path = environment(PROFILES["surroundings"], tmp_path)["PATH"]
    assert shutil.which("git", path=path) is None
    assert shutil.which("sh", path=path)


def test_other_pythons_run_on_the_machine_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(elsewhere, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["elsewhere", "--profiles", "here", "SSE4.2"])
    for name in (".venv", ".venv-3.13"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").touch()
    other = str(tmp_path / ".venv-3.13/bin/python")
    runs = [("here", sys.executable), ("SSE4.2", sys.executable), ("3.13", other)]
    assert [(label, python) for label, _, python in elsewhere.wanted(elsewhere.arguments())] == runs


def test_a_python_without_an_environment_is_said_to_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(elsewhere, "ROOT", tmp_path)
    listed = "\n".join(f'  "Programming Language :: Python :: 3.{minor}",' for minor in range(1, 5))
    (tmp_path / "pyproject.toml").write_text(f"[project]\nclassifiers = [\n{listed}\n]\n")
    monkeypatch.setattr(elsewhere, "starts", lambda python: python != "python3.4")
    monkeypatch.setattr(sys, "version_info", SimpleNamespace(major=3, minor=2))
    (tmp_path / ".venv-3.3").mkdir()
    line = "left out: Python 3.1 has no environment; make .venv-3.1/ready makes one"
    assert list(elsewhere.pythons_left_out()) == [line]


def test_the_table_shows_what_fails_and_what_moves():
    here = run({"a.md": ([], [number("1: output", 1.0)]), "b.md": ([], [number("2: x", 5.0)]), "c.md": ([], [])})
    there = run({"a.md": (["a.md:1: no"], []), "b.md": ([], [number("2: x", 5.1)]), "c.md": ([], [])})
    rows = elsewhere.table({"here": here, "there": there})
    assert rows[2:] == ["| a.md |  | 1 |", "| b.md |  | ~ |", "", "1 other pages give the same numbers everywhere."]


def test_ranges_hold_every_value_and_name_what_lies_near_the_edge():
    runs = {n: run({"a.md": ([], [number("1: 0.8 = x", x, room=[(0.75, 0.85)])])}) for n, x in enumerate((0.8, 0.76))}
    measured = elsewhere.ranges(runs)
    assert measured == {"a.md": {"1: 0.8 = x": [[0.76], [0.8], [(0.75, 0.85)]]}}
    assert elsewhere.near_the_edge(measured) == ["a.md:1: 0.8 = x: from 0.76 to 0.8"]
    steady = elsewhere.ranges({0: run({"a.md": ([], [number("1: 0.8 = x", 0.84, room=[(0.75, 0.85)])])})})
    assert elsewhere.near_the_edge(steady) == []
