"""Examine the weights of an attention: scale, decay, offsets, whose content makes them, what is done to values."""

import itertools
import math
import re

import torch
from torch import Tensor, nn

from posenc.doctor.attention.measure import TOLERANCE, Attention, AttentionRecord, T
from posenc.doctor.numerics import TINY, is_finite, not_finite, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.fit_frequencies import near
from posenc.doctor.safe_call import attempt

SMALL = 1e-3  # of weights and their logarithms
VISIBLE = 1e-5  # the least weight whose logarithm can be compared
LOGIT_CHANGE = 5e-3
SCALE_TOLERANCE = 0.01  # relative, of the factor of logits
KEY_LENGTH = 1.7  # which no norm inside makes 1 or the root of a width
CHANGED_TOKENS = torch.tensor([8, 13])  # of T
OTHER_TOKENS = torch.tensor([token for token in range(T) if token not in (8, 13)])
FEW_KEYS = 5  # that a row must see: the softmax moves all by their median
NARROW = f"needs heads of at least {T} channels"  # to name each key by a channel of its value
POSITIONAL = re.compile(r"^(?!.*\.bias$).*(rel|pos|alibi|dist|slope|content_bias|[rk]_bias|r_w|r_r)")  # no layer's bias


def values(record: AttentionRecord) -> Finding:
    """Check that equal values come out as they are: weights sum to 1 and values are not rotated."""
    attention = record.attention
    q, k, v = attention.inputs()
    # The mean of equal values, by whatever weights, is their value.
    v = v[:, :, :1].expand_as(v).contiguous()  # (b, g, s, d)
    expected = v.repeat_interleave(attention.groups, 1)  # (b, h, s, d)
    result = attention.at(q, k, v)  # (b, h, s, d)
    detail = ""
    if attention.value_outcome == "added":
        if _adds_by_position_of_key(attention):
            return wrong("values-moved", "what is added to values depends on the key's position: rotate q and k only")
        result = result - attention.at(q, k, torch.zeros_like(v))
        detail = ", and a learned part by offset (as Shaw's) is added to them"
    difference = relative_difference(result, expected)
    if difference < TOLERANCE:
        return passed(f"values come through as they are{detail}", difference)
    message = f"equal values come out different (by {difference:.2g})"
    # Weights that do not sum to 1 change the length of a value, a rotation its direction.
    if (torch.nn.functional.cosine_similarity(result, expected, dim=-1) > 1 - SMALL).all():
        least, most = map(float, (result.norm(dim=-1) / expected.norm(dim=-1)).aminmax())
        message = f"{message}: the weights of a query sum to {least:.3g} up to {most:.3g}, not to 1"
        return wrong("weights-wrong", f"{message}. Take the softmax over the keys, the last axis", difference)
    if _rotates_back(attention):
        return note("values are rotated, and the output is rotated back: it depends on offsets only", difference)
    return wrong("values-moved", f"{message}: they are rotated like keys, or added to. Rotate q and k only", difference)


def _rotates_back(attention: Attention) -> bool:
    """Return whether a value alone comes out by its offset: unchanged at offset 0, and alike from each position."""
    q, k, v = attention.inputs()
    value = v[:, :, :1]  # (b, g, 1, d)
    results = []
    for position in (9, 5, 6):
        alone = torch.zeros_like(v).index_copy(2, torch.tensor([position]), value)  # (b, g, s, d)
        # Weights differ from query to query, so directions are compared, at offsets 0 .. 5 from the value.
        result = torch.nn.functional.normalize(attention.at(q, k, alone), dim=-1)  # (b, h, s, d)
        results.append(result.roll(-position, 2)[:, :, :6])
    unchanged = torch.nn.functional.normalize(value.repeat_interleave(attention.groups, 1), dim=-1)  # (b, h, 1, d)
    differences = [relative_difference(result, results[0]) for result in results]
    return worst(relative_difference(results[0][:, :, :1], unchanged), *differences) < SMALL


def _adds_by_position_of_key(attention: Attention) -> bool:
    """Return whether what is added to values depends on the position of the key, and not on that of the query."""
    q, k, v = map(torch.zeros_like, attention.inputs())
    results = []
    for position in (5, 6):
        # One long key takes all weight, so the result is what is added to its value.
        keys = k.index_fill(2, torch.tensor([position]), 40)  # (b, g, s, d)
        results.append(attention.at(q + 1, keys, v)[:, :, 7:])
    first, second = results
    return relative_difference(first, first.flip(2)) < SMALL and relative_difference(first, second) > SMALL


