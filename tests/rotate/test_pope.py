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
    d, group = q.shape[-1], len(q) // len(k)
    scores = np.zeros((len(q), q.shape[1], k.shape[1]))
    with mpmath.workdps(60):
        turn = 2 * mpmath.pi
        delta = np.vectorize(mpmath.mpf, otypes=[object])(np.zeros((len(q), d)) if phase is None else phase)
        kept = {"free": lambda x: x, "wrap": lambda x: x % -turn, "clamp": lambda x: min(max(x, -turn), 0)}[bound]
        delta = np.vectorize(lambda x: mpmath.expj(kept(x)), otypes=[object])(delta)
        softplus = np.vectorize(lambda x: mpmath.log1p(mpmath.exp(mpmath.mpf(float(x)))), otypes=[object])
        of_q, of_k = softplus(q), np.repeat(softplus(k), group, axis=0)
        own = [mpmath.mpf(base) ** (-mpmath.mpf(c) / d) for c in range(d)] if theta is None else theta
        for row, m in enumerate(positions.tolist()):
            for column, n in enumerate(key_positions.tolist()):
                turned = [mpmath.expj((mpmath.mpf(n) - m) * each) for each in own]
                cosines = [[(x * y).real for x, y in zip(turned, of_head, strict=True)] for of_head in delta]
                products = of_q[:, row] * of_k[:, column] * np.array(cosines, dtype=object)
                scores[:, row, column] = products.sum(axis=-1).astype(float)
    return scores


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100))
each_bound = pytest.mark.parametrize("bound", ["clamp", "wrap", "free"])
LN2 = math.log(2)  # the softplus of 0


