"""Turn: rotate the pair (i, i + d/2) of queries and keys by an angle that grows with position.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; four products for each pair of channels

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    y_i       = x_i cos(p theta_i) - x_(i+d/2) sin(p theta_i),    theta_i = base^(-2i/d)
    y_(i+d/2) = x_i sin(p theta_i) + x_(i+d/2) cos(p theta_i)
"""

import numpy as np
import torch
from torch import Tensor, nn


def turn(x: np.ndarray, positions: np.ndarray, base: float = 10_000.0, sense: str = "left") -> np.ndarray:
    """Return `x` (..., t, d), turned to `positions` (t,), in float64."""
    x, positions = _numbers("x", x), _numbers("positions", positions)
    if x.ndim < 2 or positions.shape != x.shape[-2:-1]:
        raise ValueError(f"turn: x must be (..., t, d) and positions (t,), got {x.shape} and {positions.shape}")
    _check(x.shape[-1], base, sense)
    theta = float(base) ** (-np.arange(x.shape[-1] // 2) * 2 / x.shape[-1])  # (d/2,)
    angle = (1 if sense == "left" else -1) * positions[:, None] * theta  # (t, d/2)
    first, second = np.split(x, 2, axis=-1)  # (..., t, d/2)
    sin, cos = np.sin(angle), np.cos(angle)  # (t, d/2)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)  # (..., t, d)


class Turn(nn.Module):
    """Rotate queries and keys.

    Args:
        dim: Width d of a head, even.
        base: The number whose powers are the frequencies.
        sense: "left" or "right".

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4)
        >>> q, k = Turn(dim=4)(q, k)
        >>> torch.round(k[0, 0, 1], decimals=2)
        tensor([-0.3000,  0.9900,  1.3800,  1.0100])
    """

    def __init__(self, dim: int, base: float = 10_000.0, sense: str = "left") -> None:
        super().__init__()
        _check(dim, base, sense)
        self.dim, self.base, self.sense = dim, float(base), sense

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), each at its positions, by default the last t of s."""
        for name, x in (("q", q), ("k", k)):
            if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != self.dim:
                raise ValueError(f"turn: {name} must be floating point (b, h, t, {self.dim}), got {_shape(x)}")
        queries, keys = q.shape[-2], k.shape[-2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        if positions is None:
            positions = torch.arange(keys - queries, keys, device=q.device)  # (t,)
        if key_positions is None:
            key_positions = torch.arange(keys, device=k.device)  # (s,)
        _check_positions("positions", positions, q)
        _check_positions("key_positions", key_positions, k)
        return self._turned(q, positions), self._turned(k, key_positions)  # (b, h, t, d), (b, g, s, d)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        pair = torch.arange(self.dim // 2, dtype=torch.float64, device=x.device)  # (d/2,)
        angle = positions.double()[..., None, :, None] * self.base ** (-2 * pair / self.dim)
        angle = angle if self.sense == "left" else -angle
        first, second = x.double().chunk(2, dim=-1)
        sin, cos = angle.sin(), angle.cos()
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).to(x)


def _check(dim: int, base: float, sense: str) -> None:
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 2 or dim % 2:
        raise ValueError(f"turn: dim must be even, got {dim!r}; features go in pairs")
    if not isinstance(base, int | float) or isinstance(base, bool) or not 0 < base < np.inf:
        raise ValueError(f"turn: base must be a positive number, got {base!r}")
    if not isinstance(sense, str) or sense not in ("left", "right"):
        raise ValueError(f"turn: sense must be left or right, got {sense!r}")


def _numbers(name: str, given: np.ndarray) -> np.ndarray:
    found = np.asarray(given)
    if found.dtype.kind not in "iuf":
        raise ValueError(f"turn: {name} must be an array of numbers, got {given!r}")
    return found.astype(np.float64)


def _check_positions(name: str, positions: Tensor, x: Tensor) -> None:
    fitting = (x.shape[-2:-1], (1, x.shape[-2]), (x.shape[0], x.shape[-2]))
    is_number = isinstance(positions, Tensor) and positions.dtype != torch.bool and not positions.is_complex()
    if not is_number or positions.shape not in fitting:
        got = f"{_shape(positions)} for {_shape(x)}"
        raise ValueError(f"turn: {name} must be a tensor of numbers (t,) or (b, t), got {got}")


def _shape(given: object) -> object:
    return tuple(given.shape) if isinstance(given, Tensor) else given
