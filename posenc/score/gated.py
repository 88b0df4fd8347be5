"""Gated: add T5's learned number for the bucket of the offset, times a gate that the query opens.

Paper: Chen et al., 2022, "WavLM: Large-Scale Self-Supervised Pre-Training for Full Stack Speech
       Processing", https://arxiv.org/abs/2110.13900, sec. III-A; gates of Chi et al., 2022 (XLM-E)
Used:  WavLM, one table for all layers and gates in each; XLM-E
Cost:  r h + h + 2 d + 2 numbers to learn; two products a query, and a look-up for each pair

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, r buckets, w max distance

    s(q, m, n) = (2 - u + u v scale[i]) weight[bucket(n - m), i]    of head i, for places m and n
    (u, v)     = sigmoid(q_m . gate + bias), the two columns of gate
    bucket     = |n - m|                                                        |n - m| < e
               = min(e + floor((a-e) ln(|n - m|/e) / ln(w/e)), a-1)             otherwise
                 a = r/2, e = floor(a/2); keys ahead have their bucket plus a

so what a head reads makes distance count up to twice as much, at scale 1. The paper reads gates
from the query; its code and transformers from the layer's input x, cut into heads: give it as
`states`. Their map has 8 outputs, summed by fours. The score is not divided by sqrt(d).
"""

import numpy as np
import torch
from torch import Tensor, nn


def gated(
    q, k, positions, key_positions, weight, gate, bias, scale, max_distance=800, states=None
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d), or `states`, for `k` (g, s, d)."""
    q = np.asarray(q if states is None else states, np.float64)
    weight = np.asarray(weight, np.float64)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, (1, np.shape(k)[1]))
    offset = np.trunc(np.subtract(n, m, dtype=np.float64))  # (t, s)
    bucket = _starts(len(weight), max_distance).searchsorted(np.abs(offset), "right")
    row = bucket + (offset > 0) * (len(weight) // 2)
    numbers = weight[row].transpose(2, 0, 1)  # (h, t, s)

    logits = q @ gate + bias
    gates = np.exp(-np.logaddexp(0, -logits))
    u, v = np.moveaxis(gates, 2, 0)  # (h, t), (h, t)
    factor = 2 - u + u * v * np.reshape(scale, (-1, 1))  # (h, t)
    return factor[..., None] * numbers  # (h, t, s)


class Gated(nn.Module):
    """Score the offset to each key by a learned table, as much as the query's gates let through.

    `weight` (buckets, heads) and `bias` (2,) start at 0, `gate` (dim, 2) normal with standard
    deviation 0.02, `scale` (heads,) at 1, so that all factors start near 1.75.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h; key heads may be fewer.
        buckets: Rows r of the table, half of them for keys ahead.
        max_distance: From this distance on all keys of a side share a bucket.

    Examples:
        >>> encoding = Gated(dim=8, heads=1)
        >>> encoding.weight.data[:] = 1.0  # so that the score is the gates' factor
        >>> encoding(torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, 3, 8)).tolist()
        [[[[1.75, 1.75, 1.75]]]]
    """

    def __init__(self, dim: int, heads: int, buckets: int = 320, max_distance: int = 800):
        super().__init__()
        self.starts = _starts(buckets, max_distance).tolist()
        self.weight = nn.Parameter(torch.zeros(buckets, heads))
        self.gate = nn.Parameter(0.02 * torch.randn(dim, 2))
        self.bias = nn.Parameter(torch.zeros(2))
        self.scale = nn.Parameter(torch.ones(heads))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, states=None):
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t). By default keys stand at 0 .. s-1, or where as many
        queries do, and queries where the last t keys do. `states` (b, h, t, d) replace q.
        """
        m, n = _places(q, k, positions, key_positions)
        factor = self.factor(q, states)
        bias = self._bias(n - m)  # (h, b, t, s)
        scores = factor[..., None] * bias.movedim(0, 1)
        return scores.to(q)  # (b, h, t, s)

    def score_mod(self, q: Tensor, k: Tensor, positions=None, key_positions=None, states=None):
        """Return modify(score, b, h, t, s), which adds the same scores in FlexAttention."""
        m, n = _places(q, k, positions, key_positions)
        factor = self.factor(q, states)
        reach = self.starts[-1]  # beyond which nothing changes
        bias = self._bias(torch.arange(-reach, reach + 1, device=q.device))

        def _modify(score, b, h, t, s):
            offset = n[b, 0, s] - m[b, t, 0]
            column = offset.clamp(-reach, reach).int() + reach
            return score + (factor[b, h, t] * bias[h, column]).to(score)

        return _modify

    def factor(self, q: Tensor, states=None) -> Tensor:
        """Return the factor (b, h, t) that the gates make of `q`, or `states`, (b, h, t, d)."""
        x = q if states is None else states
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        logits = (x @ self.gate.to(x)).to(x) + self.bias
        u, v = logits.sigmoid().unbind(3)  # (b, h, t), (b, h, t)
        return 2 - u + u * v * self.scale[:, None]  # (b, h, t)

    def _bias(self, offset):
        """Return the numbers (h, ...) of each `offset`."""
        starts = offset.new_tensor(self.starts)
        offset = offset.trunc()
        bucket = torch.bucketize(offset.abs(), starts, right=True)
        row = bucket + (offset > 0) * (len(self.weight) // 2)
        row = row.flatten().to(self.weight.device)
        return self.weight.T.index_select(1, row).unflatten(1, offset.shape)


def _starts(buckets, max_distance):
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


def _places(q, k, positions, key_positions):
    b, _, t, d = q.shape
    s = k.shape[2]
    if k.shape[3] != d or not q.is_floating_point():
        got = f"{q.dtype} of width {d} and {k.shape[3]}"
        raise ValueError(f"gated: q and k must be floats of one width, got {got}")
    if positions is key_positions is None and t > s:
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"gated: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=q.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    where = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
    m = positions.to(where, torch.float64).unflatten(-1, (t, 1))  # (..., t, 1)
    m = m.expand(b, t, 1)
    n = key_positions.to(where, torch.float64).unflatten(-1, (1, s))  # (..., 1, s)
    n = n.expand(b, 1, s)
    return m.contiguous(), n.contiguous()  # kernels read no strides
