r"""Read displayed formulas: a comment under each says which values of the page its names stand for.

    <!-- formula: d = 8; b = 10_000; \theta_i = theta[i] -->         read: both sides are worked out and compared
    <!-- formula checked 3f09ab: np.allclose(a, b) -->               code of the page confirms what cannot be read
    <!-- formula reason 3f09ab: it names the parts of a row -->      there is nothing to compute

The names of a formula that is read are bound to expressions of the page: `\theta_i` to a value, or, if `i` stands in
the expression, to a function of i. Each expression may use `np`, the names bound before it, and `some(4, 8)`: an array
of that shape with numbers unlike any others. Further items:

    \Delta in range(9)    the formula holds for each of these values
    n runs range(9)       a sum over n, or a maximum, goes over these; elsewhere n keeps its own value
    \Delta := m - n       a name that goes along with the n of a sum
    from M import f       another function for the expressions behind it
    = EXPRESSION          what a formula without a relation equals, or for which values an inequality is true
    within 0.01           the largest relative error of an approximation
    tight                 the two sides of an inequality are equal at one of the points, and at another they are not
    any p                 the formula holds whatever p is
    spare 2               so many of the changes below change nothing, by mathematics and not for want of values

Then every sign, number, name and function in the formula is changed in turn, and each change must make it fail: else
the values that were chosen would hide an error. The digest of the other two kinds is that of the formula: who changes
one has to look at the other.
"""

import ast
import builtins
import contextlib
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# Between a formula and its comment may stand what ends the sentence, blank lines, and the > of a quote.
FORMULA = re.compile(r"\$\$(?P<tex>.+?)\$\$[.,;]?[\s>]*(?P<comment><!--\s*formula\b.*?-->)?", re.S)
# A comment that only begins like one is found too, so that a misspelled kind is refused and not overlooked.
ANY_COMMENT = re.compile(r"<!--\s*formula\b.*?-->", re.S)
COMMENT = re.compile(
    r"<!--\s*formula(?:\s+(?P<kind>checked|reason)(?:\s+(?P<digest>[0-9a-f]{6}))?)?\s*:\s*(?P<body>.*?)\s*-->", re.S
)
SYMBOL = r"[A-Za-z]|\\[A-Za-z]+"
ARGUMENTS = re.compile(rf"\(\s*((?:{SYMBOL})(?:\s*,\s*(?:{SYMBOL}))*)\s*\)$")
SUBSCRIPTS = re.compile(rf"_((?:{SYMBOL})|\{{\s*(?:{SYMBOL})(?:[\s,]*(?:{SYMBOL}))*\s*\}})$")
# No = stands before the `in` of a range: `a = [n for n in rows]` has one too, and binds a value.
RANGE_ITEM = re.compile(r"([^=]+?)\s+(in|runs)\s+(.+)", re.S)
VALUE_ITEM = re.compile(r"([^=]*?)\s*(:?=)\s*(.+)", re.S)
PREDEFINED = {"np", "some"}  # what each binding may use besides the page's own names


class Unreadable(ValueError):
    """A formula, or its binding, that cannot be read; the message names the part."""


class Item(NamedTuple):
    """A part of a binding: `=`, `:=`, `in`, `runs`, `import`, `within`, `any`, `tight` or `spare`."""

    how: str
    name: str
    expression: str


@dataclass
class Displayed:
    """A displayed formula and what is said to stand behind it: `read`, `checked`, `reason`, or nothing."""

    tex: str
    line: int
    kind: str = ""
    body: str = ""
    digest: str = ""
    span: tuple[int, int] = (0, 0)  # the lines of the comment, half-open, from 0

    @property
    def runs(self) -> bool:
        """Whether something is to be evaluated."""
        return self.kind in ("read", "checked")

    @property
    def names(self) -> set[str]:
        """The page's names that the binding uses."""
        if self.kind == "checked":
            return _used(self.body, set())
        if self.kind != "read":
            return set()
        used, bound = set[str](), set[str]()
        # The check of the formula names an item that cannot be read; here it only ends the list.
        with contextlib.suppress(Unreadable):
            for item in items(self.body):
                name, subscripts, arguments = head(item)
                parameters = {identifier(part) for part in subscripts + arguments}
                used |= _used(item.expression, bound | parameters)
                # What an index runs over is known to the sums of the formula alone, and to no later expression.
                if item.how != "runs":
                    bound.add(identifier(name))
        return used


