"""Gated: add T5's bias for the bucket of the offset, times a gate computed from the query.

Paper: Chen et al., 2022, "WavLM: Large-Scale Self-Supervised Pre-Training for Full Stack Speech
       Processing", https://arxiv.org/abs/2110.13900, sec. III-A; gates of Chi et al., 2022 (XLM-E)
Used:  WavLM, one table for all layers and gates in each; XLM-E
Cost:  r h + h + 2 d + 2 numbers to learn; two products a query, and a look-up for each pair

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r buckets,
       m position of a query, n of a key

    s(q, m, n) = (2 - u + u v scale[i]) weight[bucket(n - m), i]    for head i
    (u, v)     = sigmoid(q_m . gate + bias), the two columns of gate
    bucket     = distance                                                if distance < exact
               = min(exact + floor(shared growth), r/2 - 1)              otherwise
    growth     = ln(distance/exact) / ln(max_distance/exact),  distance = |n - m|
    exact      = floor(r/4),  shared = r/2 - exact; keys ahead have their bucket plus r/2

so a query's content makes the bias count up to twice as much, at scale 1. The paper computes gates
from the query; its code and transformers from the layer's input x, cut into heads: give it as
`states`. Their map has 8 outputs, summed by fours. What is added is not divided by sqrt(d).
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def gated(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike,
    gate: ArrayLike,
    bias: ArrayLike,
    scale: ArrayLike,
    max_distance: int = 800,
    states: ArrayLike | None = None,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q`, or `states`, (h, t, d).

    Raises:
        ValueError: If r is odd or below 4, or `max_distance` within the exact buckets.
        ValueError: If positions are not (t,) and (s,).
    """
    x = np.asarray(q if states is None else states, np.float64)
    weight = np.asarray(weight, np.float64)
    m = np.reshape(positions, (x.shape[1], 1))
    n = np.reshape(key_positions, (1, np.shape(k)[1]))
    # a fraction counts as the whole offset toward 0
    offset = np.trunc(np.subtract(n, m, dtype=np.float64))  # (t, s)
    bucket = _starts(len(weight), max_distance).searchsorted(np.abs(offset), "right")
    # keys ahead have the second half of the table
    row = np.where(offset > 0, bucket + len(weight) // 2, bucket)
    numbers = weight[row].transpose(2, 0, 1)  # (h, t, s)

    logits = x @ np.asarray(gate, np.float64) + np.asarray(bias, np.float64)
    # a sigmoid that overflows on neither side
    gates = np.exp(-np.logaddexp(0, -logits))
    u, v = np.moveaxis(gates, 2, 0)  # (h, t), (h, t)
    factor = 2 - u + u * v * np.reshape(scale, (-1, 1))  # (h, t)
    return factor[..., None] * numbers  # (h, t, s)


class Gated(nn.Module):
    """Add a learned number for the bucket of the offset, times the query's gates.

    `weight` (buckets, heads) and `bias` (2,) start at 0, `gate` (dim, 2) normal with standard
    deviation 0.02, `scale` (heads,) at 1, so that all factors start near 1.75.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h; key/value heads may be fewer.
        buckets: Rows r of the table, half of them for keys ahead.
        max_distance: From this distance on all keys of a side share a bucket.

    Raises:
        ValueError: If `buckets` is odd or below 4, or `max_distance` within the exact buckets.
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> encoding = Gated(dim=8, heads=1)
        >>> encoding.weight.data[:] = 1.0  # so that the gates' factor is added
        >>> q, k = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 3, 8)
        >>> encoding(q, k, torch.tensor([2]), torch.arange(3)).tolist()
        [[[[1.75, 1.75, 1.75]]]]
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        buckets: int = 320,
        max_distance: int = 800,
    ):
        super().__init__()
        self.starts = tuple(_starts(buckets, max_distance).tolist())
        self.weight = nn.Parameter(torch.zeros(buckets, heads))
        self.gate = nn.Parameter(0.02 * torch.randn(dim, 2))
        self.bias = nn.Parameter(torch.zeros(2))
        self.scale = nn.Parameter(torch.ones(heads))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        states: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t). With t = s > 1, `positions` default to 0 .. t-1; with
        t = s, `key_positions` default to `positions`. `states` (b, h, t, d) replace q.
        """
        _check_content(q, k)
        m, n = _positions(q, k.shape[2], positions, key_positions)
        factor = self.factor(q, states)
        numbers = self._numbers(n - m).movedim(0, 1)  # (b, h, t, s)
        scores = factor[..., None] * numbers
        return scores.to(q)  # (b, h, t, s)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        states: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return modify(score, b, h, q_idx, kv_idx), which adds the same in FlexAttention."""
        _check_content(q, k)
        m, n = _positions(q, k.shape[2], positions, key_positions)
        factor = self.factor(q, states)
        # the numbers for offsets -reach .. reach; further out they are constant
        reach = self.starts[-1]
        numbers = self._numbers(torch.arange(-reach, reach + 1, device=q.device))

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = n[b, 0, kv_idx] - m[b, q_idx, 0]
            column = offset.clamp(-reach, reach).int() + reach
            return score + (factor[b, h, q_idx] * numbers[h, column]).to(score)

        return _modify

    def factor(self, q: Tensor, states: Tensor | None = None) -> Tensor:
        """Return the factor (b, h, t) that the gates make of `q`, or `states`, (b, h, t, d)."""
        x = q if states is None else states
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        # autocast makes halves of a product all the same
        logits = (wide @ self.gate.to(wide)).to(wide) + self.bias
        u, v = logits.sigmoid().unbind(3)  # (b, h, t), (b, h, t)
        return 2 - u + u * v * self.scale[:, None]  # (b, h, t)

    def _numbers(self, offset: Tensor) -> Tensor:
        """Return the learned numbers (h, ...) of each `offset`."""
        offset = offset.trunc()
        bucket = torch.bucketize(offset.abs(), offset.new_tensor(self.starts), right=True)
        row = torch.where(offset > 0, bucket + len(self.weight) // 2, bucket)
        # index heads first, so that the numbers are contiguous
        row = row.flatten().to(self.weight.device)
        return self.weight.T.index_select(1, row).unflatten(1, offset.shape)


def _starts(buckets: int, max_distance: int) -> np.ndarray:
    """Return the distances at which the buckets 1, 2, .. of one side start."""
    exact = buckets // 4
    if buckets % 2 or not 0 < exact < max_distance:
        got = f"{buckets} and {max_distance}"
        raise ValueError(f"gated: buckets must be even, over 3, under 4 max_distance, got {got}")
    shared = buckets // 2 - exact
    grown = (max_distance / exact) ** (np.arange(1, shared) / shared)
    # rounded first: where an edge is whole, its last digit must not choose the bucket
    starts = np.ceil(np.round(exact * grown, 9))
    return np.append(np.arange(1, exact + 1), starts.astype(int))


def _check_content(q: Tensor, k: Tensor) -> None:
    # k's content is unused, so a wrong width would go unnoticed
    if k.shape[3] != q.shape[3] or not q.is_floating_point():
        got = f"{q.dtype} of width {q.shape[3]} and {k.shape[3]}"
        raise ValueError(f"gated: q and k must be floats of one width, got {got}")


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to subtract."""
    b, _, t, _ = q.shape
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"gated: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        if t != s:
            raise ValueError(
                f"gated: key_positions must be given for {t} queries and {s} keys, got None"
            )
        key_positions = positions
    device = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
    m = positions.to(device, torch.float64).unflatten(-1, (t, 1)).expand(b, t, 1)
    n = key_positions.to(device, torch.float64).unflatten(-1, (1, s)).expand(b, 1, s)
    # the kernels of FlexAttention read no strides
    return m.contiguous(), n.contiguous()  # (b, t, 1), (b, 1, s)
