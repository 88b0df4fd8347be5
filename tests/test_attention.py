"""Attention: the formula, where queries stand, masks, encodings of each door, and what is never stored."""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from posenc.add.sinusoidal import Sinusoidal
from posenc.attention import attention, attention_weights, takes_content
from posenc.bias.alibi import ALiBi
from posenc.bias.t5 import T5
from posenc.fast.attention_in_blocks import attention_in_blocks
from posenc.fast.flex import attention_by_flex
from posenc.positions import document_mask
from posenc.rotate.axial import Axial
from posenc.rotate.pope import PoPE
from posenc.rotate.rope import RoPE
from posenc.score.cope import CoPE
from posenc.score.shaw import Shaw
from tests.contract import encoding_inputs

B, H, G, T, S, D, WIDE = 2, 6, 3, 4, 7, 8, 5

EACH = [e.variants()[0] for e in encoding_inputs.encodings() if e.door != "add"]
each_encoding = pytest.mark.parametrize("encoding", EACH, ids=str)


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
    """Call what has shape comments, for tests/contract/test_files.py."""
    q, k, v = torch.randn(3, 4, 6, 8), torch.randn(3, 2, 7, 8), torch.randn(3, 2, 7, 8)
    batched = {"positions": torch.arange(18).view(3, 6), "key_positions": torch.arange(21).view(3, 7)}
    for arguments in ({}, {"causal": True}, {"causal": True, **batched}):
        module.attention(q, k, v, **arguments)
        module.attention_weights(q, k, **arguments)
    for encoding in (T5(4), ALiBi(4), Shaw(8, on_values=True)):
        module.attention(q, k, v, encoding, causal=True)
        module.attention(q, k, v, encoding, **batched, mask=torch.ones(6, 7) > 0)


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
    seen = keys[3:, None] >= keys  # queries are the last of them
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


def test_one_row_of_positions_serves_a_batch(qkv):
    m, n = torch.tensor([4, 9, 0, 0]), torch.tensor([3, 2, 8, 0, 1, 1, 5])
    seen = (m[:, None] >= n).numpy()
    assert_formula(qkv, seen, causal=True, positions=m[None], key_positions=n[None])
    for encoding in (t5(), ALiBi(H), Shaw(D, clip=2).double()):
        expected = attention(*qkv, encoding, m, n, causal=True)
        for given in ((m[None], n[None]), (m, n[None]), (m.expand(B, T), n[None]), (m[None], n.expand(B, S))):
            torch.testing.assert_close(attention(*qkv, encoding, *given, causal=True), expected)


def test_one_row_of_coordinates_serves_a_batch(qkv):
    grid = torch.stack([torch.tensor([0, 9, 1, 2, 3, 3, 4]), torch.tensor([3, 0, 0, 7, 1, 2, 2])], dim=-1)
    given = [{"positions": m, "key_positions": n} for m, n in ((grid[3:], grid), (grid[None, 3:], grid[None]))]
    plain, one_row = (attention(*qkv, Axial(D), **each, causal=True) for each in given)
    assert torch.equal(one_row, plain)


def test_given_positions_count_where_there_are_as_many_queries_as_keys(qkv):
    _, k, v = qkv
    positions = torch.tensor([6, 5, 4, 3, 2, 1, 0])
    seen = (positions[:, None] >= positions).numpy()
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


# Encodings, known by their call


def scores_by_hand(q, k, bias):
    """Return q k^T / sqrt(d) + bias with each key head repeated for its queries."""
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT / q.shape[-1] ** 0.5 + bias


def assert_weights(q, k, v, logits, **arguments):
    """Attention and its weights, called with `arguments`, are softmax(logits) v and softmax(logits)."""
    weights = logits.softmax(dim=-1)
    torch.testing.assert_close(attention_weights(q, k, **arguments), weights, atol=1e-6, rtol=1e-5)
    expected = weights @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    torch.testing.assert_close(attention(q, k, v, **arguments), expected, atol=1e-6, rtol=1e-5)


def t5(heads=H, **options):
    encoding = T5(heads, buckets=8, max_distance=9, **options)
    nn.init.normal_(encoding.weight)
    return encoding.requires_grad_(False)


def test_a_bias_is_added_to_the_logits(qkv):
    q, k, _ = qkv
    encoding = t5()
    assert_weights(*qkv, scores_by_hand(q, k, encoding(torch.arange(3, 7), torch.arange(7))), encoding=encoding)


