"""Compare numbers: two outputs digit by digit, a number in a sentence with what its expression gives.

Decimals agree exactly up to the sixth; a longer one may be off by what float32 rounds. Whoever prints what machines
round otherwise says so by a `Tolerance`.
"""

import math
import re
from difflib import SequenceMatcher

from galley.read.number import DECIMAL, PRINTED, SIGN, Tolerance, Written, printed, read

ROUNDING = 30.0  # the rounding errors of two machines never lie so far apart, as a factor
SMALL = 1e-3  # up to it a bound is taken for one of rounding errors
LONG = 6  # decimals up to which a printed number is exact, unless its block states a tolerance
FLOAT32 = 1e-6  # how far a longer one may be off, relatively: its last digits are the machine's
EXACT = Tolerance()


def same(expected: str, result: str, tolerance: Tolerance = EXACT) -> bool:
    """Whether two outputs agree: exactly, spacing, the last digits of long decimals and `tolerance` aside."""
    expected, result = (_lines(text) for text in (expected, result))
    if expected == result:
        return True
    if PRINTED.sub("#", expected) != PRINTED.sub("#", result):
        return False
    return all(_agree(a, b, tolerance) for a, b in zip(printed(expected), printed(result), strict=True))


def merged(expected: str, result: str, tolerance: Tolerance = EXACT) -> str:
    """Return the output `result`, with each line and number that agrees with one of `expected` written as it is there.

    So an update after an intended change leaves alone what another machine merely rounds otherwise.
    """
    old, new = expected.split("\n"), result.split("\n")
    skeletons = [[PRINTED.sub("#", _lines(line)) for line in lines] for lines in (old, new)]
    for match in SequenceMatcher(None, *skeletons, autojunk=False).get_matching_blocks():
        for n in range(match.size):
            new[match.b + n] = _merged_line(old[match.a + n], new[match.b + n], tolerance)
    return "\n".join(new)


def _merged_line(expected: str, result: str, tolerance: Tolerance) -> str:
    if same(expected, result, tolerance):
        return expected
    before = iter(printed(expected))

    def kept(number: re.Match) -> str:
        old = next(before)
        return old if _agree(old, number[0], tolerance) else number[0]

    return PRINTED.sub(kept, result)


def holds(operator: str, expected: Written, result: float) -> bool:
    """Whether a number in a sentence is what its expression gives, or bounds it."""
    if operator == "=":
        return abs(expected.value - result) <= expected.half_unit * (1 + 1e-6)
    value = expected.value
    return {"<": value < result, ">": value > result, "<=": value <= result, ">=": value >= result}[operator]


def loose(expected: float, result: float) -> bool:
    """Whether a bound that holds lies farther from what it bounds than need be; a sign, `> 0`, is no size.

    A factor of 2 will do, and for rounding errors as much as machines differ.
    """
    room = ROUNDING if abs(expected) <= SMALL else 2
    return expected != 0 and not 1 / room <= result / expected <= room


def rewritten(text: str, value: float) -> str | None:
    """Return `value` written as `text` is: digits, commas, minus sign and unit; None where that is no plain number."""
    form = re.fullmatch(rf"(?P<sign>{SIGN}?)(?P<digits>{DECIMAL})(?P<after>\s?[%°×]?)", text)
    if form is None or not math.isfinite(value):
        return None
    mantissa, e, _ = re.split(r"([eE]|$)", form["digits"], maxsplit=1)
    decimals = len(mantissa.partition(".")[2])
    comma = "," if "," in mantissa or (not e and abs(value) >= 10_000) else ""
    number = f"{abs(value):.{decimals}e}" if e else f"{abs(value):{comma}.{decimals}f}"
    if e:
        base, _, power = number.partition("e")
        number = f"{base}{e}{int(power)}"
    minus = form["sign"] if form["sign"] in ("-", "−") else "−" if not text.isascii() else "-"
    sign = minus if value < 0 else form["sign"] if form["sign"] == "+" else ""
    return f"{sign}{number}{form['after']}"


def residues(text: str, bound: float) -> list[float]:
    """Return the sizes of the numbers in an output that a residue of `bound` calls rounding."""
    sizes = [abs(read(number.rstrip(".")).value) for number in printed(text) if not _whole(number)]
    return [size for size in sizes if size <= bound]


def rounding(text: str, tolerance: Tolerance) -> list[str]:
    """Return the numbers of an output that look like rounding errors, and that `tolerance` compares digit by digit."""
    if tolerance.factor > 1 or tolerance.rtol is not None:
        return []
    small = (number for number in printed(text) if _scientific(number))
    return [number for number in small if tolerance.residue < abs(read(number).value) < SMALL]


def _lines(text: str) -> str:
    return "\n".join(re.sub(r"[^\S\n]+", " ", line).strip() for line in text.strip().split("\n"))


def _whole(text: str) -> bool:
    return not re.search(r"\.\d", text) and not _scientific(text)


def _scientific(text: str) -> bool:
    """Whether a number is written with its power of ten: `1e-7` or `10⁻⁷`."""
    return bool(re.search("[eE⁰¹²³⁴⁵⁶⁷⁸⁹]", text))


def _agree(a: str, b: str, tolerance: Tolerance) -> bool:
    a, b = a.replace("−", "-"), b.replace("−", "-")
    if a == b:
        return True
    x, y = (read(text.rstrip(".")).value for text in (a, b))
    whole = [_whole(text) for text in (a, b)]
    if all(whole):
        return x == y == 0  # 0 and -0 of an array
    if any(whole) and not (a if whole[0] else b).endswith("."):
        return False  # `1` where the code prints `1.0`
    if max(abs(x), abs(y)) <= tolerance.residue:
        return True
    scientific = _scientific(a)
    if scientific != _scientific(b):
        return False
    if scientific and max(abs(x), abs(y)) < 1 and _within(x, y, tolerance.factor):
        return True
    if tolerance.rtol is not None or (tolerance.atol and not scientific):
        room = 0.0 if scientific else tolerance.atol * (1 + 1e-9)
        return math.isclose(x, y, rel_tol=tolerance.rtol or 0.0, abs_tol=room)
    decimals = max(len(re.split("[eE]", text)[0].partition(".")[2]) for text in (a, b))
    return decimals > LONG and math.isclose(x, y, rel_tol=FLOAT32)


def _within(x: float, y: float, factor: float) -> bool:
    """Whether two numbers of one sign lie no farther apart than `factor`, whose last digit may be rounded."""
    small, large = sorted((abs(x), abs(y)))
    return x * y > 0 and large <= small * factor * (1 + 1e-9)
