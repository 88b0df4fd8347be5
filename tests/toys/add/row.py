"""Row: add to each token embedding the learned row of its position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Key:   b batch, t length, d model dim, n rows

    x[p] + weight[p]
"""

import numpy as np
import torch
from torch import Tensor, nn


def row(positions: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the rows (t, d) of the learned `weight` (n, d) at `positions` (t,)."""
    positions = np.asarray(positions)  # (t,)
    if (positions % 1).any() or positions.min() < 0 or positions.max() >= len(weight):
        raise ValueError(f"row: positions must be integers in [0, {len(weight)}), got {positions}")
    return weight.astype(np.float64)[positions.astype(int)]  # (t, d)


class Row(nn.Module):
    """Add learned rows; `weight` (n, d) starts at zero."""

    def __init__(self, dim: int, length: int) -> None:
        super().__init__()
        if not isinstance(dim, int) or dim < 1:
            raise ValueError(f"row: dim must be a positive integer, got {dim}")
        self.weight = nn.Parameter(torch.zeros(length, dim))  # (n, d)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the rows at `positions` (t,) or (b, t)."""
        if not x.is_floating_point() or x.shape[-1] != self.weight.shape[-1]:
            raise ValueError(f"row: x must be floating point of the width of the rows, got {tuple(x.shape)}")
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)  # (t,)
        if positions.shape not in (x.shape[-2:-1], (1, x.shape[-2]), x.shape[:-1]):
            raise ValueError(f"row: positions must be (t,) or (b, t), got {tuple(positions.shape)}")
        if positions.is_floating_point():
            raise ValueError(f"row: positions must be integers, got {positions.dtype}")
        try:
            rows = nn.functional.embedding(positions.long(), self.weight)  # (..., t, d)
        except IndexError as error:
            raise ValueError(f"row: positions must be in [0, {len(self.weight)}), got {positions.tolist()}") from error
        return x + rows.to(x)  # (b, t, d)
