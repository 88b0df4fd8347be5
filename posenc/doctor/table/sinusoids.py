"""Read sines and cosines off the rows of a table: their order, the frequency of each pair, and the rule behind these.

Row 0 of a sinusoidal table is 0 in every sine and 1 in every cosine, which shows the order of the channels.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.call.code import Code
from posenc.doctor.call.declared import declared_base, declared_bases_of_axes
from posenc.doctor.numerics import worst, wrap_angle
from posenc.doctor.report import Finding, note, passed, run_checks, with_check_name, wrong
from posenc.doctor.rotation.fit_frequencies import fit, mostly_one, near
from posenc.doctor.table.measure import EQUAL, grows_linearly

USUAL_BASE = 10_000.0  # of the paper
ON_CIRCLE = 1e-3  # how far sine² + cosine² may be from 1
FEW = 32  # rows that show whether channels are waves
CAUSES = {  # of the rules that frequencies follow where they are wrong
    "inverted": "exponent-inverted",
    "rising": "exponent-rising",
    "fast": "exponent-rising",
    "still": "exponent-flat",
    "flat": "exponent-flat",
    "steep": "exponent-precedence",
    "root": "exponent-halved",
    "square": "exponent-doubled",
    "late": "exponent-shifted",
}
RISING = (
    "frequencies do not fall from 1 rad per token, the highest seen is {highest:.3g}: "
    "check the sign and the brackets of the exponent"
)
SENTENCES = {  # by rule; what is in no other case is irregular
    "inverted": "the highest frequency is {highest:,.0f} rad per token in place of 1: positions are divided by "
    "base^(-2i/d), so the exponent is inverted. Multiply by it",
    "rising": RISING,
    "fast": RISING,
    "still": "{zeros} of {n} frequencies are 0: an integer division makes the exponent or the frequency 0",
    "flat": "all frequencies are {highest:.3g} rad per token: the exponent is 0 for each. An integer division in it?",
    "steep": "frequencies fall as for a base of {base:.1e}, and {zeros} of {n} are 0: an operator binds otherwise than "
    "meant, as in -log(10000)/d//2, which is (-log(10000)/d)//2. Put brackets around d//2",
    "root": "base {base:.4g} fits, a square root: the exponent is i/d in place of 2i/d. Count channels, 0, 2, 4 ...",
    "square": "base {base:,.4g} fits, a square: the exponent is 4i/d in place of 2i/d. Does the index count channels?",
    "late": "base {base:,.6g}, but the first frequency is {highest:.4g}, not 1: the index counts from 1",
    "tensor2tensor": "frequencies fall from 1 rad per token to 1/{base:,.6g} in d/2 - 1 steps (tensor2tensor)",
    "regular": "frequencies fall from 1 rad per token to {lowest:.3g}: base {base:,.6g}",
    "linear": "base {base:,.6g}, and positions are multiplied by {times:.3g}",
    "irregular": "no base fits the frequencies, which lie between {highest:.3g} and {lowest:.3g} rad per token",
}


class Sinusoids(NamedTuple):
    """Sines and cosines (t, n) of a table whose channels are in one of the usual orders.

    `amplitude` is what they were multiplied by, `first_position` that of the first row, which may follow a row of
    zeros. Where positions are fractions of something, frequencies count by their ratios alone (`is_relative`).
    """

    code: Code
    order: str
    sine: Tensor
    cosine: Tensor
    amplitude: float
    first_position: int
    follows_zeros: bool
    is_relative: bool

    @property
    def frequencies(self) -> Tensor:
        """The frequency (n,) of each pair, radians per token modulo a turn."""
        theta = wrap_angle(torch.atan2(self.sine[1], self.cosine[1]) - torch.atan2(self.sine[0], self.cosine[0]))
        if self.is_relative and theta[0] != 0:
            return theta / theta[0]
        return theta


def examine_sinusoids(rows: Tensor, code: Code, is_relative: bool = False) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on the first rows (t, d) as sines and cosines, and what was examined: layout and base."""
    if rows.shape[1] < 2:
        return [], {}
    sinusoids = read_sinusoids(rows, code, is_relative)
    if sinusoids is None:
        return run_checks((waves,), rows), {}
    findings = run_checks((first_row, order, size, norm), sinusoids)
    if not findings[-1].is_wrong:  # else pairs have no one angle
        findings += run_checks((products, speeds), sinusoids)
    bases = [finding.number for finding in findings if finding.check == "speeds" and finding.verdict == "ok"]
    base = f"base {bases[0]:,.6g}" if bases else ""
    return findings, {"layout": sinusoids.order.partition(" (")[0], "base": base}


