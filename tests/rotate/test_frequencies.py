"""Frequencies: each kind by hand, ramps against mpmath, other libraries; more of them in models/test_from_config."""

import inspect
import math
import re

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.frequencies import (
    by_parts,
    dynamic_ntk,
    linear,
    llama3,
    longrope,
    ntk,
    proportional,
    rope_frequencies,
    softmax_scale,
    yarn,
)
from tests.peers import peer
from tests.vectors import assert_agrees, vectors


def exercise(module):
    module.yarn(8, 4.0, 64)
    module.longrope(8, [1.0] * 4, [2.0] * 4, 10, 64, 4.0)
    module.llama3(8)
    module.llama3(8, high_freq_factor=1.0)
    module.proportional(8, 0.5)


def slowed(theta, base=10_000.0):
    """Return by what each of these frequencies differs from RoPE's: g in the head of the file."""
    return theta / rope_frequencies(2 * len(theta), base)[0]


# Values worked by hand


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (rope_frequencies, (2,), [1]),
        (rope_frequencies, (4,), [1, 0.01]),
        (rope_frequencies, (4, 1.44), [1, 1 / 1.2]),
        (linear, (4, 8), [1 / 8, 0.01 / 8]),
        # the base grows by 3^(4/2) = 9, so the second pair, base^(-1/2), falls to a third
        (ntk, (4, 3.0), [1, 0.01 / 3]),
        # up to the trained length as RoPE; at twice that length 1 + 2 (2 - 1) = 3, as above
        (dynamic_ntk, (4, 2.0, 99, 100), [1, 0.01]),
        (dynamic_ntk, (4, 2.0, 200, 100), [1, 0.01 / 3]),
    ],
)
def test_one_or_two_pairs_by_hand(function, arguments, expected):
    theta, attention_factor = function(*arguments)
    np.testing.assert_allclose(theta, expected, rtol=1e-15)
    assert attention_factor == 1


def test_the_base_of_ntk_for_a_context_8_times_as_long():
    # the well-known 82,684.6 at head width 128
    np.testing.assert_allclose(ntk(128, 8.0)[0], rope_frequencies(128, 82_684.6)[0], rtol=1e-5)


def test_the_ramp_of_yarn_for_llama_2():
    # within 4,096 positions pair 20.94 turns 32 times and pair 45.03 once: the ramp goes from 20 to 46
    g = slowed(yarn(128, 16.0, 4096)[0])
    np.testing.assert_allclose(g[:21], 1, rtol=1e-15)
    np.testing.assert_allclose(g[46:], 1 / 16, rtol=1e-14)
    np.testing.assert_allclose(g[33], 0.5 + 0.5 / 16, rtol=1e-14)
    exact_ends = slowed(yarn(128, 16.0, 4096, truncate=False)[0])
    np.testing.assert_allclose(exact_ends[[20, 21]], [1, 1 - 0.06 / 24.09 * 15 / 16], rtol=1e-3)


def test_the_ramp_of_yarn_starts_at_pair_0_where_no_pair_turns_so_often():
    # within 64 positions the first pair turns 10 times, and pair 2.02 once
    expected = 1 - np.array([0, 1, 2, 3, 3, 3, 3, 3]) / 3 * 7 / 8
    np.testing.assert_allclose(slowed(yarn(16, 8.0, 64)[0]), expected, rtol=1e-14)


def test_the_ramp_of_yarn_ends_at_d_minus_1_where_all_pairs_turn_more_often():
    # of base 10, within 600 positions, pair 3.80 turns 32 times and pair 15.84 once: the ramp goes from 3 to 15, not 16
    expected = 1 - np.array([0, 0, 0, 0, 1, 2, 3, 4]) / 12 * 3 / 4
    np.testing.assert_allclose(slowed(yarn(16, 4.0, 600, base=10)[0], base=10), expected, rtol=1e-14)


@pytest.mark.parametrize("truncate", [True, False])
def test_the_ramp_of_yarn_is_a_step_where_its_ends_are_one(truncate):
    # within 64 positions pair 1.41 turns twice: pair 1 is kept, pair 2 is not
    theta, _ = by_parts(16, 8.0, 64, beta_fast=2, beta_slow=2, truncate=truncate)
    np.testing.assert_allclose(slowed(theta), [1.0] * 2 + [1 / 8] * 6, rtol=1e-14)


