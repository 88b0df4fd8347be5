"""The contract is itself tested: it accepts a toy for each door, and catches faults planted in each.

The doors that the package does not use yet are tried too, so that a first encoding in one needs no new harness.
"""

import inspect
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest

from tests.contract import encoding_inputs, test_contract, test_files
from tests.contract.encoding_inputs import Encoding

TEMPLATES = encoding_inputs.ROOT / "docs/engine/dev/templates"
KEYS = ("add/row", "rotate/turn", "bias/slope", "score/nearby")
CONTRACT = {
    name: test
    for module in (test_contract, test_files)
    for name, test in vars(module).items()
    if name.startswith("test_") and "encoding" in inspect.signature(test).parameters
}


def own_tests(key: str) -> ModuleType:
    """Import the tests of a toy, which look for it where `make new-encoding` writes a copy of it."""
    door, name = key.split("/")
    with patch.dict(sys.modules, {f"posenc.{door}.{name}": encoding_inputs.load(TEMPLATES / f"{key}.py", name)}):
        return encoding_inputs.load(TEMPLATES / door / f"test_{name}.py", f"test_{name}")


OWN = {key: own_tests(key) for key in KEYS}
over_toys = pytest.mark.parametrize("key", OWN)


def toy(key: str, path: Path | None = None) -> Encoding:
    return Encoding(key, encoding_inputs.load(path or TEMPLATES / f"{key}.py", key.partition("/")[2]), OWN[key])


def run(test, encoding: Encoding) -> None:
    """Run one contract test on every variant of `encoding`, with every value of its other parameters."""
    parametrized = [mark.args for mark in test.pytestmark if mark.name == "parametrize"]
    marks = [arguments for arguments in parametrized if arguments[0] != "encoding"]
    for variant, *values in itertools.product(encoding.variants(), *(choices for _, choices in marks)):
        try:
            test(variant, **dict(zip([name for name, _ in marks], values, strict=True)))
        except pytest.skip.Exception:
            continue


@over_toys
@pytest.mark.parametrize("name", CONTRACT)
def test_a_healthy_encoding_passes(key, name):
    run(CONTRACT[name], toy(key))


@over_toys
def test_the_own_tests_of_a_toy_pass(key):
    tests = [test for name, test in vars(OWN[key]).items() if name.startswith("test_")]
    assert len(tests) >= 2
    for test in tests:
        test()


def test_the_toys_can_be_copied(tmp_path):
    assert test_files.copied_alone([toy(key) for key in OWN], tmp_path) == list(OWN)


def faults() -> dict[str, tuple[str, str, list[tuple[str, str]]]]:
    """Read the faults to plant: by title the toy, the contract test that must fail, and the replacements."""
    faults = {}
    for fault in re.split(r"^--- ", (TEMPLATES / "faults.diff").read_text(), flags=re.M)[1:]:
        title, _, body = fault.partition("\n")
        changes = re.findall(r"^-(.*(?:\n-.*)*)\n\+(.*(?:\n\+.*)*)$", body, re.M)
        changes = [(old.replace("\n-", "\n"), new.replace("\n+", "\n")) for old, new in changes]
        faults[title] = title.split()[0], title.rpartition(": ")[2], changes
    return faults


@pytest.mark.parametrize("title", faults())
def test_a_planted_fault_is_caught(tmp_path, title):
    key, test, changes = faults()[title]
    source = (TEMPLATES / f"{key}.py").read_text()
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    path = tmp_path / f"{key}.py"
    path.parent.mkdir()
    path.write_text(source)
    faulty = toy(key, path)
    with pytest.raises((Exception, pytest.fail.Exception)):
        run(CONTRACT[f"test_{test}"], faulty)
