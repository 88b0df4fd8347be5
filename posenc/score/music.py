"""Music Transformer: add to each logit the query's match with a vector of the distance, by skewing.

Paper: Huang et al., 2019, "Music Transformer", https://arxiv.org/abs/1809.04281, sec. 3.4.
Used:  Music Transformer, tensor2tensor's "relative v2" attention; Transformer-XL, XLNet shift alike
Cost:  one table (r, d) a head to learn; (b, h, t, r) products a call, slid into place, no (t, s, d)

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, r rows, w columns

    row(m, n)     = clip(n - m, 1 - r, 0) + r - 1          for a query at m and a key at n
    s(q, k, m, n) = q . weight[row(m, n)] / sqrt(d), and 0 where n > m

Where queries stand at the last t of s keys, query i takes the product of key j from column
j - i + t - 1: pad, reshape and slice (`skew`) do that without an index for each pair. Other
positions are looked up; the results are equal. Rows go from the far past to the query's own place,
as in the paper and in Transformer-XL. Keys beyond the table take its furthest row, as with Shaw,
which serves both sides; in tensor2tensor they score 0. For keys ahead both those codes leave
products of the next query, which the mask must hide; here such keys score 0.
"""

import numpy as np
import torch
from torch import Tensor, nn


def music(q, k, positions, key_positions, weight) -> np.ndarray:
    """Return the scores (h, t, s) of `q` (h, t, d) for `k` (g, s, d) in float64.

    `weight` is (h, r, d), or (r, d) where all heads share it.
    """
    q = np.asarray(q, np.float64)
    weight = np.asarray(weight, np.float64)
    m = np.asarray(positions, np.float64).reshape(len(q[0]), 1)
    n = np.asarray(key_positions, np.float64).reshape(1, len(k[0]))
    offset = n - m  # (t, s)
    if (offset % 1).any():
        raise ValueError(f"music: positions must be whole numbers, got {positions}")
    row = _row(offset, weight.shape[-2]).astype(int)
    vector = weight[..., row, :]  # (..., t, s, d)
    scores = np.einsum("...td,...tsd->...ts", q, vector)
    return np.where(offset > 0, 0, scores) / q.shape[-1] ** 0.5  # (h, t, s)


def skew(x: Tensor, keys: int) -> Tensor:
    """Return (..., t, s): [i, j] is column j - i + t - 1 of `x` (..., t, w), and 0 past the last.

    Column c of `x` belongs to the offset c - (s - 1), for s = `keys` and queries at the last t of
    them. The offsets up to 0, w = s, serve a causal query; all of them are w = t + s - 1. Where
    there is a column this is Transformer-XL's `_rel_shift(x)`; XLNet's `rel_shift_bnij(x, s)`,
    which starts one offset earlier, is `skew(x[..., 1:], s)`.

    Examples:
        >>> skew(torch.tensor([[-2, -1, 0, 1], [-2, -1, 0, 1]]), keys=3)  # queries at 1 and 2
        tensor([[-1,  0,  1],
                [-2, -1,  0]])
    """
    t, w = x.shape[-2:]
    if not 0 <= keys <= w:
        raise ValueError(f"music: keys must be at most {w}, the columns of x, got {keys}")
    padded = nn.functional.pad(x, (1, 0))  # (..., t, w+1)
    tape = padded.flatten(-2)
    tape = tape.unflatten(-1, (w + 1, t))  # (..., w+1, t)
    slid = tape[..., 1:, :].reshape(x.shape)  # (..., t, w)
    return slid[..., :keys].tril(w - t)  # (..., t, s)


class Music(nn.Module):
    """Score queries against learned vectors of the distance to each key, a table a head.

    `weight` (heads, length, dim) is learned. It starts normal with standard deviation dim^(-1/2),
    as in tensor2tensor.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with its table; 1 for a table that all share.
        length: Distances 0 .. length - 1 that have a row; further keys share the last.

    Examples:
        >>> encoding = Music(dim=1, heads=1, length=3)
        >>> encoding.weight.data[0, :, 0] = torch.tensor([2.0, 1.0, 0.0])  # the distances
        >>> encoding(torch.ones(1, 1, 2, 1), torch.ones(1, 1, 5, 1))[0, 0].tolist()  # from 3 and 4
        [[2.0, 2.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 1.0, 0.0]]
    """

    def __init__(self, dim: int, heads: int, length: int):
        super().__init__()
        self.length = length
        self.weight = nn.Parameter(dim**-0.5 * torch.randn(heads, length, dim))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers, (t,) or (b, t). By default keys stand at 0 .. s-1, or where as many
        queries do, and queries where the last t keys do.
        """
        m, n = _places(q, k.shape[-2], positions, key_positions)
        logits = self._logits(q, k)
        if positions is key_positions is None:
            s = k.shape[-2]
            offset = torch.arange(1 - s, 1, device=q.device)  # (s,)
            scores = skew(logits[..., _row(offset, self.length)], s)
        else:
            row = _row(n - m, self.length).expand(*q.shape[:3], -1)
            scores = logits.gather(-1, row).masked_fill(n > m, 0)
        return scores.to(q.dtype)  # (b, h, t, s)

    def score_mod(self, q: Tensor, k: Tensor, positions=None, key_positions=None):
        """Return modify(score, b, h, t, s), which adds the same scores in FlexAttention."""
        m, n = _places(q, k.shape[-2], positions, key_positions)
        logits = self._logits(q, k)

        def _modify(score, b, h, t, s):
            offset = n[b, 0, 0, s] - m[b, 0, t, 0]
            row = _row(offset, self.length)
            return torch.where(offset > 0, score, score + logits[b, h, t, row])

        return _modify

    def _logits(self, q, k):
        d = q.shape[-1]
        if k.shape[-1] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[-1]}"
            raise ValueError(f"music: q and k must be floats of one width, got {got}")
        x = q.to(torch.promote_types(q.dtype, torch.float32))
        products = x @ self.weight.to(x.dtype).mT
        return products / d**0.5  # (b, h, t, r)


def _row(offset, length):
    return offset.clip(1 - length, 0) + length - 1


def _places(x, s, positions, key_positions):
    """Return where the queries of `x` (b, h, t, d) and s keys stand."""
    b, _, t, _ = x.shape
    if positions is key_positions is None and t > s:
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"music: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=x.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    for given, length in ((positions, t), (key_positions, s)):
        got = tuple(given.shape)
        if given.is_floating_point() or got[-1:] != (length,):
            raise ValueError(f"music: positions must be {length} integers, got {given.dtype} {got}")
    m = positions.long().expand(b, t).reshape(b, 1, t, 1)
    n = key_positions.long().expand(b, s).reshape(b, 1, 1, s)
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)  kernels read no strides
