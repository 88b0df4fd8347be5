r"""Confirm a displayed formula on the values of its page: read its binding, work it out, and change it in every place.

What a binding may hold stands in `read/formula.py`. A binding is evaluated at one or more points; a statement of the
formula has to hold at all of them, and each of its mutants has to fail at one.
"""

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from galley.read.formula import Item, Unreadable, head, identifier, items, short
from galley.read.tex import Derived, Node, Pattern, mutants, read, show, shown, tokens
from galley.run.formula_values import CLOSE, Values, plain, same

# How the text behind the first word of an item is read, for items that say how a formula is to hold.
WAYS: dict[str, Callable] = {
    "within": float,
    "spare": int,
    "tight": lambda _: True,
    "any": lambda text: frozenset(map(tokens, text.split(","))),
}
EQUATIONS = {"=", "~", "propto"}
ADVICE = "bind it otherwise, or confirm it by code: <!-- formula checked: EXPRESSION -->"


def faults(tex: str, body: str, scope: dict) -> list[str]:
    """Return what is wrong with a formula that is read, or with its binding, in the names of the page."""
    scope = {"np": np, **scope, "some": _some()}
    try:
        points = list(_points(list(items(body)), scope, {}, {"any": frozenset()}))
        return list(_faults(read(tex, points[0][0]), points))
    except Unreadable as error:
        return [f"{error}; {ADVICE}"]
    # A block further down may define the name: the worker tries again when it has run.
    except NameError:
        raise
    except Exception as error:
        return [f"{type(error).__name__}: {error}; {ADVICE}"]


def denies(code: str, scope: dict) -> list[str]:
    """Return what is wrong with the code that stands for a formula: nothing, where it is true."""
    value = _value(code, {"np": np, **scope, "some": _some()})
    return [] if bool(np.all(value)) else [f"{code} gives {short(str(value))}, and should be true"]


def _faults(statements: list[Node], points: list[tuple[dict, dict]]) -> Iterator[str]:
    ways = points[0][1]
    for statement in statements:
        if len(statement.args) == 1 and "=" not in ways:
            yield f"{short(show(statement))} states no relation; say what it equals: = EXPRESSION"
            return
        if not _holds(statement, points):
            yield _where(statement, points)
            return
    # A formula that holds is of no use where a wrong one would hold too.
    unnoticed = [
        f"the check would not notice {what} in {short(show(statement))}; choose other values"
        for statement in statements
        for what, mutant in mutants(statement, ways["any"])
        if _survives(mutant, points)
    ]
    spared = ways.get("spare", 0)
    if len(unnoticed) != spared:
        yield from unnoticed
        if spared:
            yield f"{spared} changes are spared, and {len(unnoticed)} make no difference"
    for name in ways["any"]:
        # Names worked out from this one keep their values, so only a formula in which it cancels still holds.
        moved = [({**bound, name: bound[name] + 1}, ways) for bound, ways in points]
        if not all(_holds(statement, moved) for statement in statements):
            yield f"this holds for some {shown(name)} alone, not for any"


def _holds(statement: Node, points: list[tuple[dict, dict]]) -> bool:
    """Whether a statement holds at all points; if it is tight, as an equality at one, and in earnest at another."""
    if not all(_right(statement, *point) for point in points):
        return False
    if "tight" not in points[0][1] or set(statement.args[1::2]) <= EQUATIONS:
        return True
    # The same sides as an equality: in a chain the strings are the relations.
    equality = Node("chain", tuple("~" if isinstance(part, str) else part for part in statement.args))
    equal = [np.all(Values(bound).truth(equality, ways.get("within", 0.0))) for bound, ways in points]
    return any(equal) and not all(equal)


