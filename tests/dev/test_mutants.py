"""Mutants of the doors' files: what is changed and what is not, which are drawn, and that the tests catch them."""

import subprocess
import sys
from collections import Counter

import pytest

from dev import mutants
from dev.mutants import COUNT, EQUIVALENT, ROOT, draw, read

TOY = '''"""A head with 3 - 2 things."""

import numpy as np


def toy(x: "int | None", order="up", scale=1.0, places: int = -2):
    """Return `x`.

    Examples:
        >>> toy(1) - 1
    """
    width: int = x.shape[-1]
    if x.ndim < 2 or not scale:
        raise ValueError(f"toy: x must be {2 + 1}, got " + str(x.ndim - 1))
    y = np.asarray(x, np.float64)[..., :width]  # é - 1
    z = (y + 0.5) * (  # a * b
        y  # c - d
        ** -y.double()
    )
    return y if order in ("up", "down") else z.sum(axis=0), f"{width - 1}"
'''
CHANGES = """
def toy(x: "int | None", order={"up" -> "down"}, scale=1.0, places: int = -2):
def toy(x: "int | None", order="up", scale={1.0 -> 2.0}, places: int = -2):
def toy(x: "int | None", order="up", scale={1.0 -> 0.5}, places: int = -2):
def toy(x: "int | None", order="up", scale=1.0, places: int = {-2 -> -1}):
def toy(x: "int | None", order="up", scale=1.0, places: int = {-2 -> -3}):
width: int = x.shape[{-1 -> 0}]
width: int = x.shape[{-1 -> -2}]
if x.ndim < 2 {or -> and} not scale:
if x.ndim {< -> <=} 2 or not scale:
if x.ndim < {2 -> 3} or not scale:
if x.ndim < {2 -> 1} or not scale:
if x.ndim < 2 or {not -> }scale:
y = np.asarray(x, np.{float64 -> float32})[..., :width]  # é - 1
y = np.asarray(x, np.float64)[..., {:width -> width:}]  # é - 1
z = (y + 0.5) {* -> /} (  # a * b
z = (y {+ -> -} 0.5) * (  # a * b
z = (y + {0.5 -> 1.5}) * (  # a * b
z = (y + {0.5 -> 0.25}) * (  # a * b
{** -> *} -y.double()
** {- -> }y.double()
** -y.{double -> float}()
return y if order {in -> not in} ("up", "down") else z.sum(axis=0), f"{width - 1}"
return y if order in ("up", "down") else z.sum(axis={0 -> 1}), f"{width - 1}"
return y if order in ("up", "down") else z.sum(axis={0 -> -1}), f"{width - 1}"
"""


@pytest.fixture(scope="module")
def texts():
    return read(ROOT, [])


@pytest.fixture(scope="module")
def all_texts(texts):
    return texts | read(ROOT, [mutants.DOCTOR])


@pytest.fixture(scope="module")
def drawn(texts):
    return draw(texts, COUNT)


def test_code_is_changed_and_words_and_types_are_not():
    drawn = mutants.mutants("add/toy", TOY)
    assert [mutant.change for mutant in drawn] == CHANGES.split("\n")[1:-1]
    assert [mutant.change for mutant in mutants.mutants("add/toy", TOY.rstrip())] == CHANGES.split("\n")[1:-1]
    for mutant in drawn:
        before, after = TOY.split("\n"), mutant.text.split("\n")
        assert [n for n, line in enumerate(before, 1) if line != after[n - 1]] == [mutant.line]


def test_as_many_are_drawn_from_each_file_and_of_each_kind(texts, drawn):
    assert len({mutant.text for mutant in drawn}) == len(drawn) == COUNT
    by_file = Counter(mutant.file for mutant in drawn)
    assert by_file.keys() == texts.keys()
    assert max(by_file.values()) - min(by_file.values()) <= 1
    by_kind = Counter(mutant.kind for mutant in drawn)
    assert min(by_kind.values()) > COUNT / len(by_kind) / 4  # slices are few
    assert drawn != draw(texts, COUNT, seed=1)


def test_a_file_that_changes_leaves_the_draw_of_the_others(texts, drawn):
    file, *others = texts
    again = draw(texts | {file: texts[file] + "\nMORE = 1 + 1\n"}, COUNT)
    assert [mutant for mutant in again if mutant.file in others] == [
        mutant for mutant in drawn if mutant.file in others
    ]