def pairings(dim: int) -> dict[str, Tensor]:
    """Return the channels (2, d/2) of pairs in the two usual layouts."""
    channels = torch.arange(dim // 2 * 2)
    return {"interleaved": channels.view(-1, 2).T, "split": channels.view(2, -1)}


def read_sinusoids(rows: Tensor, code: Code, is_relative: bool = False) -> Sinusoids | None:
    """Return the sines and cosines of rows (t, d); None where the first row shows no order."""
    follows_zeros = not rows[0].any()
    if follows_zeros:
        rows = rows[1:]
    interleaved, split = pairings(rows.shape[1]).values()
    orders = {  # by name: the channels of sines, and of cosines
        "interleaved (sin cos sin cos, as in the paper)": interleaved,
        "split (all sines, then all cosines)": split,
        "interleaved, cosines first": interleaved.flip(0),
        "split, cosines first": split.flip(0),
    }
    for order, (sines, cosines) in orders.items():
        sine, cosine = rows[:, sines], rows[:, cosines]  # (t, n)
        amplitude = float(cosine[0].abs().max())
        if amplitude > EQUAL and sine[0].abs().max() < EQUAL and (cosine[0] / amplitude - 1).abs().max() < EQUAL:
            sine, cosine = sine / amplitude, cosine / amplitude
            return Sinusoids(code, order, sine, cosine, amplitude, 0, follows_zeros, is_relative)
        first_position = _first_position(sine, cosine)
        if first_position:
            return Sinusoids(code, order, sine, cosine, 1.0, first_position, follows_zeros, is_relative)
    return None


def _are_on_circles(sine: Tensor, cosine: Tensor) -> bool:
    return worst((sine**2 + cosine**2 - 1).abs()) < ON_CIRCLE


def _first_position(sine: Tensor, cosine: Tensor) -> int:
    """Return the position of row 0, if all pairs agree on one from 1 to 8; else 0."""
    if not _are_on_circles(sine, cosine):
        return 0
    angle = torch.atan2(sine[0], cosine[0])
    theta = torch.atan2(sine[1], cosine[1]) - angle
    for position in range(1, 9):
        if wrap_angle(position * theta - angle).abs().max() < 1e-2:
            return position
    return 0


def first_row(sinusoids: Sinusoids) -> Finding | None:
    """Check what comes after a row of zeros, as padding has."""
    if not sinusoids.follows_zeros:
        return None
    if sinusoids.first_position or sinusoids.code.takes("positions"):
        return note("row 0 is zeros, as of a padding: count positions from 1")
    message = "position 0 has a row of zeros, as of a padding, and position 1 the row of position 0: one is left out"
    return wrong("positions-shifted", message, -1)


def order(sinusoids: Sinusoids) -> Finding:
    """Tell the order of sines and cosines, and from which position rows are counted."""
    first = sinusoids.first_position
    if first == 0:
        return passed(sinusoids.order)
    message = f"{sinusoids.order}; the first row is that of position {first}, not 0"
    return note(f"{message}: right only for weights that were trained with it", first)


def size(sinusoids: Sinusoids) -> Finding | None:
    """Check that sines and cosines run from -1 to 1."""
    amplitude = sinusoids.amplitude
    d = 2 * sinusoids.sine.shape[1]
    if near(amplitude, 1):
        return None
    if near(amplitude, 1 / d):
        message = f"every number is divided by the width, {d}. Leave that out, or multiply embeddings by its root"
        return wrong("scale-twice", message, amplitude)
    return note(f"every number is multiplied by {amplitude:.4g}", amplitude)


def norm(sinusoids: Sinusoids) -> Finding:
    """Check that each pair is the sine and the cosine of one angle."""
    n = sinusoids.sine.shape[1]
    if _are_on_circles(sinusoids.sine, sinusoids.cosine):
        return passed(f"every row has the squared length d/2 = {n}", n)
    for value, part, name in ((0, sinusoids.sine, "sines"), (1, sinusoids.cosine, "cosines")):
        constant = int(((part - value).abs() < EQUAL).all(0).sum())
        if constant > n // 2:
            message = f"{constant} of {n} {name} are {value} in every row: they are never written, or overwritten"
            return wrong("order-broken", message, constant)
    lengths = (sinusoids.sine**2 + sinusoids.cosine**2).sum(-1)
    message = (
        f"squared lengths of rows lie between {float(lengths.min()):.4g} and {float(lengths.max()):.4g} in place of "
        f"d/2 = {n}: sine and cosine of a pair do not belong to one angle. "
        "Use one exponent for both, 2i/d, not 2(i+1)/d for the cosine"
    )
    return wrong("crossed", message, float(lengths.max()))


def products(sinusoids: Sinusoids) -> Finding | None:
    """Check that angles grow linearly, so that the product of two rows depends on their offset alone."""
    # Angles of frequencies far above 1 are too large for their own rounding.
    if _rule(sinusoids) in ("inverted", "rising", "fast"):
        return None
    sine, cosine = sinusoids.sine, sinusoids.cosine
    product = sine @ sine.T + cosine @ cosine.T  # (t, t)
    position = torch.arange(len(product))
    offset = (position[:, None] - position).abs()
    difference = worst((product - product[0, offset]).abs())
    if difference < 1e-2:
        return passed("the product of two rows depends on their offset only", difference)
    message = f"the product of two rows at one offset varies by {difference:.2g}: the angle is not position x frequency"
    return wrong("not-linear-in-position", f"{message}. Are positions rounded?", difference)


def speeds(sinusoids: Sinusoids) -> Finding:
    """Check that frequencies follow a base."""
    theta = sinusoids.frequencies
    fitted, n, rule = fit(theta), len(theta), _rule(sinusoids)
    lowest, highest = float(theta.abs().min()), float(theta.abs().max())
    base = fitted.base
    if rule == "inverted":  # angles were read modulo a turn
        highest = base ** ((n - 1) / n)
    elif rule == "tensor2tensor":
        base = 1 / lowest
    zeros = int((theta.abs() < EQUAL).sum())
    sentence = SENTENCES.get(rule, SENTENCES["irregular"]).format(
        base=base, times=1 / fitted.factor, lowest=lowest, highest=highest, zeros=zeros, n=n
    )
    if rule in ("regular", "tensor2tensor"):
        return passed(sentence, base)
    number = {"still": zeros, "steep": base, "linear": base}.get(rule, highest)
    return wrong(CAUSES[rule], sentence, number) if rule in CAUSES else note(sentence, number)


def _rule(sinusoids: Sinusoids) -> str:
    """Return the name of the rule that the frequencies follow; one that is not in SENTENCES is irregular."""
    theta = sinusoids.frequencies
    base = declared_base(sinusoids.code)
    bases = [] if base is None else [base]
    bases += declared_bases_of_axes(sinusoids.code).values()
    fitted, n = fit(theta), len(theta)
    if fitted.name == "inverted":
        return "inverted"
    if fitted.name != "single" and not theta[1:].any():
        return "still"
    # -log(10000)/d//2 is -1 from a width of 10 on: base e^(2n), whatever the width.
    if fitted.base > 10**9 or near(fitted.base, math.exp(2 * n)):
        return "steep"
    if _ends_at_base(theta, max(bases, default=USUAL_BASE)):
        return "tensor2tensor"
    if mostly_one(theta):
        return "flat"
    if fitted.name == "regular":
        return _rule_of_base(fitted.base, bases)
    learned = sinusoids.code.learned_parameters.values()
    if any(parameter.numel() >= n for parameter in learned):
        return "irregular"
    return fitted.name


def _ends_at_base(theta: Tensor, base: float) -> bool:
    """Tell whether frequencies fall in even steps to 1 over the base, in the last of them."""
    n = len(theta)
    ideal = base ** (-torch.arange(n, dtype=torch.float64) / (n - 1))
    return worst((theta / ideal - 1).abs()) < 1e-2


def _rule_of_base(base: float, declared: list[float]) -> str:
    """Tell the declared base, or the usual one, from its root and its square."""
    if any(near(base, number) for number in declared):
        return "regular"
    for number in (*declared, USUAL_BASE):
        if near(base, number**0.5):
            return "root"
        if near(base, number**2):
            return "square"
    return "regular"


# Rows without a known order


def waves(rows: Tensor) -> Finding:
    """Tell what rows are that do not begin with 0 in sines and 1 in cosines."""
    finding = equal_channels(rows) or _unordered_waves(rows[:FEW])
    if finding:
        return with_check_name(finding, "order")
    message = "row 0 is not 0 in sines and 1 in cosines: a learned table, or another encoding"
    return note(f"{message}; frequencies are not read")


def equal_channels(rows: Tensor) -> Finding | None:
    """Check that the two channels of each pair differ; those of plain angles may be equal."""
    if grows_linearly(rows):
        return None
    for layout, (first, second) in pairings(rows.shape[1]).items():
        if worst((rows[:, first] - rows[:, second]).abs()) < EQUAL:
            message = f"both channels of each pair ({layout}) hold the same numbers: one should be the sine of an angle"
            return wrong("order-broken", f"{message}, the other its cosine")
    return None


def _unordered_waves(rows: Tensor) -> Finding | None:
    """Check rows whose channels are all waves: some are sines and some cosines, and pairs share a frequency."""
    theta = _frequencies_of_channels(rows)
    if theta is None:
        return None
    zeros, ones = (int(((rows[0] - value).abs() < EQUAL).sum()) for value in (0, 1))
    if zeros + ones == len(theta):
        message = f"{zeros} sines and {ones} cosines: one of the two is missing, or they are neither beside each other"
        return wrong("order-broken", f"{message} nor in two halves", zeros)
    pairs = pairings(rows.shape[1])
    if any(_are_on_circles(rows[:, first], rows[:, second]) for first, second in pairs.values()):
        return None
    for layout, (first, second) in pairs.items():
        if (theta[first] - theta[second]).abs().max() < 1e-2 and theta.max() - theta.min() > 0.1:
            message = f"the channels of a pair ({layout}) share a frequency and are no sine and cosine of one angle"
            return wrong("order-broken", f"{message}: rows or halves are mixed")
    if (theta[:6].diff() < -1e-3 * theta[0]).all():
        message = "every channel has a frequency of its own, and they fall from one to the next"
        remedy = "Use one exponent for sine and cosine of a pair: floor the channel's number, 2 * (i // 2)"
        return wrong("crossed", f"{message}. {remedy}")
    return None


def _frequencies_of_channels(rows: Tensor) -> Tensor | None:
    """Return the frequency (d,) of each channel if all are waves, else None.

    Of a wave, the sum of the two numbers beside one is 2 cos(frequency) times that one.
    """
    middle = rows[1:-1]
    around = rows[2:] + rows[:-2]
    twice_cosine = (around * middle).sum(0) / (middle * middle).sum(0).clamp(min=1e-12)  # (d,)
    are_waves = worst((around - twice_cosine * middle).abs()) <= 1e-3 and twice_cosine.abs().max() <= 2 + 1e-6
    if not are_waves or grows_linearly(rows):
        return None
    return torch.acos((twice_cosine / 2).clamp(-1, 1))
