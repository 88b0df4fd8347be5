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
    tight                 the two sides of an inequality are equal here
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
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from galley.page import Page

FORMULA = re.compile(r"\$\$(?P<tex>.+?)\$\$(?P<gap>[.,;]?[\s>]*)(?P<comment><!--\s*formula\b.*?-->)?", re.S)
ANY = re.compile(r"<!--\s*formula\b.*?-->", re.S)
COMMENT = re.compile(
    r"<!--\s*formula(?:\s+(?P<kind>checked|reason)(?:\s+(?P<digest>[0-9a-f]{6}))?)?\s*:\s*(?P<body>.*?)\s*-->", re.S
)
GIVEN = {"np", "some"}  # what each binding may use besides the page's own names


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
        with contextlib.suppress(ValueError):  # the check says what cannot be read
            for name, expression in _items(self.body) if self.kind == "read" else ():
                if name.startswith("import "):
                    own.add(name[7:])
                    continue
                head, subscripts, arguments = _head(re.sub(r"^(in|runs) |\s*:$", "", name), expression)
                found |= _used(expression, own | {_identifier(part) for part in subscripts + arguments})
                own |= set() if name.startswith("runs ") else {_identifier(head)}
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
            yield formula.line, f"no check stands behind this formula: {_short(formula.tex)}; {advice}"
        elif formula.kind == "lost":
            yield formula.line, f"no displayed formula stands right above {_short(formula.body)}"
        elif formula.kind == "unreadable":
            forms = "formula: NAME = EXPRESSION; ..., formula checked: EXPRESSION, and formula reason: WHY"
            yield formula.line, f"cannot read {_short(formula.body)}; there are {forms}"
        elif not formula.body and formula.kind != "read":
            yield formula.line, "say behind the colon what stands behind this formula"
        elif formula.kind != "read" and formula.digest != (now := digest(formula.tex)):
            was = "this formula changed" if formula.digest else "this formula has no digest yet"
            advice = f"see whether it still stands, then write formula {formula.kind} {now}:"
            yield formula.line, f"{was}, and behind it stands {_short(formula.body)}; {advice}"


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
    import numpy as np

    scope = {"np": np, **scope, "some": _some()}
    if step["kind"] == "checked":
        holds = eval(compile(f"({step['code']})", "formula", "eval"), scope)
        return [] if bool(np.all(holds)) else [f"{step['code']} gives {_short(str(holds))}, and should be true"]
    return list(_read(step["options"]["tex"], step["code"], scope))


def _read(tex: str, body: str, scope: dict) -> Iterator[str]:
    from galley import tex as reader
    from galley.values import Values

    advice = "bind it otherwise, or confirm it by code: <!-- formula checked: EXPRESSION -->"
    try:
        points = list(_points(list(_items(body)), scope, {}, {"any": frozenset()}))
        statements = reader.read(tex, points[0][0])
        for statement in statements:
            if len(statement.args) == 1 and "=" not in points[0][1]:
                yield f"{_short(reader.show(statement))} states no relation; say what it equals: = EXPRESSION"
                return
            for bound, ways in points:
                if not _right(statement, bound, ways):
                    sides = " and ".join(_short(str(Values(bound).of(side))) for side in statement.args[::2])
                    given = f", and should be {_short(str(ways['=']))}" if "=" in ways else ""
                    yield f"this does not hold: {_short(reader.show(statement))}; its sides are {sides}{given}"
                    return
        unnoticed = [
            f"the check would not notice {what} in {_short(reader.show(statement))}; choose other values"
            for statement in statements
            for what, mutant in reader.mutants(statement, points[0][1]["any"])
            if all(_passes(mutant, *point) for point in points)
        ]
        if len(unnoticed) != (spared := points[0][1].get("spare", 0)):
            yield from unnoticed
            if spared:
                yield f"{spared} changes are spared, and {len(unnoticed)} make no difference"
        for bound, ways in points:
            for name in ways["any"]:
                if not all(_right(statement, {**bound, name: bound[name] + 1}, ways) for statement in statements):
                    yield f"this holds for some {reader.shown(name)} alone, not for any"
                    return
    except reader.Unreadable as error:
        yield f"{error}; {advice}"
    except NameError:
        raise  # a block further down may define it
    except Exception as error:
        yield f"{type(error).__name__}: {error}; {advice}"


def _right(statement, bound: dict, ways: dict) -> bool:
    """Whether a statement holds; what is no equation, has the value that the binding gives."""
    import numpy as np

    from galley.values import CLOSE, Values, same

    values, within = Values(bound), ways.get("within", 0.0)
    equation = len(statement.args) > 1 and set(statement.args[1::2]) <= {"=", "~", "propto"}
    if "=" not in ways or equation:
        return bool(np.all(values.truth(statement, within, "tight" in ways)))
    result = values.of(statement.args[0]) if len(statement.args) == 1 else values.truth(statement)
    return same(result, ways["="], within or CLOSE)


def _passes(mutant, bound: dict, ways: dict) -> bool:
    import numpy as np

    try:
        with np.errstate(all="ignore"):
            return _right(mutant, bound, ways)
    except Exception:
        return False  # what cannot be worked out does not pass


