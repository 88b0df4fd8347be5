"""Examine what an attention does between products and values: scale, decay, weights, heads that share keys, dtype."""

import itertools
import math

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.attention.contents import contents, lengths, unused
from posenc.doctor.attention.measure import SAME, Attention, Case, T
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong

NEARLY = 1e-3
TINY = 1e-30
KEY = 1.7  # the length of a key, which no norm inside makes 1 or the root of a width
NARROW = f"needs heads of at least {T} channels"  # to name each key by a channel of its value


def values(case: Case) -> Finding:
    """Check that equal values come out as they are: weights sum to 1 and values do not turn."""
    q, k, v = case.inputs(3)
    given = v[:, :, :1].expand_as(v).contiguous()
    v, made = _to_heads(case, given), case.attend.at(q, k, given)
    if case.attend.adds:
        if _added_by_place(case):
            return wrong("values-moved", "a part by the key's place comes out beside the values: rotate q and k only")
        made = made - case.attend.at(q, k, torch.zeros_like(given))
    off = relative_difference(made, v)
    if off < SAME:
        more = ", and beside them a learned part by distance (as Shaw's)" if case.attend.adds else ""
        return passed(f"values come through as they are{more}", off)
    along = torch.nn.functional.cosine_similarity(made, v, dim=-1)
    if (along > 1 - NEARLY).all():
        sums = made.norm(dim=-1) / v.norm(dim=-1)
        return wrong(
            "weights-wrong",
            f"equal values come out different (by {off:.2g}): the weights of a query sum to {float(sums.min()):.3g} up "
            f"to {float(sums.max()):.3g}, not to 1. Take the softmax over the keys, the last axis",
            off,
        )
    if _turned_back(case):
        return note("values are turned, and the output is turned back: what comes out hangs on distances only", off)
    cause = "they are rotated or moved along with the keys, or something is added to them. Rotate q and k only"
    return wrong("values-moved", f"equal values come out different (by {off:.2g}): {cause}", off)


