"""Read sines and cosines off a table: their order, whether each pair shares one speed, and how speeds fall.

Row 0 of a sinusoidal table is 0 in every sine and 1 in every cosine, which gives away the order.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.calling.call import Code
from posenc.diagnosis.calling.told import bases_of_axes, told_base
from posenc.diagnosis.compare import wrapped
from posenc.diagnosis.report import Finding, note, ok, wrong
from posenc.diagnosis.rotations.frequencies import fit, mostly_one
from posenc.diagnosis.tables.orders import alike, orders, short, unordered

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
        "speeds fall to {step:.3g} from one pair to the next, a base of {base:.1e}, and {still} of {n} pairs stand "
        "still: an operator binds otherwise than meant, as in -log(10000)/d//2, which is (-log(10000)/d)//2. "
        "Put brackets around d//2",
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
    "tensor2tensor": (ok, "from 1 rad a token down to 1/{base:,.6g}, spread over d/2 - 1 steps (tensor2tensor)"),
    "regular": (ok, "from 1 rad a token down to {low:.3g}: base {base:,.6g}"),
    "linear": (note, "base {base:,.6g}, and positions are multiplied by {times:.3g}"),
    "irregular": (note, "no base fits; from {top:.3g} down to {low:.3g} rad a token"),
}


def sinusoids(table: Tensor, code: Code | None = None, by_first: bool = False) -> tuple[list[Finding], dict[str, Any]]:
    """Return what can be said of the first rows (t, d), if they are sines and cosines, and what was read.

    `by_first` measures speeds by the first one, for positions that are fractions of something.
    """
    if not table[0].any():
        found, read = sinusoids(table[1:], code, by_first)
        if found[0].check == "order" and found[0].verdict != "wrong":
            return [_of_zeros(found[0], code), *found], read
    bases = tuple(bases_of_axes(code).values()) if code else ()
    told = _Told(told_base(code) if code else None, bases, by_first, _learns(code, table.shape[-1] // 2))
    for order, (sines, cosines) in orders(table.shape[-1]).items():
        sine, cosine = table[:, sines], table[:, cosines]
        size = float(cosine[0].abs().max())
        if sine[0].abs().max() < 1e-6 and size > 1e-6 and (cosine[0] / size - 1).abs().max() < 1e-6:
            named = [_named("order", ok(order))]
            if abs(size * table.shape[-1] - 1) < 1e-3:
                words = f"every number is divided by the width, {table.shape[-1]}: its root divides twice"
                named.append(_named("size", wrong("scale-twice", words, size)))
            elif abs(size - 1) > 1e-3:
                named.append(_named("size", note(f"every number is multiplied by {size:.4g}", size)))
            return _read(named, order, sine / size, cosine / size, told)
        if first := _first(sine, cosine):
            words = f"{order}; the first row is that of position {first}, not 0"
            words += ": right for weights that were trained so"
            return _read([_named("order", note(words, first))], order, sine, cosine, told)
    return [alike(table) or unordered(table)], {}


def _of_zeros(order: Finding, code: Code | None) -> Finding:
    """Say what a row 0 of zeros, as a padding has, means before rows in an order that was found."""
    if order.verdict == "ok" and code is not None and not code.takes("positions"):
        words = "position 0 gets a row of zeros, as of a padding, and position 1 the row of position 0: one is left out"
        return _named("first row", wrong("positions-shifted", words, -1))
    return _named("first row", note("row 0 is zeros, as of a padding: count positions from 1"))


class _Told(NamedTuple):
    """What is known of speeds: the base that the code names, whether only ratios mean anything, whether it learns."""

    base: float | None
    of_axes: tuple[float, ...]
    by_first: bool
    learned: bool


def _learns(code: Code | None, speeds: int) -> bool:
    """Tell whether the code learns as many numbers as there are speeds."""
    return code is not None and any(parameter.numel() >= speeds > 1 for parameter in code.learned.values())


def _named(check: str, finding: Finding) -> Finding:
    return finding._replace(check=check)


def _read(
    named: list[Finding], order: str, sine: Tensor, cosine: Tensor, told: _Told
) -> tuple[list[Finding], dict[str, Any]]:
    found = [*named, *_waves(sine, cosine, told)]
    speeds = next((finding for finding in found if finding.check == "speeds"), None)
    base = "" if speeds is None or speeds.verdict != "ok" else f"base {speeds.number:,.6g}"
    return found, {"layout": short(order), "base": base}


def _first(sine: Tensor, cosine: Tensor) -> int:
    """Return which position row 0 stands for, if all pairs agree on one from 1 to 8; else 0."""
    if (sine**2 + cosine**2 - 1).abs().max() > 1e-3 or len(sine) < 2:
        return 0
    start = torch.atan2(sine[0], cosine[0])
    step = torch.atan2(sine[1], cosine[1]) - start
    return next((k for k in range(9) if wrapped(k * step - start).abs().max() < 1e-2), 0)


def _waves(sine: Tensor, cosine: Tensor, told: _Told) -> list[Finding]:
    """Return the findings on norms, products of rows and speeds."""
    norm, half = sine**2 + cosine**2, sine.shape[1]
    if (norm - 1).abs().max() > 1e-3:
        return [_torn(sine, cosine)]
    whole = ok(f"every row has the squared length d/2 = {half}", float(norm.sum(-1).mean()))
    step = torch.atan2(sine[1], cosine[1]) - torch.atan2(sine[0], cosine[0])
    speeds = _speeds(wrapped(step), told)
    if speeds.id in ("exponent-inverted", "exponent-rising"):  # angles are too large for their own rounding
        return [_named("norm", whole), speeds]
    return [_named("norm", whole), _products(sine @ sine.T + cosine @ cosine.T), speeds]


def _torn(sine: Tensor, cosine: Tensor) -> Finding:
    """Say why sine and cosine of a pair do not lie on a circle."""
    total = (sine**2 + cosine**2).sum(-1)
    for number, part, name in ((0.0, sine, "sines"), (1.0, cosine, "cosines")):
        still = int(((part - number).abs() < 1e-6).all(0).sum())
        if still > part.shape[1] // 2:
            words = (
                f"{still} of {part.shape[1]} {name} are {number:g} in every row: they are never written, or overwritten"
            )
            return _named("norm", wrong("order-broken", words, still))
    ratio = float(torch.acos(cosine[1, 0].clamp(-1, 1)) / torch.asin(sine[1, 0].clamp(-1, 1)))
    words = (
        f"squared lengths of rows run from {float(total.min()):.4g} to {float(total.max()):.4g} in place of "
        f"d/2 = {sine.shape[1]}"
    )
    if not math.isfinite(ratio) or abs(abs(ratio) - 1) < 1e-3:
        return _named("norm", wrong("crossed", f"{words}: sine and cosine of a pair do not belong to one angle", ratio))
    words += (
        f": the cosine of the first pair moves {ratio:.3g} times as fast as its sine. "
        "Sine and cosine of a pair share one exponent, 2i/d for both, not 2(i+1)/d for the cosine"
    )
    return _named("norm", wrong("crossed", words, ratio))


def _products(products: Tensor) -> Finding:
    along = [products.diagonal(step) for step in (1, 3, 10, 40) if step < len(products) - 1]
    uneven = max(float(numbers.max() - numbers.min()) for numbers in along)
    if uneven < 1e-2:
        return _named("products", ok("the product of two rows depends on their distance only", uneven))
    words = (
        f"the product of two rows at one distance varies by {uneven:.2g}: "
        "angles do not grow as position times a speed (rounded positions?)"
    )
    return _named("products", wrong("not-linear-in-position", words, uneven))


def _speeds(theta: Tensor, known: _Told) -> Finding:
    told = known.base
    theta = theta / theta[0] if known.by_first and theta[0] else theta
    name, base, factor, _ = fit(theta)
    n, still = len(theta), int((theta.abs() < 1e-6).sum())
    step = float(theta[1] / theta[0]) if n > 1 and theta[0] else 0.0
    top, low = float(theta.abs().max()), float(theta.abs().min())
    if name == "inverted":
        top = base ** ((n - 1) / n)
    elif 2 * still > n and theta[1] == 0:
        name = "still"
    elif name in ("regular", "late", "linear") and (base > 1e9 or abs(step * math.e**2 - 1) < 1e-4):
        name = "steep"
    elif n > 2 and low and _ends_at(theta, told or 1e4):
        name, base = "tensor2tensor", 1 / low
    elif name == "irregular" and mostly_one(theta):
        name = "flat"
    elif name == "regular":
        name = "regular" if any(abs(one / base - 1) < 1e-3 for one in known.of_axes) else _suspect(base, told)
    elif name in ("rising", "fast") and known.learned:
        name = "irregular"
    verdict, words = WORDS.get(name, WORDS["irregular"])
    words = words.format(base=base, n=n, still=still, top=top, low=low, step=step, times=1 / factor)
    numbers = {"still": still, "steep": base, "regular": base, "linear": base, "tensor2tensor": base}
    number = numbers.get(name, top)
    return _named("speeds", wrong(verdict, words, number) if isinstance(verdict, str) else verdict(words, number))


def _ends_at(theta: Tensor, base: float) -> bool:
    n = len(theta)
    ideal = base ** (-torch.arange(n, dtype=torch.float64) / (n - 1))
    return bool((theta / ideal - 1).abs().max() < 1e-2)


def _suspect(base: float, told: float | None) -> str:
    if base < 1.5:
        return "flat"
    if told is not None and abs(told / base - 1) < 1e-3:
        return "regular"
    for usual in (told or 1e4, 1e4):
        if abs(base / usual**0.5 - 1) < 1e-3:
            return "root"
        if abs(base / usual**2 - 1) < 1e-3:
            return "square"
    return "regular"
