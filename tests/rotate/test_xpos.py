"""xPos: values worked by hand, the center that no score sees, how far it reaches, its peers, and what is refused."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.rotate.rope import RoPE
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


def content(t, s, d=16, heads=2, groups=1, dtype=torch.float64):
    """Return random q (1, h, t, d) and k (1, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, heads, t, d, generator=generator)
    k = torch.randn(1, groups, s, d, generator=generator)
    return q.to(dtype), k.to(dtype)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


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


def test_a_table_holds_cosines_sines_and_scales():
    # theta = 1, 1/100; position 6 is half a scale_base behind the center
    # however coarse the content, a table is of float32 or finer
    cos, sin, scale = XPos(4, scale_base=10, center=1).table(torch.tensor([6]), torch.float16)
    torch.testing.assert_close(cos, torch.tensor([[[math.cos(6), math.cos(0.06)]]]))
    torch.testing.assert_close(sin, torch.tensor([[[math.sin(6), math.sin(0.06)]]]))
    torch.testing.assert_close(scale, torch.tensor([[[(2 / 7) ** 0.5, (9 / 14) ** 0.5]]]))


@vectors("xpos")
def test_vectors(vector):
    q, k = (np.array(vector["inputs"][name]) for name in ("q", "k"))
    length, scale_base = vector["params"]["seq_len"], vector["params"]["scale_base"]
    encoding = XPos(vector["params"]["head_dim"], center=length // 2, scale_base=scale_base)
    turned_q, turned_k = encoding(torch.from_numpy(q), torch.from_numpy(k))
    assert_agrees(vector, turned_q, vector["expected"]["q"])
    assert_agrees(vector, turned_k, vector["expected"]["k"])
    positions = np.arange(length)
    logits = xpos(q[0], k[0], positions, positions, scale_base=scale_base)
    assert_agrees(vector, logits[None], vector["expected"]["logits"])
    _, _, scale = encoding.table(torch.tensor([length // 2 + 512]))
    assert_agrees(vector, scale[0, 0], vector["expected"]["zeta"])


# What it does to attention


def test_an_endless_scale_base_is_rope():
    q, k = content(6, 6)
    expected = RoPE(16, layout="interleaved")(q, k)
    torch.testing.assert_close(XPos(16, scale_base=1e200)(q, k), expected, rtol=0, atol=1e-12)


def test_scores_fade_behind_the_query_and_grow_ahead():
    # every 512 positions from 2048 ahead of the query to 2048 behind it, with slow turns only
    keys = np.arange(2048, -2049, -512)
    sizes = xpos(np.ones((1, 1, 64)), np.ones((1, 9, 64)), [0], keys, base=1e300)[0, 0]
    assert sizes.tolist() == sorted(sizes, reverse=True)


def test_the_center_is_turned_and_not_scaled():
    q, k = content(1, 1)
    turned_q, turned_k = XPos(16, center=5)(q, k, torch.tensor([5]))
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1))
    torch.testing.assert_close(turned_k.norm(dim=-1), k.norm(dim=-1))


def test_the_center_changes_queries_and_keys_and_no_score():
    q, k = content(5, 5)
    near_q, near_k = XPos(16)(q, k)
    far_q, far_k = XPos(16, center=900)(q, k)
    assert not torch.allclose(near_q, far_q)
    assert not torch.allclose(near_k, far_k)
    torch.testing.assert_close(scores(near_q, near_k), scores(far_q, far_k), rtol=1e-12, atol=1e-12)


# How far it reaches


@pytest.mark.parametrize(
    ("dtype", "reach"), [(torch.float32, 32), (torch.bfloat16, 32), (torch.float16, 4)], ids=["32", "b16", "16"]
)
def test_queries_and_keys_stay_within_their_dtype_up_to_a_reach_from_the_center(dtype, reach):
    # the fastest pair of a key grows by 3.5 each scale_base: 3.5^32 = 3e17, 3.5^4 = 150
    x = torch.full((1, 1, 3, 64), 8.0, dtype=dtype)
    q, k = XPos(64, center=1000)(x, x, 1000 + torch.tensor([-512, 0, 512]) * reach)
    assert q.isfinite().all()
    assert k.isfinite().all()
    assert (q.norm(dim=-1) > 0).all()
    assert (k.norm(dim=-1) > 0).all()


@pytest.mark.parametrize(("p", "dtype"), [(60_000, torch.float32), (6_000, torch.float16)], ids=str)
def test_keys_out_of_reach_are_infinite_and_a_nearer_center_reaches_them(p, dtype):
    q, k = content(1, 1, dtype=dtype)
    _, far_k = XPos(16)(q, k, torch.tensor([p]))
    assert not far_k.isfinite().all()
    turned_q, turned_k = XPos(16, center=p)(q, k, torch.tensor([p]))
    result = scores(turned_q.double(), turned_k.double())
    torch.testing.assert_close(result, scores(q, k).double(), rtol=1e-2, atol=1e-2)


def test_the_numpy_function_refuses_what_no_center_can_reach():
    x = np.ones((1, 1, 2))
    assert np.isfinite(xpos(x, x, [32_768 + 10**7], [10**7])).all()
    with pytest.raises(ValueError, match=r"xpos: positions must be within 64 scale_base, got 64\.002 apart"):
        xpos(x, x, [0], [32_769])


def test_a_far_center_is_as_exact_as_a_near_one():
    q, k = content(3, 3, dtype=torch.float32)
    center = 2**24 + 4097  # no number of float32, as most of these
    m = torch.tensor([center, center - 1, center + 3000])
    n = torch.tensor([center - 6, center - 4096, center - 4096])
    turned_q, turned_k = XPos(16, center=center)(q, k, m, n)
    expected = oracle(q[0].double().numpy(), k[0].double().numpy(), m, n)
    result = scores(turned_q.double(), turned_k.double())
    np.testing.assert_allclose(result[0].numpy(), expected, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(xpos(q[0], k[0], m, n), expected, rtol=1e-8, atol=1e-8)


# Peers, which center each call on half its length


def test_equals_rotary_embedding_torch_where_q_and_k_are_turned_together():
    library = peer("rotary_embedding_torch").RotaryEmbedding(dim=32, use_xpos=True)
    q, k = content(50, 50, d=32, heads=3, groups=3, dtype=torch.float32)
    expected = library.rotate_queries_and_keys(q, k)
    torch.testing.assert_close(XPos(32, center=25)(q, k), expected, rtol=1e-4, atol=1e-4)


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


# What the NumPy function takes, and what is refused


def test_the_numpy_function_takes_a_batch_whole():
    q, k = (np.random.default_rng(0).normal(size=(2, heads, 3, 8)) for heads in (4, 2))
    m, n = [9, 5, 7], [4, 4, 6]
    np.testing.assert_array_equal(xpos(q, k, m, n), [xpos(q[0], k[0], m, n), xpos(q[1], k[1], m, n)])


def test_no_queries_have_no_scores():
    assert xpos(np.zeros((2, 0, 4)), np.zeros((1, 3, 4)), [], [0, 1, 2]).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"q": torch.zeros(3, 2, 5, 16).long()},
            "q or k must have shape (b, h, t, 16) and a float dtype, got torch.int64",
        ),
        ({"q": torch.zeros(3, 2, 5, 2)}, "q or k must have shape (b, h, t, 16) and a float dtype, got torch.float32"),
        ({"positions": torch.arange(1)}, "positions or table must have shape (5,) or (3, 5), got (1,)"),
        ({"key_positions": torch.zeros(2, 5)}, "positions or table must have shape (5,) or (3, 5), got (2, 5)"),
    ],
    ids=["integers", "another width", "one position", "another batch"],
)
def test_what_does_not_fit_is_refused(change, message):
    x = torch.zeros(3, 2, 5, 16)
    with pytest.raises(ValueError, match=re.escape(f"xpos: {message}")):
        XPos(16)(**{"q": x, "k": x, "positions": torch.arange(5)} | change)


def test_an_odd_width_is_refused_by_class_and_function():
    with pytest.raises(ValueError, match="xpos: dim of q and k must be even and at least 2, got 3"):
        XPos(3)
    with pytest.raises(ValueError, match="xpos: dim of q and k must be even and at least 2, got 3"):
        xpos(np.ones((1, 1, 3)), np.ones((1, 1, 3)), [0], [0])
