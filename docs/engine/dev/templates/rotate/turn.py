"""Turn: rotate the pair (i, i + d/2) of queries and keys by an angle that grows with position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; four products for each pair of channels

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim

    y_i       = x_i cos(p theta_i) - x_(i+d/2) sin(p theta_i),    theta_i = base^(-2i/d)
    y_(i+d/2) = x_(i+d/2) cos(p theta_i) + x_i sin(p theta_i)
"""

import numpy as np
import torch
from torch import Tensor, nn


def turn(x, positions, base=10_000.0) -> np.ndarray:
    """Return `x` (..., t, d) in float64, each row turned to its position (t,)."""
    x = np.asarray(x, np.float64)
    theta = _theta(x.shape[-1], base)  # (d/2,)
    angle = np.reshape(positions, (x.shape[-2], 1)) * theta  # (t, d/2)
    cos, sin = np.cos(angle), np.sin(angle)
    first, second = np.split(x, 2, axis=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    return np.concatenate(turned, axis=-1)  # (..., t, d)


class Turn(nn.Module):
    """Turn queries and keys to their positions.

    Args:
        dim: Width d of a head, even.
        base: Sets the slowest turn, base^(-1 + 2/d) radians a position.

    Examples:
        >>> q, k = Turn(dim=4)(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4))
        >>> [round(x, 2) for x in k[0, 0, 1].tolist()]
        [-0.3, 0.99, 1.38, 1.01]
    """

    def __init__(self, dim: int, base=10_000.0):
        super().__init__()
        self.dim = dim
        self.theta = tuple(_theta(dim, base).tolist())  # no buffer: a cast would round it

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t,) or (b, t).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is key_positions is None and (t > s or s == 1):
            raise ValueError(f"turn: positions must be given for {t} queries, {s} keys, got None")
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
            if positions is not None and t == s:
                key_positions = positions
        if positions is None:
            positions = key_positions[..., s - t :]
        return self._turned(q, positions), self._turned(k, key_positions)

    def _turned(self, x, positions):
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(f"turn: q or k must be floats (b, h, t, {self.dim}), got {got}")
        rows = tuple(positions.shape)
        if rows not in ((t,), (1, t), (b, t)):
            raise ValueError(f"turn: positions must be ({t},) or ({b}, {t}), got {rows}")

        theta = torch.tensor(self.theta, dtype=torch.float64, device=x.device)  # (d/2,)
        angle = positions.double()[..., None, :, None] * theta  # (..., 1, t, d/2)
        cos, sin = angle.cos(), angle.sin()
        first, second = x.double().chunk(2, dim=-1)  # (b, h, t, d/2), (b, h, t, d/2)
        turned = first * cos - second * sin, second * cos + first * sin
        return torch.cat(turned, dim=-1).to(x.dtype)  # (b, h, t, d)


def _theta(dim, base):
    if dim < 2 or dim % 2:
        raise ValueError(f"turn: dim must be even and 2 or more, got {dim}; channels turn in pairs")
    if not 0 < base < np.inf:
        raise ValueError(f"turn: base must be positive and finite, got {base}")
    return base ** (-np.arange(0, dim, 2) / dim)  # (d/2,)