def _right(statement: Node, bound: dict, ways: dict) -> bool:
    """Whether a statement holds at one point; what is no equation may have to equal what the binding says."""
    values, within = Values(bound), ways.get("within", 0.0)
    if "=" not in ways or (len(statement.args) > 1 and set(statement.args[1::2]) <= EQUATIONS):
        return bool(np.all(values.truth(statement, within, "tight" in ways)))
    # For an inequality the binding says where it is true; for a lone expression, what it equals.
    result = values.of(statement.args[0]) if len(statement.args) == 1 else values.truth(statement)
    return same(result, ways["="], within or CLOSE)


def _survives(mutant: Node, points: list[tuple[dict, dict]]) -> bool:
    """Whether a changed formula still holds, so that nobody would notice the change."""
    try:
        # A change may well divide by zero: that is noticed, and no warning of the page.
        with np.errstate(all="ignore"):
            return _holds(mutant, points)
    except Exception:
        # What cannot be worked out does not hold.
        return False


def _where(statement: Node, points: list[tuple[dict, dict]]) -> str:
    """Say at which values a statement does not hold."""
    for bound, ways in points:
        if not _right(statement, bound, ways):
            sides = " and ".join(short(str(Values(bound).of(side))) for side in statement.args[::2])
            expected = f", and should be {short(str(ways['=']))}" if "=" in ways else ""
            return f"this does not hold: {short(show(statement))}; its sides are {sides}{expected}"
    both = "equal at one of its points, and at another not: bind a name by NAME in VALUES"
    return f"the sides of {short(show(statement))} should be {both}"


def _points(rest: list[Item], scope: dict, bound: dict, ways: dict) -> Iterator[tuple[dict, dict]]:
    """Evaluate a binding: yield values by name and the other items, for each value of the names that are `in` some."""
    if not rest:
        if missing := ways["any"] - bound.keys():
            raise Unreadable(f"any {shown(min(missing))}: bind it first")
        yield bound, ways
        return
    item, *rest = rest
    name, subscripts, arguments = head(item)
    if item.how in WAYS:
        yield from _points(rest, scope, bound, ways | {item.how: WAYS[item.how](item.expression)})
    elif item.how == "import":
        # The page's own names are left as they are.
        scope = dict(scope)
        exec(item.expression, scope)
        yield from _points(rest, scope, bound, ways)
    elif item.how == "runs":
        values = plain(_value(item.expression, scope))
        yield from _points(rest, scope, bound | {("runs", *tokens(name)): values}, ways)
    elif not name:
        yield from _points(rest, scope, bound, ways | {"=": plain(_value(item.expression, scope))})
    else:
        for value, known in _meanings(item, subscripts, arguments, scope):
            yield from _points(rest, scope | {identifier(name): value}, bound | {tokens(name): known}, ways)


def _meanings(item: Item, subscripts: list[str], arguments: list[str], scope: dict) -> Iterator[tuple]:
    """Yield what later expressions and the formula know by a name: a value, a function, or several values in turn."""
    if item.how == "in":
        yield from ((value, plain(value)) for value in _value(item.expression, scope))
    elif item.how == ":=":
        # Within a sum the formula asks for it with the indices of the moment; elsewhere those of the binding hold.
        def follow(local: dict):
            return _value(item.expression, scope | {identifier("".join(key)): local[key] for key in local})

        yield follow({}), Derived(follow)
    elif subscripts or arguments:
        parameters = ", ".join(map(identifier, (*subscripts, *arguments)))
        function = _value(f"lambda {parameters}: ({item.expression}\n)", scope)
        yield function, Pattern(function, len(subscripts), len(arguments))
    else:
        value = _value(item.expression, scope)
        yield value, plain(value)


def _value(expression: str, scope: dict):
    # The parentheses let an expression go over several lines, the line end lets it close with a Python comment.
    return eval(compile(f"({expression}\n)", "formula", "eval"), scope)


def _some():
    """Return a function that gives arrays of a shape, none like the last: numbers of either sign, none near 0."""
    count = itertools.count()

    def some(*shape: int):
        # A seed of its own makes each array unlike the last, and the same at every run.
        random = np.random.default_rng(next(count))
        return random.uniform(0.3, 1.7, shape) * random.choice([-1, 1], shape)

    return some
