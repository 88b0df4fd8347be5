r"""Check displayed formulas: a comment under each says which values of the page its names stand for.

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
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from galley.page import Page

FORMULA = re.compile(r"\$\$(?P<tex>.+?)\$\$(?P<gap>[.,;]?[\s>]*)(?P<comment><!--\s*formula\b.*?-->)?", re.S)
ANY = re.compile(r"<!--\s*formula\b.*?-->", re.S)
COMMENT = re.compile(
    r"<!--\s*formula(?:\s+(?P<kind>checked|reason)(?:\s+(?P<digest>[0-9a-f]{6}))?)?\s*:\s*(?P<body>.*?)\s*-->", re.S
)
SYMBOL = r"[A-Za-z]|\\[A-Za-z]+"
CALLED = re.compile(rf"\(\s*((?:{SYMBOL})(?:\s*,\s*(?:{SYMBOL}))*)\s*\)$")
BELOW = re.compile(rf"_((?:{SYMBOL})|\{{\s*(?:{SYMBOL})(?:[\s,]*(?:{SYMBOL}))*\s*\}})$")
EACH = re.compile(r"([^=]+?)\s+(in|runs)\s+(.+)", re.S)
BOUND = re.compile(r"([^=]*?)\s*(:?=)\s*(.+)", re.S)
GIVEN = {"np", "some"}  # what each binding may use besides the page's own names


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
        found, own = set[str](), set[str]()
        with contextlib.suppress(Unreadable):  # the check says what cannot be read
            for item in items(self.body) if self.kind == "read" else ():
                name, subscripts, arguments = head(item)
                found |= _used(item.expression, own | {identifier(part) for part in subscripts + arguments})
                own |= set() if item.how == "runs" else {identifier(name)}
        return found


def displayed(text: str, line: int) -> Iterator[Displayed]:
    """Yield the displayed formulas of Markdown that begins at `line`, with their comments; then lost ones."""
    line_of = lambda at: line + text.count("\n", 0, at)  # noqa: E731
    lost = {comment.start(): comment for comment in ANY.finditer(text)}
    for match in FORMULA.finditer(text):
        found = Displayed(_unquoted(match["tex"]).strip(), line_of(match.start()))
        if match["comment"]:
            begin, end = match.span("comment")
            found.line, found.span = line_of(begin), (line_of(begin) - 1, line_of(end))
            comment = COMMENT.fullmatch(match["comment"])
            found.kind = comment["kind"] or "read" if comment else "unreadable"
            found.body = _unquoted(comment["body"]) if comment else match["comment"]
            found.digest = (comment["digest"] or "") if comment else ""
            lost.pop(begin, None)
        yield found
    for comment in lost.values():
        yield Displayed("", line_of(comment.start()), "lost", comment[0])


def digest(tex: str) -> str:
    """Return a short name for a formula, whatever its spacing."""
    return hashlib.sha256(re.sub(r"\s+", "", tex).encode()).hexdigest()[:6]


def check(found: Iterable[Displayed]) -> Iterator[tuple[int, str]]:
    """Yield line and message of each displayed formula that nothing stands behind, or that was changed since."""
    for formula in found:
        if not formula.kind:
            advice = "bind its names under it, as in <!-- formula: n = 3; x_n = x[n] -->"
            yield formula.line, f"no check stands behind this formula: {short(formula.tex)}; {advice}"
        elif formula.kind == "lost":
            yield formula.line, f"no displayed formula stands right above {short(formula.body)}"
        elif formula.kind == "unreadable":
            forms = "formula: NAME = EXPRESSION; ..., formula checked: EXPRESSION, and formula reason: WHY"
            yield formula.line, f"cannot read {short(formula.body)}; there are {forms}"
        elif not formula.body and formula.kind != "read":
            yield formula.line, "say behind the colon what stands behind this formula"
        elif formula.kind != "read" and formula.digest != (now := digest(formula.tex)):
            was = "this formula changed" if formula.digest else "this formula has no digest yet"
            advice = f"see whether it still stands, then write formula {formula.kind} {now}:"
            yield formula.line, f"{was}, and behind it stands {short(formula.body)}; {advice}"


def tally(page: "Page") -> dict[str, int]:
    """Return how many displayed formulas of a page are read, checked by code, or have a reason for neither."""
    return dict(Counter(formula.kind for formula in page.displayed))


def step(formula: Displayed) -> dict:
    """Return what the page's process needs to know of a formula; its TeX is part of what makes the page run again."""
    return {
        "kind": formula.kind,
        "lang": "",
        "code": formula.body,
        "line": formula.line,
        "options": {"tex": formula.tex},
    }


def verdict(step: dict, scope: dict) -> list[str]:
    """Return what is wrong with a formula, evaluated in the page's names."""
    from galley import confirm  # the reader is needed where pages run

    if step["kind"] == "checked":
        return confirm.denies(step["code"], scope)
    return confirm.faults(step["options"]["tex"], step["code"], scope)


def items(body: str) -> Iterator[Item]:
    """Yield the items of a binding."""
    for text in filter(None, (part.strip() for part in re.split(r";(?:\s+|$)", body))):
        if found := re.fullmatch(r"(within|any|tight|spare)\b(.*)", text, re.S):
            yield Item(found[1], "", found[2].strip())
        elif found := re.fullmatch(r"from \S+ import (\w+)", text):
            yield Item("import", found[1], text)
        elif found := EACH.fullmatch(text) or BOUND.fullmatch(text):
            yield Item(found[2], found[1], found[3])
        else:
            raise Unreadable(f"cannot read {text!r}: bind a name by NAME = EXPRESSION, a result by = EXPRESSION")


def head(item: Item) -> tuple[str, list[str], list[str]]:
    r"""Split `B_h(\Delta)` into the name of a function, its subscripts and arguments, if the expression uses them."""
    name, used, found = item.name, _used(item.expression, set()), []
    for pattern in (CALLED, BELOW) if item.how == "=" else ():
        match = pattern.search(name)
        parts = re.findall(SYMBOL, match[1]) if match else []
        if match and any(identifier(part) in used for part in parts):
            name = name[: match.start()].strip()
            found.append(parts)
        else:
            found.append([])
    arguments, subscripts = found or ([], [])
    return name, subscripts, arguments


def identifier(tex: str) -> str:
    """Return the Python name under which later expressions find what is bound to this."""
    plain = re.sub(r"\\(?:mathrm|mathbf|mathbb|text|operatorname)|[\\{}\s]", "", tex).replace("'", "_prime")
    return plain if plain.isidentifier() else "_"


def short(text: str) -> str:
    """Return a text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 120 else f"{flat[:117]}..."


def _used(expression: str, own: set[str]) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(f"({expression}\n)", mode="eval")))
    except SyntaxError:
        return set()  # running it says so
    names = [node for node in nodes if isinstance(node, ast.Name)]
    stored = {node.arg for node in nodes if isinstance(node, ast.arg)}
    stored |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name.id for name in names} - stored - own - set(dir(builtins)) - GIVEN


def _unquoted(text: str) -> str:
    return re.sub(r"^\s*>\s?", "", text, flags=re.M)
