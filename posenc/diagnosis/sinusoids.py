"""Read sines and cosines off a table: their order, whether each pair shares one speed, and how speeds fall.

Row 0 of a sinusoidal table is 0 in every sine and 1 in every cosine, which gives away the order.
"""

import math

import torch
from torch import Tensor

from posenc.diagnosis.frequencies import fit
from posenc.diagnosis.report import Finding, note, ok, wrong

RISING = (
    "speeds do not fall from 1 rad a token, the fastest seen is {top:.3g}: "
    "look at the sign and the brackets of the exponent"
)
WORDS = {  # by what fits
    "inverted": (
        wrong,
        "the fastest pair turns by {top:,.0f} rad a token in place of 1: positions are divided by base^(-2i/d), "
        "so the exponent is inverted. Multiply by it",
    ),
    "rising": (wrong, RISING),
    "fast": (wrong, RISING),
    "still": (wrong, "{still} of {n} pairs stand still: an integer division makes their speeds 0"),
    "steep": (
        wrong,
        "speeds fall to {step:.3g} from one pair to the next, a base of {base:.1e}, and {still} of {n} pairs stand "
        "still: an operator binds otherwise than meant, as in -log(10000)/d//2, which is (-log(10000)/d)//2. "
        "Put brackets around d//2",
    ),
    "tensor2tensor": (ok, "from 1 rad a token down to 1/10,000, spread over d/2 - 1 steps (tensor2tensor)"),
    "regular": (ok, "from 1 rad a token down to {low:.3g}: base {base:,.6g}"),
    "linear": (note, "base {base:,.6g}, and positions are multiplied by {times:.3g}"),
    "irregular": (note, "no base fits; from {top:.3g} down to {low:.3g} rad a token"),
}


def sinusoids(table: Tensor) -> list[Finding]:
    """Return what can be said of the first rows (t, d), if they are sines and cosines."""
    for order, (sines, cosines) in orders(table.shape[-1]).items():
        sine, cosine = table[:, sines], table[:, cosines]
        if sine[0].abs().max() < 1e-6 and (cosine[0] - 1).abs().max() < 1e-6:
            return [Finding("order", "ok", order), *_waves(sine, cosine)]
        if _from_one(sine, cosine):
            words = f"{order}; the first row is that of position 1, not 0"
            return [Finding("order", "note", words), *_waves(sine, cosine)]
    words = "row 0 is not 0 in sines and 1 in cosines: a learned table, or another encoding; speeds are not read"
    return [Finding("waves", "note", words)]


def orders(dim: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the channels of sines and of cosines in each usual order."""
    every, half = torch.arange(dim), dim // 2
    return {
        "interleaved (sin cos sin cos, as in the paper)": (every[0::2][:half], every[1::2]),
        "split (all sines, then all cosines)": (every[:half], every[half : 2 * half]),
        "interleaved, cosines first": (every[1::2], every[0::2][:half]),
        "split, cosines first": (every[half : 2 * half], every[:half]),
    }


def _from_one(sine: Tensor, cosine: Tensor) -> bool:
    """Tell whether row 0 is that of position 1: it stands as far from 0 as row 1 from row 0."""
    start = torch.atan2(sine[0], cosine[0])
    step = torch.atan2(sine[1], cosine[1]) - start
    on_circles = (sine**2 + cosine**2 - 1).abs().max() < 1e-3
    return bool(on_circles and _wrapped(step - start).abs().max() < 1e-3)


def _wrapped(angle: Tensor) -> Tensor:
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def _waves(sine: Tensor, cosine: Tensor) -> list[Finding]:
    """Return the findings on norms, products of rows and speeds."""
    norm, half = sine**2 + cosine**2, sine.shape[1]
    if (norm - 1).abs().max() > 1e-3:
        return [_torn(sine, cosine)]
    whole = Finding("norm", "ok", f"every row has the squared length d/2 = {half}", float(norm.sum(-1).mean()))
    step = torch.atan2(sine[1], cosine[1]) - torch.atan2(sine[0], cosine[0])
    return [whole, _products(sine @ sine.T + cosine @ cosine.T), _speeds(_wrapped(step))]


def _torn(sine: Tensor, cosine: Tensor) -> Finding:
    total = (sine**2 + cosine**2).sum(-1)
    ratio = float(torch.acos(cosine[1, 0].clamp(-1, 1)) / torch.asin(sine[1, 0].clamp(-1, 1)))
    words = (
        f"squared lengths of rows run from {float(total.min()):.4g} to {float(total.max()):.4g} in place of "
        f"d/2 = {sine.shape[1]}: the cosine of the first pair moves {ratio:.3g} times as fast as its sine. "
        "Sine and cosine of a pair share one exponent, 2i/d for both, not 2(i+1)/d for the cosine"
    )
    return Finding("norm", "wrong", words, ratio)


def _products(products: Tensor) -> Finding:
    along = [products.diagonal(step) for step in (1, 3, 10, 40) if step < len(products) - 1]
    uneven = max(float(numbers.max() - numbers.min()) for numbers in along)
    if uneven < 1e-2:
        return Finding("products", "ok", "the product of two rows depends on their distance only", uneven)
    words = (
        f"the product of two rows at one distance varies by {uneven:.2g}: "
        "angles do not grow as position times a speed (rounded positions?)"
    )
    return Finding("products", "wrong", words, uneven)


def _speeds(theta: Tensor) -> Finding:
    name, base, factor, _ = fit(theta)
    n, still = len(theta), int((theta.abs() < 1e-6).sum())
    step = float(theta[1] / theta[0]) if n > 1 and theta[0] else 0.0
    top, low = float(theta.abs().max()), float(theta.abs().min())
    tensor2tensor = 1e4 ** (-torch.arange(n, dtype=torch.float64) / max(n - 1, 1))
    if name == "inverted":
        top = base ** ((n - 1) / n)
    elif 2 * still > n and theta[1] == 0:
        name = "still"
    elif name in ("regular", "late", "linear") and (base > 1e9 or abs(step * math.e**2 - 1) < 1e-4):
        name = "steep"
    elif n > 2 and (theta / tensor2tensor - 1).abs().max() < 1e-2:
        name = "tensor2tensor"
    verdict, words = WORDS.get(name, WORDS["irregular"])
    words = words.format(base=base, n=n, still=still, top=top, low=low, step=step, times=1 / factor)
    number = {"still": still, "steep": base, "regular": base, "linear": base}.get(name, top)
    return verdict(words, number)._replace(check="speeds")
