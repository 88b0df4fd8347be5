"""What the checks of a bias share: its numbers among the first places, and what can be read off them."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from posenc.diagnosis.biases.asking import Bias
from posenc.diagnosis.calling.call import Code


class Case(NamedTuple):
    """What the checks share: the code, the bias that it is, its numbers (h, t, s) in float64 for the first places."""

    code: Code
    bias: Bias
    square: Tensor
    whole: bool = False
    """Whether there is one size only."""

    def again(self, code: Code) -> Tensor:
        """Return the numbers of other code, asked as these were."""
        bias = Bias(code)
        return bias.near(size=self.size) if not self.whole else bias.whole()

    @property
    def size(self) -> int:
        """For how many places there are numbers."""
        return self.square.shape[-1]

    @property
    def heads(self) -> int:
        """For how many heads there are numbers."""
        return len(self.square)

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
        if len(parameter.unique()) == 1:
            nn.init.normal_(parameter, generator=generator)
    return other


def unevenness(square: Tensor) -> float:
    """Return how much the numbers change along diagonals, relative to the largest."""
    finite, seen = torch.where(square.isfinite(), square, 0.0), square.isfinite()
    step = (finite[:, 1:, 1:] - finite[:, :-1, :-1]) * (seen[:, 1:, 1:] & seen[:, :-1, :-1])
    return float(step.abs().max() / finite.abs().max().clamp(min=1e-9))
