"""KERPLE: values worked by hand, ALiBi as one of the powers, kernels, and rates at and beyond their bounds."""

import mpmath
import numpy as np
import pytest
import torch

from posenc.bias.kerple import FLOOR, FORMS, KERPLE, kerple
from tests.bias.alike import (
    assert_a_kernel_can_compute,
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"form": "power"}]
LEARNED = {"r1", "r2"}


def oracle(positions, key_positions, r1, r2, form="log"):
    """Work out the definition with 60 digits, one pair at a time."""
    bias = np.zeros((len(r1), len(positions), len(key_positions)))
    with mpmath.workdps(60):
        for h, t, s in np.ndindex(bias.shape):
            distance = abs(mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s])))
            factor, rate = max(mpmath.mpf(float(r1[h])), FLOOR), max(mpmath.mpf(float(r2[h])), FLOOR)
            fall = mpmath.log(1 + rate * distance) if form == "log" else distance ** min(rate, 2)
            bias[h, t, s] = -factor * fall
    return bias


def exercise(module):
    module.KERPLE(3).score_mod(torch.arange(5))


in_both_forms = pytest.mark.parametrize("form", FORMS)


def with_rates(r1, r2, form):
    encoding = KERPLE(len(r1), form)
    encoding.load_state_dict({"r1": torch.tensor(r1), "r2": torch.tensor(r2)})
    return encoding


# Values worked by hand


def test_the_logarithm_by_hand():
    # -0.3 ln(1 + 1.1 |m - n|) at distances 3, 2, 1, 0, 1
    expected = -0.3 * np.log([4.3, 3.2, 2.1, 1, 2.1])
    np.testing.assert_allclose(kerple([3], range(5), [0.3], [1.1])[0, 0], expected, rtol=1e-14)


def test_the_power_by_hand():
    # distances 4, 1, 0: -0.5 sqrt(d) of one head and -3 d^2 of the other
    bias = kerple([4], [0, 3, 4], [0.5, 3.0], [0.5, 2.0], "power")
    np.testing.assert_allclose(bias[:, 0], [[-1, -0.5, 0], [-48, -3, 0]])


def test_a_power_of_1_is_alibi():
    slopes = np.array([1 / 2, 1 / 4, 1 / 8])
    bias = kerple([9], range(10), slopes, np.ones(3), "power")[:, 0]
    np.testing.assert_array_equal(bias, -slopes[:, None] * np.arange(9, -1, -1))


def test_the_logarithm_makes_a_power_law_of_the_weights():
    bias = kerple([1000], range(1001), [1.5], [1.0])[0, 0]
    np.testing.assert_allclose(np.exp(bias), (1.0 + np.arange(1000, -1, -1)) ** -1.5, rtol=1e-13)


@vectors("kerple_log")
def test_the_logarithm_equals_the_authors_code(vector):
    params, expected = vector["params"], np.array(vector["expected"]["bias_lower_triangle_valid"])
    m = np.arange(expected.shape[-1])
    assert_agrees(vector, np.tril(kerple(m, m, params["p"], params["a"])), expected)
    assert params["clamp_min"] == FLOOR


# Kernels


@in_both_forms
def test_the_bias_is_conditionally_positive_definite(form):
    # c^T B c >= 0 for every c that sums to 0: those are what is left where the mean is taken out of the rows
    bias = kerple(range(30), range(30), [0.7], [1.5], form)[0]
    center = np.eye(30) - 1 / 30
    assert np.linalg.eigvalsh(bias).min() < -1
    assert np.linalg.eigvalsh(center @ bias @ center).min() > -1e-12


@in_both_forms
def test_a_constant_makes_it_positive_definite(form):
    bias = kerple(range(30), range(30), [0.7], [1.5], form)[0]
    assert np.linalg.eigvalsh(bias + 1e4).min() > 0


def test_an_exponent_above_2_makes_no_kernel_and_counts_as_2():
    # c^T B c = 2 (c0 c1 + c1 c2) B(1) + 2 c0 c2 B(2) = -8 B(1) + 2 B(2) = 8 - 2 * 2^r2
    c, distance = np.array([1.0, -2.0, 1.0]), np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    assert c @ -(distance**3.0) @ c == -8
    assert c @ kerple(range(3), range(3), [1.0], [3.0], "power")[0] @ c == 0


# Rates at and beyond their bounds


@in_both_forms
def test_a_rate_beyond_its_bound_counts_as_the_bound(form):
    highest = 2.0 if form == "power" else 7.0
    bias = with_rates([-0.5, 0.0, 5.0, 0.3], [0.2, -3.0, 0.0, 7.0], form)(torch.arange(9)).detach()
    expected = kerple(range(9), range(9), [0.01, 0.01, 5.0, 0.3], [0.2, 0.01, 0.01, highest], form)
    np.testing.assert_allclose(bias, expected, rtol=1e-6)


@in_both_forms
def test_a_rate_beyond_its_bound_is_neither_written_to_nor_stuck(form):
    encoding, at_the_bound = (with_rates([rate], [rate], form) for rate in (-0.5, FLOOR))
    for module in (encoding, at_the_bound):
        module(torch.arange(9)).mean().backward()
    assert encoding.r1.item() == -0.5
    assert encoding.r1.grad.item() < 0  # a larger factor lowers the bias
    torch.testing.assert_close(encoding.r1.grad, at_the_bound.r1.grad)
    torch.testing.assert_close(encoding.r2.grad, at_the_bound.r2.grad)


# The module


@pytest.mark.parametrize(("form", "below1", "below2"), [("log", 2, 1), ("power", 1, 2)])
def test_rates_start_uniform_as_in_the_authors_code(form, below1, below2):
    torch.manual_seed(0)
    encoding = KERPLE(20_000, form)
    for rate, below in ((encoding.r1, below1), (encoding.r2, below2)):
        assert 0 <= rate.min().item() < 0.001 * below
        assert 0.999 * below < rate.max().item() <= below
        assert abs(rate.mean().item() - below / 2) < 0.02 * below


def test_a_kernel_can_compute_the_score_mod():
    assert_a_kernel_can_compute(KERPLE(2).score_mod)


# What is refused, and what one row of positions is for


@in_both_forms
def test_one_row_serves_a_batch(form):
    assert_one_row_serves_a_batch(KERPLE(4, form))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(kerple, r1=[0.5], r2=[1.5])


def test_a_lone_query_needs_keys():
    encoding = KERPLE(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)
