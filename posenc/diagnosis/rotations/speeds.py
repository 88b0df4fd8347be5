"""Examine how fast pairs turn: the rule behind the frequencies, and whether the base that is asked for arrives."""

import math

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.told import WIDTHS, told, told_base, with_base, with_other
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong
from posenc.diagnosis.rotations.frequencies import fit, mostly_one
from posenc.diagnosis.rotations.read import Case, Rotation, read

STILL = (
    "nothing turns at any position: all angles are 0. Integer division in the exponent, or positions that never arrive"
)
RISING = (
    "pairs turn by up to {fastest:.3g} rad a token and do not slow down from 1 as base^(-2i/r): "
    "look at the sign and the brackets of the exponent"
)
ROOT = (
    "base {base:.4g} fits, the square root of {square:,.0f}: the exponent is i/r in place of 2i/r. Count pairs as "
    "0, 2, 4 ... over r, or 0, 1, 2 ... over r/2 (if {base:.4g} is meant, name it: base={base:.4g})"
)
WORDS = {  # by what fits: the cause, or how a right one is told, and the words
    "inverted": (
        "exponent-inverted",
        "pair i turns by {base:g}^(+2i/r), up to {top:,.0f} rad a token in place of at most 1: "
        "the exponent is inverted. Multiply positions by base^(-2i/r), do not divide",
    ),
    "rising": ("exponent-rising", RISING),
    "fast": ("exponent-rising", RISING),
    "flat": (
        "exponent-flat",
        "all pairs turn by {fastest:.3g} rad a token: the exponent is 0 for each. An integer division in it?",
    ),
    "late": (
        "exponent-shifted",
        "base {base:g}, but the first pair turns by {fastest:.4g}, not 1: "
        "the exponents start at 2/r, so the index counts from 1",
    ),
    "early": (
        "exponent-shifted",
        "base {base:g}, but the first pair turns by {fastest:.4g}, not 1: the exponents start at -2/r. "
        "A formula with i - 1 counts i from 1",
    ),
    "root": ("exponent-halved", ROOT),
    "square": (
        "exponent-doubled",
        "base {base:,.4g} fits, the square of {root:,.0f}: the exponent is 4i/r in place of 2i/r. "
        "Does the index already count channels, 0, 2, 4 ...?",
    ),
    "linear": (ok, "base {base:g}, positions divided by {factor:.4g} (linear scaling)"),
    "by parts": (
        ok,
        "base {base:g}, slow pairs slowed {factor:.4g} times and fast ones not (YaRN or Llama 3){missing}",
    ),
    "single": (note, "one pair alone, {fastest:.3g} rad a token: no base to read"),
    "strange": (note, "base {base:.4g} fits: check the exponent"),
    "regular": (ok, "base {base:,.6g}, from {fastest:.3g} to {slowest:.3g} rad a token"),
    "irregular": (note, "{n} frequencies from {fastest:.3g} down to {slowest:.3g} rad a token; no base fits"),
}


def frequencies(case: Case) -> Finding | None:
    """Name the frequencies."""
    name, base, factor, _ = case.fit
    w = case.reading.theta.abs()
    if case.of_axes and case.fit.name != "inverted":
        return _of_axes(w[w > 0])
    if not len(w):
        return wrong("still", STILL, 0.0)
    if name == "none":  # pairs mix and do not turn, which `norm` says
        return None
    said = {"base": base, "factor": factor, "n": len(w), "fastest": float(w.max()), "slowest": float(w.min())}
    said |= {"square": base**2, "root": math.sqrt(base), "top": base ** ((len(w) - 1) / len(w)), "missing": ""}
    number = said["top"] if name == "inverted" else said["fastest"]
    name = _named(case, name, base)
    if name == "by parts":
        plain = abs(float(case.reading.gains.mean()) - 1) < 1e-3
        said["missing"] = f"; if this is YaRN, its factor {0.1 * math.log(factor) + 1:.4f} is missing" if plain else ""
    verdict, words = WORDS.get(name, WORDS["irregular"])
    words = words.format(**said)
    return (
        wrong(verdict, words, number) if isinstance(verdict, str) else verdict(words, base if verdict is ok else number)
    )


