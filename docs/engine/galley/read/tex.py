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

# Wholes before their parts: environments and words with their braces, fonts with their letters, then row breaks,
# commands, numbers, and at last single signs.
TOKEN = re.compile(
    r"\\begin\{[a-z]+\*?\}|\\end\{[a-z]+\*?\}|\\text(?:bf|it|rm)?\{[^{}]*\}"
    r"|\\(?:mathrm|mathbf|mathbb|mathcal|operatorname\*?)\s*(?:\{[^{}]*\}|[a-zA-Z])"
    r"|\\\\(?:\[[^\]]*\])?|\\[a-zA-Z]+|\\.|\d+(?:\{,\}\d+)*(?:\.\d+)?|\S"
)
SPACING = {r"\,", r"\;", r"\:", r"\!", r"\ ", "~"}
# Environments that only set statements below each other; all others hold a table, which is one value.
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
NO_FACTOR = {"+", "-", r"\pm", r"\cdot", r"\times", "/", r"\bmod", ",", ";", "_", "^", *GAPS}
ACCENTS = {r"\bar", r"\hat", r"\tilde", r"\vec"}
FUNCTIONS = ("sin", "cos", "tan", "arctan", "ln", "log", "exp", "det", "Re", "Im", "erf", "rank", "tr", "min", "max")
REDUCTIONS = {r"\sum": "sum", r"\prod": "prod", r"\max": "max", r"\min": "min", r"\softmax": "softmax", r"\E": "mean"}
# What a mutant puts in place of a function or of a relation.
SWAPPED = {"sin": "cos", "cos": "sin", "min": "max", "max": "min", "Re": "Im", "floor": "ceil", "ceil": "floor"}
STRICT = {"<=": "<", ">=": ">", "<": "<=", ">": ">="}


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
    # Softmax and the expectation become commands of their own, so that an index below them is read as that of a sum.
    tex = re.sub(r"\\operatorname\*?\s*\{softmax\}", r"\\softmax", tex)
    tex = re.sub(r"\\mathbb\s*\{?E\}?", r"\\E ", tex)
    visible = [token for token in TOKEN.findall(tex) if token not in SPACING and not SIZES.match(token)]
    parts: list[str] = []
    tables = 0
    for token in (UPRIGHT.sub(_upright, token) for token in visible):
        if token.startswith((r"\begin", r"\end")) and not ROWS.search(token):
            tables += 1 if token[1] == "b" else -1
        # Outside of a table an ampersand only aligns rows.
        if token == "&" and not tables:
            continue
        parts.append(token)
        # Empty braces say nothing, and `x_{i}` is the same name as `x_i`.
        if token == "}" and parts[-2] == "{":
            del parts[-2:]
        elif token == "}" and len(parts) > 3 and parts[-3] == "{" and parts[-4] in "_^":
            parts[-3:] = [parts[-2]]
    return tuple(parts)


def _upright(match: re.Match) -> str:
    r"""Return one spelling of a word in upright letters: `\sin` of a known function, `\mathrm{PE}` of any other."""
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
    depth = 0
    current: list[str] = []
    for n, token in enumerate(parts):
        following = next((t for t in parts[n + 1 :] if t not in GAPS), "")
        depth += _nesting(token)
        divides = token in GAPS | IMPLIES | {",", ".", ":"} or token.startswith(r"\\")
        if depth or not divides:
            current.append(token)
        elif token == "," and (following in DOTS or (current and current[-1] in DOTS)):
            # The commas of a range, `0, \dots, n`, are left out: its dots divide it.
            continue
        # A new row or a gap divides nothing where a relation or a sign goes on with the same statement.
        elif token in IMPLIES | {",", "."} or not (following in RELATIONS or following in {"+", "-"}):
            yield tuple(current)
            current = []
    yield tuple(current)


def _nesting(token: str) -> int:
    """Return by how much a token changes the depth of brackets and tables."""
    if token in OPEN or token.startswith(r"\begin"):
        return 1
    return -1 if token in OPEN.values() or token.startswith(r"\end") else 0


