"""The grammar of a number: how one is written, found and read, in outputs and in sentences alike.

A number is whole (`47,117`), decimal (`3.54`, or `1.` as NumPy prints it), scientific (`1e-5`), a power (`10³`), a
fraction (`½`, `1/3`) or a word (`twelve`, `twice`, `a third`). Each has a value and a half unit of its last digit: what
rounds to it is within that of its value.
"""

import re
from dataclasses import dataclass
from itertools import chain

LOOSEST = 0.2  # no relative tolerance is wider
LEAST_FACTOR = 4.0  # no factor is narrower: the rounding errors of two machines often lie so far apart

VULGAR = dict(zip("½⅓⅔¼¾⅕⅛", (1 / 2, 1 / 3, 2 / 3, 1 / 4, 3 / 4, 1 / 5, 1 / 8), strict=True))
RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
BELOW_TEN = "one two three four five six seven eight nine"
UNITS = f"{BELOW_TEN} ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
POWERS = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
COUNTS = {word: n for n, word in enumerate(UNITS, 1)} | {word: 10 * n for n, word in enumerate(TENS, 2)}
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}

# A comma groups digits by threes alone: the `1,2` of a list are two numbers.
DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
SIGN = r"[-+−]"
EXPONENT = rf"(?:[eE]{SIGN}?\d+)"
DECIMAL = rf"(?:{DIGITS}(?:\.\d+)?|\.\d+){EXPONENT}?"
TEN_TO = r"10⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"
# Powers of ten come first, since a decimal would take their 10. NumPy ends a whole float by a dot, as in `[1. 2.]`.
PRINTED = re.compile(rf"(?<![\w.]){SIGN}?(?:{TEN_TO}|(?:{DECIMAL})(?:\.(?=[\s\],)]|$))?)", re.M)
POWER = r"(?:\d+[⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
# What goes on with another slash or digit, such as a date, is no fraction.
FRACTION = rf"(?:\d+/\d+(?![\d/])|\d*[{''.join(VULGAR)}])"
# A letter scales a number where it ends a word: that of `7B` does, and that of `7Bits` does not.
WRITTEN = rf"{SIGN}?(?:{POWER}|{FRACTION}|(?:{DECIMAL})(?:[kKMBGT](?![^\W_])|\s(?:thousand|million|billion)\b)?)"
COUNT_WORD = rf"(?:(?:{'|'.join(TENS)})(?:-(?:{'|'.join(UNITS[:9])}))?|{'|'.join(UNITS)})"
LARGE_WORD = rf"(?:(?:(?:an?|{COUNT_WORD})\s+)?(?:{'|'.join(POWERS)}))"
PART_WORD = rf"(?:(?:(?:an?|one|two|three|four)\s+)?(?:{'|'.join(PARTS)})s?)"
WORD = rf"(?:\b(?:twice|double|{PART_WORD}|{LARGE_WORD}|{COUNT_WORD})\b)"
# What ends a text begins where neither a word nor a number is already under way.
LAST = re.compile(rf"(?:(?<![\w.,]){WRITTEN}\s?[%°×]?|(?i:{WORD}))$")
# In a sentence a number that belongs to a name (GPT-2, T5, float32) is none, and one with a unit is; none begins in
# the middle of a decimal, a fraction or a group of thousands.
SENTENCE = re.compile(rf"(?<![^\W_])(?<![.\d/])(?<!\d,)(?<![A-Za-z][-−]){WRITTEN}(?:ms|s|x|th|[KMG]i?B)?(?![^\W_])")

_MEASURED = "as|the|that|its|of|more|less|fewer|longer|shorter|larger|smaller|slower|faster|higher|lower|better|worse"
_ABOUT = "than|about|around|nearly|almost|roughly|most|least|under|over|by|to|below|above|only|just|some|every"
# Words are a number to check where they claim a measure (`three times as long`, `about half of`), or are above ten.
CLAIM = re.compile(
    rf"\b(?:(?:(?!one\b){COUNT_WORD}|{LARGE_WORD})\s+times\s+(?:{_MEASURED})|(?:twice|double)\s+(?:{_MEASURED})"
    rf"|(?:{_ABOUT})\s+(?:an?\s+|one\s+)?(?:{'|'.join(PARTS)})\s+(?:of|the|as|its)"
    rf"|(?:an?|one|two|three|four)\s+(?:{'|'.join(list(PARTS)[1:])})s?\s+(?:of|the|as|its)|{LARGE_WORD}"
    rf"|(?:{'|'.join(UNITS[10:])})|(?:{'|'.join(TENS)})(?:-(?:{'|'.join(UNITS[:9])}))?)\b",
    re.I,
)


@dataclass(frozen=True)
class Written:
    """A number as it stands in a text: its value, and how far a result may lie from it, half a unit of its last digit.

    Of words it is more: a tenth of `half` and `twice`, a twentieth of `a million`. Of powers and fractions it is 1e-6.
    """

    text: str
    value: float
    half_unit: float


def read(text: str) -> Written:
    """Return what a written number says; `ValueError` where `text` is none."""
    plain = text.strip(" %°×*").replace("−", "-").replace(",", "")
    if re.fullmatch(WORD, plain.strip(), re.I):
        return Written(text, *_word(plain.lower()))
    if re.fullmatch(rf"-?{POWER}", plain):
        base, power = re.match(r"(-?\d+)(.*)", plain).groups()  # type: ignore[union-attr]
        return Written(text, *_exact(float(base) ** int(power.translate(RAISED))))
    if vulgar := re.fullmatch(rf"(-?)(\d*)([{''.join(VULGAR)}])", plain):
        sign = -1 if vulgar[1] else 1
        return Written(text, *_exact(sign * (float(vulgar[2] or 0) + VULGAR[vulgar[3]])))
    if fraction := re.fullmatch(r"([-+]?\d+)/(\d+)", plain):
        return Written(text, *_exact(int(fraction[1]) / int(fraction[2])))
    plain, _, word = plain.partition(" ")
    scale = POWERS[word] if word else SCALES.get(plain[-1:], 1.0)
    mantissa, _, exponent = plain.rstrip("".join(SCALES)).lower().partition("e")
    # The power of ten of the last digit, which half a unit of it goes by.
    power = int(exponent or 0) - len(mantissa.partition(".")[2])
    return Written(text, float(f"{mantissa}e{exponent or 0}") * scale, 0.5 * 10.0**power * scale)


def last(text: str) -> str:
    """Return the number that ends `text`, or nothing."""
    # No number is written in more characters, so the rest of the text need not be searched.
    match = LAST.search(text[-80:])
    return match[0] if match else ""


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


def _exact(value: float) -> tuple[float, float]:
    """Return a value without rounded digits, and a millionth of it as its half unit."""
    return value, abs(value) * 1e-6


def _word(text: str) -> tuple[float, float]:
    """A count is rounded as digits are; parts and doubles are said of what is within a tenth of them."""
    numerals = [word.rstrip("s") if word.rstrip("s") in PARTS else word for word in re.split(r"[\s-]+", text)]
    last_word = numerals[-1]
    if last_word in ("twice", "double"):
        return 2.0, 0.2
    if last_word in PARTS:
        value = COUNTS.get(numerals[0], 1) / PARTS[last_word]
        return value, 0.1 * value
    # `forty-two` is the sum of its words; where none counts, as in `a dozen`, it is one.
    value = float(sum(COUNTS.get(word, 0) for word in numerals)) or 1.0
    if last_word in POWERS:
        value *= POWERS[last_word]
        return value, 0.05 * value
    return value, 0.5
