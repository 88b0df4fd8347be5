"""Frequencies: each kind against mpmath and the numbers of other libraries; more of these in test_from_config.py."""

import inspect
import math

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

exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
dims = st.integers(2, 64).map(lambda half: 2 * half)
factors = st.floats(1, 128)
bases = st.sampled_from([100.0, 10_000.0, 150_000.0, 500_000.0, 1e6, 1e7])
contexts = st.integers(256, 131_072)


def oracle(dim, base, g=lambda i, theta: 1):
    """Work out g_i base^(-2i/d) with 60 digits, where `g` sees the pair and its frequency."""
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]
        return np.array([float(mpmath.mpf(g(i, frequency)) * frequency) for i, frequency in enumerate(theta)])


def blend(ramp, factor):
    """Return the g that keeps where the ramp is 0 and divides by the factor where it is 1."""
    return 1 - min(max(ramp, 0), 1) * (1 - 1 / mpmath.mpf(factor))


def exercise(module):
    module.yarn(8, 4.0, 64)
    module.longrope(8, [1.0] * 4, [2.0] * 4, 10, 64, 4.0)
    module.llama3(8)
    module.llama3(8, high_freq_factor=1.0)
    module.proportional(8, 0.5)


def assert_exact(result, expected, factor=1.0):
    theta, attention_factor = result
    assert theta.dtype == np.float64
    np.testing.assert_allclose(theta, expected, rtol=1e-13, atol=0)
    assert isinstance(attention_factor, float)
    assert attention_factor == pytest.approx(float(factor), rel=1e-14)


# Values worked by hand


def test_frequencies_of_width_4():
    np.testing.assert_allclose(rope_frequencies(4)[0], [1, 0.01], rtol=1e-15)


def test_linear_divides_all():
    np.testing.assert_allclose(linear(4, 8)[0], [1 / 8, 0.01 / 8], rtol=1e-15)


def test_ntk_keeps_the_fastest_and_divides_the_slowest_by_the_factor():
    # at width 4 the base grows by 3^(4/2) = 9, so the second pair, base^(-1/2), falls to a third
    np.testing.assert_allclose(ntk(4, 3.0)[0], [1, 0.01 / 3], rtol=1e-15)


def test_dynamic_ntk_at_twice_the_length():
    # 1 + 2 (2 - 1) = 3: the same as above
    np.testing.assert_allclose(dynamic_ntk(4, 2.0, 200, 100)[0], [1, 0.01 / 3], rtol=1e-15)


def test_the_base_of_ntk_for_a_context_8_times_as_long():
    # the well-known 82,684.6 at head width 128
    np.testing.assert_allclose(ntk(128, 8.0)[0], rope_frequencies(128, 82_684.6)[0], rtol=1e-5)


def test_the_ramp_of_yarn_for_llama_2():
    # within 4,096 positions pair 20.94 turns 32 times and pair 45.03 once: the ramp goes from 20 to 46
    kept = yarn(128, 16.0, 4096)[0] / rope_frequencies(128)[0]
    np.testing.assert_allclose(kept[:21], 1, rtol=1e-15)
    np.testing.assert_allclose(kept[46:], 1 / 16, rtol=1e-14)
    np.testing.assert_allclose(kept[33], 0.5 + 0.5 / 16, rtol=1e-14)
    sharp = yarn(128, 16.0, 4096, truncate=False)[0] / rope_frequencies(128)[0]
    np.testing.assert_allclose(sharp[[20, 21]], [1, 1 - 0.06 / 24.09 * 15 / 16], rtol=1e-3)


def test_the_ramp_of_yarn_starts_at_pair_0_where_no_pair_turns_so_often():
    # within 64 positions the first pair turns 10 times, and pair 2.02 once
    kept = yarn(16, 8.0, 64)[0] / rope_frequencies(16)[0]
    np.testing.assert_allclose(kept, 1 - np.array([0, 1, 2, 3, 3, 3, 3, 3]) / 3 * 7 / 8, rtol=1e-14)


