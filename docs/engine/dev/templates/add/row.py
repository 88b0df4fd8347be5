"""Row: add to each token embedding the learned vector of its position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  n d numbers to learn; a look-up for each token

Key:   b batch, t length, d model dim, n positions

    x[p] + weight[p]
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def row(positions: ArrayLike, weight: ArrayLike) -> np.ndarray:
    """Return the rows (t, d) of the learned `weight` (n, d) at `positions` (t,), in float64.

    Raises:
        ValueError: If `positions` are negative or fractions.
    """
    positions = np.asarray(positions)
    if (positions < 0).any() or (positions % 1).any():
        raise ValueError(f"row: positions must be 0, 1, .., got {positions}")
    return np.asarray(weight, np.float64)[positions.astype(int)]  # (t, d)


class Row(nn.Module):
    """Add learned rows; `weight` (n, d) starts at zero.

    Args:
        dim: Width d of the embeddings.
        length: How many positions n there are; a later one is refused.

    Raises:
        ValueError: If `dim` is below 1.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

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

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the rows of its `positions` (t,) or (b, t).

        With t > 1, `positions` default to 0 .. t-1; a lone token must be given its own.
        """
        b, t, d = x.shape
        width = self.weight.shape[1]
        if d != width or not x.is_floating_point():
            got = f"{x.dtype} {(b, t, d)}"
            raise ValueError(f"row: x must have shape (b, t, {width}) and a float dtype, got {got}")
        if positions is None:
            # a lone token is a new one behind others, and does not stand at 0
            if t == 1:
                raise ValueError(f"row: positions must be given for {t} token, got None")
            positions = torch.arange(t, device=x.device)
        # one position would broadcast over all tokens without an error
        shape = tuple(positions.shape)
        if shape != (t,) and shape != (1, t) and shape != (b, t):
            raise ValueError(f"row: positions must have shape ({t},) or ({b}, {t}), got {shape}")
        return x + self.table(positions).to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the rows (..., t, d) of integer `positions` (..., t)."""
        if positions.is_floating_point():
            raise ValueError(f"row: positions must be integers, got {positions.dtype}")
        return nn.functional.embedding(positions.long(), self.weight)  # (..., t, d)
