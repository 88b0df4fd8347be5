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
    d, group = q.shape[-1], len(q) // len(k)
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
places = st.lists(st.integers(-8000, 8000), min_size=1, max_size=4)


def content(t, s, d=16, heads=2, groups=1, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(1, heads, t, d, generator=generator), torch.randn(1, groups, s, d, generator=generator))
    return tuple(x.to(dtype) for x in made)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def twin(q, k, positions, key_positions, **options):
    return torch.from_numpy(xpos(q[0], k[0], positions, key_positions, **options))[None]


# Values worked by hand


def test_the_scale_of_one_step_by_hand():
    # zeta_0 = 0.4 / 1.4 = 2/7; one scale_base further on, a query keeps 2/7 of its length and a key gains as much
    q, k = XPos(2, scale_base=3)(torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1, 2), torch.tensor([3]), torch.tensor([3]))
    turned = np.array([math.cos(3) - math.sin(3), math.sin(3) + math.cos(3)])
    np.testing.assert_allclose(q.flatten().numpy(), turned * 2 / 7, rtol=1e-6)
    np.testing.assert_allclose(k.flatten().numpy(), turned * 7 / 2, rtol=1e-6)


def test_a_score_by_hand():
    # at width 4, base 10,000: theta = 1, 1/100 and zeta = 2/7, 9/14; the offset is 2, a fourth of scale_base
    q, k = np.array([[[1.0, 2.0, 3.0, 4.0]]]), np.array([[[5.0, -1.0, 0.5, 2.0]]])
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
    made = scores(*XPos(16, center=7)(q, k))[0].diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(made, scores(q, k)[0].diagonal(dim1=-2, dim2=-1), rtol=1e-13, atol=1e-13)


def test_the_center_is_rotated_and_not_scaled():
    q, k = content(1, 1)
    p = torch.tensor([5])
    turned, key = XPos(16, center=5)(q, k, p, p)
    torch.testing.assert_close(turned.norm(dim=-1), q.norm(dim=-1))
    torch.testing.assert_close(key.norm(dim=-1), k.norm(dim=-1))


def test_an_endless_scale_base_is_rope():
    # the rotation written as a product of complex numbers
    q, k = content(4, 6)
    turned, keys = XPos(16, scale_base=1e200)(q, k)
    angle = torch.arange(6.0, dtype=torch.float64)[:, None] * 10_000 ** -torch.arange(0, 1, 0.125, dtype=torch.float64)
    turn = torch.polar(torch.ones_like(angle), angle)
    for made, x, by in ((turned, q, turn[2:]), (keys, k, turn)):
        expected = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * by).flatten(-2)
        torch.testing.assert_close(made, expected, rtol=1e-12, atol=1e-12)


