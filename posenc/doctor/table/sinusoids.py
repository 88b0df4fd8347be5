"""Read sines and cosines off a table: their order, whether each pair shares one speed, and how speeds fall.

Row 0 of a sinusoidal table is 0 in every sine and 1 in every cosine, which gives away the order.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.call.code import Code
from posenc.doctor.call.declared import declared_base, declared_bases_of_axes
from posenc.doctor.numerics import wrap_angle
from posenc.doctor.report import Finding, note, passed, wrong
from posenc.doctor.rotation.fit_frequencies import fit, mostly_one, near
from posenc.doctor.table.row_distance import ALIKE
from posenc.doctor.table.sin_cos_order import orders, short, twice, unordered

USUAL = 10_000.0  # the base of the paper

RISING = (
    "speeds do not fall from 1 rad a token, the fastest seen is {top:.3g}: "
    "look at the sign and the brackets of the exponent"
)
WORDS = {  # by what fits: the cause, or how a right one is told, and the words
    "inverted": (
        "exponent-inverted",
        "the fastest pair turns by {top:,.0f} rad a token in place of 1: positions are divided by base^(-2i/d), "
        "so the exponent is inverted. Multiply by it",
    ),
    "rising": ("exponent-rising", RISING),
    "fast": ("exponent-rising", RISING),
    "still": ("exponent-flat", "{still} of {n} pairs stand still: an integer division makes their speeds 0"),
    "flat": (
        "exponent-flat",
        "all pairs turn by {top:.3g} rad a token: the exponent is 0 for each. An integer division in it?",
    ),
    "steep": (
        "exponent-precedence",
        "speeds fall as for a base of {base:.1e}, and {still} of {n} pairs stand still: an operator binds otherwise "
        "than meant, as in -log(10000)/d//2, which is (-log(10000)/d)//2. Put brackets around d//2",
    ),
    "root": (
        "exponent-halved",
        "base {base:.4g} fits, a square root: the exponent is i/d in place of 2i/d. Count channels, 0, 2, 4 ...",
    ),
    "square": (
        "exponent-doubled",
        "base {base:,.4g} fits, a square: the exponent is 4i/d in place of 2i/d. Does the index count channels?",
    ),
    "late": (
        "exponent-shifted",
        "base {base:,.6g}, but the first pair turns by {top:.4g}, not 1: the index counts from 1",
    ),
    "tensor2tensor": (passed, "from 1 rad a token down to 1/{base:,.6g}, spread over d/2 - 1 steps (tensor2tensor)"),
    "regular": (passed, "from 1 rad a token down to {low:.3g}: base {base:,.6g}"),
    "linear": (note, "base {base:,.6g}, and positions are multiplied by {times:.3g}"),
    "irregular": (note, "no base fits; from {top:.3g} down to {low:.3g} rad a token"),
}


def check_sinusoids(table: Tensor, code: Code, by_first: bool = False) -> tuple[list[Finding], dict[str, Any]]:
    """Return what can be said of the first rows (t, d), if they are sines and cosines, and what was read.

    `by_first` measures speeds by the first one, for positions that are fractions of something.
    """
    if table.shape[1] < 2:
        return [], {}
    if not table[0].any():
        found, read = check_sinusoids(table[1:], code, by_first)
        if found[0].check == "order" and found[0].verdict != "wrong":
            return [_of_zeros(found[0], code), *found], read
    for order, (sines, cosines) in orders(table.shape[1]).items():
        sine, cosine = table[:, sines], table[:, cosines]
        size = float(cosine[0].abs().max())
        if sine[0].abs().max() < ALIKE < size and (cosine[0] / size - 1).abs().max() < ALIKE:
            with_check_name = [_named("order", passed(order)), *_of_size(size, table.shape[1])]
            return _read(with_check_name, order, sine / size, cosine / size, _told(code, by_first, len(sines)))
        if first := _first(sine, cosine):
            words = f"{order}; the first row is that of position {first}, not 0"
            words += ": right for weights that were trained so"
            with_check_name = [_named("order", note(words, first))]
            return _read(with_check_name, order, sine, cosine, _told(code, by_first, len(sines)))
    return [twice(table) or unordered(table)], {}


def _of_zeros(order: Finding, code: Code) -> Finding:
    """Say what a row 0 of zeros, as a padding has, means before rows in an order that was found."""
    if order.verdict == "ok" and not code.takes("positions"):
        words = "position 0 gets a row of zeros, as of a padding, and position 1 the row of position 0: one is left out"
        return _named("first row", wrong("positions-shifted", words, -1))
    return _named("first row", note("row 0 is zeros, as of a padding: count positions from 1"))


def _of_size(size: float, dim: int) -> list[Finding]:
    """Say what waves mean that do not run from -1 to 1."""
    if near(size, 1 / dim):
        words = f"every number is divided by the width, {dim}: its root divides twice"
        return [_named("size", wrong("scale-twice", words, size))]
    return [] if near(size, 1) else [_named("size", note(f"every number is multiplied by {size:.4g}", size))]


class _Told(NamedTuple):
    """What is known of speeds: the bases that the code names, whether only ratios mean anything, whether it learns."""

    bases: tuple[float, ...]
    by_first: bool
    learned: bool


def _told(code: Code, by_first: bool, speeds: int) -> _Told:
    base = declared_base(code)
    bases = (*([] if base is None else [base]), *declared_bases_of_axes(code).values())
    return _Told(bases, by_first, any(parameter.numel() >= speeds for parameter in code.learned_parameters.values()))


def _named(check: str, finding: Finding) -> Finding:
    return finding._replace(check=check)


def _read(
    with_check_name: list[Finding], order: str, sine: Tensor, cosine: Tensor, told: _Told
) -> tuple[list[Finding], dict[str, Any]]:
    found = [*with_check_name, *_waves(sine, cosine, told)]
    base = next((f"base {f.number:,.6g}" for f in found if f.check == "speeds" and f.verdict == "ok"), "")
    return found, {"layout": short(order), "base": base}


def _on_circles(sine: Tensor, cosine: Tensor) -> bool:
    return bool((sine**2 + cosine**2 - 1).abs().max() < 1e-3)


def _first(sine: Tensor, cosine: Tensor) -> int:
    """Return which position row 0 stands for, if all pairs agree on one from 1 to 8; else 0."""
    if not _on_circles(sine, cosine):
        return 0
    start = torch.atan2(sine[0], cosine[0])
    step = torch.atan2(sine[1], cosine[1]) - start
    return next((k for k in range(9) if wrap_angle(k * step - start).abs().max() < 1e-2), 0)


def _waves(sine: Tensor, cosine: Tensor, told: _Told) -> list[Finding]:
    """Return the findings on norms, products of rows and speeds."""
    if not _on_circles(sine, cosine):
        return [_torn(sine, cosine)]
    half = sine.shape[1]
    whole = _named("norm", passed(f"every row has the squared length d/2 = {half}", half))
    step = torch.atan2(sine[1], cosine[1]) - torch.atan2(sine[0], cosine[0])
    speeds = _speeds(wrap_angle(step), told)
    if speeds.id in ("exponent-inverted", "exponent-rising"):  # angles are too large for their own rounding
        return [whole, speeds]
    return [whole, _products(sine @ sine.T + cosine @ cosine.T), speeds]


def _torn(sine: Tensor, cosine: Tensor) -> Finding:
    """Say why sine and cosine of a pair do not lie on a circle."""
    total = (sine**2 + cosine**2).sum(-1)
    for number, part, name in ((0.0, sine, "sines"), (1.0, cosine, "cosines")):
        still = int(((part - number).abs() < ALIKE).all(0).sum())
        if still > part.shape[1] // 2:
            words = (
                f"{still} of {part.shape[1]} {name} are {number:g} in every row: they are never written, or overwritten"
            )
            return _named("norm", wrong("order-broken", words, still))
    words = (
        f"squared lengths of rows run from {float(total.min()):.4g} to {float(total.max()):.4g} in place of "
        f"d/2 = {sine.shape[1]}: sine and cosine of a pair do not belong to one angle. "
        "They share one exponent, 2i/d for both, not 2(i+1)/d for the cosine"
    )
    return _named("norm", wrong("crossed", words, float(total.max())))


def _products(products: Tensor) -> Finding:
    at = torch.arange(len(products))
    uneven = float((products - products[0, (at[:, None] - at).abs()]).abs().max())
    if uneven < 1e-2:
        return _named("products", passed("the product of two rows depends on their distance only", uneven))
    words = (
        f"the product of two rows at one distance varies by {uneven:.2g}: "
        "angles do not grow as position times a speed (rounded positions?)"
    )
    return _named("products", wrong("not-linear-in-position", words, uneven))


def _speeds(theta: Tensor, known: _Told) -> Finding:
    theta = theta / theta[0] if known.by_first and theta[0] else theta
    name, base, factor, _ = fit(theta)
    n, still = len(theta), int((theta.abs() < ALIKE).sum())
    top, low = float(theta.abs().max()), float(theta.abs().min())
    if name == "inverted":
        top = base ** ((n - 1) / n)
    elif name != "single" and not theta[1:].any():
        name = "still"
    elif base > 10**9 or near(base, math.exp(2 * n)):  # -log(10000)/d//2 is -1 from a width of 10 on
        name = "steep"
    elif _ends_at(theta, known.bases):
        name, base = "tensor2tensor", 1 / low
    elif mostly_one(theta):
        name = "flat"
    elif name == "regular":
        name = _of_base(base, known.bases)
    elif known.learned:
        name = "irregular"
    verdict, words = WORDS.get(name, WORDS["irregular"])
    words = words.format(base=base, n=n, still=still, top=top, low=low, times=1 / factor)
    numbers = {"still": still, "steep": base, "regular": base, "linear": base, "tensor2tensor": base}
    number = numbers.get(name, top)
    return _named("speeds", wrong(verdict, words, number) if isinstance(verdict, str) else verdict(words, number))


def _ends_at(theta: Tensor, bases: tuple[float, ...]) -> bool:
    """Tell whether speeds fall in even steps to 1 over the base that is told, in the last of them."""
    n = len(theta)
    ideal = max(bases, default=USUAL) ** (-torch.arange(n, dtype=torch.float64) / (n - 1))
    return bool((theta / ideal - 1).abs().max() < 1e-2)


def _of_base(base: float, bases: tuple[float, ...]) -> str:
    """Tell the base that is told, or none that was, from the root and from the square of it."""
    if any(near(base, told) for told in bases):
        return "regular"
    for told in (*bases, USUAL):
        if near(base, told**0.5):
            return "root"
        if near(base, told**2):
            return "square"
    return "regular"
