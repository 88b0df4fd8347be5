"""Every vector of tests/vectors.json is used by a test, or a reason stands here."""

import re

import pytest

from tests.contract.encoding_inputs import ROOT
from tests.vectors import ALL

REASONS: dict[str, str] = {}


@pytest.mark.parametrize("method", sorted({vector["method"] for vector in ALL}))
def test_every_method_is_tested_or_excused(method):
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    used = re.search(rf'^@vectors\("{method}"\)$', tests, re.M)
    assert bool(used) != (method in REASONS), "used and excused" if used else f"no test uses {method}"
