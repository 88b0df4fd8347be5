"""Slope: add to each logit a multiple of the distance, half as steep from head to head.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; a product for each pair and head

Key:   b batch, h heads, t queries, s keys, m position of a query, n of a key

    B[i, m, n] = -|m - n| / 2^i    for head i
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def slope(positions: ArrayLike, key_positions: ArrayLike, heads: int) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    Raises:
        ValueError: If `heads` is below 1.
        ValueError: If positions are not (t,) and (s,).
    """
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t); m[:, None] would broadcast it silently
    distance = np.abs(m.reshape(len(m), 1) - n.reshape(1, len(n)))  # (t, s)
    steepness = np.array(_steepness(heads))  # (h,)
    return -steepness[:, None, None] * distance  # (h, t, s)


class Slope(nn.Module):
    """Give the bias to add to the logits.

    Args:
        heads: Number of query heads h.

    Raises:
        ValueError: If `heads` is below 1.
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> Slope(heads=2)(torch.arange(3))[:, 2]  # of the last query
        tensor([[-2.0000, -1.0000, -0.0000],
                [-1.0000, -0.5000, -0.0000]])
    """

    def __init__(self, heads: int):
        super().__init__()
        # a list, not a buffer: model.to(torch.bfloat16) would round it
        self.steepness = _steepness(heads)

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t) or
        (b, s) gives (b, h, t, s).
        """
        m, n = _positions(positions, key_positions)
        distance = (m[..., :, None] - n[..., None, :]).abs()  # (..., t, s)
        steepness = distance.new_tensor(self.steepness)  # (h,)
        # an axis of heads, over which distances are the same
        bias = -steepness[:, None, None] * distance.unsqueeze(-3)  # (..., h, t, s)
        return bias.to(positions.device, torch.float32)

    def score_mod(
        self,
        positions: Tensor,
        key_positions: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_positions(positions, key_positions))

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            distance = (_at(m, b, q_idx) - _at(n, b, kv_idx)).abs()
            return score - (distance * 0.5**h).to(score.dtype)

        return _modify


def _positions(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys in float64."""
    if key_positions is None:
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError("slope: key_positions must be given for a lone query, got None")
        key_positions = positions
    device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
    return positions.to(device, torch.float64), key_positions.to(device, torch.float64)


def _at(positions: Tensor, b: Tensor, i: Tensor) -> Tensor:
    """Return the position of token i of sequence b, of (b, t) or (1, t)."""
    # one row serves every sequence
    row = 0 * b if len(positions) == 1 else b
    return positions[row, i]


def _steepness(heads: int) -> list[float]:
    """Return what each head takes away for a step."""
    if heads < 1:
        raise ValueError(f"slope: heads must be 1 or more, got {heads}")
    return [0.5**i for i in range(heads)]
