"""Call a bias of any signature for its numbers, whatever it takes: places, lengths, contents, a mask, or nothing."""

from typing import Any

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code
from posenc.diagnosis.calling.parameters import name_of
from posenc.diagnosis.compare import far, random

SIZE = 24
ROLES = ("relative", "positions", "length", "mask", "window", "q", "x", "heads")
PARTS = {  # what a role is made of
    "q": (("q", "k"),),
    "window": (("row_table",), ("grid",), ("q_grid",), ("rows", "columns")),
}
CELLS = (24, 16, 49, 64, 25, 36, 100, 144, 196, 17, 50, 65, 197)
WINDOWS = ((4, 6), (4, 4))
X_FORMS = (("scores", 6), ("heads", 5), ("embeddings", 5), ("scores", 5))  # and how many keys for 5 queries


class Bias:
    """The bias as a function of the queries' and keys' places: (h, t, s)."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.ids = False  # whether the last call gave integers: offsets, or ids of buckets
        self.form = ""  # of x or of a mask, once it is known
        self.window = (0, 0)  # the rows and columns that were asked for, if any
        taken = [role for role in ROLES if any(code.takes(*parts) for parts in PARTS.get(role, ((role,),)))]
        needed = [role for role in taken if role != "heads" and code.needs(PARTS.get(role, ((role,),))[0][0])]
        self.told_by = next(iter(needed + taken), "nothing")

    def __call__(self, queries: Tensor, keys: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the bias of `queries` (t,) to `keys` (s,), which run from 0 where lengths only can be told."""
        if self.code.takes("score"):
            return self._of_scores(queries, keys, dtype or torch.float32)
        made = self.code(**self._given(queries, keys), **({} if dtype is None else {"dtype": dtype}))
        return self.laid(made, len(queries), len(keys))

    def laid(self, made: Any, t: int, s: int) -> Tensor:
        """Return a result as numbers (h, t, s)."""
        made = numbers(made)
        self.ids = isinstance(made, Tensor) and not made.is_floating_point() and made.dtype != torch.bool
        return laid(made, self.code.heads, t, s)

    def _given(self, queries: Tensor, keys: Tensor) -> dict[str, Any]:
        t, s = len(queries), len(keys)
        if self.told_by == "relative":
            return {"relative": keys[None, :] - queries[:, None]}
        if self.told_by == "positions":
            return {"positions": queries, "key_positions": keys}
        if self.told_by == "length":
            offset = {"offset": s - t} if s > t else {}
            return {"length": t, "key_length": s} | offset
        if self.told_by == "q":
            return {"q": self._shaped("heads", t, s), "k": self._shaped("heads", s, s)}
        if self.told_by in ("x", "mask"):
            self.form = self.form or self._found()
            return {self.told_by: self._shaped(self.form, t, s)}
        return {}

    def _shaped(self, form: str, t: int, s: int) -> Tensor:
        """Return what tells the number of tokens: scores, contents that are the same at each place, what is seen."""
        heads, dim = self.code.heads, self.code.dim
        if form == "scores":
            return torch.zeros(1, heads, t, s)
        if form in ("heads", "embeddings"):
            return random(dim).repeat(*((1, heads, t, 1) if form == "heads" else (1, t, 1)))
        return torch.ones(1, s) if form == "padding" else torch.ones(t, s).tril(s - t)

    def _found(self) -> str:
        """Find out in which form the code takes x, or a mask."""
        if self.told_by == "mask":
            return next((form for form in ("padding", "seen") if self._fits(form, 6, 6)), "padding")
        return next((form for form, s in X_FORMS if self._fits(form, 5, s)), "scores")

    def _fits(self, form: str, t: int, s: int) -> bool:
        """Tell whether a form gives numbers for these tokens; asked of a copy, since code may keep what it made."""
        x, code = self._shaped(form, t, s), self.code.fresh()
        made, failed = attempt(lambda: self.laid(code(**{self.told_by: x}), t, s))
        return not failed and is_square(made, t, s) and (form != "scores" or bool(made.any()))

    def _of_scores(self, queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
        heads = torch.arange(self.code.heads).view(-1, 1, 1)
        zeros = torch.zeros(len(heads), len(queries), len(keys), dtype=dtype)
        places = {"positions": queries.view(-1, 1), "key_positions": keys.view(1, -1)}
        return self.code(score=zeros, b=torch.tensor(0), h=heads, **places)

    @property
    def steps(self) -> bool:
        """Whether a flag `cache` asks for one query after all keys."""
        code = self.code
        flag = code.takes("cache") and isinstance(code.parameters[code.roles["cache"]].default, bool)
        return flag and self.told_by == "length" and not code.takes("key_length")

    def step(self, s: int) -> Tensor:
        """Return the bias (h, 1, s) of one query after all keys."""
        return self.laid(self.code(length=s, cache=True), 1, s)

    def near(self, start: int = 0, size: int = SIZE) -> Tensor:
        """Return the bias among `size` tokens from place `start` on, in float64."""
        places = torch.arange(start, start + size)
        return self(places, places).double()

    def whole(self) -> Tensor:
        """Return the bias (h, n, n) of code that takes no sizes, or those of a window, in float64."""
        if self.told_by == "window":
            return self._of_windows()
        made = self._of_cells() if self.told_by == "x" else self.code()
        return self._squared(made)

    def _squared(self, made: Any) -> Tensor:
        made = numbers(made)
        made = made.squeeze(0) if made.ndim > 3 else made
        if made.ndim in (4, 5) and made.shape[-4:-2] == made.shape[-2:]:
            made = made.flatten(-2).flatten(-3, -2)
        if made.ndim == 3 and made.shape[0] == made.shape[1] != made.shape[2]:
            made = made.permute(2, 0, 1)
        self.ids = not made.is_floating_point() and made.dtype != torch.bool
        return added(made[None] if made.ndim == 2 else made).double()

    def _of_cells(self) -> Any:
        """Return the bias of scores, or of contents, whose number of tokens is fixed: that of a window."""
        for form in ("scores", "heads", "embeddings"):
            for n in CELLS:
                made, failed = attempt(self.code, x=self._shaped(form, n, n))
                fits = not failed and made.shape[-1] == made.shape[-2] == n
                if fits and (form != "scores" or self.adds(made.squeeze(0), n)):
                    self.form = form
                    return made
        return self.code(x=self._shaped("scores", SIZE, SIZE))

    def adds(self, none: Tensor, n: int) -> bool:
        """Tell whether other scores (n, n) than 0, which gave `none`, come back with the same added, or not at all."""
        x = random(1, self.code.heads, n, n, seed=1)
        some, failed = attempt(self.code.fresh(), x=x.clone())
        some = None if failed else some.reshape(-1, n, n)
        return some is not None and (torch.equal(none, some) or far(some - none, x[0].expand_as(none)) < 1e-5)

    def _of_windows(self) -> Tensor:
        """Return the bias of the first window that the code takes: its own, or one that is not square."""
        for window in (*own_windows(self.code), *WINDOWS):
            made, failed = attempt(lambda window=window: self.of_window(*window))
            if not failed:
                return made
        return self.of_window(*WINDOWS[0])

    def of_window(self, rows: int, columns: int) -> Tensor:
        """Return the bias (h, n, n) of a window; what is made of contents meets the same content at each cell."""
        n, dim, self.window = rows * columns, self.code.dim, (rows, columns)
        content = random(dim).repeat(1, n, 1)
        given: dict[str, Any] = {"grid": self.window, "rows": rows, "columns": columns, "q_grid": self.window}
        given |= {"k_grid": self.window} if self.code.needs("k_grid") else {}
        given |= {"row_table": random(2 * rows - 1, dim, seed=1), "column_table": random(2 * columns - 1, dim, seed=2)}
        given |= {"q": content, "x": torch.zeros(1, n, n) if self.code.takes("q") else content}
        return self._squared(self.code(**given))


def names_of(code: Code) -> str:
    """Return the names that the code goes by: its own, its owner's, of what it calls and of the modules inside."""
    owner = getattr(code.function, "__self__", code.function)
    used = getattr(getattr(code.function, "__code__", None), "co_names", ())
    inside = [type(part).__name__ for part in code.parts]
    return " ".join((name_of(code.source), name_of(code.function), type(owner).__name__, *used, *inside)).lower()


def own_windows(code: Code) -> list[tuple[int, int]]:
    """Return the window that a module says it is for, unless that is a square."""
    said = [tuple(size) for part in code.parts if isinstance(size := getattr(part, "window_size", None), tuple | list)]
    return [size for size in said if len(size) == 2 and size[0] != size[1]]


def numbers(made: Any) -> Any:
    """Return the bias among the parts of a result: the first of two axes, or the one tensor that an object holds."""
    if isinstance(made, tuple):
        return next((part for part in made if isinstance(part, Tensor) and part.ndim > 1), made[0])
    held = [] if isinstance(made, Tensor) else [x for x in getattr(made, "__dict__", {}).values() if torch.is_tensor(x)]
    return held[0] if len(held) == 1 else made


def is_square(made: Any, t: int, s: int) -> bool:
    """Tell whether the result is numbers (h, t, s)."""
    return isinstance(made, Tensor) and made.ndim == 3 and made.shape[-2:] == (t, s)


def laid(made: Tensor, heads: int, t: int, s: int) -> Tensor:
    """Return numbers as (h, t, s), whatever axes they came with."""
    made = made.reshape(-1, *made.shape[-2:]) if made.ndim > 3 and made.shape[0] == 1 else made
    made = made[0] if made.ndim == 4 else made
    made = made[None] if made.ndim == 2 else made
    if made.shape[:2] == (t, s) and made.shape[2] == heads and (made.shape[1:] != (t, s)):
        made = made.permute(2, 0, 1)
    return added(made.expand(-1, t, -1))


def added(made: Tensor) -> Tensor:
    """Return what is added to the scores, for a mask that tells by a bool what is seen, or what is hidden."""
    if made.dtype != torch.bool:
        return made
    own = made.diagonal(made.shape[-1] - made.shape[-2], -2, -1)
    seen = made if own.double().mean() >= 0.5 else ~made
    return torch.where(seen, 0.0, float("-inf"))
