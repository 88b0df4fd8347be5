"""A fixture for tests of your own: def test_rope(doctor): doctor(rotate) fails with the report."""

from collections.abc import Callable
from typing import Any

import pytest

import posenc


@pytest.fixture(name="doctor")
def _doctor() -> Callable[..., Any]:
    """Return what examines code as posenc.doctor does, and fails the test if it is not healthy."""

    def examine(function: Any, **settings: Any) -> Any:
        report = posenc.doctor(function, **settings)
        if not report.healthy:
            pytest.fail(str(report), pytrace=False)
        return report

    return examine
