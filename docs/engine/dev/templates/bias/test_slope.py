"""Slope: values by hand, what a query at a far place sees, and which positions it takes."""

import numpy as np
import torch

from posenc.bias.slope import Slope, slope
from tests.bias.alike import (
    assert_a_kernel_can_compute,
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
)

# What the contract tests need to know: see tests/contract/encoding_inputs.py. This one needs nothing.


def test_values_by_hand():
    bias = slope(np.array([3]), np.array([0, 1, 5]), heads=2)
    np.testing.assert_array_equal(bias, [[[-3, -2, -2]], [[-1.5, -1, -1]]])


def test_only_the_distance_counts():
    bias, near, far = Slope(heads=4), torch.arange(6), torch.arange(6) + 1_000_000
    assert torch.equal(bias(near), bias(far))


def test_one_head_is_enough():
    assert Slope(heads=1)(torch.arange(3)).shape == (1, 3, 3)


def test_a_kernel_can_compute_the_score_mod():
    assert_a_kernel_can_compute(Slope(heads=2).score_mod)


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(Slope(heads=4))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(slope, heads=2)


def test_a_lone_query_needs_keys():
    encoding = Slope(heads=2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)
