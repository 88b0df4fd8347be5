"""Examine who depends on whom: a head on its own queries, keys and values only, a text on its own tokens only."""

import torch
from torch import Tensor

from posenc.doctor.attention.measure import NOTICED, SAME, Attention, Case, T
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, passed, wrong

TILED = "query heads share key heads in another order than neighbors: use repeat_interleave, not repeat"
JOINED = (
    "axes are mixed up. Split heads off with unflatten(-1, (heads, d)).transpose(1, 2), and join them with "
    "transpose(1, 2).flatten(2)"
)


def heads(case: Case) -> Finding:
    """Change the keys and values of one head, and see which heads follow."""
    if case.attend.strange == "tiled":
        return wrong("groups-tiled", TILED)
    if case.attend.strange == "mixed":
        words = f"values that are set come out in other heads or tokens: {JOINED}"
        return wrong("heads-mixed", words)
    if case.attend.alone:
        return not_checked("takes embeddings, and its projections were not found")
    if case.attend.kv_heads == 1:
        return not_checked("needs several heads of keys")
    sides = (True,) if case.attend.opened and case.attend.opened.shared else (False, True)
    wrongs = [found for of_values in sides if (found := _follow(case, of_values))]
    return next(iter(wrongs), passed("each head sees its own keys and values"))


def _follow(case: Case, of_values: bool) -> Finding | None:
    """Say which heads follow the keys, or the values, of others than they should."""
    follow, what = _followers(case, of_values), "values" if of_values else "keys"
    each, share = torch.eye(case.attend.kv_heads).bool(), case.heads // case.attend.kv_heads
    due = each.repeat_interleave(share, 0)
    if torch.equal(follow, due):
        return None
    if torch.equal(follow, each.repeat(share, 1)):
        return wrong("groups-tiled", f"{TILED} (in the {what})")
    if not of_values and not follow.any():
        words = "no head follows its keys: products are made of queries alone, or keys of queries. A name exchanged?"
        return wrong("one-for-both", words)
    mixed = int((follow != due).any(1).sum())
    words = f"{mixed} of {case.heads} heads follow the {what} of other heads, or not their own: {JOINED}"
    return wrong("heads-mixed", words, mixed)


def _followers(case: Case, of_values: bool) -> Tensor:
    """Return which heads of queries (h) follow a change of each head of keys or of values (hk)."""
    (q, k, v), (_, keys, values) = (case.inputs(seed=seed) for seed in (11, 14))
    before = case.attend.at(q, k, v)
    columns = []
    for head in torch.eye(case.attend.kv_heads).bool()[..., None, None]:
        other = (k, torch.where(head, values, v)) if of_values else (torch.where(head, keys, k), v)
        after = case.attend.at(q, *other)
        columns.append((after - before).abs().nan_to_num().amax((0, 2, 3)) > NOTICED)
    return torch.stack(columns, 1)


def rests(case: Case) -> Finding | None:
    """Call two copies on the same: what chance changes is no property of the code."""
    once, again = (_drawn(case, seed) for seed in (5, 6))
    if (off := relative_difference(once, again)) < SAME:
        return None
    return wrong("dropout-on", f"two calls of the same differ by {off:.2g}: dropout stays on in eval mode?", off)


def _drawn(case: Case, seed: int) -> Tensor:
    attend = Attention(case.code.fresh())
    torch.manual_seed(seed)
    return attend.at(*case.inputs(seed=13))


def finite(case: Case) -> Finding | None:
    """Look for queries that get no number."""
    lost = case.attend.at(*case.inputs(seed=13)).isnan().amax((0, 1, 3))
    if not torch.equal(lost, torch.arange(T) == 0):
        return None
    return wrong("self-hidden", "the first query alone gets NaN: all keys are hidden from it, its own too")


def batch(case: Case) -> Finding:
    """Change one text of a batch, and see whether the other follows."""
    parts, new = (case.inputs(seed=seed) for seed in (12, 14))
    q, k, v = (torch.stack((one, other)) for (one, _), (_, other) in zip(parts, new, strict=True))
    (before, _), (after, _) = case.attend.at(*parts), case.attend.at(q, k, v)
    off = relative_difference(after, before)
    if off < SAME:
        return passed("a text does not depend on the others of its batch", off)
    return wrong(
        "batch-mixed",
        f"a text changes by {off:.2g} with another text of its batch: the axes of batch and tokens ({T}) are mixed up "
        "(if the order is (t, b, d), say order='tbd')",
        off,
    )
