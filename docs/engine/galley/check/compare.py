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
    expected, result = (_with_single_spaces(text) for text in (expected, result))
    if expected == result:
        return True
    # Around their numbers the outputs must be equal; this makes sure, too, that both have as many numbers.
    if PRINTED.sub("#", expected) != PRINTED.sub("#", result):
        return False
    return all(_agree(a, b, tolerance) for a, b in zip(printed(expected), printed(result), strict=True))


def merged(expected: str, result: str, tolerance: Tolerance = EXACT) -> str:
    """Return the output `result`, with each line and number that agrees with one of `expected` written as it is there.

    So an update after an intended change leaves alone what another machine merely rounds otherwise.
    """
    old, new = expected.split("\n"), result.split("\n")
    # Lines belong together where they are equal but for their numbers. A line that is new or gone moves those below it;
    # SequenceMatcher finds them again. Without autojunk=False it takes no notice of lines that an output often repeats.
    skeletons = [[PRINTED.sub("#", _with_single_spaces(line)) for line in lines] for lines in (old, new)]
    for match in SequenceMatcher(None, *skeletons, autojunk=False).get_matching_blocks():
        for n in range(match.size):
            new[match.b + n] = _merged_line(old[match.a + n], new[match.b + n], tolerance)
    return "\n".join(new)


def _merged_line(expected: str, result: str, tolerance: Tolerance) -> str:
    """Return `result`, two lines that differ in their numbers alone, with each number that agrees as in `expected`."""
    if same(expected, result, tolerance):
        return expected
    expected_numbers = iter(printed(expected))

    def merged_number(number: re.Match) -> str:
        old = next(expected_numbers)
        return old if _agree(old, number[0], tolerance) else number[0]

    return PRINTED.sub(merged_number, result)


def holds(operator: str, expected: Written, result: float) -> bool:
    """Whether a number in a sentence is what its expression gives, or bounds it."""
    if operator == "=":
        # The margin is for a tie: 0.125 rounds to 0.13, though in binary their distance may exceed half a unit.
        return abs(expected.value - result) <= expected.half_unit * (1 + 1e-6)
    value = expected.value
    return {"<": value < result, ">": value > result, "<=": value <= result, ">=": value >= result}[operator]


def loose(expected: float, result: float) -> bool:
    """Whether a bound that holds lies farther from what it bounds than need be; a sign, `> 0`, is no size.

    A factor of 2 will do, and for rounding errors as much as machines differ.
    """
    factor = ROUNDING if abs(expected) <= SMALL else 2
    return expected != 0 and not 1 / factor <= result / expected <= factor


def rewritten(text: str, value: float) -> str | None:
    """Return `value` written as `text` is: digits, commas, minus sign and unit; None where that is no plain number."""
    form = re.fullmatch(rf"(?P<sign>{SIGN}?)(?P<digits>{DECIMAL})(?P<after>\s?[%°×]?)", text)
    if form is None or not math.isfinite(value):
        return None
    mantissa, e, _ = re.split(r"([eE]|$)", form["digits"], maxsplit=1)
    decimals = len(mantissa.partition(".")[2])
    if e:
        # Python writes an exponent with two digits, 1e-05, and a sentence has 1e-5 or 1E-5.
        base, _, power = f"{abs(value):.{decimals}e}".partition("e")
        number = f"{base}{e}{int(power)}"
    else:
        comma = "," if "," in mantissa or abs(value) >= 10_000 else ""
        number = f"{abs(value):{comma}.{decimals}f}"
    return f"{_sign(form['sign'], value, text)}{number}{form['after']}"


def _sign(sign: str, value: float, text: str) -> str:
    """Return the sign of `value` as `text` writes signs; `sign` is the one that it has now, or nothing."""
    if value >= 0:
        return "+" if sign == "+" else ""
    if sign in ("-", "−"):
        return sign
    # So far the number has no minus: with a character beyond ASCII, such as ° or ×, it gets the typographic one.
    return "-" if text.isascii() else "−"


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


def _with_single_spaces(text: str) -> str:
    """Return a text without the spacing by which NumPy aligns columns: it hangs on the width of each number."""
    return "\n".join(re.sub(r"[^\S\n]+", " ", line).strip() for line in text.strip().split("\n"))


def _whole(text: str) -> bool:
    """Whether a number has no decimals; so does `1.`, as NumPy prints a float."""
    return not re.search(r"\.\d", text) and not _scientific(text)


def _scientific(text: str) -> bool:
    """Whether a number is written with its power of ten: `1e-7` or `10⁻⁷`."""
    return bool(re.search("[eE⁰¹²³⁴⁵⁶⁷⁸⁹]", text))


def _agree(a: str, b: str, tolerance: Tolerance) -> bool:
    """Whether two numbers agree as they are printed: whole numbers exactly, others within what is allowed for them."""
    a, b = a.replace("−", "-"), b.replace("−", "-")
    if a == b:
        return True
    x, y = (read(text.rstrip(".")).value for text in (a, b))
    if _whole(a) and _whole(b):
        # NumPy prints -0. for a zero whose sign is a matter of rounding.
        return x == 0 and y == 0
    if any(_whole(text) and not text.endswith(".") for text in (a, b)):
        # One is an integer, 1, and the other a float, 1.0; but of an array 1. and 0.99999999 may be compared.
        return False
    # A residue comes first: of two numbers near zero, one may be printed as 0.0 and the other as 1e-16.
    if max(abs(x), abs(y)) <= tolerance.residue:
        return True
    scientific = _scientific(a)
    if scientific != _scientific(b):
        return False
    # A factor is for rounding errors, which have negative powers of ten: 2e+05 is a result.
    if scientific and max(abs(x), abs(y)) < 1 and _within(x, y, tolerance.factor):
        return True
    if tolerance.rtol is not None or (tolerance.atol and not scientific):
        # Beside 1e-7 an absolute tolerance of 0.05 would allow anything; it is for decimals alone.
        absolute = 0.0 if scientific else tolerance.atol * (1 + 1e-9)
        return math.isclose(x, y, rel_tol=tolerance.rtol or 0.0, abs_tol=absolute)
    # Nothing is stated: the shown digits count, and only those beyond the sixth decimal may be the machine's.
    decimals = max(len(re.split("[eE]", text)[0].partition(".")[2]) for text in (a, b))
    return decimals > LONG and math.isclose(x, y, rel_tol=FLOAT32)


def _within(x: float, y: float, factor: float) -> bool:
    """Whether two numbers of one sign lie no farther apart than `factor`, whose last digit may be rounded."""
    small, large = sorted((abs(x), abs(y)))
    return x * y > 0 and large <= small * factor * (1 + 1e-9)