@vectors("xpos")
def test_vectors(vector):
    q, k = (np.array(vector["inputs"][name]) for name in ("q", "k"))
    length, options = vector["params"]["seq_len"], {"scale_base": vector["params"]["scale_base"]}
    encoding = XPos(vector["params"]["head_dim"], center=length // 2, **options)
    turned, keys = encoding(torch.from_numpy(q), torch.from_numpy(k))
    assert_agrees(vector, turned, vector["expected"]["q"])
    assert_agrees(vector, keys, vector["expected"]["k"])
    places = np.arange(length)
    assert_agrees(vector, xpos(q[0], k[0], places, places, **options)[None], vector["expected"]["logits"])
    zeta = encoding.table(torch.tensor([length // 2 + 512]))[0, -4:]
    assert_agrees(vector, zeta, vector["expected"]["zeta"])


# What it does to attention


@given(m=places, n=places, shift=st.integers(-8000, 8000), center=st.integers(-300, 300))
@exactly
def test_scores_depend_on_the_offset_alone_wherever_the_center_is(m, n, shift, center):
    q, k = content(len(m), len(n), d=8)
    m, n = torch.tensor(m), torch.tensor(n)
    here = scores(*XPos(8)(q, k, m, n))
    size = here.abs().max().item()
    moved = scores(*XPos(8, center=center)(q, k, m + shift, n + shift))
    torch.testing.assert_close(moved, here, rtol=1e-9, atol=1e-10 * size)
    torch.testing.assert_close(twin(q, k, m, n), here, rtol=1e-9, atol=1e-10 * size)


def test_scores_fade_behind_the_query_and_grow_ahead():
    ones = torch.ones(1, 1, 1, 64, dtype=torch.float64)
    back = torch.arange(-2048, 2049, 512)
    sizes = [abs(scores(*XPos(64, base=1e300)(ones, ones, p[None], torch.tensor([0])))).item() for p in back]
    assert sizes == sorted(sizes, reverse=True)


def test_the_largest_score_of_ones_is_that_of_the_query_itself():
    ones = np.ones((1, 1, 64))
    behind = xpos(ones, np.ones((1, 2000, 64)), [2000], np.arange(2000, 0, -1))[0, 0]
    assert behind.argmax() == 0
    assert abs(behind[0] - 64) < 1e-12


def test_the_center_changes_what_is_rotated_and_no_score():
    q, k = content(5, 5)
    (q0, k0), (q9, k9) = XPos(16)(q, k), XPos(16, center=900)(q, k)
    assert not torch.allclose(q0, q9)
    assert not torch.allclose(k0, k9)
    torch.testing.assert_close(scores(q0, k0), scores(q9, k9), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("center", [0, 3, 2000])
def test_decoding_over_rotated_keys_equals_prefill(center):
    encoding, (q, k) = XPos(16, center=center), content(7, 7, heads=4, groups=2)
    whole = scores(*encoding(q, k))
    cache = k[:, :, :0]
    for p in range(7):
        at = torch.tensor([p])
        query, key = encoding(q[:, :, p : p + 1], k[:, :, p : p + 1], at, at)
        cache = torch.cat([cache, key], dim=2)
        torch.testing.assert_close(scores(query, cache), whole[:, :, p : p + 1, : p + 1], rtol=1e-12, atol=1e-12)


def test_a_token_becomes_the_same_in_a_call_of_any_length():
    q, k = content(6, 6)
    for center in (0, 2.5):
        encoding = XPos(16, center=center)
        whole, part = encoding(q, k), encoding(q[:, :, :2], k[:, :, :2])
        assert torch.equal(whole[0][:, :, :2], part[0])
        assert torch.equal(whole[1][:, :, :2], part[1])


def test_a_center_of_each_call_would_not_fit_cached_keys():
    # half the length, as libraries take it: rotated keys of a call of 6 and a query of a call of 600
    q, k = content(600, 600)
    whole = scores(*XPos(16)(q, k))
    cached, last = XPos(16, center=3)(q[:, :, :6], k[:, :, :6])[1], XPos(16, center=300)(q, k)[0][:, :, -1:]
    assert (scores(last, cached) - whole[:, :, -1:, :6]).abs().max() > 0.5
    same = XPos(16, center=3)(q, k)[0][:, :, -1:]
    torch.testing.assert_close(scores(same, cached), whole[:, :, -1:, :6], rtol=1e-10, atol=1e-10)


def test_key_heads_are_shared_by_groups_of_query_heads():
    q, k = content(4, 5, heads=6, groups=3)
    m, n = torch.tensor([9, 2, 3, 4]), torch.arange(5)
    turned, keys = XPos(16)(q, k, m, n)
    assert (turned.shape, keys.shape) == (q.shape, k.shape)
    torch.testing.assert_close(scores(turned, keys), twin(q, k, m, n), rtol=1e-12, atol=1e-12)


# How far it reaches, and how much is lost on the way


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_whole_reach_stays_finite(dtype):
    # content of 8 everywhere, and every product, also those ahead of the query
    encoding, x = XPos(64, center=16_384), torch.full((1, 1, 33, 64), 8.0, dtype=dtype)
    at = torch.linspace(0, 32_768, 33)
    q, k = encoding(x, x, at, at)
    assert q.isfinite().all()
    assert k.isfinite().all()
    assert scores(q.float(), k.float()).isfinite().all()
    assert (q.abs() >= torch.finfo(dtype).smallest_normal).all()


def test_float16_reaches_4_scale_base():
    encoding, x = XPos(64), torch.ones(1, 1, 2, 64, dtype=torch.float16)
    at = torch.tensor([-2048, 2048])
    q, k = encoding(x, x, at, at)
    assert k.isfinite().all()
    assert (q.norm(dim=-1) > 0.05).all()


def test_half_precision_would_overflow_further_out():
    encoding, x = XPos(64), torch.ones(1, 1, 1, 64)
    _, k = encoding(x, x, torch.tensor([0]), torch.tensor([6000]))
    assert k.half().isinf().any()
    assert k.bfloat16().isfinite().all()


@pytest.mark.parametrize(("p", "dtype"), [(60_000, torch.float32), (6_000, torch.float16)], ids=str)
def test_keys_out_of_reach_are_infinite_and_a_nearer_center_reaches_them(p, dtype):
    (q, k), at = content(1, 1, dtype=dtype), torch.tensor([p])
    assert not XPos(16)(q, k, at)[1].isfinite().all()
    made = scores(*(x.double() for x in XPos(16, center=p)(q, k, at)))
    torch.testing.assert_close(made, scores(q, k).double(), rtol=1e-2, atol=1e-2)


def test_the_numpy_function_refuses_what_no_center_can_reach():
    x = np.ones((1, 1, 2))
    assert np.isfinite(xpos(x, x, [32_768 + 10**7], [10**7])).all()
    with pytest.raises(ValueError, match=r"xpos: positions must be within 64 scale_base, got 64\.002 apart"):
        xpos(x, x, [0], [32_769])


def test_a_far_center_is_as_exact_as_a_near_one():
    q, k = content(3, 3, heads=2, dtype=torch.float32)
    m, n = torch.tensor([10**7, 10**7 - 1, 10**7 + 3000]), torch.tensor([10**7 - 5, 2**23, 10**7 - 4096])[[0, 2, 2]]
    made = scores(*(x.double() for x in XPos(16, center=10**7)(q, k, m, n)))
    expected = oracle(q[0].double().numpy(), k[0].double().numpy(), m, n)
    np.testing.assert_allclose(made[0].numpy(), expected, rtol=1e-6, atol=2e-6)
    exact = xpos(q[0], k[0], m, n)
    np.testing.assert_allclose(exact, expected, rtol=1e-8, atol=1e-8)


# Peers


def test_equals_rotary_embedding_torch_where_q_and_k_are_rotated_together():
    theirs = peer("rotary_embedding_torch").RotaryEmbedding(dim=32, use_xpos=True)
    q, k = content(50, 50, d=32, heads=3, groups=3, dtype=torch.float32)
    turned, keys = theirs.rotate_queries_and_keys(q, k)
    ours = XPos(32, center=25)(q, k)
    torch.testing.assert_close(ours, (turned, keys), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scores(*XPos(32)(q, k)), scores(turned, keys), rtol=1e-4, atol=1e-4)


def test_rotary_embedding_torch_decodes_with_a_center_that_does_not_fit_its_keys():
    theirs = peer("rotary_embedding_torch").RotaryEmbedding(dim=32, use_xpos=True)
    q, k = content(4096, 4096, d=32, heads=1, dtype=torch.float32)
    whole = scores(*theirs.rotate_queries_and_keys(q, k))[:, :, -1:]
    decoded = scores(*theirs.rotate_queries_with_cached_keys(q[:, :, -1:], k))
    correlation = torch.corrcoef(torch.stack([whole.flatten(), decoded.flatten()]))[0, 1]
    assert correlation < 0.95
    # it centers the keys on half of their number, 2048, and the query on half of one, 0
    at = torch.tensor([4095])
    query, keys = XPos(32)(q[:, :, -1:], k[:, :, :1], at, at)[0], XPos(32, center=2048)(q, k)[1]
    torch.testing.assert_close(decoded, scores(query, keys), rtol=1e-2, atol=1e-2)
    ours = scores(XPos(32)(q[:, :, -1:], k[:, :, :1], at, at)[0], XPos(32)(q, k)[1])
    torch.testing.assert_close(ours, whole, rtol=1e-2, atol=1e-2)


def test_equals_x_transformers_with_its_center():
    module = peer("x_transformers.x_transformers")
    q, k = content(41, 41, d=32, heads=2, groups=2, dtype=torch.float32)
    turns, scale = module.RotaryEmbedding(32, use_xpos=True).forward_from_seq_len(41)
    turned = module.apply_rotary_pos_emb(q, turns, scale)
    keys = module.apply_rotary_pos_emb(k, turns, scale**-1)
    torch.testing.assert_close(XPos(32, center=20)(q, k), (turned, keys), rtol=1e-4, atol=1e-4)


# Where tokens stand


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (2, 5), (3, 3), (1, 4)])
def test_queries_stand_at_the_last_of_the_places_of_the_keys(t, s):
    q, k = content(t, s)
    turned, keys = XPos(16)(q, k)
    assert (turned.shape, keys.shape) == (q.shape, k.shape)
    torch.testing.assert_close(scores(turned, keys), twin(q, k, np.arange(s - t, s), np.arange(s)))


@pytest.mark.parametrize(("t", "s"), [(1, 1), (5, 2)])
def test_new_tokens_without_a_default_place_are_refused(t, s):
    q, k = content(t, s)
    with pytest.raises(ValueError, match=f"xpos: positions must be given for {t} queries, {s} keys, got None"):
        XPos(16)(q, k)
    m, n = torch.arange(9, 9 + t), torch.arange(s)
    torch.testing.assert_close(scores(*XPos(16)(q, k, m, n)), twin(q, k, m, n))


def test_what_is_not_said_follows_from_what_is():
    q, k = content(2, 5)
    n = torch.tensor([9, 4, 4, 0, 1])
    assert torch.equal(XPos(16)(q, k, key_positions=n)[0], XPos(16)(q, k, n[3:], n)[0])
    assert torch.equal(XPos(16)(q, k, n[3:])[1], XPos(16)(q, k)[1])
    assert torch.equal(XPos(16)(k, k, n)[1], XPos(16)(k, k, n, n)[1])


def test_no_positions_in_numpy():
    assert xpos(np.zeros((2, 0, 4)), np.zeros((1, 3, 4)), [], [0, 1, 2]).shape == (2, 0, 3)


def test_a_width_of_2_has_one_pair():
    assert xpos(np.ones((1, 1, 2)), np.ones((1, 1, 2)), [1], [0])[0, 0, 0] == pytest.approx(
        2 * (2 / 7) ** (1 / 512) * math.cos(1)
    )


@pytest.mark.parametrize("positions", [torch.tensor([9, 0, 4, 4]), torch.arange(12).view(3, 4)], ids=["s", "b, s"])
def test_a_shared_table_gives_what_its_positions_give(positions):
    q, k = (x.expand(3, -1, -1, -1) for x in content(2, 4, dtype=torch.float32))
    encoding = XPos(16, center=2)
    made = encoding(q, k, table=encoding.table(positions))
    assert all(map(torch.equal, made, encoding(q, k, positions[..., 2:], positions)))


def test_a_table_holds_cosines_sines_and_scales():
    table = XPos(4, scale_base=10, center=1).table(torch.tensor([6]), torch.float64)[0]
    expected = [math.cos(6), math.cos(0.06), math.sin(6), math.sin(0.06), (2 / 7) ** 0.5, (9 / 14) ** 0.5]
    np.testing.assert_allclose(table, expected, rtol=1e-14)
    assert XPos(16).half().table(torch.arange(3)).dtype == torch.float32


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    (q, _), (_, k) = (content(3, 3, dtype=dtype) for dtype in dtypes)
    made = XPos(16)(q, k)
    assert tuple(x.dtype for x in made) == dtypes
    reference = XPos(16)(q.double(), k.double())
    for got, want in zip(made, reference, strict=True):
        torch.testing.assert_close(got, want.to(got.dtype), rtol=1e-3, atol=1e-6)


def test_one_row_of_positions_serves_a_batch():
    q, k, encoding = torch.randn(3, 4, 5, 16).double(), torch.randn(3, 2, 5, 16).double(), XPos(16)
    row = torch.randint(99, (1, 5))
    expected = encoding(q, k, row.expand(3, 5))
    for made in (encoding(q, k, row), encoding(q, k, row[0]), encoding(q, k, table=encoding.table(row, q.dtype))):
        assert all(map(torch.equal, made, expected))


def test_the_twin_takes_a_batch_whole():
    q, k = (np.concatenate([content(3, 4, seed=seed)[i].numpy() for seed in range(2)]) for i in range(2))
    m, n = np.array([9, 5, 7]), np.array([4, 4, 6, 8])
    np.testing.assert_array_equal(xpos(q, k, m, n), [xpos(*each, m, n) for each in zip(q, k, strict=True)])


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("shape", [(1,), (4,), (6,), (4096,), (5, 1), (1, 4), (2, 5)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    x, encoding, places = torch.zeros(3, 2, 5, 16), XPos(16), torch.zeros(shape)
    said = r"xpos: positions or table must be \(5,\) or \(3, 5\), got \("
    for told in ({"positions": places}, {"key_positions": places}, {"table": encoding.table(places)}):
        with pytest.raises(ValueError, match=said):
            encoding(x, x, **told)


def test_content_of_another_width_gives_no_result():
    for width in (4, 8, 15, 32):
        with pytest.raises(RuntimeError):
            XPos(16)(*content(5, 5, d=width))


def test_integers_are_refused():
    q, k = content(5, 5)
    for call in ((q.long(), k), (q, k.long())):
        with pytest.raises(ValueError, match=r"xpos: q and k must be floating point, got torch\.int64"):
            XPos(16)(*call)


WRONG = {"dim": [1, 7, 1.5], "base": [0, -1.0, math.nan, math.inf]}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    with pytest.raises(ValueError, match=f"xpos: .*{name}.* must be .*, got"):
        XPos(**{"dim": 4} | {name: value})
    if name != "dim":
        with pytest.raises(ValueError, match=f"xpos: .*{name}.* must be .*, got"):
            xpos(np.ones((1, 1, 4)), np.ones((1, 1, 4)), [0], [0], **{name: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"q": np.ones((1, 1, 3))}, "xpos: dim of q and k must be even and at least 2, got 3"),
        ({"q": np.ones((1, 1, 6))}, "broadcast"),
        ({"positions": [0, 1]}, "reshape"),
        ({"key_positions": []}, "reshape"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    told = {"q": np.ones((1, 1, 4)), "k": np.ones((1, 1, 4)), "positions": [0], "key_positions": [0]} | change
    with pytest.raises(ValueError, match=said):
        xpos(**told)


def test_the_defaults_are_those_of_the_paper():
    for function in (xpos, XPos):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["base"], defaults["scale_base"]) == (10_000, 512)
