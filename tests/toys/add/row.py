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


def row(positions: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the rows (t, d) of the learned `weight` (n, d) at `positions` (t,), in float64."""
    positions, weight = _numbers("positions", positions, 1), _numbers("weight", weight, 2)
    if not ((positions % 1 == 0) & (positions >= 0) & (positions < len(weight))).all():
        raise ValueError(f"row: positions must be integers in [0, {len(weight)}), got {positions}")
    return weight[positions.astype(int)]  # (t, d)


class Row(nn.Module):
    """Add learned rows; `weight` (n, d) starts at zero.

    Args:
        dim: Width d of the embeddings.
        length: How many positions n there are; a later one is refused.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = Row(dim=2, length=9)
        >>> _ = torch.nn.init.constant_(encoding.weight[8], 1.0)
        >>> encoding(torch.zeros(1, 2, 2), torch.tensor([0, 8])).detach()
        tensor([[[0., 0.],
                 [1., 1.]]])
    """

    def __init__(self, dim: int, length: int) -> None:
        super().__init__()
        for name, given in (("dim", dim), ("length", length)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 1:
                raise ValueError(f"row: {name} must be a positive integer, got {given!r}")
        self.weight = nn.Parameter(torch.zeros(length, dim))  # (n, d)

    def forward(self, x: Tensor, positions: Tensor | None = None, table: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the rows at `positions` (t,) or (b, t); or plus a `table` made once of them."""
        width = self.weight.shape[-1]
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim != 3 or x.shape[-1] != width:
            raise ValueError(f"row: x must be floating point (b, t, {width}), got {_shape(x)}")
        if table is not None:
            if not isinstance(table, Tensor) or table.shape not in (x.shape[1:], (1, *x.shape[1:]), x.shape):
                raise ValueError(f"row: table must be (t, d) or (b, t, d) for x {_shape(x)}, got {_shape(table)}")
            return x + table.to(x)  # (b, t, d)
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)  # (t,)
        fitting = (x.shape[-2:-1], (1, x.shape[-2]), x.shape[:-1])
        if not isinstance(positions, Tensor) or positions.shape not in fitting:
            raise ValueError(
                f"row: positions must be a tensor (t,) or (b, t) for x {_shape(x)}, got {_shape(positions)}"
            )
        return x + self.table(positions).to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the rows at `positions` (t,) or (b, t), to share between calls."""
        if not isinstance(positions, Tensor) or positions.dtype not in INTEGERS or positions.ndim not in (1, 2):
            raise ValueError(f"row: positions must be integers (t,) or (b, t), got {_shape(positions)}")
        try:
            return nn.functional.embedding(positions.long(), self.weight)  # (..., t, d)
        except IndexError as error:
            raise ValueError(f"row: positions must be in [0, {len(self.weight)}), got {positions.tolist()}") from error


INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _numbers(name: str, given: np.ndarray, axes: int) -> np.ndarray:
    found = np.asarray(given)
    if found.ndim != axes or found.dtype.kind not in "iuf":
        raise ValueError(f"row: {name} must be an array of numbers with {axes} axes, got {given!r}")
    return found.astype(np.float64)


def _shape(given: object) -> object:
    return (tuple(given.shape), given.dtype) if isinstance(given, Tensor) else given