class _Reader:
    """Reads the tokens of one statement by recursive descent; `bars` counts the open bars of absolute values."""

    def __init__(self, parts: Key, bound: Mapping[Key, object]) -> None:
        self.parts, self.bound, self.at, self.bars = parts, bound, 0, 0
        # Of `\theta` and `\theta_i` the longer one is meant where both are bound and both fit.
        self.longest = sorted(bound, key=len, reverse=True)

    # Looking at the next token, and taking it.

    def peek(self) -> str:
        return self.parts[self.at] if self.at < len(self.parts) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise Unreadable(f"{expected or 'more'} is missing {self._place()}")
        self.at += 1
        return token

    def accept(self, *wanted: str) -> str:
        token = self.peek()
        if token and token in wanted:
            self.at += 1
            return token
        return ""

    def _place(self) -> str:
        """Say where the reader stands, for a message."""
        token = self.peek()
        return f"at {token!r} after {' '.join(self.parts[max(0, self.at - 4) : self.at])!r}" if token else "at the end"

    def _unreadable(self) -> Unreadable:
        return Unreadable(f"cannot read {self._place()}")

    # From statements down to single names.

    def statement(self) -> Node | None:
        while self.peek().startswith(r"\text") and self._bound_key() is None:
            remark = self.take()[6:-1].strip(" .,()")
            if remark not in CONJUNCTIONS:
                # A remark, such as `for every p`, states nothing in signs; signs behind it would go unchecked.
                unread = [t for t in self.parts[self.at :] if t in RELATIONS or t in "+-/^0123456789"]
                if unread:
                    raise Unreadable(f"{unread[0]} stands behind the words {remark!r}, where nothing reads it")
                return None
        if not self.peek():
            return None
        return self.whole_chain()

    def whole_chain(self) -> Node:
        """Read a chain of relations, after which a remark may stand and nothing else: it would go unchecked."""
        chain = self.chain()
        if self.peek().startswith(r"\text"):
            self.take()
        if self.peek():
            raise self._unreadable()
        return chain

    def whole_sum(self) -> Node:
        """Read a sum, after which nothing may stand."""
        node = self.sum()
        if self.peek():
            raise self._unreadable()
        return node

    def chain(self) -> Node:
        parts: list = [self.sum()]
        while self.peek() in RELATIONS:
            parts.append(RELATIONS[self.take()])
            side = self.sum()
            parts.append(Node("range", (side, self.sum())) if self.accept(*DOTS) else side)
        return Node("chain", tuple(parts))

    def sum(self) -> Node:
        sign = self.accept("-", "+")
        node = self.term()
        if sign == "-":
            node = Node("neg", (node,))
        while operator := self.accept("+", "-", r"\pm"):
            node = Node(operator, (node, self.term()))
        return node

    def term(self) -> Node:
        node = self.product()
        while operator := self.accept(r"\cdot", r"\times", "/", r"\bmod"):
            sign = self.accept("-", "+")
            right = self.product()
            right = Node("neg", (right,)) if sign == "-" else right
            node = Node({"/": "/", r"\bmod": "mod"}.get(operator, "dot"), (node, right))
        return node

    def product(self) -> Node:
        node = self.factor()
        while self._factor_follows():
            node = Node("mul", (node, self.factor()))
        return node

    def _factor_follows(self) -> bool:
        token = self.peek()
        # Within bars the next one closes them; elsewhere it opens an absolute value.
        if token == "|":
            return not self.bars
        if not token or token in RELATIONS or token in OPEN.values() or token.startswith(r"\end"):
            return False
        # Dots and words are no factor, unless the page binds them to one.
        if (token in DOTS or token.startswith(r"\text")) and self._bound_key() is None:
            return False
        return token not in NO_FACTOR and not token.startswith("\\\\")

    def factor(self) -> Node:
        node = self.atom()
        while True:
            if self.accept("^"):
                # Raised to \top a matrix is transposed.
                node = Node("top", (node,)) if self.accept(r"\top") else Node("pow", (node, self.argument()))
            elif self.accept("_"):
                node = Node("index", (node, *self._subscripts()))
            else:
                return node

    def atom(self) -> Node:
        # A bound name comes first, so that a page may bind what else would be a function or words.
        key = self._bound_key()
        if key is not None:
            self.at += len(key)
            return self._bound_name(key)
        token = self.peek()
        # Without an index below, these three are functions of what stands behind them.
        has_index = self.parts[self.at + 1 : self.at + 2] == ("_",)
        if token in REDUCTIONS and (has_index or token not in (r"\min", r"\max", r"\E")):
            return self._reduction()
        if token[1:] in FUNCTIONS and token[0] == "\\":
            return self._function()
        if token in OPEN or token == "|":
            return self._bracket()
        self.take()
        if token[0].isdigit():
            return Node("number", (token.replace("{,}", ""),))
        node = self._command(token)
        if node is not None:
            return node
        if token in ACCENTS:
            return Node("name", ((token, self.take()),))
        if re.fullmatch(r"[a-zA-Z]|\\[a-zA-Z]+|\\math[a-z]+\s*(\{[^{}]*\}|[a-zA-Z])", token):
            return Node("name", ((token,),))
        # The message names the token that cannot be read, so it is given back.
        self.at -= 1
        raise self._unreadable()

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
            # What stands below a brace only names the part above it.
            if self.accept("_"):
                self._skip_group()
            return inside
        if token == r"\overline":
            return Node("conj", (self.argument(),))
        return self._table(token) if token.startswith(r"\begin") else None

    def _bound_key(self) -> Key | None:
        """Return the longest bound name that stands next."""
        return next((key for key in self.longest if self.parts[self.at : self.at + len(key)] == key), None)

    def _bound_name(self, key: Key) -> Node:
        """Read what belongs to a bound name that was just taken: the subscripts and arguments of a function."""
        value = self.bound[key]
        name = Node("name", (key,))
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
        if not callable(value):
            return name
        # A function of the page, bound by its name alone, takes subscripts and bracketed arguments alike; without
        # brackets it is applied as a sine is.
        arguments = self._subscripts() if self.accept("_") else []
        if self.peek() in ("(", "["):
            return Node("call", (name, *arguments, *self._arguments()))
        return Node("call", (name, *arguments) if arguments else (name, self._operand()))

    def _subscripts(self) -> list[Node]:
        r"""Read what stands below: `i+1`, `m,n`, or `mn`, which is two of them."""
        if self.peek() != "{":
            return [self._single()]
        self.take("{")
        subscripts = self._bracketed("}")
        return _letters(subscripts[0]) if len(subscripts) == 1 else subscripts

    def _arguments(self) -> list[Node]:
        opened = self.take()
        if opened not in ("(", "["):
            self.at -= 1
            raise self._unreadable()
        return self._bracketed(OPEN[opened])

    def _bracketed(self, closed: str) -> list[Node]:
        """Read what commas or semicolons divide, up to a closing bracket; inside of it bars open anew."""
        bars = self.bars
        self.bars = 0
        nodes = [self.sum()]
        while self.accept(",", ";"):
            # A list may go on in the next row.
            while self.peek() in GAPS or self.peek().startswith("\\\\"):
                self.take()
            if self.peek() in DOTS and self._bound_key() is None:
                raise Unreadable("bind the dots to what they stand for")
            nodes.append(self.sum())
        self.take(closed)
        self.bars = bars
        return nodes

    def argument(self) -> Node:
        """Read one argument of a command: braces, or a single token, of a number its first digit."""
        if self.accept("{"):
            bars = self.bars
            self.bars = 0
            node = self.sum()
            self.take("}")
            self.bars = bars
            return node
        return self._single()

    def _single(self) -> Node:
        """Read what a command takes without braces."""
        token = self.peek()
        # TeX takes one digit: `x^23` is the square of x, and a 3 behind it.
        if token[:1].isdigit() and len(token) > 1:
            self.parts = (*self.parts[: self.at], token[0], token[1:], *self.parts[self.at + 1 :])
        return self.atom()

    def _skip_group(self) -> None:
        """Pass over a single token, or over braces and all that is in them."""
        depth = 0
        while True:
            token = self.take()
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
            if not depth:
                return

    def _operand(self) -> Node:
        """Read what a function without brackets is applied to: all factors up to the next function or sum."""
        if self.peek() in ("(", "["):
            return self.factor()
        node = self.factor()
        while self._factor_follows() and self.peek() not in REDUCTIONS and self.peek()[1:] not in FUNCTIONS:
            node = Node("mul", (node, self.factor()))
        return node

    def _function(self) -> Node:
        r"""Read a function with what it is applied to: `\sin^2 x` is a power of the sine, `\log_2 x` has a base."""
        name = self.take()[1:]
        power = self.argument() if self.accept("^") else None
        base = self.argument() if self.accept("_") else None
        if name in ("min", "max"):
            return Node(name, tuple(self._arguments()))
        node = Node(name, (self._operand(),))
        if base:
            # A logarithm to a base is the natural one over that of the base.
            node = Node("/", (node, Node("ln", (base,))))
        return Node("pow", (node, power)) if power else node

    def _reduction(self) -> Node:
        """Read a sum or its like: over an index in a domain, from a first to a last value, or under a condition."""
        how = REDUCTIONS[self.take()]
        conditions: list[Node] = []
        last = None
        # What stands below and above may come in either order.
        while mark := self.accept("_", "^"):
            if mark == "^":
                last = self.argument()
            elif self.accept("{"):
                conditions.append(self.chain())
                self.take("}")
            else:
                conditions.append(Node("chain", (self._single(),)))
        if not conditions:
            raise Unreadable(f"over what the {how} goes {self._place()}")
        first, *more = conditions[0].args
        if last is not None and more[:1] == ["="]:
            return Node("reduce", (how, first, Node("span", (more[1], last)), self.term()))
        # An index alone goes over the values that are bound to it.
        if not more or more[0] == "in":
            return Node("reduce", (how, first, more[1] if more else first, self.term()))
        return Node("filter", (how, conditions[0], self.term()))

    def _integral(self) -> Node:
        """Read an integral: its ends, and what stands before its d and the variable behind it."""
        ends: dict[str, Node] = {}
        while mark := self.accept("_", "^"):
            ends[mark] = self.argument()
        variable = next((n for n in range(self.at, len(self.parts) - 1) if self.parts[n] == "d"), None)
        if len(ends) < 2 or variable is None:
            raise Unreadable("an integral without its bounds or its d")
        name = (self.parts[variable + 1],)
        # A reader that ends before the d cannot take it for a factor.
        body = _Reader(self.parts[self.at : variable], self.bound).whole_sum()
        self.at = variable + 2
        return Node("integral", (Node("name", (name,)), ends["_"], ends["^"], body))

    def _bracket(self) -> Node:
        """Read what brackets or bars hold: a value, a list of values, or what the kind of bracket makes of them."""
        opened = self.take()
        if opened == "|":
            self.bars += 1
            node = self.sum()
            self.take("|")
            self.bars -= 1
            return Node("norm", (node,))
        inside = self._bracketed(OPEN[opened])
        kind = {r"\lfloor": "floor", r"\lceil": "ceil", r"\lVert": "norm", r"\langle": "dot"}.get(opened)
        if kind:
            return Node(kind, tuple(inside))
        return inside[0] if len(inside) == 1 else Node("list", tuple(inside))

    def _table(self, token: str) -> Node:
        """Read an environment whose begin was just taken: the cases of a function, or a matrix."""
        kind = token.removeprefix(r"\begin{").removesuffix("}")
        depth = 1
        end = self.at
        while depth:
            if end == len(self.parts):
                raise Unreadable(f"{token} is never closed")
            depth += _table_nesting(self.parts[end])
            end += 1
        inside = self.parts[self.at : end - 1]
        self.at = end
        rows = [_split(row, "&") for row in _split(inside, "\\\\")]
        if kind == "cases":
            return Node("cases", tuple(node for row in rows for node in self._case(row)))
        entries = [tuple(_Reader(cell, self.bound).whole_sum() for cell in row) for row in rows]
        return Node("matrix", tuple(Node("row", row) for row in entries))

    def _case(self, row: list[Key]) -> Iterator[Node]:
        value, condition = row
        # The mark that ends a sentence may stand behind a value.
        yield _Reader(value[:-1] if value[-1] in ",." else value, self.bound).whole_sum()
        # Marks and words around a condition, such as `if`, are no part of it; without any it is `otherwise`.
        condition = tuple(t for t in condition if t not in (",", ".") and not t.startswith(r"\text"))
        yield _Reader(condition, self.bound).whole_chain() if condition else Node("otherwise")