def _points(items: list[tuple[str, str]], scope: dict, values: dict, ways: dict) -> Iterator[tuple[dict, dict]]:
    """Evaluate a binding; yield the values by name and the other items, for each value of the names bound by `in`."""
    from galley.tex import Derived, Pattern, Unreadable, shown, tokens
    from galley.values import plain

    if not items:
        if missing := ways["any"] - values.keys():
            raise Unreadable(f"any {shown(min(missing))}: bind it first")
        yield values, ways
        return
    (name, expression), *rest = items
    if name in ("within", "tight", "any", "spare"):
        how = {"any": lambda text: frozenset(map(tokens, text.split(","))), "spare": int, "tight": bool}.get(
            name, float
        )
        yield from _points(rest, scope, values, ways | {name: how(expression)})
    elif name.startswith("in "):
        head = name[3:]
        for value in _value(expression, scope):
            yield from _points(rest, scope | {_identifier(head): value}, values | {tokens(head): plain(value)}, ways)
    elif name.startswith("import "):
        exec(expression, scope := dict(scope))
        yield from _points(rest, scope, values, ways)
    elif name.endswith(":"):
        head = name[:-1].strip()
        derived = _derived(expression, scope)
        yield from _points(
            rest, scope | {_identifier(head): derived({})}, values | {tokens(head): Derived(derived)}, ways
        )
    elif name.startswith("runs "):
        key = ("runs", *tokens(name[5:]))
        yield from _points(rest, scope, values | {key: plain(_value(expression, scope))}, ways)
    else:
        head, subscripts, arguments = _head(name, expression)
        if subscripts or arguments:
            parameters = ", ".join(map(_identifier, (*subscripts, *arguments)))
            value = _value(f"lambda {parameters}: ({expression}\n)", scope)
            known = Pattern(value, len(subscripts), len(arguments))
        else:
            value = _value(expression, scope)
            known = plain(value)
        more = {tokens(head): known} if name else {}
        yield from _points(
            rest, scope | {_identifier(head): value}, values | more, ways if name else ways | {"=": known}
        )


def _derived(expression: str, scope: dict) -> Callable:
    def call(indices: dict):
        return _value(expression, scope | {_identifier("".join(key)): value for key, value in indices.items()})

    return call


def _value(expression: str, scope: dict):
    return eval(compile(f"({expression}\n)", "formula", "eval"), scope)


def _items(body: str) -> Iterator[tuple[str, str]]:
    """Yield name and expression of each item; the name of `= EXPRESSION` is empty."""
    for item in re.split(r";(?:\s+|$)", body):
        if not item.strip():
            continue
        if word := re.fullmatch(r"(within|any|tight|spare)\b\s*(.*)", item.strip(), re.S):
            yield word[1], word[2]
            continue
        if each := re.fullmatch(r"([^=]+?)\s+(in|runs)\s+(.+)", item.strip(), re.S):
            yield f"{each[2]} {each[1]}", each[3]
            continue
        if imported := re.fullmatch(r"from \S+ import (\w+)", item.strip()):
            yield f"import {imported[1]}", item.strip()
            continue
        name, equals, expression = item.partition("=")
        if not equals or not expression.strip():
            from galley.tex import Unreadable

            raise Unreadable(
                f"cannot read {item.strip()!r}: bind a name by NAME = EXPRESSION, a result by = EXPRESSION"
            )
        yield name.strip(), expression.strip()


GROUP = r"[A-Za-z]|\\[A-Za-z]+"
CALLED = re.compile(rf"\(\s*((?:{GROUP})(?:\s*,\s*(?:{GROUP}))*)\s*\)$")
BELOW = re.compile(rf"_(?:({GROUP})|\{{\s*((?:{GROUP})(?:[\s,]*(?:{GROUP}))*)\s*\}})$")


def _head(name: str, expression: str) -> tuple[str, list[str], list[str]]:
    r"""Split `B_h(\Delta)` into the name of a function, its subscripts and arguments, if the expression uses them."""
    used = _used(expression, set())
    arguments, subscripts = [], []
    if (match := CALLED.search(name)) and (parts := re.findall(GROUP, match[1])) and _parameters(parts, used):
        name, arguments = name[: match.start()], parts
    if (
        (match := BELOW.search(name))
        and (parts := re.findall(GROUP, match[1] or match[2]))
        and _parameters(parts, used)
    ):
        name, subscripts = name[: match.start()], parts
    return name.strip(), subscripts, arguments


def _parameters(parts: list[str], used: set[str]) -> bool:
    return any(_identifier(part) in used for part in parts)


def _identifier(tex: str) -> str:
    """Return the Python name under which later expressions find what is bound to this."""
    plain = re.sub(r"\\(?:mathrm|mathbf|mathbb|text|operatorname)|[\\{}\s]", "", tex).replace("'", "_prime")
    return plain if plain.isidentifier() else "_"


def _used(expression: str, own: set[str]) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(f"({expression}\n)", mode="eval")))
    except SyntaxError:
        return set()  # running it says so
    stored = {node.arg for node in nodes if isinstance(node, ast.arg)}
    stored |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    loaded = {node.id for node in nodes if isinstance(node, ast.Name)}
    return loaded - stored - own - set(dir(builtins)) - GIVEN


def _some():
    """Return a function that gives arrays of a shape, none like the last: numbers of either sign, none near 0."""
    import numpy as np

    count = itertools.count()

    def some(*shape: int):
        random = np.random.default_rng(next(count))
        return random.uniform(0.3, 1.7, shape) * random.choice([-1, 1], shape)

    return some


def _unquoted(text: str) -> str:
    return re.sub(r"^\s*>\s?", "", text, flags=re.M)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 120 else f"{flat[:117]}..."