@pytest.mark.parametrize(("file", "change"), EQUIVALENT, ids=str)
def test_what_is_called_equivalent_is_still_there(file, change, all_texts):
    """Take it out of EQUIVALENT, or write there what the line is now."""
    text = all_texts[file]
    changes = {mutant.change for mutant in mutants.mutants(file, text)}
    assert change in changes, f"posenc/{file}.py has no mutant {change}"
    assert EQUIVALENT[file, change]
    assert (file, change) not in {(mutant.file, mutant.change) for mutant in draw({file: text}, sys.maxsize)}


@pytest.mark.parametrize(
    ("change", "free"),
    [
        ("x = zeros({64 -> 63})", True),
        ("x = zeros({1_024 -> 1025})", True),
        ("x = zeros({2 -> 3}, 64)", False),
        ("x = random({2 -> 3}, 64)", True),
        ("x = random(2, 64, seed={1 -> 2})", True),
        ("off = far(y, x) < {1e-4 -> 5e-05}", True),
        ("off = far(y, x) < {1e-4 -> 1.0001}", False),
        ("y = x * dim**{-0.5 -> -0.25}", False),
        ("bases = ({40_000.0 -> 40001.0}, 500.0)", True),
        ("bases = ({40_000.0 -> 20000.0}, 500.0)", False),
        ("if off {< -> <=} 10 * SAME:", True),
        ("off = far(y, x) {< -> <=} 1e-4", True),
        ("off = far(y, x) {< -> <=} MARGIN", True),
        ("off = 0.5 {<= -> <} far(y, x)", True),
        ("off = far(y, x) {< -> <=} far(z, x)", False),
        ("if len(x) {> -> >=} 2:", False),
        ("y = x.{double -> float}()", True),
        ("y = torch.{float32 -> float16}", False),
    ],
)
def test_what_the_doctor_may_choose_is_no_mutant_of_it(change, free):
    assert mutants.free(change) is free


# A project of one file, and tests of which one fails without a mutant

PACKAGE = """
from importlib import import_module
from types import SimpleNamespace
def encodings():
    return {"add/toy": SimpleNamespace(module=import_module("posenc.add.toy"))}
"""
TOY_TO_RUN = "def toy(x):\n    while x > 3:\n        x = x - 1\n    y = x * 1\n    return y + 5\n"
CONTRACT = """
import posenc, pytest
@pytest.mark.parametrize("key", posenc.encodings())
def test_of_no_file(key):
    raise AssertionError
"""
OWN = """
from posenc.add.toy import toy
def test_right():
    assert toy(5) == 8
def test_fails_anyway():
    assert toy(1) == 1
def test_compiles_slowly():
    assert toy(4) == 8
"""


def run_on_a_toy(folder, own_tests):
    files = {"posenc/__init__.py": PACKAGE, "posenc/add/toy.py": TOY_TO_RUN, "posenc/add/_no.py": "A = 1 + 1\n"}
    files |= {
        "tests/contract/test_contract.py": CONTRACT,
        "tests/contract/test_files.py": "",
        "tests/add/test_toy.py": own_tests,
    }
    for name, text in (files | {"pyproject.toml": "[tool.pytest.ini_options]\nmarkers = ['slow', 'full']\n"}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    run = "import pathlib, sys; from dev import mutants; mutants.WARM, mutants.LIMIT = ('hypothesis', 'pytest'), 1;"
    run += "sys.exit(mutants.main(['--all'], pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", run, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_tests_of_a_file_run_on_its_mutants(tmp_path):
    done = run_on_a_toy(tmp_path, OWN)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.split("\n")
    left_out = "left out are such as tests/add/test_toy.py::test_fails_anyway"
    assert lines[0] == f"add/toy: 1 tests fail without a mutant; {left_out}"
    assert lines[3:5] == ["| add/toy | 12 | 11 |", "| **all** | 12 | 11 (91.7%) |"]
    assert lines[6] == "- survives: posenc/add/toy.py:4: operator: `y = x {* -> /} 1`"
    endless = [line.split("`")[1] for line in lines if line.startswith("- its tests do not end")]
    assert sorted(endless) == ["x = x - {1 -> 0}", "x = x {- -> +} 1"]
    assert (tmp_path / "posenc/add/toy.py").read_text() == TOY_TO_RUN


def test_tests_that_cannot_be_imported_catch_nothing(tmp_path):
    done = run_on_a_toy(tmp_path, "import no_such_module\n" + OWN)
    assert "tests/add/test_toy.py cannot be imported" in done.stdout
    assert done.stderr == "mutants: no test passes of add/toy\n"


@pytest.mark.slow
def test_at_least_97_of_100_mutants_are_caught():
    """Write the test that a mutant in the list calls for; if none can tell it apart, say so in EQUIVALENT."""
    done = subprocess.run([sys.executable, "-m", "dev.mutants"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