def displayed(text: str, line: int) -> Iterator[Displayed]:
    """Yield the displayed formulas of Markdown that begins at `line`, with their comments; then lost ones."""
    line_of = lambda at: line + text.count("\n", 0, at)  # noqa: E731
    # A comment counts as lost until a formula directly above it claims it.
    lost = {comment.start(): comment for comment in ANY_COMMENT.finditer(text)}
    for match in FORMULA.finditer(text):
        formula = Displayed(_unquoted(match["tex"]).strip(), line_of(match.start()))
        if match["comment"]:
            begin, end = match.span("comment")
            # Problems are reported at the comment, where a binding is mended; without one, at the formula.
            formula.line = line_of(begin)
            formula.span = (line_of(begin) - 1, line_of(end))
            _read_comment(formula, match["comment"])
            lost.pop(begin, None)
        yield formula
    for comment in lost.values():
        yield Displayed("", line_of(comment.start()), "lost", comment[0])


def _read_comment(formula: Displayed, comment: str) -> None:
    """Note in a formula what its comment says; one that cannot be read is kept whole, for the check to quote."""
    match = COMMENT.fullmatch(comment)
    if not match:
        formula.kind = "unreadable"
        formula.body = comment
        return
    formula.kind = match["kind"] or "read"
    formula.body = _unquoted(match["body"])
    formula.digest = match["digest"] or ""


def digest(tex: str) -> str:
    """Return a short name for a formula, whatever its spacing."""
    return hashlib.sha256(re.sub(r"\s+", "", tex).encode()).hexdigest()[:6]


def items(body: str) -> Iterator[Item]:
    """Yield the items of a binding."""
    # A semicolon divides items where a space or the end follows it; any other is part of an item.
    for text in filter(None, (part.strip() for part in re.split(r";(?:\s+|$)", body))):
        if match := re.fullmatch(r"(within|any|tight|spare)\b(.*)", text, re.S):
            yield Item(match[1], "", match[2].strip())
        elif match := re.fullmatch(r"from \S+ import (\w+)", text):
            yield Item("import", match[1], text)
        elif match := RANGE_ITEM.fullmatch(text) or VALUE_ITEM.fullmatch(text):
            yield Item(match[2], match[1], match[3])
        else:
            raise Unreadable(f"cannot read {text!r}: bind a name by NAME = EXPRESSION, a result by = EXPRESSION")


def head(item: Item) -> tuple[str, list[str], list[str]]:
    r"""Split `B_h(\Delta)` into the name of a function, its subscripts and arguments, if the expression uses them."""
    if item.how != "=":
        return item.name, [], []
    used = _used(item.expression, set())
    # The arguments stand behind the subscripts, and both patterns look at the end of the name.
    name, arguments = _split_parameters(ARGUMENTS, item.name, used)
    name, subscripts = _split_parameters(SUBSCRIPTS, name, used)
    return name, subscripts, arguments


def _split_parameters(pattern: re.Pattern, name: str, used: set[str]) -> tuple[str, list[str]]:
    """Split off the symbols that `pattern` finds at the end of a name; it is whole where the expression uses none."""
    match = pattern.search(name)
    symbols = re.findall(SYMBOL, match[1]) if match else []
    # The subscript of `W_Q` is part of a name, since no expression computes with Q.
    if match and any(identifier(symbol) in used for symbol in symbols):
        return name[: match.start()].strip(), symbols
    return name, []


def identifier(tex: str) -> str:
    """Return the Python name under which later expressions find what is bound to this."""
    # What Python cannot spell, such as `q^K`, becomes `_`: the formula knows it, and no expression needs it.
    plain = re.sub(r"\\(?:mathrm|mathbf|mathbb|text|operatorname)|[\\{}\s]", "", tex).replace("'", "_prime")
    return plain if plain.isidentifier() else "_"


def short(text: str) -> str:
    """Return a text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 120 else f"{flat[:117]}..."


def _used(expression: str, known: set[str]) -> set[str]:
    """Return the names that an expression takes from the page, beside those that are `known`."""
    try:
        # The parentheses let it go over several lines, and the line end keeps a Python comment from hiding the last.
        nodes = list(ast.walk(ast.parse(f"({expression}\n)", mode="eval")))
    except SyntaxError:
        # The error is reported where the expression is evaluated.
        return set()
    names = [node for node in nodes if isinstance(node, ast.Name)]
    # What a lambda or a comprehension binds is its own.
    stored = {node.arg for node in nodes if isinstance(node, ast.arg)}
    stored |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - stored - known - set(dir(builtins)) - PREDEFINED


def _unquoted(text: str) -> str:
    """Return a text without the > of a Markdown quote at the head of each line."""
    return re.sub(r"^\s*>\s?", "", text, flags=re.M)
