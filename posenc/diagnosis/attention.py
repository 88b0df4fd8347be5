"""Examine an attention: order, future, decoding, what is done to values, scale, padding, grouped heads, dtype."""

from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis import caching, weights
from posenc.diagnosis.attend import Attention, Case, T
from posenc.diagnosis.call import Code, attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.padding import padding
from posenc.diagnosis.report import Finding, findings, note, ok, unchecked, wrong

FAR = 5_003
OFF_BY = "the diagonal of the mask is off. Hide all keys with a place above the query's, tril(diagonal=s - t)"
NO_CACHE = (
    "needs a parameter cache and a result (out, cache); keys that were rotated before they came in cannot be seen"
)


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as an attention."""
    case = Case(code, code.dim, code.heads, Attention(code))
    t = T + 1 if code.heads == T else T  # positions that broadcast against heads by mistake shall not fit
    q, k, v = case.inputs(t=t)
    made = case.attend.at(q, k, v)
    if not isinstance(made, Tensor) or made.ndim != 4 or made.shape[:3] != q.shape[:3]:
        return False
    q, k, v = (part.index_fill(2, torch.tensor([0]), 1.0) for part in (q, k, v))
    return far(case.attend.at(q, k, v)[:, :, 1:], made[:, :, 1:]) > 1e-6


def examine(code: Code) -> list[Finding]:
    """Return the findings on an attention with heads of `dim` channels."""
    case = Case(code, code.dim, code.heads, Attention(code.fresh()))
    case = case._replace(causal=not _sees_ahead(case))
    case.attend.learn_whose_positions(*case.inputs(6))
    decodes = () if code.takes("cache") else (decoding,)
    if case.attend.alone:
        found = findings((future, shift, padding, weights.half_precision), case)
    else:
        found = findings((future, order, shift, *decodes, padding, *weights.CHECKS), case)
    if code.takes("cache"):
        return found + caching.examine(code)
    return [*found, Finding("cache", "not checked", NO_CACHE)]


def _before_and_after(case: Case, places: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
    """Return the result, and the one for other keys and values at some places."""
    q, k, v = case.inputs(1)
    more = torch.zeros(T, 1).index_fill(0, places, 1.0)
    other = (q + more if case.attend.alone else q, k + more, v + more)
    return case.attend.at(q, k, v, **given), case.attend.at(*other, **given)


def _sees_ahead(case: Case, **given: Any) -> bool:
    before, after = _before_and_after(case, torch.arange(T // 2, T), **given)
    return far(after[:, :, : T // 2], before[:, :, : T // 2]) > 1e-4


def _keys_ahead(case: Case, **given: Any) -> int:
    """Return how many keys ahead of it each query sees, if all see as many and see further back than that; else 0."""
    pairs = [_before_and_after(case, torch.tensor([place]), **given) for place in range(T)]
    seen = torch.stack([(after - before).abs().amax((0, 1, 3)) > 1e-5 for before, after in pairs], 1)
    ahead = (seen * torch.arange(1, T + 1)).amax(1) - 1 - torch.arange(T)
    by, back = int(ahead[0]), T - 1 - int(seen[-1].long().argmax())
    return by if 0 < by < min(back, T // 2) and bool((ahead[: T - by] == by).all()) else 0


def future(case: Case) -> Finding:
    """Say whether a query sees keys ahead of it, and whether `causal` is heeded."""
    if case.code.takes("causal"):
        return _heeds_causal(case)
    if by := _keys_ahead(case):
        words = f"each query sees all keys behind it and {by} ahead, so training leaks the answer: {OFF_BY}"
        return wrong(words, by)
    if case.causal:
        return ok("causal: no query sees keys ahead")
    return note("every query sees every key: right for an encoder only")


def _heeds_causal(case: Case) -> Finding:
    if _sees_ahead(case, causal=True):
        by = _keys_ahead(case, causal=True)
        how = f", {by} of them: {OFF_BY}" if by else ""
        return wrong(f"with causal=True a query still sees keys ahead of it{how}: training leaks the answer", by)
    if _sees_ahead(case, causal=False):
        return ok("causal=True hides the keys ahead")
    return note("causal=True hides the keys ahead, and so does causal=False")


def order(case: Case) -> Finding:
    """Say whether the order of the keys matters to the last query."""
    q, k, v = case.inputs(2)
    q = q if case.causal else q[:, :, -1:]
    mixed = torch.tensor([*reversed(range(T - 1)), T - 1])
    before, after = case.attend.at(q, k, v), case.attend.at(q, k[:, :, mixed], v[:, :, mixed])
    off = far(after[:, :, -1:], before[:, :, -1:])
    if off > 1e-4:
        return ok("sees the order of the keys", off)
    hint = "; the causal mask alone tells order to a deep stack" if case.causal else ""
    return note(
        "blind to order: shuffled keys give the same, so position has to come from outside "
        f"(an added table, or q and k already rotated){hint}",
        off,
    )


def shift(case: Case) -> Finding:
    """Check that moving all tokens together changes nothing."""
    if not case.attend.placed:
        return unchecked("needs parameters for positions and key_positions")
    q, k, v = case.inputs(5)
    before = case.attend.at(q, k, v)
    off = far(case.attend.at(q, k, v, 100), before)
    if off >= 1e-3:
        return wrong(
            f"moving all tokens together changes the result by {off:.2g}: something absolute is in it. "
            "A learned or added table left in beside the rotation?",
            off,
        )
    made, failed = attempt(case.attend.at, q, k, v, FAR)
    if not failed and (further := far(made, before)) > 1e-2:
        return wrong(
            f"moving all tokens by 100 changes nothing, by {FAR:,} it changes the result by {further:.2g}: "
            "positions are clipped, or rounded to a coarse dtype",
            further,
        )
    return ok("moving all tokens together changes nothing", off)


def decoding(case: Case) -> Finding:
    """Compare the last query alone, and the last three, with the last of all."""
    q, k, v = case.inputs(6)
    whole = case.attend.at(q, k, v)
    alone, three = (case.attend.at(q[:, :, -n:], k, v) for n in (1, 3))
    off_alone = far(alone, whole[:, :, -1:])
    off = max(off_alone, far(three, whole[:, :, -3:]))
    if off < 1e-4 or (not case.causal and off_alone < 1e-4):
        return ok("the last query alone gets what it gets among all", off)
    if far(alone, v[:, :, :1]) < 1e-4:
        return wrong(
            f"one query after {T} keys sees the first key only: queries are aligned with the first keys, as "
            "is_causal=True of scaled_dot_product_attention does. Align them with the last, or leave the mask out "
            "for one query",
            off,
        )
    return wrong(
        f"the last query alone, after all {T} keys, differs by {off:.2g} from the last of all: it is taken for the "
        "first token. Place queries at the last of the keys",
        off,
    )
