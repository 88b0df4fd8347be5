"""Call a bias on the logits for its numbers, whatever arguments give it the tokens, and record them."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.call.code import Code
from posenc.doctor.call.parameters import name_of
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.safe_call import attempt

SIZES = (24, 16, 12, 8, 6)  # numbers of tokens to try
# Of code that takes one number only: windows of 4 by 4 to 14 by 14, some with a class token before their cells.
FIXED_SIZES = (24, 16, 49, 64, 25, 36, 100, 144, 196, 17, 50, 65, 197)
WINDOWS = ((5, 7), (6, 6))  # rows and columns to try; a square hides rows that are taken for columns
HIDDEN = -10_000  # a number of this size or below hides a key
SAME_NUMBERS = 1e-4  # of the largest
WINDOW_ROLES = ("row_table", "grid", "q_grid", "rows")
# What tells code its tokens, likeliest first: content has their number too, but may be there for something else.
POSITION_ROLES = ("relative", "positions", "length", "mask", *WINDOW_ROLES, "q", "x")
MAY_HAVE_FIXED_SIZE = ("nothing", "window", "x")
# Form of content, queries, keys. Scores have an axis of keys, whose number shows that they are no content of heads.
CONTENT_SIZES = (("scores", 5, 6), ("heads", 5, 5), ("embeddings", 5, 5), ("scores", 5, 5))


class Bias:
    """The bias as a function of the positions of queries and keys, (h, t, s)."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.position_argument = _position_argument(code)
        self.content_form = ""  # of x, or of the mask, once it is known
        self.returns_ids = False  # whether the last call gave integers: offsets, or ids of buckets
        self.window: tuple[int, ...] = ()  # the last one that was asked for, rows and columns

    @property
    def tells_queries_from_keys(self) -> bool:
        """Whether a few queries can be asked for after more keys."""
        roles = ("score", "key_positions", "key_length", "k")
        return self.content_form == "scores" or any(self.code.takes(role) for role in roles)

    def __call__(self, queries: Tensor, keys: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the bias of `queries` (t,) to `keys` (s,), which count from 0 where code takes lengths only."""
        arguments = self._arguments(queries, keys, dtype or torch.float32)
        if dtype is not None:
            arguments["dtype"] = dtype
        return self.as_numbers(self.code(**arguments), len(queries), len(keys))

    def among(self, n: int, t: int | None = None) -> Tensor:
        """Return the bias (h, t, n) of the last t of n tokens, by default of all, in float64."""
        positions = torch.arange(n)  # (n,)
        return self(positions[n - (t or n) :], positions).double()

    def of_fixed_size(self) -> Tensor:
        """Return the bias (h, n, n) of code that takes one number of tokens only, or a window, in float64."""
        if self.position_argument == "window":
            return first_that_works(self.of_window, (*declared_windows(self.code), *WINDOWS))
        if self.position_argument == "nothing":
            return self._as_square(self.code())
        forms = product(("scores", "heads", "embeddings"), FIXED_SIZES)
        self.content_form, n = self._first_content((form, n, n) for form, n in forms)
        return self._as_square(self.code(x=self.content(self.content_form or "scores", n, n)))

    def of_window(self, window: tuple[int, ...]) -> Tensor:
        """Return the bias (h, n, n) of a window of rows and columns; content is the same in each cell."""
        self.window = window
        rows, columns = window
        n = rows * columns
        dim = self.code.dim
        content = random(dim).expand(1, n, dim).clone()  # (1, n, d)
        tables = {"row_table": random(2 * rows - 1, dim, seed=1), "column_table": random(2 * columns - 1, dim, seed=2)}
        arguments: dict[str, Any] = {"grid": window, "q_grid": window, "rows": rows, "columns": columns, "q": content}
        # Beside queries, x is the scores that the bias is added to, as in SAM.
        arguments["x"] = torch.zeros(1, n, n) if self.code.takes("q") else content
        if self.code.needs("k_grid"):
            arguments["k_grid"] = window
        return self._as_square(self.code(**arguments, **tables))

    def as_numbers(self, result: Any, t: int, s: int) -> Tensor:
        """Return a result as numbers (h, t, s) to add to the logits, whatever axes it came with."""
        numbers = _bias_in(result)
        self.returns_ids = not numbers.is_floating_point() and numbers.dtype != torch.bool
        while numbers.ndim > 3:
            numbers = numbers[0]  # of the first text
        numbers = numbers[None] if numbers.ndim == 2 else numbers
        if numbers.shape[:2] == (t, s) and numbers.shape[1:] != (t, s):
            # Heads came last.
            numbers = numbers.permute(2, 0, 1)  # (h, t, s)
        # Slope times key has one row: softmax cancels the part of the query, which would tell rows apart.
        numbers = numbers.expand(-1, t, -1)
        if numbers.dtype != torch.bool:
            return numbers
        # True may stand for visible or for hidden, but the last query sees its own key.
        visible = numbers if numbers[..., -1, -1].all() else ~numbers
        return torch.where(visible, 0.0, float("-inf"))

    def content(self, form: str, t: int, s: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return what shows the number of tokens: scores of 0, or content that is the same for each token."""
        heads, dim = self.code.heads, self.code.dim
        if form == "scores":
            return torch.zeros(1, heads, t, s, dtype=dtype)  # (1, h, t, s)
        shape = (1, heads, t, dim) if form == "heads" else (1, t, dim)
        return random(dim).to(dtype).expand(shape).clone()

    def _arguments(self, queries: Tensor, keys: Tensor, dtype: torch.dtype) -> dict[str, Any]:
        t, s = len(queries), len(keys)
        match self.position_argument:
            case "relative":
                return {"relative": keys - queries[:, None]}
            case "positions" if self.code.takes("score"):
                # A score_mod of flex attention: scores of 0, and indices that broadcast to them.
                heads = torch.arange(self.code.heads).view(-1, 1, 1)  # (h, 1, 1)
                scores = torch.zeros(len(heads), t, s, dtype=dtype)  # (h, t, s)
                indices = {"b": torch.tensor(0), "h": heads, "positions": queries[:, None], "key_positions": keys}
                return {"score": scores, **indices}
            case "positions":
                return {"positions": queries, "key_positions": keys}
            case "length":
                return {"length": t, "key_length": s, "offset": s - t}
            case "mask":
                return {"mask": self._mask(t, s)}
            case "q":
                return {"q": self.content("heads", t, s, dtype), "k": self.content("heads", s, s, dtype)}
            case "x":
                self.content_form = self.content_form or self._first_content(CONTENT_SIZES)[0]
                return {"x": self.content(self.content_form or "scores", t, s, dtype)}
        return {}

    def _mask(self, t: int, s: int) -> Tensor:
        """Return what is visible: to a text (1, s) or, where code of heads does not take that, to each query."""
        # BLOOM's ALiBi takes the mask of a text, since it counts positions from the first visible token.
        if not self.content_form:
            numbers, _ = attempt(lambda: self.as_numbers(self.code.fresh()(mask=torch.ones(1, s)), s, s))
            is_of_queries = self.code.takes("heads") and not has_shape(numbers, s, s)
            self.content_form = "causal" if is_of_queries else "padding"
        return torch.ones(1, s) if self.content_form == "padding" else torch.ones(t, s).tril(s - t)

    def _first_content(self, sizes: Iterable[tuple[str, int, int]]) -> tuple[str, int]:
        """Return the first form of content, and number of queries, that the code takes; "" if it takes none."""
        for form, t, s in sizes:
            if self._takes_content(form, t, s):
                return form, t
        return "", SIZES[0]

    def _takes_content(self, form: str, t: int, s: int) -> bool:
        """Return whether content of a form gives numbers; scores have them added, or do not matter."""

        def numbers_for(x: Tensor) -> Tensor:
            # Of a copy, since code may keep what it made, or write into its input.
            return self.as_numbers(self.code.fresh()(x=x.clone()), t, s)

        content = self.content(form, t, s)
        numbers, _ = attempt(numbers_for, content)
        if form != "scores" or not has_shape(numbers, t, s):
            return has_shape(numbers, t, s)
        # Code that multiplies scores, or takes their softmax, is no bias.
        scores = random(*content.shape, seed=1)  # (1, h, t, s)
        result, _ = attempt(numbers_for, scores)
        is_bias = _is_equal(result, numbers, 1e-5) or _is_equal(result, numbers + scores[0], 1e-5)
        return is_bias and bool(numbers.any())

    def _as_square(self, result: Any) -> Tensor:
        n = _bias_in(result).shape[-2]
        return self.as_numbers(result, n, n).double()


class Grid(NamedTuple):
    """How the tokens of a window lie: after `lead` tokens of another kind, the cells, row by row."""

    lead: int
    rows: int
    columns: int

    def cells(self, numbers: Tensor) -> Tensor:
        """Return numbers (h, n, n) as (h, rows, columns, rows, columns)."""
        lead, rows, columns = self
        return numbers[:, lead:, lead:].reshape(-1, rows, columns, rows, columns)


class BiasRecord(NamedTuple):
    """What the checks share: the code, the bias that it is, and its numbers among the first tokens, in float64."""

    code: Code
    bias: Bias
    has_fixed_size: bool  # one number of tokens only, or a window
    numbers: Tensor  # of shape (h, t, s); slopes alone are (h, 1, 1)
    relative: Tensor  # the numbers less those of each query's own position: softmax cancels a constant of each query
    steps: Tensor  # of shape (h, s - 1), of the last query from key to key, nearest first
    hidden: Tensor  # of shape (h, t, s), where keys are hidden
    grid: Grid | None  # of the tokens, where offsets are those of its rows and columns

    @property
    def size(self) -> int:
        """For how many tokens there are numbers."""
        return self.numbers.shape[-1]

    @property
    def is_linear(self) -> bool:
        """Whether the steps from key to key are equal, and none is 0."""
        first = self.steps[:, :1].expand_as(self.steps)
        return bool(self.steps.all()) and relative_difference(self.steps, first) <= 1e-3

    def of_code(self, code: Code) -> "BiasRecord":
        """Return the record of other code, called as this was."""
        bias = Bias(code)
        return record_of(code, bias, bias.of_fixed_size() if self.has_fixed_size else bias.among(self.size))


def record_of(code: Code, bias: Bias, numbers: Tensor, has_fixed_size: bool = False) -> BiasRecord:
    """Return the record of numbers (h, t, s) that a bias has."""
    relative = relative_to_own_position(numbers)  # (h, t, s)
    steps = numbers[:, -1].flip(-1).diff(dim=-1)  # (h, s-1)
    return BiasRecord(code, bias, has_fixed_size, numbers, relative, steps, numbers < HIDDEN, grid_of(numbers))


def measure_bias(code: Code) -> BiasRecord:
    """Return the record of a bias; learned parameters that are all zero show nothing, and are filled."""
    bias = Bias(code.fresh())
    if bias.position_argument == "heads":
        return record_of(code, bias, code().double().view(-1, 1, 1))
    if not all(parameter.any() for parameter in code.learned_parameters.values()):
        code = code.fresh()
        for seed, parameter in enumerate(code.learned_parameters.values()):
            if not parameter.any():
                parameter.copy_(random(*parameter.shape, seed=seed))
    if bias.position_argument in MAY_HAVE_FIXED_SIZE and attempt(bias.among, SIZES[-1])[1]:
        bias = Bias(code.fresh())
        return record_of(code, bias, bias.of_fixed_size(), has_fixed_size=True)
    return record_of(code, *among_first(code, SIZES))


def among_first(code: Code, sizes: tuple[int, ...]) -> tuple[Bias, Tensor]:
    """Return the bias and its numbers among the first number of tokens that the code takes."""

    def among(n: int) -> tuple[Bias, Tensor]:
        # Of a copy each time, since code may keep what it made for another number.
        bias = Bias(code.fresh())
        return bias, bias.among(n)

    return first_that_works(among, sizes)


def first_that_works(call: Callable[..., Any], sizes: tuple[Any, ...]) -> Any:
    """Return the result for the first size whose call raises no error; raise what the last call raises."""
    *others, last = sizes
    for size in others:
        result, failed = attempt(call, size)
        if not failed:
            return result
    return call(last)


def relative_to_own_position(numbers: Tensor) -> Tensor:
    """Return numbers (h, t, t) less those of each query's own position."""
    return less_constant(numbers, numbers.diagonal(dim1=1, dim2=2)[..., None])


def less_constant(numbers: Tensor, constant: Tensor) -> Tensor:
    """Return numbers (h, t, s) less a constant (h, t, 1) of each query, unless that is infinite: a hidden key."""
    return numbers - torch.where(constant.isfinite(), constant, 0.0)


def change_at_one_offset(numbers: Tensor) -> float:
    """Return how much numbers (h, t, s) change where query and key move together, relative to the largest."""
    later, earlier = numbers[:, 1:, 1:], numbers[:, :-1, :-1]
    # A mask of parts of the text hides keys whatever their offset, so that hidden pairs are left out.
    are_finite = later.isfinite() & earlier.isfinite()
    return relative_difference(later[are_finite], earlier[are_finite])


def grid_of(numbers: Tensor) -> Grid | None:
    """Return the grid whose offsets numbers (h, n, n) depend on, None if there is none; a class token may lead."""
    n = numbers.shape[-1]
    if change_at_one_offset(numbers) < SAME_NUMBERS:
        return None
    for lead, rows in product((0, 1), range(2, n)):
        grid = Grid(lead, rows, columns=(n - lead) // rows)
        if grid.columns < 2 or lead + rows * grid.columns != n:
            continue
        # Numbers stay where query and key move together, along a row and from row to row.
        cells = grid.cells(numbers)
        along = relative_difference(cells[:, :, 1:, :, 1:], cells[:, :, :-1, :, :-1])
        down = relative_difference(cells[:, 1:, :, 1:], cells[:, :-1, :, :-1])
        if along < SAME_NUMBERS and down < SAME_NUMBERS:
            return grid
    return None


def has_shape(numbers: Any, t: int, s: int) -> bool:
    """Return whether the result is numbers (h, t, s)."""
    return isinstance(numbers, Tensor) and numbers.shape[1:] == (t, s)


def depends_on_content(bias: Bias) -> bool:
    """Return whether numbers for content are no bias of positions: content must not change what is added to scores."""
    # Products of queries and keys change with the content; a bias takes the numbers of tokens from it.
    if bias.position_argument == "q":
        content = bias.content("heads", 6, 6)
        numbers, result = (_bias_in(bias.code(q=x, k=x)) for x in (content, content.exp()))
        return not _is_equal(result, numbers, 0.0)
    return bias.position_argument == "x" and not bias.content_form


def names_of(code: Code) -> str:
    """Return the names that the code goes by: its own, its owner's, of what it calls and of the modules inside."""
    owner = getattr(code.function, "__self__", code.function)
    used = getattr(getattr(code.function, "__code__", None), "co_names", ())
    inside = [type(part).__name__ for part in code.modules]
    return " ".join((name_of(code.source), name_of(code.function), type(owner).__name__, *used, *inside)).lower()


def declared_windows(code: Code) -> list[tuple[int, ...]]:
    """Return the windows that modules say they are for, without squares."""
    declared = [getattr(part, "window_size", None) for part in code.modules]
    sizes = [tuple(size) for size in declared if isinstance(size, tuple | list)]
    return [size for size in sizes if len(size) == 2 and size[0] != size[1]]


def _position_argument(code: Code) -> str:
    """Return what tells the code its tokens: what it cannot do without, else what it takes."""
    roles = [role for role in POSITION_ROLES if code.takes(role)]
    if not roles:
        return "heads" if code.takes("heads") else "nothing"
    # Of several, the first without a default: an optional mask or length changes little.
    role = min(roles, key=lambda role: not code.needs(role))
    return "window" if role in WINDOW_ROLES else role


def _bias_in(result: Any) -> Any:
    """Return the bias among the parts of a result, or of an object: the first of two axes or more."""
    if isinstance(result, Tensor):
        return result
    parts = result if isinstance(result, tuple) else getattr(result, "__dict__", {}).values()
    for part in parts:
        if isinstance(part, Tensor) and part.ndim > 1:
            return part
    return result


def _is_equal(result: Any, expected: Tensor, tolerance: float) -> bool:
    """Return whether numbers are equal, a NaN to a NaN: a bias of NaN is a bias."""
    if not isinstance(result, Tensor):
        return False
    result, expected = (torch.where(part.isnan(), 0.0, part) for part in (result, expected))
    return relative_difference(result, expected) <= tolerance
