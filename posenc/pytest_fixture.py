"""A pytest fixture that fails with the doctor's report where your rotation or attention is wrong.

pytest_plugins = ["posenc.pytest_fixture"]                    in conftest.py
def test_rotate(doctor): doctor(rotate)                       in a test
"""

from collections.abc import Callable
from typing import Any

import pytest

import posenc


@pytest.fixture(name="doctor")
def _doctor() -> Callable[..., Any]:
    """Return what examines code as posenc.doctor does, and fails the test if it is not healthy."""

    def examine(function: Any, **settings: Any) -> Any:
        report = posenc.diagnose(function, **settings)
        if not report.healthy:
            pytest.fail(str(report), pytrace=False)
        return report

    return examine
