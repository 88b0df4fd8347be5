"""PoPE: values worked by hand, three equal forms, its peers, the peak at offset 0, and the bounds of the phases."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F

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


LN2 = math.log(2)  # the softplus of 0
TWO_PI = 2 * math.pi
THETA = 10_000.0 ** (-np.arange(8) / 8)


def content(t=7, s=7, dim=8, groups=2, batch=3):
    """Return random q (b, 4, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, 4, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def with_phase(encoding, phase):
    encoding.phase.data = torch.as_tensor(phase, dtype=encoding.phase.dtype)
    return encoding


# Values worked by hand


def test_two_channels_have_two_frequencies():
    # where RoPE has one for each pair; theta = 1 and 100^(-1/2) = 1/10; softplus of ln 3 is ln 4, of ln 7 it is ln 8
    q = np.array([[[math.log(3), 0.0]]])
    k = np.array([[[0.0, math.log(7)]]])
    expected = math.log(4) * LN2 * math.cos(5) + LN2 * math.log(8) * math.cos(0.5)
    np.testing.assert_allclose(pope(q, k, [2], [7], base=100), [[[expected]]], rtol=1e-14)


def test_a_phase_is_added_to_the_angle_of_a_key_that_comes_later():
    zero = np.zeros((1, 1, 1))
    np.testing.assert_allclose(pope(zero, zero, [0], [1], phase=[[-1]]), [[[LN2**2]]], rtol=1e-14)
    np.testing.assert_allclose(pope(zero, zero, [1], [0], phase=[[-1]]), [[[LN2**2 * math.cos(2)]]], rtol=1e-14)


def test_a_row_is_cosines_then_sines_of_the_magnitudes():
    zero = torch.zeros(1, 1, 1, 2, dtype=torch.float64)
    expected = LN2 * np.array([math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)])
    for x in PoPE(2, heads=1, base=100)(zero, zero, torch.tensor([3])):
        np.testing.assert_allclose(x.detach().flatten(), expected, rtol=1e-14)


# Three equal forms


@pytest.mark.parametrize("bound", ["clamp", "wrap", "free"])
def test_the_complex_the_cosine_and_the_doubled_form_agree(bound):
    q, k = content(5, 7, groups=4)
    phase = np.random.default_rng(0).uniform(-6, 0, (4, 8))
    m, n = torch.arange(2, 7), torch.arange(7)
    complex_q = np.logaddexp(0, q.numpy()) * np.exp(1j * np.outer(m, THETA))
    complex_k = np.logaddexp(0, k.numpy()) * np.exp(1j * (np.outer(n, THETA) + phase[:, None]))
    products = np.real(np.conj(complex_q) @ np.swapaxes(complex_k, -1, -2))
    cosine = pope(q, k, m, n, phase=phase, bound=bound)
    doubled = scores(*with_phase(PoPE(8, heads=4, bound=bound).double(), phase)(q, k, m, n))
    np.testing.assert_allclose(cosine, products, atol=1e-12)
    np.testing.assert_allclose(doubled.detach(), products, atol=1e-12)


# Peers


@vectors("pope")
def test_scores_and_queries_of_pope_pytorch_from_its_vectors(vector):
    q, k = (torch.tensor(vector["inputs"][name], dtype=torch.float64) for name in "qk")
    phase = np.array(vector["inputs"]["bias"])
    base = vector["params"]["theta"]
    _, heads, t, d = q.shape
    expected = vector["expected"]["logits"]
    assert_agrees(vector, pope(q, k, range(t), range(t), base=base, phase=phase), expected)
    encoding = with_phase(PoPE(d, heads, base=base).double(), phase)
    assert_agrees(vector, scores(*encoding(q, k)).detach(), expected)
    turned_q, _ = PoPE(d, heads).double()(q, q)
    alternating = turned_q.unflatten(-1, (2, -1)).mT.flatten(-2).detach()  # cosine, sine, cosine, sine ..
    assert_agrees(vector, alternating, vector["expected"]["q_interleaved_re_im"])


QUERIES, KEYS = torch.arange(2, 7), torch.arange(7)  # the libraries let queries stand at the last of the keys


def alike(dim=8, theta=None, phase=None):
    """Return the encoding of PoPE-pytorch and ours, of the same phases, by default random ones within the clamp."""
    theirs = peer("PoPE_pytorch.pope").PoPE(dim, heads=4, inv_freqs=theta)
    ours = PoPE(dim, heads=4, theta=theta)
    theirs.bias.data = ours.phase.data = -torch.rand(4, dim) if phase is None else phase
    return theirs, ours


