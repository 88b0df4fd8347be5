"""Slope: add to each logit a multiple of the distance between query and key, half as steep from head to head.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  nothing to learn; a product for each pair and head

Key:   b batch, h heads, t queries, s keys

    B[i, m, n] = -|m - n| / 2^i    for head i
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def slope(positions: np.ndarray, key_positions: np.ndarray, heads: int) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    _check_heads(heads)
    m, n = _numbers("positions", positions), _numbers("key_positions", key_positions)
    distance = np.abs(m[:, None] - n)  # (t, s)
    return -distance * 0.5 ** np.arange(heads)[:, None, None]  # (h, t, s)


class Slope(nn.Module):
    """Give the bias to add to the logits.

    Args:
        heads: Number of query heads h.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> Slope(heads=2)(torch.arange(3))[:, 2]  # of the last query
        tensor([[-2.0000, -1.0000, -0.0000],
                [-1.0000, -0.5000, -0.0000]])
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        _check_heads(heads)
        self.heads = heads

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s) in float32, or (b, h, t, s) where positions have a batch."""
        key_positions = positions if key_positions is None else key_positions
        _check_positions(positions, key_positions)
        steepness = 0.5 ** torch.arange(self.heads, dtype=torch.float64, device=positions.device)  # (h,)
        distance = (positions.double()[..., :, None] - key_positions.double()[..., None, :]).abs()  # (..., t, s)
        return (-distance[..., None, :, :] * steepness[:, None, None]).float()  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions: Tensor | None = None) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        keys = positions if key_positions is None else key_positions
        _check_positions(positions, keys)

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b % len(p), i] if p.ndim == 2 else p[i] for p, i in ((positions, t), (keys, s)))
            return score - ((m.double() - n.double()).abs() * 0.5**h).to(score.dtype)

        return _modify


def _check_heads(heads: int) -> None:
    if not isinstance(heads, int) or isinstance(heads, bool) or heads < 1:
        raise ValueError(f"slope: heads must be a positive integer, got {heads!r}")


def _numbers(name: str, given: np.ndarray) -> np.ndarray:
    found = np.asarray(given)
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise ValueError(f"slope: {name} must be numbers (t,), got {given!r}")
    return found.astype(np.float64)


def _check_positions(positions: Tensor, key_positions: Tensor) -> None:
    for name, given in (("positions", positions), ("key_positions", key_positions)):
        if not isinstance(given, Tensor) or given.dtype == torch.bool or given.is_complex() or given.ndim not in (1, 2):
            got = tuple(given.shape) if isinstance(given, Tensor) else given
            raise ValueError(f"slope: {name} must be a tensor of numbers (t,) or (b, t), got {got!r}")
    b, c = (len(p) if p.ndim == 2 else 1 for p in (positions, key_positions))
    if b != c and b != 1 and c != 1:
        got = f"{tuple(positions.shape)} and {tuple(key_positions.shape)}"
        raise ValueError(f"slope: positions and key_positions must be of one batch, got {got}")
