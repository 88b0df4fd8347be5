"""PoPE: values worked by hand, three equal forms, the peak, the bounds of the phases, and what it refuses."""

import copy
import inspect
import math

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.attention import attention
from posenc.rotate.pope import PoPE, pope
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see encoding_inputs.py). The contract moves each parameter up from its start:
# phases that start at 0 would move into the dead zone of the clamp, so the clamp is tried with phases that start below.

OPTIONS = [
    {"init": "uniform"},
    {"bound": "wrap"},
    {"bound": "free", "base": 100.0},
    {"init": "uniform", "theta": tuple(0.75**c for c in range(16))},
]
LEARNED = {"phase"}


def oracle(q, k, positions, key_positions, base=10_000.0, phase=None, bound="clamp", theta=None):
    """Work out the definition with 60 digits: the cosine of the sum of two angles from those of each."""
    d = q.shape[-1]
    scores = np.zeros((len(q), q.shape[1], k.shape[1]))
    with mpmath.workdps(60):
        turn = 2 * mpmath.pi
        bounded = {"free": lambda x: x, "wrap": lambda x: x % -turn, "clamp": lambda x: min(max(x, -turn), 0)}[bound]
        phase = np.zeros((len(q), d)) if phase is None else phase
        delta = np.vectorize(lambda x: mpmath.expj(bounded(mpmath.mpf(x))), otypes=[object])(phase)
        softplus = np.vectorize(lambda x: mpmath.log1p(mpmath.exp(mpmath.mpf(float(x)))), otypes=[object])
        length_q = softplus(q)
        length_k = np.repeat(softplus(k), len(q) // len(k), axis=0)
        if theta is None:
            theta = [mpmath.mpf(base) ** (-mpmath.mpf(c) / d) for c in range(d)]
        for row, m in enumerate(positions.tolist()):
            for column, n in enumerate(key_positions.tolist()):
                waves = [mpmath.expj((mpmath.mpf(n) - m) * frequency) for frequency in theta]
                cosines = [[(x * y).real for x, y in zip(waves, of_head, strict=True)] for of_head in delta]
                products = length_q[:, row] * length_k[:, column] * np.array(cosines, dtype=object)
                scores[:, row, column] = products.sum(axis=-1).astype(float)
    return scores


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100))
each_bound = pytest.mark.parametrize("bound", ["clamp", "wrap", "free"])
LN2 = math.log(2)  # the softplus of 0