def offsets(record: AttentionRecord) -> Finding:
    """Fill all tokens with one content: the weights of two rows may then differ by offset only."""
    attention = record.attention
    if attention.output_dim < T:
        return not_checked(NARROW)
    q, k, _ = (part[:, :, :1].expand_as(part).contiguous() for part in attention.inputs(10))
    weights = attention.weights(q, k)  # (b, h, t, s)
    if finding := not_finite(weights, "the result among equal tokens"):
        return finding
    # The softmax adds a number of its own to each row of logits, so steps from key to key are compared.
    steps = torch.where(weights > TINY, weights, torch.nan).log().diff(dim=-1)  # (b, h, t, s-1)
    difference = _change_along(steps, queries=1, keys=1)
    if difference < SMALL:
        return passed("among equal tokens weights depend on the offset only", difference)
    # Where one side is rotated twice, its position counts twice: logits depend on n - 2 m, or on 2 n - m.
    for side, moved_queries, moved_keys in (("keys", 2, 1), ("queries", 1, 2)):
        if _change_along(steps, moved_queries, moved_keys) < SMALL:
            message = f"{side} have twice their position: they are rotated twice (before the call, or in the cache)"
            return wrong("turned-twice", f"{message}. Rotate each once", difference)
    if _change_along(steps, queries=1, keys=0) < SMALL:
        message = "among equal tokens weights depend on the position of the key, whichever the query"
        return wrong("absolute", f"{message}. Shift the row of each query by its position", difference)
    message = "among equal tokens weights depend on the position of the query, not on the offset only"
    return note(f"{message}: an added table? Wrong for a rotation or a bias by offset", difference)


def _change_along(steps: Tensor, queries: int, keys: int) -> float:
    """Return how much steps of logits (b, h, t, s - 1) change from query and key to those so many positions later."""
    t, s = steps.shape[-2:]
    return float((steps[..., queries:, keys:] - steps[..., : t - queries, : s - keys]).abs().nan_to_num().max())


def decay(record: AttentionRecord) -> Finding:
    """Look at the weights of the last query where queries are 0, so that position alone decides."""
    attention = record.attention
    if attention.output_dim < T:
        return not_checked(NARROW)
    q, k, _ = attention.inputs()
    weights = attention.weights(torch.zeros_like(q), k)[:, :, -1].flatten(0, 1)  # (n, s)
    if not is_finite(weights):
        return not_checked("queries of zeros give NaN or infinity")
    # The step from a hidden key to the next would be that of the mask, not of a bias.
    weights = weights[:, weights.any(0)]
    steps = weights.clamp(min=TINY).log().diff(dim=-1)  # towards the query
    rises, falls = bool((steps > TOLERANCE).any()), bool((steps < -TOLERANCE).any())
    if not rises and not falls:
        return passed("with queries of zeros all keys weigh the same: no bias by offset")
    if not falls:
        return passed("with queries of zeros near keys weigh more than far ones", float(steps.max()))
    if not rises:
        message = "with queries of zeros far keys weigh more than near ones: the sign of the bias is reversed"
        return wrong("penalty-reversed", message, float(steps.min()))
    return note("with queries of zeros weights neither rise nor fall with the offset: a learned bias?")


