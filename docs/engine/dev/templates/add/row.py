"""Row: add to each token embedding the learned vector of its position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  n d numbers to learn; a look-up for each token

Key:   b batch, t length, d model dim, n positions

    x[p] + weight[p]
"""

import numpy as np
import torch
from torch import Tensor, nn


def row(positions, weight) -> np.ndarray:
    """Return the rows (t, d) of the learned `weight` (n, d) at `positions` (t,), in float64."""
    positions = np.asarray(positions)
    if (positions < 0).any() or (positions % 1).any():
        raise ValueError(f"row: positions must be 0, 1, .., got {positions}")
    return np.asarray(weight, np.float64)[positions.astype(int)]  # (t, d)


class Row(nn.Module):
    """Add learned rows; `weight` (n, d) starts at zero.

    Args:
        dim: Width d of the embeddings.
        length: How many positions n there are; a later one is refused.

    Examples:
        >>> encoding = Row(dim=2, length=9)
        >>> _ = torch.nn.init.constant_(encoding.weight[8], 1.0)
        >>> encoding(torch.zeros(1, 2, 2), torch.tensor([0, 8])).detach()
        tensor([[[0., 0.],
                 [1., 1.]]])
    """

    def __init__(self, dim: int, length: int):
        super().__init__()
        if dim < 1:
            raise ValueError(f"row: dim must be 1 or more, got {dim}")
        self.weight = nn.Parameter(torch.zeros(length, dim))  # (n, d)

    def forward(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, t, d) plus a table: of `positions` (t,) or (b, t), by default 0 .. t-1."""
        b, t, d = x.shape
        if d != self.weight.shape[1] or not x.is_floating_point():
            width = self.weight.shape[1]
            raise ValueError(f"row: x must be floats (b, t, {width}), got {x.dtype} {(b, t, d)}")
        if table is None:
            table = self.table(torch.arange(t, device=x.device) if positions is None else positions)
        rows = tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), (b, t)):
            raise ValueError(f"row: positions or table must be ({t},) or ({b}, {t}), got {rows}")
        return x + table.to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the rows (..., t, d) of integer `positions` (..., t), to share between calls."""
        if positions.is_floating_point():
            raise ValueError(f"row: positions must be integers, got {positions.dtype}")
        return nn.functional.embedding(positions.long(), self.weight)  # (..., t, d)
