"""Transformer-XL: cosines worked by hand, XLNet and a Conformer, far and fractional positions, and fused attention."""

import inspect
import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.score.transformer_xl import TransformerXL, transformer_xl
from tests.peers import peer
from tests.score.alike import assert_numpy_wants_one_position_a_token

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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)
places = st.lists(st.one_of(st.integers(-1000, 1000), st.floats(-100, 100)), min_size=6, max_size=6)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=8):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=8, heads=4, scale=20.0, **options):
    """Return a module in float64 with parameters large enough to be seen."""
    torch.manual_seed(0)
    module = TransformerXL(dim, heads, **options).double()
    for parameter in module.parameters():
        parameter.data *= scale
    return module


def tuned(u=0.0, v=0.0, sine=0.0, cosine=0.0, **options):
    """Return a module of one channel and one frequency."""
    module = TransformerXL(1, 1, width=2, **options).double()
    module.u.data[:], module.v.data[:] = u, v
    module.weight.data[:] = torch.tensor([sine, cosine])
    return module


def ones(t):
    return torch.ones(1, 1, t, 1, dtype=torch.float64)


# Values worked by hand


def test_the_score_is_the_cosine_of_the_offset():
    scores = tuned(cosine=1.0)(ones(1), ones(4), torch.tensor([3]), torch.arange(4)).flatten()
    np.testing.assert_allclose(scores.detach(), [math.cos(3), math.cos(2), math.cos(1), 1], rtol=1e-14)


def test_the_offset_is_query_minus_key():
    scores = tuned(sine=1.0)(ones(1), ones(3), torch.tensor([5]), torch.tensor([4, 5, 7])).flatten()
    np.testing.assert_allclose(scores.detach(), [math.sin(1), 0, math.sin(-2)], rtol=1e-14)


def test_the_second_frequency_is_slower_by_the_base_to_the_2_over_w():
    # at width 4 and base 100 the frequencies are 1 and 1/10; the columns are sin, sin, cos, cos
    q = k = np.ones((1, 1, 1))
    for column, expected in enumerate([math.sin(3), math.sin(0.3), math.cos(3), math.cos(0.3)]):
        weight = np.eye(4)[None, None, column]
        score = transformer_xl(q, k, [7], [4], np.zeros((1, 1)), np.zeros((1, 1)), weight, base=100)
        np.testing.assert_allclose(score, [[[expected]]], rtol=1e-14)


def test_u_weighs_the_key_wherever_it_stands():
    k = torch.tensor([1.0, 2, 3]).view(1, 1, 3, 1).double()
    scores = tuned(u=5.0)(ones(2), k, torch.arange(1, 3), torch.arange(3))[0, 0]
    torch.testing.assert_close(scores, torch.tensor([[5.0, 10, 15], [5, 10, 15]]).double())


def test_v_adds_to_the_query_that_meets_the_sinusoid():
    scores = tuned(v=2.0, cosine=1.0)(10 * ones(1), ones(2), torch.tensor([1]), torch.arange(2)).flatten()
    np.testing.assert_allclose(scores.detach(), [12 * math.cos(1), 12], rtol=1e-14)


def test_the_score_is_divided_by_the_root_of_the_width():
    q = k = np.array([[[1.0, 2, 0, 0]]])
    u, weight = np.array([[3.0, 4, 0, 0]]), np.zeros((1, 4, 2))
    np.testing.assert_allclose(transformer_xl(q, k, [0], [0], u, u, weight), [[[11 / 2]]])


