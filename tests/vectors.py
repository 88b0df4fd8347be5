"""Numbers that other libraries made, to test against: tests/vectors.json, each with its source.

A test file takes those of a method with `vectors("t5_bucket")`; tests/test_vectors.py sees to it that none is left out.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ALL = json.loads((Path(__file__).parent / "vectors.json").read_text())["vectors"]


def vectors(method: str):
    """Parametrize a test over the vectors of `method`, as the argument `vector`."""
    found = [vector for vector in ALL if vector["method"] == method]
    return pytest.mark.parametrize("vector", found, ids=lambda vector: vector["id"])


def assert_agrees(vector: dict[str, Any], actual, expected) -> None:
    """Compare whole arrays within the tolerance of the vector."""
    expected = np.array(expected, dtype=np.float64)
    actual = np.asarray(actual, dtype=np.float64)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=vector["rtol"], atol=vector["atol"])
