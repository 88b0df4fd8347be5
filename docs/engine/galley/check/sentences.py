"""Numbers in sentences: whether each is what its binding gives, and whether something stands behind all of them."""

import re

from galley.check.compare import holds, loose
from galley.read.number import in_sentence, printed, read
from galley.read.page import BOUND, CODE_SPAN, COMMENT, DISPLAY, INLINE, LINK, Number, Page, Problem, bound_token

# Numbers in sentences that need no binding, each for its reason.
FREE = [
    re.compile(r"^\s*\d{1,2}[.)]\s", re.M),  # list items
    re.compile(r"^#+\s+(?:Part\s+)?\d{1,2}(?:\.\d+)*\b", re.M),  # a heading's own number
    re.compile(r"(?i)\b(?:sec|section|eq|equation|table|figure|part|chapter|exercise|appendix)s?"
               r"\.?\s+[A-Z]?\d+(?:[.–-]\d+)*(?:(?:,| and| to)\s+\d+(?:\.\d+)*)*"),  # labels
    re.compile(r"\b(?:19\d\d|20[0-3]\d)\b(?![,.]\d|\s+(?:tokens|steps|positions|rows|texts|words)\b)"),  # years
    re.compile(r"\b\d+\.\d+\.\d+\b"),  # releases of libraries
    re.compile(r"(?<=\[)\d\.\d(?=[^\]\n]*\]\()"),  # the number of a chapter that is linked: the link is checked
]  # fmt: skip
COUNT = re.compile(r"[-−+]?(?:\d|10)")  # a count up to ten needs none either, but `5 percent` does
PERCENT = re.compile(r"\s?(?:%|percent)")
HTML_TAG = re.compile(r"</?[a-zA-Z][^>]*>")
# A link's definition, a bare address, and the attributes of a heading; a footnote's definition, [^1]:, is text.
ADDRESS = re.compile(r"^\[(?!\^)[^\]]+\]:\s*\S+\s*$|https?://\S+|\{#[^}]*\}", re.M)
TEN_TO = re.compile(r"(?:(?P<factor>[\d.]+)\s*\\times\s*|(?<![\d.]))10\^\{?(?P<power>-?\d+)\}?")
POWER_OF_TEN = re.compile(r"\$-?(?:[\d.]+\s*\\times\s*)?10\^\{?(-?)(\d+)\}?\$")  # a formula that is but a number

# Words by which a caption says how a figure came out: they would read as well inverted. `more than 12<!-- < n -->` has
# its comparison; when these words are looked for, what is bound is blank, nine letters or longer.
VERDICT = re.compile(
    r"\b(?:rises?|falls?|grows?|shrinks?|climbs?|drops?|never|always|best|worst|better|worse"
    r"|(?:more|less|fewer)(?! than {9})"
    r"|(?:larg|bigg|small|high|low|fast|slow|long|short|near|clos|wid|narrow|steep|flatt|strong|weak)(?:er|est)|farther|farthest)\b",
    re.I,
)


def check_number(number: Number, value: str | bool | list[float]) -> list[Problem]:
    """Return what is wrong with a bound number, where its expression gives `value`: words, or one number or several."""
    # Nothing stands before the binding: that was reported when the page was read.
    if not number.written:
        return []
    fault = _word_fault(number, value) if isinstance(value, str | bool) else _value_fault(number, value)
    if fault:
        return [Problem(number.line, f"{number.written} stands here{fault}")]
    if isinstance(value, str | bool) or number.operator == "=" or number.why:
        return []
    if any(loose(part, result) for part, result in zip(_values(number), value, strict=True)):
        advice = f"tighten it, or say why: <!-- {number.operator} {number.body} # … -->"
        message = f"{number.written} stands here as a bound, and {_gives(number, value)}: it is loose; {advice}"
        return [Problem(number.line, message, lint=True)]
    return []


def _word_fault(number: Number, value: str | bool) -> str:
    """Return what is wrong with words that an expression decides."""
    # An expression that gives only True would pass under any word: `later > 41 and 'rises'` gives the word itself.
    if value is True and number.written.strip("`") not in ("True", "False"):
        form = f"<!-- = {number.body} and {number.written.strip('*')!r} -->"
        return f", and {number.body} would bear any word; name it: {form}"
    return "" if _is_written(str(value), number) else f"; {number.body} gives {value}"


