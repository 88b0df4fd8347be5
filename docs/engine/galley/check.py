"""Compare what a page shows with what its code gives, number by number; and list what no code stands behind."""

import ast
import math
import re
from typing import TYPE_CHECKING

from galley import bibliography, katex, names
from galley.page import BOUND, CODE_SPAN, COMMENT, DISPLAY, INLINE, LINK, Block, Number, Page, Problem

if TYPE_CHECKING:
    from galley.book import Book

RTOL = 1e-4  # the tolerance of an output, unless its block states another
RESIDUE = 1e-9  # what is smaller is rounding noise: it must stay as small, its digits mean nothing
LARGEST_FIGURE = 150_000  # bytes
LIVE = "assets/js/figures"  # where the scripts of live figures lie
NUMBER = re.compile(
    r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d*)?(?:(?<=\d)|(?<=\d\.))(?:[eE][-+]?\d+)?"
)
PLAIN = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")
UNBOUND = re.compile(
    r"(?<![^\W_])(?<![.\d])(?<![^\W_][-−])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?:ms|s|k|x|[KMG]i?B?)?(?![^\W_])"
)
SPACE = re.compile(r"[^\S\n]+")

# Numbers in sentences that need no binding, each for its reason.
FREE = [
    re.compile(r"^\s*\d{1,2}[.)]\s", re.M),  # list items
    re.compile(r"^#+\s+(?:Part\s+)?\d{1,2}(?:\.\d+)*\b", re.M),  # a heading's own number
    re.compile(r"(?i)\b(?:sec|section|eq|equation|table|figure|part|chapter|exercise|appendix|step|row|item|level|page)s?"
               r"\.?\s+[A-Z]?\d+(?:[.–-]\d+)*(?:(?:,| and| to)\s+\d+(?:\.\d+)*)*"),  # labels
    re.compile(r"\b(?:19\d\d|20[0-3]\d)\b(?![,.]\d|\s+(?:tokens|steps|positions|rows|texts|words)\b)"),  # years
    re.compile(r"(?<![\w.,])[-−+]?(?:\d|10)(?!\w|[.,]\d|\s?%|\s+percent)"),  # counts up to ten
]  # fmt: skip


def check_results(page: Page, outcomes: list[dict]) -> list[Problem]:
    """Return what went wrong while the page ran, and where it shows something else than its code gives."""
    found: list[Problem] = []
    for step, outcome in zip(page.steps, outcomes, strict=False):
        if outcome.get("error"):
            found.append(Problem(outcome["error_line"] or step.line, outcome["error"]))
        elif not outcome:
            continue  # the page ended before it
        elif isinstance(step, Number):
            found += _number(step, outcome["value"])
        else:
            found += _block(step, outcome) + _words(page, step, outcome["figures"])
    return found


def check_static(page: Page, book: "Book") -> list[Problem]:
    """Return what is wrong whatever the code gives: sources, quotations, formulas, unbound numbers."""
    found: list[Problem] = []
    for block in page.blocks:
        if "source" in block.options:
            found += _source(block, book)
        if "live" in block.options:
            found += _live(block, book)
        elif "data" in block.options:
            found.append(Problem(block.line, "data= is for a live figure; name it with live="))
        if block.output is not None and (block.lang == "pycon" or not block.runs):
            found.append(Problem(block.line, "nothing compares the output under this block"))
        if block.lang == "pycon" and block.runs and ">>> " not in block.code:
            found.append(Problem(block.line, "a pycon block without a >>> prompt runs nothing"))
    found += bibliography.check(page, book.bibliography)
    found += [Problem(line, problem) for line, problem in katex.check(page.formulas, book.folder)]
    found += [Problem(line, problem) for line, problem in names.check(page)]
    for line, text in unbound(page):
        found.append(Problem(line, f"no code stands behind {text}: bind it, cite it, or mark it <!-- given -->"))
    return found


