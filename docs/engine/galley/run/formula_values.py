r"""Work out formulas, as `tex` reads them, on values: numbers, vectors, matrices and functions.

A product is one of matrices where both are, and a dot that of two vectors. Shapes must fit; nothing is broadcast but a
single number.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from galley.read.formula import Unreadable
from galley.read.tex import Derived, Key, Node, Pattern, names, show, shown

CLOSE = 1e-9  # the relative difference of two sides that are equal


class Values:
    """Works trees out; a name has the value it is bound to, or the one that a sum gives it."""

    def __init__(self, bound: Mapping[Key, Any]) -> None:
        self.bound = bound
        self.local: dict[Key, Any] = {}

    def of(self, node: Node):
        """Return the value of a tree: a number or an array."""
        # What needs more than the values of its parts, such as a sum over an index, has a method of its own.
        special = getattr(self, f"_{node.op}", None)
        if special:
            return special(*node.args)
        values = [self.of(argument) for argument in node.args]
        return OPERATIONS[node.op](*values)

    def _number(self, text: str):
        return float(text) if "." in text else int(text)

    def _name(self, key: Key) -> Any:
        # Inside a sum its index hides what is bound to the same name, and that hides a constant such as e.
        for values in (self.local, self.bound, CONSTANTS):
            if key in values:
                value = values[key]
                return plain(value.call(self.local)) if isinstance(value, Derived) else value
        raise Unreadable(f"no value is bound to {shown(key)}")

    def _other(self, node: Node):
        """Return another value of a name than its own, of the same type, for a mutant."""
        value = np.asarray(self.of(node))
        if value.dtype.kind in "iu":
            return value + 1
        return ~value if value.dtype.kind == "b" else value * 1.1

    def _call(self, name: Node, *arguments: Node):
        value = self._name(name.args[0])
        call = value.call if isinstance(value, Pattern) else value
        return plain(call(*(self.of(argument) for argument in arguments)))

    def _index(self, base: Node, *subscripts: Node):
        value = np.asarray(self.of(base))
        places = [_whole(self.of(subscript)) for subscript in subscripts]
        if len(places) > value.ndim:
            raise Unreadable(f"{show(base)} has {value.ndim} axes, and {len(places)} subscripts")
        # NumPy would count a negative one from the end, and the formula means no such thing.
        if any((place < 0).any() for place in places):
            raise IndexError(f"a subscript of {show(base)} is negative")
        return value[tuple(places)]

    def _pow(self, base: Node, exponent: Node):
        power = self.of(exponent)
        # Of a matrix, e to a power is the matrix exponential, which NumPy lacks.
        if base == EULER and base.args[0] not in self.bound and np.ndim(power) == 2:
            import torch

            return torch.linalg.matrix_exp(torch.as_tensor(power)).numpy()
        value = self.of(base)
        if np.ndim(value) == 2:
            return np.linalg.matrix_power(value, power)
        # NumPy refuses a negative whole power of whole numbers.
        return value ** (power if np.iscomplexobj(power) else np.asarray(power, float))

    def _chain(self, *parts) -> bool:
        return bool(np.all(self.truth(Node("chain", parts))))

    def _cases(self, *parts: Node):
        for value, condition in zip(parts[::2], parts[1::2], strict=True):
            if self.of(condition):
                return self.of(value)
        raise ValueError("no case holds")

    def _reduce(self, how: str, index: Node, domain: Node, body: Node):
        values = self._runs(domain.args[0]) if domain.op == "name" else self.of(domain)
        if np.ndim(values) != 1:
            raise Unreadable(f"bind {show(domain)} to the values that the {how} goes over")
        result = self._gather(how, [(index.args[0], values)], (), body)
        if how != "softmax":
            return result
        # A softmax gives a weight for each value of its index: of these, the one that the formula means.
        own = self.of(index)
        return result if np.ndim(own) else result[list(values).index(own)]

    def _runs(self, key: Key):
        """Return what an index goes over, which is no single value that a sum around this one gives it."""
        return self.bound.get(("runs", *key), self.bound.get(key))

    def _filter(self, how: str, condition: Node, body: Node):
        known = {key: self._runs(key) for key in names(condition)}
        running = {key: values for key, values in known.items() if np.ndim(values) == 1}
        if not running:
            raise Unreadable(f"bind an index in {show(condition)} to the values that the {how} goes over")
        return self._gather(how, list(running.items()), (condition,), body)

    def _average(self, body: Node):
        """Return an expectation without an index: the mean over all names that run."""
        running = [(key[1:], values) for key, values in self.bound.items() if key[0] == "runs"]
        return self._gather("mean", running, (), body)

    def _gather(self, how: str, running: list, conditions: tuple, body: Node):
        before = dict(self.local)
        results = []
        try:
            for values in itertools.product(*(values for _, values in running)):
                self.local |= {key: value for (key, _), value in zip(running, values, strict=True)}
                if all(self.of(condition) for condition in conditions):
                    results.append(self.of(body))
        finally:
            self.local = before
        return REDUCE[how](np.array(results), axis=0)

    def _integral(self, variable: Node, low: Node, high: Node, body: Node):
        """Integrate by Gauss and Legendre's rule on many short pieces."""
        nodes, weights = np.polynomial.legendre.leggauss(20)
        edges = np.linspace(float(self.of(low)), float(self.of(high)), 201)
        half = np.diff(edges)[:, None] / 2
        points = (edges[:-1, None] + half + half * nodes).ravel()
        before = self.local
        # All points at once: what stands in the integral is worked out item by item.
        self.local = before | {variable.args[0]: points}
        try:
            # A body without the variable is a single number.
            return (np.broadcast_to(self.of(body), points.shape) * (half * weights).ravel()).sum()
        finally:
            self.local = before

    def truth(self, chain: Node, within: float = 0.0, tight: bool = False):
        """Return whether a statement is true, of arrays for each item; `within` is the relative error of `approx`."""
        sides = [self.of(side) for side in chain.args[::2]]
        # Each relation stands between the side before it and the one behind it; the last side begins none.
        links = zip(sides, chain.args[1::2], sides[1:], strict=False)
        return functools.reduce(np.logical_and, (_related(*link, within, tight) for link in links))