def _value_fault(number: Number, value: list[float]) -> str:
    """Return what is wrong with numbers that an expression computes."""
    try:
        written = [read(text) for text in parts(number.written)]
    except ValueError:
        return f", which is no number; {number.body} gives {value}"
    if len(written) != len(value):
        return f": {len(written)} number(s); {number.body} gives {len(value)}"
    if all(holds(number.operator, part, result) for part, result in zip(written, value, strict=True)):
        return ""
    relation = "" if number.operator == "=" else f", and should be {number.operator} it"
    return f"{relation}; {_gives(number, value)}"


def _values(number: Number) -> list[float]:
    return [read(text).value for text in parts(number.written)]


def _gives(number: Number, value: list[float]) -> str:
    return f"{number.body} gives {', '.join(f'{result:.10g}' for result in value)}"


def _is_written(value: str, number: Number) -> bool:
    """Whether what stands before a binding is `value`: a marked phrase whole, or as many words as it has."""
    return number.written.strip("`*$ ") == value or number.before.endswith(value)


def parts(written: str) -> list[str]:
    """Return the numbers of what a binding belongs to: one, or those of a phrase, a formula or a code span."""
    if written[0] in "`$*":
        # In TeX a comma in braces, 10{,}000, is one without a space behind it.
        plain = re.sub(r"[$*`]", " ", written.replace("{,}", ","))
        return printed(TEN_TO.sub(lambda m: f"{m['factor'] or 1}e{m['power']}", plain))
    return [written]


def unbound(page: Page) -> list[tuple[int, str]]:
    """Return line and text of each number in a sentence that no expression computes and no source is cited for."""
    numbers = []
    for start, text in page.prose:
        bare = without_free(_without_markup(without_bound(text)))
        for match in in_sentence(bare):
            if not COUNT.fullmatch(match[0]) or PERCENT.match(bare, match.end()):
                numbers.append((start + 1 + bare.count("\n", 0, match.start()), " ".join(match[0].split())))
    return numbers


def _without_markup(text: str) -> str:
    """Return a text with blanks in place of code, comments, tags, addresses, and of formulas but for their results.

    Blanks, since a number is reported at its line, and since what stands apart in the text must not come together.
    """
    # Code first: a comment or a tag that it shows is none.
    for pattern in (CODE_SPAN, COMMENT, HTML_TAG):
        text = pattern.sub(_spaces, text)
    text = LINK.sub(lambda link: link[0].replace(link["target"], _spaces(link["target"])), text)
    text = ADDRESS.sub(_spaces, text)
    # A displayed formula has a check of its own, by the comment under it.
    text = DISPLAY.sub(_spaces, text)
    # Powers of ten first: of all whole numbers in formulas, these alone are results.
    return INLINE.sub(_results_in, POWER_OF_TEN.sub(_power, text))


def without_free(text: str) -> str:
    """Return a text with blanks in place of the numbers that need no binding."""
    for pattern in FREE:
        text = pattern.sub(_spaces, text)
    return text


def digits(text: str) -> list[str]:
    """Return the numbers of a text without sign and commas, counts up to ten left out."""
    plain = text.replace("{,}", ",").replace("_", ",").replace("−", "-")
    # A hyphen behind a letter or a digit, as in 5-100 or GPT-2, is no sign.
    spaced = re.sub(r"(?<=\w)-", " ", plain)
    numbers = (number.lstrip("+-").replace(",", "").rstrip(".") for number in printed(spaced))
    return [number for number in numbers if not COUNT.fullmatch(number)]


def without_bound(text: str) -> str:
    """Return a text with blanks in place of what is bound."""
    # From the last to the first, so that what stands before a binding is still as it was written.
    for bound in reversed(list(BOUND.finditer(text))):
        begin = bound.start() - len(bound_token(text[: bound.start()], bound["operator"]))
        text = text[:begin] + _spaces(text[begin : bound.end()]) + text[bound.end() :]
    return text


def _spaces(text: str | re.Match) -> str:
    """Return as many blanks as a text has letters, in as many lines."""
    return re.sub(r"[^\n]", " ", text if isinstance(text, str) else text[0])


def _power(formula: re.Match) -> str:
    """Return a formula that is but a power of ten as a number that the text itself might have, 1e-5."""
    return f"1e{formula[1]}{formula[2]}".ljust(len(formula[0]))


def _results_in(formula: re.Match) -> str:
    """Return the decimals of a formula with blanks around: they are results, and its whole numbers define it."""
    return re.sub(r"\d+\.\d+|.", lambda part: part[0] if len(part[0]) > 1 else " ", formula[0])
