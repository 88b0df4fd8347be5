"""Examine a rotation: what it turns, how fast, whether logits see offsets only, and how it bears use."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from posenc.diagnosis import precision, usage
from posenc.diagnosis.call import Code
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.frequencies import fit
from posenc.diagnosis.layout import difference, direction, layout, origin
from posenc.diagnosis.lengths import linear, norm
from posenc.diagnosis.read import Case, Rotation, read
from posenc.diagnosis.report import Finding, findings, note, ok, wrong

TWICE = "give the attention, with its cache: one call cannot show that keys were rotated before they came in"
STILL = (
    "nothing turns at any position: all angles are 0. Integer division in the exponent, or positions that never arrive"
)
RISING = (
    "pairs turn by up to {fastest:.3g} rad a token and do not slow down from 1 as base^(-2i/r): "
    "look at the sign and the brackets of the exponent"
)
WORDS = {  # by what fits
    "inverted": (
        wrong,
        "pair i turns by {base:g}^(+2i/r), up to {top:,.0f} rad a token in place of at most 1: "
        "the exponent is inverted. Multiply positions by base^(-2i/r), do not divide",
    ),
    "rising": (wrong, RISING),
    "fast": (wrong, RISING),
    "late": (
        note,
        "base {base:g}, but the first pair turns by {fastest:.4g}, not 1: "
        "the exponents start at 2/r, so the index counts from 1",
    ),
    "linear": (ok, "base {base:g}, positions divided by {factor:.4g} (linear scaling)"),
    "by parts": (
        ok,
        "base {base:g}, slow pairs slowed {factor:.4g} times and fast ones not (YaRN or Llama 3){missing}",
    ),
    "single": (note, "one pair alone, {fastest:.3g} rad a token: no base to read"),
    "root": (note, "base {base:.4g} fits, a square root: an exponent of i/r in place of 2i/r?"),
    "strange": (note, "base {base:.4g} fits: check the exponent"),
    "regular": (ok, "base {base:,.6g}, from {fastest:.3g} to {slowest:.3g} rad a token"),
    "irregular": (note, "{n} frequencies from {fastest:.3g} down to {slowest:.3g} rad a token; no base fits"),
}


def accepts(code: Code) -> bool:
    """Tell whether the code can be called as a rotation: zeros come back as zeros, one token for each."""
    t = 7 if code.heads == 6 else 6  # positions that broadcast against heads by mistake shall not fit
    rotate, zeros = Rotation(code), torch.zeros(2, code.heads, t, code.dim)
    y = rotate(zeros)
    if not isinstance(y, Tensor) or y.ndim != 4 or y.shape[:3] != zeros.shape[:3] or y.shape[-1] % code.dim:
        return False
    if rotate.told_by == "positions" and rotate(zeros, torch.arange(t)).shape != y.shape:
        return False
    one_token = zeros.index_fill(2, torch.tensor([0]), 1.0)
    if not code.takes("q", "k") and (y.any() or rotate(one_token)[:, :, 1:].any()):
        return False
    same = rotate(zeros + 1)
    over_heads, over_tokens = (torch.equal(same.narrow(axis, 0, 1).expand_as(same), same) for axis in (1, 2))
    return over_heads or not over_tokens or code.order is not None


def examine(code: Code) -> list[Finding]:
    """Return the findings on a rotation of heads of `dim` channels."""
    memory = findings((usage.memory,), code)
    if memory[0].words == usage.FORGETS:
        rest = "the answers of a call depend on the calls before it; repair that first, then ask again"
        return [*memory, Finding("everything else", "not checked", rest)]
    rotate = Rotation(code.fresh())
    reading = read(rotate)
    of_keys = read(rotate, True) if code.takes("q", "k") else reading
    case = Case(code, code.dim, code.heads, rotate, reading, of_keys, fit(reading.theta))
    checks = (*_of_matrices(case), shift, *precision.CHECKS, *usage.CHECKS)
    return [*memory, *findings(checks, case), Finding("rotating twice", "not checked", TWICE)]


def _of_matrices(case: Case) -> tuple[Callable[[Case], Finding | None], ...]:
    """Return the checks of what was read that have something to say."""
    reading = case.reading
    if reading.layout == "wide":
        return (norm,)
    if "none" in (reading.layout, case.of_keys.layout) and difference(case):
        return (layout, frequencies) if reading.pairs else (layout,)
    if (reading.matrices - torch.eye(case.dim)).abs().max() < 1e-7:
        return (frequencies,)
    if reading.pairs:
        return linear, norm, layout, direction, origin, frequencies
    return linear, norm, layout


def frequencies(case: Case) -> Finding | None:
    """Name the frequencies."""
    name, base, factor, _ = case.fit
    w = case.reading.theta.abs()
    if not len(w):
        return wrong(STILL, 0.0)
    if name == "none":  # pairs mix and do not turn, which `norm` says
        return None
    said = {"base": base, "factor": factor, "n": len(w), "fastest": float(w.max()), "slowest": float(w.min())}
    number = said["fastest"]
    if name == "regular" and any(abs(base / root**0.5 - 1) < 1e-3 for root in (10_000, 500_000)):
        name = "root"
    elif name == "regular" and not 10 <= base <= 1e12:
        name = "strange"
    elif name == "inverted":
        said["top"] = number = base ** ((len(w) - 1) / len(w))
    elif name == "by parts":
        plain = abs(float(case.reading.gains[1].mean()) - 1) < 1e-3
        right = 0.1 * math.log(factor) + 1
        said["missing"] = f"; if this is YaRN, its factor {right:.4f} is missing" if plain else ""
    verdict, words = WORDS.get(name, WORDS["irregular"])
    return verdict(words.format(**said), base if verdict is ok else number)


def shift(case: Case) -> Finding:
    """Check that logits see the offset of a query and a key, not where the two stand."""
    furthest = 100 if case.rotate.told_by == "length" else 1000
    q, k = random(1, case.heads, 8, case.dim, seed=2), random(1, case.heads, 8, case.dim, seed=3)
    places, off = torch.arange(8), 0.0
    for step in (1, 17, furthest):
        before, after = (case.rotate(q, p) @ case.rotate(k, p, of_keys=True).mT for p in (places, places + step))
        off = max(off, far(after, before))
    if off < 2e-3:
        return ok("logits see offsets only: moving queries and keys together changes nothing", off)
    return wrong(
        f"moving queries and keys together changes the logits by {off:.2g} of the largest: they do not see offsets "
        "only. Something absolute is in it, or pairs do not rotate",
        off,
    )
