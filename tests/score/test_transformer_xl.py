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

# What the contract tests need to know (see tests/doors.py)

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


def exercise(module):
    encoding = module.TransformerXL(4, 2)
    for where in (None, torch.arange(6).view(2, 3)):
        encoding.joined(torch.ones(2, 2, 3, 4), torch.ones(2, 1, 5, 4), where)


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
    scores = tuned(cosine=1.0)(ones(1), ones(4)).flatten()
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
    scores = tuned(u=5.0)(ones(2), k)[0, 0]
    torch.testing.assert_close(scores, torch.tensor([[5.0, 10, 15], [5, 10, 15]]).double())


def test_v_adds_to_the_query_that_meets_the_sinusoid():
    scores = tuned(v=2.0, cosine=1.0)(10 * ones(1), ones(2)).flatten()
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
    logits = (q @ k.mT / math.sqrt(8) + ours(q, k)).masked_fill(mask.bool(), -math.inf)
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
    torch.testing.assert_close((q @ k.mT / math.sqrt(8) + ours(q, k)).float(), logits, rtol=1e-4, atol=1e-4)


def test_equals_the_authors_code_where_a_causal_query_looks():
    # as published: sinusoids of klen-1 .. 0, products with q + v, then the shift whose upper triangle is left over
    (q, k), ours, s = content(t=3, s=7, g=4), build(), 7
    angle = torch.arange(s - 1, -1, -1.0).double()[:, None] * 10_000 ** (-torch.arange(0, 32, 2).double() / 32)
    sinusoid = torch.cat([angle.sin(), angle.cos()], dim=-1)
    products = torch.einsum("bhid,hdw,jw->bhij", q + ours.v[:, None], ours.weight, sinusoid)
    shifted = F.pad(products, (1, 0)).view(2, 4, s + 1, 3)[:, :, 1:].view(2, 4, 3, s)
    logits = ((q + ours.u[:, None]) @ k.mT + shifted) / math.sqrt(8)
    past = torch.ones(3, s).tril(s - 3).bool()
    torch.testing.assert_close((q @ k.mT / math.sqrt(8) + ours(q, k))[..., past], logits[..., past])


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


# The logits as one product


@pytest.mark.parametrize("batched", [False, True])
def test_joined_queries_and_keys_give_the_whole_logits(batched):
    (q, k), module = content(t=4, s=7), build()
    where = torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]]) if batched else None
    joined_q, joined_k = module.joined(q, k, where)
    assert joined_q.shape == (2, 4, 4, 40)
    assert joined_k.shape == (2, 2, 7, 40)
    repeated = [x.repeat_interleave(2, dim=1) for x in (k, joined_k)]
    logits = q @ repeated[0].mT / math.sqrt(8) + module(q, k, where)
    torch.testing.assert_close(joined_q @ repeated[1].mT / math.sqrt(8), logits)


def test_fused_attention_over_joined_queries_and_keys_needs_no_scores():
    (q, k), module, values = content(), build(), content(seed=1)[1]
    fused = F.scaled_dot_product_attention(*module.joined(q, k), values, scale=8**-0.5, is_causal=True, enable_gqa=True)
    logits = q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(8) + module(q, k)
    weights = torch.where(torch.ones(6, 6).tril().bool(), logits, -math.inf).softmax(dim=-1)
    torch.testing.assert_close(fused, weights @ values.repeat_interleave(2, dim=1))


def test_joined_keys_keep_their_content_and_both_keep_their_dtype():
    q, k = (x.bfloat16() for x in content())
    joined_q, joined_k = build().joined(q, k)
    assert joined_q.dtype == joined_k.dtype == torch.bfloat16
    assert torch.equal(joined_k[..., :8], k)


# Decoding, grouped heads, edges


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1])
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


def test_a_memory_of_keys_stands_before_the_segment():
    (q, k), module = content(t=3, s=8), build()
    torch.testing.assert_close(module(q, k), module(q, k, torch.tensor([0, 1, 2]), torch.arange(-5, 3)))


def test_grouped_heads_equal_repeated_keys():
    q, k = content()
    torch.testing.assert_close(build()(q, k), build()(q, k.repeat_interleave(2, dim=1)))


