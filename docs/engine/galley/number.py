"""The grammar of a number: how one is written, found, read, compared and rewritten, in outputs and in sentences alike.

A number is whole (`47,117`), decimal (`3.54`, or `1.` as NumPy prints it), scientific (`1e-5`), a power (`10³`), a
fraction (`½`, `1/3`) or a word (`twelve`, `twice`, `a third`). Each has a value and a half unit of its last digit: what
rounds to it is within that of its value.
"""

import math
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import chain

LOOSEST = 0.2  # no relative tolerance is wider
ROUNDING = 30.0  # how far two machines' rounding errors lie apart at most, as a factor
LEAST_FACTOR = 4.0  # and how far apart they are to be expected
SMALL = 1e-3  # up to it a bound is taken for one of rounding errors
LONG = 6  # decimals up to which a printed number is exact, unless its block states a tolerance
FLOAT32 = 1e-6  # how far a longer one may be off, relatively: its last digits are the machine's

VULGAR = dict(zip("½⅓⅔¼¾⅕⅛", (1 / 2, 1 / 3, 2 / 3, 1 / 4, 3 / 4, 1 / 5, 1 / 8), strict=True))
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
BELOW_TEN = "one two three four five six seven eight nine"
UNITS = f"{BELOW_TEN} ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
POWERS = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
COUNTS = {word: n for n, word in enumerate(UNITS, 1)} | {word: 10 * n for n, word in enumerate(TENS, 2)}
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}

DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
SIGN = r"[-+−]"
EXPONENT = rf"(?:[eE]{SIGN}?\d+)"
DECIMAL = rf"(?:{DIGITS}(?:\.\d+)?|\.\d+){EXPONENT}?"
TEN_TO = r"10⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"
PRINTED = re.compile(rf"(?<![\w.]){SIGN}?(?:{TEN_TO}|(?:{DECIMAL})(?:\.(?=[\s\],)]|$))?)", re.M)
POWER = r"(?:\d+[⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
FRACTION = rf"(?:\d+/\d+(?![\d/])|\d*[{''.join(VULGAR)}])"
WRITTEN = rf"{SIGN}?(?:{POWER}|{FRACTION}|(?:{DECIMAL})(?:[kKMBGT](?![^\W_])|\s(?:thousand|million|billion)\b)?)"
COUNT_WORD = rf"(?:(?:{'|'.join(TENS)})(?:-(?:{'|'.join(UNITS[:9])}))?|{'|'.join(UNITS)})"
LARGE_WORD = rf"(?:(?:(?:an?|{COUNT_WORD})\s+)?(?:{'|'.join(POWERS)}))"
PART_WORD = rf"(?:(?:(?:an?|one|two|three|four)\s+)?(?:{'|'.join(PARTS)})s?)"
WORD = rf"(?:\b(?:twice|double|{PART_WORD}|{LARGE_WORD}|{COUNT_WORD})\b)"
LAST = re.compile(rf"(?:(?<![\w.,]){WRITTEN}\s?[%°×]?|(?i:{WORD}))$")
# In a sentence a number that belongs to a name (GPT-2, T5, float32) is none, and one with a unit is.
SENTENCE = re.compile(rf"(?<![^\W_])(?<![.\d/])(?<!\d,)(?<![A-Za-z][-−]){WRITTEN}(?:ms|s|x|th|[KMG]i?B)?(?![^\W_])")

_MEASURED = "as|the|that|its|of|more|less|fewer|longer|shorter|larger|smaller|slower|faster|higher|lower|better|worse"
_ABOUT = "than|about|around|nearly|almost|roughly|most|least|under|over|by|to|below|above|only|just|some|every"
CLAIM = re.compile(
    rf"\b(?:(?:(?!one\b){COUNT_WORD}|{LARGE_WORD})\s+times\s+(?:{_MEASURED})|(?:twice|double)\s+(?:{_MEASURED})"
    rf"|(?:{_ABOUT})\s+(?:an?\s+|one\s+)?(?:{'|'.join(PARTS)})\s+(?:of|the|as|its)"
    rf"|(?:an?|one|two|three|four)\s+(?:{'|'.join(list(PARTS)[1:])})s?\s+(?:of|the|as|its)|{LARGE_WORD}"
    rf"|(?:{'|'.join(UNITS[10:])})|(?:{'|'.join(TENS)})(?:-(?:{'|'.join(UNITS[:9])}))?)\b",
    re.I,
)


@dataclass(frozen=True)
class Written:
    """A number as it stands in a text: its value, and half a unit of its last digit."""

    text: str
    value: float
    unit: float