def scale(record: AttentionRecord) -> Finding:
    """Measure by what the product of query and key is multiplied before the softmax."""
    attention = record.attention
    if attention.output_dim < T:
        return not_checked(NARROW)
    factor = _scale_by_root(attention)
    root = attention.dim**0.5
    if not math.isfinite(factor):
        return not_checked("the last query does not see the last two keys")
    if near(factor, 1, SCALE_TOLERANCE):
        return passed("logits are divided by sqrt(d)", factor)
    # Before what looks like a fault: models such as Gemma and Granite choose a scale of their own.
    declared = _declared_scale(record)
    if declared and near(factor, declared * root, SCALE_TOLERANCE):
        return passed(f"logits are multiplied by {declared:.5g}, as its configuration says", factor)
    if near(factor, root, SCALE_TOLERANCE):
        # T5, known by its buckets, starts from weights that are smaller by this factor.
        if any("bucket" in name for part in record.code.modules for name in vars(part)):
            return note("logits are not divided by sqrt(d), as in T5: right for weights that start small", factor)
        return wrong("scale-missing", "logits are not divided by sqrt(d) (right for T5's weights alone)", factor)
    if near(factor, 1 / root, SCALE_TOLERANCE):
        return wrong("scale-wrong", "logits are divided by d: the scale 1/sqrt(d) is applied twice", factor)
    for width, meaning in _other_widths(attention).items():
        if near(factor, (attention.dim / width) ** 0.5, SCALE_TOLERANCE):
            return wrong("scale-wrong", f"logits are divided by the root of {width}, {meaning}", factor)
    message = f"logits are multiplied by {factor:.4f} / sqrt(d)"
    return note(f"{message}: an attention factor (YaRN's: applied once?), or another width", factor)


def _declared_scale(record: AttentionRecord) -> float | None:
    config = getattr(record.code.module, "config", None)
    scalar = getattr(config, "query_pre_attn_scalar", None)
    return scalar**-0.5 if scalar else getattr(config, "attention_multiplier", None)


def _other_widths(attention: Attention) -> dict[int, str]:
    """Return widths whose root may be taken for that of the head, and what they are."""
    widths = {attention.heads * attention.dim: "the width of all heads, not of one"}
    if attention.projections and attention.projections.rotary_dim:
        parts = attention.projections.rotary_dim, attention.dim - attention.projections.rotary_dim
        widths |= dict.fromkeys(parts, f"the width of a part of the head, not of all {attention.dim}")
    return widths


def _scale_by_root(attention: Attention) -> float:
    """Return the scale of logits, times sqrt(d)."""
    q, k, _ = map(torch.zeros_like, attention.inputs())
    # At offset 0 no rotation changes the product of query and key; the key before, of zeros, is what to compare with.
    key = k.index_fill(2, torch.tensor([T - 1]), KEY_LENGTH * attention.dim**-0.5)  # (b, g, s, d)
    logits = []
    for query, keys in itertools.product((q + 1, q), (key, k)):
        before, last = attention.weights(query, keys)[:, :, -1, -2:].log().unbind(-1)  # (b, h), (b, h)
        logits.append(last - before)
    # What depends on the query or on the key alone, or on neither, is a bias: it cancels.
    both, query_alone, key_alone, neither = logits
    return float((both - query_alone - key_alone + neither).mean()) / KEY_LENGTH


def contents(record: AttentionRecord) -> Finding | None:
    """Change two queries: only their rows of logits may change; change two keys: only their columns."""
    attention = record.attention
    if attention.output_dim < T:
        return None
    by_queries, by_keys = _changed_logits(attention, of_queries=True), _changed_logits(attention, of_queries=False)
    if by_queries is None or by_keys is None:
        return None
    # Row t of logits is made of query t, column s of key s: what changes elsewhere follows the wrong content.
    keys_follow_queries = by_queries[OTHER_TOKENS][:, CHANGED_TOKENS].any()
    queries_follow_keys = by_keys[CHANGED_TOKENS][:, OTHER_TOKENS].any()
    if keys_follow_queries and queries_follow_keys:
        return wrong("swapped", "the query of a token is taken for its key, and the key for its query: exchange them")
    if by_queries[OTHER_TOKENS][:, OTHER_TOKENS].any():
        message = "the weights of a query change with the content of another query"
        if not positional_parameters(attention):
            return note(f"{message}: a convolution over tokens?")
        return wrong("queries-mixed", f"{message}: a row gets the bias of the row beside it. Check the shift of rows")
    if keys_follow_queries or queries_follow_keys:
        sides = "keys are made of the content of queries" if keys_follow_queries else "queries are made of that of keys"
        return wrong("one-for-both", f"{sides}, in part or whole: a name exchanged?")
    return None


