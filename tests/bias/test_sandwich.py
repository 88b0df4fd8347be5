"""Sandwich: values worked by hand, inner products of sinusoids, and the fall with distance."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.add.sinusoidal import kernel
from posenc.bias.sandwich import Sandwich, sandwich
from tests.bias.alike import (
    assert_a_kernel_can_compute,
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"base": 10_000.0}, {"base": 10_000.0, "dim": 128}, {"base": 100.0}]


def oracle(positions, key_positions, heads, dim=128, base=10_000.0):
    """Work out the definition with 60 digits, one pair at a time."""
    bias = np.zeros((heads, len(positions), len(key_positions)))
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * k) / dim) for k in range(1, dim // 2 + 1)]
        for t, s in np.ndindex(bias.shape[1:]):
            offset = mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s]))
            total = mpmath.fsum(mpmath.cos(offset * rate) for rate in theta) - mpmath.mpf(dim) / 2
            for i in range(heads):
                bias[i, t, s] = total * heads / (8 * (i + 1))
    return bias


def exercise(module):
    module.Sandwich(3).score_mod(torch.arange(5))


# Values worked by hand


def test_the_first_head_of_one_frequency_by_hand():
    # d = 2: theta = 1/base; 1 head: 1/8 (cos(offset / base) - 1)
    expected = [[(math.cos(0.3) - 1) / 8, (math.cos(0.2) - 1) / 8, 0]]
    np.testing.assert_allclose(sandwich([3], [0, 1, 3], 1, dim=2, base=10)[0], expected, atol=1e-16)
    np.testing.assert_allclose(sandwich([0.3], [0], 1, dim=2, base=0.5), [[[(math.cos(0.6) - 1) / 8]]], rtol=1e-14)


def test_two_frequencies_by_hand():
    # d = 4: theta = 10^-2 and 10^-4
    expected = (math.cos(0.05) + math.cos(0.0005) - 2) / 8
    np.testing.assert_allclose(sandwich([0], [5], 1, dim=4), [[[expected]]], rtol=1e-12)


def test_the_divisor_grows_with_the_head():
    # 8 i / h: 2, 4, 6, 8 for 4 heads, and 8 for 1
    bias = sandwich([0], [7], 4)[:, 0, 0]
    np.testing.assert_allclose(bias[0] / bias, [1, 2, 3, 4], rtol=1e-15)
    np.testing.assert_allclose(bias[3], sandwich([0], [7], 1)[0, 0, 0], rtol=1e-15)


# Inner products of sinusoids


@pytest.mark.parametrize("dim", [8, 128])
def test_it_is_the_inner_product_of_sinusoids_counted_from_1(dim):
    # the sinusoidal encoding has theta = 1 and lacks theta = 1/base
    distance = np.arange(500)
    product = kernel(distance, dim) - np.cos(distance) + np.cos(distance / 10_000)
    np.testing.assert_allclose(sandwich([0], distance, 8, dim)[0, 0], product - dim / 2, atol=1e-11)


def test_past_and_future_are_alike_and_every_token_is_nearest_to_itself():
    bias = sandwich(range(40), range(40), 1)[0]
    np.testing.assert_array_equal(bias, bias.T)
    assert (bias[np.eye(40, dtype=bool)] == 0).all()
    assert (bias[~np.eye(40, dtype=bool)] < 0).all()


def test_it_falls_about_as_the_logarithm_of_the_distance_until_base():
    # by h/(8i) d/8 for each factor of ten: 16 with h = 8, i = 1, d = 128
    distance = np.arange(10, 5000)
    slope, _ = np.polyfit(np.log10(distance), sandwich([0], distance, 8)[0, 0], 1)
    assert slope == pytest.approx(-16, rel=0.15)


def test_it_has_ripples():
    steps = np.diff(sandwich([0], range(200), 8)[0, 0])
    assert (steps[:5] < 0).all()
    assert steps.max() > 0.1


# The module


def test_a_kernel_can_compute_the_score_mod():
    assert_a_kernel_can_compute(Sandwich(4, dim=8).score_mod)


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(Sandwich(4))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(sandwich, heads=2)


def test_a_lone_query_needs_keys():
    encoding = Sandwich(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)
