"""FoPE: sums of waves by hand, pairs at rest, scores on average over all places, the start, and what is refused."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.rotate.fope import FoPE, fope
from posenc.rotate.rope import RoPE
from tests.rotate.alike import assert_positions_of_two_sequences_are_refused_for_one

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {"heads": 2, "length": 512},
    {"heads": 1, "length": 100_000},
    {"heads": 2, "length": 64, "base": 100.0, "gain": 1.0},
]
LEARNED = {"cos_coef", "sin_coef"}


def oracle(x, positions, length, base=10_000.0, cos_coef=None, sin_coef=None):
    """Work out the definition with 60 digits, one wave at a time."""
    heads, _, d = x.shape
    y = x.astype(float).copy()
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / d) for i in range(d // 2)]
        theta = [frequency for frequency in theta if frequency >= 2 * mpmath.pi / length]
        one_frequency = np.eye(len(theta))[None]
        cos_coef = one_frequency if cos_coef is None else cos_coef
        sin_coef = one_frequency if sin_coef is None else sin_coef
        for h, (row, p) in itertools.product(range(heads), enumerate(positions.tolist())):
            by_cos, by_sin = cos_coef[h * len(cos_coef) // heads], sin_coef[h * len(sin_coef) // heads]
            waves = [mpmath.expj(p * frequency) for frequency in theta]
            for a in range(len(theta)):
                b = a + d // 2
                cos = float(mpmath.fdot((wave.real for wave in waves), by_cos[:, a].tolist()))
                sin = float(mpmath.fdot((wave.imag for wave in waves), by_sin[:, a].tolist()))
                y[h, row, a] = x[h, row, a] * cos - x[h, row, b] * sin
                y[h, row, b] = x[h, row, b] * cos + x[h, row, a] * sin
    return y


def exercise(module):
    module.fope(np.ones((2, 3, 8)), range(3), 64)


# Sums of waves, by hand


def test_two_sums_of_two_frequencies():
    # width 4, base 100: theta = 1 and 1/10, both kept from a length of 63 on
    cos_coef = [[[1.0, 0.5], [2.0, 3.0]]]
    sin_coef = [[[4.0, -1.0], [0.0, 1.0]]]
    cos = [math.cos(5) + 2 * math.cos(0.5), 0.5 * math.cos(5) + 3 * math.cos(0.5)]
    sin = [4 * math.sin(5), -math.sin(5) + math.sin(0.5)]
    x = np.array([[[1.0, 0.0, 0.0, 1.0]]])
    result = fope(x, [5], 63, base=100, cos_coef=cos_coef, sin_coef=sin_coef)
    np.testing.assert_allclose(result, [[[cos[0], -sin[1], sin[0], cos[1]]]], rtol=1e-14)


def test_sets_of_coefficients_serve_runs_of_heads():
    # two sets for four heads of width 2, whose pair turns a radian a step: the second set doubles the cosine
    x = np.tile([1.0, 0.0], (3, 4, 1, 1))  # (b, h, t, d)
    result = fope(x, [5], 7, cos_coef=[[[1.0]], [[2.0]]], sin_coef=[[[1.0]], [[1.0]]])
    by_first, by_second = [math.cos(5), math.sin(5)], [2 * math.cos(5), math.sin(5)]
    np.testing.assert_allclose(result[:, :, 0], [[by_first, by_first, by_second, by_second]] * 3, rtol=1e-14)


def test_a_table_holds_cosines_and_sines_of_the_frequencies_that_are_kept():
    # width 8, base 10,000: theta = 1, 1/10, 1/100 and 1/1000, of which a length of 63 keeps two;
    # however coarse the content, it is of float32 or finer
    cos, sin = FoPE(8, heads=2, length=63).table(torch.tensor([5]), torch.float16)
    torch.testing.assert_close(cos, torch.tensor([[[math.cos(5), math.cos(0.5)]]]))
    torch.testing.assert_close(sin, torch.tensor([[[math.sin(5), math.sin(0.5)]]]))


# Pairs at rest


@pytest.mark.parametrize(
    ("dim", "length", "base", "kept"),
    [
        (4, 62, 100, 1),  # theta = 1 and 1/10, of 6.28 and 62.8 tokens a turn
        (4, 63, 100, 2),
        (4, 4 * math.pi, 4, 2),  # theta = 1 and 1/2, which turns exactly once
        (4, 7, 1, 2),  # theta = 1 and 1
        (64, 7, 10_000, 1),
        (64, 512, 10_000, 16),
        (64, 1024, 10_000, 18),
        (64, math.inf, 10_000, 32),
        (128, 262_144, 5e6, 45),  # Intern-S1-Pro
    ],
)
def test_a_frequency_is_kept_if_it_turns_once_in_the_trained_length(dim, length, base, kept):
    assert FoPE(dim, heads=3, length=length, base=base).cos_coef.shape == (3, kept, kept)


@pytest.mark.parametrize("n", [1, 45, 64])
def test_num_inv_freq_of_intern_s1_pro_as_a_length(n):
    length = 2 * math.pi * 5e6 ** ((2 * n - 1) / 128)  # half-way between those of n - 1 and n frequencies
    assert len(FoPE(128, heads=1, length=length, base=5e6).theta) == n


def test_with_one_frequency_a_pair_it_is_rope_without_its_slow_pairs():
    q, k = torch.randn(1, 4, 5, 16, dtype=torch.float64), torch.randn(1, 2, 5, 16, dtype=torch.float64)
    kept = 10_000.0 ** (-np.arange(4) / 8)  # of eight; the fifth, 1/100, turns once in 628 tokens
    rope = RoPE(16, theta=[*kept, 0, 0, 0, 0])
    torch.testing.assert_close(FoPE(16, heads=2, length=512, gain=0)(q, k), rope(q, k), rtol=0, atol=1e-14)


# Scores


def test_the_mean_score_over_all_places_depends_on_the_offset_alone():
    # cos a cos b = (cos(a - b) + cos(a + b)) / 2, and what holds a + b or two frequencies averages out
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 1, 1, 16))
    by_cos, by_sin = np.eye(4) + rng.normal(0, 0.3, (2, 4, 4))
    theta = 10_000.0 ** (-np.arange(4) / 8)
    products = (q[0, 0, :8] + 1j * q[0, 0, 8:]) * (k[0, 0, :8] - 1j * k[0, 0, 8:])
    places = rng.integers(0, 10**6, 400_000)
    for offset in (0, 1, 7, 40):
        even = np.cos(theta * offset) @ (by_cos**2 + by_sin**2) / 2
        odd = np.sin(theta * offset) @ (by_cos * by_sin)
        expected = (products[:4].real * even - products[:4].imag * odd).sum() + products[4:].real.sum()
        coefficients = {"cos_coef": by_cos[None], "sin_coef": by_sin[None]}
        rotated_q = fope(np.repeat(q, len(places), axis=1), places + offset, 512, **coefficients)
        rotated_k = fope(np.repeat(k, len(places), axis=1), places, 512, **coefficients)
        np.testing.assert_allclose((rotated_q * rotated_k).sum(axis=-1).mean(), expected, atol=0.02)


# The start


def test_coefficients_start_as_an_identity_with_the_noise_of_the_authors():
    torch.manual_seed(0)
    encoding = FoPE(64, heads=8, length=512)
    spread = 0.3 * math.sqrt(2 / (16 * (8 + 16)))
    for coef in encoding.parameters():
        noise = (coef - torch.eye(16)).detach()
        assert abs(noise.mean()) < 5 * spread / math.sqrt(noise.numel())
        assert abs(noise.std() / spread - 1) < 5 / math.sqrt(2 * noise.numel())
    assert not torch.equal(encoding.cos_coef, encoding.sin_coef)


# What is refused


def test_content_without_an_axis_of_heads_is_refused():
    x = torch.ones(3, 5, 16)
    with pytest.raises(
        ValueError,
        match=r"fope: q or k must have shape \(b, h, t, 16\) and a float dtype, got torch.float32 \(3, 5, 16\)",
    ):
        FoPE(16, heads=1, length=512)(x, x)


def test_positions_of_two_sequences_are_refused_for_one():
    assert_positions_of_two_sequences_are_refused_for_one(FoPE(16, heads=2, length=512))


@pytest.mark.parametrize("length", [0, 6, math.nan])
def test_a_length_in_which_no_pair_turns_is_refused(length):
    message = f"fope: length must be above 2 pi, got {length}"
    with pytest.raises(ValueError, match=message):
        FoPE(16, heads=2, length=length)
    with pytest.raises(ValueError, match=message):
        fope(np.ones((2, 5, 16)), range(5), length)
