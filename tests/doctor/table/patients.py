"""Parts of tables that several files of this folder share: cells of a grid, and modules that add a table."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.doctor.blocks import frequencies, interleave, noise, sinusoids, sinusoids_in_halves


def inverted_sinusoids(length: int, dim: int) -> Tensor:
    """Divide positions by the frequencies (harvardnlp/annotated-transformer#131)."""
    return interleave(torch.arange(length)[:, None] / frequencies(dim))


def of_width(x: Tensor, dim: int = 64) -> int:
    """Return how many tokens embeddings (b, t, d) have; refuse another width."""
    if x.shape[-1] != dim:
        raise ValueError("another width")
    return x.shape[1]


def cells(*sides: int) -> tuple[Tensor, ...]:
    """Return the place of each cell of a grid along each axis, (*sides) each."""
    return torch.meshgrid(*(torch.arange(float(side)) for side in sides), indexing="ij")


def picture(height: int, width: int, dim: int, base: float = 10_000.0) -> Tensor:
    """Return a table (h, w, d), whose channels are half of the row and half of the column."""
    return torch.cat([sinusoids_in_halves(axis, dim // 2, base) for axis in cells(height, width)], -1)


class Along(nn.Module):
    """Embeddings (b, t, d) and the rows of their tokens."""

    def __init__(self, d_model: int, max_len: int = 512) -> None:
        super().__init__()
        self.register_buffer("pe", sinusoids(max_len, d_model)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(1), 0]


class AlongBatch(Along):
    """Add the table along the batch, as if embeddings were (t, b, d) (pytorch/tutorials#1547)."""

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(0)]


class Adds(nn.Module):
    """Embeddings (b, t, d) of width 64 and their rows, put together by a function of both and of this module."""

    def __init__(self, combine: Callable[[Tensor, Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.combine, self.norm, self.rows = combine, nn.LayerNorm(64), nn.Parameter(noise(8, 200, 64))

    def forward(self, x: Tensor) -> Tensor:
        return self.combine(x, sinusoids_in_halves(torch.arange(of_width(x)), 64), self)
