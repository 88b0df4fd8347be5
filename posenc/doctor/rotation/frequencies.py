"""Examine how fast pairs turn: the rule behind the frequencies, and whether the base that is asked for arrives."""

import math

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code
from posenc.doctor.call.declared import ROTARY_WIDTHS, declared_base, declared_number, rebuilt_with
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.fit_frequencies import fit, mostly_one, near
from posenc.doctor.rotation.measure_angles import Case, Rotation, read

USUAL, ASKED = 10_000, 500_000  # bases
LEAST = 10  # of the bases in use
SAME = 1e-6
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
    "linear": (passed, "base {base:g}, positions divided by {factor:.4g} (linear scaling)"),
    "by parts": (
        passed,
        "base {base:g}, slow pairs slowed {factor:.4g} times and fast ones not (YaRN or Llama 3){missing}",
    ),
    "single": (note, "one pair alone, {fastest:.3g} rad a token: no base to read"),
    "strange": (note, "base {base:.4g} fits: check the exponent"),
    "regular": (passed, "base {base:,.6g}, from {fastest:.3g} to {slowest:.3g} rad a token"),
    "irregular": (note, "{n} frequencies from {fastest:.3g} down to {slowest:.3g} rad a token; no base fits"),
}


def frequencies(case: Case) -> Finding | None:
    """Name the frequencies."""
    name, base, factor, _ = case.fit
    w = case.reading.theta.abs()
    if case.of_axes:
        w = w[w > 0]
    if not len(w):
        return wrong("still", STILL, 0.0)
    if name == "none":  # pairs mix and do not turn, which `norm` says
        return None
    if case.of_axes and name != "inverted":
        return _of_axes(w)
    said = {"base": base, "factor": factor, "n": len(w), "fastest": float(w.max()), "slowest": float(w.min())}
    said |= {"square": base**2, "root": math.sqrt(base), "top": base / base ** (1 / len(w)), "missing": ""}
    number = said["top"] if name == "inverted" else said["fastest"]
    if name == "by parts" and near(float(case.reading.gains.mean()), 1):
        said["missing"] = f"; if this is YaRN, its factor {case.fit.yarn:.4f} is missing"
    verdict, words = WORDS.get(_named(case, w), WORDS["irregular"])
    words = words.format(**said)
    if isinstance(verdict, str):
        return wrong(verdict, words, number)
    return verdict(words, base if verdict is passed else number)


def _of_axes(w: Tensor) -> Finding:
    words = f"{len(w)} pairs turn along a row, from {float(w.max()):.3g} to {float(w.min()):.3g} rad a token"
    if len(w) > 2 and near(float(w.min()), float(w.max())):
        return wrong("exponent-flat", f"{words}: all alike. An integer division in the exponent?", float(w.max()))
    return note(words, float(w.max()))


def _named(case: Case, w: Tensor) -> str:
    """Return the name of what fits; a base whose root or square is usual is suspect where nobody asked for it."""
    name, base, said = case.fit.name, case.fit.base, declared_base(case.code)
    if mostly_one(w):
        return "flat"
    if name != "regular" or near(said or 0, base):
        return name
    usual = (said or USUAL, USUAL, ASKED)
    if any(near(base**2, one) for one in usual):
        return "root"
    if any(near(base, one**2) for one in usual):
        return "square"
    return name if base >= LEAST else "strange"


def _with(case: Case, role: str, *values: int) -> list[Code]:
    """Return the code built or called with each of these bases or factors; none where these cannot be told."""
    codes = [rebuilt_with(case.code, role, float(value)) for value in values]
    told = [code for code in codes if code and case.reading.pairs and not case.given_angles]
    return told if len(told) == len(codes) else []


def base(case: Case) -> Finding | None:
    """Ask for two bases, and see whether the frequencies follow."""
    read_of = [attempt(read, Rotation(code), reach=case.reach) for code in _with(case, "base", USUAL, ASKED)]
    if not read_of:
        return None
    if failed := next(filter(None, (why for _, why in read_of)), ""):
        return not_checked(f"base {ASKED:,} raises {failed}")
    one, other = (reading.theta for reading, _ in read_of)
    known = any(_alike(theta, case.reading.theta) for theta in (one, other))
    if _alike(one, other):
        words = f"asked for base {ASKED:,}, it turns as by 10,000: the base does not arrive"
        return wrong("base-ignored", words) if known else None
    found = fit(other)
    if known and found.name == "regular" and not case.of_axes and not near(found.base, ASKED, 1e-2):
        return wrong("base-ignored", f"asked for base {ASKED:,}, it turns by base {found.base:,.6g}", found.base)
    return passed(f"asked for base {ASKED:,}, it turns otherwise", ASKED)


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-7)


def factor(case: Case) -> Finding | None:
    """Ask for two factors of a scaling, and see whether far positions follow."""
    x, places = random(1, case.heads, 8, case.dim, seed=17), torch.arange(case.reach)[-8:]
    turned = [attempt(Rotation(code), x, places) for code in _with(case, "factor", 10, 40)]
    if not turned:
        return None
    if failed := next(filter(None, (why for _, why in turned)), ""):
        return not_checked(f"a factor of 10 or of 40 raises {failed}")
    one, other = (y for y, _ in turned)
    if relative_difference(one, other) > SAME:
        return passed("asked for another factor of its scaling, it turns otherwise")
    if relative_difference(one, case.rotate(x, places)) > SAME:  # built anew, other settings are not those given
        return None
    return wrong("scaling-ignored", "asked for scaling by 10 and by 40, it turns alike: the factor does not arrive")


def width(case: Case) -> Finding | None:
    """Compare how many channels turn with how many the code says."""
    turning = 2 * len(case.reading.pairs)
    said = declared_number(case.code, ROTARY_WIDTHS) or turning
    if turning and not case.reading.columns and turning != said <= case.dim:  # of a grid a row may not show all pairs
        words = f"{turning} of {case.dim} channels turn, and the code says {said:,.0f}"
        return wrong("width-wrong", f"{words}: the others should pass as they are", turning)
    return None
