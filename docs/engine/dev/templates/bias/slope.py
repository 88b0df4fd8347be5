"""Slope: add to each logit a multiple of the distance, half as steep from head to head.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; a product for each pair and head

Key:   b batch, h heads, t queries, s keys

    B[i, m, n] = -|m - n| / 2^i    for head i
"""

import numpy as np
import torch
from torch import Tensor, nn


def slope(positions, key_positions, heads: int) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    m = np.asarray(positions, np.float64).reshape(len(positions), 1)  # (t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, len(key_positions))  # (1, s)
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

    def forward(self, positions: Tensor, key_positions=None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        Keys stand where queries do by default. A batch (b, t) or (b, s) gives (b, h, t, s).
        """
        keys = positions if key_positions is None else key_positions
        offset = keys.double()[..., None, :] - positions.double()[..., :, None]  # (..., t, s)
        steepness = torch.tensor(self.steepness, dtype=torch.float64, device=positions.device)
        bias = -offset.abs()[..., None, :, :] * steepness[:, None, None]  # (..., h, t, s)
        return bias.float()

    def score_mod(self, positions: Tensor, key_positions=None):
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions
        m, n = torch.atleast_2d(positions.double(), keys.double())  # one row serves each b

        def _modify(score, b, h, t, s):
            query = m[b * (len(m) > 1), t]
            key = n[b * (len(n) > 1), s]
            distance = (query - key).abs()
            return score - (distance * 0.5**h).to(score.dtype)

        return _modify


def _steepness(heads):
    if heads < 1:
        raise ValueError(f"slope: heads must be 1 or more, got {heads}")
    return [0.5**i for i in range(heads)]
