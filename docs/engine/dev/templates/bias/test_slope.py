"""Slope: values by hand, and what a query at a far place sees."""

import numpy as np
import torch

from posenc.bias.slope import Slope, slope

# What the contract tests need to know: see tests/contract/encoding_inputs.py. This one needs nothing.


def test_values_by_hand():
    bias = slope(np.array([3]), np.array([0, 1, 5]), heads=2)
    np.testing.assert_array_equal(bias, [[[-3, -2, -2]], [[-1.5, -1, -1]]])


def test_only_the_distance_counts():
    bias, near, far = Slope(heads=4), torch.arange(6), torch.arange(6) + 1_000_000
    assert torch.equal(bias(near), bias(far))