def test_the_ramp_of_yarn_is_a_step_where_its_ends_are_one():
    # within 64 positions pair 1.41 turns twice: pair 1 is kept, pair 2 is not
    for truncate in (True, False):
        kept = by_parts(16, 8.0, 64, beta_fast=2, beta_slow=2, truncate=truncate)[0] / rope_frequencies(16)[0]
        np.testing.assert_allclose(kept, [1.0] * 2 + [1 / 8] * 6, rtol=1e-14)


@pytest.mark.parametrize(("factor", "expected"), [(16, 1.2773), (64, 1.4159), (128, 1.4852), (32, 1.3466), (1, 1.0)])
def test_the_attention_factor_of_yarn(factor, expected):
    assert yarn(64, factor, 4096)[1] == pytest.approx(expected, abs=5e-5)


def test_the_attention_factor_of_longrope_for_phi_3():
    _, attention_factor = longrope(8, np.ones(4), np.ones(4), 1, 4096, 32.0)
    assert attention_factor == pytest.approx(math.sqrt(1 + 5 / 12), rel=1e-15)  # 32 = 2^5, 4096 = 2^12


def test_llama_3_keeps_29_pairs_blends_6_and_divides_29():
    kept = llama3(128)[0] / rope_frequencies(128, 500_000.0)[0]
    assert [(kept == 1).sum(), ((kept < 1) & (kept > 0.125)).sum(), np.isclose(kept, 0.125).sum()] == [29, 6, 29]


def test_proportional_pairs_stay_those_of_the_whole_head():
    # a quarter of 4 pairs: the first; partial rotation of 2 of 8 channels has one pair too, of another exponent at half
    np.testing.assert_array_equal(proportional(8, 0.25)[0], [1, 0, 0, 0])
    np.testing.assert_allclose(proportional(8, 0.5, factor=2.0)[0], [1 / 2, 0.1 / 2, 0, 0], rtol=1e-15)
    np.testing.assert_allclose(rope_frequencies(4)[0], [1, 0.01], rtol=1e-15)


def test_the_softmax_scale_of_deepseek_v3():
    assert softmax_scale(192, 40.0) == pytest.approx((0.1 * math.log(40) + 1) ** 2 / math.sqrt(192), rel=1e-15)


def test_the_softmax_scale_is_what_yarn_leaves_out_of_the_attention_factor():
    _, usual = yarn(64, 40.0, 4096)
    _, of_deepseek = yarn(64, 40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert of_deepseek == 1
    assert softmax_scale(64, 40.0) == pytest.approx(usual**2 / 8, rel=1e-14)


# Each against its definition, with 60 digits


@pytest.mark.parametrize(("dim", "base"), [(2, 1e4), (64, 1e4), (128, 5e5), (96, 1e7), (64, 12_345.678)])
def test_rope_equals_mpmath(dim, base):
    assert_exact(rope_frequencies(dim, base), oracle(dim, base))


@pytest.mark.parametrize("factor", [1, 8, 2.3])
def test_linear_equals_mpmath(factor):
    assert_exact(linear(64, factor, 1e6), oracle(64, 1e6, lambda i, _: 1 / mpmath.mpf(factor)))


@pytest.mark.parametrize("factor", [1, 8, 2.3])
def test_ntk_equals_mpmath(factor):
    with mpmath.workdps(60):
        grown = 10_000 * mpmath.mpf(factor) ** (mpmath.mpf(64) / 62)
    assert_exact(ntk(64, factor), oracle(64, grown))


@pytest.mark.parametrize("length", [1, 4096, 4097, 20_000])
def test_dynamic_ntk_equals_mpmath(length):
    with mpmath.workdps(60):
        factor = mpmath.mpf(2) * max(length, 4096) / 4096 - 1
        grown = 10_000 * factor ** (mpmath.mpf(64) / 62)
    assert_exact(dynamic_ntk(64, 2.0, length, 4096), oracle(64, grown))


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("dim", "factor", "length", "base"), [(64, 32, 4096, 150_000), (128, 4, 32_768, 1e6), (16, 4, 10_000, 100)]
)
def test_yarn_and_by_parts_equal_mpmath(dim, factor, length, base, truncate):
    with mpmath.workdps(60):
        ends = [
            dim * mpmath.log(length / (2 * mpmath.pi * beta)) / (2 * mpmath.log(mpmath.mpf(base))) for beta in (32, 1)
        ]
        low, high = (mpmath.floor(ends[0]), mpmath.ceil(ends[1])) if truncate else ends
        expected = oracle(dim, base, lambda i, _: blend((i - low) / (high - low), factor))
        usual = mpmath.log(factor) / 10 + 1
    assert_exact(yarn(dim, factor, length, base, truncate=truncate), expected, usual)
    assert_exact(by_parts(dim, factor, length, base, truncate=truncate), expected)