def same(shown: str, given: str, rtol: float | None = None, atol: float = 0.0) -> bool:
    """Whether two texts agree: numbers within the tolerance, everything else exactly, spacing aside."""
    shown, given = (_lines(text) for text in (shown, given))
    if shown == given:
        return True
    if NUMBER.sub("#", shown) != NUMBER.sub("#", given):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(given), strict=True)
    return all(_close(a, b, rtol, atol) for a, b in pairs)


def written_value(text: str) -> tuple[float, float]:
    """Return a written number and half a unit of its last digit."""
    plain = text.replace(",", "").replace("−", "-").strip(" %°×*")
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(plain), 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def unbound(page: Page) -> list[tuple[int, str]]:
    """Return line and text of each number in a sentence that no expression computes and no source is cited for."""
    found = []
    for start, text in page.prose:
        bare = _blank_bound(text)
        for pattern in (CODE_SPAN, COMMENT, re.compile(r"</?[a-zA-Z][^>]*>")):
            bare = pattern.sub(_spaces, bare)
        bare = LINK.sub(lambda m: m[0].replace(m["target"], _spaces(m["target"])), bare)
        bare = re.sub(r"^\[(?!\^)[^\]]+\]:\s*\S+\s*$|https?://\S+|\{#[^}]*\}", _spaces, bare, flags=re.M)
        for pattern in (DISPLAY, INLINE):
            bare = pattern.sub(lambda m: _keep_decimals(m[0], display=m[0].startswith("$$")), bare)
        for pattern in FREE:
            bare = pattern.sub(_spaces, bare)
        for match in UNBOUND.finditer(bare):
            found.append((start + 1 + bare.count("\n", 0, match.start()), match[0]))
    return found


def _lines(text: str) -> str:
    return "\n".join(SPACE.sub(" ", line).strip() for line in text.strip().split("\n"))


def _close(a: str, b: str, rtol: float | None, atol: float) -> bool:
    if a == b:
        return True
    x, y = (float(text.replace(",", "").replace("−", "-")) for text in (a, b))
    if abs(x) < RESIDUE and abs(y) < RESIDUE and "e" in a.lower() + b.lower():
        return True
    counts = not any(mark in a + b for mark in ".eE")
    if counts and rtol is None and not atol:
        return False
    return math.isclose(x, y, rel_tol=RTOL if rtol is None else rtol, abs_tol=atol)


def _block(block: Block, outcome: dict) -> list[Problem]:
    found = [Problem(block.line, f"the block warns: {warning}") for warning in outcome.get("warnings", [])]
    given, shown = outcome["stdout"].rstrip(), block.output
    rtol, atol = block.options.get("rtol"), float(block.options.get("atol", 0))
    if block.lang == "python" and not same(shown or "", given, float(rtol) if rtol else None, atol):
        line = block.output_span[0] if block.output_span else block.span[1]
        both = f"--- the page shows\n{shown or '(nothing)'}\n+++ the code prints\n{given or '(nothing)'}"
        found.append(Problem(line + 1, f"output differs\n{both}"))
    return found + _figures(block, outcome["figures"])


def _figures(block: Block, svgs: list[str]) -> list[Problem]:
    found = [Problem(f.line, f"{f.src} has no alternative text") for f in block.figures if not f.alt.strip()]
    if len(svgs) != len(block.figures):
        counts = f"the block draws {len(svgs)} figure(s), and {len(block.figures)} image line(s) follow it"
        found.append(Problem(block.line, counts))
    for drawn, svg in zip(block.figures, svgs, strict=False):
        if (size := len(svg.encode())) > LARGEST_FIGURE and not block.options.get("large"):
            advice = 'use imshow or fewer points, or say why: large="…"'
            found.append(Problem(drawn.line, f"{drawn.src} has {size:,} bytes, of {LARGEST_FIGURE:,}; {advice}"))
    return found


