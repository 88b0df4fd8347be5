"""Fit a rule to frequencies that were read: a base, a scaling, or an exponent that went wrong."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

BASES = (10_000.0, 100.0, 1_000.0, 40_000.0, 100_000.0, 150_000.0, 500_000.0, 1_000_000.0, 5_000_000.0, 10_000_000.0)


class Fit(NamedTuple):
    """The rule that frequencies follow: its name, the base, the factor of a scaling, exact values if these are known.

    regular     base^(-2i/r)
    late        the same from i = 1 on, all divided by the factor
    early       the same from i = -1 on
    linear      the same, all divided by the factor
    by parts    the same, slow ones divided by the factor and fast ones not (YaRN, Llama 3)
    inverted    base^(+2i/r)
    rising      the second is faster than the first
    fast        the first is faster than 1
    none, single, irregular
    """

    name: str
    base: float = math.nan
    factor: float = 1.0
    exact: Tensor | None = None


def fit(theta: Tensor, slack: float = 1e-3) -> Fit:
    """Return what fits the frequencies (n,), radians a position as seen modulo a turn, first pair first.

    They were read with an error of `slack` at most.
    """
    w, n = theta.abs().double(), len(theta)
    steps = torch.arange(n, dtype=torch.float64) / n
    if inverted := _inverted(theta, steps):
        return inverted
    if not n or w.max() < 1e-9:
        return Fit("none")
    if n == 1:
        return Fit("single")
    if w[1] > 1.001 * w[0]:
        return Fit("rising")
    if w.max() > 1 + slack:
        base = float((w[0] / w[1]) ** n)
        early = (w * base ** (steps - 1 / n) - 1).abs().max() < 2e-3
        return Fit("early", _nearest(base)) if early and abs(_nearest(base) / base - 1) < 1e-3 else Fit("fast")
    live = int((w > 1e-7).sum())
    if live > 1:
        base = float((w[0] / w[live - 1]) ** (n / (live - 1)))
        ideal = w[0] * base ** (-steps)
        if (w[:live] / ideal[:live] - 1).abs().max() < 2 * slack:
            return _regular(theta, steps, base, slack)
    return _by_parts(w, steps)


def mostly_one(w: Tensor) -> bool:
    """Tell whether more than half of the speeds (n,) are one and the same, the first."""
    return len(w) > 3 and int(((w / w[0] - 1).abs() < 1e-6).sum()) > len(w) // 2


def _inverted(theta: Tensor, steps: Tensor) -> Fit | None:
    for base in BASES:
        angle = base**steps
        wraps = bool((angle[: len(theta) // 2] > 1.5).any())
        if wraps and (angle.cos() - theta.cos()).abs().max() < 5e-3:
            return Fit("inverted", base)
    return None


def _nearest(base: float) -> float:
    return min(BASES, key=lambda known: abs(math.log(known / base)))


def _regular(theta: Tensor, steps: Tensor, base: float, slack: float) -> Fit:
    w, sign = theta.abs().double(), float(theta[0].sign())
    known = _nearest(base)
    near = abs(known / base - 1) < slack
    base = known if near else base
    exact = sign * base ** (-steps) if near else None
    ratio, factor = float(w[0] / w[1]), float(1 / w[0])
    if factor < 1 + slack:
        return Fit("regular", base, 1.0, exact)
    whole, rest = round(factor), round(factor / ratio)
    if rest and abs(factor / ratio / rest - 1) < 5e-5 and abs(factor / whole - 1) > 5e-5:
        return Fit("late", base, rest)
    return Fit("linear", base, factor, exact / whole if exact is not None and abs(factor / whole - 1) < 1e-5 else None)


def _by_parts(w: Tensor, steps: Tensor) -> Fit:
    if not w[1]:
        return Fit("irregular")
    guess = float((w[0] / w[1]) ** len(w))
    base = _nearest(guess)
    if abs(base / guess - 1) > 0.01 or abs(w[0] - 1) > 1e-3:
        return Fit("irregular")
    slowed = base ** (-steps) / w
    rises = bool((slowed.diff() > -1e-3 * slowed[:-1]).all()) and slowed[-1] < 1e4
    return Fit("by parts" if rises else "irregular", base, float(slowed[-1]))