@pytest.mark.parametrize(
    ("dim", "theta", "lowest"),
    [
        *((8, None, lowest) for lowest in (0.0, -2.0, 1.0, -7.0)),  # within and beyond the clamp
        (8, torch.linspace(1, 0.1, 8), -1.0),  # frequencies of a caller
        (6, None, -1.0),  # two of eight channels are not encoded
    ],
)
def test_scores_equal_those_of_pope_pytorch(dim, theta, lowest):
    theirs, ours = alike(dim, theta, phase=lowest + torch.rand(4, dim))
    q, k = content(5, 7, groups=4)
    expected_q, expected_k = theirs.apply_pope_to_qk(theirs(7), q, k)
    turned_q, turned_k = ours(q[..., :dim], k[..., :dim], QUERIES, KEYS)
    turned_q = torch.cat([turned_q, q[..., dim:]], dim=-1)
    turned_k = torch.cat([turned_k, k[..., dim:]], dim=-1)
    assert turned_q.shape == expected_q.shape
    expected = scores(expected_q, expected_k).double()
    torch.testing.assert_close(scores(turned_q, turned_k), expected, rtol=0, atol=1e-5)  # its angles are float32


def test_attention_equals_that_of_pope_pytorch_with_its_weights_loaded():
    theirs, _ = alike()
    ours = PoPE(8, heads=4)
    ours.load_state_dict({"phase": theirs.bias.detach()})
    q, k = (x.float() for x in content(groups=4))
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


@pytest.mark.parametrize(("dim", "shares", "size"), [(6, (3, 3), (3, 2)), (8, (5, 2, 1), (3, 2, 2))])
def test_a_table_of_several_axes_equals_axial_pope_of_pope_pytorch(dim, shares, size):
    theta = torch.block_diag(*(10_000.0 ** (-torch.arange(n, dtype=torch.float64) / n) for n in shares))
    theirs = peer("PoPE_pytorch.pope_nd").AxialPoPE(dim, heads=4, axial_dims=shares)
    ours = PoPE(dim, heads=4)
    theirs.bias.data = ours.phase.data = -torch.rand(4, dim)
    positions = theirs.get_grid_positions(*size)
    q, k = (x.float() for x in content(len(positions), len(positions), dim=dim, groups=4))
    expected = scores(*theirs.apply_pope_to_qk(theirs(positions), q, k))
    angle = (positions.double() @ theta)[None]  # an axis for heads
    table = angle.cos().float(), angle.sin().float()
    result = scores(ours.turn_q(q, table), ours.turn_k(k, table))
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def test_pope_pytorch_cannot_share_keys_between_heads():
    theirs, _ = alike()
    with pytest.raises(RuntimeError, match="size of tensor"):
        theirs.apply_pope_to_qk(theirs(7), *content(groups=2))


def test_pope_pytorch_loses_far_positions_and_ours_keeps_them():
    theirs, ours = alike(phase=torch.zeros(4, 8))
    q, k = (x.float() for x in content(4, 4, groups=4, batch=1))
    near = torch.arange(4)
    far = near + 10**7 + 1
    expected = scores(*ours(q, k, near))
    assert (scores(*theirs.apply_pope_to_qk(theirs(far.float()), q, k)) - expected).abs().max() > 0.05
    torch.testing.assert_close(scores(*ours(q, k, far)), expected, rtol=0, atol=1e-5)


def test_pope_pytorch_returns_float32_for_bfloat16_and_ours_returns_bfloat16():
    theirs, ours = alike()
    q, k = (x.bfloat16() for x in content(groups=4))
    assert {x.dtype for x in theirs.apply_pope_to_qk(theirs(7), q, k)} == {torch.float32}
    assert {x.dtype for x in ours(q, k)} == {torch.bfloat16}


def test_the_uniform_start_of_both_libraries_crashes():
    start = {"bias_uniform_init": True}
    for build in (
        lambda: peer("PoPE_pytorch.pope").PoPE(8, heads=4, **start),
        lambda: peer("PoPE_pytorch.pope_nd").AxialPoPE(8, heads=4, **start),
        lambda: peer("x_transformers.x_transformers").PolarEmbedding(8, 4, **start),
    ):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            build()


# The peak


def peak(q, k, **options):
    """Return the offset, of -40 .. 40, at which the same key scores highest."""
    offsets = np.arange(-40, 41)
    keys = np.repeat(k[None, None], len(offsets), axis=1)
    return offsets[np.argmax(pope(q[None, None], keys, [0], offsets, **options))]


def test_whatever_q_and_k_hold_the_score_is_highest_at_offset_0():
    rng = np.random.default_rng(0)
    for _ in range(500):
        q, k = rng.normal(0, 3, (2, 8))
        assert peak(q, k) == 0


def test_in_rope_what_they_hold_moves_the_peak():
    rng = np.random.default_rng(0)
    waves = np.exp(1j * np.arange(-40, 41)[:, None] * THETA[::2])
    pairs = rng.normal(size=(500, 2, 4)) + 1j * rng.normal(size=(500, 2, 4))
    peaks = np.array([np.argmax(np.real((np.conj(q) * k * waves).sum(axis=-1))) for q, k in pairs])
    assert np.mean(peaks == 40) < 0.1