def read(text: str) -> Written:
    """Return what a written number says; `ValueError` where `text` is none."""
    plain = text.strip(" %°×*").replace("−", "-").replace(",", "")
    if re.fullmatch(WORD, plain.strip(), re.I):
        return Written(text, *_word(plain.lower()))
    if re.fullmatch(rf"-?{POWER}", plain):
        base, power = re.match(r"(-?\d+)(.*)", plain).groups()  # type: ignore[union-attr]
        return Written(text, *_exact(float(base) ** int(power.translate(RAISED))))
    if vulgar := re.fullmatch(rf"(-?)(\d*)([{''.join(VULGAR)}])", plain):
        return Written(text, *_exact((float(vulgar[2] or 0) + VULGAR[vulgar[3]]) * (-1 if vulgar[1] else 1)))
    if fraction := re.fullmatch(r"([-+]?\d+)/(\d+)", plain):
        return Written(text, *_exact(int(fraction[1]) / int(fraction[2])))
    plain, _, word = plain.partition(" ")
    scale = POWERS[word] if word else SCALES.get(plain[-1:], 1.0)
    mantissa, _, exponent = plain.rstrip("".join(SCALES)).lower().partition("e")
    power = int(exponent or 0) - len(mantissa.partition(".")[2])
    return Written(text, float(f"{mantissa}e{exponent or 0}") * scale, 0.5 * 10.0**power * scale)


def last(text: str) -> str:
    """Return the number that ends `text`, or nothing."""
    found = LAST.search(text[-80:])
    return found[0] if found else ""


def printed(text: str) -> list[str]:
    """Return the numbers of an output."""
    return PRINTED.findall(text)


def in_sentence(text: str) -> list[re.Match]:
    """Return the numbers of a sentence in digits, and those in words where words claim a measure."""
    return sorted(chain(SENTENCE.finditer(text), CLAIM.finditer(text)), key=lambda match: match.start())


@dataclass(frozen=True)
class Tolerance:
    """How far two printed numbers may lie apart. `rtol` and `atol` are for decimals alone.

    What both texts show at most as large as `residue` is rounding, and so is what is written with a negative exponent
    where a `factor` is given: two such numbers agree if neither is larger than so many times the other.
    """

    rtol: float | None = None
    atol: float = 0.0
    residue: float = 0.0
    factor: float = 1.0


EXACT = Tolerance()


def same(shown: str, given: str, tolerance: Tolerance = EXACT) -> bool:
    """Whether two outputs agree: exactly, spacing, the last digits of long decimals and `tolerance` aside."""
    shown, given = (_lines(text) for text in (shown, given))
    if shown == given:
        return True
    if PRINTED.sub("#", shown) != PRINTED.sub("#", given):
        return False
    return all(_agree(a, b, tolerance) for a, b in zip(printed(shown), printed(given), strict=True))


def merged(shown: str, given: str, tolerance: Tolerance = EXACT) -> str:
    """Return the output `given`, with each line and number that agrees with one that is shown written as it is there.

    So an update after an intended change leaves alone what another machine merely rounds otherwise.
    """
    old, new = shown.split("\n"), given.split("\n")
    skeletons = [[PRINTED.sub("#", _lines(line)) for line in lines] for lines in (old, new)]
    for match in SequenceMatcher(None, *skeletons, autojunk=False).get_matching_blocks():
        for n in range(match.size):
            new[match.b + n] = _merged_line(old[match.a + n], new[match.b + n], tolerance)
    return "\n".join(new)


def _merged_line(shown: str, given: str, tolerance: Tolerance) -> str:
    if same(shown, given, tolerance):
        return shown
    before = iter(printed(shown))

    def kept(number: re.Match) -> str:
        old = next(before)
        return old if _agree(old, number[0], tolerance) else number[0]

    return PRINTED.sub(kept, given)


def holds(operator: str, shown: Written, given: float) -> bool:
    """Whether a number in a sentence is what its expression gives, or bounds it."""
    if operator == "=":
        return abs(shown.value - given) <= shown.unit * (1 + 1e-6)
    value = shown.value
    return {"<": value < given, ">": value > given, "<=": value <= given, ">=": value >= given}[operator]


def loose(shown: float, given: float) -> bool:
    """Whether a bound that holds lies farther from what it bounds than need be; a sign, `> 0`, is no size.

    A factor of 2 will do, and for rounding errors as much as machines differ.
    """
    room = ROUNDING if abs(shown) <= SMALL else 2
    return shown != 0 and not 1 / room <= given / shown <= room


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


def _exact(value: float) -> tuple[float, float]:
    return value, abs(value) * 1e-6


def _word(text: str) -> tuple[float, float]:
    """A count is rounded as digits are; parts and doubles are said of what is within a tenth of them."""
    words = [word.rstrip("s") if word.rstrip("s") in PARTS else word for word in re.split(r"[\s-]+", text)]
    if words[-1] in ("twice", "double"):
        return 2.0, 0.2
    if words[-1] in PARTS:
        value = COUNTS.get(words[0], 1) / PARTS[words[-1]]
        return value, 0.1 * value
    value = float(sum(COUNTS.get(word, 0) for word in words)) or 1.0
    if words[-1] in POWERS:
        value *= POWERS[words[-1]]
        return value, 0.05 * value
    return value, 0.5


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
