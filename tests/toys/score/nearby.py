"""Nearby: add to the logit the match of the query with a learned vector for the clipped offset.

Paper: Nobody, 2000, "A toy for the tests", https://example.org, eq. 1.
Used:  nobody; `make new-encoding` starts from it
Cost:  (2r+1) d numbers to learn; one more product of queries for each pair

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r reach

    s(q, k, m, n) = q . weight[clip(n - m, -r, r) + r] / sqrt(d)
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn


def nearby(
    q: np.ndarray, k: np.ndarray, positions: np.ndarray, key_positions: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d), with the learned `weight` (2r+1, d)."""
    arrays = {"q": q, "k": k, "positions": positions, "key_positions": key_positions, "weight": weight}
    q, k, positions, key_positions, weight = (_numbers(name, given) for name, given in arrays.items())
    if weight.ndim != 2 or len(weight) % 2 == 0:
        raise ValueError(f"nearby: weight must be (2r+1, d), got {weight.shape}")
    if q.ndim != 3 or q.shape[-1] != weight.shape[-1] or positions.shape != q.shape[1:2]:
        raise ValueError(f"nearby: q must be (h, t, {weight.shape[-1]}), positions (t,), got {q.shape}")
    if k.ndim != 3 or key_positions.shape != k.shape[1:2]:
        raise ValueError(f"nearby: k must be (g, s, d), key_positions (s,), got {k.shape}, {key_positions.shape}")
    reach = len(weight) // 2
    offset = np.nan_to_num(key_positions - positions[:, None])  # (t, s)
    vector = weight[np.clip(np.floor(offset), -reach, reach).astype(int) + reach]  # (t, s, d)
    return np.einsum("htd,tsd->hts", q, vector) / np.sqrt(q.shape[-1])  # (h, t, s)


class Nearby(nn.Module):
    """Score queries against the offset of each key; `weight` (2r+1, d) is learned and starts at zero.

    Args:
        dim: Width d of a head.
        reach: Offsets beyond it count as it.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = Nearby(dim=4, reach=1)
        >>> _ = torch.nn.init.constant_(encoding.weight[2], 1.0)  # for keys ahead
        >>> encoding(torch.ones(1, 1, 3, 4), torch.ones(1, 1, 3, 4)).detach()[0, 0]
        tensor([[0., 2., 2.],
                [0., 0., 2.],
                [0., 0., 0.]])
    """

    def __init__(self, dim: int, reach: int = 3) -> None:
        super().__init__()
        for name, given in (("dim", dim), ("reach", reach)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 1:
                raise ValueError(f"nearby: {name} must be a positive integer, got {given!r}")
        self.dim, self.reach = dim, reach
        self.weight = nn.Parameter(torch.zeros(2 * reach + 1, dim))

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d), to add before the softmax."""
        positions, key_positions = self._places(q, k, positions, key_positions)
        offset = key_positions.double()[..., None, :] - positions.double()[..., :, None]  # (..., t, s)
        vector = self.weight.to(q)[self._bucket(offset)]  # (..., t, s, d)
        return torch.einsum("bhtd,...tsd->bhts" if vector.ndim == 3 else "bhtd,btsd->bhts", q, vector) / self.dim**0.5

    def score_mod(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same score, one number at a time."""
        places = self._places(q, k, positions, key_positions)
        match = q @ self.weight.to(q).mT / self.dim**0.5  # (b, h, t, 2r+1)

        def _modify(score: Tensor, b: Tensor, h: Tensor, t: Tensor, s: Tensor) -> Tensor:
            m, n = (p[b % len(p), i] if p.ndim == 2 else p[i] for p, i in zip(places, (t, s), strict=True))
            return score + match[b, h, t, self._bucket(n.double() - m.double())].to(score.dtype)

        return _modify

    def _bucket(self, offset: Tensor) -> Tensor:
        return offset.floor().clamp(-self.reach, self.reach).nan_to_num().long() + self.reach

    def _places(self, q: Tensor, k: Tensor, positions: Tensor | None, key_positions: Tensor | None) -> tuple:
        for name, x in (("q", q), ("k", k)):
            if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim != 4 or x.shape[-1] != self.dim:
                raise ValueError(f"nearby: {name} must be floating point (b, h, t, {self.dim}), got {_shape(x)}")
        queries, keys = q.shape[-2], k.shape[-2]
        if key_positions is None and positions is not None and queries == keys:
            key_positions = positions
        if positions is None:
            positions = torch.arange(keys - queries, keys, device=q.device)  # (t,)
        if key_positions is None:
            key_positions = torch.arange(keys, device=k.device)  # (s,)
        _check_positions("positions", positions, q)
        _check_positions("key_positions", key_positions, k)
        return positions, key_positions


def _numbers(name: str, given: np.ndarray) -> np.ndarray:
    found = np.asarray(given)
    if found.dtype.kind not in "iuf":
        raise ValueError(f"nearby: {name} must be an array of numbers, got {given!r}")
    return found.astype(np.float64)


def _check_positions(name: str, positions: Tensor, x: Tensor) -> None:
    fitting = (x.shape[-2:-1], (1, x.shape[-2]), (x.shape[0], x.shape[-2]))
    is_number = isinstance(positions, Tensor) and positions.dtype != torch.bool and not positions.is_complex()
    if not is_number or positions.shape not in fitting:
        got = f"{_shape(positions)} for {_shape(x)}"
        raise ValueError(f"nearby: {name} must be a tensor of numbers (t,) or (b, t), got {got}")


def _shape(given: object) -> object:
    return tuple(given.shape) if isinstance(given, Tensor) else given