@pytest.mark.parametrize(("length", "chosen"), [(4096, "short"), (4097, "long")])
def test_longrope_equals_mpmath(length, chosen):
    searched = {"short": np.linspace(1, 3, 32), "long": np.linspace(1, 60, 32)}
    expected = oracle(64, 1e4, lambda i, _: 1 / mpmath.mpf(searched[chosen][i]))
    usual = mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096))
    assert_exact(longrope(64, searched["short"], searched["long"], length, 4096, 32.0), expected, usual)


@pytest.mark.parametrize("high", [1.0, 4.0])
def test_llama3_equals_mpmath(high):
    def g(_, theta):
        turns = 8192 * theta / (2 * mpmath.pi)
        return blend((high - turns) / (high - 1) if high > 1 else int(turns < 1), 8)

    assert_exact(llama3(128, high_freq_factor=high), oracle(128, 500_000, g))


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.3, 1.0])
def test_proportional_equals_mpmath(fraction):
    expected = oracle(64, 1e6, lambda i, _: mpmath.mpf(1) / 2 if i < int(fraction * 64 // 2) else 0)
    assert_exact(proportional(64, fraction, 2.0, 1e6), expected)


def test_the_softmax_scale_equals_mpmath():
    with mpmath.workdps(60):
        scale = (mpmath.mpf("0.0707") * mpmath.log(40) + 1) ** 2 / mpmath.sqrt(192)
    assert softmax_scale(192, 40.0, 0.707) == pytest.approx(float(scale), rel=1e-14)


# Numbers of other libraries


@vectors("deepseek_softmax_scale")
def test_the_softmax_scale_is_that_of_transformers(vector):
    parameters = vector["params"]
    result = softmax_scale(parameters["qk_head_dim"], parameters["factor"], parameters["mscale_all_dim"])
    assert_agrees(vector, result, vector["expected"]["scaling"])


# Peers


@pytest.mark.parametrize("mscale_all_dim", [0.707, 1.0])
def test_the_softmax_scale_equals_that_of_transformers_deepseek(mscale_all_dim):
    deepseek = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    rope = {"rope_type": "yarn", "factor": 40.0, "mscale_all_dim": mscale_all_dim}
    theirs = deepseek.yarn_apply_mscale(rope, 192**-0.5)
    assert softmax_scale(192, 40.0, mscale_all_dim) == pytest.approx(theirs, rel=1e-14)


@pytest.mark.parametrize("factor", [1.0, 40.0])
def test_an_mscale_all_dim_of_0_changes_no_logit_as_in_transformers(factor):
    deepseek = peer("transformers.models.deepseek_v3.modeling_deepseek_v3")
    rope = {"rope_type": "yarn", "factor": factor, "mscale_all_dim": 0.0}
    assert softmax_scale(192, factor, 0.0) == pytest.approx(deepseek.yarn_apply_mscale(rope, 192**-0.5), rel=1e-15)


def test_ntk_equals_the_rescaled_theta_of_rotary_embedding_torch():
    library = peer("rotary_embedding_torch")
    theirs = library.RotaryEmbedding(64, theta_rescale_factor=8.0).freqs.detach().numpy()
    np.testing.assert_allclose(ntk(64, 8.0)[0], theirs, rtol=2e-6)


# Properties


@given(dim=dims, base=bases, length=contexts)
@exactly
def test_a_factor_of_1_changes_nothing(dim, base, length):
    plain = rope_frequencies(dim, base)
    ones = np.ones(dim // 2)
    for theta, attention_factor in (
        linear(dim, 1, base),
        ntk(dim, 1, base),
        by_parts(dim, 1, length, base),
        yarn(dim, 1, length, base),
        longrope(dim, ones, ones, length, 4096, 1, base=base),
        llama3(dim, 1, base=base),
        proportional(dim, 1.0, base=base),
    ):
        np.testing.assert_allclose(theta, plain[0], rtol=1e-15)
        assert attention_factor == 1


@given(dim=dims, base=bases, length=contexts, factor=factors)
@exactly
def test_each_falls_from_pair_to_pair_and_stays_between_kept_and_divided(dim, base, length, factor):
    plain = rope_frequencies(dim, base)[0]
    for theta, _ in (
        linear(dim, factor, base),
        ntk(dim, factor, base),
        dynamic_ntk(dim, factor, 2 * 4096, 4096, base),
        by_parts(dim, factor, length, base),
        by_parts(dim, factor, length, base, truncate=False),
        llama3(dim, factor, original_length=length, base=base),
    ):
        assert (np.diff(theta) < 0).all()
        assert (theta <= plain * (1 + 1e-14)).all()
    for theta, _ in (by_parts(dim, factor, length, base), llama3(dim, factor, original_length=length, base=base)):
        assert (theta >= plain / factor * (1 - 1e-14)).all()


@given(dim=dims, base=bases, factor=factors)
@exactly
def test_ntk_divides_the_slowest_by_exactly_the_factor(dim, base, factor):
    theta, plain = ntk(dim, factor, base)[0], rope_frequencies(dim, base)[0]
    assert theta[0] == plain[0] == 1
    np.testing.assert_allclose(theta[-1], plain[-1] / factor, rtol=1e-14)


@given(dim=dims, base=bases, factor=factors, length=st.floats(1, 4096))
@exactly
def test_dynamic_ntk_rests_within_the_length_of_training(dim, base, factor, length):
    assert dynamic_ntk(dim, factor, length, 4096, base)[0].tolist() == rope_frequencies(dim, base)[0].tolist()


@given(dim=dims, base=bases, factor=factors)
@exactly
def test_by_parts_keeps_pairs_that_turn_often_and_divides_those_that_do_not_turn(dim, base, factor):
    theta, plain = by_parts(dim, factor, 4096, base)[0], rope_frequencies(dim, base)[0]
    turns = 4096 * plain / (2 * np.pi)
    step = base ** (2 / dim)  # truncation moves the ends by up to a pair
    np.testing.assert_allclose(theta[turns > 32 * step], plain[turns > 32 * step], rtol=1e-14)
    np.testing.assert_allclose(theta[turns < 1 / step], plain[turns < 1 / step] / factor, rtol=1e-13)


@given(factor=factors, low=st.floats(0.5, 8), width=st.floats(0.01, 8))
@exactly
def test_llama3_is_continuous_in_the_frequency(factor, low, width):
    # a context that grows a little changes each frequency a little, also where a pair enters or leaves the ramp
    near, far = (llama3(128, factor, low, low + width, length)[0] for length in (8192, 8192 * (1 + 1e-9)))
    np.testing.assert_allclose(near, far, rtol=1e-4)


def test_llama3_with_equal_ends_steps_and_is_no_0_over_0():
    theta = llama3(128, 16.0, 1.0, 1.0)[0] / rope_frequencies(128, 5e5)[0]
    np.testing.assert_allclose(np.unique(theta), [1 / 16, 1], rtol=1e-15)


def test_the_ramp_of_the_paper_is_that_of_llama3_and_not_that_of_its_code():
    # YaRN's sec. 3.2 blends by turns, from alpha = 1 to beta = 32: that is llama3 with these ends
    plain = rope_frequencies(128)[0]
    turns = 4096 * plain / (2 * np.pi)
    gamma = ((turns - 1) / (32 - 1)).clip(0, 1)
    paper = (1 - gamma) * plain / 16 + gamma * plain
    np.testing.assert_allclose(llama3(128, 16.0, 1.0, 32.0, 4096, 10_000.0)[0], paper, rtol=1e-14)
    assert np.abs(by_parts(128, 16.0, 4096)[0] / paper - 1).max() > 0.3


def test_longrope_switches_past_the_original_length_and_keeps_its_attention_factor():
    results = [longrope(8, np.ones(4), 2 * np.ones(4), length, 64, 4.0) for length in (1, 64, 64.5, 65)]
    assert [theta[0] for theta, _ in results] == [1, 1, 0.5, 0.5]
    assert len({attention_factor for _, attention_factor in results}) == 1


def test_one_of_the_two_mscales_alone_is_ignored():
    usual = yarn(64, 40.0, 4096)[1]
    assert usual == yarn(64, 40.0, 4096, mscale=0.5)[1] == yarn(64, 40.0, 4096, mscale_all_dim=0.5)[1]
    assert usual == yarn(64, 40.0, 4096, mscale=1.0, mscale_all_dim=0)[1]
    assert yarn(64, 40.0, 4096, mscale=0.5, mscale_all_dim=1.0)[1] < 1


def test_a_factor_below_1_leaves_the_logits_alone():
    assert yarn(64, 0.5, 4096)[1] == longrope(8, np.ones(4), np.ones(4), 1, 64, 0.5)[1] == 1
    assert softmax_scale(64, 0.5) == 1 / 8


# What is refused: what would give a wrong result without an error

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
each_function = pytest.mark.parametrize("function", CALLS)


@each_function
@pytest.mark.parametrize("dim", [-2, 0, 1, 7])
def test_a_width_that_is_not_even_is_refused(function, dim):
    with pytest.raises(ValueError, match=f"frequencies: dim must be even and at least 2, got {dim}"):
        function(dim, *CALLS[function])


@each_function
@pytest.mark.parametrize("base", [0, -1e4, math.nan, math.inf])
def test_a_base_that_is_none_is_refused(function, base):
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


def test_ends_in_the_wrong_order_are_refused():
    for function in (yarn, by_parts):
        with pytest.raises(ValueError, match="frequencies: beta_fast must be at least 32, got 1"):
            function(8, 2.0, 64, beta_fast=1, beta_slow=32)
    with pytest.raises(ValueError, match="frequencies: high_freq_factor must be at least 4, got 1"):
        llama3(8, low_freq_factor=4, high_freq_factor=1)


@pytest.mark.parametrize(("value", "got"), [(2.0, r"\(\)"), ([2.0], r"\(1,\)"), ([1.0] * 3, r"\(3,\)")])
def test_factors_that_do_not_fit_are_refused(value, got):
    message = rf"frequencies: short_factor and long_factor must be \(4,\), got {got}"
    for factors, length in (((value, np.ones(4)), 64), ((np.ones(4), value), 65)):
        with pytest.raises(ValueError, match=message):
            longrope(8, *factors, length, 64, 2.0)


@pytest.mark.parametrize("fraction", [1.5, 25, -0.5, 0, math.nan])
def test_a_fraction_is_a_share(fraction):
    with pytest.raises(ValueError, match=f"frequencies: fraction must be above 0 and at most 1, got {fraction}"):
        proportional(8, fraction)


def test_the_defaults_are_those_of_the_papers():
    bases = {f: inspect.signature(f).parameters["base"].default for f in CALLS}
    assert bases.pop(llama3) == 500_000.0
    assert set(bases.values()) == {10_000.0}
    options = inspect.signature(yarn).parameters
    assert [options[name].default for name in ("beta_fast", "beta_slow", "truncate")] == [32.0, 1.0, True]
