"""What the checks of a bias share: its numbers among the first places, and what can be read off them."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.bias.call_bias import Bias
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import random, relative_difference

HIDDEN = -10_000  # what is added to scores that must not be seen, or less
EVEN = 1e-4


class Case(NamedTuple):
    """What the checks share: the code, the bias that it is, its numbers (h, t, s) in float64 for the first places."""

    code: Code
    bias: Bias
    square: Tensor
    whole: bool
    """Whether there is one size only."""

    def again(self, code: Code) -> "Case":
        """Return the case of other code, asked as this was."""
        bias = Bias(code)
        return self._replace(square=bias.whole() if self.whole else bias.near(self.size))

    @property
    def size(self) -> int:
        """For how many places there are numbers."""
        *_, size = self.square.shape
        return size

    @property
    def behind(self) -> Tensor:
        """The bias of the last query by distance, (h, t): 0 is the query's own place."""
        return self.square[:, -1].flip(-1)

    @property
    def steps(self) -> Tensor:
        """The steps of the last query from key to key, (h, t - 1), nearest first."""
        return self.behind.diff(dim=-1)

    @property
    def level(self) -> Tensor:
        """The numbers without a constant of each query: 0 at its own place."""
        return level(self.square)

    @property
    def silent(self) -> bool:
        """Whether nothing is added to any score that is seen."""
        return not self.square[self.square.isfinite()].any()


def filled(code: Code) -> Code:
    """Return the code, or a copy whose parameters are random, where training has not begun."""
    if all(parameter.any() for parameter in code.learned_parameters.values()):
        return code
    other = code.fresh()
    for seed, parameter in enumerate(other.learned_parameters.values()):
        if not parameter.any():
            parameter.copy_(random(*parameter.shape, seed=seed))
    return other


def level(square: Tensor) -> Tensor:
    """Return numbers (h, t, t) without a constant of each query."""
    return square - square.diagonal(dim1=1, dim2=2)[..., None]


def unevenness(square: Tensor) -> float:
    """Return how much the numbers change along diagonals, relative to the largest."""
    one, other = square[:, 1:, 1:], square[:, :-1, :-1]
    seen = torch.logical_and(one.isfinite(), other.isfinite())
    return relative_difference(one[seen], other[seen])


def even(square: Tensor) -> bool:
    """Tell whether the numbers depend on the offset of query and key only."""
    return unevenness(square) < EVEN


def linear(steps: Tensor) -> bool:
    """Tell whether the steps (h, t) from key to key are alike, and none is 0."""
    return (
        bool(steps.isfinite().all() and steps.all())
        and relative_difference(steps, steps[:, :1].expand_as(steps)) <= 1e-3
    )


def hides(square: Tensor) -> Tensor:
    """Return where scores are hidden."""
    return square < HIDDEN
