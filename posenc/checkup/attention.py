"""Examine an attention: order, future, decoding, what is done to values, scale, padding, grouped heads, dtype."""

from typing import Any

import torch
from torch import Tensor

from posenc.checkup import caching, weighing
from posenc.checkup.attending import Attend, Case, T
from posenc.checkup.padding import padding
from posenc.checkup.patient import Patient, attempt, far, unlike
from posenc.checkup.report import Finding, findings

FAR = 5_003
OFF_BY = "the diagonal of the mask is off. Hide all keys with a place above the query's, tril(diagonal=s - t)"


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as an attention."""
    case = Case(Attend(patient), dim, heads, False)
    q, k, v = case.inputs(t=unlike(T, heads))
    made = case.attend.at(q, k, v)
    if not isinstance(made, Tensor) or made.ndim != 4 or made.shape[:3] != q.shape[:3]:
        return False
    q, k, v = (part.index_fill(2, torch.tensor([0]), 1.0) for part in (q, k, v))
    return far(case.attend.at(q, k, v)[:, :, 1:], made[:, :, 1:]) > 1e-6


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on an attention with heads of `dim` channels."""
    case = Case(Attend(patient.fresh()), dim, heads, False)
    case = case._replace(causal=not _sees_ahead(case))
    case.attend.learn_whose_positions(*case.inputs(6))
    decode = () if patient.takes("cache") else (decoding,)
    checks = (future, order, shift, *decode, padding, *weighing.CHECKS)
    alone = (future, shift, padding, weighing.half_precision)
    found = findings(alone if case.attend.alone else checks, case)
    if patient.takes("cache"):
        found += caching.examine(patient, dim, heads)
    else:
        found.append(
            Finding(
                "cache",
                "not checked",
                "needs a parameter cache and a result (out, cache); keys that were "
                "rotated before they came in cannot be seen",
            )
        )
    return [finding for finding in found if finding]


def _sees_ahead(case: Case, **given: Any) -> bool:
    q, k, v = case.inputs(1)
    before = case.attend.at(q, k, v, **given)
    q, k, v = q.clone(), k.clone(), v.clone()
    for part in (k, v, q) if case.attend.alone else (k, v):
        part[:, :, T // 2 :] += 1
    after = case.attend.at(q, k, v, **given)
    return far(after[:, :, : T // 2], before[:, :, : T // 2]) > 1e-4


def _ahead(case: Case, **given: Any) -> int:
    """Return how many keys ahead of it each query sees, if all see as many and see further back than that; else 0."""
    q, k, v = case.inputs(1)
    before, sees = case.attend.at(q, k, v, **given), []
    for j in range(T):
        q, k, v = (part.clone() for part in case.inputs(1))
        for part in (q, k, v) if case.attend.alone else (k, v):
            part[:, :, j] += 1
        after = case.attend.at(q, k, v, **given)
        sees.append((after - before).abs().amax((0, 1, 3)) > 1e-5)
    seen = torch.stack(sees, 1)
    furthest = (seen * torch.arange(1, T + 1)).amax(1) - 1 - torch.arange(T)
    by, back = int(furthest[0]), T - 1 - int(seen[-1].long().argmax())
    return by if 0 < by < min(back, T // 2) and bool((furthest[: T - by] == by).all()) else 0


def future(case: Case) -> Finding:
    """Say whether a query sees keys ahead of it, and whether `causal` is heeded."""
    if case.attend.patient.takes("causal"):
        sees = {causal: _sees_ahead(case, causal=causal) for causal in (False, True)}
        if sees[True]:
            how = f", {by} of them: {OFF_BY}" if (by := _ahead(case, causal=True)) else ""
            words = f"with causal=True a query still sees keys ahead of it{how}: training leaks the answer"
            return Finding("future", "wrong", words, by)
        return Finding(
            "future",
            "ok" if sees[False] else "note",
            "causal=True hides the keys ahead" + ("" if sees[False] else ", and so does causal=False"),
        )
    if by := _ahead(case):
        words = f"each query sees all keys behind it and {by} ahead, so training leaks the answer: {OFF_BY}"
        return Finding("future", "wrong", words, by)
    said = (
        "causal: no query sees keys ahead" if case.causal else "every query sees every key: right for an encoder only"
    )
    return Finding("future", "ok" if case.causal else "note", said)


def order(case: Case) -> Finding:
    """Say whether the order of the keys matters to the last query."""
    q, k, v = case.inputs(2)
    mixed = torch.tensor([*reversed(range(T - 1)), T - 1])
    before = case.attend.at(q[:, :, -1:], k, v) if not case.causal else case.attend.at(q, k, v)[:, :, -1:]
    after = (
        case.attend.at(q[:, :, -1:], k[:, :, mixed], v[:, :, mixed])
        if not case.causal
        else case.attend.at(q, k[:, :, mixed], v[:, :, mixed])[:, :, -1:]
    )
    off = far(after, before)
    if off > 1e-4:
        return Finding("order", "ok", "sees the order of the keys", off)
    hint = "; the causal mask alone tells order to a deep stack" if case.causal else ""
    return Finding(
        "order",
        "note",
        "blind to order: shuffled keys give the same, so position has to come from outside (an "
        f"added table, or q and k already rotated){hint}",
        off,
    )


def shift(case: Case) -> Finding:
    """Check that moving all tokens together changes nothing."""
    if not case.attend.placed:
        return Finding("shift", "not checked", "needs parameters for positions and key_positions")
    q, k, v = case.inputs(5)
    before, after = case.attend.at(q, k, v), case.attend.at(q, k, v, 100)
    off = far(after, before)
    if off < 1e-3:
        made, failed = attempt(case.attend.at, q, k, v, FAR)
        if not failed and (off_there := far(made, before)) > 1e-2:
            words = f"moving all tokens by 100 changes nothing, by {FAR:,} it changes the result by {off_there:.2g}"
            return Finding("shift", "wrong", f"{words}: positions are clipped, or rounded to a coarse dtype", off_there)
        return Finding("shift", "ok", "moving all tokens together changes nothing", off)
    return Finding(
        "shift",
        "wrong",
        f"moving all tokens together changes the result by {off:.2g}: something absolute is in it. "
        "A learned or added table left in beside the rotation?",
        off,
    )


def decoding(case: Case) -> Finding:
    """Compare the last query alone, and the last three, with the last of all."""
    q, k, v = case.inputs(6)
    whole = case.attend.at(q, k, v)
    off = max(far(case.attend.at(q[:, :, -n:], k, v), whole[:, :, -n:]) for n in (1, 3))
    alone = case.attend.at(q[:, :, -1:], k, v)
    if off < 1e-4 or (not case.causal and far(alone, whole[:, :, -1:]) < 1e-4):
        return Finding("decoding", "ok", "the last query alone gets what it gets among all", off)
    if far(alone, v[:, :, :1]) < 1e-4:
        return Finding(
            "decoding",
            "wrong",
            f"one query after {T} keys sees the first key only: queries are aligned with the first "
            "keys, as is_causal=True of scaled_dot_product_attention does. Align them with the last, or leave the "
            "mask out for one query",
            off,
        )
    return Finding(
        "decoding",
        "wrong",
        f"the last query alone, after all {T} keys, differs by {off:.2g} from the last of all: it "
        "is taken for the first token. Place queries at the last of the keys",
        off,
    )
