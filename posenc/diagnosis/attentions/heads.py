"""Examine who depends on whom: a head on its own queries, keys and values only, a text on its own tokens only."""

import torch
from torch import Tensor

from posenc.diagnosis.attentions.attend import Attention, Case, T
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, ok, unchecked, wrong

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
        return unchecked("takes embeddings, and its projections were not found")
    if case.heads < 2 or case.attend.kv_heads < 2:
        return unchecked(f"needs several heads of keys, not {case.attend.kv_heads}")
    share = case.heads // case.attend.kv_heads
    due = torch.arange(case.heads)[:, None] // share == torch.arange(case.attend.kv_heads)
    sides = (True,) if case.attend.opened and case.attend.opened.shared else (False, True)
    wrongs = [found for of_values in sides if (found := _follow(case, due, of_values))]
    return wrongs[0] if wrongs else ok("each head sees its own keys and values")


def _follow(case: Case, due: Tensor, of_values: bool) -> Finding | None:
    """Say which heads follow the keys, or the values, of others than they should."""
    follow, what = _followers(case, of_values), "values" if of_values else "keys"
    if torch.equal(follow, due):
        return None
    keys = torch.arange(case.attend.kv_heads)
    if case.heads > len(keys) and torch.equal(follow, torch.arange(case.heads)[:, None] % len(keys) == keys):
        return wrong("groups-tiled", f"{TILED} (in the {what})")
    if mixed := int((follow & ~due).any(1).sum()):
        return wrong("heads-mixed", f"{mixed} of {case.heads} heads follow the {what} of other heads: {JOINED}", mixed)
    if not of_values and not follow.any():
        words = "no head follows its keys: products are made of queries alone, or keys of queries. A name exchanged?"
        return wrong("one-for-both", words)
    lost = int((~follow & due).any(1).sum())
    return wrong("heads-mixed", f"{lost} heads do not follow their own {what}", lost)


def _followers(case: Case, of_values: bool) -> Tensor:
    """Return which heads of queries (h) follow a change of each head of keys or of values (hk)."""
    q, k, v = case.inputs(11)
    before = case.attend.at(q, k, v)
    columns = []
    for head in range(case.attend.kv_heads):
        more = torch.zeros(case.attend.kv_heads, 1, 1).index_fill(0, torch.tensor([head]), 1.0)
        other = (k, v + more * v.roll(1, 2)) if of_values else (k + more * k.roll(1, 2), v)
        after = case.attend.at(q, *other)
        columns.append((after - before).abs().nan_to_num(0).amax((0, 2, 3)) > 1e-5)
    return torch.stack(columns, 1)


def rests(case: Case) -> Finding | None:
    """Call two copies on the same: what chance changes is no property of the code."""
    once, again = (_drawn(case, seed) for seed in (0, 1))
    if (off := far(once, again)) < 1e-6:
        return None
    return wrong("dropout-on", f"two calls of the same differ by {off:.2g}: dropout stays on in eval mode?", off)


def _drawn(case: Case, seed: int) -> Tensor:
    attend = Attention(case.code.fresh())
    torch.manual_seed(seed)
    return attend.at(*case.inputs(13))


def finite(case: Case) -> Finding | None:
    """Look for queries that get no number."""
    lost = ~case.attend.at(*case.inputs(13)).isfinite().all(dim=3).flatten(0, 1).all(0)
    if not lost[0] or lost[1:].any():
        return None
    return wrong("self-hidden", "the first query alone gets NaN: all keys are hidden from it, its own too")


def batch(case: Case) -> Finding:
    """Change one text of a batch, and see whether the other follows."""
    parts = case.inputs(12)
    other = [part.clone() for part in parts]
    for part in other:
        part[1] = part[1].roll(1, 1) + 1
    q, k, v = other
    before, after = case.attend.at(*parts), case.attend.at(q, k, v)
    off = far(after[0], before[0])
    if off < 1e-4:
        return ok("a text does not depend on the others of its batch", off)
    return wrong(
        "batch-mixed",
        f"a text changes by {off:.2g} with another text of its batch: the axes of batch and tokens ({T}) are mixed up "
        "(if the order is (t, b, d), say order='tbd')",
        off,
    )
