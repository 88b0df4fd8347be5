"""Read sines and cosines off a table: their order, whether each pair shares one speed, and how speeds fall.

Row 0 of a sinusoidal table is 0 in every sine and 1 in every cosine, which gives away the order.
"""

import math

import torch
from torch import Tensor

from posenc.checkup.reading import speeds
from posenc.checkup.report import Finding

WORDS = {
    "inverted": (
        "wrong",
        "the fastest pair turns by {top:,.0f} rad a token in place of 1: positions are divided by base^(-2i/d), so the "
        "exponent is inverted. Multiply by it",
    ),
    "rising": (
        "wrong",
        "speeds do not fall from 1 rad a token, the fastest seen is {top:.3g}: look at the sign and the brackets of "
        "the "
        "exponent",
    ),
    "still": ("wrong", "{still} of {n} pairs stand still: an integer division makes their speeds 0"),
    "steep": (
        "wrong",
        "speeds fall to {step:.3g} from one pair to the next, a base of {base:.1e}, and {still} of {n} pairs stand "
        "still: "
        "an operator binds otherwise than meant, as in -log(10000)/d//2, which is (-log(10000)/d)//2. Put brackets "
        "around d//2",
    ),
    "tensor2tensor": ("ok", "from 1 rad a token down to 1/10,000, spread over d/2 - 1 steps (tensor2tensor)"),
    "regular": ("ok", "from 1 rad a token down to {low:.3g}: base {base:,.6g}"),
    "linear": ("note", "base {base:,.6g}, and positions are multiplied by {times:.3g}"),
    "irregular": ("note", "no base fits; from {top:.3g} down to {low:.3g} rad a token"),
}


def orders(dim: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the channels of sines and of cosines in each usual order."""
    every, half = torch.arange(dim), dim // 2
    return {
        "interleaved (sin cos sin cos, as in the paper)": (every[0::2][:half], every[1::2]),
        "split (all sines, then all cosines)": (every[:half], every[half : 2 * half]),
        "interleaved, cosines first": (every[1::2], every[0::2][:half]),
        "split, cosines first": (every[half : 2 * half], every[:half]),
    }


def speeds_of_table(table: Tensor) -> list[Finding]:
    """Return what can be said of the first rows (t, d), if they are sines and cosines."""
    dim = table.shape[-1]
    for name, (sines, cosines) in orders(dim).items():
        for shifted in (0, 1):
            sine, cosine = table[:, sines], table[:, cosines]
            start = torch.atan2(sine[0], cosine[0])
            fits = sine[0].abs().max() < 1e-6 and (cosine[0] - 1).abs().max() < 1e-6
            if shifted:
                fits = (sine**2 + cosine**2 - 1).abs().max() < 1e-3 and far_from_zero(start, sine, cosine)
            if fits:
                return _waves(name, sine, cosine, shifted)
    return [
        Finding(
            "waves",
            "note",
            "row 0 is not 0 in sines and 1 in cosines: a learned table, or another encoding; speeds are not read",
        )
    ]


def far_from_zero(start: Tensor, sine: Tensor, cosine: Tensor) -> bool:
    """Tell whether row 0 is that of position 1: it stands as far from 0 as row 1 from row 0."""
    step = torch.atan2(sine[1], cosine[1]) - start
    return bool((torch.remainder(step - start + math.pi, 2 * math.pi) - math.pi).abs().max() < 1e-3)


def _waves(name: str, sine: Tensor, cosine: Tensor, shifted: int) -> list[Finding]:
    found = [Finding("order", "ok", name)]
    if shifted:
        found = [Finding("order", "note", f"{name}; the first row is that of position 1, not 0")]
    norm, half = sine**2 + cosine**2, sine.shape[1]
    if (norm - 1).abs().max() > 1e-3:
        return [*found, _torn(sine, cosine)]
    found.append(Finding("norm", "ok", f"every row has the squared length d/2 = {half}", float(norm.sum(-1).mean())))
    turned = torch.atan2(sine[1], cosine[1]) - torch.atan2(sine[0], cosine[0])
    return [*found, _products(sine @ sine.T + cosine @ cosine.T), _speeds(turned)]


def _products(products: Tensor) -> Finding:
    along = [products.diagonal(step) for step in (1, 3, 10, 40) if step < len(products) - 1]
    uneven = max(float(numbers.max() - numbers.min()) for numbers in along)
    if uneven < 1e-2:
        return Finding("products", "ok", "the product of two rows depends on their distance only", uneven)
    words = (
        f"the product of two rows at one distance varies by {uneven:.2g}: angles do not grow as position times a speed"
    )
    return Finding("products", "wrong", f"{words} (rounded positions?)", uneven)


def _torn(sine: Tensor, cosine: Tensor) -> Finding:
    total = (sine**2 + cosine**2).sum(-1)
    w, v = torch.asin(sine[1].clamp(-1, 1)), torch.acos(cosine[1].clamp(-1, 1))
    ratio = float(v[0] / w[0])
    return Finding(
        "norm",
        "wrong",
        f"squared lengths of rows run from {float(total.min()):.4g} to {float(total.max()):.4g} in "
        f"place of d/2 = {sine.shape[1]}: the cosine of the first pair moves {ratio:.3g} times as fast as its sine. "
        "Sine and cosine of a pair share one exponent, 2i/d for both, not 2(i+1)/d for the cosine",
        ratio,
    )


def _speeds(theta: Tensor) -> Finding:
    theta = torch.remainder(theta + math.pi, 2 * math.pi) - math.pi
    name, base, factor, _ = speeds(theta)
    n, still = len(theta), int((theta.abs() < 1e-6).sum())
    told = {"base": base, "n": n, "still": still, "top": float(theta.abs().max()), "low": float(theta.abs().min())}
    told |= {"times": 1 / factor, "step": float(theta[1] / theta[0]) if n > 1 and theta[0] else 0.0}
    steps = torch.arange(n, dtype=torch.float64) / max(n - 1, 1)
    if name == "inverted":
        told["top"] = base ** ((n - 1) / n)
    elif 2 * still > n and theta[1] == 0:
        name = "still"
    elif name in ("regular", "late", "linear") and (base > 1e9 or abs(told["step"] * math.e**2 - 1) < 1e-4):
        name = "steep"
    elif n > 2 and (theta / 1e4 ** (-steps) - 1).abs().max() < 1e-2:
        name = "tensor2tensor"
    verdict, words = WORDS["rising" if name == "fast" else name if name in WORDS else "irregular"]
    number = told["still" if name == "still" else "base" if name in ("steep", "regular", "linear") else "top"]
    return Finding("speeds", verdict, words.format(**told), number)
