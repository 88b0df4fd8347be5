"""Shaw: add to each logit the query's product with a vector learned for the clipped offset.

Paper: Shaw et al., 2018, "Self-Attention with Relative Position Representations",
       https://arxiv.org/abs/1803.02155, eq. 3-4, sec. 3.2.
Used:  tensor2tensor's relative Transformers, wav2vec2-BERT, the speech encoder of SeamlessM4T v2
Cost:  one table (2c+1, d) to learn, with on_values a second; (b, h, t, 2c+1) products a call

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, c clip, r rows 2c+1

    row(m, n)     = clip(n - m, -c, c) + c               for a query at m and a key at n
    s(q, k, m, n) = q_m . key_table[row(m, n)] / sqrt(d)
    z_m           = sum_n weight(m, n) (v_n + value_table[row(m, n)])

so keys at least c away on one side share a vector. The offset is key minus query: row 0 is the far
past. One table serves all heads, as in tensor2tensor and the paper's big model (c = 8); its base
model (c = 16) has one table for each head. wav2vec2-BERT has no value table, clips the past at 64
and the future at 8, and gives queries positions 0 .. t-1 where there are more keys. One `clip`
serves both sides here.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def shaw(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    key_table: ArrayLike,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) for `k` (g, s, d).

    `key_table` is (2c+1, d), or (h, 2c+1, d) where each head has its own. Of `k` only the count s
    is used.

    Raises:
        ValueError: If positions are fractions, or not (t,) and (s,).
    """
    q = np.asarray(q, np.float64)
    key_table = np.asarray(key_table, np.float64)
    t, d = q.shape[-2:]
    s = np.shape(k)[-2]
    clip = key_table.shape[-2] // 2
    row = _rows(positions, key_positions, t, s, clip)  # (t, s)
    vector = key_table[..., row, :]  # (..., t, s, d)
    scores = np.einsum("...td,...tsd->...ts", q, vector)
    return scores / d**0.5  # (h, t, s)


def shaw_values(
    weights: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    value_table: ArrayLike,
) -> np.ndarray:
    """Return what attention `weights` (h, t, s) add to the output (h, t, d).

    Examples:
        >>> table = [[-1.0], [0.0], [1.0]]  # each vector is the offset: the output is its mean
        >>> shaw_values([[[0.25, 0.75]]], positions=[1], key_positions=[0, 1], value_table=table)
        array([[[-0.25]]])
    """
    weights = np.asarray(weights, np.float64)
    value_table = np.asarray(value_table, np.float64)
    t, s = weights.shape[-2:]
    clip = value_table.shape[-2] // 2
    row = _rows(positions, key_positions, t, s, clip)  # (t, s)
    vector = value_table[..., row, :]  # (..., t, s, d)
    return np.einsum("...ts,...tsd->...td", weights, vector)  # (h, t, d)


class Shaw(nn.Module):
    """Add products of queries with vectors learned for offsets, and such vectors to the output.

    `key_table` and, with `on_values`, `value_table` (2 clip + 1, dim) are learned. They start
    normal with standard deviation dim^(-1/2). A table (heads, 2 clip + 1, dim) in place of one
    gives each head its own. In the paper's ablation `key_table` alone does as well as both.

    Args:
        dim: Width d of a head.
        clip: Offsets beyond +-clip count as +-clip; 16 in the paper's base model.
        on_values: Learn the table of `values()` too.

    Raises:
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if positions are fractions, or of another shape.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> encoding = Shaw(dim=1, clip=2)
        >>> encoding.key_table.data[:, 0] = torch.arange(-2.0, 3)  # so that the offset is added
        >>> q, k = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 5, 1)  # a query after a cache of keys
        >>> encoding(q, k, torch.tensor([4]), torch.arange(5)).flatten().tolist()
        [-2.0, -2.0, -2.0, -1.0, 0.0]
    """

    def __init__(self, dim: int, clip: int = 16, on_values: bool = False):
        super().__init__()
        self.clip = clip
        self.on_values = on_values
        rows = 2 * clip + 1
        scale = dim**-0.5
        self.key_table = nn.Parameter(scale * torch.randn(rows, dim))
        if on_values:
            self.value_table = nn.Parameter(scale * torch.randn(rows, dim))

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
        m, n = _positions(q, k.shape[-2], positions, key_positions)
        products = self._products(q, k)
        # of the products with all rows, each pair takes one: there is no (t, s, d) to store
        row = self._row(m, n).expand(*q.shape[:3], -1)  # (b, h, t, s)
        return products.gather(-1, row).to(q.dtype)  # (b, h, t, s)

    def values(
        self,
        weights: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        """Return what attention `weights` (b, h, t, s) add to the output (b, h, t, d).

        Positions are those of `forward`.
        """
        m, n = _positions(weights, weights.shape[-1], positions, key_positions)
        # sums in half precision would lose digits
        wide = weights.to(torch.promote_types(weights.dtype, torch.float32))
        # the weights of a row are summed first: there is no (t, s, d) to store
        row = self._row(m, n).expand(wide.shape)  # (b, h, t, s)
        sums = wide.new_zeros(*wide.shape[:3], 2 * self.clip + 1)  # (b, h, t, r)
        sums = sums.scatter_add(-1, row, wide)
        output = sums @ self.value_table.to(wide.dtype)
        return output.to(weights.dtype)  # (b, h, t, d)

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
            row = self._row(m[b, 0, q_idx, 0], n[b, 0, 0, kv_idx])
            return score + products[b, h, q_idx, row]

        return _modify

    def _row(self, m: Tensor, n: Tensor) -> Tensor:
        """Return row(m, n) for queries at `m` and keys at `n`."""
        return (n - m).clip(-self.clip, self.clip) + self.clip

    def _products(self, q: Tensor, k: Tensor) -> Tensor:
        """Return the products of each query with every row of the table."""
        d = q.shape[-1]
        # k's content is unused, so a wrong width would go unnoticed
        if k.shape[-1] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[-1]}"
            raise ValueError(f"shaw: q and k must be floats of one width, got {got}")
        # products in half precision would lose digits
        wide = q.to(torch.promote_types(q.dtype, torch.float32))
        products = wide @ self.key_table.to(wide.dtype).mT
        return products / d**0.5  # (b, h, t, r)


def _rows(positions: ArrayLike, key_positions: ArrayLike, t: int, s: int, clip: int) -> np.ndarray:
    """Return row(m, n) for all queries and keys, (t, s)."""
    m = np.asarray(positions, np.float64).reshape(t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, s)
    # the table has vectors for whole offsets only
    if ((n - m) % 1).any():
        got = f"{positions} and {key_positions}"
        raise ValueError(f"shaw: positions must be whole numbers, got {got}")
    row = np.clip(n - m, -clip, clip) + clip  # (t, s)
    return row.astype(int)


def _positions(
    x: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries of `x` (b, h, t, d) and of `s` keys, to subtract."""
    b, _, t, _ = x.shape
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"shaw: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=x.device)
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
        raise ValueError(f"shaw: {name} must have shape {shape} and an integer dtype, got {got}")