def test_llama_3_keeps_29_pairs_blends_6_and_divides_29():
    g = slowed(llama3(128)[0], base=500_000.0)
    assert [(g == 1).sum(), ((g < 1) & (g > 0.125)).sum(), np.isclose(g, 0.125).sum()] == [29, 6, 29]


def test_the_ramp_of_the_paper_is_that_of_llama3_and_not_that_of_its_code():
    # YaRN's sec. 3.2 blends by turns, from alpha = 1 to beta = 32: that is llama3 with these ends
    theta, _ = rope_frequencies(128)
    turns = 4096 * theta / (2 * np.pi)
    gamma = ((turns - 1) / (32 - 1)).clip(0, 1)
    paper = (1 - gamma) * theta / 16 + gamma * theta
    np.testing.assert_allclose(llama3(128, 16.0, 1.0, 32.0, 4096, 10_000.0)[0], paper, rtol=1e-14)
    assert np.abs(by_parts(128, 16.0, 4096)[0] / paper - 1).max() > 0.3


def test_proportional_pairs_keep_the_exponents_of_the_whole_head():
    # a quarter of 4 pairs: the first
    np.testing.assert_array_equal(proportional(8, 0.25)[0], [1, 0, 0, 0])
    # half of 4 pairs: 1 and 1/10, where a partial rotation of 4 of 8 channels has 1 and 1/100
    np.testing.assert_allclose(proportional(8, 0.5, factor=2.0)[0], [1 / 2, 0.1 / 2, 0, 0], rtol=1e-15)
    # 0.45 of 4 pairs: 1.8 of them, of which one turns
    np.testing.assert_array_equal(proportional(8, 0.45)[0], [1, 0, 0, 0])
    np.testing.assert_array_equal(proportional(8, 1.0)[0], rope_frequencies(8)[0])


@pytest.mark.parametrize(("length", "expected"), [(64, [1, 0.01 / 2]), (64.5, [1 / 3, 0.01 / 4])])
def test_longrope_divides_by_its_long_factors_past_the_original_length(length, expected):
    theta, attention_factor = longrope(4, [1, 2], [3, 4], length, 64, 8.0)
    np.testing.assert_allclose(theta, expected, rtol=1e-15)
    assert attention_factor == pytest.approx(math.sqrt(1 + 1 / 2), rel=1e-15)  # 8 = 2^3, 64 = 2^6


# Attention factors, by hand


@pytest.mark.parametrize(
    ("factor", "expected"), [(16, 1.2773), (64, 1.4159), (128, 1.4852), (32, 1.3466), (1, 1.0), (0.5, 1.0)]
)
def test_the_attention_factor_of_yarn(factor, expected):
    assert yarn(64, factor, 4096)[1] == pytest.approx(expected, abs=5e-5)


def test_the_attention_factor_of_longrope_for_phi_3():
    ones = np.ones(4)
    assert longrope(8, ones, ones, 1, 4096, 32.0)[1] == pytest.approx(math.sqrt(1 + 5 / 12))  # 32 = 2^5, 4096 = 2^12
    assert longrope(8, ones, ones, 1, 4096, 0.5)[1] == 1


def test_the_softmax_scale_of_deepseek_v3():
    assert softmax_scale(192, 40.0) == pytest.approx((0.1 * math.log(40) + 1) ** 2 / math.sqrt(192), rel=1e-15)
    assert softmax_scale(192, 40.0, 0.7) == pytest.approx((0.07 * math.log(40) + 1) ** 2 / math.sqrt(192), rel=1e-15)
    assert softmax_scale(64, 0.5) == 1 / 8


