"""Compare what a page shows with what its code gives, number by number; and list what no code stands behind."""

import ast
import difflib
import re
from typing import TYPE_CHECKING

from galley import bibliography, formulas, katex, names
from galley.number import LEAST_FACTOR, ROUNDING, holds, in_sentence, loose, printed, read, residues, rounding, same
from galley.page import (
    BOUND,
    CODE_SPAN,
    COMMENT,
    DISPLAY,
    INLINE,
    LINK,
    Block,
    Number,
    Page,
    Problem,
    bound_token,
)

if TYPE_CHECKING:
    from galley.book import Book

LARGEST_FIGURE = 150_000  # bytes
MOST_LINES = 24  # of a difference
LIVE = "assets/js/figures"  # where the scripts of live figures lie
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
    r"|(?:more|less|fewer)(?! than {9})"  # a bound number, blanked here, says how much
    r"|(?:larg|bigg|small|high|low|fast|slow|long|short|near|clos|wid|narrow|steep|flatt|strong|weak)(?:er|est)|farther|farthest)\b",
    re.I,
)


def check_results(page: Page, outcomes: list[dict]) -> list[Problem]:
    """Return what went wrong while the page ran, and where it shows something else than its code gives."""
    found: list[Problem] = []
    if outcomes and not all(outcomes) and not any(outcome.get("error") for outcome in outcomes):
        found.append(Problem(page.steps[outcomes.index({})].line, "this never ran, and nothing says why"))
    for step, outcome in zip(page.steps, outcomes, strict=False):
        if outcome.get("error"):
            found.append(Problem(outcome["error_line"] or step.line, outcome["error"]))
        elif not outcome:
            continue  # the page ended before it
        elif isinstance(step, Number):
            found += _number(step, outcome["value"])
        elif isinstance(step, formulas.Displayed):
            found += [Problem(step.line, wrong) for wrong in outcome["wrong"]]
        else:
            found += _block(step, outcome) + _words(step, outcome)
    return found


def check_static(page: Page, book: "Book") -> list[Problem]:
    """Return what is wrong whatever the code gives: sources, quotations, formulas, unbound numbers."""
    found = [problem for block in page.blocks for problem in _options(block, book)]
    drawn = [figure for block in page.blocks for figure in block.figures]
    for n, figure in enumerate(drawn):
        if any(figure.src == other.src for other in drawn[:n]):
            found.append(Problem(figure.line, f"{figure.src} is the name of another figure too"))
    found += bibliography.check(page, book.bibliography) + bibliography.check_labels(page, book.bibliography)
    found += [Problem(line, problem) for line, problem in katex.check(page.formulas, book.folder)]
    found += [Problem(line, problem) for line, problem in formulas.check(page.displayed)]
    found += [Problem(line, problem) for line, problem in names.check(page)]
    for line, text in unbound(page):
        found.append(Problem(line, f"no code stands behind {text}: bind it, cite it, or mark it <!-- given -->"))
    for figure in drawn:
        for word in VERDICT.findall(COMMENT.sub("", _blank_bound(figure.caption))):
            advice = f"bind it, as in <!-- = last > first and {word!r} -->, or say what is drawn"
            found.append(Problem(figure.line + 1, f"no comparison stands behind {word!r} in this caption: {advice}"))
    return found


def _options(block: Block, book: "Book") -> list[Problem]:
    found: list[Problem] = []
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
    return found


def unbound(page: Page) -> list[tuple[int, str]]:
    """Return line and text of each number in a sentence that no expression computes and no source is cited for."""
    found = []
    for start, text in page.prose:
        bare = _blank_bound(text)
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
                found.append((start + 1 + bare.count("\n", 0, match.start()), " ".join(match[0].split())))
    return found


def _block(block: Block, outcome: dict) -> list[Problem]:
    found = [Problem(block.line, f"the block warns: {warning}") for warning in outcome.get("warnings", [])]
    given, shown = outcome["stdout"].rstrip(), block.output
    if block.lang == "python" and not shows(block, outcome):
        line = block.output_span[0] if block.output_span else block.span[1]
        difference = _difference(shown or "", given)
        found.append(Problem(line + 1, f"output differs\n{difference}"))
    return found + _tolerance(block, given) + _figures(block, outcome["figures"])


def shows(block: Block, outcome: dict) -> bool:
    """Whether a page shows what a block printed. Of an error that a library words, its name alone is compared."""
    shown, given = block.output or "", outcome["stdout"].rstrip()
    if block.output_is_built:
        return bool(given)
    if name := outcome.get("foreign"):
        shown, given = (re.sub(rf"(?ms)^{name}: .*\Z", name, text) for text in (shown, given))
    return same(shown, given, block.tolerance)


def _difference(shown: str, given: str) -> str:
    """Return the lines that differ, each with a line around it, and how many more there are."""
    before, after = ((text.strip("\n") or "(nothing)").split("\n") for text in (shown, given))
    lines = list(difflib.unified_diff(before, after, "the page shows", "the code prints", n=1, lineterm=""))
    more = len(lines) - MOST_LINES
    if more > 0:
        lines[MOST_LINES:] = [f"... {more} more lines of this difference"]
    return "\n".join(lines)


