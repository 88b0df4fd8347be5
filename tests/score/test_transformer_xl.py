"""Transformer-XL: cosines of the offset by hand, XLNet, a Conformer, the authors' code, and far positions."""

import inspect
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posenc.score.transformer_xl import TransformerXL, transformer_xl
from tests.peers import peer
from tests.score.alike import (
    assert_half_precision_is_rounded_once,
    assert_numpy_wants_one_position_a_token,
    content,
    randomized,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"base": 100.0}, {"width": 6}]
LEARNED = {"u", "v", "weight"}


def oracle(q, k, positions, key_positions, u, v, weight, base=10_000.0):
    """Work out the definition with 60 digits, one pair at a time."""
    width, group = weight.shape[-1], len(q) // len(k)
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / width) for i in range(width // 2)]
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for t, s in np.ndindex(scores.shape[1:]):
            offset = mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s]))
            sinusoid = [mpmath.sin(offset * i) for i in theta] + [mpmath.cos(offset * i) for i in theta]
            for h in range(len(q)):
                vector = [mpmath.fdot(map(float, row), sinusoid) for row in weight[h]]
                query = [mpmath.mpf(float(one)) + float(two) for one, two in zip(q[h, t], v[h], strict=True)]
                to_key = mpmath.fdot(map(float, u[h]), map(float, k[h // group, s]))
                scores[h, t, s] = (to_key + mpmath.fdot(query, vector)) / mpmath.sqrt(q.shape[-1])
    return scores


def build(heads=4, **options):
    return randomized(TransformerXL(8, heads, **options), std=0.4)


def score_of(m, n, q=1.0, k=1.0, u=0.0, v=0.0, weight=(0.0, 0.0), base=10_000.0):
    """Return the score of one pair in a head of one channel; without more frequencies, the first is 1."""
    result = transformer_xl([[[q]]], [[[k]]], [m], [n], [[u]], [[v]], [[weight]], base)
    return result.item()


# Values worked by hand


def test_the_sinusoid_is_that_of_query_minus_key():
    # columns of the weight weigh the sine and the cosine of the offset
    assert score_of(5, 4, weight=[1, 0]) == pytest.approx(math.sin(1), rel=1e-14)
    assert score_of(5, 7, weight=[1, 0]) == pytest.approx(math.sin(-2), rel=1e-14)
    assert score_of(5, 7, weight=[0, 1]) == pytest.approx(math.cos(2), rel=1e-14)
    assert score_of(5, 5, weight=[7, 3]) == 3


@pytest.mark.parametrize(("base", "frequency"), [(100, 1 / 10), (1 / 4, 2)])
def test_the_second_frequency_is_slower_by_the_base_to_the_2_over_w(base, frequency):
    # at width 4, where it is 1 / sqrt(base); the columns are sin, sin, cos, cos, and the first frequency is 1
    sinusoid = [math.sin(3), math.sin(3 * frequency), math.cos(3), math.cos(3 * frequency)]
    for column, expected in enumerate(sinusoid):
        assert score_of(7, 4, weight=np.eye(4)[column], base=base) == pytest.approx(expected, rel=1e-14)


def test_u_weighs_the_key_wherever_it_stands():
    assert score_of(1, 0, q=9, k=3, u=5) == score_of(1, 70, q=9, k=3, u=5) == 15


def test_v_adds_to_the_query_that_meets_the_sinusoid():
    assert score_of(1, 0, q=10, v=0.2, weight=[0, 0.3]) == pytest.approx(10.2 * 0.3 * math.cos(1), rel=1e-14)


def test_the_score_is_divided_by_the_root_of_the_width():
    # u . k = 1 * 3 + 2 * 0.7 = 4.4 in a width of 4
    q = k = np.array([[[1, 2, 0, 0]]])
    u = [[3, 0.7, 0, 0]]
    np.testing.assert_allclose(transformer_xl(q, k, [0], [0], u, u, np.zeros((1, 4, 2))), [[[4.4 / 2]]], rtol=1e-14)


def test_without_sines_past_and_future_are_alike():
    (q, k), module = content(d=8), build()
    module.u.data[:], module.weight.data[..., :16] = 0, 0
    torch.testing.assert_close(module(q, k)[..., 2, :2].flip(-1), module(q, k)[..., 2, 3:5])


# Peers


@pytest.mark.parametrize(("t", "s"), [(1, 1), (6, 6), (2, 7), (1, 9)])
@pytest.mark.parametrize("sides", ["bi", "uni"])
def test_equals_the_attention_of_xlnet(t, s, sides):
    xlnet = peer("transformers.models.xlnet.modeling_xlnet")
    config = peer("transformers").XLNetConfig(d_model=16, n_head=2, d_inner=8, n_layer=1, vocab_size=4, dropout=0.0)
    theirs, ours = xlnet.XLNetRelativeAttention(config), build(heads=2)
    theirs.r_w_bias.data, theirs.r_r_bias.data = ours.u.data.float(), ours.v.data.float()
    model = SimpleNamespace(d_model=16, attn_type=sides, bi_data=False, clamp_len=-1)
    model.positional_embedding = xlnet.XLNetModel.positional_embedding
    sinusoid = xlnet.XLNetModel.relative_positional_encoding(model, t, s, bsz=2)
    projected = torch.einsum("ibw,ndw->ibnd", sinusoid, ours.weight.float())
    q, k = content(h=2, g=2, t=t, s=s, d=8)
    their_q, their_k = (x.float().permute(2, 0, 1, 3) for x in (q, k))
    mask = torch.arange(s) > torch.arange(s - t, s)[:, None] if sides == "uni" else torch.zeros(t, s).bool()
    options = {"attn_mask": mask[:, :, None, None].float(), "output_attentions": True}
    weights = theirs.rel_attn_core(their_q, their_k, their_k, projected, **options)[1].permute(2, 3, 0, 1)
    scores = ours(q, k, torch.arange(s - t, s), torch.arange(s))
    logits = (q @ k.mT / math.sqrt(8) + scores).masked_fill(mask, -math.inf)
    torch.testing.assert_close(logits.softmax(dim=-1).float(), weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("t", [1, 2, 9])
def test_equals_a_conformer_whose_sines_and_cosines_alternate(t):
    conformer = peer("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    (q, k), ours = content(t=t, s=t, g=4, d=8), build()
    alternating = torch.arange(32).view(2, 16).T.flatten()  # sin_0 cos_0 sin_1 cos_1 ...
    theirs = SimpleNamespace(
        head_size=8,
        scaling=8**-0.5,
        pos_bias_u=ours.u.float(),
        pos_bias_v=ours.v.float(),
        linear_pos=lambda sinusoid: sinusoid @ ours.weight[..., alternating].flatten(0, 1).float().T,
    )
    config = SimpleNamespace(hidden_size=32, max_source_positions=12)
    sinusoid = conformer.Wav2Vec2BertRelPositionalEmbedding(config)(torch.zeros(1, t, 32))
    query, scores = conformer._apply_relative_position_encoding(theirs, q.float(), k.float(), sinusoid)
    expected = query @ k.float().mT / math.sqrt(8) + scores
    logits = q @ k.mT / math.sqrt(8) + ours(q, k, torch.arange(t))
    torch.testing.assert_close(logits.float(), expected, rtol=1e-4, atol=1e-4)


def test_equals_the_authors_code_where_a_causal_query_looks():
    # as published: sinusoids of klen-1 .. 0, products with q + v, then the shift whose upper triangle is left over
    (q, k), ours, s = content(t=3, s=7, g=4, d=8), build(), 7
    angle = torch.arange(s - 1, -1, -1.0).double()[:, None] * 10_000 ** (-torch.arange(0, 32, 2).double() / 32)
    sinusoid = torch.cat([angle.sin(), angle.cos()], dim=-1)
    products = torch.einsum("bhid,hdw,jw->bhij", q + ours.v[:, None], ours.weight, sinusoid)
    shifted = F.pad(products, (1, 0)).view(2, 4, s + 1, 3)[:, :, 1:].view(2, 4, 3, s)
    expected = ((q + ours.u[:, None]) @ k.mT + shifted) / math.sqrt(8)
    past = torch.ones(3, s).tril(s - 3).bool()
    logits = q @ k.mT / math.sqrt(8) + ours(q, k, torch.arange(4, 7), torch.arange(7))
    torch.testing.assert_close(logits[..., past], expected[..., past])


# Precision


def test_ten_million_positions_on_the_scores_are_the_same_in_float32():
    (q, k), module = (x.float() for x in content(d=8)), build().float()
    near, far = torch.arange(6), torch.arange(6) + 10_000_000
    torch.testing.assert_close(module(q, k, far), module(q, k, near), rtol=0, atol=1e-5)
    # where angles in float32 would be worth nothing
    frequency = 10_000.0 ** (-2 / 32)
    angle = np.float32(10_000_001) * np.float32(frequency)
    assert abs(math.sin(angle) - math.sin(10_000_001 * frequency)) > 0.01


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build(), d=8)


# The module


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s, d=8), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_parameters_start_normal_with_a_standard_deviation_of_2_percent():
    torch.manual_seed(0)
    for parameter in TransformerXL(64, 32, width=64).parameters():
        assert abs(parameter.std().item() / 0.02 - 1) < 0.05
        assert abs(parameter.mean().item()) < 0.002


def test_the_defaults_are_those_of_the_paper():
    assert TransformerXL(8, 4).weight.shape == (4, 8, 32)  # a sinusoid as wide as the model
    for function in (TransformerXL, transformer_xl):
        assert inspect.signature(function).parameters["base"].default == 10_000.0


# What is refused


@pytest.mark.parametrize("width", [7, 3])
def test_an_odd_width_is_refused_by_torch_and_numpy(width):
    with pytest.raises(RuntimeError, match=f"sizes .* don't multiply up to the size of dim 3 .{width}. "):
        build(width=width)(*content(d=8))
    with pytest.raises(ValueError, match="does not match"):
        score_of(0, 0, weight=[1] * width)


@pytest.mark.parametrize("base", [0, -1, math.nan, math.inf], ids=repr)
def test_a_base_that_is_not_positive_is_refused(base):
    message = f"transformer_xl: base must be positive and finite, got {base}"
    with pytest.raises(ValueError, match=message):
        TransformerXL(8, 2, base=base)
    with pytest.raises(ValueError, match=message):
        score_of(0, 0, base=base)


def test_content_of_integers_is_refused():
    q, k = content(d=8)
    with pytest.raises(ValueError, match=r"transformer_xl: q must be floating point, got torch\.int64"):
        build()(q.long(), k)


def test_the_numpy_function_takes_one_position_a_token():
    learned = np.ones((2, 4)), np.ones((2, 4)), np.ones((2, 4, 6))
    assert_numpy_wants_one_position_a_token(transformer_xl, *learned)