def test_a_bias_of_given_positions(qkv):
    q, k, _ = qkv
    encoding, m, n = t5(), torch.tensor([4, 9, 0, 0]), torch.tensor([3, 2, 8, 0, 1, 1, 5])
    assert_weights(*qkv, scores_by_hand(q, k, encoding(m, n)), encoding=encoding, positions=m, key_positions=n)


def test_a_bias_of_a_batch_of_positions(qkv):
    q, k, _ = qkv
    encoding, m = t5(), torch.tensor([[4, 9, 0, 0], [7, 7, 6, 1]])
    logits = scores_by_hand(q, k, encoding(m, torch.arange(7)))
    assert_weights(*qkv, logits, encoding=encoding, positions=m)


def test_a_bias_and_what_is_hidden_meet_in_the_softmax(qkv):
    q, k, _ = qkv
    encoding, mask = t5(), some_mask((B, 1, 1, S))
    logits = scores_by_hand(q, k, encoding(torch.arange(3, 7), torch.arange(7)))
    hidden = ~(torch.from_numpy(causal_by_default()) & mask)
    assert_weights(*qkv, logits.masked_fill(hidden, -math.inf), encoding=encoding, mask=mask, causal=True)


def test_scores_are_added_to_the_logits_as_they_are(qkv):
    q, k, _ = qkv
    encoding = Shaw(D, clip=2).double().requires_grad_(False)
    scores = encoding(q, k, torch.arange(S - T, S), torch.arange(S))
    assert_weights(*qkv, scores_by_hand(q, k, scores), encoding=encoding)


class Doubled(nn.Module):
    """Rotate nothing; return queries and keys of twice the width, and so of twice the product."""

    def forward(self, q, k, positions=None, key_positions=None, table=None):
        times = 1 if table is None else table
        return torch.cat([times * q, times * q], dim=-1), torch.cat([k, k], dim=-1)


def test_a_rotation_is_scaled_by_the_width_before_it(qkv):
    q, k, _ = qkv
    assert_weights(*qkv, scores_by_hand(2 * q, k, 0), encoding=Doubled())


def test_pope_keeps_the_scale_of_its_width():
    q, k, v = torch.randn(3, B, H, S, D).unbind()
    turned_q, turned_k = PoPE(D, H)(q, k)
    assert_weights(q, k, v, turned_q @ turned_k.mT / D**0.5, encoding=PoPE(D, H))


def test_what_else_an_encoding_takes_is_passed_on(qkv):
    q, k, _ = qkv
    assert_weights(*qkv, scores_by_hand(6 * q, k, 0), encoding=Doubled(), table=3)


def test_any_function_is_an_encoding(qkv):
    q, k, _ = qkv
    assert_weights(*qkv, scores_by_hand(q, k, 5), encoding=lambda positions, keys: torch.full((H, T, S), 5.0))
    assert_weights(*qkv, scores_by_hand(q, k, q[..., :1]), encoding=lambda q, k, *_: q[..., :1].expand(B, H, T, S))
    assert_weights(*qkv, scores_by_hand(3 * q, k, 0), encoding=lambda q, k, *_: (3 * q, k))


def renamed(encoding, door):
    if door == "bias":
        return lambda at, towards: encoding(at, towards)
    return lambda queries, keys, at, towards: encoding(queries, keys, at, towards)


FORMS = {
    "other names": renamed,
    "any number of arguments": lambda encoding, door: lambda *given: encoding(*given),
    "a partial": lambda encoding, door: functools.partial(encoding),
    "a partial of a function": lambda encoding, door: functools.partial(renamed(encoding, door)),
    "a method": lambda encoding, door: encoding.forward,
    "a wrapper": lambda encoding, door: functools.wraps(encoding.forward)(
        lambda *given, **extra: encoding(*given, **extra)
    ),
}


@pytest.mark.parametrize("form", FORMS)
@each_encoding
def test_a_door_is_known_whatever_its_arguments_are_named(encoding, form):
    module, (q, k, v), where = encoding.build(), content(5), places(encoding, 0, 5)
    same = FORMS[form](module, encoding.door)
    for attend in (
        lambda e: attention(q, k, v, e, causal=True, **where),
        lambda e: attention_weights(q, k, e, **where),
    ):
        torch.testing.assert_close(attend(same), attend(module), rtol=0, atol=0)


