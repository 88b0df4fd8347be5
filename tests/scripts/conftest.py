"""What the tests of scripts draw from."""

import numpy as np
import pytest


@pytest.fixture(params=range(8), ids="seed {}".format)
def draw(request):
    """Eight generators of random numbers, one for each run of a test."""
    return np.random.default_rng(request.param)
