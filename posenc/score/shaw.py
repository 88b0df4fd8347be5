"""Shaw: add to each logit the match of the query with a vector learned for the clipped offset.

Paper: Shaw et al., 2018, "Self-Attention with Relative Position Representations",
       https://arxiv.org/abs/1803.02155, eq. 3-4, sec. 3.2.
Used:  tensor2tensor's relative Transformers, wav2vec2-BERT, the speech encoder of SeamlessM4T v2
Cost:  one table (2c+1, d) to learn, with on_values a second; (b, h, t, 2c+1) products a call

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, c clip, r rows 2c+1

    row(m, n)     = clip(n - m, -c, c) + c               for a query at m and a key at n
    s(q, k, m, n) = q_m . key_table[row(m, n)] / sqrt(d)
    z_m           = sum_n weight(m, n) (v_n + value_table[row(m, n)])

so keys at least c away on one side share a vector. The offset is key minus query: row 0 is the far
past. One table serves all heads, as in tensor2tensor and the paper's big model (c = 8); its base
model (c = 16) has one a head. wav2vec2-BERT has no value table, clips the past at 64 and the future
at 8, and lets queries stand at 0, not last, where keys outnumber them.
"""

import numpy as np
import torch
from torch import Tensor, nn


def shaw(q, k, positions, key_positions, key_table) -> np.ndarray:
    """Return the scores (h, t, s) of `q` (h, t, d) for `k` (g, s, d) in float64.

    `key_table` is (2c+1, d), or (h, 2c+1, d) where each head has its own.
    """
    q = np.asarray(q, np.float64)
    vector = _vectors(key_table, positions, key_positions, len(q[0]), len(k[0]))
    scores = np.einsum("...td,...tsd->...ts", q, vector)
    return scores / q.shape[-1] ** 0.5  # (h, t, s)


def shaw_values(weights, positions, key_positions, value_table) -> np.ndarray:
    """Return what attention `weights` (h, t, s) add to the output (h, t, d).

    Examples:
        >>> table = [[-1.0], [0.0], [1.0]]  # each vector is the offset: the output is its mean
        >>> shaw_values([[[0.25, 0.75]]], positions=[1], key_positions=[0, 1], value_table=table)
        array([[[-0.25]]])
    """
    weights = np.asarray(weights, np.float64)
    vector = _vectors(value_table, positions, key_positions, *weights.shape[1:])
    return np.einsum("...ts,...tsd->...td", weights, vector)  # (h, t, d)


class Shaw(nn.Module):
    """Score queries against vectors learned for offsets, and sum such vectors for the output.

    `key_table` and, with `on_values`, `value_table` (2 clip + 1, dim) are learned. They start
    normal with standard deviation dim^(-1/2). A table (heads, 2 clip + 1, dim) put in the place of
    one gives each head its own. In the paper's ablation scores alone do as well as both.

    Args:
        dim: Width d of a head.
        clip: Offsets beyond it count as `clip`; the paper takes 16.
        on_values: Learn the table of `values()` too.

    Examples:
        >>> encoding = Shaw(dim=1, clip=2)
        >>> encoding.key_table.data[:, 0] = torch.arange(-2.0, 3)  # so that the score is the offset
        >>> encoding(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 5, 1)).flatten().tolist()  # from 4
        [-2.0, -2.0, -2.0, -1.0, 0.0]
    """

    def __init__(self, dim: int, clip: int = 16, on_values: bool = False):
        super().__init__()
        self.clip, self.on_values = clip, on_values
        rows = 2 * clip + 1
        scale = dim**-0.5
        self.key_table = nn.Parameter(scale * torch.randn(rows, dim))
        if on_values:
            self.value_table = nn.Parameter(scale * torch.randn(rows, dim))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers, (t,) or (b, t). By default keys stand at 0 .. s-1, or where as many
        queries do, and queries where the last t keys do.
        """
        m, n = _places(q, k.shape[-2], positions, key_positions)
        logits = self._logits(q, k)
        row = _row(m, n, self.clip).expand(*q.shape[:3], -1)
        return logits.gather(-1, row).to(q.dtype)  # (b, h, t, s)

    def values(self, weights: Tensor, positions=None, key_positions=None) -> Tensor:
        """Return what attention `weights` (b, h, t, s) add to the output (b, h, t, d)."""
        m, n = _places(weights, weights.shape[-1], positions, key_positions)
        x = weights.to(torch.promote_types(weights.dtype, torch.float32))
        row = _row(m, n, self.clip).expand(x.shape)
        sums = x.new_zeros(*x.shape[:3], 2 * self.clip + 1)  # (b, h, t, r)
        sums = sums.scatter_add(-1, row, x)  # the weights of a row: no (t, s, d) is made
        return (sums @ self.value_table.to(x.dtype)).to(weights.dtype)  # (b, h, t, d)

    def score_mod(self, q: Tensor, k: Tensor, positions=None, key_positions=None):
        """Return modify(score, b, h, t, s), which adds the same scores in FlexAttention."""
        m, n = _places(q, k.shape[-2], positions, key_positions)
        logits = self._logits(q, k)

        def _modify(score, b, h, t, s):
            row = _row(m[b, 0, t, 0], n[b, 0, 0, s], self.clip)
            return score + logits[b, h, t, row]

        return _modify

    def _logits(self, q, k):
        d = q.shape[-1]
        if k.shape[-1] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[-1]}"
            raise ValueError(f"shaw: q and k must be floats of one width, got {got}")
        x = q.to(torch.promote_types(q.dtype, torch.float32))
        products = x @ self.key_table.to(x.dtype).mT
        return products / d**0.5  # (b, h, t, r)


def _row(m, n, clip):
    return (n - m).clip(-clip, clip) + clip


def _vectors(table, positions, key_positions, t, s):
    m = np.asarray(positions, np.float64).reshape(t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, s)
    table = np.asarray(table, np.float64)  # (..., r, d)
    row = _row(m, n, clip=table.shape[-2] // 2)  # (t, s)
    if ((n - m) % 1).any():
        raise ValueError(f"shaw: positions must be whole numbers, got {positions}")
    return table[..., row.astype(int), :]  # (..., t, s, d)


def _places(x, s, positions, key_positions):
    """Return where the queries of `x` (b, h, t, d) and s keys stand."""
    b, _, t, _ = x.shape
    if positions is key_positions is None and t > s:
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"shaw: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=x.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    for given, length in ((positions, t), (key_positions, s)):
        got = tuple(given.shape)
        if given.is_floating_point() or got[-1:] != (length,):
            raise ValueError(f"shaw: positions must be {length} integers, got {given.dtype} {got}")
    m = positions.long().expand(b, t).reshape(b, 1, t, 1)
    n = key_positions.long().expand(b, s).reshape(b, 1, 1, s)
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)  kernels read no strides
