"""FoPE: values worked by hand, pairs at rest, what is left of a rotation, the start, heads, and what it refuses."""

import copy
import inspect
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
    turned = x.astype(float).copy()
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / d) for i in range(d // 2)]
        theta = [frequency for frequency in theta if frequency >= 2 * mpmath.pi / length]
        own = np.eye(len(theta))[None]
        for h in range(heads):
            by_cos, by_sin = (c[h * len(c) // heads] for c in (own if c is None else c for c in (cos_coef, sin_coef)))
            for row, p in enumerate(positions.tolist()):
                waves = [mpmath.expj(p * frequency) for frequency in theta]
                for i in range(by_cos.shape[1]):
                    cos = float(mpmath.fdot((w.real for w in waves), by_cos[:, i].tolist()))
                    sin = float(mpmath.fdot((w.imag for w in waves), by_sin[:, i].tolist()))
                    a, b = i, i + d // 2
                    turned[h, row, a] = x[h, row, a] * cos - x[h, row, b] * sin
                    turned[h, row, b] = x[h, row, b] * cos + x[h, row, a] * sin
    return turned


def exercise(module):
    module.fope(np.ones((2, 3, 8)), range(3), 64)


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100))


def content(t=5, s=7, dim=16, heads=4, groups=2, batch=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def coefficients(sets, kept, seed=0):
    made = np.random.default_rng(seed).normal(0, 0.3, (2, sets, kept, kept)) + np.eye(kept)
    return {"cos_coef": made[0], "sin_coef": made[1]}


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
    by_cos, by_sin = [[[1.0, 0.5], [2.0, 3.0]]], [[[4.0, -1.0], [0.0, 1.0]]]
    cos = [math.cos(5) + 2 * math.cos(0.5), 0.5 * math.cos(5) + 3 * math.cos(0.5)]
    sin = [4 * math.sin(5), -math.sin(5) + math.sin(0.5)]
    actual = fope(np.array([[[1.0, 0.0, 0.0, 1.0]]]), [5], 63, base=100, cos_coef=by_cos, sin_coef=by_sin)
    np.testing.assert_allclose(actual, [[[cos[0], -sin[1], sin[0], cos[1]]]], rtol=1e-14)


@pytest.mark.parametrize(("length", "base", "kept"), [(62, 100, 1), (63, 100, 2), (628, 10_000, 1), (629, 10_000, 2)])
def test_a_frequency_is_kept_if_it_turns_once_in_the_trained_length(length, base, kept):
    # width 4: the slower one is 1/10 or 1/100
    assert FoPE(4, heads=1, length=length, base=base).cos_coef.shape == (1, kept, kept)
    turned = fope(np.ones((1, 1, 4)), [1], length, base=base)[0, 0]
    assert (turned[1] == 1) == (kept == 1)


@pytest.mark.parametrize(("length", "kept"), [(7, 1), (512, 16), (1024, 18), (262_144, 32)])
def test_how_many_frequencies_of_width_64_are_kept(length, kept):
    assert FoPE(64, heads=1, length=length).cos_coef.shape == (1, kept, kept)


def test_a_large_base_leaves_more_at_rest():
    # Intern-S1-Pro: width 128, base 5,000,000, trained on 262,144 tokens
    assert FoPE(128, heads=4, length=262_144, base=5e6).cos_coef.shape == (4, 45, 45)


def test_at_position_0_a_pair_is_scaled_by_the_sum_of_its_coefficients():
    made, x = coefficients(1, 4), np.random.default_rng(1).normal(size=(1, 1, 16))
    scale = np.concatenate([made["cos_coef"][0].sum(axis=0), np.ones(4)] * 2)
    np.testing.assert_allclose(fope(x, [0], 512, **made), x * scale, rtol=1e-14)


# Pairs at rest


def test_with_one_frequency_a_pair_it_is_rope_without_its_slow_pairs():
    encoding, (q, k) = FoPE(16, heads=2, length=512, gain=0).double(), content()
    theta = 10_000.0 ** (-np.arange(8) / 8) * (np.arange(8) < 4)
    for made, x, places in zip(encoding(q, k), (q, k), (np.arange(2, 7), np.arange(7)), strict=True):
        expected = pairs(x) * np.exp(1j * places[:, None] * theta)
        np.testing.assert_allclose(pairs(made.detach()), expected, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_channels_at_rest_come_back_bit_for_bit(dtype):
    (q, k), at = (x.to(dtype) for x in content()), torch.randint(0, 10**7, (7,))
    made = FoPE(16, heads=2, length=512)(q, k, at[:5], at)
    rest = [4, 5, 6, 7, 12, 13, 14, 15]
    for got, x in zip(made, (q, k), strict=True):
        assert torch.equal(got[..., rest], x[..., rest])


def test_a_sine_of_1_at_rest_turns_by_45_degrees_stretches_by_root_2_and_doubles_the_share_of_the_score():
    # what the authors' code does where it pads: (x, y) -> (x - y, y + x)
    (q, k), rest = content(1, 1, heads=1, groups=1, batch=1), slice(4, 8)
    ours_q, ours_k = (fope(x[0], [9], 512)[..., :] for x in (q, k))
    theirs_q, theirs_k = (pairs(x)[..., rest] * (1 + 1j) for x in (q[0], k[0]))
    np.testing.assert_allclose(np.abs(theirs_q), math.sqrt(2) * np.abs(pairs(ours_q)[..., rest]))
    np.testing.assert_allclose(np.angle(theirs_q / pairs(ours_q)[..., rest]), math.pi / 4)
    by_ours = np.real(pairs(ours_q)[..., rest] * np.conj(pairs(ours_k)[..., rest])).sum()
    np.testing.assert_allclose(np.real(theirs_q * np.conj(theirs_k)).sum(), 2 * by_ours)
    np.testing.assert_allclose(by_ours, np.real(pairs(q[0])[..., rest] * np.conj(pairs(k[0])[..., rest])).sum())


# What is left of a rotation


def test_one_frequency_a_pair_keeps_lengths_and_several_do_not():
    x = np.random.default_rng(1).normal(size=(2, 50, 16))
    lengths = np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(fope(x, range(50), 512), axis=-1), lengths, rtol=1e-13)
    several = np.linalg.norm(fope(x, range(50), 512, **coefficients(2, 4)), axis=-1)
    assert (several / lengths).max() > 1.2
    assert (several / lengths).min() < 0.9


@given(m=shifts, n=shifts, shift=shifts)
@exactly
def test_with_one_frequency_a_pair_scores_depend_on_the_offset_alone(m, n, shift):
    q, k = (x[0, :2, :1].numpy() for x in content())
    here, there = (np.einsum("htd,htd->h", fope(q, [m + by], 512), fope(k, [n + by], 512)) for by in (0, shift))
    np.testing.assert_allclose(here, there, atol=1e-9)


def test_with_several_scores_depend_on_where_the_tokens_stand():
    q, k = (x[0, :2, :1].numpy() for x in content())
    made = coefficients(2, 4)
    by_place = [np.einsum("htd,htd->h", fope(q, [p + 3], 512, **made), fope(k, [p], 512, **made))[0] for p in range(50)]
    assert np.ptp(by_place) > 1


def test_the_mean_score_over_all_places_depends_on_the_offset_alone():
    # cos a cos b = (cos(a - b) + cos(a + b)) / 2, and what holds a + b or two frequencies averages out
    (q, k), made, theta = (x[0, :1, :1].numpy() for x in content()), coefficients(1, 4), 10_000.0 ** (-np.arange(4) / 8)
    by_cos, by_sin = made["cos_coef"][0], made["sin_coef"][0]
    products = (pairs(q) * np.conj(pairs(k)))[0, 0]
    places = np.random.default_rng(2).integers(0, 10**6, 400_000)
    for offset in (0, 1, 7, 40):
        even = np.cos(theta * offset) @ (by_cos**2 + by_sin**2) / 2
        odd = np.sin(theta * offset) @ (by_cos * by_sin)
        expected = (products[:4].real * even - products[:4].imag * odd).sum() + products[4:].real.sum()
        later = fope(np.repeat(q, len(places), axis=1), places + offset, 512, **made)
        here = fope(np.repeat(k, len(places), axis=1), places, 512, **made)
        np.testing.assert_allclose(np.einsum("htd,htd->ht", later, here).mean(), expected, atol=0.02)


@given(p=shifts)
@exactly
def test_a_place_and_its_mirror_image_turn_to_opposite_sides(p):
    made, x = coefficients(1, 4), np.random.default_rng(1).normal(size=(1, 1, 16))
    there = pairs(fope(x, [p], 512, **made))
    flipped = np.concatenate([x[..., :8], -x[..., 8:]], axis=-1)
    np.testing.assert_allclose(pairs(fope(flipped, [-p], 512, **made)), np.conj(there), atol=1e-12)


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
    assert not any(made.requires_grad for made in encoding(*content()))


@pytest.mark.parametrize("base", [100.0, 10_000.0, 5e6])
@pytest.mark.parametrize("n", [1, 3, 45, 64])
def test_a_length_keeps_any_number_of_frequencies(n, base):  # as the docstring says for num_inv_freq
    assert len(FoPE(128, heads=1, length=2 * math.pi * base ** ((2 * n - 1) / 128), base=base).theta) == n


# Heads


def test_each_set_serves_the_heads_of_its_keys():
    q, k = content(heads=8, groups=4)
    encoding = FoPE(16, heads=2, length=512).double()
    made_q, made_k = encoding(q, k)
    for part in range(2):
        one = FoPE(16, heads=1, length=512).double()
        one.load_state_dict({name: coef[part : part + 1] for name, coef in encoding.state_dict().items()})
        of_q, of_k = one(q[:, 4 * part : 4 * part + 4], k[:, 2 * part : 2 * part + 2])
        torch.testing.assert_close(made_q[:, 4 * part : 4 * part + 4], of_q)
        torch.testing.assert_close(made_k[:, 2 * part : 2 * part + 2], of_k)


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_share_keys_as_if_these_were_repeated(heads):
    encoding, (q, k) = FoPE(16, heads=heads, length=512).double(), content(groups=2)
    torch.testing.assert_close(scores(*encoding(q, k)), scores(*encoding(q, k.repeat_interleave(2, dim=1))))


def test_decoding_token_by_token_equals_encoding_at_once():
    encoding, (q, k) = FoPE(16, heads=2, length=512).double(), content(7, 7)
    whole, cache = scores(*encoding(q, k)), []
    for p in range(7):
        at = torch.tensor([p])
        query, key = encoding(q[:, :, p : p + 1], k[:, :, p : p + 1], at, at)
        cache.append(key)
        torch.testing.assert_close(scores(query, torch.cat(cache, dim=2)), whole[:, :, p : p + 1, : p + 1])


def test_left_padded_rows_take_their_own_positions():
    encoding, (q, k) = FoPE(16, heads=2, length=512).double(), content(4, 4, batch=1)
    wide = [torch.cat([torch.randn(1, x.shape[1], 3, 16).double(), x], dim=2) for x in (q, k)]
    places = torch.tensor([[0, 0, 0, 0, 1, 2, 3]])
    torch.testing.assert_close(scores(*encoding(*wide, places, places))[..., 3:, 3:], scores(*encoding(q, k)))


def test_one_row_of_positions_serves_a_batch():
    (q, k), encoding = content(), FoPE(16, heads=2, length=512).double()
    m, n = torch.randint(0, 99, (1, 5)), torch.randint(0, 99, (1, 7))
    expected = encoding(q, k, m.expand(3, 5), n.expand(3, 7))
    for made in (encoding(q, k, m, n), encoding(q, k, m, n.expand(3, 7))):
        for got, want in zip(made, expected, strict=True):
            assert torch.equal(got, want)


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_worked_out_in_float32_and_rounded_once(dtype):
    encoding, (q, k) = FoPE(16, heads=2, length=512), (x.to(dtype) for x in content())
    for got, whole in zip(encoding(q, k), encoding(q.float(), k.float()), strict=True):
        assert torch.equal(got, whole.to(dtype))


def test_queries_and_keys_keep_each_its_dtype():
    q, k = content()
    made_q, made_k = FoPE(16, heads=2, length=512)(q.bfloat16(), k.float())
    assert (made_q.dtype, made_k.dtype) == (torch.bfloat16, torch.float32)


# The table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_table_serves_modules_with_other_coefficients(dtype):
    q, k = (x.to(dtype) for x in content(7, 7))
    modules = [FoPE(16, heads=2, length=512) for _ in range(2)]
    table = modules[0].table(torch.arange(7), dtype)
    assert table.shape == (7, 8)
    for module in modules:
        for got, want in zip(module(q, k, table=table), module(q, k), strict=True):
            assert torch.equal(got, want)


def test_the_last_rows_of_a_table_serve_the_last_queries():
    (q, k), encoding, n = content(5, 7), FoPE(16, heads=2, length=512).double(), torch.randint(0, 99, (3, 7))
    for got, want in zip(
        encoding(q, k, table=encoding.table(n, torch.float64)), encoding(q, k, n[:, 2:], n), strict=True
    ):
        assert torch.equal(got, want)


def test_a_table_finer_than_needed_is_taken():
    (q, k), encoding = content(7, 7), FoPE(16, heads=2, length=512)
    made = encoding(q.bfloat16(), k.bfloat16(), table=encoding.table(torch.arange(7), torch.float64))
    assert made[0].dtype == torch.bfloat16


def test_one_side_may_be_turned_alone():
    (q, k), encoding, at = content(5, 5), FoPE(16, heads=2, length=512), torch.arange(5) + 3
    made = encoding(q, k, at)
    for x, want in zip((q, k), made, strict=True):
        assert torch.equal(encoding.turn(x, encoding.table(at, torch.float64)), want)


# Edges


def test_no_tokens_one_token_and_more_queries_than_keys():
    encoding = FoPE(16, heads=2, length=512).double()
    made = {name: coef.detach().numpy() for name, coef in encoding.named_parameters()}
    for t, s in ((0, 0), (0, 3), (1, 1), (5, 2)):
        (q, k), m, n = content(t, s), torch.arange(t) - 3, torch.arange(s)
        for x, at, turned in zip((q, k), (m, n), encoding(q, k, m, n), strict=True):
            np.testing.assert_allclose(turned[0].detach(), fope(x[0].numpy(), at, 512, **made), atol=1e-13)


def test_what_is_not_said_follows_from_what_is():
    encoding, (q, k) = FoPE(16, heads=2, length=512).double(), content()
    n, m = torch.tensor([5, 6, 7, 8, 9, 9, 70]), torch.tensor([1, 2, 3, 70, 5])
    assert torch.equal(encoding(q, k, key_positions=n)[0], encoding(q, k, n[2:], n)[0])
    assert torch.equal(encoding(q, k, positions=m)[1], encoding(q, k)[1])


def test_a_module_can_be_copied():
    encoding, (q, k) = FoPE(16, heads=2, length=512, base=50.0).double(), content()
    assert torch.equal(copy.deepcopy(encoding)(q, k)[0], encoding(q, k)[0])


def test_settings_from_numpy_are_taken():
    encoding = FoPE(np.int64(16), np.int32(2), np.int64(512), base=np.float64(100))
    assert encoding(*content())[0].shape == (3, 4, 5, 16)


def test_without_an_end_to_the_length_every_frequency_is_kept():
    assert FoPE(64, heads=1, length=math.inf).cos_coef.shape == (1, 32, 32)


def test_the_defaults_are_those_of_the_authors():
    defaults = {name: parameter.default for name, parameter in inspect.signature(FoPE).parameters.items()}
    assert (defaults["base"], defaults["gain"]) == (10_000.0, 0.3)


def test_the_twin_takes_a_batch_whole():
    q, coef = content()[0].numpy(), np.random.default_rng(0).normal(size=(2, 4, 4))
    turned = fope(q, range(5), 512, cos_coef=coef, sin_coef=coef)
    np.testing.assert_array_equal(turned, [fope(row, range(5), 512, cos_coef=coef, sin_coef=coef) for row in q])


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(
    ("q", "k"),
    [((3, 3, 5, 16), (3, 3, 7, 16)), ((3, 4, 5, 16), (3, 1, 7, 16))],
)
def test_torch_refuses_heads_that_sets_do_not_divide(q, k):
    with pytest.raises(RuntimeError, match="unflatten"):
        FoPE(16, heads=2, length=512)(torch.zeros(q), torch.zeros(k))


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
    (q, k), encoding, at = content(5, 5), FoPE(16, heads=2, length=512), torch.zeros(shape)
    said = re.escape(f"fope: positions or table must be (5,) or (3, 5), got {shape}")
    for told in ({"positions": at}, {"key_positions": at}, {"table": encoding.table(at)}):
        with pytest.raises(ValueError, match=said):
            encoding(q, k, **told)


def test_new_tokens_without_a_place_are_refused():
    encoding = FoPE(16, heads=2, length=512)
    for t, s in ((1, 1), (7, 3)):
        with pytest.raises(ValueError, match=f"fope: positions must be given for {t} queries, {s} keys, got None"):
            encoding(*content(t, s))


SETTINGS = {"dim": [0, -2, 7], "length": [0, -1, 6, math.nan], "base": [0, -1, math.nan, math.inf]}


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name, values in SETTINGS.items() for wrong in values])
def test_wrong_settings_are_refused(name, wrong):
    with pytest.raises(ValueError, match=f"fope: {name} must be .*, got {wrong}"):
        FoPE(**({"dim": 16, "heads": 2, "length": 512} | {name: wrong}))
    if name != "dim":
        with pytest.raises(ValueError, match=f"fope: {name} must be .*, got {wrong}"):
            fope(np.zeros((4, 5, 16)), range(5), **({"length": 512} | {name: wrong}))


def test_the_numpy_function_refuses_an_odd_width():
    with pytest.raises(ValueError, match="fope: dim must be even and at least 2, got 15"):
        fope(np.zeros((4, 5, 15)), range(5), 512)


def test_the_numpy_function_takes_one_position_a_row():
    for positions in (3, [3], [0, 1], [[0, 1, 2, 3]]):
        with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
            fope(np.zeros((4, 3, 16)), positions, 512)


@pytest.mark.parametrize("sets", [3, 8])
def test_the_numpy_function_takes_sets_that_divide_the_heads(sets):
    coef = np.zeros((sets, 4, 4))
    with pytest.raises(ValueError, match="could not be broadcast"):
        fope(np.zeros((4, 5, 16)), range(5), 512, cos_coef=coef, sin_coef=coef)
