"""Rotations that several files of this folder examine, sound or with one fault."""

import torch
from torch import Tensor, nn

from tests.doctor.blocks import frequencies, rotate, rotate_by, rotate_interleaved

SMALL = {"dim": 16, "heads": 3}


def sides(of_queries, of_keys):
    """Return code that rotates queries and keys each in its own way."""
    return lambda q, k, positions: (of_queries(q, positions), of_keys(k, positions))


def rotate_slowly(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate no pair by more than a fiftieth a token, so that results differ by less than their size."""
    return rotate(x, positions / 50)


def rotate_rows(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate by positions (b, t), or by (t,) as by one row."""
    return rotate(x, positions if positions.ndim == 2 else positions[None])


def row_pair(q: Tensor, k: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate by positions (b, t), and take no other form, as in transformers."""
    angles = (position_ids[..., None].float() * frequencies(q.shape[-1])).unsqueeze(1)
    return rotate_by(q, angles), rotate_by(k, angles)


def rotate_twice(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate in both layouts, one after the other, which mixes channels in more than pairs."""
    return rotate_interleaved(rotate(x, positions), positions)


def rotate_backwards(x: Tensor, positions: Tensor) -> Tensor:
    return rotate(x, -positions)


def tiled_angles(x: Tensor, positions: Tensor) -> Tensor:
    """Pair neighbors and repeat the table of angles for halves (transformers#25199)."""
    angles = (positions[:, None] * frequencies(x.shape[-1])).repeat(1, 2)
    crossed = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * angles.cos() + crossed * angles.sin()


def widened(x: Tensor, positions: Tensor) -> Tensor:
    """Return cosines beside sines, twice the width, as in PoPE."""
    angles = (positions[:, None] * frequencies(x.shape[-1])).repeat(1, 2)
    return torch.cat((x * angles.cos(), x * angles.sin()), -1)


def padded(x: Tensor, positions: Tensor, pairs: int = 1, sine: float = 1.0) -> Tensor:
    """Let the slowest pairs rest, with a cosine of 1 and a sine of `sine`; 0 is right (TsinghuaC3I/FoPE#6)."""
    angles = positions[:, None] * frequencies(x.shape[-1])
    cos, sin = angles.cos(), angles.sin()
    cos[:, -pairs:], sin[:, -pairs:] = 1.0, sine
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Table(nn.Module):
    """Look positions up in a table of angles that ends."""

    def __init__(self, dim: int, length: int = 256) -> None:
        super().__init__()
        self.angles = torch.arange(length)[:, None] * frequencies(dim)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotate_by(x, self.angles[positions])


class TableFromZero(Table):
    """Take the first rows of the table in each call."""

    def forward(self, x: Tensor) -> Tensor:
        return rotate_by(x, self.angles[: x.shape[2]])