def _of_axes(w: Tensor) -> Finding:
    if not len(w):
        return wrong("still", STILL, 0.0)
    words = f"{len(w)} pairs turn along a row, from {float(w.max()):.3g} to {float(w.min()):.3g} rad a token"
    if len(w) > 2 and float(w.min()) > 0.999 * float(w.max()):
        return wrong("exponent-flat", f"{words}: all alike. An integer division in the exponent?", float(w.max()))
    return note(words, float(w.max()))


def _named(case: Case, name: str, base: float) -> str:
    """Return the name of what fits; a base whose root or square is usual is suspect where nobody asked for it."""
    if name == "irregular" and mostly_one(case.reading.theta.abs()):
        return "flat"
    if name in ("regular", "linear") and base < 1.5:
        return "flat"
    if name != "regular":
        return name
    said = told_base(case.code)
    if said is not None and abs(said / base - 1) < 1e-3:
        return name
    flat = not case.of_axes
    if any(abs(base / root**0.5 - 1) < 1e-3 for root in (said or 10_000, 10_000, 500_000)):
        return "root" if flat or said else "strange"
    if (said and abs(base / said**2 - 1) < 1e-3) or abs(base / 1e8 - 1) < 1e-3:
        return "square"
    return name if base >= 10 else "strange"


def base(case: Case) -> Finding | None:
    """Ask for two bases, and see whether the frequencies follow."""
    if not case.reading.pairs or case.given_angles:
        return None
    asked = 500_000.0
    codes = [code for value in (10_000.0, asked) if (code := with_base(case.code, value))]
    if len(codes) < 2:
        return None
    first, second = (attempt(read, Rotation(code), reach=case.reach) for code in codes)
    if first[1] or second[1]:
        return unchecked(f"base {asked:,.0f} raises {first[1] or second[1]}")
    one, other = first[0].theta, second[0].theta
    if not any(_alike(theta, case.reading.theta) for theta in (one, other)):
        return None if _alike(one, other) else ok(f"asked for base {asked:,.0f}, it turns otherwise", asked)
    if _alike(one, other):
        return wrong("base-ignored", f"asked for base {asked:,.0f}, it turns as by 10,000: the base does not arrive")
    found = fit(other)
    if found.name == "regular" and not case.of_axes and abs(found.base / asked - 1) > 1e-2:
        return wrong("base-ignored", f"asked for base {asked:,.0f}, it turns by base {found.base:,.6g}", found.base)
    return ok(f"asked for base {asked:,.0f}, it turns otherwise", asked)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-7)


def factor(case: Case) -> Finding | None:
    """Ask for two factors of a scaling, and see whether near or far positions follow."""
    codes = [code for value in (1.0, 4.0) if (code := with_other(case.code, "factor", value))]
    if not case.reading.pairs or case.given_angles or len(codes) < 2:
        return None
    x, last = random(1, case.heads, 1, case.dim, seed=17), case.reach - 1
    for place in (1, last):
        one, other = (attempt(Rotation(code), x, torch.tensor([place])) for code in codes)
        if one[1] or other[1]:
            return unchecked(f"a factor of 1 or of 4 raises {one[1] or other[1]}")
        if far(one[0], other[0]) > 1e-6:
            return ok("asked for another factor of its scaling, it turns otherwise")
        if far(one[0], case.rotate(x, torch.tensor([place]))) > 1e-6:  # built anew, other settings are not those given
            return None
    return wrong("scaling-ignored", "asked for scaling by 4 and by 1, it turns alike: the factor does not arrive", 4)


def width(case: Case) -> Finding | None:
    """Compare how many channels turn with how many the code says."""
    said, turning = told(case.code, WIDTHS), 2 * len(case.reading.pairs)
    if said is None or not case.reading.pairs or said > case.dim or turning == said:
        return None
    if turning < said and case.reading.columns:  # the first row of a picture may be all that some pairs see
        return None
    words = f"{turning} of {case.dim} channels turn, and the code says {said:,.0f}: the others should pass as they are"
    return wrong("width-wrong", words, turning)
