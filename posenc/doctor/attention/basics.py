"""Examine what any attention must do: finite and repeatable results, heads and texts kept apart, half precision."""

import torch
from torch import Tensor

from posenc.doctor.attention.measure import TOLERANCE, AttentionRecord, changed, result_in
from posenc.doctor.numerics import HALF_PRECISION, is_finite, not_finite, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.safe_call import attempt

TILED = "query heads share key heads in another order than neighbors: use repeat_interleave, not repeat"
SPLIT_AND_JOIN = (
    "axes are mixed up. Split heads off with unflatten(-1, (heads, d)).transpose(1, 2), and join them with "
    "transpose(1, 2).flatten(2)"
)
HALF_TOLERANCE = 0.05  # rounding to bfloat16 alone changes numbers by 0.004
FAR = 4_000  # bfloat16 counts to 256, float16 to 2,048


def finite(record: AttentionRecord) -> Finding | None:
    """Check that the result of random tokens is finite, and that another copy of the code gives the same."""
    if finding := not_finite(record.result, "the result of random tokens"):
        # A softmax over no key at all is NaN: a causal mask that hides the own key leaves the first query none.
        if record.result[:, :, 0].isnan().any() and is_finite(record.result[:, :, 1:]):
            return wrong("self-hidden", "the first query alone gets NaN: all keys are hidden from it, its own too")
        return finding
    attention = record.attention.of(record.code.fresh())
    # The record was made with another seed: what dropout draws from either differs.
    torch.manual_seed(1)
    difference = relative_difference(attention.at(*attention.inputs()), record.result)
    if difference < TOLERANCE:
        return None
    return wrong("dropout-on", f"two equal calls differ by {difference:.2g}: is dropout on in eval mode?", difference)


def heads(record: AttentionRecord) -> Finding:
    """Change the keys and values of one head, and see which heads of queries follow."""
    attention = record.attention
    # The search for projections has set values already, and seen where they come out.
    if attention.value_outcome == "tiled":
        return wrong("groups-tiled", TILED)
    if attention.value_outcome == "mixed":
        return wrong("heads-mixed", f"values that are set come out in other heads or tokens: {SPLIT_AND_JOIN}")
    if attention.takes_embeddings_only:
        return not_checked("takes embeddings, and its projections were not found")
    if attention.kv_heads == 1:
        return not_checked("needs several heads of keys")
    # In latent attention all heads share the rotated part of a key, so keys of one head cannot be changed alone.
    has_shared_keys = attention.projections is not None and attention.projections.rotary_dim
    for side in ("values",) if has_shared_keys else ("keys", "values"):
        if finding := _fault_of_heads(record, side):
            return finding
    return passed("each head sees its own keys and values")


def _fault_of_heads(record: AttentionRecord, side: str) -> Finding | None:
    attention = record.attention
    own = torch.eye(attention.kv_heads, dtype=torch.bool)  # (g, g)
    follows = _following_heads(record, side)  # (h, g)
    # Query head i belongs to key head i // groups.
    expected = own.repeat_interleave(attention.groups, 0)  # (h, g)
    if torch.equal(follows, expected):
        return None
    if torch.equal(follows, own.repeat(attention.groups, 1)):
        return wrong("groups-tiled", f"{TILED} (of the {side})")
    if side == "keys" and not follows.any():
        return wrong("one-for-both", "no head depends on its keys: keys are made of queries, or logits of queries only")
    mixed = int((follows != expected).any(1).sum())
    message = f"{mixed} of {attention.heads} heads depend on the {side} of other heads, or not on their own"
    return wrong("heads-mixed", f"{message}: {SPLIT_AND_JOIN}", mixed)


def _following_heads(record: AttentionRecord, side: str) -> Tensor:
    """Return which heads of queries follow a change of each head of keys, or of values: (h, g)."""
    attention = record.attention
    columns = []
    for head in range(attention.kv_heads):
        q, k, v = attention.inputs()
        _, other_k, other_v = attention.inputs(seed=14)
        if side == "keys":
            k[:, head] = other_k[:, head]
        else:
            v[:, head] = other_v[:, head]
        columns.append(changed(attention.at(q, k, v), record.result).any((0, 2, 3)))
    return torch.stack(columns, 1)  # (h, g)


def grouped_heads(record: AttentionRecord) -> Finding | None:
    """Call with half as many heads of keys."""
    attention = record.attention
    # The projections fix how many heads of keys there are, which `heads` has examined.
    if attention.projections:
        return None
    if attention.heads % 2:
        return not_checked("needs an even number of heads")
    q, k, v = attention.inputs()
    k, v = k[:, ::2], v[:, ::2]  # (b, h/2, s, d), (b, h/2, s, d)
    result, failed = attempt(attention.at, q, k, v)
    if failed:
        return note(f"fewer heads of keys than of queries raise {failed}")
    expected = attention.at(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    difference = relative_difference(result, expected)
    if difference < TOLERANCE:
        return passed("neighboring query heads share a key head", difference)
    return wrong("groups-tiled", f"{TILED} (it differs by {difference:.2g})", difference)


def batch(record: AttentionRecord) -> Finding:
    """Change one text of a batch, and see whether the other follows."""
    attention = record.attention
    parts = attention.inputs()
    # The second text is replaced, the first is compared.
    for part, other in zip(parts, attention.inputs(seed=14), strict=True):
        part[1] = other[1]
    difference = relative_difference(attention.at(*parts)[0], record.result[0])
    if difference < TOLERANCE:
        return passed("a text does not depend on the others of its batch", difference)
    message = f"a text changes by {difference:.2g} with another of its batch: the axes of batch and tokens are mixed up"
    return wrong("batch-mixed", f"{message} (if the order is (t, b, d), say order='tbd')", difference)


def half_precision(record: AttentionRecord) -> Finding:
    """Compare bfloat16 and float16 with float32, at far positions where these can be passed."""
    attention = record.attention
    start = FAR if attention.takes_both_positions else 0
    parts = attention.inputs(dtype=torch.bfloat16)
    # The same numbers in float32, rounded as the inputs are: what differs is what the code computes.
    expected = attention.at(*(part.float() for part in parts), start=start)  # (b, h, t, d)
    results = [attempt(result_in, dtype, record, parts, start) for dtype in HALF_PRECISION.values()]
    differences = [0.0 if failed else relative_difference(result, expected) for result, failed in results]
    for name, difference in zip(HALF_PRECISION, differences, strict=True):
        if difference >= HALF_TOLERANCE:
            message = f"in {name} the result differs by {difference:.2g} from float32 at positions from {start:,}"
            message = f"{message}: angles or the bias are computed in the input's dtype. Compute them in float32"
            return wrong("precision-lost", message, difference)
    _, failed = results[0]
    if failed:
        return not_checked(f"bfloat16 raises {failed}")
    return passed(f"bfloat16 and float16 differ by {worst(*differences):.1g} from float32 at positions from {start:,}")
