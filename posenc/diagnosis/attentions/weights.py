"""Examine what an attention does between products and values: scale, decay, weights, heads that share keys, dtype."""

import math

import torch
from torch import Tensor

from posenc.diagnosis.attentions.attend import Attention, Case, T
from posenc.diagnosis.attentions.contents import contents, lengths, unused
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong

NARROW = f"needs heads of at least {T} channels"  # to name each key by a channel of its value


def values(case: Case) -> Finding:
    """Check that equal values come out as they are: weights sum to 1 and values do not turn."""
    q, k, v = case.inputs(3)
    given = v[:, :, :1].expand_as(v).contiguous()
    v = given.repeat_interleave(case.heads // case.attend.kv_heads, 1)
    made = case.attend.at(q, k, given)
    if case.attend.adds:
        if _added_by_place(case):
            return wrong("values-moved", "a part by the key's place comes out beside the values: rotate q and k only")
        made = made - case.attend.at(q, k, torch.zeros_like(given))
    off = far(made, v)
    if off < 1e-4:
        more = ", and beside them a learned part by distance (as Shaw's)" if case.attend.adds else ""
        return ok(f"values come through as they are{more}", off)
    if _turned_back(case):
        return note("values are turned, and the output is turned back: what comes out hangs on distances only", off)
    along = torch.nn.functional.cosine_similarity(made, v, dim=-1)
    if (along > 1 - 1e-3).all():
        sums = made.norm(dim=-1) / v.norm(dim=-1)
        return wrong(
            "weights-wrong",
            f"equal values come out different (by {off:.2g}): the weights of a query sum to {float(sums.min()):.3g} up "
            f"to {float(sums.max()):.3g}, not to 1. Take the softmax over the keys, the last axis",
            off,
        )
    cause = _what_moves(case.attend.at(torch.zeros_like(q), torch.zeros_like(k), given), v)
    return wrong("values-moved", f"equal values come out different (by {off:.2g}); {cause}", off)


def _what_moves(made: Tensor, v: Tensor) -> str:
    """Return what becomes of values where all keys weigh the same."""
    if (made.norm(dim=-1) < v.norm(dim=-1) * 0.999).any():
        return "their lengths shrink: values are rotated or moved along with the keys. Rotate q and k only"
    return "something is added to values"


def _turned_back(case: Case) -> bool:
    """Tell whether a lone value comes out by its distance: at its own place as it is, one step on as any other does."""
    q, k, given = case.inputs(3)
    v, out = given[:, :, :1], []
    for place in (2, 3, T // 2):
        only = torch.zeros_like(given).index_copy(2, torch.tensor([place]), v)
        made = case.attend.at(q, k, only)[:, :, place : place + 4]
        out.append(torch.nn.functional.normalize(made, dim=-1))
    share = case.heads // case.attend.kv_heads
    itself = torch.nn.functional.normalize(v.repeat_interleave(share, 1), dim=-1)
    moves = far(out[0][:, :, 3], out[0][:, :, 0]) > 1e-2
    return moves and all(far(one, out[0]) < 1e-3 and far(one[:, :, :1], itself) < 1e-3 for one in out)


def _added_by_place(case: Case) -> bool:
    """Tell whether what comes out beside values hangs on the place of the key looked at, and not on the query's."""
    first, second = (_added(case, place) for place in (0, 1))
    same = far(first[:, :, 2:], first[:, :, 2:3].expand_as(first[:, :, 2:])) < 1e-3
    return same and far(first[:, :, 2:], second[:, :, 2:]) > 1e-3


def _added(case: Case, place: int) -> Tensor:
    """Return what comes out beside values where all queries look at one key."""
    q, k = (torch.zeros(1, h, T, case.dim) for h in (case.heads, case.attend.kv_heads))
    q[:], k[:, :, place] = 1.0, 40.0
    return case.attend.at(q, k, torch.zeros_like(k))


def offsets(case: Case) -> Finding:
    """Fill all tokens with one content: the weights of two rows may then differ by distance only."""
    if case.shown < T:
        return unchecked(NARROW)
    q, k, _ = (part[:, :, :1].expand_as(part).contiguous() for part in case.inputs(10))
    steps = case.attend.weights(q, k).clamp(min=1e-30).log().diff(dim=-1)
    off = _uneven(steps, 1, 1)
    if off < 1e-3:
        return ok("among equal tokens weights depend on distance only", off)
    for whose, of_q, of_k in (("keys", 2, 1), ("queries", 1, 2)):
        if _uneven(steps, of_q, of_k) < 1e-3:
            return wrong(
                "turned-twice",
                f"{whose} stand at twice their position: they are rotated twice (before they come in, or on the way "
                "into or out of the cache). Rotate each once",
                off,
            )
    if _uneven(steps, 1, 0) < 1e-3:
        words = "among equal tokens weights depend on the place of the key, whichever the query: no distance is in them"
        return wrong("absolute", f"{words}. Shift the row of each query by its place", off)
    return note(
        "among equal tokens weights depend on where the query stands, not on distance only: "
        "a table inside? Wrong for a rotation or a bias by distance",
        off,
    )


def _uneven(steps: Tensor, of_q: int, of_k: int) -> float:
    """Return how much the steps of weights (b, h, t, s - 1) change when query and key move on by so many places."""
    here, there = steps[..., : T - of_q, : T - 1 - of_k], steps[..., of_q:, of_k:]
    behind = torch.arange(1, T - of_k) <= torch.arange(T - of_q)[:, None]
    behind &= torch.arange(1 + of_k, T) <= torch.arange(of_q, T)[:, None]
    return float((here - there).abs()[..., behind].max())


def decay(case: Case) -> Finding:
    """Look at the weights of the last query where queries are 0, so that position alone decides."""
    if case.shown < T:
        return unchecked(NARROW)
    q, k, _ = case.inputs(4)
    w = case.attend.weights(torch.zeros_like(q), k)[..., -1, :]
    w = w[..., (w != 0).any(0).any(0)]  # hidden keys, its own among them, say nothing of a bias
    if (w.amax(-1) - w.amin(-1)).max() < 1e-5:
        return ok("without content all keys weigh the same: no bias by distance")
    steps = w.clamp(min=1e-12).log().diff(dim=-1)
    if (steps >= -1e-6).all():
        return ok("without content near keys weigh more than far ones", float(steps.max()))
    if (steps <= 1e-6).all():
        words = "without content far keys weigh more than near ones: the sign of the bias is reversed"
        return wrong("penalty-reversed", words, float(steps.min()))
    return note("without content weights neither rise nor fall with distance: a learned bias?")


def scale(case: Case) -> Finding:
    """Measure by what a product of query and key is multiplied before the softmax."""
    if case.shown < T:
        return unchecked(NARROW)
    factor = _factor(case)
    if not math.isfinite(factor):
        return unchecked("the last query does not see the last two keys")
    if _near(factor, 1.0):
        return ok("products are divided by sqrt(d)", factor)
    if (said := _told_scale(case)) and _near(factor, said * case.dim**0.5):
        return ok(f"products are multiplied by {said:.5g}, as its configuration says", factor)
    if _near(factor, case.dim**0.5):
        if _in_buckets(case):
            return note("products are not divided by sqrt(d), as in T5: right for weights that start small", factor)
        words = "products are not divided by sqrt(d), so the softmax saturates (right for T5's weights alone)"
        return wrong("scale-missing", words, factor)
    if _near(factor, case.dim**-0.5):
        return wrong("scale-wrong", "products are divided by d: the scale 1/sqrt(d) is applied twice", factor)
    widths = {case.heads * case.dim: "the width of all heads, not of one"} if case.heads > 1 else {}
    for part in case.attend.opened.parts if case.attend.opened else ():
        widths[part] = f"the width of a part of the head, not of all {case.dim}"
    for width, what in widths.items():
        if _near(factor, (case.dim / width) ** 0.5):
            return wrong("scale-wrong", f"products are divided by the root of {width}, {what}", factor)
    words = f"products are multiplied by {factor:.4f} / sqrt(d): an attention factor (YaRN's: once?), or another width"
    return note(words, factor)


def _near(factor: float, due: float) -> bool:
    return abs(factor / due - 1) < 0.01


def _factor(case: Case) -> float:
    """Return by how much products are larger than those divided by sqrt(d)."""
    q, k = (torch.zeros(1, h, T, case.dim) for h in (case.heads, case.attend.kv_heads))
    logits = []
    for of_q, of_k in ((0.0, 0.0), (0.0, 2.0), (1.0, 0.0), (1.0, 2.0)):  # what hangs on one of the two alone cancels
        q[..., -1, :], k[..., -1, :] = of_q, of_k * case.dim**-0.5
        w = case.attend.weights(q, k)[..., -1, :]
        logits.append((w[..., -1] / w[..., -2]).log())
    plain, of_key, of_query, both = logits
    return float((both - of_key - of_query + plain).mean() / 2)


def _told_scale(case: Case) -> float | None:
    """Return the softmax scale that a configuration names, as those of Gemma and Granite do."""
    config = getattr(case.code.module, "config", None)
    named = getattr(config, "query_pre_attn_scalar", None)
    return named**-0.5 if named else getattr(config, "attention_multiplier", None)


def _in_buckets(case: Case) -> bool:
    """Tell whether the module has a bias by buckets of distances, which came with products that are not divided."""
    return any("bucket" in name for part in case.code.parts for name in vars(part))


def grouped_heads(case: Case) -> Finding | None:
    """Try half as many heads of keys."""
    if case.attend.opened:
        return None
    if case.heads % 2:
        return unchecked("needs an even number of heads")
    q, k, v = case.inputs(8)
    k, v = k[:, ::2], v[:, ::2]
    made, failed = attempt(case.attend.at, q, k, v)
    if failed:
        return note(f"fewer heads of keys than of queries raise {failed}")
    off = far(made, case.attend.at(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
    if off < 1e-4:
        return ok("neighboring query heads share a key head", off)
    return wrong(
        "groups-tiled",
        f"query heads share key heads in another order than neighbors (off by {off:.2g}): "
        "use repeat_interleave, not repeat",
        off,
    )


def half_precision(case: Case) -> Finding:
    """Compare bfloat16 with float32, far out where positions can be told."""
    start = 4000 if case.attend.placed else 0
    q, k, v = case.inputs(9, dtype=torch.bfloat16)
    coarse = Attention(case.code.cast(torch.bfloat16))
    if (bool(coarse.opened), coarse.alone) != (bool(case.attend.opened), case.attend.alone):
        return unchecked("its projections are not found once it is cast")
    made, failed = attempt(coarse.at, q, k, v, start)
    if failed:
        return unchecked(f"bfloat16 raises {failed}")
    off = far(made, case.attend.at(q.float(), k.float(), v.float(), start))
    if off < 0.05:
        return ok(f"bfloat16 within {off:.1g} of float32 at positions from {start:,}", off)
    return wrong(
        "precision-lost",
        f"in bfloat16 off by {off:.2g} at positions from {start:,}: positions, angles or the bias are computed in "
        "the input's dtype. Compute them in float32",
        off,
    )


CHECKS = (contents, values, offsets, lengths, unused, decay, scale, grouped_heads, half_precision)
