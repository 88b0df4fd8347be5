"""Slope: add to each logit a multiple of the distance, half as steep from head to head.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; a product for each pair and head

Key:   b batch, h heads, t queries, s keys

    B[i, m, n] = -|m - n| / 2^i    for head i
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def slope(positions: ArrayLike, key_positions: ArrayLike, heads: int) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    m = np.asarray(positions, np.float64)[:, None]  # (t, 1)
    n = np.asarray(key_positions, np.float64)[None]  # (1, s)
    return -np.abs(m - n) * np.array(_steepness(heads))[:, None, None]  # (h, t, s)


class Slope(nn.Module):
    """Give the bias to add to the logits.

    Args:
        heads: Number of query heads h.

    Examples:
        >>> Slope(heads=2)(torch.arange(3))[:, 2]  # of the last query
        tensor([[-2.0000, -1.0000, -0.0000],
                [-1.0000, -0.5000, -0.0000]])
    """

    def __init__(self, heads: int):
        super().__init__()
        self.steepness = _steepness(heads)

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        More queries than one have keys where they stand by default. A batch (b, t) or (b, s) gives
        (b, h, t, s).
        """
        m, n = _in_float64(positions, key_positions)
        offset = n[..., None, :] - m[..., :, None]  # (..., t, s)
        steepness = torch.tensor(self.steepness, dtype=torch.float64, device=positions.device)
        bias = -offset.abs()[..., None, :, :] * steepness[:, None, None]  # (..., h, t, s)
        return bias.float()

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_in_float64(positions, key_positions))
        # one row of positions serves each b
        row_m, row_n = int(len(m) > 1), int(len(n) > 1)

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            distance = (m[b * row_m, t] - n[b * row_n, s]).abs()
            return score - (distance * 0.5**h).to(score.dtype)

        return _modify


def _in_float64(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return where queries and keys stand."""
    if key_positions is None:
        # a lone query sees a cache of keys, over which (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError("slope: key_positions must be given for a lone query, got None")
        key_positions = positions
    return positions.double(), key_positions.double()


def _steepness(heads: int) -> list[float]:
    if heads < 1:
        raise ValueError(f"slope: heads must be 1 or more, got {heads}")
    return [0.5**i for i in range(heads)]
