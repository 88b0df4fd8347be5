"""Fit a rule to measured frequencies: a base, a scaling, or an exponent that went wrong."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.numerics import worst

BASES = (10_000, 100, 1_000, 40_000, 100_000, 150_000, 500_000, 1_000_000, 5_000_000, 10_000_000)
TOLERANCE = 1e-3


class Fit(NamedTuple):
    """The rule that frequencies follow: its name, the base, and the factor of a scaling.

    regular     base^(-2i/r)
    late        the same from i = 1 on, all divided by the factor
    early       the same from i = -1 on
    linear      the same, all divided by the factor
    by parts    the same, low ones divided by the factor and high ones not (YaRN, Llama 3)
    inverted    base^(+2i/r)
    rising      the second is higher than the first
    fast        the first is above 1
    none, single, irregular
    """

    name: str
    base: float = math.nan
    factor: float = math.nan


def yarn_factor(factor: float, mscale: float = 1) -> float:
    """Return YaRN's attention factor for a scaling."""
    return 0.1 * mscale * math.log(factor) + 1


def near(number: float, expected: float, tolerance: float = TOLERANCE) -> bool:
    """Return whether two numbers differ by rounding only, relative to the larger."""
    return math.isclose(number, expected, rel_tol=tolerance)


def mostly_one(theta: Tensor) -> bool:
    """Return whether more than half of the frequencies (n,), of four at least, are equal to the first."""
    return len(theta) > 3 and int(((theta / theta[0] - 1).abs() < 1e-6).sum()) > len(theta) // 2


def fit(theta: Tensor, tolerance: float = TOLERANCE) -> Fit:
    """Return what fits the frequencies (n,), radians a position modulo a whole turn, in the order of the pairs.

    They were measured with an error of `tolerance` at most.
    """
    size, n = theta.abs().double(), len(theta)
    exponents = torch.arange(n, dtype=torch.float64) / n  # (n,)
    # Some scalings, and rotations of a part of a head, let the pairs of low frequency rest.
    nonzero = size[size > 1e-9]
    # The cosines of three pairs or fewer fit some base by chance.
    inverted = _inverted_base(theta, exponents) if n > 3 else None
    if inverted is not None:
        return Fit("inverted", inverted)
    if not len(nonzero):
        return Fit("none")
    if n == 1:
        return Fit("single")
    first, second = size[:2].tolist()
    if second > (1 + TOLERANCE) * first:
        return Fit("rising")
    if first > 1 + tolerance:
        early = _early_base(size, exponents)
        return Fit("fast") if early is None else Fit("early", early)
    # In a geometric sequence each ratio of neighbors is base^(-2/r), with r = 2n.
    base = float((-n * nonzero.log().diff().mean()).exp())
    if worst((nonzero / (first * base ** -exponents[: len(nonzero)]) - 1).abs()) < tolerance:
        return _geometric(theta, exponents, base, tolerance)
    return _by_parts(size, exponents)


def _inverted_base(theta: Tensor, exponents: Tensor) -> float | None:
    # Inverted frequencies are far above a whole turn, so that cosines are compared.
    for base in BASES:
        if worst((torch.cos(base**exponents) - theta.cos()).abs()) < 5e-3:
            return base
    return None


def _early_base(size: Tensor, exponents: Tensor) -> float | None:
    for base in BASES:
        if worst((size / base ** (exponents[1] - exponents) - 1).abs()) < TOLERANCE:
            return base
    return None


def _geometric(theta: Tensor, exponents: Tensor, base: float, tolerance: float) -> Fit:
    """Return the rule of frequencies that fall by one ratio, which the first of them tells."""
    usual = [known for known in BASES if near(known, base, tolerance)]
    base = usual[0] if usual else base
    # Counted from i = 1, the first is base^(-2/r) / factor and the second base^(-4/r) / factor.
    first, second = theta[:2].abs().tolist()
    factor, late_factor = 1 / first, second / first**2
    if factor < 1 + tolerance:
        return Fit("regular", base)
    if near(late_factor, round(late_factor), 5e-5) and not near(factor, round(factor), 5e-5):
        return Fit("late", base, round(late_factor))
    return Fit("linear", base, factor)


def _by_parts(theta: Tensor, exponents: Tensor) -> Fit:
    # High frequencies are not scaled, so the first two tell the base; its power n enlarges their rounding.
    usual = [base for base in BASES if near(float(theta[1] ** -len(theta)), base, 1e-2)]
    base = usual[0] if usual else math.nan
    factors = base**-exponents / theta  # (n,)
    largest_fall = (-factors.log().diff()).max()
    # Factors rise to that of the scaling. A pair that rests would have an infinite one.
    if largest_fall < TOLERANCE and factors[-1] < 10_000:
        return Fit("by parts", base, float(factors[-1]))
    return Fit("irregular")
