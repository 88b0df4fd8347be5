"""Nearby: add to the logit the match of the query with a learned vector for the clipped offset.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r reach

    s(q, k, m, n) = q . weight[clip(n - m, -reach, reach) + reach] / sqrt(d)
"""

import numpy as np
import torch
from torch import Tensor, nn


def nearby(
    q: np.ndarray, k: np.ndarray, positions: np.ndarray, key_positions: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d), with the learned `weight` (2r+1, d)."""
    reach = len(weight) // 2
    offset = np.subtract.outer(-np.asarray(positions), -np.asarray(key_positions))  # (t, s)
    vector = weight[np.clip(np.floor(offset), -reach, reach).astype(int) + reach].astype(np.float64)  # (t, s, d)
    return np.einsum("htd,tsd->hts", q, vector) / np.sqrt(q.shape[-1])  # (h, t, s)


class Nearby(nn.Module):
    """Score queries against the offset of each key; `weight` is learned and starts at zero."""

    def __init__(self, dim: int, reach: int = 3) -> None:
        super().__init__()
        if not isinstance(dim, int) or dim < 1:
            raise ValueError(f"nearby: dim must be a positive integer, got {dim}")
        self.dim, self.reach = dim, reach
        self.weight = nn.Parameter(torch.zeros(2 * reach + 1, dim))

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d)."""
        queries, keys = q.shape[-2], k.shape[-2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        if positions is None:
            positions = torch.arange(keys - queries, keys, device=q.device)  # (t,)
        if key_positions is None:
            key_positions = torch.arange(keys, device=k.device)  # (s,)
        self._fits("q", q, "positions", positions)
        self._fits("k", k, "key_positions", key_positions)
        offset = key_positions[..., None, :].double() - positions[..., :, None].double()  # (..., t, s)
        bucket = offset.floor().clamp(-self.reach, self.reach).long() + self.reach  # (..., t, s)
        vector = self.weight.to(q)[bucket]  # (..., t, s, d)
        return torch.einsum("bhtd,...tsd->bhts" if vector.ndim == 3 else "bhtd,btsd->bhts", q, vector) / self.dim**0.5

    def _fits(self, name: str, x: Tensor, of: str, positions: Tensor) -> None:
        if not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != self.dim:
            raise ValueError(f"nearby: {name} must be floating point (b, h, t, {self.dim}), got {tuple(x.shape)}")
        if positions.shape not in (x.shape[-2:-1], (1, x.shape[-2]), (x.shape[0], x.shape[-2])):
            raise ValueError(f"nearby: {of} must be (t,) or (b, t), got {tuple(positions.shape)} for {tuple(x.shape)}")
