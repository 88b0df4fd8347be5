"""Examine a rotation: what it turns, how fast, whether logits see offsets only, and how it bears use."""

import torch
from torch import Tensor

from posenc.checkup import precision, usage
from posenc.checkup.pace import frequencies
from posenc.checkup.pairs import Case, shape
from posenc.checkup.patient import Patient, far, random, unlike
from posenc.checkup.reading import Turn, read, speeds
from posenc.checkup.report import Finding, findings

TWICE = "give the attention, with its cache: one call cannot show that keys were rotated before they came in"


def accepts(patient: Patient, dim: int, heads: int) -> bool:
    """Tell whether the code can be called as a rotation: zeros come back as zeros, one token for each."""
    t = unlike(6, heads)
    turn, zeros = Turn(patient), torch.zeros(2, heads, t, dim)
    y = turn(zeros)
    if not isinstance(y, Tensor) or y.ndim != 4 or y.shape[:3] != zeros.shape[:3] or y.shape[-1] % dim:
        return False
    if turn.reach == "positions" and turn(zeros, torch.arange(t)).shape != y.shape:
        return False
    if not patient.takes("q", "k") and (y.any() or turn(zeros.index_fill(2, torch.tensor([0]), 1.0))[:, :, 1:].any()):
        return False
    same = turn(zeros + 1)
    over_heads, over_tokens = (torch.equal(same.narrow(axis, 0, 1).expand_as(same), same) for axis in (1, 2))
    return over_heads or not over_tokens or patient.order is not None


def examine(patient: Patient, dim: int, heads: int) -> list[Finding]:
    """Return the findings on a rotation of heads of `dim` channels."""
    remembers = usage.memory(patient, dim, heads)
    if remembers.words == usage.FORGETS:
        rest = "the answers of a call depend on the calls before it; repair that first, then ask again"
        return [remembers, Finding("everything else", "not checked", rest)]
    turn = Turn(patient.fresh())
    reading = read(turn, dim, heads)
    keys = read(turn, dim, heads, 1) if patient.takes("q", "k") else reading
    known = speeds(reading.theta)
    case = Case(turn, reading, keys, known, dim, heads)
    paced = (frequencies,) if reading.pairs else ()
    checks = (shape, *paced, shift, *precision.CHECKS, *usage.CHECKS)
    return [remembers, *findings(checks, case), Finding("rotating twice", "not checked", TWICE)]


def shift(case: Case) -> Finding:
    """Check that logits see the offset of a query and a key, not where the two stand."""
    moved = 100 if case.turn.reach == "length" else 1000
    q, k = random(1, case.heads, 8, case.dim, seed=2), random(1, case.heads, 8, case.dim, seed=3)
    places = torch.arange(8)
    worst = 0.0
    for step in (1, 17, moved):
        before, after = (case.turn(q, p) @ case.turn(k, p, 1).mT for p in (places, places + step))
        worst = max(worst, far(after, before))
    if worst < 2e-3:
        return Finding(
            "shift", "ok", "logits see offsets only: moving queries and keys together changes nothing", worst
        )
    return Finding(
        "shift",
        "wrong",
        f"moving queries and keys together changes the logits by {worst:.2g} of the largest: "
        "they do not see offsets only. Something absolute is in it, or pairs do not rotate",
        worst,
    )