def test_the_sinusoid_is_as_wide_as_the_model_by_default():
    assert TransformerXL(8, 4).weight.shape == (4, 8, 32)
    assert TransformerXL(8, 4, width=6).weight.shape == (4, 8, 6)


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
    q, k = content(h=2, g=2, t=t, s=s)
    split = [x.float().permute(2, 0, 1, 3) for x in (q, k)]
    mask = torch.arange(s) > torch.arange(s - t, s)[:, None] if sides == "uni" else torch.zeros(t, s)
    arguments = {"attn_mask": mask[:, :, None, None].float(), "output_attentions": True}
    weights = theirs.rel_attn_core(split[0], split[1], split[1], projected, **arguments)[1].permute(2, 3, 0, 1)
    scores = ours(q, k, torch.arange(s - t, s), torch.arange(s))
    logits = (q @ k.mT / math.sqrt(8) + scores).masked_fill(mask.bool(), -math.inf)
    torch.testing.assert_close(logits.softmax(dim=-1).float(), weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("t", [1, 2, 9])
def test_equals_a_conformer_whose_sines_and_cosines_alternate(t):
    conformer = peer("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    q, k = content(t=t, s=t, g=4)
    ours, table = build(), SimpleNamespace(hidden_size=32, max_source_positions=12)
    alternating = torch.arange(32).view(2, 16).T.flatten()  # sin_0 cos_0 sin_1 cos_1 ...
    theirs = SimpleNamespace(
        head_size=8,
        scaling=8**-0.5,
        pos_bias_u=ours.u.float(),
        pos_bias_v=ours.v.float(),
        linear_pos=lambda sinusoid: sinusoid @ ours.weight[..., alternating].flatten(0, 1).float().T,
    )
    sinusoid = conformer.Wav2Vec2BertRelPositionalEmbedding(table)(torch.zeros(1, t, 32))
    query, scores = conformer._apply_relative_position_encoding(theirs, q.float(), k.float(), sinusoid)
    logits = query @ k.float().mT / math.sqrt(8) + scores
    made = q @ k.mT / math.sqrt(8) + ours(q, k, torch.arange(t))
    torch.testing.assert_close(made.float(), logits, rtol=1e-4, atol=1e-4)


def test_equals_the_authors_code_where_a_causal_query_looks():
    # as published: sinusoids of klen-1 .. 0, products with q + v, then the shift whose upper triangle is left over
    (q, k), ours, s = content(t=3, s=7, g=4), build(), 7
    angle = torch.arange(s - 1, -1, -1.0).double()[:, None] * 10_000 ** (-torch.arange(0, 32, 2).double() / 32)
    sinusoid = torch.cat([angle.sin(), angle.cos()], dim=-1)
    products = torch.einsum("bhid,hdw,jw->bhij", q + ours.v[:, None], ours.weight, sinusoid)
    shifted = F.pad(products, (1, 0)).view(2, 4, s + 1, 3)[:, :, 1:].view(2, 4, 3, s)
    logits = ((q + ours.u[:, None]) @ k.mT + shifted) / math.sqrt(8)
    past = torch.ones(3, s).tril(s - 3).bool()
    made = q @ k.mT / math.sqrt(8) + ours(q, k, torch.arange(4, 7), torch.arange(7))
    torch.testing.assert_close(made[..., past], logits[..., past])


# Properties


@given(seed=seeds, where=places, shift=st.integers(-100_000, 100_000))
@exactly
def test_shifting_all_positions_changes_nothing(seed, where, shift):
    (q, k), where, module = content(seed), torch.tensor(where, dtype=torch.float64), build()
    there = module(q, k, where + shift, where + shift)
    torch.testing.assert_close(there, module(q, k, where, where), rtol=0, atol=1e-8)


@given(seed=seeds, where=places, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, where, order):
    (q, k), where, module = content(seed), torch.tensor(where, dtype=torch.float64), build()
    scores = module(q, k[:, :, order], where, where[list(order)])
    torch.testing.assert_close(scores, module(q, k, where, where)[..., order])


@given(seed=seeds, where=places, keys=places)
@exactly
def test_torch_equals_numpy_at_any_positions(seed, where, keys):
    (q, k), module = content(seed, b=1), build()
    learned = {name: parameter.detach() for name, parameter in module.named_parameters()}
    scores = module(q, k, *(torch.tensor(p, dtype=torch.float64) for p in (where, keys)))
    np.testing.assert_allclose(scores[0].detach(), transformer_xl(q[0], k[0], where, keys, **learned), atol=1e-11)


def test_ten_million_positions_on_the_scores_are_the_same_in_float32():
    (q, k), module = (x.float() for x in content()), build().float()
    near, far = torch.arange(6), torch.arange(6) + 10_000_000
    torch.testing.assert_close(module(q, k, far, far), module(q, k, near, near), rtol=0, atol=1e-5)


def test_angles_in_float32_would_be_worth_nothing_there():
    far = np.float32(10_000_001) * np.float32(10_000.0 ** (-2 / 32))
    assert abs(math.sin(far) - math.sin(10_000_001 * 10_000.0 ** (-2 / 32))) > 0.01


def test_past_and_future_at_one_distance_differ():
    scores = build()(*content())
    assert not torch.allclose(scores[..., 2, 0], scores[..., 2, 4])


def test_without_sines_they_are_alike():
    (q, k), module = content(), build()
    module.u.data[:], module.weight.data[..., :16] = 0, 0
    torch.testing.assert_close(module(q, k)[..., 2, :2].flip(-1), module(q, k)[..., 2, 3:5])


# Decoding, grouped heads, edges


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


def test_a_memory_of_keys_stands_before_the_segment():
    (q, k), module = content(t=3, s=8), build()
    behind = module(q, k, torch.arange(5, 8), torch.arange(8))
    torch.testing.assert_close(behind, module(q, k, torch.tensor([0, 1, 2]), torch.arange(-5, 3)))


def test_grouped_heads_equal_repeated_keys():
    q, k = content()
    torch.testing.assert_close(build()(q, k), build()(q, k.repeat_interleave(2, dim=1)))


def test_one_token_meets_the_sinusoid_of_offset_0():
    assert tuned(sine=7.0, cosine=3.0, u=1.0)(ones(1), ones(1), torch.tensor([0])).item() == 4


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    q, k = content(t=t, s=s)
    assert build()(q, k, torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_more_queries_than_keys_stand_where_they_are_said_to():
    scores = tuned(sine=1.0)(ones(3), ones(1), torch.tensor([-2, -1, 0]), torch.tensor([0])).flatten()
    np.testing.assert_allclose(scores.detach(), [math.sin(-2), math.sin(-1), 0], rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_content_is_scored_in_float32_and_rounded_once(dtype):
    (q, k), module = (x.to(dtype) for x in content()), build().float()
    assert torch.equal(module(q, k), module(q.float(), k.float()).to(dtype))


def test_parameters_start_normal_with_a_standard_deviation_of_2_percent():
    torch.manual_seed(0)
    for parameter in TransformerXL(64, 32, width=64).parameters():
        assert abs(parameter.std().item() / 0.02 - 1) < 0.05
        assert abs(parameter.mean().item()) < 0.002


def test_the_default_base_is_that_of_the_paper():
    for function in (TransformerXL, transformer_xl):
        assert inspect.signature(function).parameters["base"].default == 10_000.0


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("width", [7, 3])
def test_an_odd_width_is_refused_by_torch_and_numpy(width):
    with pytest.raises(RuntimeError, match=f"sizes .* don't multiply up to the size of dim 3 .{width}. "):
        TransformerXL(8, 4, width=width).double()(*content())
    with pytest.raises(ValueError, match="does not match"):
        transformer_xl(*np.ones((2, 1, 1, 4)), [0], [0], *np.ones((2, 1, 4)), np.ones((1, 4, width)))


def test_an_odd_model_has_a_width_of_its_own():
    assert TransformerXL(5, 3, width=16).weight.shape == (3, 5, 16)


@pytest.mark.parametrize("base", [0, -1, math.nan, math.inf], ids=repr)
def test_a_base_that_is_not_positive_is_refused(base):
    with pytest.raises(ValueError, match=f"transformer_xl: base must be positive and finite, got {base}"):
        TransformerXL(8, 2, base=base)
    with pytest.raises(ValueError, match=f"transformer_xl: base must be positive and finite, got {base}"):
        transformer_xl(*np.ones((2, 1, 1, 4)), [0], [0], *np.ones((2, 1, 4)), np.ones((1, 4, 2)), base=base)


def test_content_of_integers_and_queries_without_a_place_are_refused():
    (q, k), module = content(), build()
    with pytest.raises(ValueError, match=r"transformer_xl: q must be floats \(b, h, t, d\), got torch\.int64"):
        module(q.long(), k)
    given = "must be given for 6 queries and 3 keys, got None"
    with pytest.raises(ValueError, match=f"transformer_xl: positions {given}"):
        module(q, k[:, :, :3])
    with pytest.raises(ValueError, match=f"transformer_xl: key_positions {given}"):
        module(q, k[:, :, :3], torch.arange(6))


@pytest.mark.parametrize("where", [torch.arange(4096), torch.tensor([3]), torch.zeros(2, 1), torch.zeros(2, 12)])
def test_another_number_of_positions_is_refused_by_torch_in_numbers(where):
    (q, k), module = content(), build()
    for places in ({"positions": where}, {"positions": torch.arange(6), "key_positions": where}):
        with pytest.raises(RuntimeError, match=rf"sizes \[1, 6, 1\] don't multiply up to .*\({where.shape[-1]}\)"):
            module(q, k, **places)


def test_the_numpy_function_takes_one_position_a_token():
    learned = np.ones((2, 4)), np.ones((2, 4)), np.ones((2, 4, 6))
    assert_numpy_wants_one_position_a_token(transformer_xl, *learned)