def content(t=7, s=7, dim=8, heads=4, groups=2, batch=3):
    """Return random q (b, h, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def with_phase(encoding, phase):
    encoding.phase.data = torch.as_tensor(phase, dtype=encoding.phase.dtype)
    return encoding


# Values worked by hand


def test_one_channel_scores_the_cosine_of_the_offset():
    zero = np.zeros((1, 3, 1))
    expected = LN2**2 * np.cos([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]])
    np.testing.assert_allclose(pope(zero, zero, range(3), range(3))[0], expected, rtol=1e-14)


def test_two_channels_by_hand():
    # theta = 1 and 100^(-1/2) = 1/10; softplus of ln 3 is ln 4, of ln 7 it is ln 8
    q = np.array([[[math.log(3), 0.0]]])
    k = np.array([[[0.0, math.log(7)]]])
    expected = math.log(4) * LN2 * math.cos(5) + LN2 * math.log(8) * math.cos(0.5)
    np.testing.assert_allclose(pope(q, k, [2], [7], base=100), [[[expected]]], rtol=1e-14)


def test_a_phase_is_added_to_the_angle_of_a_key_that_comes_later():
    zero = np.zeros((1, 1, 1))
    np.testing.assert_allclose(pope(zero, zero, [0], [1], phase=[[-1]]), [[[LN2**2]]], rtol=1e-14)
    np.testing.assert_allclose(pope(zero, zero, [1], [0], phase=[[-1]]), [[[LN2**2 * math.cos(2)]]], rtol=1e-14)


def test_there_are_as_many_frequencies_as_channels():
    # at width 3 and base 8: 1, 1/2, 1/4; q and k of 0 leave the kernel times ln(2)^2
    zero = np.zeros((1, 1, 3))
    kernel = math.cos(3) + math.cos(1.5) + math.cos(0.75)
    np.testing.assert_allclose(pope(zero, zero, [3], [0], base=8), [[[LN2**2 * kernel]]], rtol=1e-14)


def test_a_row_is_cosines_then_sines_of_the_magnitudes():
    zero = torch.zeros(1, 1, 1, 2, dtype=torch.float64)
    q, k = PoPE(2, heads=1, base=100)(zero, zero, torch.tensor([3]))
    expected = LN2 * np.array([math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)])
    np.testing.assert_allclose(q.detach().flatten(), expected, rtol=1e-14)
    np.testing.assert_allclose(k.flatten(), expected, rtol=1e-14)


# Three equal forms


@each_bound
def test_the_complex_the_cosine_and_the_doubled_form_agree(bound):
    q, k = content(5, 7, groups=4)
    phase = np.random.default_rng(0).uniform(-6, 0, (4, 8))
    m, n = torch.arange(2, 7), torch.arange(7)
    theta = 10_000.0 ** (-np.arange(8) / 8)
    complex_q = np.logaddexp(0, q.numpy()) * np.exp(1j * np.outer(m, theta))
    complex_k = np.logaddexp(0, k.numpy()) * np.exp(1j * (np.outer(n, theta) + phase[:, None]))
    products = np.real(np.conj(complex_q) @ np.swapaxes(complex_k, -1, -2))
    cosine = pope(q, k, m, n, phase=phase, bound=bound)
    doubled = scores(*with_phase(PoPE(8, heads=4, bound=bound).double(), phase)(q, k, m, n))
    np.testing.assert_allclose(cosine, products, atol=1e-12)
    np.testing.assert_allclose(doubled.detach(), products, atol=1e-12)


# Numbers of other libraries


@vectors("pope")
def test_scores_of_pope_pytorch_from_its_vectors(vector):
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    phase = np.array(vector["inputs"]["bias"])
    base = vector["params"]["theta"]
    _, heads, t, d = q.shape
    expected = vector["expected"]["logits"]
    assert_agrees(vector, pope(q, k, range(t), range(t), base=base, phase=phase), expected)
    encoding = with_phase(PoPE(d, heads, base=base).double(), phase)
    assert_agrees(vector, scores(*encoding(q, k)).detach(), expected)


@vectors("pope")
def test_queries_of_pope_pytorch_from_its_vectors_where_cosines_and_sines_alternate(vector):
    q = torch.tensor(vector["inputs"]["q"], dtype=torch.float64)
    rotated_q, _ = PoPE(q.shape[-1], q.shape[1]).double()(q, q)
    alternating = rotated_q.unflatten(-1, (2, -1)).mT.flatten(-2).detach()
    assert_agrees(vector, alternating, vector["expected"]["q_interleaved_re_im"])


# Peers


QUERIES, KEYS = torch.arange(2, 7), torch.arange(7)  # the libraries let queries stand at the last of the keys


@pytest.mark.parametrize("phase", [0.0, -2.0, 1.0, -7.0])
def test_scores_equal_those_of_pope_pytorch(phase):
    theirs = peer("PoPE_pytorch.pope").PoPE(8, heads=4).double()
    ours = PoPE(8, heads=4).double()
    theirs.bias.data = ours.phase.data = phase + torch.rand(4, 8, dtype=torch.float64)
    q, k = content(5, 7, groups=4)
    expected = scores(*theirs.apply_pope_to_qk(theirs(7), q, k))
    result = scores(*ours(q, k, QUERIES, KEYS))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)  # its frequencies are float32


def test_attention_equals_that_of_pope_pytorch_with_its_weights_loaded():
    theirs = peer("PoPE_pytorch.pope").PoPE(8, heads=4)
    ours = PoPE(8, heads=4)
    theirs.bias.data = -torch.rand(4, 8)
    ours.load_state_dict({"phase": theirs.bias.detach()})
    q, k = (x.float() for x in content(7, 7, groups=4))
    v = torch.randn(3, 4, 7, 8, generator=torch.Generator().manual_seed(1))
    attend = peer("PoPE_pytorch.attention").flash_attn_with_pope
    expected = attend(q, k, v, pos_emb=theirs(7), causal=True)
    torch.testing.assert_close(attention(q, k, v, ours, causal=True), expected, rtol=0, atol=2e-6)


def test_scores_equal_those_of_x_transformers_channel_by_channel_without_a_phase():
    library = peer("x_transformers.x_transformers")
    theirs = library.PolarEmbedding(8, 4)
    ours = PoPE(8, heads=4)
    q, k = (x.float() for x in content(5, 7, groups=4))
    angles, bias = theirs(torch.arange(7))
    expected = library.apply_polar_pos_emb(q, angles), library.apply_polar_pos_emb(k, angles)
    torch.testing.assert_close(ours(q, k, QUERIES, KEYS), expected, rtol=0, atol=1e-6)
    theirs.learned_bias.data = ours.phase.data[:, None] = -torch.rand(4, 1, 8)
    angles, bias = theirs(torch.arange(7))
    expected = scores(library.apply_polar_pos_emb(q, angles), library.apply_polar_pos_emb(k, angles + bias))
    torch.testing.assert_close(scores(*ours(q, k, QUERIES, KEYS)), expected, rtol=0, atol=1e-5)


def test_frequencies_given_equal_the_inv_freqs_of_pope_pytorch():
    theta = torch.rand(8)
    theirs = peer("PoPE_pytorch.pope").PoPE(8, heads=4, inv_freqs=theta)
    ours = PoPE(8, heads=4, theta=theta)
    theirs.bias.data = ours.phase.data = -torch.rand(4, 8)
    q, k = (x.float() for x in content(5, 7, groups=4))
    expected = scores(*theirs.apply_pope_to_qk(theirs(7), q, k))
    torch.testing.assert_close(scores(*ours(q, k, QUERIES, KEYS)), expected, rtol=0, atol=1e-5)


def test_a_part_of_the_channels_equals_partial_rotation_of_pope_pytorch():
    theirs = peer("PoPE_pytorch.pope").PoPE(6, heads=4)
    ours = PoPE(6, heads=4)
    theirs.bias.data = ours.phase.data = -torch.rand(4, 6)
    q, k = (x.float() for x in content(5, 7, groups=4))
    expected_q, expected_k = theirs.apply_pope_to_qk(theirs(7), q, k)
    rotated_q, rotated_k = ours(q[..., :6], k[..., :6], QUERIES, KEYS)
    rotated_q = torch.cat([rotated_q, q[..., 6:]], dim=-1)
    rotated_k = torch.cat([rotated_k, k[..., 6:]], dim=-1)
    assert rotated_q.shape == expected_q.shape == (3, 4, 5, 14)
    torch.testing.assert_close(scores(rotated_q, rotated_k), scores(expected_q, expected_k), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("dim", "shares", "size"), [(6, (3, 3), (3, 2)), (8, (5, 2, 1), (3, 2, 2))])
def test_a_table_of_several_axes_equals_axial_pope_of_pope_pytorch(dim, shares, size):
    theta = torch.block_diag(*(10_000.0 ** (-torch.arange(n, dtype=torch.float64) / n) for n in shares))
    theirs = peer("PoPE_pytorch.pope_nd").AxialPoPE(dim, heads=4, axial_dims=shares)
    ours = PoPE(dim, heads=4)
    positions = theirs.get_grid_positions(*size)
    theirs.bias.data = ours.phase.data = -torch.rand(4, dim)
    q, k = (x.float() for x in content(len(positions), len(positions), dim=dim, groups=4))
    expected = scores(*theirs.apply_pope_to_qk(theirs(positions), q, k))
    angle = (positions.double() @ theta)[None]  # an axis for heads
    table = angle.cos().float(), angle.sin().float()
    result = scores(ours.turn_q(q, table), ours.turn_k(k, table))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def test_pope_pytorch_returns_float32_for_bfloat16_and_ours_returns_bfloat16():
    theirs = peer("PoPE_pytorch.pope").PoPE(8, heads=4)
    q, k = (x.bfloat16() for x in content(groups=4))
    assert {x.dtype for x in theirs.apply_pope_to_qk(theirs(7), q, k)} == {torch.float32}
    assert {x.dtype for x in PoPE(8, heads=4)(q, k)} == {torch.bfloat16}


def test_the_uniform_start_of_both_libraries_crashes_and_ours_works():
    for build in (
        lambda: peer("PoPE_pytorch.pope").PoPE(8, heads=4, bias_uniform_init=True),
        lambda: peer("PoPE_pytorch.pope_nd").AxialPoPE(8, heads=4, bias_uniform_init=True),
        lambda: peer("x_transformers.x_transformers").PolarEmbedding(8, 4, bias_uniform_init=True),
    ):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            build()
    phase = PoPE(8, heads=4, init="uniform").phase
    assert phase.is_leaf
    assert phase.requires_grad
    assert len(phase.unique()) == phase.numel()


def test_pope_pytorch_cannot_share_keys_between_heads():
    theirs = peer("PoPE_pytorch.pope").PoPE(8, heads=4)
    q, k = content(groups=2)
    with pytest.raises(RuntimeError, match="size of tensor"):
        theirs.apply_pope_to_qk(theirs(7), q, k)


def test_pope_pytorch_loses_far_positions_and_ours_keeps_them():
    theirs = peer("PoPE_pytorch.pope").PoPE(8, heads=4)
    ours = PoPE(8, heads=4)
    q, k = (x.float() for x in content(4, 4, groups=4, batch=1))
    near, far = torch.arange(4), torch.arange(4) + 10**7 + 1
    expected = scores(*ours(q, k, near))
    assert (scores(*theirs.apply_pope_to_qk(theirs(far.float()), q, k)) - expected).abs().max() > 0.05
    torch.testing.assert_close(scores(*ours(q, k, far)), expected, rtol=0, atol=1e-5)


# The peak


def offset_curve(q, k, reach=40, **options):
    """Return the score of the query at 0 with the same key at every offset up to `reach`, before and after."""
    offsets = np.arange(-reach, reach + 1)
    keys = np.repeat(k[None, None], len(offsets), axis=1)
    return pope(q[None, None], keys, [0], offsets, **options)[0, 0]


def test_whatever_q_and_k_hold_the_score_is_highest_at_offset_0():
    rng = np.random.default_rng(0)
    for _ in range(500):
        q, k = rng.normal(0, 3, (2, 8))
        assert np.argmax(offset_curve(q, k)) == 40


def test_in_rope_what_they_hold_moves_the_peak():
    rng = np.random.default_rng(0)
    theta = 10_000.0 ** (-np.arange(4) / 4)
    waves = np.exp(1j * np.arange(-40, 41)[:, None] * theta)
    pairs = rng.normal(size=(500, 2, 4)) + 1j * rng.normal(size=(500, 2, 4))
    peaks = np.array([np.argmax(np.real((np.conj(q) * k * waves).sum(axis=-1))) for q, k in pairs])
    assert np.mean(peaks == 40) < 0.1


def test_a_phase_moves_the_peak_the_same_way_for_every_q_and_k():
    # delta = -3 theta: three keys ahead; delta = 3 theta - 2 pi: three keys back, where the clamp keeps its range
    rng = np.random.default_rng(0)
    theta = 10_000.0 ** (-np.arange(8) / 8)
    for _ in range(50):
        q, k = rng.normal(0, 3, (2, 8))
        assert np.argmax(offset_curve(q, k, phase=-3 * theta[None])) == 43
        assert np.argmax(offset_curve(q, k, phase=3 * theta[None] - 2 * math.pi)) == 37
        assert np.argmax(offset_curve(q, k, phase=3 * theta[None])) == 40  # above 0: clamped away
        assert np.argmax(offset_curve(q, k, phase=3 * theta[None], bound="free")) == 37


def test_every_score_where_key_and_query_stand_together_is_positive_without_a_phase():
    q, k = content(30, 30, groups=4)
    together = torch.full((30,), 1234)
    assert (scores(*PoPE(8, heads=4)(10 * q, 10 * k, together)) >= 0).all()
    assert (scores(*with_phase(PoPE(8, heads=4), torch.full((4, 8), -3.0))(q, k, together)) < 0).all()


def test_at_the_start_scores_fall_with_distance_on_average():
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 1, 1, 64, generator=generator)
    k = torch.randn(1, 1, 4000, 64, generator=generator)
    rotated_q, rotated_k = PoPE(64, heads=1)(q, k, torch.tensor([3999]), torch.arange(4000))
    by_distance = scores(rotated_q, rotated_k).flatten().flip(0)
    means = [by_distance[a:b].mean().item() for a, b in ((0, 4), (4, 40), (40, 400), (400, 4000))]
    assert means == sorted(means, reverse=True)
    assert means[0] > 2 * means[-1]


# The phases


def test_phases_start_at_0_or_spread_over_a_turn():
    assert torch.equal(PoPE(8, heads=4).phase, torch.zeros(4, 8))
    torch.manual_seed(0)
    phase = PoPE(64, heads=64, init="uniform").phase.detach()
    assert -2 * math.pi <= phase.min() < -6.2
    assert -0.1 < phase.max() <= 0
    assert abs(phase.mean() + math.pi) < 5 * 2 * math.pi / math.sqrt(12 * phase.numel())


def gradient(start, bound):
    """Return the gradient of phases that are all `start`, under a loss that tells keys apart."""
    encoding = with_phase(PoPE(8, heads=4, bound=bound).double(), torch.full((4, 8), start))
    loss = (scores(*encoding(*content())) * torch.arange(7)).sum()
    return torch.autograd.grad(loss, encoding.phase)[0]


@pytest.mark.parametrize("start", [1e-6, 0.1, 3.0, -6.29, -9.0])
def test_the_clamp_passes_no_gradient_outside_its_range_and_the_others_do(start):
    assert gradient(start, "clamp").count_nonzero() == 0
    assert gradient(start, "wrap").count_nonzero() == 32
    torch.testing.assert_close(gradient(start, "free"), gradient(start, "wrap"))


@pytest.mark.parametrize("start", [0.0, -1e-6, -3.0, -6.28])
def test_within_its_range_and_at_0_the_clamp_passes_the_gradient_as_it_is(start):
    torch.testing.assert_close(gradient(start, "clamp"), gradient(start, "free"))


@pytest.mark.parametrize(("bound", "returns"), [("clamp", False), ("wrap", True), ("free", True)])
def test_looking_back_lifts_phases_above_0_and_the_clamp_alone_never_lets_them_return(bound, returns):
    encoding = PoPE(8, heads=4, bound=bound).double()
    q, k = content(7, 7)
    optimizer = torch.optim.SGD(encoding.parameters(), lr=1e-3)
    behind = torch.ones(7, 7).tril(-1)

    def step(sign):
        optimizer.zero_grad()
        (sign * scores(*encoding(q, k)) * behind).sum().backward()
        optimizer.step()
        return encoding.phase.detach().clone()

    rewarded = step(-1)
    assert (rewarded > 0).all()
    moved = step(1) != rewarded
    assert moved.all() if returns else not moved.any()


def test_wrapped_and_free_phases_score_alike():
    phase = np.random.default_rng(0).uniform(-100, 100, (4, 8))
    q, k = content()
    wrapped = with_phase(PoPE(8, heads=4, bound="wrap").double(), phase)
    free = with_phase(PoPE(8, heads=4, bound="free").double(), phase)
    torch.testing.assert_close(scores(*wrapped(q, k)), scores(*free(q, k)), rtol=0, atol=1e-11)
    wrapped = pope(q, k, range(7), range(7), phase=phase, bound="wrap")
    free = pope(q, k, range(7), range(7), phase=phase, bound="free")
    np.testing.assert_allclose(wrapped, free, atol=1e-11)


# Attention


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_fused_attention_takes_the_scale_of_the_width_before(groups):
    q, k = content(groups=groups)
    v = torch.randn(3, groups, 7, 8, dtype=torch.float64)
    encoding = PoPE(8, heads=4, init="uniform").double()
    logits = torch.from_numpy(pope(q, k, range(7), range(7), phase=encoding.phase.detach()))
    ahead = torch.ones(7, 7).triu(1).bool()
    weights = (logits / 8**0.5).masked_fill(ahead, -math.inf).softmax(dim=-1)
    expected = weights @ v.repeat_interleave(4 // groups, dim=1)
    result = F.scaled_dot_product_attention(*encoding(q, k), v, scale=8**-0.5, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(result, expected)
    by_default = F.scaled_dot_product_attention(*encoding(q, k), v, is_causal=True, enable_gqa=True)
    assert (by_default - expected).abs().max() > 1e-3


def test_heads_share_keys_as_if_these_were_repeated():
    q, k = content(groups=2)
    encoding = PoPE(8, heads=4, init="uniform").double()
    torch.testing.assert_close(scores(*encoding(q, k)), scores(*encoding(q, k.repeat_interleave(2, dim=1))))


@given(m=shifts, n=shifts, shift=shifts)
@exactly
def test_scores_depend_on_the_offset_alone(m, n, shift):
    q, k = (x[0].numpy() for x in content(1, 1))
    phase = np.linspace(-6, 0, 32).reshape(4, 8)
    here = pope(q, k, [m], [n], phase=phase)
    there = pope(q, k, [m + shift], [n + shift], phase=phase)
    np.testing.assert_allclose(here, there, atol=1e-9)


def test_decoding_token_by_token_equals_encoding_at_once():
    q, k = content(7, 7)
    encoding = PoPE(8, heads=4, init="uniform").double()
    whole = scores(*encoding(q, k))
    cache = []
    for p in range(7):
        token = slice(p, p + 1)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], torch.tensor([p]))
        cache.append(new_k)
        torch.testing.assert_close(scores(new_q, torch.cat(cache, dim=2)), whole[:, :, token, : p + 1])


def test_left_padded_rows_take_their_own_positions():
    q, k = content(4, 4, batch=1)
    encoding = PoPE(8, heads=4).double()
    padded_q = torch.cat([torch.randn(1, 4, 3, 8).double(), q], dim=2)
    padded_k = torch.cat([torch.randn(1, 2, 3, 8).double(), k], dim=2)
    result = scores(*encoding(padded_q, padded_k, torch.tensor([[0, 0, 0, 0, 1, 2, 3]])))
    torch.testing.assert_close(result[..., 3:, 3:], scores(*encoding(q, k)))


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_worked_out_in_float32_and_rounded_once(dtype):
    q, k = (x.to(dtype) for x in content())
    encoding = PoPE(8, heads=4, init="uniform")
    rotated_q, rotated_k = encoding(q, k)
    exact_q, exact_k = encoding(q.float(), k.float())
    assert torch.equal(rotated_q, exact_q.to(dtype))
    assert torch.equal(rotated_k, exact_k.to(dtype))


def test_queries_and_keys_keep_each_its_dtype():
    q, k = content()
    rotated_q, rotated_k = PoPE(8, heads=4)(q.bfloat16(), k.float())
    assert (rotated_q.dtype, rotated_k.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("size", [25.0, 39.0, 41.0, 700.0, -30.0, -700.0])
def test_large_content_is_exact(size):
    q = torch.full((1, 1, 1, 4), size, dtype=torch.float64)
    result = scores(*PoPE(4, heads=1).double()(q, q, torch.zeros(1))).detach()
    np.testing.assert_allclose(result, pope(q, q, [0], [0]), rtol=1e-15)


def test_a_phase_stored_coarsely_is_bounded_in_the_precision_of_the_angles():
    encoding = with_phase(PoPE(8, heads=4).bfloat16(), torch.full((4, 8), -7.0))
    assert encoding.delta().tolist() == torch.full((4, 8), -2 * math.pi).tolist()


# The table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("positions", [torch.arange(7), torch.arange(21).view(3, 7)], ids=["t", "b, t"])
def test_a_table_serves_modules_with_other_phases(dtype, positions):
    q, k = (x.to(dtype) for x in content())
    cos, sin = PoPE(8, heads=4).table(positions, dtype)
    assert cos.shape == sin.shape == (*positions.shape[:-1], 1, 7, 8)
    for _ in range(2):
        encoding = PoPE(8, heads=4, init="uniform")
        rotated_q, rotated_k = encoding(q, k, positions)
        assert torch.equal(encoding.turn_q(q, (cos, sin)), rotated_q)
        assert torch.equal(encoding.turn_k(k, (cos, sin)), rotated_k)


def test_a_table_finer_or_coarser_than_the_content_is_taken():
    q, k = content()
    encoding = PoPE(8, heads=4)
    finer = encoding.table(torch.arange(7), torch.float64)
    assert encoding.turn_q(q.bfloat16(), finer).dtype == torch.bfloat16
    coarser = encoding.table(torch.zeros(7))
    assert torch.equal(encoding.turn_k(k, coarser)[..., :8], F.softplus(k, threshold=40))


@pytest.mark.parametrize("t", [8, 4])
def test_compiles_where_there_are_as_many_tokens_as_channels_or_heads(t):
    x = torch.randn(2, 4, t, 8)
    encoding = PoPE(8, heads=4).requires_grad_(False)
    torch._dynamo.reset()
    compiled = torch.compile(encoding, fullgraph=True, backend="eager", dynamic=True)
    assert all(map(torch.equal, compiled(x, x), encoding(x, x)))
    table = encoding.table(torch.arange(t))
    turn_q = torch.compile(encoding.turn_q, fullgraph=True, backend="eager", dynamic=True)
    assert torch.equal(turn_q(x, table), encoding.turn_q(x, table))


# Edges


@pytest.mark.parametrize(("t", "s"), [(3, 7), (7, 3), (1, 5), (1, 1), (0, 3), (0, 0)])
def test_any_numbers_of_queries_and_keys(t, s):
    q, k = content(t, s)
    m, n = torch.arange(9, 9 + t), torch.arange(s)
    result = scores(*PoPE(8, heads=4).double()(q, k, m, n)).detach()
    np.testing.assert_allclose(result, pope(q, k, m, n), atol=1e-13)


def test_a_module_can_be_copied():
    q, k = content()
    encoding = PoPE(8, heads=4, base=50.0, bound="wrap").double()
    assert all(map(torch.equal, copy.deepcopy(encoding)(q, k), encoding(q, k)))


def test_the_defaults_are_those_of_the_paper():
    defaults = {name: parameter.default for name, parameter in inspect.signature(PoPE).parameters.items()}
    assert (defaults["base"], defaults["init"], defaults["bound"]) == (10_000.0, "zero", "clamp")


def test_the_twin_takes_a_batch_whole():
    q, k = content(5, 7)
    m, n = np.arange(5.0) ** 1.5, np.arange(7.0)
    alone = [pope(q[row], k[row], m, n) for row in range(3)]
    np.testing.assert_array_equal(pope(q, k, m, n), alone)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_queries_of_other_heads_are_refused(heads):  # one phase would serve all, or (b, t, h, d) turn by its heads
    message = rf"pope: heads of q must be {heads}, .*, got \(3, 4, 7, 8\); or transpose"
    with pytest.raises(ValueError, match=message):
        PoPE(8, heads=heads)(*content())


@pytest.mark.parametrize("wrong", [lambda x: x[..., :1], lambda x: x[..., :6], lambda x: x.long()])
def test_content_of_another_form_is_refused(wrong):
    q, k = content()
    for inputs in ((wrong(q), k), (q, wrong(k))):
        with pytest.raises(ValueError, match=r"pope: q or k of dim 8 must be floats \(.*\), got torch\.\w+ \(3, "):
            PoPE(8, heads=4)(*inputs)


@pytest.mark.parametrize("shape", [(1,), (4,), (6,), (4096,), (5, 1), (1, 4), (2, 5), (5, 3), (3, 5, 1)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    q, k = content(5, 5)
    encoding = PoPE(8, heads=4)
    wrong = torch.zeros(shape)
    message = r"pope: positions or table must be \(5,\) or \(3, 5\), got \("
    with pytest.raises(ValueError, match=message):
        encoding(q, k, wrong)
    with pytest.raises(ValueError, match=message):
        encoding(q, k, torch.arange(5), wrong)
    with pytest.raises(ValueError, match=message):
        encoding.turn_q(q, encoding.table(wrong))
    with pytest.raises(ValueError, match=message):
        encoding.turn_k(k, encoding.table(wrong))


WRONG = {
    "theta": [[1.0] * 7, [1.0], 500_000],
    "base": [0, -1, math.nan, math.inf],
    "init": ["ones", None],
    "bound": ["clip", None],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    message = rf"pope: {name}( of dim)? must be .*, got"
    with pytest.raises(ValueError, match=message):
        PoPE(8, heads=4, **{name: value})
    if name != "init":
        with pytest.raises(ValueError, match=message):
            pope(*content(), range(7), range(7), **{name: value})


@pytest.mark.parametrize(
    "wrong", [{"positions": [3]}, {"positions": range(4)}, {"key_positions": [0]}, {"phase": np.zeros(8)}], ids=str
)
def test_the_numpy_function_takes_one_position_a_row_and_one_phase_a_head_and_channel(wrong):
    q, k = content(5, 7)
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        pope(q, k, **{"positions": range(5), "key_positions": range(7)} | wrong)