def content(t=5, s=7, dim=8, heads=4, groups=2, batch=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
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
    q, k = np.array([[[math.log(3), 0.0]]]), np.array([[[0.0, math.log(7)]]])
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
    q, k = PoPE(2, heads=1, base=100)(torch.zeros(1, 1, 1, 2).double(), torch.zeros(1, 1, 4, 2).double())
    expected = LN2 * np.array([math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)])
    np.testing.assert_allclose(q.detach().flatten().numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(k[0, 0, 3].numpy(), expected, rtol=1e-14)


# Three equal forms


@each_bound
def test_the_complex_the_cosine_and_the_doubled_form_agree(bound):
    q, k = content(groups=4)
    phase = np.random.default_rng(0).uniform(-6, 0, (4, 8))
    m, n, theta = np.arange(2, 7), np.arange(7), 10_000.0 ** (-np.arange(8) / 8)
    complex_q = np.logaddexp(0, q.numpy()) * np.exp(1j * m[:, None] * theta)
    complex_k = np.logaddexp(0, k.numpy()) * np.exp(1j * (n[:, None] * theta + phase[:, None]))
    products = np.real(np.conj(complex_q) @ np.swapaxes(complex_k, -1, -2))
    cosine = np.stack([pope(q[row], k[row], m, n, phase=phase, bound=bound) for row in range(3)])
    doubled = scores(*with_phase(PoPE(8, heads=4, bound=bound).double(), phase)(q, k)).detach().numpy()
    np.testing.assert_allclose(cosine, products, atol=1e-12)
    np.testing.assert_allclose(doubled, products, atol=1e-12)


# Numbers of other libraries


@vectors("pope")
def test_scores_of_pope_pytorch_from_its_vectors(vector):
    q, k = (np.array(vector["inputs"][name])[0] for name in "qk")
    phase, places = np.array(vector["inputs"]["bias"]), np.arange(q.shape[1])
    base = vector["params"]["theta"]
    actual = pope(q, k, places, places, base=base, phase=phase)
    assert_agrees(vector, actual[None], vector["expected"]["logits"])
    encoding = with_phase(PoPE(q.shape[-1], len(q), base=base).double(), phase)
    made = scores(*encoding(torch.from_numpy(q)[None], torch.from_numpy(k)[None])).detach()
    assert_agrees(vector, made, vector["expected"]["logits"])


@vectors("pope")
def test_queries_of_pope_pytorch_from_its_vectors_where_cosines_and_sines_alternate(vector):
    q = torch.tensor(vector["inputs"]["q"], dtype=torch.float64)
    turned, _ = PoPE(q.shape[-1], q.shape[1]).double()(q, q)
    alternating = turned.unflatten(-1, (2, -1)).mT.flatten(-2).detach()
    assert_agrees(vector, alternating, vector["expected"]["q_interleaved_re_im"])


# Peers


@pytest.mark.parametrize("phase", [0.0, -2.0, 1.0, -7.0])
def test_scores_equal_those_of_pope_pytorch(phase):
    library = peer("PoPE_pytorch.pope")
    theirs, ours = library.PoPE(8, heads=4).double(), PoPE(8, heads=4).double()
    theirs.bias.data = ours.phase.data = phase + torch.rand(4, 8, dtype=torch.float64)
    q, k = content(groups=4)
    expected = scores(*theirs.apply_pope_to_qk(theirs(7), q, k))
    torch.testing.assert_close(scores(*ours(q, k)), expected, rtol=0, atol=1e-6)  # its frequencies are float32


def test_attention_equals_that_of_pope_pytorch_with_its_weights_loaded():
    theirs, ours = peer("PoPE_pytorch.pope").PoPE(8, heads=4), PoPE(8, heads=4)
    theirs.bias.data = -torch.rand(4, 8)
    ours.load_state_dict({"phase": theirs.bias.detach()})
    q, k = (x.float() for x in content(7, 7, groups=4))
    v = torch.randn(3, 4, 7, 8, generator=torch.Generator().manual_seed(1))
    attend = peer("PoPE_pytorch.attention").flash_attn_with_pope
    expected = attend(q, k, v, pos_emb=theirs(7), causal=True)
    torch.testing.assert_close(attention(q, k, v, ours, causal=True), expected, rtol=0, atol=2e-6)


def test_scores_equal_those_of_x_transformers_channel_by_channel_without_a_phase():
    library = peer("x_transformers.x_transformers")
    theirs, ours = library.PolarEmbedding(8, 4), PoPE(8, heads=4)
    q, k = (x.float() for x in content(groups=4))
    angles, bias = theirs(torch.arange(7))
    expected = [library.apply_polar_pos_emb(x, angles) for x in (q, k)]
    torch.testing.assert_close(list(ours(q, k)), expected, rtol=0, atol=1e-6)
    theirs.learned_bias.data = ours.phase.data[:, None] = -torch.rand(4, 1, 8)
    angles, bias = theirs(torch.arange(7))
    expected = scores(library.apply_polar_pos_emb(q, angles), library.apply_polar_pos_emb(k, angles + bias))
    torch.testing.assert_close(scores(*ours(q, k)), expected, rtol=0, atol=1e-5)


def test_frequencies_given_equal_the_inv_freqs_of_pope_pytorch():
    theta = torch.rand(8)
    theirs, ours = peer("PoPE_pytorch.pope").PoPE(8, heads=4, inv_freqs=theta), PoPE(8, heads=4, theta=theta)
    theirs.bias.data = ours.phase.data = -torch.rand(4, 8)
    q, k = (x.float() for x in content(groups=4))
    expected = scores(*theirs.apply_pope_to_qk(theirs(7), q, k))
    torch.testing.assert_close(scores(*ours(q, k)), expected, rtol=0, atol=1e-5)


def test_a_part_of_the_channels_equals_partial_rotation_of_pope_pytorch():
    theirs, ours = peer("PoPE_pytorch.pope").PoPE(6, heads=4), PoPE(6, heads=4)
    theirs.bias.data = ours.phase.data = -torch.rand(4, 6)
    q, k = (x.float() for x in content(groups=4))
    expected = theirs.apply_pope_to_qk(theirs(7), q, k)
    turned = ours(q[..., :6], k[..., :6])
    made = [torch.cat([part, x[..., 6:]], dim=-1) for part, x in zip(turned, (q, k), strict=True)]
    assert made[0].shape == expected[0].shape == (3, 4, 5, 14)
    torch.testing.assert_close(scores(*made), scores(*expected), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("dim", "shares", "size"), [(6, (3, 3), (3, 2)), (8, (5, 2, 1), (3, 2, 2))])
def test_a_table_of_several_axes_equals_axial_pope_of_pope_pytorch(dim, shares, size):
    theta = torch.block_diag(*(10_000.0 ** (-torch.arange(n, dtype=torch.float64) / n) for n in shares))
    theirs = peer("PoPE_pytorch.pope_nd").AxialPoPE(dim, heads=4, axial_dims=shares)
    ours, places = PoPE(dim, heads=4), theirs.get_grid_positions(*size)
    theirs.bias.data = ours.phase.data = -torch.rand(4, dim)
    q, k = (x.float() for x in content(len(places), len(places), dim=dim, groups=4))
    expected = scores(*theirs.apply_pope_to_qk(theirs(places), q, k))
    angle = places.double() @ theta
    table = torch.cat([angle.cos(), angle.sin()], dim=-1).float()
    torch.testing.assert_close(scores(*ours(q, k, table=table)), expected, rtol=0, atol=1e-5)


def test_pope_pytorch_returns_float32_for_bfloat16_and_ours_returns_bfloat16():
    library = peer("PoPE_pytorch.pope")
    theirs, (q, k) = library.PoPE(8, heads=4), (x.bfloat16() for x in content(groups=4))
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
    theirs, (q, k) = peer("PoPE_pytorch.pope").PoPE(8, heads=4), content(groups=2)
    with pytest.raises(RuntimeError, match="size of tensor"):
        theirs.apply_pope_to_qk(theirs(7), q, k)


def test_pope_pytorch_loses_far_positions_and_ours_keeps_them():
    theirs, ours = peer("PoPE_pytorch.pope").PoPE(8, heads=4), PoPE(8, heads=4)
    q, k = (x.float() for x in content(4, 4, groups=4, batch=1))
    near, far = torch.arange(4), torch.arange(4) + 10**7 + 1
    expected = scores(*ours(q, k, near, near))
    assert (scores(*theirs.apply_pope_to_qk(theirs(far.float()), q, k)) - expected).abs().max() > 0.05
    torch.testing.assert_close(scores(*ours(q, k, far, far)), expected, rtol=0, atol=1e-5)


# The peak


def offset_curve(q, k, reach=40, **options):
    """Return the score of the query at 0 with the same key at every offset up to `reach`, before and after."""
    places = np.arange(-reach, reach + 1)
    return pope(q[None, None], np.repeat(k[None, None], len(places), axis=1), [0], places, **options)[0, 0]


def test_whatever_q_and_k_hold_the_score_is_highest_at_offset_0():
    rng = np.random.default_rng(0)
    for _ in range(500):
        q, k = rng.normal(0, 3, (2, 8))
        assert np.argmax(offset_curve(q, k)) == 40


def test_in_rope_what_they_hold_moves_the_peak():
    rng, theta = np.random.default_rng(0), 10_000.0 ** (-np.arange(4) / 4)
    turns = np.exp(1j * np.arange(-40, 41)[:, None] * theta)
    pairs = rng.normal(size=(500, 2, 4)) + 1j * rng.normal(size=(500, 2, 4))
    peaks = [np.argmax(np.real((np.conj(q) * k * turns).sum(axis=-1))) for q, k in pairs]
    assert np.mean(np.array(peaks) == 40) < 0.1


def test_a_phase_moves_the_peak_the_same_way_for_every_q_and_k():
    # delta = -3 theta: three keys ahead; delta = 3 theta - 2 pi: three keys back, where the clamp keeps its range
    rng, theta = np.random.default_rng(0), 10_000.0 ** (-np.arange(8) / 8)
    for _ in range(50):
        q, k = rng.normal(0, 3, (2, 8))
        assert np.argmax(offset_curve(q, k, phase=-3 * theta[None])) == 43
        assert np.argmax(offset_curve(q, k, phase=3 * theta[None] - 2 * math.pi)) == 37
        assert np.argmax(offset_curve(q, k, phase=3 * theta[None])) == 40  # above 0: clamped away
        assert np.argmax(offset_curve(q, k, phase=3 * theta[None], bound="free")) == 37


def test_every_score_where_key_and_query_stand_together_is_positive_without_a_phase():
    q, k = content(30, 30, groups=4)
    together = torch.full((30,), 1234)
    assert (scores(*PoPE(8, heads=4)(10 * q, 10 * k, together, together)) >= 0).all()
    assert (scores(*with_phase(PoPE(8, heads=4), torch.full((4, 8), -3.0))(q, k, together, together)) < 0).all()


def test_at_the_start_scores_fall_with_distance_on_average_and_those_of_rope_do_not():
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 1, n, 64, generator=generator) for n in (1, 4000))
    with torch.no_grad():
        made = scores(*PoPE(64, heads=1)(q, k))[0, 0, 0].flip(0)
    rings = [made[a:b].mean().item() for a, b in ((0, 4), (4, 40), (40, 400), (400, 4000))]
    assert rings == sorted(rings, reverse=True)
    assert rings[0] > 2 * rings[-1]


