"""Call a bias of any signature for its numbers, whatever it takes: places, lengths, a mask, or nothing at all."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from posenc.diagnosis.calling.call import Code, attempt

SIZE = 24


class Bias:
    """The bias as a function of the queries' and keys' places: (h, t, s)."""

    def __init__(self, code: Code) -> None:
        self.code = code
        roles = ("relative", "positions", "length", "mask", "grid", "x")
        self.told_by = next((role for role in roles if code.takes(role)), "heads" if code.roles else "nothing")

    def __call__(self, queries: Tensor, keys: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the bias of `queries` (t,) to `keys` (s,), which run from 0 where lengths only can be told."""
        if self.code.takes("score"):
            return self._of_scores(queries, keys, dtype or torch.float32)
        t, s = len(queries), len(keys)
        made = self.code(**self._given(queries, keys), **({} if dtype is None else {"dtype": dtype}))
        made = made[0] if isinstance(made, tuple) else made
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
        if self.told_by == "mask":
            return {"mask": torch.ones(1, s)}
        if self.told_by == "x":
            return {"x": torch.zeros(1, self.code.heads, t, s)}
        return {}

    def _of_scores(self, queries: Tensor, keys: Tensor, dtype: torch.dtype) -> Tensor:
        heads = torch.arange(self.code.heads).view(-1, 1, 1)
        zeros = torch.zeros(len(heads), len(queries), len(keys), dtype=dtype)
        places = {"positions": queries.view(-1, 1), "key_positions": keys.view(1, -1)}
        return self.code(score=zeros, b=torch.tensor(0), h=heads, **places)

    def near(self, start: int = 0, size: int = SIZE) -> Tensor:
        """Return the bias among `size` tokens from place `start` on, in float64."""
        places = torch.arange(start, start + size)
        return self(places, places).double()

    def _of_cells(self) -> Any:
        """Return the bias of scores whose number of tokens is fixed: that of a window."""
        for n in (24, 16, 49, 64, 25, 36, 100, 144, 196, 17, 50, 65, 197):
            made, failed = attempt(self.code, x=torch.zeros(1, self.code.heads, n, n))
            if not failed:
                return made
        return self.code(x=torch.zeros(1, self.code.heads, 24, 24))

    def whole(self) -> Tensor:
        """Return the bias (h, n, n) of code that takes no sizes, in float64."""
        made = self._of_cells() if self.told_by == "x" else self.code()
        made = made[0] if isinstance(made, tuple) else made
        made = made.squeeze(0) if made.ndim == 4 else made
        if made.ndim == 3 and made.shape[0] == made.shape[1] != made.shape[2]:
            made = made.permute(2, 0, 1)
        return (made[None] if made.ndim == 2 else made).double()


def laid(made: Tensor, heads: int, t: int, s: int) -> Tensor:
    """Return numbers as (h, t, s), whatever axes they came with."""
    made = made.reshape(-1, *made.shape[-2:]) if made.ndim > 3 and made.shape[0] == 1 else made
    made = made[0] if made.ndim == 4 else made
    made = made[None] if made.ndim == 2 else made
    if made.shape[:2] == (t, s) and made.shape[2] == heads and (made.shape[1:] != (t, s)):
        made = made.permute(2, 0, 1)
    return made.expand(-1, t, -1)


class Case(NamedTuple):
    """What the checks share: the code, the bias that it is, its numbers (h, t, s) in float64 for the first places."""

    code: Code
    bias: Bias
    square: Tensor
    filled: bool = False

    @property
    def behind(self) -> Tensor:
        """The bias of the last query by distance, (h, t): 0 is the query's own place."""
        return self.square[:, -1].flip(-1)

    @property
    def level(self) -> Tensor:
        """The numbers without a constant of each query: 0 at its own place."""
        return self.square - self.square.diagonal(dim1=1, dim2=2)[..., None]


def filled(code: Code) -> Code:
    """Return a copy whose parameters are random, where training has not begun."""
    other = code.fresh()
    generator = torch.Generator().manual_seed(1)
    module = other.module
    for parameter in () if module is None else module.parameters():
        if parameter.numel() and float(parameter.std(unbiased=False) if parameter.numel() > 1 else 0.0) == 0.0:
            nn.init.normal_(parameter, generator=generator)
    return other


def unevenness(square: Tensor) -> float:
    """Return how much the numbers change along diagonals, relative to the largest."""
    finite, seen = torch.where(square.isfinite(), square, 0.0), square.isfinite()
    step = (finite[:, 1:, 1:] - finite[:, :-1, :-1]) * (seen[:, 1:, 1:] & seen[:, :-1, :-1])
    return float(step.abs().max() / finite.abs().max().clamp(min=1e-9))
