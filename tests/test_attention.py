"""Attention: the formula, where queries stand, grouped heads, masks, and that looking agrees with computing."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posenc.attention import attention, attention_weights

B, H, G, T, S, D, WIDE = 2, 6, 3, 4, 7, 8, 5


@pytest.fixture
def qkv():
    """Return float64 queries (b, h, t, d), keys (b, g, s, d) and values (b, g, s, wide), each different."""
    torch.manual_seed(0)
    shapes = [(B, H, T, D), (B, G, S, D), (B, G, S, WIDE)]
    return tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


def formula(q, k, v, seen=None):
    """Work out softmax(q k^T / sqrt(d)) v in loops over batch, head and query, over the keys that are seen."""
    q, k, v = q.numpy(), k.numpy(), v.numpy()
    weights = np.zeros((*q.shape[:3], k.shape[2]))
    out = np.zeros((*q.shape[:3], v.shape[3]))
    seen = np.ones(weights.shape, bool) if seen is None else np.broadcast_to(seen, weights.shape)
    for b, h, t in np.ndindex(q.shape[:3]):
        group = h * k.shape[1] // q.shape[1]
        keys = np.flatnonzero(seen[b, h, t])
        logits = [sum(q[b, h, t] * k[b, group, s]) / math.sqrt(q.shape[3]) for s in keys]
        total = sum(math.exp(logit) for logit in logits)
        for s, logit in zip(keys, logits, strict=True):
            weights[b, h, t, s] = math.exp(logit) / total
            out[b, h, t] += weights[b, h, t, s] * v[b, group, s]
    return out, weights


def assert_formula(qkv, seen=None, **arguments):
    """Both functions, called with `arguments`, equal the formula over the keys `seen`."""
    out, weights = formula(*qkv, seen)
    np.testing.assert_allclose(attention(*qkv, **arguments), out, atol=1e-14)
    np.testing.assert_allclose(attention_weights(*qkv[:2], **arguments), weights, atol=1e-14)


def exercise(module):
    """Call what has shape comments, for tests/test_files.py."""
    q, k, v = torch.randn(3, 4, 6, 8), torch.randn(3, 2, 7, 8), torch.randn(3, 2, 7, 8)
    batched = {"positions": torch.arange(18).view(3, 6), "key_positions": torch.arange(21).view(3, 7)}
    for arguments in ({}, {"causal": True}, {"causal": True, **batched}):
        module.attention(q, k, v, **arguments)
        module.attention_weights(q, k, **arguments)


# The formula


def test_by_hand():
    # one query (2, 0) and keys (1, 0), (0, 1): logits 2/sqrt(2) and 0
    q, k, v = torch.tensor([[[[2.0, 0.0]]]]), torch.eye(2)[None, None], torch.tensor([[[[10.0], [20.0]]]])
    first = math.exp(math.sqrt(2)) / (math.exp(math.sqrt(2)) + 1)
    torch.testing.assert_close(attention(q, k, v), torch.tensor([[[[10 * first + 20 * (1 - first)]]]]))


def test_without_a_mask_every_key_is_seen(qkv):
    assert_formula(qkv)


def test_rows_of_the_weights_sum_to_1(qkv):
    for causal in (False, True):
        sums = attention_weights(*qkv[:2], causal=causal).sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones(B, H, T, dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_the_weights_are_those_that_attention_gives_to_the_values(qkv, causal):
    q, k, v = qkv
    weights = attention_weights(q, k, causal=causal)
    values = v.repeat_interleave(H // G, dim=1)
    torch.testing.assert_close(attention(q, k, v, causal=causal), weights @ values)


def test_permuting_keys_and_values_changes_nothing(qkv):
    q, k, v = qkv
    order = torch.tensor([6, 2, 0, 5, 1, 3, 4])
    torch.testing.assert_close(attention(q, k[:, :, order], v[:, :, order]), attention(q, k, v))


def test_permuting_the_tokens_permutes_the_outputs(qkv):
    q, k, v = qkv
    q, order = k, torch.tensor([6, 2, 0, 5, 1, 3, 4])
    permuted = attention(*(tensor[:, :, order] for tensor in (q, k, v)))
    torch.testing.assert_close(permuted, attention(q, k, v)[:, :, order])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_result_has_the_dtype_of_the_queries(qkv, dtype):
    q, k, v = (tensor.to(dtype) for tensor in qkv)
    assert attention(q, k, v, causal=True).dtype == attention_weights(q, k, causal=True).dtype == dtype


def test_inputs_are_not_changed(qkv):
    before = [tensor.clone() for tensor in qkv]
    attention(*qkv, causal=True)
    attention_weights(*qkv[:2], causal=True)
    assert all(torch.equal(tensor, old) for tensor, old in zip(qkv, before, strict=True))


# Grouped heads


def test_grouped_heads_equal_repeated_heads(qkv):
    q, k, v = qkv
    k_each, v_each = (tensor.repeat_interleave(H // G, dim=1) for tensor in (k, v))
    torch.testing.assert_close(attention(q, k, v), attention(q, k_each, v_each))
    torch.testing.assert_close(attention_weights(q, k), attention_weights(q, k_each))


def test_one_key_head_serves_all(qkv):
    q, k, v = qkv
    assert_formula((q, k[:, :1], v[:, :1]))


# Where queries stand


def causal_by_default():
    """Query row t of 4 stands at the key 3 + t of 7."""
    return np.arange(3, 7)[:, None] >= np.arange(7)


def test_causal_queries_stand_at_the_last_keys_by_default(qkv):
    assert_formula(qkv, causal_by_default(), causal=True)


def test_causal_with_as_many_queries_as_keys_is_a_triangle(qkv):
    q, k, v = qkv
    q = torch.cat([q, q[:, :, :3]], dim=2)
    assert_formula((q, k, v), np.tri(7, dtype=bool), causal=True)


def test_one_query_sees_the_whole_cache(qkv):
    q, k, v = qkv
    torch.testing.assert_close(attention(q[:, :, :1], k, v, causal=True), attention(q[:, :, :1], k, v))


def test_torch_aligns_queries_with_the_first_keys_instead(qkv):
    q, k, v = qkv
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert not torch.allclose(theirs, attention(q, k, v, causal=True))


def test_the_future_does_not_change_the_past(qkv):
    _, k, v = qkv
    changed_k, changed_v = k.clone(), v.clone()
    changed_k[:, :, 4:] = changed_v[:, :, 4:] = 99.0
    before, after = (attention(keys, keys, values, causal=True) for keys, values in ((k, v), (changed_k, changed_v)))
    assert torch.equal(before[:, :, :4], after[:, :, :4])


def test_decoding_step_by_step_equals_prefill(qkv):
    _, k, v = qkv
    q = torch.randn(B, H, S, D, dtype=torch.float64)
    steps = [attention(q[:, :, p : p + 1], k[:, :, : p + 1], v[:, :, : p + 1], causal=True) for p in range(S)]
    torch.testing.assert_close(torch.cat(steps, dim=2), attention(q, k, v, causal=True))


def test_decoding_in_chunks_equals_prefill(qkv):
    _, k, v = qkv
    q = torch.randn(B, H, S, D, dtype=torch.float64)
    chunks = [attention(q[:, :, a:b], k[:, :, :b], v[:, :, :b], causal=True) for a, b in ((0, 3), (3, 5), (5, 7))]
    torch.testing.assert_close(torch.cat(chunks, dim=2), attention(q, k, v, causal=True))


def test_positions_of_the_queries_decide_what_they_see(qkv):
    positions = np.array([0, 6, 2, 2])
    assert_formula(qkv, positions[:, None] >= np.arange(7), causal=True, positions=torch.from_numpy(positions))


def test_positions_of_the_keys_decide_who_sees_them(qkv):
    keys = np.array([3, 0, 9, 1, 2, 4, 3])
    seen = np.arange(3, 7)[:, None] >= keys
    assert_formula(qkv, seen, causal=True, key_positions=torch.from_numpy(keys))


def test_each_sequence_may_have_its_own_positions(qkv):
    positions = np.array([[0, 1, 2, 3], [9, 5, 4, 8]])
    keys = np.array([[0, 1, 2, 3, 4, 5, 6], [4, 5, 6, 7, 8, 9, 10]])
    seen = (positions[:, :, None] >= keys[:, None, :])[:, None]
    given = {"positions": torch.from_numpy(positions), "key_positions": torch.from_numpy(keys)}
    assert_formula(qkv, seen, causal=True, **given)


def test_batched_queries_may_share_the_keys_positions(qkv):
    positions = np.array([[0, 1, 2, 3], [6, 5, 4, 3]])
    seen = (positions[:, :, None] >= np.arange(7))[:, None]
    assert_formula(qkv, seen, causal=True, positions=torch.from_numpy(positions))


def test_given_positions_count_where_there_are_as_many_queries_as_keys(qkv):
    _, k, v = qkv
    positions = torch.tensor([6, 5, 4, 3, 2, 1, 0])
    seen = (positions[:, None] >= torch.arange(7)).numpy()
    assert_formula((k, k, v), seen, causal=True, positions=positions)


def test_without_causal_positions_hide_nothing(qkv):
    q, k, v = qkv
    assert torch.equal(attention(q, k, v, positions=torch.zeros(T)), attention(q, k, v))


# Masks

MASKS = {
    "keys of each sequence": (B, 1, 1, S),
    "keys": (S,),
    "pairs": (T, S),
    "pairs of each head": (H, T, S),
    "all": (B, H, T, S),
}


def some_mask(shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) > 0.4
    mask[..., 0] = True  # so that no query is left without a key
    return mask


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_hides_where_it_is_false(qkv, name):
    mask = some_mask(MASKS[name])
    assert_formula(qkv, mask.numpy(), mask=mask)


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_and_causal_hide_together(qkv, name):
    mask = some_mask(MASKS[name])
    assert_formula(qkv, mask.numpy() & causal_by_default(), mask=mask, causal=True)


def test_a_mask_and_causal_hide_together_where_there_are_as_many_queries_as_keys(qkv):
    _, k, v = qkv
    mask = some_mask((S, S))
    assert_formula((k, k, v), mask.numpy() & np.tri(S, dtype=bool), mask=mask, causal=True)


def test_a_query_that_sees_no_key_gets_zeros_and_no_nan(qkv):
    q, k, v = qkv
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[2] = False
    assert attention(q, k, v, mask=mask)[:, :, 2].count_nonzero() == 0
    assert attention_weights(q, k, mask=mask)[:, :, 2].count_nonzero() == 0


# In torch


def test_gradients_flow(qkv):
    inputs = tuple(tensor[:1, :, :2].clone().requires_grad_() for tensor in qkv)
    assert torch.autograd.gradcheck(lambda q, k, v: attention(q, k, v, causal=True), inputs, fast_mode=True)


def test_compiles_without_a_graph_break(qkv):
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, causal=True), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(*qkv), attention(*qkv, causal=True))


def test_on_the_meta_device_only_the_shape_is_computed(qkv):
    out = attention(*(tensor.to("meta") for tensor in qkv), causal=True)
    assert (out.device.type, out.shape) == ("meta", (B, H, T, WIDE))


def test_the_default_device_does_not_matter(qkv):
    expected = attention(*qkv, causal=True)
    with torch.device("meta"):
        out = attention(*qkv, causal=True)
    assert torch.equal(out, expected)


# What it refuses

WRONG_SHAPES = {
    "q without heads": ((B, T, D), (B, G, S, D)),
    "k without heads": ((B, H, T, D), (B, S, D)),
    "widths that differ": ((B, H, T, D), (B, G, S, D + 1)),
    "heads that do not divide": ((B, H, T, D), (B, 4, S, D)),
    "fewer queries' heads than keys'": ((B, 2, T, D), (B, 4, S, D)),
    "no key heads": ((B, H, T, D), (B, 0, S, D)),
    "batches that differ": ((B, H, T, D), (3, G, S, D)),
    "one key sequence for a batch": ((B, H, T, D), (1, G, S, D)),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_shapes_that_do_not_fit_are_refused_by_both(name):
    q, k = (torch.randn(shape) for shape in WRONG_SHAPES[name])
    with pytest.raises(ValueError, match=r"attention: q and k must be \(b, h, t, d\) and \(b, g, s, d\).*, got \("):
        attention(q, k, k)
    with pytest.raises(ValueError, match=r"attention: q and k must be \(b, h, t, d\) and \(b, g, s, d\).*, got \("):
        attention_weights(q, k)


@pytest.mark.parametrize("shape", [(B, G, S - 1, D), (B, 1, S, D), (1, G, S, D), (G, S, D)], ids=str)
def test_values_that_do_not_fit_the_keys_are_refused(qkv, shape):
    with pytest.raises(ValueError, match=r"attention: v must .*\(2, 3, 7.*got \("):
        attention(*qkv[:2], torch.randn(shape, dtype=torch.float64))


WRONG_POSITIONS = {
    "one for all": (1,),
    "one too many": (8,),
    "a scalar": (),
    "another batch": (3, None),
    "one row for a batch": (1, None),
    "heads too": (B, H, None),
}


@pytest.mark.parametrize("argument", ["positions", "key_positions"])
@pytest.mark.parametrize("name", WRONG_POSITIONS)
def test_positions_that_do_not_fit_are_refused(qkv, argument, name):
    length = {"positions": T, "key_positions": S}[argument]
    shape = [length if size is None else size for size in WRONG_POSITIONS[name]]
    given = {argument: torch.zeros(shape, dtype=torch.long)}
    with pytest.raises(ValueError, match=rf"attention: {argument} must be .*, got "):
        attention(*qkv, causal=True, **given)
    with pytest.raises(ValueError, match=rf"attention: {argument} must be .*, got "):
        attention_weights(*qkv[:2], causal=True, **given)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_that_is_not_boolean_is_refused(qkv, dtype, causal):
    mask = torch.ones(T, S, dtype=dtype)
    with pytest.raises(ValueError, match=rf"attention: mask must be boolean.*, got {dtype}"):
        attention(*qkv, causal=causal, mask=mask)
    with pytest.raises(ValueError, match=rf"attention: mask must be boolean.*, got {dtype}"):
        attention_weights(*qkv[:2], causal=causal, mask=mask)


@pytest.mark.parametrize("shape", [(B, S), (S, T), (T + 1, S)], ids=str)
def test_a_mask_that_does_not_broadcast_is_refused(qkv, shape):
    with pytest.raises(ValueError, match=r"attention: mask must be .*\(2, 6, 4, 7\), got "):
        attention(*qkv, mask=torch.ones(shape, dtype=torch.bool))