def _to_heads(case: Case, v: Tensor) -> Tensor:
    """Return the values of each head of queries."""
    return v.repeat_interleave(case.heads // case.attend.kv_heads, 1)


def _turned_back(case: Case) -> bool:
    """Tell whether a lone value comes out by its distance: at its own place as it is, one step on as any other does."""
    q, k, given = case.inputs(3)
    v, outs = given[:, :, :1], []
    for place in (5, 6, 9):
        made = case.attend.at(q, k, torch.zeros_like(given).index_copy(2, torch.tensor([place]), v))
        outs.append(torch.nn.functional.normalize(made, dim=-1).roll(-place, 2)[:, :, :6])
    first, itself = outs[-1], torch.nn.functional.normalize(_to_heads(case, v), dim=-1)
    return relative_difference(first[:, :, :1], itself) < NEARLY and all(
        relative_difference(one, first) < NEARLY for one in outs
    )


def _added_by_place(case: Case) -> bool:
    """Tell whether what comes out beside values hangs on the place of the key looked at, and not on the query's."""
    first, second = (_added(case, place) for place in (5, 6))
    return relative_difference(first, first.flip(2)) < NEARLY < relative_difference(first, second)


def _added(case: Case, place: int) -> Tensor:
    """Return what comes out beside values where all queries, of which the last are looked at, look at one key."""
    q, k, v = map(torch.zeros_like, case.inputs(3))
    return case.attend.at(q + 1, k.index_fill(2, torch.tensor([place]), 40), v)[:, :, 7:]


def offsets(case: Case) -> Finding:
    """Fill all tokens with one content: the weights of two rows may then differ by distance only."""
    if case.shown < T:
        return not_checked(NARROW)
    q, k, _ = (part[:, :, :1].expand_as(part).contiguous() for part in case.inputs(10))
    w = case.attend.weights(q, k)
    steps = torch.where(w > TINY, w, torch.nan).log().diff(dim=-1)  # of keys that are seen
    off = _uneven(steps, 1, 1)
    if off < NEARLY:
        return passed("among equal tokens weights depend on distance only", off)
    for whose, of_q, of_k in (("keys", 2, 1), ("queries", 1, 2)):
        if _uneven(steps, of_q, of_k) < NEARLY:
            return wrong(
                "turned-twice",
                f"{whose} stand at twice their position: they are rotated twice (before they come in, or on the way "
                "into or out of the cache). Rotate each once",
                off,
            )
    if _uneven(steps, 1, 0) < NEARLY:
        words = "among equal tokens weights depend on the place of the key, whichever the query: no distance is in them"
        return wrong("absolute", f"{words}. Shift the row of each query by its place", off)
    return note(
        "among equal tokens weights depend on where the query stands, not on distance only: "
        "a table inside? Wrong for a rotation or a bias by distance",
        off,
    )


def _uneven(steps: Tensor, of_q: int, of_k: int) -> float:
    """Return how much the steps of weights (b, h, t, s - 1) change when query and key move on by so many places."""
    t, s = steps.shape[-2:]
    return float((steps[..., of_q:, of_k:] - steps[..., : t - of_q, : s - of_k]).abs().nan_to_num().max())


def decay(case: Case) -> Finding:
    """Look at the weights of the last query where queries are 0, so that position alone decides."""
    if case.shown < T:
        return not_checked(NARROW)
    q, k, _ = case.inputs(4)
    w = case.attend.weights(torch.zeros_like(q), k)[:, :, -1].flatten(0, 1)
    w = w[:, w.any(0)]  # hidden keys, its own among them, say nothing of a bias
    steps = w.clamp(min=TINY).log().diff(dim=-1)
    rises, falls = (steps > SAME).any(), (steps < -SAME).any()
    if not rises and not falls:
        return passed("without content all keys weigh the same: no bias by distance")
    if not falls:
        return passed("without content near keys weigh more than far ones", float(steps.max()))
    if not rises:
        words = "without content far keys weigh more than near ones: the sign of the bias is reversed"
        return wrong("penalty-reversed", words, float(steps.min()))
    return note("without content weights neither rise nor fall with distance: a learned bias?")


def scale(case: Case) -> Finding:
    """Measure by what a product of query and key is multiplied before the softmax."""
    if case.shown < T:
        return not_checked(NARROW)
    factor = _factor(case)
    if not math.isfinite(factor):
        return not_checked("the last query does not see the last two keys")
    if near(factor, 1.0):
        return passed("products are divided by sqrt(d)", factor)
    if (said := _told_scale(case)) and near(factor, said * case.dim**0.5):
        return passed(f"products are multiplied by {said:.5g}, as its configuration says", factor)
    if near(factor, case.dim**0.5):
        if _in_buckets(case):
            return note("products are not divided by sqrt(d), as in T5: right for weights that start small", factor)
        words = "products are not divided by sqrt(d), so the softmax saturates (right for T5's weights alone)"
        return wrong("scale-missing", words, factor)
    if near(factor, case.dim**-0.5):
        return wrong("scale-wrong", "products are divided by d: the scale 1/sqrt(d) is applied twice", factor)
    widths = {case.heads * case.dim: "the width of all heads, not of one"}
    for part in case.attend.opened.parts if case.attend.opened else ():
        widths[part] = f"the width of a part of the head, not of all {case.dim}"
    for width, what in widths.items():
        if near(factor, (case.dim / width) ** 0.5):
            return wrong("scale-wrong", f"products are divided by the root of {width}, {what}", factor)
    words = f"products are multiplied by {factor:.4f} / sqrt(d): an attention factor (YaRN's: once?), or another width"
    return note(words, factor)


def near(factor: float, due: float) -> bool:
    """Tell whether a factor is what it should be."""
    return abs(factor / due - 1) < 0.01


def _factor(case: Case) -> float:
    """Return by how much products are larger than those divided by sqrt(d)."""
    q, k, _ = map(torch.zeros_like, case.inputs(seed=0))
    key, logits = k.index_fill(2, torch.tensor([T - 1]), KEY * case.dim**-0.5), []
    for of_q, of_k in itertools.product((q + 1, q), (key, k)):  # what hangs on one of the two alone cancels
        before, last = case.attend.weights(of_q, of_k)[:, :, -1, -2:].log().unbind(-1)
        logits.append(last - before)
    both, of_query, of_key, neither = logits
    return float((both - of_query - of_key + neither).mean()) / KEY


def _told_scale(case: Case) -> float | None:
    """Return the softmax scale that a configuration names, as those of Gemma and Granite do."""
    config = getattr(case.code.module, "config", None)
    with_check_name = getattr(config, "query_pre_attn_scalar", None)
    return with_check_name**-0.5 if with_check_name else getattr(config, "attention_multiplier", None)


def _in_buckets(case: Case) -> bool:
    """Tell whether the module has a bias by buckets of distances, which came with products that are not divided."""
    return any("bucket" in name for part in case.code.modules for name in vars(part))


def grouped_heads(case: Case) -> Finding | None:
    """Try half as many heads of keys."""
    if case.attend.opened:
        return None
    if case.heads % 2:
        return not_checked("needs an even number of heads")
    q, k, v = case.inputs(8)
    k, v = k[:, ::2], v[:, ::2]
    made, failed = attempt(case.attend.at, q, k, v)
    if failed:
        return note(f"fewer heads of keys than of queries raise {failed}")
    off = relative_difference(made, case.attend.at(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
    if off < SAME:
        return passed("neighboring query heads share a key head", off)
    return wrong(
        "groups-tiled",
        f"query heads share key heads in another order than neighbors (off by {off:.2g}): "
        "use repeat_interleave, not repeat",
        off,
    )


def half_precision(case: Case) -> Finding:
    """Compare bfloat16 with float32, far out where positions can be told."""
    start = 4000 * case.attend.placed
    q, k, v = case.inputs(9, dtype=torch.bfloat16)
    coarse = Attention(case.code.cast(torch.bfloat16))
    if (bool(coarse.opened), coarse.alone) != (bool(case.attend.opened), case.attend.alone):
        return not_checked("its projections are not found once it is cast")
    made, failed = attempt(coarse.at, q, k, v, start)
    if failed:
        return not_checked(f"bfloat16 raises {failed}")
    off = relative_difference(made, case.attend.at(q.float(), k.float(), v.float(), start))
    if off < 0.05:
        return passed(f"bfloat16 within {off:.1g} of float32 at positions from {start:,}", off)
    return wrong(
        "precision-lost",
        f"in bfloat16 off by {off:.2g} at positions from {start:,}: positions, angles or the bias are computed in "
        "the input's dtype. Compute them in float32",
        off,
    )


CHECKS = (contents, values, offsets, lengths, unused, decay, scale, grouped_heads, half_precision)
