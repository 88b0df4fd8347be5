"""Read sines and cosines off the rows of a table: their order, the frequency of each pair, and the rule behind these.

Row 0 of a sinusoidal table is 0 in every sine and 1 in every cosine, which shows the order of the channels.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.call.code import Code
from posenc.doctor.call.declared import declared_base, declared_bases_of_axes
from posenc.doctor.numerics import worst, wrap_angle
from posenc.doctor.report import Finding, note, passed, run_checks, with_check_name, wrong
from posenc.doctor.rotation.fit_frequencies import Fit, fit, mostly_one, near
from posenc.doctor.table.measure import EQUAL, grows_linearly

USUAL_BASE = 10_000.0  # of the paper
CAUSES = {"rising": "exponent-rising", "fast": "exponent-rising", "late": "exponent-shifted"}  # by the name of a fit
SENTENCES = {  # by rule, which is the cause where it is wrong; what is in no other case is irregular
    "exponent-inverted": "the highest frequency is {highest:,.0f} rad per token in place of 1: positions are divided "
    "by base^(-2i/d), so the exponent is inverted. Multiply by it",
    "exponent-rising": "frequencies do not fall from 1 rad per token, the highest seen is {highest:.3g}: check the "
    "sign and the brackets of the exponent",
    "exponent-flat": "frequencies do not fall: {zeros} of {n} are 0, the highest is {highest:.3g} rad per token. Does "
    "an integer division make the exponent or the frequency 0?",
    "exponent-precedence": "frequencies fall as for a base of {base:.1e}, and {zeros} of {n} are 0: an operator binds "
    "otherwise than meant, as in -log(10000)/d//2, which is (-log(10000)/d)//2. Put brackets around d//2",
    "exponent-halved": "base {base:.4g} fits, a square root: the exponent is i/d in place of 2i/d. Count channels by 2",
    "exponent-doubled": "base {base:,.4g} fits, a square: the exponent is 4i/d, not 2i/d. Does i count channels?",
    "exponent-shifted": "base {base:,.6g}, but the first frequency is {highest:.4g}, not 1: the index counts from 1",
    "tensor2tensor": "frequencies fall from 1 rad per token to 1/{base:,.6g} in d/2 - 1 steps (tensor2tensor)",
    "regular": "frequencies fall from 1 rad per token to {lowest:.3g}: base {base:,.6g}",
    "linear": "base {base:,.6g}, and positions are multiplied by {times:.3g}",
    "irregular": "no base fits the frequencies, which lie between {highest:.3g} and {lowest:.3g} rad per token",
}


@dataclass(frozen=True)
class Sinusoids:
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

    @cached_property
    def frequencies(self) -> Tensor:
        """The frequency (n,) of each pair, radians per token modulo a turn."""
        angle = torch.atan2(self.sine[:2], self.cosine[:2])  # (2, n)
        theta = wrap_angle(angle[1] - angle[0])  # (n,)
        if self.is_relative and theta[0] != 0:
            return theta / theta[0]
        return theta

    @cached_property
    def fit(self) -> Fit:
        """What fits the frequencies."""
        return fit(self.frequencies)

    @cached_property
    def rule(self) -> str:
        """The name of the rule that the frequencies follow; one that is not in SENTENCES is irregular."""
        theta = self.frequencies
        n = len(theta)
        base = declared_base(self.code)
        bases = [] if base is None else [base]
        bases += declared_bases_of_axes(self.code).values()
        if self.fit.name == "inverted":
            return "exponent-inverted"
        if self.fit.name != "single" and not theta[1:].any():
            return "exponent-flat"
        # -log(10000)/d//2 is -1 from a width of 10 on: base e^(2n), whatever the width.
        if self.fit.base > 10**9 or near(self.fit.base, math.exp(2 * n)):
            return "exponent-precedence"
        # These two come before what fits: theirs are the frequencies of base^(n/(n-1)), and of base 1.
        if _ends_at_base(theta, max(bases, default=USUAL_BASE)):
            return "tensor2tensor"
        if mostly_one(theta):
            return "exponent-flat"
        if self.fit.name == "regular":
            return _rule_of_base(self.fit.base, bases)
        # Frequencies that are learned follow no rule, and none is broken by them.
        if any(parameter.numel() >= n for parameter in self.code.learned_parameters.values()):
            return "irregular"
        return CAUSES.get(self.fit.name, self.fit.name)


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
    base = base_of(findings)
    layout = sinusoids.order.partition(" (")[0]
    return findings, {"layout": layout, "base": f"base {base:,.6g}" if base else ""}


def base_of(findings: list[Finding]) -> float | None:
    """Return the base that was read, None where none fits."""
    bases = [finding.number for finding in findings if finding.check == "speeds" and finding.verdict == "ok"]
    return bases[0] if bases else None


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
            sine, cosine = sine / amplitude, cosine / amplitude  # (t, n)
            return Sinusoids(code, order, sine, cosine, amplitude, 0, follows_zeros, is_relative)
        first_position = _first_position(sine, cosine)
        if first_position:
            return Sinusoids(code, order, sine, cosine, 1.0, first_position, follows_zeros, is_relative)
    return None


def _are_on_circles(sine: Tensor, cosine: Tensor) -> bool:
    return worst((sine**2 + cosine**2 - 1).abs()) < 1e-3


def _first_position(sine: Tensor, cosine: Tensor) -> int:
    """Return the position of row 0, if all pairs agree on one from 1 to 8; else 0."""
    if not _are_on_circles(sine, cosine):
        return 0
    angle = torch.atan2(sine[:2], cosine[:2])  # (2, n)
    theta = angle[1] - angle[0]  # (n,)
    for position in range(1, 9):
        # With more positions to try, random angles would soon fit one.
        if wrap_angle(position * theta - angle[0]).abs().max() < 1e-2:
            return position
    return 0


def first_row(sinusoids: Sinusoids) -> Finding | None:
    """Check what comes after a row of zeros, as padding has."""
    if not sinusoids.follows_zeros:
        return None
    if sinusoids.first_position or sinusoids.code.takes("positions"):
        return note("row 0 is zeros, as of a padding: count positions from 1")
    return wrong("positions-shifted", "row 0 is zeros, as of a padding, and row 1 that of position 0", -1)


def order(sinusoids: Sinusoids) -> Finding:
    """Tell the order of sines and cosines, and from which position rows are counted."""
    first = sinusoids.first_position
    if first == 0:
        return passed(sinusoids.order)
    return note(f"{sinusoids.order}; row 0 is of position {first}: right only for weights trained with it", first)


def size(sinusoids: Sinusoids) -> Finding | None:
    """Check that sines and cosines run from -1 to 1."""
    amplitude = sinusoids.amplitude
    d = 2 * sinusoids.sine.shape[1]
    if near(amplitude, 1):
        return None
    if near(amplitude, 1 / d):
        return wrong("scale-twice", f"every number is divided by the width, {d}: leave that out", amplitude)
    return note(f"every number is multiplied by {amplitude:.4g}", amplitude)


def norm(sinusoids: Sinusoids) -> Finding:
    """Check that each pair is the sine and the cosine of one angle."""
    n = sinusoids.sine.shape[1]
    if _are_on_circles(sinusoids.sine, sinusoids.cosine):
        return passed(f"every row has the squared length d/2 = {n}", n)
    for value, part, name in ((0, sinusoids.sine, "sines"), (1, sinusoids.cosine, "cosines")):
        # A few low frequencies hardly leave 0 or 1 in the rows that were measured.
        constant = int(((part - value).abs() < EQUAL).all(0).sum())
        if constant > n // 2:
            message = f"{constant} of {n} {name} are {value} in every row: they are never written, or overwritten"
            return wrong("order-broken", message, constant)
    lengths = (sinusoids.sine**2 + sinusoids.cosine**2).sum(-1)  # (t,)
    shortest, longest = float(lengths.min()), float(lengths.max())
    message = f"squared lengths of rows lie between {shortest:.4g} and {longest:.4g} in place of d/2 = {n}"
    remedy = "Use one exponent for the sine and the cosine of a pair, 2i/d, not 2(i+1)/d for the cosine"
    return wrong("crossed", f"{message}. {remedy}", longest)


def products(sinusoids: Sinusoids) -> Finding | None:
    """Check that angles grow linearly, so that the product of two rows depends on their offset alone."""
    # Angles of frequencies far above 1 are too large for their own rounding.
    if sinusoids.rule in ("exponent-inverted", "exponent-rising"):
        return None
    sine, cosine = sinusoids.sine, sinusoids.cosine  # (t, n)
    # sin a sin b + cos a cos b = cos(a - b), summed over pairs.
    product = sine @ sine.T + cosine @ cosine.T  # (t, t)
    position = torch.arange(len(product))
    offset = (position[:, None] - position).abs()  # (t, t)
    difference = worst((product - product[0, offset]).abs())
    if difference < 1e-2:
        return passed("the product of two rows depends on their offset only", difference)
    message = f"the product of two rows at one offset varies by {difference:.2g}: the angle is not position x frequency"
    return wrong("not-linear-in-position", f"{message}. Are positions rounded?", difference)


def speeds(sinusoids: Sinusoids) -> Finding:
    """Check that frequencies follow a base."""
    theta = sinusoids.frequencies.abs()  # (n,)
    rule = sinusoids.rule
    n = len(theta)
    lowest, highest = float(theta.min()), float(theta.max())
    base = sinusoids.fit.base
    # Angles were read modulo a turn, which hides frequencies above it.
    if rule == "exponent-inverted":
        highest = base ** ((n - 1) / n)
    elif rule == "tensor2tensor":
        base = 1 / lowest
    zeros = int((theta < EQUAL).sum())
    sentence = SENTENCES.get(rule, SENTENCES["irregular"]).format(
        base=base, times=1 / sinusoids.fit.factor, lowest=lowest, highest=highest, zeros=zeros, n=n
    )
    if rule in ("regular", "tensor2tensor"):
        return passed(sentence, base)
    number = {"exponent-flat": zeros or highest, "exponent-precedence": base, "linear": base}.get(rule, highest)
    return wrong(rule, sentence, number) if rule.startswith("exponent") else note(sentence, number)


def _ends_at_base(theta: Tensor, base: float) -> bool:
    """Return whether frequencies fall in even steps to 1 over the base, in the last of them."""
    n = len(theta)
    ideal = base ** (-torch.arange(n, dtype=torch.float64) / (n - 1))  # (n,)
    return worst((theta / ideal - 1).abs()) < 1e-2


def _rule_of_base(base: float, declared: list[float]) -> str:
    """Tell the declared base, or the usual one, from its root and its square."""
    if any(near(base, number) for number in declared):
        return "regular"
    # An exponent of i/d in place of 2i/d is that of the root of the base, and 4i/d that of its square.
    for number in (*declared, USUAL_BASE):
        if near(base, number**0.5):
            return "exponent-halved"
        if near(base, number**2):
            return "exponent-doubled"
    return "regular"


# Rows without a known order


def waves(rows: Tensor) -> Finding:
    """Tell what rows are that do not begin with 0 in sines and 1 in cosines."""
    # Few rows show whether channels are waves, before the rounding of large angles disturbs them.
    finding = equal_channels(rows) or _unordered_waves(rows[:32])
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
    # In row 0 a sine is 0 and a cosine is 1: all channels are one or the other, in no usual order.
    zeros, ones = (int(((rows[0] - value).abs() < EQUAL).sum()) for value in (0, 1))
    if zeros + ones == len(theta):
        message = f"{zeros} sines and {ones} cosines: one of the two is missing, or they are neither beside each other"
        return wrong("order-broken", f"{message} nor in two halves", zeros)
    pairs = pairings(rows.shape[1])
    # Sines and cosines that begin at any position, as random features do, are sound.
    if any(_are_on_circles(rows[:, first], rows[:, second]) for first, second in pairs.values()):
        return None
    for layout, (first, second) in pairs.items():
        # One frequency for all channels would agree in any order.
        if (theta[first] - theta[second]).abs().max() < 1e-2 and theta.max() - theta.min() > 0.1:
            message = f"the channels of a pair ({layout}) share a frequency and are no sine and cosine of one angle"
            return wrong("order-broken", f"{message}: rows or halves are mixed")
    # The first channels suffice: low frequencies are read too coarsely to tell which is the lower.
    if (theta[:6].diff() < -1e-3 * theta[0]).all():
        message = "every channel has a frequency of its own, and they fall from one to the next"
        remedy = "Use one exponent for sine and cosine of a pair: floor the channel's number, 2 * (i // 2)"
        return wrong("crossed", f"{message}. {remedy}")
    return None


def _frequencies_of_channels(rows: Tensor) -> Tensor | None:
    """Return the frequency (d,) of each channel if all are waves, else None.

    Of a wave, the sum of the two numbers beside one is 2 cos(frequency) times that one.
    """
    middle = rows[1:-1]  # (t-2, d)
    around = rows[2:] + rows[:-2]  # (t-2, d)
    twice_cosine = (around * middle).sum(0) / (middle * middle).sum(0).clamp(min=1e-12)  # (d,)
    are_waves = worst((around - twice_cosine * middle).abs()) <= 1e-3 and twice_cosine.abs().max() <= 2 + 1e-6
    if not are_waves or grows_linearly(rows):
        return None
    return torch.acos((twice_cosine / 2).clamp(-1, 1))
