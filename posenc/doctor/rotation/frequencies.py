"""Check the frequencies of the pairs: the rule behind them, and whether base, factor and width take effect."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.call.code import POSITION_AXES
from posenc.doctor.call.declared import ROTARY_WIDTHS, declared_base, declared_number, rebuilt_with
from posenc.doctor.numerics import not_finite, random, relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.rotation.fit_frequencies import fit, mostly_one, near, yarn_factor
from posenc.doctor.rotation.measure import Rotation, RotationRecord, measure_pairs
from posenc.doctor.safe_call import attempt

USUAL_BASE, OTHER_BASE = 10_000, 500_000
TOLERANCE = 1e-6
ZERO = "nothing rotates at any position: all angles are 0. Look for an integer division, or positions that are not used"
RISING = "frequencies reach {largest:.3g} and do not fall from 1 as base^(-2i/r): check its sign and brackets"
ROOT = (
    "base {base:.4g} fits, the square root of {square:,.0f}: the exponent is i/r in place of 2i/r. Count pairs as "
    "0, 2, 4 ... over r, or 0, 1, 2 ... over r/2 (if {base:.4g} is meant, name it: base={base:.4g})"
)
WRONG = {  # by the rule that fits: the cause and the sentence; frequencies are in radians a position
    "inverted": ("exponent-inverted", "frequencies are {base:g}^(+2i/r), up to {inverted:,.0f}: an inverted exponent"),
    "rising": ("exponent-rising", RISING),
    "fast": ("exponent-rising", RISING),
    "flat": ("exponent-flat", "most frequencies are {largest:.3g}: look for an integer division in the exponent"),
    "late": ("exponent-shifted", "base {base:g}, and the first frequency is {largest:.4g}, not 1: count i from 0"),
    "early": ("exponent-shifted", "base {base:g}, and the first frequency is {largest:.4g}, not 1: i - 1 starts at -1"),
    "root": ("exponent-halved", ROOT),
    "square": ("exponent-doubled", "base {base:,.4g} fits, the square of {root:,.0f}: the exponent is 4i/r, not 2i/r"),
}
PASSED = {
    "regular": "base {base:,.6g}, frequencies from {largest:.3g} to {smallest:.3g} rad a token",
    "linear": "base {base:g}, positions divided by {factor:.4g} (linear scaling)",
    "by parts": "base {base:g}, low frequencies divided by {factor:.4g} and high ones not (YaRN or Llama 3)",
}
NOTED = {
    "single": "one pair alone, of frequency {largest:.3g} rad a token: no base can be fitted",
    "strange": "base {base:.4g} fits, which is below any in use: check the exponent",
    "irregular": "{n} frequencies from {largest:.3g} to {smallest:.3g} rad a token; no base fits",
}


def frequencies(record: RotationRecord) -> Finding | None:
    """Name the rule that the frequencies follow."""
    reading = record.reading
    theta = reading.theta.abs()  # (n,)
    fitted, base = record.fit, record.fit.base
    if reading.is_identity and record.of_keys.layout == "none":
        return wrong("still", ZERO, 0.0)
    # An axis has a part of the frequencies, from which no base can be told; inverted ones are too high on any axis.
    if reading.pairs and _has_axes(record) and fitted.name != "inverted":
        return _along_an_axis(theta[theta > 0])
    # Pairs that mix without rotating, of which `norm` tells, have no frequencies.
    if not reading.pairs or reading.pairs_disagree or fitted.name == "none":
        return None
    rule, largest = _rule(record, theta), float(theta.max())
    # The root or the square is the base that was meant where the exponent is halved or doubled.
    numbers = {"base": base, "square": base**2, "root": math.sqrt(base), "factor": fitted.factor, "n": len(theta)}
    numbers |= {"largest": largest, "smallest": float(theta.min()), "inverted": base ** (1 - 1 / len(theta))}
    if rule in WRONG:
        cause, sentence = WRONG[rule]
        return wrong(cause, sentence.format(**numbers), numbers["inverted"] if rule == "inverted" else largest)
    if rule in NOTED:
        return note(NOTED[rule].format(**numbers), largest)
    # Llama 3 scales by parts too, without a factor, so that this is no fault.
    missing = ""
    if rule == "by parts" and near(float(reading.gains.mean()), 1):
        missing = f"; if this is YaRN, its factor {yarn_factor(fitted.factor):.4f} is missing"
    return passed(PASSED[rule].format(**numbers) + missing, base)


def _rule(record: RotationRecord, theta: Tensor) -> str:
    """Return the rule that fits; a base whose root or square is usual is suspect where the code does not declare it."""
    rule = record.fit.name
    base = record.fit.base
    declared = declared_base(record.code)
    # An integer division leaves an exponent of 0 to all pairs, or to most of them.
    if mostly_one(theta):
        return "flat"
    # Whoever names the base that is measured means it, however small.
    if rule != "regular" or near(declared or 0, base):
        return rule
    expected = (declared or USUAL_BASE, USUAL_BASE, OTHER_BASE)
    if any(near(base**2, usual) for usual in expected):
        return "root"
    if any(near(base, usual**2) for usual in expected):
        return "square"
    return rule if base >= 10 else "strange"


def _has_axes(record: RotationRecord) -> bool:
    return bool(record.reading.columns) or record.code.call.positions_form in POSITION_AXES


def _along_an_axis(theta: Tensor) -> Finding:
    if not len(theta):
        return wrong("still", ZERO, 0.0)
    smallest, largest = float(theta.min()), float(theta.max())
    sentence = f"{len(theta)} pairs rotate along a row, with frequencies from {largest:.3g} to {smallest:.3g}"
    if len(theta) > 2 and near(smallest, largest):
        return wrong("exponent-flat", f"{sentence}: look for an integer division in the exponent", largest)
    return note(sentence, largest)


def _results_with(
    record: RotationRecord, role: str, numbers: tuple[int, int], measure: Callable[[Rotation], Any]
) -> tuple[list[Any], Finding | None]:
    """Return what is measured with each of two bases or factors; nothing where code takes none, or why it fails."""
    rebuilt = [rebuilt_with(record.code, role, float(number)) for number in numbers]
    codes = [code for code in rebuilt if code is not None]
    # Angles that the doctor computes do not depend on the base of the code.
    if len(codes) < len(numbers) or not record.reading.pairs or record.angles_by_doctor:
        return [], None
    with_numbers = f"with {role} {numbers[0]:,} or {numbers[1]:,}"
    results, failed = attempt(lambda: [measure(Rotation(code)) for code in codes])
    if failed:
        return [], not_checked(f"{with_numbers} it raises {failed}")
    for result in results:
        if finding := not_finite(result, with_numbers):
            return [], finding
    return results, None


def base(record: RotationRecord) -> Finding | None:
    """Check that the base argument is used: frequencies must differ under two bases."""
    length = record.rotate.max_length
    bases = (USUAL_BASE, OTHER_BASE)
    results, finding = _results_with(record, "base", bases, lambda rotate: measure_pairs(rotate, length))
    if not results:
        return finding
    usual, other = (pairs.theta for pairs in results)
    # Code that is built anew may have other settings than the one examined.
    is_declared = any(relative_difference(theta, record.reading.theta) <= TOLERANCE for theta in (usual, other))
    if relative_difference(usual, other) <= TOLERANCE:
        sentence = f"with base {OTHER_BASE:,} the frequencies are those of base {USUAL_BASE:,}"
        return wrong("base-ignored", f"{sentence}: the base argument is not used") if is_declared else None
    fitted = fit(other)
    is_regular = fitted.name == "regular" and not _has_axes(record)
    if is_declared and is_regular and not near(fitted.base, OTHER_BASE, 1e-2):
        sentence = f"with base {OTHER_BASE:,} the frequencies are those of base {fitted.base:,.6g}"
        return wrong("base-ignored", sentence, fitted.base)
    return passed(f"the base argument is used: with base {OTHER_BASE:,} the frequencies change", OTHER_BASE)


def factor(record: RotationRecord) -> Finding | None:
    """Check that the factor argument of a scaling is used: results at far positions must differ under two factors."""
    x = random(1, record.heads, 8, record.dim, seed=17)  # (1, h, 8, d)
    # At far positions, for some scalings leave those of the trained length as they are.
    positions = torch.arange(record.rotate.max_length)[-8:]
    results, finding = _results_with(record, "factor", (10, 40), lambda rotate: rotate(x, positions))
    if not results:
        return finding
    if relative_difference(*results) > TOLERANCE:
        return passed("the factor argument is used: with factors 10 and 40 the results differ")
    if relative_difference(results[0], record.rotate(x, positions)) > TOLERANCE:
        return None
    return wrong("scaling-ignored", "with factors 10 and 40 the results are equal: the factor argument is not used")


def width(record: RotationRecord) -> Finding | None:
    """Compare the number of channels that rotate with the rotary width that the code declares."""
    measured = 2 * len(record.reading.pairs)
    declared = declared_number(record.code, ROTARY_WIDTHS)
    # A row of a grid need not show all pairs.
    if not measured or record.reading.columns or declared in (None, measured) or declared > record.dim:
        return None
    sentence = f"{measured} of {record.dim} channels rotate, and the code declares {declared:,.0f}"
    return wrong("width-wrong", f"{sentence}: pass the others as they are", measured)