def _words(page: Page, block: Block, svgs: list[str]) -> list[Problem]:
    """A number in a figure's words for those who cannot see it must stand where it is checked: on the page or drawn."""
    found = []
    for drawn, svg in zip(block.figures, svgs, strict=False):
        words = drawn.alt
        for pattern in FREE:
            words = pattern.sub(_spaces, words)
        seen = {text for line in page.lines if drawn.alt not in line for text in _plain_numbers(line)}
        seen |= {text for label in re.findall(r">([^<>]*)</t", svg) for text in _plain_numbers(label)}
        for text in _plain_numbers(words):
            if text not in seen:
                advice = "show it there too, or say it in words"
                found.append(Problem(drawn.line, f"{text} in {drawn.src}'s words stands nowhere on the page; {advice}"))
    return found


def _plain_numbers(text: str) -> list[str]:
    return [number.replace(",", "") for number in PLAIN.findall(text.replace("{,}", ",").replace("_", ","))]


def _number(number: Number, value) -> list[Problem]:
    if not number.written:
        return []
    said = f"{number.written} stands here"
    if isinstance(value, str | bool):
        agrees = str(value) == number.written.strip("`*$ ")
        return [] if agrees else [Problem(number.line, f"{said}; {number.body} gives {value}")]
    written = [text for text in NUMBER.findall(number.written) if text]
    if len(written) != len(value):
        return [Problem(number.line, f"{said}: {len(written)} number(s); {number.body} gives {len(value)}")]
    pairs = zip(map(written_value, written), value, strict=True)
    if all(_holds(number.operator, shown, unit, given) for (shown, unit), given in pairs):
        return []
    relation = "" if number.operator == "=" else f", and should be {number.operator} it"
    return [Problem(number.line, f"{said}{relation}; {number.body} gives {', '.join(f'{v:.10g}' for v in value)}")]


def _holds(operator: str, shown: float, unit: float, given: float) -> bool:
    if operator == "=":
        residue = unit < RESIDUE and abs(shown) < RESIDUE and abs(given) < RESIDUE
        return residue or abs(shown - given) <= unit * (1 + 1e-6)
    return {"<": shown < given, ">": shown > given, "<=": shown <= given, ">=": shown >= given}[operator]


def _source(block: Block, book: "Book") -> list[Problem]:
    try:
        current = read_source(book.root, block.options["source"])
    except (OSError, LookupError, SyntaxError, UnicodeDecodeError) as error:
        return [Problem(block.line, f"source={block.options['source']}: {error}")]
    if current == block.code:
        return []
    return [Problem(block.line, f"{block.options['source']} reads otherwise now; the update command copies it here")]


def _live(block: Block, book: "Book") -> list[Problem]:
    name, found = block.options["live"], []
    if not (book.docs / LIVE / f"{name}.js").is_file():
        found.append(Problem(block.line, f"there is no {LIVE}/{name}.js to bring this figure to life"))
    if not block.runs or len(block.figures) != 1:
        found.append(Problem(block.line, "a live figure needs one still figure, for readers without scripts"))
    return found


def read_source(root, where: str) -> str:
    """Return the source of `path.py` or of one function or class in it, `path.py:name` or `path.py:Class.method`."""
    path, _, name = where.partition(":")
    text = (root / path).read_text(encoding="utf-8")
    if not name:
        return text.rstrip("\n")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        inner = {n.name: n for n in getattr(node, "body", []) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        if part not in inner:
            raise LookupError(f"there is no {name} in {path}")
        node = inner[part]
    lines = text.split("\n")[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]
    return "\n".join(line[node.col_offset :] for line in lines)  # type: ignore[attr-defined]


def _blank_bound(text: str) -> str:
    from galley.page import _written

    for bound in reversed(list(BOUND.finditer(text))):
        begin = bound.start() - len(_written(text[: bound.start()]))
        text = text[:begin] + re.sub(r"[^\n]", " ", text[begin : bound.end()]) + text[bound.end() :]
    return text


def _spaces(match) -> str:
    return re.sub(r"[^\n]", " ", match if isinstance(match, str) else match[0])


def _keep_decimals(formula: str, display: bool) -> str:
    """A formula's whole numbers define it; a decimal in a line of text is a result."""
    if display:
        return _spaces(formula)
    return re.sub(r"\d+\.\d+|.", lambda m: m[0] if len(m[0]) > 1 else " ", formula)
