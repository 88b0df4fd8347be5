"""xPos: values worked by hand, scores that depend on the offset alone, the center, the cache, and what it refuses."""

import inspect
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.rotate.xpos import XPos, xpos
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {},
    {"base": 100.0, "scale_base": 64.0},
    {"center": 400.0, "dim": 6},
]
REFUSED = {"far"}  # the class gives infinities there


def oracle(q, k, positions, key_positions, base=10_000.0, scale_base=512.0):
    """Work out the definition with 60 digits, one product at a time."""
    d = q.shape[-1]
    group = len(q) // len(k)
    scores = np.zeros((len(q), len(positions), len(key_positions)))
    with mpmath.workdps(60):
        for row, m in enumerate(positions.tolist()):
            for column, n in enumerate(key_positions.tolist()):
                for i in range(d // 2):
                    a, b = 2 * i, 2 * i + 1
                    angle = (mpmath.mpf(m) - n) * mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / d)
                    zeta = (mpmath.mpf(2 * i) / d + mpmath.mpf(2) / 5) / (mpmath.mpf(7) / 5)
                    scale = zeta ** ((mpmath.mpf(m) - n) / scale_base)
                    cos, sin = scale * mpmath.cos(angle), scale * mpmath.sin(angle)
                    for h in range(len(q)):
                        (x, y), (u, v) = q[h, row, [a, b]].tolist(), k[h // group, column, [a, b]].tolist()
                        scores[h, row, column] += float((x * u + y * v) * cos + (x * v - y * u) * sin)
    return scores


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
position_lists = st.lists(st.integers(-8000, 8000), min_size=1, max_size=4)


def content(t, s, d=16, heads=2, groups=1, dtype=torch.float64, seed=0):
    """Return random q (1, h, t, d) and k (1, g, s, d)."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(1, heads, t, d, generator=generator)
    k = torch.randn(1, groups, s, d, generator=generator)
    return q.to(dtype), k.to(dtype)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def twin(q, k, positions, key_positions):
    """Return the scores (1, h, t, s) of the NumPy function."""
    return torch.from_numpy(xpos(q[0], k[0], positions, key_positions))[None]


# Values worked by hand


def test_the_scale_of_one_step_by_hand():
    # zeta_0 = 0.4 / 1.4 = 2/7; one scale_base further on, a query keeps 2/7 of its length and a key gains as much
    ones = torch.ones(1, 1, 1, 2)
    q, k = XPos(2, scale_base=3)(ones, ones, torch.tensor([3]))
    turned = np.array([math.cos(3) - math.sin(3), math.sin(3) + math.cos(3)])
    np.testing.assert_allclose(q.flatten().numpy(), turned * 2 / 7, rtol=1e-6)
    np.testing.assert_allclose(k.flatten().numpy(), turned * 7 / 2, rtol=1e-6)


def test_a_score_by_hand():
    # at width 4, base 10,000: theta = 1, 1/100 and zeta = 2/7, 9/14; the offset is 2, a fourth of scale_base
    q = np.array([[[1.0, 2.0, 3.0, 4.0]]])
    k = np.array([[[5.0, -1.0, 0.5, 2.0]]])
    fast = (2 / 7) ** 0.25 * ((5 - 2) * math.cos(2) + (-1 - 10) * math.sin(2))
    slow = (9 / 14) ** 0.25 * ((1.5 + 8) * math.cos(0.02) + (6 - 2) * math.sin(0.02))
    np.testing.assert_allclose(xpos(q, k, [7], [5], scale_base=8), [[[fast + slow]]], rtol=1e-14)


def test_the_slowest_pair_fades_least():
    # each pair of ones alone, one scale_base behind and with slow turns only: what is left is zeta_i
    channels = np.repeat(np.eye(4), 2, axis=1)[:, None]  # head i has pair i
    left = xpos(channels, channels, [512], [0], base=1e300)[1:, 0, 0] / 2
    np.testing.assert_allclose(left, [0.65 / 1.4, 0.9 / 1.4, 1.15 / 1.4], rtol=1e-12)


def test_no_offset_leaves_the_plain_product():
    q, k = content(3, 3)
    result = scores(*XPos(16, center=7)(q, k)).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(result, scores(q, k).diagonal(dim1=-2, dim2=-1), rtol=1e-13, atol=1e-13)


def test_the_center_is_rotated_and_not_scaled():
    q, k = content(1, 1)
    rotated_q, rotated_k = XPos(16, center=5)(q, k, torch.tensor([5]))
    torch.testing.assert_close(rotated_q.norm(dim=-1), q.norm(dim=-1))
    torch.testing.assert_close(rotated_k.norm(dim=-1), k.norm(dim=-1))


def test_an_endless_scale_base_is_rope():
    # the rotation written as a product of complex numbers
    q, k = content(6, 6)
    rotated_q, rotated_k = XPos(16, scale_base=1e200)(q, k)
    theta = 10_000 ** -torch.arange(0, 1, 0.125, dtype=torch.float64)
    angle = torch.arange(6)[:, None] * theta
    waves = torch.polar(torch.ones_like(angle), angle)
    for result, x in ((rotated_q, q), (rotated_k, k)):
        pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        expected = torch.view_as_real(pairs * waves).flatten(-2)
        torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)


@vectors("xpos")
def test_vectors(vector):
    q, k = (np.array(vector["inputs"][name]) for name in ("q", "k"))
    length, scale_base = vector["params"]["seq_len"], vector["params"]["scale_base"]
    encoding = XPos(vector["params"]["head_dim"], center=length // 2, scale_base=scale_base)
    rotated_q, rotated_k = encoding(torch.from_numpy(q), torch.from_numpy(k))
    assert_agrees(vector, rotated_q, vector["expected"]["q"])
    assert_agrees(vector, rotated_k, vector["expected"]["k"])
    positions = np.arange(length)
    logits = xpos(q[0], k[0], positions, positions, scale_base=scale_base)
    assert_agrees(vector, logits[None], vector["expected"]["logits"])
    _, _, scale = encoding.table(torch.tensor([length // 2 + 512]))
    assert_agrees(vector, scale[0, 0], vector["expected"]["zeta"])


# What it does to attention


@given(m=position_lists, n=position_lists, shift=st.integers(-8000, 8000), center=st.integers(-300, 300))
@exactly
def test_scores_depend_on_the_offset_alone_wherever_the_center_is(m, n, shift, center):
    q, k = content(len(m), len(n), d=8)
    m, n = torch.tensor(m), torch.tensor(n)
    here = scores(*XPos(8)(q, k, m, n))
    there = scores(*XPos(8, center=center)(q, k, m + shift, n + shift))
    size = here.abs().max().item()
    torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-10 * size)
    torch.testing.assert_close(twin(q, k, m, n), here, rtol=1e-9, atol=1e-10 * size)


def test_scores_fade_behind_the_query_and_grow_ahead():
    ones = torch.ones(1, 1, 1, 64, dtype=torch.float64)
    encoding = XPos(64, base=1e300)
    offsets = torch.arange(-2048, 2049, 512)
    sizes = [scores(*encoding(ones, ones, offset[None], torch.tensor([0]))).abs().item() for offset in offsets]
    assert sizes == sorted(sizes, reverse=True)


def test_the_largest_score_of_ones_is_that_of_the_query_itself():
    ones = np.ones((1, 1, 64))
    behind = xpos(ones, np.ones((1, 2000, 64)), [2000], np.arange(2000, 0, -1))[0, 0]
    assert behind.argmax() == 0
    assert abs(behind[0] - 64) < 1e-12


def test_the_center_changes_what_is_rotated_and_no_score():
    q, k = content(5, 5)
    near_q, near_k = XPos(16)(q, k)
    far_q, far_k = XPos(16, center=900)(q, k)
    assert not torch.allclose(near_q, far_q)
    assert not torch.allclose(near_k, far_k)
    torch.testing.assert_close(scores(near_q, near_k), scores(far_q, far_k), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("center", [0, 3, 2000])
def test_decoding_over_rotated_keys_equals_prefill(center):
    q, k = content(7, 7, heads=4, groups=2)
    encoding = XPos(16, center=center)
    whole = scores(*encoding(q, k))
    cache = k[:, :, :0]
    for p in range(7):
        token = slice(p, p + 1)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], torch.tensor([p]))
        cache = torch.cat([cache, new_k], dim=2)
        torch.testing.assert_close(scores(new_q, cache), whole[:, :, token, : p + 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("center", [0, 2.5])
def test_a_token_becomes_the_same_in_a_call_of_any_length(center):
    q, k = content(6, 6)
    encoding = XPos(16, center=center)
    whole_q, whole_k = encoding(q, k)
    part_q, part_k = encoding(q[:, :, :2], k[:, :, :2])
    assert torch.equal(whole_q[:, :, :2], part_q)
    assert torch.equal(whole_k[:, :, :2], part_k)


def test_a_center_of_each_call_would_not_fit_cached_keys():
    # half the length, as libraries take it: rotated keys of a call of 6 and a query of a call of 600
    q, k = content(600, 600)
    expected = scores(*XPos(16)(q, k))[:, :, -1:, :6]
    _, cached = XPos(16, center=3)(q[:, :, :6], k[:, :, :6])
    other_center, _ = XPos(16, center=300)(q, k)
    assert (scores(other_center[:, :, -1:], cached) - expected).abs().max() > 0.5
    same_center, _ = XPos(16, center=3)(q, k)
    torch.testing.assert_close(scores(same_center[:, :, -1:], cached), expected, rtol=1e-10, atol=1e-10)


def test_key_heads_are_shared_by_groups_of_query_heads():
    q, k = content(4, 5, heads=6, groups=3)
    m, n = torch.tensor([9, 2, 3, 4]), torch.arange(5)
    rotated_q, rotated_k = XPos(16)(q, k, m, n)
    assert (rotated_q.shape, rotated_k.shape) == (q.shape, k.shape)
    torch.testing.assert_close(scores(rotated_q, rotated_k), twin(q, k, m, n), rtol=1e-12, atol=1e-12)


# How far it reaches, and how much is lost on the way


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_whole_reach_stays_finite(dtype):
    # content of 8 everywhere, and every product, also those ahead of the query
    x = torch.full((1, 1, 33, 64), 8.0, dtype=dtype)
    q, k = XPos(64, center=16_384)(x, x, torch.linspace(0, 32_768, 33))
    assert q.isfinite().all()
    assert k.isfinite().all()
    assert scores(q.float(), k.float()).isfinite().all()
    assert (q.abs() >= torch.finfo(dtype).smallest_normal).all()


def test_float16_reaches_4_scale_base():
    x = torch.ones(1, 1, 2, 64, dtype=torch.float16)
    q, k = XPos(64)(x, x, torch.tensor([-2048, 2048]))
    assert k.isfinite().all()
    assert (q.norm(dim=-1) > 0.05).all()


def test_half_precision_would_overflow_further_out():
    x = torch.ones(1, 1, 1, 64)
    _, k = XPos(64)(x, x, torch.tensor([6000]))
    assert k.half().isinf().any()
    assert k.bfloat16().isfinite().all()


@pytest.mark.parametrize(("p", "dtype"), [(60_000, torch.float32), (6_000, torch.float16)], ids=str)
def test_keys_out_of_reach_are_infinite_and_a_nearer_center_reaches_them(p, dtype):
    q, k = content(1, 1, dtype=dtype)
    _, far_k = XPos(16)(q, k, torch.tensor([p]))
    assert not far_k.isfinite().all()
    rotated_q, rotated_k = XPos(16, center=p)(q, k, torch.tensor([p]))
    result = scores(rotated_q.double(), rotated_k.double())
    torch.testing.assert_close(result, scores(q, k).double(), rtol=1e-2, atol=1e-2)


def test_the_numpy_function_refuses_what_no_center_can_reach():
    x = np.ones((1, 1, 2))
    assert np.isfinite(xpos(x, x, [32_768 + 10**7], [10**7])).all()
    with pytest.raises(ValueError, match=r"xpos: positions must be within 64 scale_base, got 64\.002 apart"):
        xpos(x, x, [0], [32_769])


def test_a_far_center_is_as_exact_as_a_near_one():
    q, k = content(3, 3, heads=2, dtype=torch.float32)
    m = torch.tensor([10**7, 10**7 - 1, 10**7 + 3000])
    n = torch.tensor([10**7 - 5, 10**7 - 4096, 10**7 - 4096])
    rotated_q, rotated_k = XPos(16, center=10**7)(q, k, m, n)
    expected = oracle(q[0].double().numpy(), k[0].double().numpy(), m, n)
    result = scores(rotated_q.double(), rotated_k.double())
    np.testing.assert_allclose(result[0].numpy(), expected, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(xpos(q[0], k[0], m, n), expected, rtol=1e-8, atol=1e-8)


# Peers


def test_equals_rotary_embedding_torch_where_q_and_k_are_rotated_together():
    library = peer("rotary_embedding_torch").RotaryEmbedding(dim=32, use_xpos=True)
    q, k = content(50, 50, d=32, heads=3, groups=3, dtype=torch.float32)
    expected_q, expected_k = library.rotate_queries_and_keys(q, k)
    result = XPos(32, center=25)(q, k)
    torch.testing.assert_close(result, (expected_q, expected_k), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores(*XPos(32)(q, k)), scores(expected_q, expected_k), rtol=1e-4, atol=1e-4)


def test_rotary_embedding_torch_decodes_with_a_center_that_does_not_fit_its_keys():
    library = peer("rotary_embedding_torch").RotaryEmbedding(dim=32, use_xpos=True)
    q, k = content(4096, 4096, d=32, heads=1, dtype=torch.float32)
    whole = scores(*library.rotate_queries_and_keys(q, k))[:, :, -1:]
    decoded = scores(*library.rotate_queries_with_cached_keys(q[:, :, -1:], k))
    correlation = torch.corrcoef(torch.stack([whole.flatten(), decoded.flatten()]))[0, 1]
    assert correlation < 0.95
    # it centers the keys on half of their number, 2048, and the query on half of one, 0
    last, _ = XPos(32)(q[:, :, -1:], k[:, :, -1:], torch.tensor([4095]))
    _, keys = XPos(32, center=2048)(q, k)
    torch.testing.assert_close(decoded, scores(last, keys), rtol=1e-2, atol=1e-2)
    _, keys = XPos(32)(q, k)
    torch.testing.assert_close(scores(last, keys), whole, rtol=1e-2, atol=1e-2)


def test_equals_x_transformers_with_its_center():
    library = peer("x_transformers.x_transformers")
    q, k = content(41, 41, d=32, heads=2, groups=2, dtype=torch.float32)
    frequencies, scale = library.RotaryEmbedding(32, use_xpos=True).forward_from_seq_len(41)
    expected_q = library.apply_rotary_pos_emb(q, frequencies, scale)
    expected_k = library.apply_rotary_pos_emb(k, frequencies, scale**-1)
    torch.testing.assert_close(XPos(32, center=20)(q, k), (expected_q, expected_k), rtol=1e-4, atol=1e-4)


# Where tokens stand, and what a table holds


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (1, 1), (2, 5), (5, 2), (1, 4)])
def test_any_numbers_of_queries_and_keys(t, s):
    q, k = content(t, s)
    m, n = torch.arange(9, 9 + t), torch.arange(s)
    rotated_q, rotated_k = XPos(16)(q, k, m, n)
    assert (rotated_q.shape, rotated_k.shape) == (q.shape, k.shape)
    torch.testing.assert_close(scores(rotated_q, rotated_k), twin(q, k, m, n))


def test_no_positions_in_numpy():
    assert xpos(np.zeros((2, 0, 4)), np.zeros((1, 3, 4)), [], [0, 1, 2]).shape == (2, 0, 3)


def test_a_width_of_2_has_one_pair():
    ones = np.ones((1, 1, 2))
    assert xpos(ones, ones, [1], [0])[0, 0, 0] == pytest.approx(2 * (2 / 7) ** (1 / 512) * math.cos(1))


@pytest.mark.parametrize("positions", [torch.tensor([9, 0, 4, 4]), torch.arange(12).view(3, 4)], ids=["t", "b, t"])
def test_a_shared_table_gives_what_its_positions_give(positions):
    q, k = (x.expand(3, -1, -1, -1) for x in content(4, 4, dtype=torch.float32))
    encoding = XPos(16, center=2)
    table = encoding.table(positions)
    rotated_q, rotated_k = encoding(q, k, positions)
    assert torch.equal(encoding.turn_q(q, table), rotated_q)
    assert torch.equal(encoding.turn_k(k, table), rotated_k)


def test_a_table_holds_cosines_sines_and_scales():
    cos, sin, scale = XPos(4, scale_base=10, center=1).table(torch.tensor([6]), torch.float64)
    np.testing.assert_allclose(cos, [[[math.cos(6), math.cos(0.06)]]], rtol=1e-14)
    np.testing.assert_allclose(sin, [[[math.sin(6), math.sin(0.06)]]], rtol=1e-14)
    np.testing.assert_allclose(scale, [[[(2 / 7) ** 0.5, (9 / 14) ** 0.5]]], rtol=1e-14)
    assert {part.dtype for part in XPos(16).half().table(torch.arange(3))} == {torch.float32}


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    q, k = (x.to(dtype) for x, dtype in zip(content(3, 3), dtypes, strict=True))
    rotated_q, rotated_k = XPos(16)(q, k)
    assert (rotated_q.dtype, rotated_k.dtype) == dtypes
    expected_q, expected_k = XPos(16)(q.double(), k.double())
    torch.testing.assert_close(rotated_q, expected_q.to(rotated_q.dtype), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(rotated_k, expected_k.to(rotated_k.dtype), rtol=1e-3, atol=1e-6)


def test_the_twin_takes_a_batch_whole():
    q = np.concatenate([content(3, 4, seed=seed)[0] for seed in range(2)])
    k = np.concatenate([content(3, 4, seed=seed)[1] for seed in range(2)])
    m, n = np.array([9, 5, 7]), np.array([4, 4, 6, 8])
    np.testing.assert_array_equal(xpos(q, k, m, n), [xpos(q[0], k[0], m, n), xpos(q[1], k[1], m, n)])


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("shape", [(1,), (4,), (6,), (4096,), (5, 1), (1, 4), (2, 5)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    x = torch.zeros(3, 2, 5, 16)
    encoding = XPos(16)
    wrong = torch.zeros(shape)
    message = r"xpos: positions or table must be \(5,\) or \(3, 5\), got \("
    with pytest.raises(ValueError, match=message):
        encoding(x, x, wrong)
    with pytest.raises(ValueError, match=message):
        encoding(x, x, torch.arange(5), wrong)
    for turn in (encoding.turn_q, encoding.turn_k):
        with pytest.raises(ValueError, match=message):
            turn(x, encoding.table(wrong))


def test_content_of_another_width_gives_no_result():
    for width in (4, 8, 15, 32):
        with pytest.raises(RuntimeError):
            XPos(16)(*content(5, 5, d=width))


def test_integers_are_refused():
    q, k = content(5, 5)
    for inputs in ((q.long(), k), (q, k.long())):
        with pytest.raises(ValueError, match=r"xpos: q and k must be floating point, got torch\.int64"):
            XPos(16)(*inputs)


WRONG = {"dim": [1, 7, 1.5], "base": [0, -1.0, math.nan, math.inf]}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    message = f"xpos: .*{name}.* must be .*, got"
    with pytest.raises(ValueError, match=message):
        XPos(**{"dim": 4} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=message):
            xpos(np.ones((1, 1, 4)), np.ones((1, 1, 4)), [0], [0], **{name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": np.ones((1, 1, 3))}, "xpos: dim of q and k must be even and at least 2, got 3"),
        ({"q": np.ones((1, 1, 6))}, "broadcast"),
        ({"positions": [0, 1]}, "reshape"),
        ({"key_positions": []}, "reshape"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    arguments = {"q": np.ones((1, 1, 4)), "k": np.ones((1, 1, 4)), "positions": [0], "key_positions": [0]}
    with pytest.raises(ValueError, match=message):
        xpos(**arguments | change)


def test_the_defaults_are_those_of_the_paper():
    for function in (xpos, XPos):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["base"], defaults["scale_base"]) == (10_000, 512)