def test_one_token_meets_the_sinusoid_of_offset_0():
    assert tuned(sine=7.0, cosine=3.0, u=1.0)(ones(1), ones(1)).item() == 4


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    q, k = content(t=t, s=s)
    assert build()(q, k).shape == (2, 4, t, s)
    assert build()(q, k, torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_more_queries_than_keys_start_before_them():
    scores = tuned(sine=1.0)(ones(3), ones(1)).flatten()
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


def test_printing_a_module_shows_its_arguments():
    assert repr(TransformerXL(8, 2)) == "TransformerXL(dim=8, heads=2, base=10000, width=16)"


def test_the_default_base_is_that_of_the_paper():
    for function in (TransformerXL, transformer_xl):
        assert inspect.signature(function).parameters["base"].default == 10_000.0


# What it refuses


@pytest.mark.parametrize("setting", ["dim", "heads"])
@pytest.mark.parametrize("wrong", [0, -1, 2.0, "4", True, None], ids=repr)
def test_sizes_that_are_no_positive_integer_are_refused(setting, wrong):
    with pytest.raises(ValueError, match=f"transformer_xl: {setting} must be a positive integer, got {wrong!r}"):
        TransformerXL(**{"dim": 8, "heads": 2, setting: wrong})


@pytest.mark.parametrize("width", [0, -2, 7, 8.0, "8", True], ids=repr)
def test_a_width_that_is_not_even_is_refused(width):
    with pytest.raises(ValueError, match=f"transformer_xl: width must be an even positive integer, got {width!r}; "):
        TransformerXL(8, 2, width=width)


def test_an_odd_model_needs_a_width():
    with pytest.raises(ValueError, match="transformer_xl: width must be an even positive integer, got 15; "):
        TransformerXL(5, 3)
    assert TransformerXL(5, 3, width=16).weight.shape == (3, 5, 16)


@pytest.mark.parametrize("base", [0, -1, math.nan, math.inf, "10", None, True], ids=repr)
def test_a_base_that_is_not_positive_is_refused(base):
    with pytest.raises(ValueError, match=f"transformer_xl: base must be positive and finite, got {base!r}; "):
        TransformerXL(8, 2, base=base)
    with pytest.raises(ValueError, match=f"transformer_xl: base must be positive and finite, got {base!r}; "):
        transformer_xl(*np.ones((2, 1, 1, 4)), [0], [0], *np.ones((2, 1, 4)), np.ones((1, 4, 2)), base=base)


@pytest.mark.parametrize("where", [torch.ones(6, dtype=torch.bool), torch.ones(6, dtype=torch.complex64), [0] * 6])
def test_positions_that_are_no_numbers_are_refused(where):
    q, k = content()
    for call in (build(), build().joined):
        with pytest.raises(
            ValueError, match=r"transformer_xl: positions must be a tensor of numbers \(6,\) or \(2, 6\), got "
        ):
            call(q, k, where)
        with pytest.raises(
            ValueError, match=r"transformer_xl: key_positions must be a tensor of numbers \(6,\) or \(2, 6\), got "
        ):
            call(q, k, None, where)


def test_queries_of_other_heads_are_refused():
    with pytest.raises(
        ValueError, match=r"transformer_xl: q must be a floating point tensor \(b, 5, t, 8\), got torch.float64"
    ):
        build(heads=5)(*content())


def test_keys_whose_heads_divide_none_are_refused():
    with pytest.raises(ValueError, match="transformer_xl: k must be of q's batch with g dividing h, got "):
        build().joined(content()[0], torch.zeros(2, 3, 6, 8))


@pytest.mark.parametrize("name", ["u", "v", "weight"])
def test_parameters_of_other_heads_are_refused_by_the_numpy_function(name):
    learned = {"u": np.ones((1, 4)), "v": np.ones((1, 4)), "weight": np.ones((1, 4, 2))}
    learned[name] = np.repeat(learned[name], 2, axis=0)
    with pytest.raises(ValueError, match=rf"transformer_xl: {name} must be of \(h, d\) = \(1, 4\), got \(2, 4"):
        transformer_xl(*np.ones((2, 1, 1, 4)), [0], [0], **learned)


@pytest.mark.parametrize("where", [[math.nan, 0], [math.inf, 0], [0]], ids=str)
def test_positions_that_are_not_finite_are_refused_by_the_numpy_function(where):
    with pytest.raises(ValueError, match="transformer_xl: positions must be 2 finite numbers, got "):
        transformer_xl(*np.ones((2, 1, 2, 4)), where, [0, 1], *np.ones((2, 1, 4)), np.ones((1, 4, 2)))


def test_arrays_are_refused_where_tensors_are_meant():
    encoding, x = TransformerXL(8, 4), torch.zeros(1, 4, 3, 8)
    with pytest.raises(
        ValueError, match=r"transformer_xl: q must be a floating point tensor \(b, 4, t, 8\), got float64"
    ):
        encoding(x.double().numpy(), x.numpy())
    with pytest.raises(
        ValueError, match=r"transformer_xl: k must be a floating point tensor \(b, g, s, 8\), got float32"
    ):
        encoding(x, x.numpy())
    with pytest.raises(
        ValueError, match=r"transformer_xl: positions must be a tensor of numbers \(3,\) or \(1, 3\), got int64"
    ):
        encoding(x, x, np.arange(3))