def _related(left, relation: str, right, within: float, tight: bool):
    left, right = np.asarray(left), np.asarray(right)
    if relation == "in":
        return np.isin(left, right)
    # An inequality may compare a number with each item of an array; an equality needs sides of one shape.
    if left.shape != right.shape and (relation in ("=", "~", "propto") or (left.ndim and right.ndim)):
        raise ValueError(f"a side of shape {left.shape} stands beside one of shape {right.shape}")
    if relation == "propto":
        # Two sides are in proportion where each, times the other's first item, is the same.
        left, right = left * right.flat[0], right * left.flat[0]
    if relation in ("=", "~", "propto"):
        return same(left, right, within or CLOSE)
    ordered = {"<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal}[relation](left, right)
    return ordered | (tight and same(left, right, within or CLOSE))


def same(left, right, within: float) -> bool:
    """Whether two values of one shape differ by at most `within` of the larger; of zero, by `within` itself."""
    if np.shape(left) != np.shape(right):
        return False
    left, right = (np.asarray(side, complex if np.iscomplexobj(side) else float) for side in (left, right))
    # By the largest item of each side: an item that should be zero is judged by the size of the others.
    small, large = sorted(np.max(np.abs(side), initial=0) for side in (left, right))
    apart = np.max(np.abs(left - right), initial=0)
    return bool(np.isfinite(large) and apart <= within * (large if small else 1))


def plain(value):
    """Return a page's value as numbers and NumPy arrays of float64 or wider; functions stay what they are."""
    if callable(value) or isinstance(value, Pattern | Derived):
        return value
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    value = np.asarray(list(value) if isinstance(value, range | map) else value)
    if value.dtype.kind not in "biufc":
        raise TypeError(f"a formula is bound to numbers, arrays and functions, got {value.dtype}")
    if value.dtype.kind == "f":
        value = value.astype(np.float64)
    # Of an array without axes this is its number; of any other the array itself.
    return value[()]


def _times(left, right):
    left, right = np.asarray(left), np.asarray(right)
    if not left.ndim or not right.ndim:
        return left * right
    if left.ndim == 1 and right.ndim == 1:
        raise ValueError("two vectors stand side by side; a dot product needs its dot")
    # A vector is a column: before a matrix it can only meet a single row.
    if left.ndim == 1:
        if right.shape[0] != 1:
            raise ValueError(f"a column of {len(left)} stands before a matrix of shape {right.shape}")
        return np.outer(left, right)
    # A row times a column is a single number.
    return (left @ right)[0] if left.shape[0] == 1 and right.ndim == 1 else left @ right


def _dot(left, right):
    both_vectors = np.ndim(left) == 1 and np.ndim(right) == 1
    return left @ right if both_vectors else _times(left, right)


def _plus(left, right):
    if np.ndim(left) and np.ndim(right) and np.shape(left) != np.shape(right):
        raise ValueError(f"a sum of shapes {np.shape(left)} and {np.shape(right)}")
    return np.add(left, right)


def _over(left, right):
    if np.ndim(right) and np.ndim(left) and np.shape(left) != np.shape(right):
        raise ValueError(f"a quotient of shapes {np.shape(left)} and {np.shape(right)}")
    return np.divide(left, right)


def _top(value):
    """Transpose: a column becomes a matrix of one row, and such a row a column again."""
    value = np.asarray(value)
    if value.ndim == 1:
        return value[None, :]
    return value[0] if value.shape[0] == 1 else value.T


def _list(*values):
    return np.concatenate([np.atleast_1d(value) for value in values])


def _row(*values):
    return np.hstack([value if np.ndim(value) == 2 else np.reshape(value, (-1, 1)) for value in values])


def _matrix(*rows):
    stacked = np.vstack(rows)
    # A single column is a vector.
    return stacked[:, 0] if stacked.shape[1] == 1 else stacked


def _span(first, last):
    return np.arange(_whole(first), _whole(last) + 1)


def _whole(value):
    whole = np.rint(value).astype(int)
    if (whole != value).any():
        raise ValueError(f"{value} counts something, and is not whole")
    return whole


def _softmax(values, axis):
    # Less their largest, no exponential overflows, and the weights are the same.
    powers = np.exp(values - values.max(axis))
    return powers / powers.sum(axis)


def _least(*values):
    return np.minimum.reduce(np.broadcast_arrays(*values))


def _most(*values):
    return np.maximum.reduce(np.broadcast_arrays(*values))


EULER = Node("name", (("e",),))
CONSTANTS: dict[Key, Any] = {("e",): math.e, (r"\pi",): math.pi, (r"\mathrm{i}",): 1j, (r"\infty",): math.inf}
REDUCE = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "softmax": _softmax}
OPERATIONS: dict[str, Callable] = {
    "+": _plus, "-": lambda a, b: _plus(a, np.negative(b)), "neg": np.negative, "mul": _times, "dot": _dot, "/": _over,
    r"\pm": lambda a, b: np.array([a + b, a - b]), "mod": np.mod, "top": _top, "conj": np.conj, "sqrt": np.sqrt,
    "norm": lambda a: np.linalg.norm(a) if np.ndim(a) else np.abs(a), "floor": np.floor, "ceil": np.ceil,
    "otherwise": lambda: True, "list": _list, "row": _row, "matrix": _matrix, "range": _span, "span": _span,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "arctan": np.arctan, "ln": np.log, "log": np.log, "exp": np.exp,
    "det": np.linalg.det, "rank": np.linalg.matrix_rank, "tr": np.trace, "Re": np.real, "Im": np.imag,
    "erf": np.vectorize(math.erf), "min": _least, "max": _most,
}  # fmt: skip
