"""Examine an attention: order, future, decoding, what is done to values, scale, padding, grouped heads, dtype."""

import math
from typing import Any

import torch
from torch import Tensor

from posenc.checkup import caching, weighing
from posenc.checkup.attending import Attend, Case, T
from posenc.checkup.patient import Patient, attempt, far, random
from posenc.checkup.report import Finding, findings


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as an attention."""
    case = Case(Attend(patient), dim, heads, False)
    q, k, v = case.inputs()
    made = case.attend.at(q, k, v)
    if not isinstance(made, Tensor) or made.shape[:3] != q.shape[:3]:
        return False
    q, k, v = (part.index_fill(2, torch.tensor([0]), 1.0) for part in (q, k, v))
    return far(case.attend.at(q, k, v)[:, :, 1:], made[:, :, 1:]) > 1e-6


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on an attention with heads of `dim` channels."""
    case = Case(Attend(patient.fresh()), dim, heads, False)
    case = case._replace(causal=not _sees_ahead(case))
    decode = () if patient.takes("cache") else (decoding,)
    checks = (future, order, shift, *decode, padding, *weighing.CHECKS)
    found = findings(checks if not case.attend.alone else (future, shift, weighing.half_precision), case)
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


def future(case: Case) -> Finding:
    """Say whether a query sees keys ahead of it, and whether `causal` is heeded."""
    if case.attend.patient.takes("causal"):
        sees = {causal: _sees_ahead(case, causal=causal) for causal in (False, True)}
        if sees[True]:
            return Finding(
                "future", "wrong", "with causal=True a query still sees keys ahead of it: training leaks the answer"
            )
        return Finding(
            "future",
            "ok" if sees[False] else "note",
            "causal=True hides the keys ahead" + ("" if sees[False] else ", and so does causal=False"),
        )
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


def _padded(case: Case, shape: str) -> float:
    """Return how far the real tokens are off with three more before them, hidden by a mask of the given shape."""
    q, k, v = case.inputs(7)
    hidden = [torch.cat([random(2, case.heads, 3, case.dim, seed=80 + i), part], 2) for i, part in enumerate((q, k, v))]
    real = torch.ones(2, T + 3, dtype=torch.bool)
    real[:, :3] = False
    mask = {
        "(b, s)": real,
        "(b, 1, 1, s)": real[:, None, None],
        "(b, 1, t, s)": real[:, None, None].expand(-1, 1, T + 3, -1),
    }
    mask = {**mask, "additive": torch.where(real[:, None, None], 0.0, -1e9)}[shape]
    places = (real.long().cumsum(-1) - 1).clamp(min=0)
    given = {"positions": places, "key_positions": places, "mask": mask}
    taken = {role: given[role] for role in given if case.attend.patient.takes(role)}
    return far(case.attend(*hidden, **taken)[:, :, 3:], case.attend.at(q, k, v))


def padding(case: Case) -> Finding:
    """Check that padding on the left, hidden by the mask, leaves the real tokens alone."""
    if not case.attend.patient.takes("mask"):
        return Finding("padding", "not checked", "needs a parameter for a mask")
    tried = [attempt(_padded, case, shape) for shape in ("(b, 1, 1, s)", "(b, 1, t, s)", "(b, s)", "additive")]
    worked = [off for off, failed in tried if not failed and off is not None and math.isfinite(off)]
    if not worked:
        return Finding("padding", "not checked", f"no mask of booleans or numbers is taken: {tried[0][1]}")
    if min(worked) < 1e-4:
        return Finding("padding", "ok", "hidden padding on the left leaves the real tokens alone", min(worked))
    return Finding(
        "padding",
        "wrong",
        f"padding on the left, though hidden by the mask, changes the real tokens by {min(worked):.2g}: "
        "positions count the padding. Count real tokens, mask.cumsum(-1) - 1",
        min(worked),
    )
