"""Biases that several files examine: T5's buckets, a learned number for each offset, a change of each score."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.doctor.blocks import offsets


def bucket(offset: Tensor, half: int = 16, limit: int = 128, both_sides: bool = True) -> Tensor:
    """Return T5's bucket of each offset: exact ones near, logarithmic ones far, and as many for keys ahead."""
    near, distance = half // 2, offset.abs()
    far = near + (torch.log(distance.clamp(min=1) / near) / math.log(limit / near) * (half - near)).long()
    number = torch.where(distance < near, distance, far.clamp(max=half - 1))
    return torch.where(offset > 0, number + half, number) if both_sides else number


def change_of_scores(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    """Add the bias of ALiBi with four heads to each score, as FlexAttention asks for it."""
    return score + torch.exp2(-(h + 1) * 8.0 / 4) * (kv_idx - q_idx)


class LearnedByOffset(nn.Module):
    """A learned number for each head and bucket of the offset; attributes tell what the module says of itself."""

    def __init__(self, change: Callable[[Tensor], Tensor] = bucket, **attributes: object) -> None:
        super().__init__()
        rows = int(change(torch.arange(-600, 601)).max()) + 1
        self.change, self.table = change, nn.Embedding(rows, 4)
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, i: int, j: int) -> Tensor:
        return self.table(self.change(offsets(i, j))).permute(2, 0, 1)


class Buckets(nn.Module):
    """T5's bias by 32 rows; `scale` is the factor that it keeps, `applied` the one that it multiplies by."""

    def __init__(self, applied: float = 0.25, both_sides: bool = True, half: int = 16) -> None:
        super().__init__()
        self.scale, self.ratio = 0.25, applied / 0.25
        self.both_sides, self.half, self.table = both_sides, half, nn.Embedding(32, 4)

    def forward(self, i: int, j: int) -> Tensor:
        factor = self.scale if self.ratio == 1 else 1.0
        return self.table(bucket(offsets(i, j), self.half, both_sides=self.both_sides)).permute(2, 0, 1) * factor
