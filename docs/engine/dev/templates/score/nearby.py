"""Nearby: add to the logit the match of the query with a learned vector for the clipped offset.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  (2c+1) d numbers to learn; one more product of queries for each pair

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c reach, r rows 2c+1

    s(q, k, m, n) = q . weight[clip(n - m, -c, c) + c] / sqrt(d)
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def nearby(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) for `k` (g, s, d).

    Raises:
        ValueError: If positions are fractions, or not (t,) and (s,).
    """
    q = np.asarray(q, np.float64)
    weight = np.asarray(weight, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, (1, np.shape(k)[1]))
    row = _row(n - m, reach=len(weight) // 2)  # (t, s)
    if (row % 1).any():
        raise ValueError(f"nearby: positions must be whole numbers, got {positions}")
    vector = weight[row.astype(int)]  # (t, s, d)
    return np.einsum("htd,tsd->hts", q, vector) / q.shape[2] ** 0.5  # (h, t, s)


class Nearby(nn.Module):
    """Score queries against the offset of each key; `weight` (2c+1, d) starts at zero.

    Args:
        dim: Width d of a head.
        reach: Offsets beyond it count as it.

    Raises:
        ValueError: If `dim` is below 1, or `reach` below 0.
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if positions are fractions, or of another shape.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> encoding = Nearby(dim=4, reach=1)
        >>> _ = torch.nn.init.constant_(encoding.weight[2], 1.0)  # for keys ahead
        >>> encoding(torch.ones(1, 1, 3, 4), torch.ones(1, 1, 3, 4)).detach()[0, 0]
        tensor([[0., 2., 2.],
                [0., 0., 2.],
                [0., 0., 0.]])
    """

    def __init__(self, dim: int, reach: int = 3):
        super().__init__()
        if dim < 1 or reach < 0:
            raise ValueError(f"nearby: dim and reach must be >= 1 and 0, got {dim} and {reach}")
        self.dim = dim
        self.reach = reach
        self.weight = nn.Parameter(torch.zeros(2 * reach + 1, dim))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers, (t,) or (b, t). With t = s > 1, `positions` default to 0 .. t-1;
        with t = s, `key_positions` default to `positions`.
        """
        m, n = _positions(q, k.shape[2], positions, key_positions)
        row = _row(n - m, self.reach).expand(*q.shape[:3], -1)  # (b, h, t, s)
        return self._products(q, k).gather(3, row)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same score, one number at a time."""
        m, n = _positions(q, k.shape[2], positions, key_positions)
        products = self._products(q, k)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            row = _row(n[b, 0, 0, kv_idx] - m[b, 0, q_idx, 0], self.reach)
            return score + products[b, h, q_idx, row]

        return _modify

    def _products(self, q: Tensor, k: Tensor) -> Tensor:
        widths = q.shape[3], k.shape[3]
        if widths != (self.dim, self.dim) or not q.is_floating_point():
            got = f"{q.dtype} of widths {widths}"
            raise ValueError(f"nearby: q and k must be floats of width {self.dim}, got {got}")
        return q @ self.weight.to(q).T / self.dim**0.5  # (b, h, t, r)


def _row(offset, reach: int):
    return offset.clip(-reach, reach) + reach


def _positions(
    q: Tensor,
    s: int,
    positions: Tensor | None,
    key_positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to subtract."""
    b, _, t, _ = q.shape
    if positions is None:
        # a lone token is a new one behind a cache, and does not stand at 0
        if t != s or t == 1 or key_positions is not None:
            got = f"{t} queries and {s} keys, got None"
            raise ValueError(f"nearby: positions must be given for {got}")
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        key_positions = positions
    m = _integers(positions, b, t).reshape(b, 1, t, 1)
    n = _integers(key_positions, b, s).reshape(b, 1, 1, s)
    # the kernels of FlexAttention read no strides
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)


def _integers(positions: Tensor, b: int, length: int) -> Tensor:
    shape = tuple(positions.shape)
    misfit = shape != (length,) and shape != (1, length) and shape != (b, length)
    if positions.is_floating_point() or misfit:
        fitting = f"shape ({length},) or ({b}, {length}) and an integer dtype"
        got = f"{positions.dtype} {shape}"
        raise ValueError(f"nearby: positions must have {fitting}, got {got}")
    return positions.long().expand(b, length)