def test_a_phase_moves_the_peak_the_same_way_for_every_q_and_k():
    rng = np.random.default_rng(0)
    for _ in range(50):
        q, k = rng.normal(0, 3, (2, 8))
        assert peak(q, k, phase=-3 * THETA[None]) == 3
        assert peak(q, k, phase=3 * THETA[None] - TWO_PI) == -3  # within the clamp
        assert peak(q, k, phase=3 * THETA[None]) == 0  # above 0: clamped away
        assert peak(q, k, phase=3 * THETA[None], bound="free") == -3


def test_the_score_of_tokens_at_one_position_is_positive_without_a_phase():
    q, k = content(30, 30, groups=4)
    together = torch.full((30,), 1234)
    assert (scores(*PoPE(8, heads=4)(10 * q, 10 * k, together)) >= 0).all()
    assert (scores(*with_phase(PoPE(8, heads=4), torch.full((4, 8), -3.0))(q, k, together)) < 0).all()


# The phases


def test_phases_start_at_0_or_spread_over_a_turn():
    assert not PoPE(8, heads=4).phase.any()
    torch.manual_seed(0)
    phase = PoPE(64, heads=64, init="uniform").phase
    assert phase.is_leaf
    assert -TWO_PI <= phase.min() < -6.2
    assert -0.1 < phase.max() <= 0
    assert abs(phase.mean() + math.pi) < 5 * TWO_PI / math.sqrt(12 * phase.numel())


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


def test_a_phase_stored_coarsely_is_bounded_in_the_precision_of_the_angles():
    encoding = with_phase(PoPE(8, heads=4).bfloat16(), torch.full((4, 8), -7.0))
    assert torch.equal(encoding.delta(), torch.full((4, 8), -TWO_PI))


# In attention


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


def test_a_table_serves_layers_of_other_phases():
    q, k = content()
    table = PoPE(8, heads=4).table(torch.arange(7), torch.float64)
    layer = PoPE(8, heads=4, init="uniform")
    turned_q, turned_k = layer(q, k)
    assert torch.equal(layer.turn_q(q, table), turned_q)
    assert torch.equal(layer.turn_k(k, table), turned_k)


# Precision


@pytest.mark.parametrize("size", [25.0, 39.0, 41.0, 700.0, -30.0, -700.0])
def test_large_content_is_exact(size):
    q = torch.full((1, 1, 1, 4), size, dtype=torch.float64)
    result = scores(*PoPE(4, heads=1).double()(q, q, torch.zeros(1))).detach()
    np.testing.assert_allclose(result, pope(q, q, [0], [0]), rtol=1e-15)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_content_keeps_its_dtype_whatever_that_of_the_table(dtype):
    q, k = (x.to(dtype) for x in content())
    encoding = PoPE(8, heads=4)
    finer = encoding.table(torch.arange(7), torch.float64)
    assert {encoding.turn_q(q, finer).dtype, encoding.turn_k(k, finer).dtype} == {dtype}


# What is refused


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("theta", [1.0] * 7, "theta for this dim must have shape (8,), got (7,)"),
        ("theta", [5e5], "theta for this dim must have shape (8,), got (1,)"),
        ("theta", [[1.0] * 8], "theta for this dim must have shape (8,), got (1, 8)"),
        ("base", 0, "base must be positive and finite, got 0"),
        ("base", math.inf, "base must be positive and finite, got inf"),
        ("bound", "clip", "bound must be 'clamp', 'wrap' or 'free', got 'clip'"),
        ("bound", None, "bound must be 'clamp', 'wrap' or 'free', got None"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_class_and_function(name, value, message):
    for call in (
        lambda **wrong: PoPE(8, heads=4, **wrong),
        lambda **wrong: pope(*content(), range(7), range(7), **wrong),
    ):
        with pytest.raises(ValueError, match=re.escape(f"pope: {message}")):
            call(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("q", torch.ones(3, 8, 7, 8), r"heads of q must be 4, in axis 1, got \(3, 8, 7, 8\); or transpose\(1, 2\)"),
        (
            "q",
            torch.ones(3, 4, 7, 8).long(),
            r"q or k of dim 8 must have shape \(b, h, t, 8\) and a float dtype, got torch.int64 \(3, 4, 7, 8\)",
        ),
        (
            "k",
            torch.ones(3, 2, 7, 1),
            r"q or k of dim 8 must have shape \(b, h, t, 8\) and a float dtype, got torch.float32 \(3, 2, 7, 1\)",
        ),
        ("positions", torch.zeros(1), r"positions or table must have shape \(7,\) or \(3, 7\), got \(1,\)"),
        ("key_positions", torch.zeros(2, 7), r"positions or table must have shape \(7,\) or \(3, 7\), got \(2, 7\)"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"pope: {message}"):
        PoPE(8, heads=4)(**{"q": q, "k": k, "positions": torch.arange(7)} | {name: value})


@pytest.mark.parametrize("wrong", [{"positions": [3]}, {"key_positions": [0]}, {"phase": np.zeros(8)}], ids=str)
def test_the_numpy_function_takes_one_position_a_row_and_one_phase_a_head_and_channel(wrong):
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words
        pope(*content(), **{"positions": range(7), "key_positions": range(7)} | wrong)