def _changed_logits(attention: Attention, of_queries: bool) -> Tensor | None:
    """Return which logits (t, s) change with the queries, or the keys, of two tokens; None if they cannot be read."""
    # Short queries and keys, so that no weight is tiny.
    q, k, _ = (part / 5 for part in attention.inputs(14))
    before = attention.weights(q, k)  # (b, h, t, s)
    signs = torch.ones(T, 1).index_fill(0, CHANGED_TOKENS, -1)  # (t, 1)
    after = attention.weights(q * signs, k) if of_queries else attention.weights(q, k * signs)  # (b, h, t, s)
    if not _sum_to_one(before):
        return None
    visible, change = _logit_changes(before, after)  # (b, h, t, s), (b, h, t, s)
    # The median of a row stands for what the softmax adds to it, so most of its keys must be unchanged ones.
    has_many_keys = visible.sum(-1, keepdim=True) >= FEW_KEYS
    return ((change > LOGIT_CHANGE) & has_many_keys).flatten(0, 1).any(0)  # (t, s)


def _sum_to_one(weights: Tensor) -> bool:
    """Return whether weights come of a softmax over keys: logits can be read off no others."""
    return bool((weights.sum(-1) - 1).abs().max() < SMALL)


def _logit_changes(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return which weights are visible, and how much their logarithms change relative to the others of their row."""
    visible = (before > VISIBLE) & (after > VISIBLE)  # (b, h, t, s)
    change = torch.where(visible, (after / before).log(), torch.nan)  # (b, h, t, s)
    return visible, (change - change.nanmedian(-1, keepdim=True).values).abs().nan_to_num(0)


def lengths(record: AttentionRecord) -> Finding | None:
    """Compare the weights of the first tokens among each other with and without tokens that follow."""
    attention = record.attention
    if attention.output_dim < T:
        return None
    q, k, _ = attention.inputs(16)
    few = T - 5
    short, failed = attempt(attention.weights, q[:, :, :few], k[:, :, :few])
    if failed or not _sum_to_one(short):
        return None
    # More keys change the sum of the softmax: all logits of a row by one number, which their median takes out.
    _, change = _logit_changes(short, attention.weights(q, k)[:, :, :few, :few])
    difference = float(change.max())
    if difference < LOGIT_CHANGE:
        return None
    message = f"logits change by {difference:.2g} when tokens follow: positions depend on the length of the call"
    if record.is_causal:
        return wrong("length-dependent", f"{message}, so each step of decoding moves the tokens before it", difference)
    return note(f"{message}, right for texts of one length only", difference)


def positional_parameters(attention: Attention) -> dict[str, nn.Parameter]:
    """Return what an opened module learns about positions, by name."""
    if not attention.projections:
        return {}
    weights = {weight for layer in attention.projections.layers.values() for weight in layer.weights}
    # The smallest part with all projections is the attention itself, without the layers around it.
    *_, innermost = (part for part in attention.code.modules if weights <= {*part.parameters()})
    learned = {name: parameter for name, parameter in innermost.named_parameters() if parameter not in weights}
    return {name: parameter for name, parameter in learned.items() if POSITIONAL.search(name.lower())}


def unused(record: AttentionRecord) -> Finding | None:
    """Look for what is learned about positions and gets no gradient, or on one side only."""
    parameters = positional_parameters(record.attention)
    if not parameters:
        return None
    for parameter in parameters.values():
        parameter.grad = None
    with torch.enable_grad():
        record.attention.at(*record.attention.inputs()).square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in parameters.items()}
    unread = [name for name, gradient in gradients.items() if gradient is None or not gradient.any()]
    if unread:
        return wrong("bias-lost", f"{' and '.join(unread)} changes nothing: what is learned is not added to the logits")
    halves = [name for name, gradient in gradients.items() if gradient is not None and _is_read_on_one_side(gradient)]
    if halves and not record.is_causal:
        message = f"one half of {' and '.join(halves)} is never read: keys ahead, or keys behind, all get offset 0"
        return wrong("one-direction-lost", f"{message}. Clamp offsets on both sides")
    return None


def _is_read_on_one_side(gradient: Tensor) -> bool:
    """Return whether of a table of offsets from -n to n only 0 and those of one sign are read."""
    is_read = gradient.any(-1).flatten().tolist()
    rows = [*range(len(is_read))]
    read = [row for row in rows if is_read[row]]
    # T tokens have offsets up to T - 1.
    middle = len(rows) // 2
    behind, ahead = rows[: middle + 1][-T:], rows[middle:][:T]
    return len(rows) % 2 == 1 and read != rows and read in (behind, ahead)
