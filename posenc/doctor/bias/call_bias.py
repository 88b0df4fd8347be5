"""Call a bias of any signature for its numbers, whatever it takes: places, lengths, contents, a mask, or nothing."""

from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code
from posenc.doctor.call.parameters import name_of
from posenc.doctor.numerics import random, relative_difference

SIZE = 24
WAYS = (  # to be told for which tokens, each with the roles that it takes
    ("relative", ("relative",)),
    ("positions", ("positions",)),
    ("length", ("length",)),
    ("mask", ("mask",)),
    ("window", ("row_table",)),
    ("window", ("grid",)),
    ("window", ("q_grid",)),
    ("window", ("rows", "columns")),
    ("q", ("q", "k")),
    ("x", ("x",)),
)
CELLS = (24, 16, 49, 64, 25, 36, 100, 144, 196, 17, 50, 65, 197)
WINDOWS = ((5, 7), (6, 6))
X_FORMS = (("scores", 6), ("heads", 5), ("embeddings", 5), ("scores", 5))  # and how many keys for 5 queries


class Bias:
    """The bias as a function of the queries' and keys' places: (h, t, s)."""

    window: tuple[int, int]  # the rows and columns that were asked for, if any

    def __init__(self, code: Code) -> None:
        self.code = code
        self.ids = False  # whether the last call gave integers: offsets, or ids of buckets
        self.form = ""  # of x, once it is known
        taken = [(told_by, parts) for told_by, parts in WAYS if code.takes(*parts)]
        needed = [(told_by, parts) for told_by, parts in taken if all(map(code.needs, parts))]
        alone = "heads" if code.takes("heads") else "nothing"
        self.told_by, _ = next(iter(needed + taken), (alone, ()))

    def __call__(self, queries: Tensor, keys: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the bias of `queries` (t,) to `keys` (s,), which run from 0 where lengths only can be told."""
        if self.code.takes("score"):
            return self._of_scores(queries, keys, dtype or torch.float32)
        made = self.code(**self._given(queries, keys), **({} if dtype is None else {"dtype": dtype}))
        return self.laid(made, len(queries), len(keys))

    def laid(self, made: Any, t: int, s: int) -> Tensor:
        """Return a result as numbers (h, t, s), whatever axes it came with."""
        made = numbers(made)
        self.ids = not made.is_floating_point() and made.dtype != torch.bool
        while made.ndim > 3:
            made, *_ = made
        made = made[None] if made.ndim == 2 else made
        if made.shape[:2] == (t, s) != made.shape[1:]:
            made = made.permute(2, 0, 1)
        return added(made.expand(-1, t, -1))

    def _given(self, queries: Tensor, keys: Tensor) -> dict[str, Any]:
        t, s = len(queries), len(keys)
        if self.told_by == "x":
            self.form = self.form or self._found()
            return {"x": self.shaped(self.form or "scores", t, s)}
        return {
            "relative": lambda: {"relative": keys - queries[:, None]},
            "positions": lambda: {"positions": queries, "key_positions": keys},
            "length": lambda: {"length": t, "key_length": s, "offset": s - t},
            "mask": lambda: {"mask": self._mask(t, s)},
            "q": lambda: {"q": self.shaped("heads", t, s), "k": self.shaped("heads", s, s)},
        }.get(self.told_by, dict)()

    def shaped(self, form: str, t: int, s: int) -> Tensor:
        """Return what tells the number of tokens: scores, or contents that are the same at each place."""
        heads, dim = self.code.heads, self.code.dim
        if form == "scores":
            return torch.zeros(heads, t, s)[None]
        return random(dim).expand(*((heads,) if form == "heads" else ()), t, dim)[None].clone()

    def _mask(self, t: int, s: int) -> Tensor:
        """Return what is seen: by all queries of a text (1, s) or, where code of heads does not take that, by each."""
        if not self.form:
            made, _ = attempt(lambda: self.laid(self.code.fresh()(mask=torch.ones(s)[None]), s, s))
            self.form = "seen" if self.code.takes("heads") and not is_square(made, s, s) else "padding"
        return torch.ones(s)[None] if self.form == "padding" else torch.ones(t, s).tril(s - t)

    def _found(self) -> str:
        """Find out in which form the code takes x, "" if in none."""
        return next((form for form, s in X_FORMS if self._fits(form, 5, s)), "")

    def _fits(self, form: str, t: int, s: int) -> bool:
        """Tell whether a form gives numbers for these tokens; scores have them added, or do not matter."""
        x = self.shaped(form, t, s)
        made, _ = attempt(self._of_copy, x, t, s)
        fits = is_square(made, t, s)
        if form != "scores" or not fits:
            return fits
        scores = random(*x.shape, seed=1)
        other, _ = attempt(self._of_copy, scores, t, s)
        return (
            bool(made.any())
            and min(relative_difference(other, made), relative_difference(other, made + scores.squeeze(0))) < 1e-5
        )

    def _of_copy(self, x: Tensor, t: int, s: int) -> Tensor:
        """Return the numbers for x, asked of a copy, since code may keep what it made, or write on x."""
        return self.laid(self.code.fresh()(x=x.clone()), t, s)

    def _of_scores(self, queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
        heads = torch.arange(self.code.heads).view(-1, 1, 1)
        zeros = torch.zeros(len(heads), len(queries), len(keys), dtype=dtype)
        places = {"positions": queries.view(-1, 1), "key_positions": keys.view(1, -1)}
        return self.code(score=zeros, b=torch.zeros((), dtype=torch.long), h=heads, **places)

    def near(self, size: int) -> Tensor:
        """Return the bias among the first `size` tokens, in float64."""
        places = torch.arange(size)
        return self(places, places).double()

    def among(self, *sizes: int) -> Tensor:
        """Return the bias among the first number of tokens that the code takes."""
        *first, last = sizes
        fits = (size for size in first if not attempt(Bias(self.code.fresh()).near, size)[1])
        return self.near(next(fits, last))

    def last(self, t: int, size: int) -> Tensor:
        """Return the bias (h, t, size) of the last t queries, asked for after all keys."""
        places = torch.arange(size)
        return self(places[-t:], places).double()

    def whole(self) -> Tensor:
        """Return the bias (h, n, n) of code that takes no sizes, or those of a window, in float64."""
        if self.told_by == "window":
            *others, last = (*own_windows(self.code), *WINDOWS)
            fits = (window for window in others if not attempt(self.of_window, *window)[1])
            return self.of_window(*next(fits, last))
        return self._squared(self._of_cells() if self.told_by == "x" else self.code())

    def _squared(self, made: Any) -> Tensor:
        n = numbers(made).shape[-2]
        return self.laid(made, n, n).double()

    def _of_cells(self) -> Any:
        """Return the bias of scores, or of contents, whose number of tokens is fixed: that of a window."""
        forms = ((form, n) for form in ("scores", "heads", "embeddings") for n in CELLS if self._fits(form, n, n))
        self.form, n = next(forms, ("scores", SIZE))
        return self.code(x=self.shaped(self.form, n, n))

    def of_window(self, rows: int, columns: int) -> Tensor:
        """Return the bias (h, n, n) of a window; what is made of contents meets the same content at each cell."""
        n, dim, self.window = rows * columns, self.code.dim, (rows, columns)
        content = random(dim).expand(n, dim)[None].clone()
        given: dict[str, Any] = {"grid": self.window, "rows": rows, "columns": columns, "q_grid": self.window}
        given |= {"k_grid": self.window} if self.code.needs("k_grid") else {}
        given |= {"row_table": random(2 * rows - 1, dim, seed=1), "column_table": random(2 * columns - 1, dim, seed=2)}
        given |= {"q": content, "x": torch.zeros(n, n)[None] if self.code.takes("q") else content}
        return self._squared(self.code(**given))


def names_of(code: Code) -> str:
    """Return the names that the code goes by: its own, its owner's, of what it calls and of the modules inside."""
    owner = getattr(code.function, "__self__", code.function)
    used = getattr(getattr(code.function, "__code__", None), "co_names", ())
    inside = [type(part).__name__ for part in code.modules]
    return " ".join((name_of(code.source), name_of(code.function), type(owner).__name__, *used, *inside)).lower()


def own_windows(code: Code) -> list[tuple[int, ...]]:
    """Return the window that a module says it is for, unless that is a square."""
    said = [
        tuple(size) for part in code.modules if isinstance(size := getattr(part, "window_size", None), tuple | list)
    ]
    return [size for size in said if len(size) == len({*size}) == 2]


def numbers(made: Any) -> Any:
    """Return the bias among the parts of a result, or of an object: the first of two axes or more."""
    if isinstance(made, Tensor):
        return made
    parts = made if isinstance(made, tuple) else getattr(made, "__dict__", {}).values()
    return next((part for part in parts if isinstance(part, Tensor) and part.ndim > 1), made)


def is_square(made: Any, t: int, s: int) -> bool:
    """Tell whether the result is numbers (h, t, s)."""
    return isinstance(made, Tensor) and made.shape[1:] == (t, s)


def added(made: Tensor) -> Tensor:
    """Return what is added to the scores, for a mask that tells by a bool what is seen, or what is hidden."""
    if made.dtype != torch.bool:
        return made
    seen = made if made[..., -1, -1].all() else ~made  # the last query sees its own key
    return torch.where(seen, 0.0, float("-inf"))