def _table_nesting(token: str) -> int:
    """Return by how much a token changes the depth of tables."""
    return _nesting(token) if token.startswith((r"\begin", r"\end")) else 0


def _split(parts: Key, mark: str) -> list[Key]:
    """Split the rows of a table, or the cells of a row, but not those of a table within."""
    pieces: list[list[str]] = [[]]
    depth = 0
    for token in parts:
        depth += _table_nesting(token)
        if token.startswith(mark) and not depth:
            pieces.append([])
        else:
            pieces[-1].append(token)
    # An empty cell is one all the same; an empty row only stands where the last one ends with a break.
    return [tuple(piece) for piece in pieces if piece or mark == "&"]


def _letters(node: Node) -> list[Node]:
    """Return the factors of a product that ends in names: the subscript `mn` is two. Any other is one."""
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
    # The first arguments of these name something, a function or an index, and have no value to change.
    fixed = {"call": 1, "reduce": 2, "integral": 1}.get(node.op, 0)
    # In a sum over n alone, n is also what the sum goes over.
    if node.op == "reduce" and node.args[1] == node.args[2]:
        fixed += 1
    for n, part in enumerate(node.args):
        if isinstance(part, Node) and n >= fixed:
            for what, new in mutants(part, free):
                yield what, Node(node.op, (*node.args[:n], new, *node.args[n + 1 :]))


def _changed(node: Node, free: frozenset[Key]) -> Iterator[tuple[str, Node]]:
    """Yield a node with its own operation changed, and not what it is applied to."""
    op, args = node
    if op in "+-":
        other = "+" if op == "-" else "-"
        yield f"{other} for {op} before {show(args[1])}", Node(other, args)
    elif op == "number":
        value = f"{float(args[0]) + 1:g}" if "." in args[0] else str(int(args[0]) + 1)
        yield f"{value} for {args[0]}", Node("number", (value,))
    # Infinity has no other value near it.
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