def _tolerance(block: Block, given: str) -> list[Problem]:
    """Return where a block states a wider tolerance than it needs, or none for what machines round differently."""
    found: list[Problem] = []
    bound = block.tolerance.residue
    largest = max(residues(given, bound), default=0.0)
    if bound > ROUNDING * largest:
        loose_residue = f"residue={bound:g} is loose: the largest number that it covers is {largest:g}"
        found.append(Problem(block.line, loose_residue, lint=True))
    unstated = [number for number in rounding(given, block.tolerance) if number not in block.code]
    if unstated and block.lang == "python":
        advice = f"print a power of ten and state factor=10, or state factor={LEAST_FACTOR:g} or residue="
        digit = f"{unstated[0]} looks like this machine's rounding error: {advice}"
        found.append(Problem(block.line, digit, lint=True))
    return found


def _figures(block: Block, svgs: list[str]) -> list[Problem]:
    found = [Problem(f.line, f"{f.src} has no alternative text") for f in block.figures if not f.alt.strip()]
    if len(svgs) != len(block.figures):
        counts = f"the block draws {len(svgs)} figure(s), and {len(block.figures)} image line(s) follow it"
        found.append(Problem(block.line, counts))
    for drawn, svg in zip(block.figures, svgs, strict=False):
        if (size := len(svg.encode())) > LARGEST_FIGURE and not block.options.get("large"):
            advice = 'use imshow or fewer points, or say why: large="…"'
            said = f"{drawn.src} has {size:,} bytes, of {LARGEST_FIGURE:,}; {advice}"
            found.append(Problem(drawn.line, said, lint=True))
    return found


def _words(block: Block, outcome: dict) -> list[Problem]:
    """A number in a figure's words for those who cannot see it must stand in its block, its drawing or its caption."""
    found = []
    for drawn, svg in zip(block.figures, outcome["figures"], strict=False):
        labels = re.findall(r">([^<>]*)</t", svg)
        seen = {text for part in (block.code, outcome["stdout"], drawn.caption, *labels) for text in _digits(part)}
        for text in _digits(_blank_free(drawn.alt)):
            if text not in seen:
                where = "stands neither in its block nor in the figure or its caption"
                advice = "show it there too, or say it in words"
                found.append(Problem(drawn.line, f"{text} in {drawn.src}'s words {where}; {advice}"))
    return found


def _blank_free(text: str) -> str:
    for pattern in FREE:
        text = pattern.sub(_spaces, text)
    return text


def _digits(text: str) -> list[str]:
    """Return the numbers of a text without sign and commas, counts up to ten left out."""
    plain = text.replace("{,}", ",").replace("_", ",").replace("−", "-")
    numbers = (number.lstrip("+-").replace(",", "").rstrip(".") for number in printed(re.sub(r"(?<=\w)-", " ", plain)))
    return [number for number in numbers if not COUNT.fullmatch(number)]


def _number(number: Number, value) -> list[Problem]:
    if not number.written:
        return []
    said = f"{number.written} stands here"
    if value is True and number.written.strip("`") not in ("True", "False"):
        word = number.written.strip("*")
        form = f"<!-- = {number.body} and {word!r} -->"
        return [Problem(number.line, f"{said}, and {number.body} would bear any word; name it: {form}")]
    if isinstance(value, str | bool):
        return [] if _says(number, str(value)) else [Problem(number.line, f"{said}; {number.body} gives {value}")]
    try:
        shown = [read(text) for text in parts(number.written)]
    except ValueError:
        return [Problem(number.line, f"{said}, which is no number; {number.body} gives {value}")]
    if len(shown) != len(value):
        return [Problem(number.line, f"{said}: {len(shown)} number(s); {number.body} gives {len(value)}")]
    gives = f"{number.body} gives {', '.join(f'{v:.10g}' for v in value)}"
    if not all(holds(number.operator, part, given) for part, given in zip(shown, value, strict=True)):
        relation = "" if number.operator == "=" else f", and should be {number.operator} it"
        return [Problem(number.line, f"{said}{relation}; {gives}")]
    if number.operator != "=" and not number.why:
        far = any(loose(part.value, given) for part, given in zip(shown, value, strict=True))
        advice = f"tighten it, or say why: <!-- {number.operator} {number.body} # … -->"
        if far:
            return [Problem(number.line, f"{said} as a bound, and {gives}: it is loose; {advice}", lint=True)]
    return []


def _says(number: Number, value: str) -> bool:
    """Whether what stands before a binding is `value`: a marked phrase whole, or as many words as it has."""
    return number.written.strip("`*$ ") == value or number.before.endswith(value)


def parts(written: str) -> list[str]:
    """Return the numbers of what a binding belongs to: one, or those of a phrase, a formula or a code span."""
    if written[0] in "`$*":
        plain = re.sub(r"[$*`]", " ", written.replace("{,}", ","))
        return printed(TEN_TO.sub(lambda m: f"{m['factor'] or 1}e{m['power']}", plain))
    return [written]


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