def test_a_partial_adds_to_the_values_too():
    encoding, (q, k, v) = Shaw(encoding_inputs.D, clip=2, on_values=True), content(S)
    torch.testing.assert_close(attention(q, k, v, functools.partial(encoding)), attention(q, k, v, encoding))
    assert not torch.allclose(attention(q, k, v, encoding), attention(q, k, v, lambda *given: encoding(*given)))


def test_a_bias_with_options_of_its_own_is_told_from_a_rotation_by_what_comes_back(qkv):
    def bias(positions, key_positions=None, slope=0.5, causal=False, window=None):
        offset = positions[:, None] - key_positions
        return -slope * (offset.clamp(min=0) if causal else offset.abs()).expand(H, T, S)

    for encoding in (bias, functools.partial(bias, slope=0.5), lambda *given: bias(*given)):
        assert_weights(*qkv, scores_by_hand(*qkv[:2], bias(torch.arange(3, 7), torch.arange(7))), encoding=encoding)


def test_a_partial_keeps_what_is_bound_to_it(qkv):
    q, k, _ = qkv
    assert_weights(*qkv, scores_by_hand(3 * q, k, 0), encoding=functools.partial(Doubled(), table=1.5))
    scaled = functools.partial(lambda factor, m, n: torch.full((H, T, S), factor), 5.0)
    assert_weights(*qkv, scores_by_hand(q, k, 5), encoding=scaled)


def test_a_mask_that_is_bound_to_an_encoding_is_not_replaced():
    (q, k, _), mask, cope = content(S), some_mask((B, 1, 1, S)), CoPE(encoding_inputs.D, 4).requires_grad_(False)
    nn.init.normal_(cope.weight)
    expected = scores_by_hand(q, k, cope(q, k, mask=mask)).softmax(dim=-1)
    torch.testing.assert_close(attention_weights(q, k, functools.partial(cope, mask=mask)), expected)
    assert not torch.allclose(attention_weights(q, k, cope), expected, atol=0.01)


@each_encoding
def test_an_encoding_of_the_package_is_never_tried_as_another_door(encoding):
    """What it refuses is said in its own words."""
    for form in (encoding.build(), functools.partial(encoding.build()), encoding.build().forward):
        assert takes_content(form) is (encoding.door != "bias")


def test_one_bias_may_serve_all_heads(qkv):
    q, k, _ = qkv
    encoding = t5(1)
    assert_weights(*qkv, scores_by_hand(q, k, encoding(torch.arange(3, 7), torch.arange(7))), encoding=encoding)


def test_a_compiled_encoding_is_one_too(qkv):
    torch._dynamo.reset()
    for encoding in (t5(), ALiBi(H), Doubled()):
        compiled = torch.compile(encoding, backend="eager")
        torch.testing.assert_close(attention(*qkv, compiled), attention(*qkv, encoding))


def test_the_mask_reaches_scores_that_ask_for_it(qkv):
    asked = []

    def encoding(q, k, positions, key_positions, mask=None):
        asked.append(mask)
        return torch.zeros(B, H, T, S)

    mask = some_mask((B, 1, 1, S))
    attention(*qkv, encoding, mask=mask, causal=True)
    assert torch.equal(asked.pop(), mask)  # not what is ahead: it lies between no query and its keys
    attention(*qkv, encoding, causal=True)
    assert asked == [None]


def test_cope_counts_no_token_of_another_document():
    q, k, v = torch.randn(3, 1, H, 8, D).unbind()
    encoding = CoPE(D).requires_grad_(False)
    nn.init.normal_(encoding.weight)
    documents, positions = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1]), torch.tensor([0, 1, 2, 0, 1, 2, 3, 4])
    packed = attention(q, k, v, encoding, positions, positions, causal=True, mask=document_mask(documents))
    alone = [attention(q[:, :, d], k[:, :, d], v[:, :, d], encoding, causal=True) for d in (slice(0, 3), slice(3, 8))]
    torch.testing.assert_close(packed, torch.cat(alone, dim=2))


