"""Fit a rule to frequencies that were read: a base, a scaling, or an exponent that went wrong."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

BASES = (10_000, 100, 1_000, 40_000, 100_000, 150_000, 500_000, 1_000_000, 5_000_000, 10_000_000)
CLOSE = 1e-3
SLOWEST = 10_000  # times slower than without a scaling


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
    factor: float = math.nan
    exact: Tensor | None = None

    @property
    def yarn(self) -> float:
        """YaRN's attention factor for a scaling by this one."""
        return yarn_factor(self.factor, 1)


def yarn_factor(factor: float, strength: float) -> float:
    """Return YaRN's attention factor for a scaling."""
    return 0.1 * strength * math.log(factor) + 1


def near(one: float, other: float, slack: float = CLOSE) -> bool:
    """Tell whether two numbers are the same but for rounding, relative to the larger."""
    return math.isclose(one, other, rel_tol=slack)


def fit(theta: Tensor, slack: float = CLOSE) -> Fit:
    """Return what fits the frequencies (n,), radians a position as seen modulo a turn, first pair first.

    They were read with an error of `slack` at most.
    """
    w, n = theta.abs().double(), len(theta)
    steps, alive = torch.arange(n, dtype=torch.float64) / n, w[w > 1e-9]
    if n > 3 and (base := _inverted(theta, steps)):
        return Fit("inverted", base)
    if not len(alive):
        return Fit("none")
    if n == 1:
        return Fit("single")
    first, second, *_ = w.tolist()
    if second > (1 + CLOSE) * first:
        return Fit("rising")
    if first > 1 + slack:
        return _fast(w, steps)
    base = float((-n * alive.log().diff().mean()).exp())
    if _off(alive, first * base ** -steps[: len(alive)]) < slack:
        return _regular(theta, steps, base, slack)
    return _by_parts(w, steps)


def mostly_one(w: Tensor) -> bool:
    """Tell whether more than half of the speeds (n,) are one and the same, the first."""
    return len(w) > 3 and int(((w / w[0] - 1).abs() < 1e-6).sum()) > len(w) // 2


def _off(w: Tensor, ideal: Tensor) -> float:
    return float((w / ideal - 1).abs().max())


def _inverted(theta: Tensor, steps: Tensor) -> float | None:
    return next((base for base in BASES if (torch.cos(base**steps) - theta.cos()).abs().max() < 5e-3), None)


def _fast(w: Tensor, steps: Tensor) -> Fit:
    base = next((base for base in BASES if _off(w, base ** (steps[1] - steps)) < CLOSE), None)
    return Fit("early", base) if base else Fit("fast")


def _regular(theta: Tensor, steps: Tensor, base: float, slack: float) -> Fit:
    known = next((usual for usual in BASES if near(usual, base, slack)), None)
    base = known or base
    exact = theta.sign() * base**-steps if known else None
    first, second = theta[:2].abs().tolist()
    factor, rest = 1 / first, second / first**2
    if factor < 1 + slack:
        return Fit("regular", base, exact=exact)
    if _whole(rest) and not _whole(factor):
        return Fit("late", base, round(rest))
    return Fit("linear", base, factor, exact / round(factor) if exact is not None and _whole(factor) else None)


def _whole(number: float) -> bool:
    return near(number, round(number), 5e-5)


def _by_parts(w: Tensor, steps: Tensor) -> Fit:
    base = next((base for base in BASES if near(float(w[1] ** -len(w)), base, 1e-2)), math.nan)
    slowed = base**-steps / w
    falls = (-slowed.log().diff()).max()
    return Fit("by parts", base, float(slowed[-1])) if falls < CLOSE and slowed[-1] < SLOWEST else Fit("irregular")
