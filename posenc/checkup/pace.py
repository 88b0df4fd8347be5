"""Name the frequencies of a rotation: the base, a scaling, an exponent that went wrong."""

import math

from posenc.checkup.pairs import Case
from posenc.checkup.report import Finding

WORDS = {
    "inverted": (
        "wrong",
        "pair i turns by {base:g}^(+2i/r), up to {top:,.0f} rad a token in place of at most 1: the exponent is "
        "inverted. "
        "Multiply positions by base^(-2i/r), do not divide",
    ),
    "rising": (
        "wrong",
        "pairs turn by up to {fastest:.3g} rad a token and do not slow down from 1 as base^(-2i/r): look at the sign "
        "and "
        "the brackets of the exponent",
    ),
    "late": (
        "note",
        "base {base:g}, but the first pair turns by {fastest:.4g}, not 1: the exponents start at 2/r, so the index "
        "counts "
        "from 1",
    ),
    "linear": ("ok", "base {base:g}, positions divided by {factor:.4g} (linear scaling)"),
    "by parts": (
        "ok",
        "base {base:g}, slow pairs slowed {factor:.4g} times and fast ones not (YaRN or Llama 3){missing}",
    ),
    "root": ("note", "base {base:.4g} fits, a square root: an exponent of i/r in place of 2i/r?"),
    "strange": ("note", "base {base:.4g} fits: check the exponent"),
    "regular": ("ok", "base {base:,.6g}, from {fastest:.3g} to {slowest:.3g} rad a token"),
    "irregular": ("note", "{n} frequencies from {fastest:.3g} down to {slowest:.3g} rad a token; no base fits"),
}


def frequencies(case: Case) -> Finding:
    """Name the frequencies."""
    name, base, factor, _ = case.speeds
    w = case.reading.theta.abs()
    told = {"base": base, "factor": factor, "n": len(w), "fastest": float(w.max()), "slowest": float(w.min())}
    if name == "regular":
        roots = (abs(base / root**0.5 - 1) < 1e-3 for root in (10_000, 500_000))
        name = "root" if any(roots) else "strange" if base > 1e12 or base < 10 else name
    if name == "inverted":
        told["top"] = base ** ((len(w) - 1) / len(w))
    if name == "by parts":
        right = 0.1 * math.log(factor) + 1
        plain = abs(float(case.reading.gains[1].mean()) - 1) < 1e-3
        told["missing"] = f"; if this is YaRN, its factor {right:.4f} is missing" if plain else ""
    verdict, words = WORDS["rising" if name == "fast" else name if name in WORDS else "irregular"]
    number = base if verdict == "ok" else told.get("top", told["fastest"])
    return Finding("frequencies", verdict, words.format(**told), number)