def test_the_softmax_scale_is_what_yarn_leaves_out_of_the_attention_factor():
    _, usual = yarn(64, 40.0, 4096)
    _, of_deepseek = yarn(64, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert of_deepseek == 1
    assert softmax_scale(64, 40.0) == pytest.approx(usual**2 / 8, rel=1e-14)


def test_two_mscales_divide_one_factor_by_the_other():
    # ln s = 10: (0.1 0.5 10 + 1) / (0.1 2 10 + 1)
    _, attention_factor = yarn(64, math.exp(10), 4096, mscale=0.5, mscale_all_dim=2.0)
    assert attention_factor == pytest.approx(1.5 / 3, rel=1e-14)


@pytest.mark.parametrize("mscales", [{"mscale": 0.5}, {"mscale_all_dim": 0.5}, {"mscale": 1.0, "mscale_all_dim": 0}])
def test_one_of_the_two_mscales_alone_is_ignored(mscales):
    assert yarn(64, 40.0, 4096, **mscales)[1] == yarn(64, 40.0, 4096)[1]


# Ramps against their definition, with 60 digits


def oracle(dim, base, g):
    """Work out g_i base^(-2i/d) with 60 digits."""
    with mpmath.workdps(60):
        return np.array([float(g(i) * mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim)) for i in range(dim // 2)])


def blend(ramp, factor):
    """Return the g that keeps where the ramp is 0 and divides by the factor where it is 1."""
    return 1 - min(max(ramp, 0), 1) * (1 - 1 / mpmath.mpf(factor))


def assert_exact(result, expected, expected_factor=1.0):
    theta, attention_factor = result
    assert theta.dtype == np.float64
    np.testing.assert_allclose(theta, expected, rtol=1e-13, atol=0)
    assert isinstance(attention_factor, float)
    assert attention_factor == pytest.approx(float(expected_factor), rel=1e-14)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("dim", "factor", "length", "base"), [(64, 32, 4096, 150_000), (128, 4, 32_768, 1e6), (16, 4, 10_000, 100)]
)
def test_yarn_and_by_parts_equal_their_definition(dim, factor, length, base, truncate):
    with mpmath.workdps(60):
        low, high = (
            dim * mpmath.log(length / (2 * mpmath.pi * beta)) / (2 * mpmath.log(mpmath.mpf(base))) for beta in (32, 1)
        )
        if truncate:
            low, high = mpmath.floor(low), mpmath.ceil(high)
        expected = oracle(dim, base, lambda i: blend((i - low) / (high - low), factor))
        usual = mpmath.log(factor) / 10 + 1
    assert_exact(yarn(dim, factor, length, base, truncate=truncate), expected, usual)
    assert_exact(by_parts(dim, factor, length, base, truncate=truncate), expected)


@pytest.mark.parametrize("high", [1.0, 4.0])
def test_llama3_equals_its_definition(high):
    def g(i):
        turns = 8192 * mpmath.mpf(500_000) ** (-mpmath.mpf(2 * i) / 128) / (2 * mpmath.pi)
        return blend((high - turns) / (high - 1) if high > 1 else int(turns < 1), 8)

    assert_exact(llama3(128, high_freq_factor=high), oracle(128, 500_000, g))


# The numbers of other libraries


@vectors("deepseek_softmax_scale")
def test_the_softmax_scale_is_that_of_transformers(vector):
    parameters = vector["params"]
    result = softmax_scale(parameters["qk_head_dim"], parameters["factor"], parameters["mscale_all_dim"])
    assert_agrees(vector, result, vector["expected"]["scaling"])


@pytest.mark.parametrize(("factor", "mscale_all_dim"), [(40.0, 0.707), (40.0, 1.0), (1.0, 0.0), (40.0, 0.0)])
def test_the_softmax_scale_equals_that_of_transformers_deepseek(factor, mscale_all_dim):
    deepseek = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    rope = {"rope_type": "yarn", "factor": factor, "mscale_all_dim": mscale_all_dim}
    expected = deepseek.yarn_apply_mscale(rope, 192**-0.5)
    assert softmax_scale(192, factor, mscale_all_dim) == pytest.approx(expected, rel=1e-14)


def test_ntk_equals_the_rescaled_theta_of_rotary_embedding_torch():
    library = peer("rotary_embedding_torch")
    expected = library.RotaryEmbedding(64, theta_rescale_factor=8.0).freqs.detach().numpy()
    np.testing.assert_allclose(ntk(64, 8.0)[0], expected, rtol=2e-6)


# What holds of every setting


@given(
    dim=st.integers(2, 64).map(lambda pairs: 2 * pairs),
    base=st.sampled_from([100.0, 10_000.0, 500_000.0, 1e7]),
    length=st.integers(256, 131_072),
    factor=st.floats(1, 128),
)
@settings(deadline=None, derandomize=True, database=None, max_examples=50)
def test_frequencies_fall_from_pair_to_pair_and_stay_between_kept_and_divided(dim, base, length, factor):
    theta, _ = rope_frequencies(dim, base)
    for result, _ in (
        linear(dim, factor, base),
        ntk(dim, factor, base),
        by_parts(dim, factor, length, base),
        by_parts(dim, factor, length, base, truncate=False),
        llama3(dim, factor, original_length=length, base=base),
    ):
        assert (np.diff(result) < 0).all()
        assert (result <= theta * (1 + 1e-14)).all()
        assert (result >= theta / factor * (1 - 1e-14)).all()


# What is refused

CALLS = {
    rope_frequencies: (),
    linear: (2.0,),
    ntk: (2.0,),
    dynamic_ntk: (2.0, 10, 5),
    by_parts: (2.0, 64),
    yarn: (2.0, 64),
    longrope: (np.ones(4), np.ones(4), 1, 64, 2.0),
    llama3: (),
    proportional: (0.5,),
}


@pytest.mark.parametrize("function", CALLS)
def test_a_width_that_is_not_even_and_a_base_that_is_none_are_refused(function):
    for dim in (-2, 0, 1, 7):
        with pytest.raises(ValueError, match=f"frequencies: dim must be even and at least 2, got {dim}"):
            function(dim, *CALLS[function])
    for base in (0, -1e4, math.nan, math.inf):
        with pytest.raises(ValueError, match="frequencies: base must be finite and above 1, got"):
            function(8, *CALLS[function], base=base)


@pytest.mark.parametrize("base", [1, 0.5])
def test_a_base_that_does_not_slow_the_pairs_down_is_refused(base):
    with pytest.raises(ValueError, match=f"frequencies: base must be finite and above 1, got {base}"):
        rope_frequencies(8, base)


@pytest.mark.parametrize("function", [ntk, dynamic_ntk])
def test_ntk_has_no_single_pair(function):
    with pytest.raises(ZeroDivisionError):
        function(2, *CALLS[function])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: yarn(8, 2.0, 64, beta_fast=1, beta_slow=32), "beta_fast must be at least 32, got 1"),
        (lambda: by_parts(8, 2.0, 64, beta_fast=1, beta_slow=32), "beta_fast must be at least 32, got 1"),
        (lambda: llama3(8, low_freq_factor=4, high_freq_factor=1), "high_freq_factor must be at least 4, got 1"),
    ],
    ids=["yarn", "by_parts", "llama3"],
)
def test_ends_in_the_wrong_order_are_refused(call, message):
    with pytest.raises(ValueError, match=f"frequencies: {message}"):
        call()


@pytest.mark.parametrize(("factors", "shape"), [(2.0, "()"), ([2.0], "(1,)"), ([1.0] * 3, "(3,)")], ids=str)
def test_factors_that_do_not_fit_are_refused(factors, shape):
    message = f"frequencies: short_factor and long_factor must have shape (4,), got {shape}"
    for short_factor, long_factor, length in ((factors, np.ones(4), 64), (np.ones(4), factors, 65)):
        with pytest.raises(ValueError, match=re.escape(message)):
            longrope(8, short_factor, long_factor, length, 64, 2.0)


@pytest.mark.parametrize("fraction", [1.5, 25, -0.5, 0, math.nan])
def test_a_fraction_is_a_share(fraction):
    with pytest.raises(ValueError, match=f"frequencies: fraction must be above 0 and at most 1, got {fraction}"):
        proportional(8, fraction)


def test_the_base_is_10_000_by_default_and_that_of_llama_3_in_llama3():
    defaults = {function: inspect.signature(function).parameters["base"].default for function in CALLS}
    assert defaults.pop(llama3) == 500_000.0
    assert set(defaults.values()) == {10_000.0}
