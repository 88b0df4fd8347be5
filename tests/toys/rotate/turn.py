"""Turn: rotate the pair (i, i + d/2) of queries and keys by an angle that grows with position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    y_i = x_i cos(p theta_i) - x_(i+d/2) sin(p theta_i),    theta_i = base^(-2i/d)
"""

import numpy as np
import torch
from torch import Tensor, nn


def turn(x: np.ndarray, positions: np.ndarray, base: float = 10_000.0, sense: str = "left") -> np.ndarray:
    """Return `x` (..., t, d) turned to `positions` (t,)."""
    _check(x.shape[-1], base, sense)
    theta = float(base) ** (-np.arange(x.shape[-1] // 2) * 2 / x.shape[-1])  # (d/2,)
    angle = (1 if sense == "left" else -1) * np.asarray(positions, np.float64)[:, None] * theta  # (t, d/2)
    first, second = np.split(np.asarray(x, np.float64), 2, axis=-1)  # (..., t, d/2)
    sin, cos = np.sin(angle), np.cos(angle)  # (t, d/2)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)  # (..., t, d)


class Turn(nn.Module):
    """Turn queries and keys."""

    def __init__(self, dim: int, base: float = 10_000.0, sense: str = "left") -> None:
        super().__init__()
        _check(dim, base, sense)
        self.dim, self.base, self.sense = dim, base, sense

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d) turned to their positions."""
        queries, keys = q.shape[-2], k.shape[-2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        if positions is None:
            positions = torch.arange(keys - queries, keys, device=q.device)  # (t,)
        if key_positions is None:
            key_positions = torch.arange(keys, device=k.device)  # (s,)
        self._fits("q", q, "positions", positions)
        self._fits("k", k, "key_positions", key_positions)
        return self._turned(q, positions), self._turned(k, key_positions)  # (b, h, t, d), (b, g, s, d)

    def _fits(self, name: str, x: Tensor, of: str, positions: Tensor) -> None:
        if not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != self.dim:
            raise ValueError(f"turn: {name} must be floating point (b, h, t, {self.dim}), got {tuple(x.shape)}")
        if positions.shape not in (x.shape[-2:-1], (1, x.shape[-2]), (x.shape[0], x.shape[-2])):
            raise ValueError(f"turn: {of} must be (t,) or (b, t), got {tuple(positions.shape)} for {tuple(x.shape)}")

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        pair = torch.arange(self.dim // 2, dtype=torch.float64, device=x.device)  # (d/2,)
        angle = positions.double()[..., None, :, None] * self.base ** (-2 * pair / self.dim)
        angle = angle if self.sense == "left" else -angle
        first, second = x.double().chunk(2, dim=-1)
        sin, cos = angle.sin(), angle.cos()
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).to(x)


def _check(dim: int, base: float, sense: str) -> None:
    if not isinstance(dim, int) or dim < 2 or dim % 2:
        raise ValueError(f"turn: dim must be even, got {dim}; features turn in pairs")
    if not 0 < base < np.inf:
        raise ValueError(f"turn: base must be positive, got {base}")
    if sense not in ("left", "right"):
        raise ValueError(f"turn: sense must be left or right, got {sense!r}")
