"""Turn: rotate the pair (i, i + d/2) of queries and keys by an angle that grows with position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; four products for each pair of channels

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, p position

    y_i       = x_i cos(p theta_i) - x_(i+d/2) sin(p theta_i),    theta_i = base^(-2i/d)
    y_(i+d/2) = x_(i+d/2) cos(p theta_i) + x_i sin(p theta_i)
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def turn(x: ArrayLike, positions: ArrayLike, base: float = 10_000.0) -> np.ndarray:
    """Return `x` (..., t, d) in float64, each row turned to its position (t,).

    Raises:
        ValueError: If d is odd or below 2, or `base` not positive and finite.
    """
    x = np.asarray(x, np.float64)
    theta = _theta(x.shape[-1], base)  # (d/2,)
    angle = np.reshape(positions, (x.shape[-2], 1)) * theta  # (t, d/2)
    cos = np.cos(angle)
    sin = np.sin(angle)
    first, second = np.split(x, 2, axis=-1)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return np.concatenate(turned, axis=-1)  # (..., t, d)


class Turn(nn.Module):
    """Turn queries and keys to their positions.

    Args:
        dim: Width d of a head, even.
        base: Sets the slowest turn, base^(-1 + 2/d) radians a position.

    Raises:
        ValueError: If `dim` is odd or below 2, or `base` not positive and finite.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> q, k = Turn(dim=4)(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4))
        >>> [round(x, 2) for x in k[0, 0, 1].tolist()]
        [-0.3, 0.99, 1.38, 1.01]
    """

    def __init__(self, dim: int, base: float = 10_000.0):
        super().__init__()
        self.dim = dim
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_theta(dim, base).tolist())

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t,) or (b, t).

        With t = s > 1, `positions` default to 0 .. t-1; with t = s, `key_positions` default to
        `positions`.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is None:
            # a lone token is a new one behind a cache, and does not stand at 0
            if t != s or t == 1 or key_positions is not None:
                got = f"{t} queries and {s} keys, got None"
                raise ValueError(f"turn: positions must be given for {got}")
            positions = torch.arange(t, device=q.device)
        if key_positions is None:
            key_positions = positions
        return self._turned(q, positions), self._turned(k, key_positions)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            fitting = f"shape (b, h, t, {self.dim}) and a float dtype"
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(f"turn: q or k must have {fitting}, got {got}")
        # one position would broadcast over all tokens without an error
        shape = tuple(positions.shape)
        if shape != (t,) and shape != (1, t) and shape != (b, t):
            raise ValueError(f"turn: positions must have shape ({t},) or ({b}, {t}), got {shape}")

        theta = torch.tensor(self.theta, dtype=torch.float64, device=x.device)  # (d/2,)
        angle = positions.double()[..., None, :, None] * theta  # (..., 1, t, d/2)
        cos = angle.cos()
        sin = angle.sin()
        first, second = x.double().chunk(2, dim=-1)  # (b, h, t, d/2), (b, h, t, d/2)
        turned = [first * cos - second * sin, second * cos + first * sin]
        return torch.cat(turned, dim=-1).to(x.dtype)  # (b, h, t, d)


def _theta(dim: int, base: float) -> np.ndarray:
    if dim < 2 or dim % 2:
        raise ValueError(f"turn: dim must be even and 2 or more, got {dim}; channels turn in pairs")
    if not 0 < base < np.inf:
        raise ValueError(f"turn: base must be positive and finite, got {base}")
    return base ** (-np.arange(0, dim, 2) / dim)  # (d/2,)
