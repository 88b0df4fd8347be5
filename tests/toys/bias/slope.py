"""Slope: add to each logit a multiple of the distance between query and key, one slope a head.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Key:   b batch, h heads, t queries, s keys

    B[k, m, n] = -|m - n| / 2^k
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def slope(positions: np.ndarray, key_positions: np.ndarray, heads: int) -> np.ndarray:
    """Return the bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    _check(heads)
    distance = np.abs(np.subtract.outer(positions, key_positions, dtype=np.float64))  # (t, s)
    return -distance * 0.5 ** np.arange(heads)[:, None, None]  # (h, t, s)


class Slope(nn.Module):
    """Give the bias to add to the logits."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        _check(heads)
        self.heads = heads

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), or (b, h, t, s) where positions have a batch."""
        if key_positions is None:
            key_positions = positions
        for name, given in (("positions", positions), ("key_positions", key_positions)):
            if given.ndim not in (1, 2):
                raise ValueError(f"slope: {name} must be (t,) or (b, t), got {tuple(given.shape)}")
        b, c = (len(p) if p.ndim == 2 else 1 for p in (positions, key_positions))
        if b != c and b != 1 and c != 1:
            got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
            raise ValueError(f"slope: positions and key_positions must be of one batch, got {got}")
        slopes = 0.5 ** torch.arange(self.heads, dtype=torch.float64, device=positions.device)  # (h,)
        distance = (positions.double()[..., :, None] - key_positions.double()[..., None, :]).abs()  # (..., t, s)
        return (-distance[..., None, :, :] * slopes[:, None, None]).float()  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions

        def modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b, i] if p.ndim == 2 else p[i] for p, i in ((positions, t), (keys, s)))
            return score - (m - n).abs() * 0.5**h

        return modify


def _check(heads: int) -> None:
    if heads < 1:
        raise ValueError(f"slope: heads must be positive, got {heads}")