# The phases


def test_phases_start_at_0_or_spread_over_a_turn():
    assert torch.equal(PoPE(8, heads=4).phase, torch.zeros(4, 8))
    torch.manual_seed(0)
    phase = PoPE(64, heads=64, init="uniform").phase.detach()
    assert -2 * math.pi <= phase.min() < -6.2
    assert -0.1 < phase.max() <= 0
    assert abs(phase.mean() + math.pi) < 5 * 2 * math.pi / math.sqrt(12 * phase.numel())


def gradient(start, bound):
    encoding = with_phase(PoPE(8, heads=4, bound=bound).double(), torch.full((4, 8), start))
    q, k = encoding(*content())
    return torch.autograd.grad((scores(q, k) * torch.arange(7)).sum(), encoding.phase)[0]


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
    encoding, (q, k) = PoPE(8, heads=4, bound=bound).double(), content(7, 7)
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
    wrapped, free = (with_phase(PoPE(8, heads=4, bound=b).double(), phase) for b in ("wrap", "free"))
    torch.testing.assert_close(scores(*wrapped(q, k)), scores(*free(q, k)), rtol=0, atol=1e-11)
    by_twin = [pope(q[0], k[0], range(5), range(7), phase=phase, bound=b) for b in ("wrap", "free")]
    np.testing.assert_allclose(*by_twin, atol=1e-11)