def test_what_an_encoding_gives_to_the_values_is_added(qkv):
    q, k, v = qkv
    v = torch.randn(B, G, S, D, dtype=torch.float64)
    encoding = Shaw(D, clip=2, on_values=True).double().requires_grad_(False)
    scores = encoding(q, k, torch.arange(S - T, S), torch.arange(S))
    weights = scores_by_hand(q, k, scores).softmax(dim=-1)
    expected = np.zeros((B, H, T, D))
    for b, h, t, s in np.ndindex(B, H, T, S):
        vector = encoding.value_table[min(max(s - (t + 3), -2), 2) + 2]
        expected[b, h, t] += (weights[b, h, t, s] * (v[b, h * G // H, s] + vector)).numpy()
    np.testing.assert_allclose(attention(q, k, v, encoding), expected, atol=1e-12)
    off = Shaw(D, clip=2).double()
    off.load_state_dict({"key_table": encoding.key_table})
    torch.testing.assert_close(attention(q, k, v, off), weights @ v.repeat_interleave(H // G, dim=1))


def content(length):
    torch.manual_seed(1)
    return torch.randn(2, encoding_inputs.H, length, encoding_inputs.D), *torch.randn(
        2, 2, encoding_inputs.G, length, encoding_inputs.D
    ).unbind()


def coordinates(encoding, positions):
    """Return positions as the encoding takes them: numbers, or rows of coordinates that differ."""
    if encoding.takes_text:
        return positions
    return torch.stack([(axis + 1) * positions % 7 for axis in range(encoding.declared("AXES", 0))], dim=-1)


def places(encoding, start, stop):
    """Return what says where queries from `start` to `stop` and the keys before `stop` stand, if that must be said."""
    if encoding.takes_text:
        return {}
    line = coordinates(encoding, torch.arange(stop))
    return {"positions": line[start:], "key_positions": line}


@each_encoding
def test_decoding_with_a_cache_equals_prefill_for_every_encoding(encoding):
    module, (q, k, v) = encoding.build(), content(9)

    def attend(a, b):
        return attention(q[:, :, a:b], k[:, :, :b], v[:, :, :b], module, causal=True, **places(encoding, a, b))

    whole = attend(0, 9)
    for parts in ([(p, p + 1) for p in range(9)], [(0, 4), (4, 9)]):
        torch.testing.assert_close(torch.cat([attend(*part) for part in parts], dim=2), whole, atol=3e-6, rtol=1e-5)


@each_encoding
def test_looking_agrees_with_computing_for_every_encoding(encoding):
    module, (q, k, v), where = encoding.build(), content(9), places(encoding, 0, 9)
    if getattr(module, "on_values", False):
        pytest.skip("the values have vectors of their own")
    for causal in (True, False):
        seen = attention_weights(q, k, module, causal=causal, **where) @ v.repeat_interleave(2, dim=1)
        torch.testing.assert_close(attention(q, k, v, module, causal=causal, **where), seen, atol=3e-6, rtol=1e-5)


@each_encoding
def test_left_padding_that_is_hidden_changes_nothing_for_every_encoding(encoding):
    module, (q, k, v) = encoding.build(), content(6)
    padded = [torch.cat([9 * torch.ones_like(x[:, :, :3]), x], dim=2) for x in (q, k, v)]
    positions = coordinates(encoding, torch.tensor([0, 0, 0, 0, 1, 2, 3, 4, 5]))
    mask = torch.arange(9) >= 3
    made = attention(*padded, module, positions, positions, causal=True, mask=mask)[:, :, 3:]
    expected = attention(q, k, v, module, causal=True, **places(encoding, 0, 6))
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=1e-5)


ORDERED = ("rotate/selective",)  # positions tell it the order of all tokens in a row, so they do not restart


@each_encoding
def test_packed_documents_are_as_alone_for_every_encoding(encoding):
    module, (q, k, v) = encoding.build(), content(9)
    documents = torch.tensor([7, 7, 7, 7, 2, 2, 2, 2, 2])
    positions = coordinates(encoding, torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 4]))
    if encoding.key in ORDERED:
        positions = torch.arange(9)
    packed = attention(q, k, v, module, positions, positions, causal=True, mask=document_mask(documents))
    alone = [
        attention(q[:, :, d], k[:, :, d], v[:, :, d], module, causal=True, **places(encoding, 0, d.stop - d.start))
        for d in (slice(0, 4), slice(4, 9))
    ]
    torch.testing.assert_close(packed, torch.cat(alone, dim=2), atol=1e-5, rtol=1e-5)


def test_on_a_grid_keys_stand_where_the_queries_do():
    grid, q = torch.cartesian_prod(torch.arange(2), torch.arange(3)), torch.randn(2, 2, 6, 8)
    encoding = Axial(8)
    for rows in (grid, grid[None], grid.expand(2, 6, 2)):
        expected = attention(q, q, q, encoding, grid, grid)
        torch.testing.assert_close(attention(q, q, q, encoding, rows), expected, rtol=0, atol=0)
    with pytest.raises(ValueError, match="key_positions"):  # keys of a cache stand elsewhere too
        attention(q[:, :, :2], q, q, encoding, grid[:2])


def turned(q, k, positions=None, key_positions=None):
    """Turn the first pair of channels by one radian a position."""
    m = torch.arange(k.shape[2] - q.shape[2], k.shape[2]) if positions is None else positions
    n = torch.arange(k.shape[2]) if key_positions is None else key_positions
    return tuple(
        torch.cat([x[..., :1] * c - x[..., 1:2] * s, x[..., :1] * s + x[..., 1:2] * c, x[..., 2:]], dim=-1)
        for x, c, s in ((q, m.cos()[:, None], m.sin()[:, None]), (k, n.cos()[:, None], n.sin()[:, None]))
    )


def test_rotated_keys_may_be_cached():
    q, k, v = torch.randn(3, B, H, S, D).unbind()
    cache, steps = torch.zeros(B, H, 0, D), []
    for p in range(S):
        here = torch.tensor([p])
        new_q, new_k = turned(q[:, :, p : p + 1], k[:, :, p : p + 1], here, here)
        cache = torch.cat([cache, new_k], dim=2)
        steps.append(attention(new_q, cache, v[:, :, : p + 1], causal=True))
    torch.testing.assert_close(torch.cat(steps, dim=2), attention(q, k, v, turned, causal=True))


# Positions with coordinates


def test_order_is_that_of_the_sequence_where_positions_have_coordinates(qkv):
    grid = torch.stack([torch.tensor([0, 9, 1, 2]), torch.tensor([3, 0, 0, 7])], dim=-1)

    def encoding(positions, key_positions):
        assert positions.shape == (T, 2)
        return torch.zeros(H, T, S)

    assert_formula(qkv, causal_by_default(), encoding=encoding, positions=grid, causal=True)


# Autocast


def test_float64_stays_float64_under_autocast(qkv):
    q, k, v = (torch.cat([x] * 20, dim=2) for x in qkv)
    for encoding in (None, ALiBi(H), t5()):
        expected = attention(q, k, v, encoding, causal=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(attention(q, k, v, encoding, causal=True), expected)


CALLS = {
    "all": {},
    "given": {"positions": torch.arange(40, 57), "key_positions": torch.arange(20, 57)},
    "a batch": {"positions": torch.tensor([[50], [3]]) + torch.arange(17)},
    "a batch of keys": {"key_positions": torch.tensor([[-5], [3]]) + torch.arange(37)},
    "unsorted": {"positions": torch.arange(17) * 7 % 17 + 20},
    "documents": {"documents": torch.arange(37) // 10},
    "mask": {"mask": torch.arange(37) > 3},
}


def test_without_causal_the_bias_itself_is_added(qkv):
    q, k, _ = qkv
    for encoding in (ALiBi(H), ALiBi(H, right_slopes=0), ALiBi(H, causal=True)):
        assert_weights(*qkv, scores_by_hand(q, k, encoding(torch.arange(3, 7), torch.arange(7))), encoding=encoding)


# What is never stored


class Largest(TorchDispatchMode):
    """Note the size of the largest tensor that any operation makes, those of the gradients included."""

    def __init__(self):
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        tensors = made if isinstance(made, tuple | list) else [made]
        self.size = max([self.size, *(x.numel() for x in tensors if isinstance(x, torch.Tensor))])
        return made


def largest(encoding, length, heads=16, trains=True, **arguments):
    torch.manual_seed(0)
    q, k, v = (x.requires_grad_(trains) for x in torch.randn(3, 1, heads, length, 8).unbind())
    with Largest() as seen:
        out = attention(q, k, v, encoding, **arguments)
        if trains:
            out.sum().backward()
    return seen.size


LINEAR = {
    "nothing": None,
    "a rotation": turned,
    "a rotation that doubles the width": PoPE(8, 16),
}


@pytest.mark.parametrize("name", LINEAR)
def test_nothing_quadratic_is_stored_for(name):
    size = largest(LINEAR[name], 1024, causal=True)
    assert size <= 1024 * 16 * 3 * 8 < 1024 * 1024


@pytest.mark.parametrize("arguments", [{"mask": torch.ones(512, 512) > 0}, {"positions": torch.arange(512)}], ids=str)
@pytest.mark.parametrize("name", LINEAR)
def test_nothing_is_stored_for_each_head_where_positions_or_a_mask_hide(name, arguments):
    assert largest(LINEAR[name], 512, causal=True, **arguments) <= 512 * 512


@pytest.mark.slow
@pytest.mark.parametrize("name", LINEAR)
def test_16_heads_of_8192_tokens_train_without_a_score_for_each_pair(name):
    assert largest(LINEAR[name], 8192, causal=True) <= 8192 * 16 * 3 * 8 < 8192 * 8192


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


@pytest.mark.parametrize(
    "encoding", [t5(), ALiBi(H), PoPE(D, H), Shaw(D, on_values=True)], ids=lambda e: type(e).__name__
)
def test_encodings_compile_without_a_graph_break(encoding):
    torch._dynamo.reset()
    q, k, v = torch.randn(B, H, S, D), *torch.randn(2, B, G, S, D).unbind()
    compiled = torch.compile(attention, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(q, k, v, encoding, causal=True), attention(q, k, v, encoding, causal=True))


@pytest.mark.parametrize("encoding", [t5(), ALiBi(H), PoPE(D, H)], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_result_has_the_dtype_of_the_queries_whatever_the_encoding(encoding, dtype):
    q, k, v = torch.randn(3, B, H, S, D).to(dtype).unbind()
    assert attention(q, k, v, encoding, causal=True).dtype == dtype
    assert attention(q, k, v, encoding).dtype == attention_weights(q, k, encoding).dtype == dtype


def test_autocast_reaches_attention_with_an_encoding():
    q, k, v = torch.randn(3, B, H, S, D).unbind()
    for encoding in (None, t5(), ALiBi(H), PoPE(D, H)):
        exact = attention(q, k, v, encoding, causal=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for values in (v, v.bfloat16()):
                torch.testing.assert_close(
                    attention(q, k, values, encoding, causal=True).float(), exact, atol=0.05, rtol=0.05
                )


# What it refuses


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_that_is_not_boolean_is_refused(qkv, dtype, causal):
    mask = torch.ones(T, S, dtype=dtype)
    with pytest.raises(ValueError, match=rf"attention: mask must be boolean.*, got {dtype}"):
        attention(*qkv, causal=causal, mask=mask)
    with pytest.raises(ValueError, match=rf"attention: mask must be boolean.*, got {dtype}"):
        attention_weights(*qkv[:2], causal=causal, mask=mask)


def test_what_an_encoding_does_not_take_is_refused(qkv):
    with pytest.raises(TypeError, match="unexpected keyword argument 'gate'"):  # Python's own words
        attention(*qkv, t5(), gate=1)
    with pytest.raises(ValueError, match=r"attention: encoding must be given for \['causal_'\], got None"):
        attention(*qkv, causal_=True)


@pytest.mark.parametrize("made", [t5, lambda: ALiBi(H), lambda: CoPE(D, 8)], ids=["T5", "ALiBi", "CoPE"])
@pytest.mark.parametrize("s", [T - 1, T - 2])
@torch.no_grad()
def test_more_queries_than_keys_must_say_where_they_are(qkv, s, made):
    """At one key less, the one row of a bias that is left would serve every query."""
    q, k, v = qkv
    k, v = k[:, :, :s], v[:, :, :s]
    said = f"attention: positions must be given for {T} queries, {s} keys, got None"
    for attend in (attention, attention_in_blocks, attention_by_flex):
        with pytest.raises(ValueError, match=said):
            attend(q, k, v, made())
    with pytest.raises(ValueError, match=said):
        attention_weights(q, k, made())
    assert attention(q, k, v, made(), positions=torch.arange(T)).shape == (B, H, T, WIDE)


@pytest.mark.parametrize("heads", [2, 3, 12])
def test_a_bias_for_other_heads_gives_no_result(qkv, heads):
    with pytest.raises(RuntimeError):  # torch's own
        attention(*qkv, t5(heads))


WRONG = {
    "of embeddings": (Sinusoidal(D), "be a rotation, bias or score, got Sinusoidal, which is called on embeddings"),
    "not built": (ALiBi, r"be built, got the class ALiBi; write ALiBi\(...\)"),
    "a tensor": (torch.zeros(H, T, S), "be a module or a function, got Tensor; of a bias, lambda positions"),
    "a rotation of two arguments": (
        lambda q, k: (q, k),
        r"be q and k, or have shape \(h, 4, 7\), got \[\(4,\), \(7,\)\]; rotations",
    ),
    "a rotation of two arguments that looks at q": (
        lambda queries, keys: RoPE(D)(queries, keys),
        r"got IndexError\('tuple index out of range'\); rotations and scores take \(q, k, positions, key_positions\)",
    ),
    "a rotation of q alone": (lambda q, k, m, n: q, r"be q and k, or have shape \(h, 4, 7\), got \[\(2, 6, 4, 8\)\]"),
    "a number": (lambda *given: 3, r"be q and k, or have shape \(h, 4, 7\), got \['int'\]"),
    "what fails": (
        lambda *given: given[9],
        r"be q and k, or have shape \(h, 4, 7\), got IndexError\('tuple index out of range'\)",
    ),
    "scores of other tokens": (lambda *given: torch.zeros(H, S, T), r"got \[\(6, 7, 4\)\]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_encoding_is_refused(qkv, name):
    encoding, said = WRONG[name]
    for attend in (attention, lambda q, k, v, encoding: attention_weights(q, k, encoding)):
        with pytest.raises(ValueError, match=f"^attention: (result of )?encoding must .*{said}"):
            attend(*qkv, encoding)


# Scale


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("make", [lambda: None, lambda: ALiBi(H), t5], ids=["none", "ALiBi", "T5"])
def test_the_scale_multiplies_the_products_alone(qkv, make, causal):
    (q, k, v), encoding = qkv, make()
    added = 0 if encoding is None else encoding(torch.arange(S - T, S), torch.arange(S))
    logits = 0.3 * q @ k.repeat_interleave(H // G, dim=1).mT + added
    past = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    weights = (logits.masked_fill(~past, -math.inf) if causal else logits).softmax(-1)
    expected = weights @ v.repeat_interleave(H // G, dim=1)
    out = attention(q, k, v, encoding, causal=causal, scale=0.3)
    torch.testing.assert_close(out, expected, atol=1e-6, rtol=0)
    shown = attention_weights(q, k, encoding, causal=causal, scale=0.3)
    torch.testing.assert_close(shown, weights, atol=1e-6, rtol=0)


def test_the_scale_reaches_an_encoding_that_adds_to_the_values(qkv):
    encoding = Shaw(D, 2, on_values=True).double()
    q, k, v = qkv[0], qkv[1], qkv[2][..., :1].expand(B, G, S, D)
    halved = attention(q, k, v, encoding, scale=0.5 * D**-0.5)
    weights = attention_weights(q, k, encoding, scale=0.5 * D**-0.5)
    places = torch.arange(S - T, S), torch.arange(S)
    logits = 0.5 * D**-0.5 * q @ k.repeat_interleave(H // G, dim=1).mT + encoding(q, k, *places)
    torch.testing.assert_close(weights, logits.softmax(-1))
    torch.testing.assert_close(halved, weights @ v.repeat_interleave(H // G, dim=1) + encoding.values(weights, *places))


def test_coordinates_are_not_taken_for_positions_of_a_batch():
    # two texts of two tokens with two coordinates each: (t, n) and (b, t) look alike
    q, k, v = torch.randn(3, 2, 1, 2, 8).unbind()
    places = torch.tensor([[0, 0], [0, 1]])
    both = attention(q, k, v, Axial(8), places, places, causal=True)
    each = [attention(q[i : i + 1], k[i : i + 1], v[i : i + 1], Axial(8), places, places, causal=True) for i in (0, 1)]
    torch.testing.assert_close(both, torch.cat(each))


def test_one_compilation_serves_decode_and_prefill_of_many_lengths():
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, dynamic=True, backend="eager")
    for t, s in ((3, 5), (1, 9), (5, 5), (7, 7), (2, 11)):
        q, k, v = torch.randn(1, 2, t, D), torch.randn(1, 2, s, D), torch.randn(1, 2, s, D)
        torch.testing.assert_close(compiled(q, k, v, causal=True), attention(q, k, v, causal=True))


def test_the_scale_may_be_a_number_of_numpy(qkv):
    torch.testing.assert_close(attention(*qkv, scale=1 / np.sqrt(D)), attention(*qkv))
