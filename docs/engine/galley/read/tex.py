r"""Read a displayed formula as what it says, and work it out on values: numbers, vectors, matrices, functions.

A formula is split into statements, such as `a = b \le c`, and each side is read into a tree. Names are whatever the
caller binds: `\theta_i`, `W_Q`, `\mathrm{PE}(p)`. A juxtaposition binds tighter than a dot or a
slash. `mutants` yields the same statements with one sign, number, bound, name or function
changed: a check that does not tell them apart confirms nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from galley.read.formula import Unreadable

TOKEN = re.compile(
    r"\\begin\{[a-z]+\*?\}|\\end\{[a-z]+\*?\}|\\text(?:bf|it|rm)?\{[^{}]*\}"
    r"|\\(?:mathrm|mathbf|mathbb|mathcal|operatorname\*?)\s*(?:\{[^{}]*\}|[a-zA-Z])"
    r"|\\\\(?:\[[^\]]*\])?|\\[a-zA-Z]+|\\.|\d+(?:\{,\}\d+)*(?:\.\d+)?|\S"
)
SPACING = {r"\,", r"\;", r"\:", r"\!", r"\ ", "~"}
ROWS = re.compile(r"\{(?:aligned|gathered|split)\}")
UPRIGHT = re.compile(r"\\(?:operatorname\*?|mathrm)\s*\{?([a-zA-Z]+)\}?$")
SIZES = re.compile(r"\\(?:left|right|middle|displaystyle|limits|[bB]igg?[lrm]?)$")
GAPS = {r"\quad", r"\qquad"}
IMPLIES = {r"\Rightarrow", r"\Longrightarrow", r"\iff", r"\Leftrightarrow", r"\Longleftrightarrow"}
RELATIONS = {
    "=": "=", "<": "<", ">": ">", r"\le": "<=", r"\leq": "<=", r"\ge": ">=", r"\geq": ">=",
    r"\approx": "~", r"\propto": "propto", r"\in": "in",
}  # fmt: skip
OPEN = {"(": ")", "[": "]", "{": "}", r"\{": r"\}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil",
        r"\lVert": r"\rVert", r"\langle": r"\rangle"}  # fmt: skip
CONJUNCTIONS = {"or", "and", "against", "with", "where"}
DOTS = {r"\dots", r"\ldots", r"\cdots"}
ENDS = {"+", "-", r"\pm", r"\cdot", r"\times", "/", r"\bmod", ",", ";", "_", "^", *GAPS}  # what no factor begins with
ACCENTS = {r"\bar", r"\hat", r"\tilde", r"\vec"}
FUNCTIONS = ("sin", "cos", "tan", "arctan", "ln", "log", "exp", "det", "Re", "Im", "erf", "rank", "tr", "min", "max")
REDUCTIONS = {r"\sum": "sum", r"\prod": "prod", r"\max": "max", r"\min": "min", r"\softmax": "softmax", r"\E": "mean"}
SWAPPED = {"sin": "cos", "cos": "sin", "min": "max", "max": "min", "Re": "Im", "floor": "ceil", "ceil": "floor"}


class Node(NamedTuple):
    """A part of a formula: what is done (`op`), with what. A statement is a `chain`: a side, a relation, a side ..."""

    op: str
    args: tuple = ()


class Pattern(NamedTuple):
    r"""A function bound as `\theta_i` or `B_h(\Delta)`: how many subscripts and arguments it takes."""

    call: Callable
    subscripts: int
    arguments: int


class Derived(NamedTuple):
    r"""A name that follows the index of a sum, such as `\Delta := m - n`: a function of the indices, by their names."""

    call: Callable


Key = tuple[str, ...]


def tokens(tex: str) -> Key:
    """Return the parts of a formula, without spacing, sizes, braces around a single token, and marks of alignment."""
    tex = re.sub(r"\\operatorname\*?\s*\{softmax\}", r"\\softmax", tex)
    tex = re.sub(r"\\mathbb\s*\{?E\}?", r"\\E ", tex)
    names = [token for token in TOKEN.findall(tex) if token not in SPACING and not SIZES.match(token)]
    kept: list[str] = []
    tables = 0
    for token in (UPRIGHT.sub(_upright, token) for token in names):
        if token.startswith((r"\begin", r"\end")) and not ROWS.search(token):
            tables += 1 if token[1] == "b" else -1
        if token == "&" and not tables:
            continue
        kept.append(token)
        if token == "}" and kept[-2] == "{":
            del kept[-2:]
        elif token == "}" and len(kept) > 3 and kept[-3] == "{" and kept[-4] in "_^":
            kept[-3:] = [kept[-2]]
    return tuple(kept)


def _upright(match: re.Match) -> str:
    return f"\\{match[1]}" if match[1] in FUNCTIONS else f"\\mathrm{{{match[1]}}}"


def read(tex: str, bound: Mapping[Key, object]) -> list[Node]:
    """Return the statements of a formula; remarks such as `for every p` are left out."""
    statements = []
    for part in _statements(tokens(tex)):
        statement = _Reader(part, bound).statement()
        if statement:
            statements.append(statement)
    if not statements:
        raise Unreadable("nothing in it can be read as an expression")
    return statements


def _statements(parts: Key) -> Iterator[Key]:
    """Split at commas, gaps, arrows and rows, but not inside of brackets, nor where a line goes on."""
    if parts and ROWS.search(parts[0]):
        parts = parts[1:-1]
    depth, current = 0, []
    for n, token in enumerate(parts):
        following = next((t for t in parts[n + 1 :] if t not in GAPS), "")
        depth += (token in OPEN or token.startswith(r"\begin")) - (token in OPEN.values() or token.startswith(r"\end"))
        divides = token in GAPS | IMPLIES | {",", ".", ":"} or token.startswith(r"\\")
        if depth or not divides:
            current.append(token)
        elif token == "," and (following in DOTS or (current and current[-1] in DOTS)):
            pass  # a range: 0, \dots, n
        elif token in IMPLIES | {",", "."} or not (following in RELATIONS or following in {"+", "-"}):
            yield tuple(current)
            current = []
    yield tuple(current)


class _Reader:
    def __init__(self, parts: Key, bound: Mapping[Key, object]) -> None:
        self.parts, self.bound, self.at, self.bars = parts, bound, 0, 0
        self.longest = sorted(bound, key=len, reverse=True)

    # What stands next, and going on.

    def next(self) -> str:
        return self.parts[self.at] if self.at < len(self.parts) else ""

    def take(self, expected: str = "") -> str:
        token = self.next()
        if not token or (expected and token != expected):
            raise Unreadable(f"{expected or 'more'} is missing {self._place()}")
        self.at += 1
        return token

    def took(self, *wanted: str) -> str:
        token = self.next()
        if token and token in wanted:
            self.at += 1
            return token
        return ""

    def _place(self) -> str:
        token = self.next()
        return f"at {token!r} after {' '.join(self.parts[max(0, self.at - 4) : self.at])!r}" if token else "at the end"

    def _wrong(self) -> Unreadable:
        return Unreadable(f"cannot read {self._place()}")

    # From statements down to single names.

    def statement(self) -> Node | None:
        while self.next().startswith(r"\text") and self._key() is None:
            remark = self.take()[6:-1].strip(" .,()")
            if remark not in CONJUNCTIONS:  # a remark, which states nothing in signs
                if unread := [
                    token for token in self.parts[self.at :] if token in RELATIONS or token in "+-/^0123456789"
                ]:
                    raise Unreadable(f"{unread[0]} stands behind the words {remark!r}, where nothing reads it")
                return None
        if not self.next():
            return None
        chain = self.chain()
        if self.next().startswith(r"\text"):
            self.take()
        if self.next():
            raise self._wrong()
        return chain

    def chain(self) -> Node:
        parts: list = [self.sum()]
        while self.next() in RELATIONS:
            parts.append(RELATIONS[self.take()])
            side = self.sum()
            parts.append(Node("range", (side, self.sum())) if self.took(*DOTS) else side)
        return Node("chain", tuple(parts))

    def sum(self) -> Node:
        sign = self.took("-", "+")
        node = self.term()
        if sign == "-":
            node = Node("neg", (node,))
        while operator := self.took("+", "-", r"\pm"):
            node = Node(operator, (node, self.term()))
        return node

    def term(self) -> Node:
        node = self.product()
        while operator := self.took(r"\cdot", r"\times", "/", r"\bmod"):
            sign = self.took("-", "+")
            right = self.product()
            right = Node("neg", (right,)) if sign == "-" else right
            node = Node({"/": "/", r"\bmod": "mod"}.get(operator, "dot"), (node, right))
        return node

    def product(self) -> Node:
        node = self.factor()
        while self._goes_on():
            node = Node("mul", (node, self.factor()))
        return node

    def _goes_on(self) -> bool:
        token = self.next()
        if token == "|":
            return not self.bars
        if not token or token in RELATIONS or token in OPEN.values() or token.startswith(r"\end"):
            return False
        if (token in DOTS or token.startswith(r"\text")) and self._key() is None:
            return False
        return token not in ENDS and not token.startswith("\\\\")

    def factor(self) -> Node:
        node = self.atom()
        while True:
            if self.took("^"):
                node = Node("top", (node,)) if self.took(r"\top") else Node("pow", (node, self.argument()))
            elif self.took("_"):
                node = Node("index", (node, *self._subscripts()))
            else:
                return node

    def atom(self) -> Node:
        if (key := self._key()) is not None:
            self.at += len(key)
            return self._bound(key)
        token = self.next()
        below = self.parts[self.at + 1 : self.at + 2] == ("_",)
        if token in REDUCTIONS and (below or token not in (r"\min", r"\max", r"\E")):
            return self._reduction()
        if token[1:] in FUNCTIONS and token[0] == "\\":
            return self._function()
        if token in OPEN or token == "|":
            return self._bracket()
        self.take()
        if token[0].isdigit():
            return Node("number", (token.replace("{,}", ""),))
        if (node := self._command(token)) is not None:
            return node
        if token in ACCENTS:
            return Node("name", ((token, self.take()),))
        if re.fullmatch(r"[a-zA-Z]|\\[a-zA-Z]+|\\math[a-z]+\s*(\{[^{}]*\}|[a-zA-Z])", token):
            return Node("name", ((token,),))
        self.at -= 1
        raise self._wrong()

    def _command(self, token: str) -> Node | None:
        """Read what a command of its own form takes; nothing where `token` is none."""
        if token == r"\E":
            return Node("average", (self._operand(),))
        if token in (r"\frac", r"\tfrac", r"\dfrac"):
            return Node("/", (self.argument(), self.argument()))
        if token == r"\sqrt":
            return Node("sqrt", (self.argument(),))
        if token == r"\int":
            return self._integral()
        if token == r"\underbrace":
            inside = self.argument()
            if self.took("_"):
                self._skip()
            return inside
        if token == r"\overline":
            return Node("conj", (self.argument(),))
        return self._table(token) if token.startswith(r"\begin") else None

    def _key(self) -> Key | None:
        return next((key for key in self.longest if self.parts[self.at : self.at + len(key)] == key), None)

    def _bound(self, key: Key) -> Node:
        value, name = self.bound[key], Node("name", (key,))
        if isinstance(value, Pattern):
            arguments: list[Node] = []
            if value.subscripts:
                self.take("_")
                arguments += self._subscripts()
            if value.arguments:
                arguments += self._arguments()
            if len(arguments) != value.subscripts + value.arguments:
                raise Unreadable(f"{' '.join(key)} is bound with other subscripts and arguments than {self._place()}")
            return Node("call", (name, *arguments))
        if not callable(value) or isinstance(value, Derived):
            return name
        arguments = self._subscripts() if self.took("_") else []
        if self.next() in ("(", "["):
            return Node("call", (name, *arguments, *self._arguments()))
        return Node("call", (name, *arguments) if arguments else (name, self._operand()))

    def _subscripts(self) -> list[Node]:
        r"""Read what stands below: `i+1`, `m,n`, or `mn`, which is two of them."""
        if self.next() != "{":
            return [self._single()]
        self.take()
        subscripts = self._several("}")
        return _letters(subscripts[0]) if len(subscripts) == 1 else subscripts

    def _arguments(self) -> list[Node]:
        opened = self.take()
        if opened not in ("(", "["):
            self.at -= 1
            raise self._wrong()
        return self._several(OPEN[opened])

    def _several(self, closed: str) -> list[Node]:
        """Read what commas or semicolons divide, up to a closing bracket; inside of it bars open anew."""
        bars, self.bars = self.bars, 0
        nodes = [self.sum()]
        while self.took(",", ";"):
            while self.took(*GAPS) or re.match(r"\\\\", self.next()):
                self.at += self.next().startswith("\\\\")
            if self.next() in DOTS and self._key() is None:
                raise Unreadable("bind the dots to what they stand for")
            nodes.append(self.sum())
        self.take(closed)
        self.bars = bars
        return nodes

    def argument(self) -> Node:
        """Read one argument of a command: braces, or a single token, of a number its first digit."""
        if self.took("{"):
            bars, self.bars = self.bars, 0
            node = self.sum()
            self.take("}")
            self.bars = bars
            return node
        return self._single()

    def _single(self) -> Node:
        token = self.next()
        if token[:1].isdigit() and len(token) > 1:
            self.parts = (*self.parts[: self.at], token[0], token[1:], *self.parts[self.at + 1 :])
        return self.atom()

    def _skip(self) -> None:
        depth = 0
        while True:
            token = self.take()
            depth += (token == "{") - (token == "}")
            if not depth:
                return

    def _operand(self) -> Node:
        """Read what a function without brackets is applied to: all factors up to the next function or sum."""
        if self.next() in ("(", "["):
            return self.factor()
        node = self.factor()
        while self._goes_on() and self.next() not in REDUCTIONS and self.next()[1:] not in FUNCTIONS:
            node = Node("mul", (node, self.factor()))
        return node

    def _function(self) -> Node:
        name, power, base = self.take()[1:], None, None
        if self.took("^"):
            power = self.argument()
        if self.took("_"):
            base = self.argument()
        if name in ("min", "max"):
            return Node(name, tuple(self._arguments()))
        node = Node(name, (self._operand(),))
        if base:
            node = Node("/", (node, Node("ln", (base,))))
        return Node("pow", (node, power)) if power else node

    def _reduction(self) -> Node:
        how = REDUCTIONS[self.take()]
        conditions: list[Node] = []
        last = None
        while mark := self.took("_", "^"):
            if mark == "^":
                last = self.argument()
            elif self.took("{"):
                conditions.append(self.chain())
                self.take("}")
            else:
                conditions.append(Node("chain", (self._single(),)))
        if not conditions:
            raise Unreadable(f"over what the {how} goes {self._place()}")
        first, *more = conditions[0].args
        if last is not None and more[:1] == ["="]:
            return Node("reduce", (how, first, Node("span", (more[1], last)), self.term()))
        if not more or more[0] == "in":
            return Node("reduce", (how, first, more[1] if more else first, self.term()))
        return Node("filter", (how, conditions[0], self.term()))

    def _integral(self) -> Node:
        ends: dict[str, Node] = {}
        while mark := self.took("_", "^"):
            ends[mark] = self.argument()
        variable = next((n for n in range(self.at, len(self.parts) - 1) if self.parts[n] == "d"), None)
        if len(ends) < 2 or variable is None:
            raise Unreadable("an integral without its bounds or its d")
        name = (self.parts[variable + 1],)
        inside = _Reader(self.parts[self.at : variable], self.bound)
        body = inside.sum()
        self.at = variable + 2
        return Node("integral", (Node("name", (name,)), ends["_"], ends["^"], body))

    def _bracket(self) -> Node:
        opened = self.take()
        if opened == "|":
            self.bars += 1
            node = self.sum()
            self.take("|")
            self.bars -= 1
            return Node("norm", (node,))
        inside = self._several(OPEN[opened])
        kind = {r"\lfloor": "floor", r"\lceil": "ceil", r"\lVert": "norm", r"\langle": "dot"}.get(opened)
        if kind:
            return Node(kind, tuple(inside))
        return inside[0] if len(inside) == 1 else Node("list", tuple(inside))

    def _table(self, token: str) -> Node:
        kind = token[7:-1]
        depth, end = 1, self.at
        while depth:
            if end == len(self.parts):
                raise Unreadable(f"{token} is never closed")
            depth += self.parts[end].startswith(r"\begin") - self.parts[end].startswith(r"\end")
            end += 1
        inside, self.at = self.parts[self.at : end - 1], end
        rows = [_split(row, "&") for row in _split(inside, "\\\\")]
        if kind == "cases":
            return Node("cases", tuple(node for row in rows for node in self._case(row)))
        entries = [tuple(_Reader(cell, self.bound).sum() for cell in row) for row in rows]
        return Node("matrix", tuple(Node("row", row) for row in entries))

    def _case(self, row: list[Key]) -> Iterator[Node]:
        value, condition = row
        yield _Reader(value[:-1] if value[-1] in ",." else value, self.bound).sum()
        condition = tuple(t for t in condition if t not in (",", ".") and not t.startswith(r"\text"))
        yield _Reader(condition, self.bound).chain() if condition else Node("otherwise")


def _split(parts: Key, mark: str) -> list[Key]:
    """Split the cells of a table, but not those of a table within."""
    cells: list[list[str]] = [[]]
    depth = 0
    for token in parts:
        depth += token.startswith(r"\begin") - token.startswith(r"\end")
        if token.startswith(mark) and not depth:
            cells.append([])
        else:
            cells[-1].append(token)
    return [tuple(part) for part in cells if part or mark == "&"]


def _letters(node: Node) -> list[Node]:
    """Return the factors of a product of names alone: the subscript `mn` is two. Any other is one."""
    if node.op == "mul" and node.args[1].op == "name":
        before = _letters(node.args[0])
        if all(part.op == "name" for part in before):
            return [*before, node.args[1]]
    return [node]


def names(node: Node) -> list[Key]:
    """Return the names in a tree, each once."""
    if node.op == "name":
        return [node.args[0]]
    return list(dict.fromkeys(key for part in node.args if isinstance(part, Node) for key in names(part)))


def mutants(node: Node, free: frozenset[Key] = frozenset()) -> Iterator[tuple[str, Node]]:
    """Yield a tree with one thing changed, again and again, and what that is; names in `free` keep their values."""
    yield from _changed(node, free)
    fixed = {"call": 1, "reduce": 2, "integral": 1}.get(node.op, 0)  # what names, and what an index runs through
    fixed += node.op == "reduce" and node.args[1] == node.args[2]
    for n, part in enumerate(node.args):
        if isinstance(part, Node) and n >= fixed:
            for what, new in mutants(part, free):
                yield what, Node(node.op, (*node.args[:n], new, *node.args[n + 1 :]))


def _changed(node: Node, free: frozenset[Key]) -> Iterator[tuple[str, Node]]:
    op, args = node
    if op in "+-":
        other = "+" if op == "-" else "-"
        yield f"{other} for {op} before {show(args[1])}", Node(other, args)
    elif op == "number":
        value = f"{float(args[0]) + 1:g}" if "." in args[0] else str(int(args[0]) + 1)
        yield f"{value} for {args[0]}", Node("number", (value,))
    elif (op == "name" and args[0] not in free | {(r"\infty",)}) or op == "call":
        yield f"another value of {show(node)}", Node("other", (node,))
    elif op == "/":
        yield f"{show(node)} upside down", Node("/", args[::-1])
    elif op in SWAPPED:
        yield f"{SWAPPED[op]} for {op}", Node(SWAPPED[op], args)
    elif op in ("neg", "sqrt", "conj", "top"):
        yield f"no {op} of {show(args[0])}", args[0]
    elif op in ("reduce", "filter") and args[0] in SWAPPED:
        yield f"{SWAPPED[args[0]]} for {args[0]}", Node(op, (SWAPPED[args[0]], *args[1:]))
    elif op == "filter":
        for n, relation in enumerate(args[1].args):
            if relation in STRICT:
                parts = (*args[1].args[:n], STRICT[relation], *args[1].args[n + 1 :])
                yield f"{STRICT[relation]} for {relation}", Node(op, (args[0], Node("chain", parts), args[2]))


STRICT = {"<=": "<", ">=": ">", "<": "<=", ">": ">="}


def shown(key: Key) -> str:
    """Return a name as TeX."""
    return re.sub(r"(\\[a-z]+) (?![a-zA-Z])", r"\1", " ".join(key)).replace(" _ ", "_").replace(" '", "'")


def show(node: Node) -> str:
    """Return a tree as a reader may recognize it."""
    parts = [show(part) if isinstance(part, Node) else str(part) for part in node.args if isinstance(part, Node | str)]
    if node.op == "name":
        return shown(node.args[0])
    if node.op == "number":
        return parts[0]
    if node.op == "index":
        return f"{parts[0]}_{{{','.join(parts[1:])}}}"
    if node.op in ("+", "-", "/", r"\pm"):
        return f"({parts[0]} {node.op} {parts[1]})"
    if node.op == "call":
        return f"{parts[0]}({', '.join(parts[1:])})"
    if node.op in ("mul", "dot"):
        return " ".join(parts)
    return " ".join(parts) if node.op == "chain" else f"{node.op}({', '.join(parts)})"