# Attention


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_fused_attention_takes_the_scale_of_the_width_before(groups):
    (q, k), encoding = content(7, 7, groups=groups), PoPE(8, heads=4, init="uniform").double()
    v = torch.randn(3, groups, 7, 8, dtype=torch.float64)
    made = F.scaled_dot_product_attention(*encoding(q, k), v, scale=8**-0.5, is_causal=True, enable_gqa=True)
    phase = encoding.phase.detach().numpy()
    logits = torch.stack([torch.from_numpy(pope(q[b], k[b], range(7), range(7), phase=phase)) for b in range(3)])
    hidden = torch.ones(7, 7).triu(1).bool()
    weights = (logits / 8**0.5).masked_fill(hidden, -math.inf).softmax(dim=-1)
    expected = weights @ v.repeat_interleave(4 // groups, dim=1)
    torch.testing.assert_close(made, expected)
    by_default = F.scaled_dot_product_attention(*encoding(q, k), v, is_causal=True, enable_gqa=True)
    assert (by_default - expected).abs().max() > 1e-3


def test_heads_share_keys_as_if_these_were_repeated():
    encoding, (q, k) = PoPE(8, heads=4, init="uniform").double(), content(groups=2)
    torch.testing.assert_close(scores(*encoding(q, k)), scores(*encoding(q, k.repeat_interleave(2, dim=1))))


@given(m=shifts, n=shifts, shift=shifts)
@exactly
def test_scores_depend_on_the_offset_alone(m, n, shift):
    q, k = (x[0, :, :1].numpy() for x in content())
    phase = np.linspace(-6, 0, 32).reshape(4, 8)
    here, there = pope(q, k, [m], [n], phase=phase), pope(q, k, [m + shift], [n + shift], phase=phase)
    np.testing.assert_allclose(here, there, atol=1e-9)


def test_decoding_token_by_token_equals_encoding_at_once():
    encoding, (q, k) = PoPE(8, heads=4, init="uniform").double(), content(7, 7)
    whole, cache = scores(*encoding(q, k)), []
    for p in range(7):
        at = torch.tensor([p])
        query, key = encoding(q[:, :, p : p + 1], k[:, :, p : p + 1], at, at)
        cache.append(key)
        torch.testing.assert_close(scores(query, torch.cat(cache, dim=2)), whole[:, :, p : p + 1, : p + 1])


def test_left_padded_rows_take_their_own_positions():
    encoding, (q, k) = PoPE(8, heads=4).double(), content(4, 4, batch=1)
    wide = [torch.cat([torch.randn(1, x.shape[1], 3, 8).double(), x], dim=2) for x in (q, k)]
    places = torch.tensor([[0, 0, 0, 0, 1, 2, 3]])
    torch.testing.assert_close(scores(*encoding(*wide, places, places))[..., 3:, 3:], scores(*encoding(q, k)))


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_worked_out_in_float32_and_rounded_once(dtype):
    encoding, (q, k) = PoPE(8, heads=4, init="uniform"), (x.to(dtype) for x in content())
    for got, whole in zip(encoding(q, k), encoding(q.float(), k.float()), strict=True):
        assert torch.equal(got, whole.to(dtype))


def test_queries_and_keys_keep_each_its_dtype():
    q, k = content()
    made_q, made_k = PoPE(8, heads=4)(q.bfloat16(), k.float())
    assert (made_q.dtype, made_k.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("size", [25.0, 39.0, 41.0, 700.0, -30.0, -700.0])
def test_large_content_is_exact(size):
    q = torch.full((1, 1, 1, 4), size, dtype=torch.float64)
    made = scores(*PoPE(4, heads=1).double()(q, q, torch.zeros(1))).detach()
    np.testing.assert_allclose(made[0], pope(q[0], q[0], [0], [0]), rtol=1e-15)


def test_a_phase_stored_coarsely_is_bounded_in_the_precision_of_the_angles():
    encoding = with_phase(PoPE(8, heads=4).bfloat16(), torch.full((4, 8), -7.0))
    assert encoding.delta().tolist() == torch.full((4, 8), -2 * math.pi).tolist()


# The table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_table_serves_modules_with_other_phases(dtype):
    q, k = (x.to(dtype) for x in content(7, 7))
    modules = [PoPE(8, heads=4, init="uniform") for _ in range(2)]
    table = modules[0].table(torch.arange(7), dtype)
    assert table.shape == (7, 16)
    for module in modules:
        for got, want in zip(module(q, k, table=table), module(q, k), strict=True):
            assert torch.equal(got, want)


def test_a_table_of_a_batch_gives_queries_its_last_rows():
    (q, k), encoding = content(5, 7), PoPE(8, heads=4, init="uniform").double()
    n = torch.randint(0, 99, (3, 7))
    for places in (n, n[:1], n[0]):
        made = encoding(q, k, table=encoding.table(places, torch.float64))
        assert all(map(torch.equal, made, encoding(q, k, places[..., 2:], places)))


def test_a_table_finer_or_coarser_than_the_content_is_taken():
    (q, k), encoding = content(7, 7), PoPE(8, heads=4)
    made = encoding(q.bfloat16(), k.bfloat16(), table=encoding.table(torch.arange(7), torch.float64))
    assert made[0].dtype == torch.bfloat16
    made = encoding(q, k, table=encoding.table(torch.zeros(7)))
    assert torch.equal(made[1][..., :8], torch.nn.functional.softplus(k, threshold=40))


@pytest.mark.parametrize("given", [False, True], ids=["made", "given"])
def test_compiles_where_there_are_as_many_tokens_as_channels(given):
    encoding, q = PoPE(8, heads=4).requires_grad_(False), torch.randn(2, 4, 8, 8)
    table = {"table": encoding.table(torch.arange(8))} if given else {}
    torch._dynamo.reset()
    made = torch.compile(encoding, fullgraph=True, backend="eager", dynamic=True)(q, q, **table)
    assert all(torch.equal(*each) for each in zip(made, encoding(q, q), strict=True))


# Where tokens stand


@pytest.mark.parametrize(("t", "s"), [(3, 7), (1, 5), (2, 2), (0, 3), (0, 0)])
def test_queries_stand_at_the_last_of_the_places_of_the_keys(t, s):
    q, k = content(t, s)
    made = scores(*PoPE(8, heads=4).double()(q, k)).detach()
    np.testing.assert_allclose(made, pope(q, k, range(s - t, s), range(s)), atol=1e-13)


def test_a_lone_query_with_a_lone_key_has_no_default_place():  # a cache of turned keys would hold them all at 0
    q, k = content(1, 1)
    with pytest.raises(ValueError, match="pope: positions must be given for 1 queries, 1 keys, got None"):
        PoPE(8, heads=4)(q, k)
    assert (PoPE(8, heads=4)(q, k, torch.tensor([9]))[1][..., 8:] != 0).all()


def test_more_queries_than_keys_have_no_default_place():
    q, k = content(5, 2)
    with pytest.raises(ValueError, match="pope: positions must be given for 5 queries, 2 keys, got None"):
        PoPE(8, heads=4)(q, k)
    made = scores(*PoPE(8, heads=4).double()(q, k, torch.arange(5), torch.arange(2))).detach()
    np.testing.assert_allclose(made, pope(q, k, range(5), range(2)), atol=1e-13)


def test_what_is_not_said_follows_from_what_is():
    encoding, (q, k) = PoPE(8, heads=4).double(), content()
    n, m = torch.tensor([5, 6, 7, 8, 9, 9, 70]), torch.tensor([1, 2, 3, 70, 5])
    assert torch.equal(encoding(q, k, key_positions=n)[0], encoding(q, k, n[2:], n)[0])
    assert torch.equal(encoding(q, k, positions=m)[1], encoding(q, k)[1])
    assert torch.equal(encoding(q, k[:, :, :5], positions=m)[1], encoding(q, k[:, :, :5], m, m)[1])


def test_one_row_of_positions_serves_each_sequence():
    (q, k), encoding = content(6, 6), PoPE(8, heads=4, init="uniform").double()
    row = torch.tensor([3, 0, 7, 7, 1, 2])
    for places in (row[None], row.expand(3, 6)):
        assert all(map(torch.equal, encoding(q, k, places), encoding(q, k, row)))


def test_a_module_can_be_copied():
    encoding, (q, k) = PoPE(8, heads=4, base=50.0, bound="wrap").double(), content()
    assert torch.equal(copy.deepcopy(encoding)(q, k)[0], encoding(q, k)[0])


def test_the_defaults_are_those_of_the_paper():
    defaults = {name: parameter.default for name, parameter in inspect.signature(PoPE).parameters.items()}
    assert (defaults["base"], defaults["init"], defaults["bound"]) == (10_000.0, "zero", "clamp")


def test_the_twin_takes_a_batch_whole():
    q, k = (x.numpy() for x in content())
    m, n = np.arange(5.0) ** 1.5, np.arange(7.0)
    np.testing.assert_array_equal(pope(q, k, m, n), [pope(*each, m, n) for each in zip(q, k, strict=True)])


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("heads", [1, 3, 8])
def test_queries_of_other_heads_are_refused(heads):  # one phase would serve all, or (b, t, h, d) turn by its heads
    q, k = content()
    said = rf"pope: heads of q must be {heads}, .*, got \(3, 4, 5, 8\); or transpose"
    with pytest.raises(ValueError, match=said):
        PoPE(8, heads=heads)(q, k)


@pytest.mark.parametrize("wrong", [lambda x: x[..., :1], lambda x: x[..., :6], lambda x: x.long()])
def test_content_of_another_form_is_refused(wrong):
    q, k = content()
    for call in ((wrong(q), k), (q, wrong(k))):
        with pytest.raises(ValueError, match=r"pope: q or k of dim 8 must be floats \(.*\), got torch\.\w+ \(3, "):
            PoPE(8, heads=4)(*call)


@pytest.mark.parametrize("shape", [(1,), (4,), (6,), (4096,), (5, 1), (1, 4), (2, 5), (5, 3), (3, 5, 1)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    (q, k), encoding, places = content(5, 5), PoPE(8, heads=4), torch.zeros(shape)
    said = r"pope: positions or table must be \(5,\) or \(3, 5\), got \("
    for told in ({"positions": places}, {"key_positions": places}, {"table": encoding.table(places)}):
        with pytest.raises(ValueError, match=said):
            encoding(q, k, **told)


WRONG = {
    "theta": [[1.0] * 7, [1.0], 500_000],
    "base": [0, -1, math.nan, math.inf],
    "init": ["ones", None],
    "bound": ["clip", None],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    said = rf"pope: {name}( of dim)? must be .*, got"
    with pytest.raises(ValueError, match=said):
        PoPE(8, heads=4, **{name: value})
    if name != "init":
        with pytest.raises(ValueError, match=said):
            pope(*(x[0] for x in content()), range(5), range(7), **{name: value})


@pytest.mark.parametrize(
    "wrong", [{"positions": [3]}, {"positions": range(4)}, {"key_positions": [0]}, {"phase": np.zeros(8)}], ids=str
)
def test_the_numpy_function_takes_one_position_a_row_and_one_phase_a_head_and_channel(wrong):
    q, k = (x[0] for x in content())
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        pope(q, k, **{"positions": range(5), "key_positions": range(7)} | wrong)
