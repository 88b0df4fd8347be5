"""FoPE: values worked by hand, pairs at rest, what is left of a rotation, the start, heads, and what it refuses."""

import copy
import inspect
import itertools
import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.fope import FoPE, fope

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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100))


def content(t=7, s=7, dim=16, heads=4, groups=2, batch=3):
    """Return random q (b, h, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def coefficients(sets, f):
    cos_coef, sin_coef = np.random.default_rng(0).normal(0, 0.3, (2, sets, f, f)) + np.eye(f)
    return {"cos_coef": cos_coef, "sin_coef": sin_coef}


def pairs(x):
    """Return a row as d/2 complex numbers, the halves as their two parts."""
    first, second = np.split(np.asarray(x), 2, axis=-1)
    return first + 1j * second


# Values worked by hand


def test_the_only_pair_of_width_2_turns_as_in_rope():
    expected = [[[math.cos(3), math.sin(3)], [-2 * math.sin(3), 2 * math.cos(3)]]]
    np.testing.assert_allclose(fope(np.array([[[1, 0], [0, 2]]]), [3, 3], 7), expected, rtol=1e-14)


def test_two_sums_of_two_frequencies_by_hand():
    # width 4, base 100: theta = 1 and 1/10, both kept from a length of 63 on
    cos_coef = [[[1.0, 0.5], [2.0, 3.0]]]
    sin_coef = [[[4.0, -1.0], [0.0, 1.0]]]
    cos = [math.cos(5) + 2 * math.cos(0.5), 0.5 * math.cos(5) + 3 * math.cos(0.5)]
    sin = [4 * math.sin(5), -math.sin(5) + math.sin(0.5)]
    x = np.array([[[1.0, 0.0, 0.0, 1.0]]])
    result = fope(x, [5], 63, base=100, cos_coef=cos_coef, sin_coef=sin_coef)
    np.testing.assert_allclose(result, [[[cos[0], -sin[1], sin[0], cos[1]]]], rtol=1e-14)


@pytest.mark.parametrize(("length", "base", "kept"), [(62, 100, 1), (63, 100, 2), (628, 10_000, 1), (629, 10_000, 2)])
def test_a_frequency_is_kept_if_it_turns_once_in_the_trained_length(length, base, kept):
    # width 4: the slower one is 1/10 or 1/100
    assert FoPE(4, heads=1, length=length, base=base).cos_coef.shape == (1, kept, kept)
    slower = fope(np.ones((1, 1, 4)), [1], length, base=base)[0, 0, 1]
    assert (slower == 1) == (kept == 1)


@pytest.mark.parametrize(("length", "kept"), [(7, 1), (512, 16), (1024, 18), (262_144, 32)])
def test_how_many_frequencies_of_width_64_are_kept(length, kept):
    assert FoPE(64, heads=1, length=length).cos_coef.shape == (1, kept, kept)


def test_a_large_base_leaves_more_at_rest():
    # Intern-S1-Pro: width 128, base 5,000,000, trained on 262,144 tokens
    assert FoPE(128, heads=4, length=262_144, base=5e6).cos_coef.shape == (4, 45, 45)


def test_at_position_0_a_pair_is_scaled_by_the_sum_of_its_coefficients():
    learned = coefficients(1, 4)
    x = np.random.default_rng(1).normal(size=(1, 1, 16))
    scale = np.concatenate([learned["cos_coef"][0].sum(axis=0), np.ones(4)] * 2)
    np.testing.assert_allclose(fope(x, [0], 512, **learned), x * scale, rtol=1e-14)


# Pairs at rest


def test_with_one_frequency_a_pair_it_is_rope_without_its_slow_pairs():
    q, k = content(5, 7)
    theta = 10_000.0 ** (-np.arange(8) / 8) * (np.arange(8) < 4)
    m, n = torch.arange(2, 7), torch.arange(7)
    rotated_q, rotated_k = FoPE(16, heads=2, length=512, gain=0)(q, k, m, n)
    expected_q = pairs(q) * np.exp(1j * np.outer(m, theta))
    expected_k = pairs(k) * np.exp(1j * np.outer(n, theta))
    np.testing.assert_allclose(pairs(rotated_q.detach()), expected_q, atol=1e-14)
    np.testing.assert_allclose(pairs(rotated_k.detach()), expected_k, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_channels_at_rest_come_back_bit_for_bit(dtype):
    q, k = (x.to(dtype) for x in content())
    rotated_q, rotated_k = FoPE(16, heads=2, length=512)(q, k, torch.randint(0, 10**7, (7,)))
    at_rest = [4, 5, 6, 7, 12, 13, 14, 15]
    assert torch.equal(rotated_q[..., at_rest], q[..., at_rest])
    assert torch.equal(rotated_k[..., at_rest], k[..., at_rest])


def test_a_sine_of_1_at_rest_turns_by_45_degrees_stretches_by_root_2_and_doubles_the_share_of_the_score():
    # what the authors' code does where it pads: (x, y) -> (x - y, y + x)
    q, k = content(1, 1, heads=1, groups=1, batch=1)
    at_rest = slice(4, 8)
    ours_q, ours_k = (pairs(fope(x, [9], 512))[..., at_rest] for x in (q, k))
    theirs_q, theirs_k = (pairs(x)[..., at_rest] * (1 + 1j) for x in (q, k))
    np.testing.assert_allclose(np.abs(theirs_q), math.sqrt(2) * np.abs(ours_q))
    np.testing.assert_allclose(np.angle(theirs_q / ours_q), math.pi / 4)
    score_of_ours = np.real(ours_q * np.conj(ours_k)).sum()
    score_of_theirs = np.real(theirs_q * np.conj(theirs_k)).sum()
    np.testing.assert_allclose(score_of_theirs, 2 * score_of_ours)
    unturned_q, unturned_k = (pairs(x)[..., at_rest] for x in (q, k))
    np.testing.assert_allclose(score_of_ours, np.real(unturned_q * np.conj(unturned_k)).sum())


# What is left of a rotation


def test_one_frequency_a_pair_keeps_lengths_and_several_do_not():
    x = np.random.default_rng(1).normal(size=(2, 50, 16))
    norms = np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(fope(x, range(50), 512), axis=-1), norms, rtol=1e-13)
    several = np.linalg.norm(fope(x, range(50), 512, **coefficients(2, 4)), axis=-1)
    assert (several / norms).max() > 1.2
    assert (several / norms).min() < 0.9


@given(m=shifts, n=shifts, shift=shifts)
@exactly
def test_with_one_frequency_a_pair_scores_depend_on_the_offset_alone(m, n, shift):
    q, k = (x[0].numpy() for x in content(1, 1, groups=4))
    here = np.einsum("htd,htd->h", fope(q, [m], 512), fope(k, [n], 512))
    there = np.einsum("htd,htd->h", fope(q, [m + shift], 512), fope(k, [n + shift], 512))
    np.testing.assert_allclose(there, here, atol=1e-9)


def test_with_several_scores_depend_on_where_the_tokens_stand():
    q, k = (x[0].numpy() for x in content(1, 1, heads=2, groups=2))
    learned = coefficients(2, 4)
    by_position = [
        np.einsum("htd,htd->h", fope(q, [p + 3], 512, **learned), fope(k, [p], 512, **learned))[0] for p in range(50)
    ]
    assert np.ptp(by_position) > 1


def test_the_mean_score_over_all_places_depends_on_the_offset_alone():
    # cos a cos b = (cos(a - b) + cos(a + b)) / 2, and what holds a + b or two frequencies averages out
    q, k = (x[0].numpy() for x in content(1, 1, heads=1, groups=1))
    learned = coefficients(1, 4)
    by_cos, by_sin = learned["cos_coef"][0], learned["sin_coef"][0]
    theta = 10_000.0 ** (-np.arange(4) / 8)
    products = (pairs(q) * np.conj(pairs(k)))[0, 0]
    positions = np.random.default_rng(2).integers(0, 10**6, 400_000)
    for offset in (0, 1, 7, 40):
        even = np.cos(theta * offset) @ (by_cos**2 + by_sin**2) / 2
        odd = np.sin(theta * offset) @ (by_cos * by_sin)
        expected = (products[:4].real * even - products[:4].imag * odd).sum() + products[4:].real.sum()
        rotated_q = fope(np.repeat(q, len(positions), axis=1), positions + offset, 512, **learned)
        rotated_k = fope(np.repeat(k, len(positions), axis=1), positions, 512, **learned)
        np.testing.assert_allclose(np.einsum("htd,htd->ht", rotated_q, rotated_k).mean(), expected, atol=0.02)


@given(p=shifts)
@exactly
def test_a_place_and_its_mirror_image_turn_to_opposite_sides(p):
    learned = coefficients(1, 4)
    x = np.random.default_rng(1).normal(size=(1, 1, 16))
    mirrored = np.concatenate([x[..., :8], -x[..., 8:]], axis=-1)
    there = pairs(fope(x, [p], 512, **learned))
    np.testing.assert_allclose(pairs(fope(mirrored, [-p], 512, **learned)), np.conj(there), atol=1e-12)


# The start


def test_coefficients_start_as_an_identity_with_the_noise_of_the_authors():
    torch.manual_seed(0)
    encoding = FoPE(64, heads=8, length=512, gain=0.3)
    for coef in encoding.parameters():
        noise = (coef - torch.eye(16)).detach()
        spread = 0.3 * math.sqrt(2 / (16 * (8 + 16)))
        assert abs(noise.mean()) < 5 * spread / math.sqrt(noise.numel())
        assert abs(noise.std() / spread - 1) < 5 / math.sqrt(2 * noise.numel())
        assert coef.requires_grad
        assert coef.is_leaf
    assert not torch.equal(encoding.cos_coef, encoding.sin_coef)


def test_the_noise_is_xavier_s_drawn_for_cosines_then_for_sines():
    torch.manual_seed(0)
    encoding = FoPE(64, heads=8, length=512, gain=0.5)
    torch.manual_seed(0)
    for coef in encoding.parameters():
        torch.testing.assert_close(coef, torch.eye(16) + torch.nn.init.xavier_normal_(torch.empty(8, 16, 16), 0.5))


def test_without_noise_they_start_as_the_identity():
    for coef in FoPE(64, heads=8, length=512, gain=0).parameters():
        assert torch.equal(coef, torch.eye(16).expand(8, 16, 16))


def test_they_can_be_left_as_they_start():
    encoding = FoPE(16, heads=2, length=512).requires_grad_(False)
    assert not any(rotated.requires_grad for rotated in encoding(*content()))


@pytest.mark.parametrize("base", [100.0, 10_000.0, 5e6])
@pytest.mark.parametrize("n", [1, 3, 45, 64])
def test_a_length_keeps_any_number_of_frequencies(n, base):  # as the docstring says for num_inv_freq
    assert len(FoPE(128, heads=1, length=2 * math.pi * base ** ((2 * n - 1) / 128), base=base).theta) == n


# Heads


def test_each_set_serves_the_heads_of_its_keys():
    q, k = content(heads=8, groups=4)
    encoding = FoPE(16, heads=2, length=512).double()
    rotated_q, rotated_k = encoding(q, k)
    for i in range(2):
        alone = FoPE(16, heads=1, length=512).double()
        alone.load_state_dict({name: coef[i : i + 1] for name, coef in encoding.state_dict().items()})
        query_heads, key_heads = slice(4 * i, 4 * i + 4), slice(2 * i, 2 * i + 2)
        expected_q, expected_k = alone(q[:, query_heads], k[:, key_heads])
        torch.testing.assert_close(rotated_q[:, query_heads], expected_q)
        torch.testing.assert_close(rotated_k[:, key_heads], expected_k)


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_share_keys_as_if_these_were_repeated(heads):
    q, k = content(groups=2)
    encoding = FoPE(16, heads=heads, length=512).double()
    torch.testing.assert_close(scores(*encoding(q, k)), scores(*encoding(q, k.repeat_interleave(2, dim=1))))


def test_decoding_token_by_token_equals_encoding_at_once():
    q, k = content(7, 7)
    encoding = FoPE(16, heads=2, length=512).double()
    whole = scores(*encoding(q, k))
    cache = []
    for p in range(7):
        token = slice(p, p + 1)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], torch.tensor([p]))
        cache.append(new_k)
        torch.testing.assert_close(scores(new_q, torch.cat(cache, dim=2)), whole[:, :, token, : p + 1])


def test_left_padded_rows_take_their_own_positions():
    q, k = content(4, 4, batch=1)
    encoding = FoPE(16, heads=2, length=512).double()
    padded_q = torch.cat([torch.randn(1, 4, 3, 16).double(), q], dim=2)
    padded_k = torch.cat([torch.randn(1, 2, 3, 16).double(), k], dim=2)
    result = scores(*encoding(padded_q, padded_k, torch.tensor([[0, 0, 0, 0, 1, 2, 3]])))
    torch.testing.assert_close(result[..., 3:, 3:], scores(*encoding(q, k)))


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_worked_out_in_float32_and_rounded_once(dtype):
    q, k = (x.to(dtype) for x in content())
    encoding = FoPE(16, heads=2, length=512)
    rotated_q, rotated_k = encoding(q, k)
    exact_q, exact_k = encoding(q.float(), k.float())
    assert torch.equal(rotated_q, exact_q.to(dtype))
    assert torch.equal(rotated_k, exact_k.to(dtype))


def test_queries_and_keys_keep_each_its_dtype():
    q, k = content()
    rotated_q, rotated_k = FoPE(16, heads=2, length=512)(q.bfloat16(), k.float())
    assert (rotated_q.dtype, rotated_k.dtype) == (torch.bfloat16, torch.float32)


# The table


def test_a_table_holds_cosines_and_sines_of_the_frequencies_that_are_kept():
    # width 8, base 100: theta = 1, 100^(-1/4), 1/10, 100^(-3/4), of which a length of 63 keeps three
    cos, sin = FoPE(8, heads=2, length=63, base=100).table(torch.tensor([5]), torch.float64)
    angle = 5 * 100.0 ** -np.array([0, 0.25, 0.5])
    np.testing.assert_allclose(cos, [[np.cos(angle)]], rtol=1e-14)
    np.testing.assert_allclose(sin, [[np.sin(angle)]], rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("positions", [torch.arange(7), torch.arange(21).view(3, 7)], ids=["t", "b, t"])
def test_a_table_serves_modules_with_other_coefficients(dtype, positions):
    q, k = (x.to(dtype) for x in content())
    table = FoPE(16, heads=2, length=512).table(positions, dtype)
    for _ in range(2):
        encoding = FoPE(16, heads=2, length=512)
        rotated_q, rotated_k = encoding(q, k, positions)
        assert torch.equal(encoding.turn(q, table), rotated_q)
        assert torch.equal(encoding.turn(k, table), rotated_k)


def test_a_table_finer_than_needed_is_taken():
    q, _ = content()
    encoding = FoPE(16, heads=2, length=512)
    table = encoding.table(torch.arange(7), torch.float64)
    assert encoding.turn(q.bfloat16(), table).dtype == torch.bfloat16


# Edges


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (1, 1), (5, 2)])
def test_no_tokens_one_token_and_more_queries_than_keys(t, s):
    q, k = content(t, s)
    encoding = FoPE(16, heads=2, length=512).double()
    learned = {name: coef.detach().numpy() for name, coef in encoding.named_parameters()}
    m, n = torch.arange(t) - 3, torch.arange(s)
    rotated_q, rotated_k = encoding(q, k, m, n)
    np.testing.assert_allclose(rotated_q.detach(), fope(q, m, 512, **learned), atol=1e-13)
    np.testing.assert_allclose(rotated_k.detach(), fope(k, n, 512, **learned), atol=1e-13)


def test_a_module_can_be_copied():
    q, k = content()
    encoding = FoPE(16, heads=2, length=512, base=50.0).double()
    assert all(map(torch.equal, copy.deepcopy(encoding)(q, k), encoding(q, k)))


def test_settings_from_numpy_are_taken():
    encoding = FoPE(np.int64(16), np.int32(2), np.int64(512), base=np.float64(100))
    assert encoding(*content())[0].shape == (3, 4, 7, 16)


def test_without_an_end_to_the_length_every_frequency_is_kept():
    assert FoPE(64, heads=1, length=math.inf).cos_coef.shape == (1, 32, 32)


def test_the_defaults_are_those_of_the_authors():
    defaults = {name: parameter.default for name, parameter in inspect.signature(FoPE).parameters.items()}
    assert (defaults["base"], defaults["gain"]) == (10_000.0, 0.3)


def test_the_twin_takes_a_batch_whole():
    q = content(5, 7)[0].numpy()
    coef = np.random.default_rng(0).normal(size=(2, 4, 4))
    alone = [fope(row, range(5), 512, cos_coef=coef, sin_coef=coef) for row in q]
    np.testing.assert_array_equal(fope(q, range(5), 512, cos_coef=coef, sin_coef=coef), alone)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(("heads", "groups"), [(3, 3), (4, 1)])
def test_torch_refuses_heads_that_sets_do_not_divide(heads, groups):
    q, k = content(heads=heads, groups=groups)
    with pytest.raises(RuntimeError, match="unflatten"):
        FoPE(16, heads=2, length=512)(q, k)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (lambda x: x[..., :14], r"torch.float64 \(3, 4, 5, 14\)"),
        (lambda x: x[0], r"torch.float64 \(4, 5, 16\)"),
        (lambda x: x.long(), r"torch.int64 \(3, 4, 5, 16\)"),
    ],
)
def test_content_of_another_form_is_refused(wrong, got):
    q = wrong(content(5, 5)[0])
    with pytest.raises(ValueError, match=rf"fope: q or k must be floats \(b, h, t, 16\), got {got}"):
        FoPE(16, heads=2, length=512)(q, q)


@pytest.mark.parametrize("shape", [(1,), (4,), (6,), (5, 1), (1, 4), (2, 5), (5, 3), (3, 5, 1)], ids=str)
def test_positions_and_tables_that_do_not_fit_are_refused(shape):
    q, k = content(5, 5)
    encoding = FoPE(16, heads=2, length=512)
    wrong = torch.zeros(shape)
    message = re.escape(f"fope: positions or table must be (5,) or (3, 5), got {shape}")
    with pytest.raises(ValueError, match=message):
        encoding(q, k, wrong)
    with pytest.raises(ValueError, match=message):
        encoding(q, k, torch.arange(5), wrong)
    with pytest.raises(ValueError, match=message):
        encoding.turn(k, encoding.table(wrong))


WRONG = {"dim": [0, -2, 7], "length": [0, -1, 6, math.nan], "base": [0, -1, math.nan, math.inf]}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_wrong_settings_are_refused(name, value):
    message = f"fope: {name} must be .*, got {value}"
    with pytest.raises(ValueError, match=message):
        FoPE(**{"dim": 16, "heads": 2, "length": 512} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=message):
            fope(np.zeros((4, 5, 16)), range(5), **{"length": 512} | {name: value})


def test_the_numpy_function_refuses_an_odd_width():
    with pytest.raises(ValueError, match="fope: dim must be even and at least 2, got 15"):
        fope(np.zeros((4, 5, 15)), range(5), 512)


@pytest.mark.parametrize("positions", [3, [3], [0, 1], [[0, 1, 2, 3]]], ids=repr)
def test_the_numpy_function_takes_one_position_a_row(positions):
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        fope(np.zeros((4, 3, 16)), positions, 512)


@pytest.mark.parametrize("sets", [3, 8])
def test_the_numpy_function_takes_sets_that_divide_the_heads(sets):
    coef = np.zeros((sets, 4, 4))
    with pytest.raises(ValueError, match="could not be broadcast"):
        fope(np.zeros((4, 5, 16)), range(5), 512, cos_coef=coef, sin_coef=coef)
