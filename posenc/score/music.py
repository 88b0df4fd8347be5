"""Music Transformer: add to each logit the query's product with a vector learned for the distance.

Paper: Huang et al., 2019, "Music Transformer", https://arxiv.org/abs/1809.04281, sec. 3.4.
Used:  Music Transformer, tensor2tensor's "relative v2" attention; Transformer-XL, XLNet shift alike
Cost:  one table (r, d) a head to learn; (b, h, t, r) products a call, skewed, no tensor (t, s, d)

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rows, w columns

    row(m, n)     = clip(n - m, 1 - r, 0) + r - 1          for a query at m and a key at n
    s(q, k, m, n) = q . weight[row(m, n)] / sqrt(d), and 0 where n > m

Where queries are the last t of s tokens, query i takes the product of key j from column j - i + t -
1: pad, reshape and slice (`skew`) do that without an index for each pair, as here by default. Other
positions are looked up; the results are equal. Rows go from the furthest distance to 0, as in the
paper and in Transformer-XL. Keys beyond the table take its furthest row, as with Shaw, which serves
both sides; in tensor2tensor nothing is added for them. For keys ahead both those codes leave
products of the next query, which the mask must hide; here nothing is added.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def music(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) for `k` (g, s, d).

    `weight` is (h, r, d), or (r, d) where all heads share it.

    Raises:
        ValueError: If positions are fractions, or not (t,) and (s,).
    """
    q = np.asarray(q, np.float64)
    weight = np.asarray(weight, np.float64)
    t, d = q.shape[-2:]
    m = np.asarray(positions, np.float64).reshape(t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, np.shape(k)[-2])
    offset = n - m  # (t, s)
    # the table has vectors for whole offsets only
    if (offset % 1).any():
        got = f"{positions} and {key_positions}"
        raise ValueError(f"music: positions must be whole numbers, got {got}")
    r = weight.shape[-2]
    row = np.clip(offset, 1 - r, 0) + r - 1  # (t, s)
    vector = weight[..., row.astype(int), :]  # (..., t, s, d)
    scores = np.einsum("...td,...tsd->...ts", q, vector) / d**0.5
    return np.where(offset > 0, 0, scores)  # (h, t, s)


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
    # a column more, then cut to the old width: each row begins a column before that above it
    padded = nn.functional.pad(x, (1, 0))  # (..., t, w+1)
    tape = padded.flatten(-2).unflatten(-1, (w + 1, t))  # (..., w+1, t)
    slid = tape[..., 1:, :].reshape(x.shape)  # (..., t, w)
    # past the last column products of the next query follow
    return slid[..., :keys].tril(w - t)  # (..., t, s)


class Music(nn.Module):
    """Add products of queries with learned vectors of the distance to each key, a table a head.

    `weight` (heads, length, dim) is learned. It starts normal with standard deviation dim^(-1/2),
    as in tensor2tensor.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with its table; 1 for a table that all share.
        length: Distances 0 .. length - 1 that have a row; further keys share the last.

    Raises:
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if positions are fractions, or of another shape.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> encoding = Music(dim=1, heads=1, length=3)
        >>> encoding.weight.data[0, :, 0] = torch.tensor([2.0, 1.0, 0.0])  # the distances
        >>> q, k = torch.ones(1, 1, 2, 1), torch.ones(1, 1, 5, 1)
        >>> encoding(q, k, torch.tensor([3, 4]), torch.arange(5))[0, 0].tolist()
        [[2.0, 2.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 1.0, 0.0]]
    """

    def __init__(self, dim: int, heads: int, length: int):
        super().__init__()
        self.length = length
        self.weight = nn.Parameter(dim**-0.5 * torch.randn(heads, length, dim))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers, (t,) or (b, t). With t = s > 1, `positions` default to 0 .. t-1;
        with t = s, `key_positions` default to `positions`.
        """
        s = k.shape[-2]
        m, n = _positions(q, s, positions, key_positions)
        products = self._products(q, k)
        if positions is None:
            # positions in order: columns, one for each offset, are skewed
            offset = torch.arange(1 - s, 1, device=q.device)  # (s,)
            scores = skew(products[..., self._row(offset)], s)
        else:
            row = self._row(n - m).expand(*q.shape[:3], -1)  # (b, h, t, s)
            scores = products.gather(-1, row).masked_fill(n > m, 0)
        return scores.to(q.dtype)  # (b, h, t, s)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return modify(score, b, h, q_idx, kv_idx), which adds the same in FlexAttention."""
        m, n = _positions(q, k.shape[-2], positions, key_positions)
        products = self._products(q, k)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = n[b, 0, 0, kv_idx] - m[b, 0, q_idx, 0]
            row = self._row(offset)
            return torch.where(offset > 0, score, score + products[b, h, q_idx, row])

        return _modify

    def _row(self, offset: Tensor) -> Tensor:
        """Return row(m, n) for each offset n - m."""
        return offset.clip(1 - self.length, 0) + self.length - 1

    def _products(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the products of each query with every row of the table."""
        d = q.shape[-1]
        # k's content is unused, so a wrong width would go unnoticed
        if k.shape[-1] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[-1]}"
            raise ValueError(f"music: q and k must be floats of one width, got {got}")
        # products in half precision would lose digits
        wide = q.to(torch.promote_types(q.dtype, torch.float32))
        products = wide @ self.weight.to(wide.dtype).mT
        return products / d**0.5  # (b, h, t, r)


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to subtract."""
    b, _, t, _ = q.shape
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"music: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        key_positions = positions
    _check("positions", positions, t)
    _check("key_positions", key_positions, s)
    m = positions.long().expand(b, t).reshape(b, 1, t, 1)
    n = key_positions.long().expand(b, s).reshape(b, 1, 1, s)
    # the kernels of FlexAttention read no strides
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)


def _check(name: str, positions: Tensor, length: int) -> None:
    # one position would broadcast over all tokens without an error
    if positions.is_floating_point() or positions.shape[-1:] != (length,):
        got = f"{positions.dtype} {tuple(positions.shape)}"
        shape = f"({length},) or (b, {length})"
        raise ValueError(f"music: {name} must have shape {shape} and an integer dtype, got {got}")
