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
TEN_TO = re.compile(r"(?:(?P<factor>[\d.]+)\s*\\times\s*|(?<![\d.]))10\^\{?(?P<power>-?\d+)\}?")
POWER_OF_TEN = re.compile(r"\$-?(?:[\d.]+\s*\\times\s*)?10\^\{?(-?)(\d+)\}?\$")  # a formula that is but a number

VERDICT = re.compile(  # words by which a caption says how a figure came out: they would read as well inverted
    r"\b(?:rises?|falls?|grows?|shrinks?|climbs?|drops?|never|always|best|worst|better|worse"
    r"|(?:more|less|fewer)(?! than {9})"  # but for `more than 12<!-- … -->`: what is bound is blank here, 9 or longer
    r"|(?:larg|bigg|small|high|low|fast|slow|long|short|near|clos|wid|narrow|steep|flatt|strong|weak)(?:er|est)|farther|farthest)\b",
    re.I,
)


def check_number(number: Number, value: str | bool | list[float]) -> list[Problem]:
    """Return what is wrong with a bound number, where its expression gives `value`: words, or one number or several."""
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
    if value is True and number.written.strip("`") not in ("True", "False"):
        form = f"<!-- = {number.body} and {number.written.strip('*')!r} -->"
        return f", and {number.body} would bear any word; name it: {form}"
    return "" if _says(number, str(value)) else f"; {number.body} gives {value}"


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


def _says(number: Number, value: str) -> bool:
    """Whether what stands before a binding is `value`: a marked phrase whole, or as many words as it has."""
    return number.written.strip("`*$ ") == value or number.before.endswith(value)


def parts(written: str) -> list[str]:
    """Return the numbers of what a binding belongs to: one, or those of a phrase, a formula or a code span."""
    if written[0] in "`$*":
        plain = re.sub(r"[$*`]", " ", written.replace("{,}", ","))
        return printed(TEN_TO.sub(lambda m: f"{m['factor'] or 1}e{m['power']}", plain))
    return [written]


def unbound(page: Page) -> list[tuple[int, str]]:
    """Return line and text of each number in a sentence that no expression computes and no source is cited for."""
    numbers = []
    for start, text in page.prose:
        bare = without_bound(text)
        for pattern in (CODE_SPAN, COMMENT, re.compile(r"</?[a-zA-Z][^>]*>")):
            bare = pattern.sub(_spaces, bare)
        bare = LINK.sub(lambda m: m[0].replace(m["target"], _spaces(m["target"])), bare)
        bare = re.sub(r"^\[(?!\^)[^\]]+\]:\s*\S+\s*$|https?://\S+|\{#[^}]*\}", _spaces, bare, flags=re.M)
        bare = DISPLAY.sub(_spaces, bare)
        bare = INLINE.sub(_results_in, POWER_OF_TEN.sub(_power, bare))
        for pattern in FREE:
            bare = pattern.sub(_spaces, bare)
        for match in in_sentence(bare):
            if not COUNT.fullmatch(match[0]) or PERCENT.match(bare, match.end()):
                numbers.append((start + 1 + bare.count("\n", 0, match.start()), " ".join(match[0].split())))
    return numbers


def without_free(text: str) -> str:
    """Return a text with blanks in place of the numbers that need no binding."""
    for pattern in FREE:
        text = pattern.sub(_spaces, text)
    return text


def digits(text: str) -> list[str]:
    """Return the numbers of a text without sign and commas, counts up to ten left out."""
    plain = text.replace("{,}", ",").replace("_", ",").replace("−", "-")
    numbers = (number.lstrip("+-").replace(",", "").rstrip(".") for number in printed(re.sub(r"(?<=\w)-", " ", plain)))
    return [number for number in numbers if not COUNT.fullmatch(number)]


def without_bound(text: str) -> str:
    """Return a text with blanks in place of what is bound."""
    for bound in reversed(list(BOUND.finditer(text))):
        begin = bound.start() - len(bound_token(text[: bound.start()], bound["operator"]))
        text = text[:begin] + _spaces(text[begin : bound.end()]) + text[bound.end() :]
    return text


def _spaces(match) -> str:
    return re.sub(r"[^\n]", " ", match if isinstance(match, str) else match[0])


def _power(formula: re.Match) -> str:
    return f"1e{formula[1]}{formula[2]}".ljust(len(formula[0]))


def _results_in(formula: re.Match) -> str:
    """A formula's whole numbers define it; a decimal in a line of text is a result."""
    return re.sub(r"\d+\.\d+|.", lambda m: m[0] if len(m[0]) > 1 else " ", formula[0])
