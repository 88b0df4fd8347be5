"""DeBERTa: add to each logit products of query and key with vectors learned for the offset.

Paper: He et al., 2021, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention",
       https://arxiv.org/abs/2006.03654, eq. 3-4.
Used:  DeBERTa (max_distance=None); DeBERTa v2 and v3, mDeBERTa (buckets that widen)
Cost:  two tables (h, 2B, d) to learn; q k, (b, h, t, 2B) and (b, h, s, 2B) products a call

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rows 2B

    row(m, n)     = clip(bucket(m - n) + B, 0, 2B - 1)        for a query at m and a key at n
    s(q, k, m, n) = (q . k + q . key_table[row] + k . query_table[row]) / sqrt(3d) - q . k / sqrt(d)

The 3 counts the terms, also where a table is of zeros; what is added also rescales q . k. The
offset is query minus key: row 0 is a key far ahead. bucket(o) is o up to B/2, then grows with log o
to max_distance - 1. Both tables are read at one row, as in the authors' code; eq. 4 reads
query_table with m and n exchanged.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def deberta(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    key_table: ArrayLike,
    query_table: ArrayLike,
    max_distance: int | None = 512,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d).

    Raises:
        ValueError: If positions are fractions, or not (t,) and (s,).
        ValueError: If `max_distance` is B/2 + 1 or less.
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    key_table = np.asarray(key_table, np.float64)
    query_table = np.asarray(query_table, np.float64)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, (1, k.shape[1]))
    offset = np.subtract(m, n, dtype=np.float64)  # (t, s)
    # the tables have rows for whole offsets only
    if (offset % 1).any():
        got = f"{positions} and {key_positions}"
        raise ValueError(f"deberta: positions must be whole numbers, got {got}")
    row = _row(offset, key_table.shape[1] // 2, max_distance)  # (t, s)
    product = np.einsum("htd,hsd->hts", q, k)
    by_query = np.einsum("htd,htsd->hts", q, key_table[:, row])
    by_key = np.einsum("hsd,htsd->hts", k, query_table[:, row])
    logits = (product + by_query + by_key) / 3**0.5
    return (logits - product) / q.shape[2] ** 0.5  # (h, t, s)


def deberta_bucket(
    offset: ArrayLike, buckets: int = 256, max_distance: int | None = 512
) -> np.ndarray:
    """Return the bucket of each `offset`, query minus key; `max_distance` None gives each its own.

    Examples:
        >>> deberta_bucket([1, 2, 3, 4, 8, 16, 31, -31], buckets=8, max_distance=32)
        array([ 1,  2,  3,  4,  6,  7,  7, -7])
    """
    offset = np.asarray(offset, np.float64)
    if max_distance is None:
        return offset.astype(np.int64)
    middle = buckets // 2
    if not 0 < middle < max_distance - 1:
        raise ValueError(f"deberta: max_distance must be over {middle + 1}, got {max_distance}")
    # not below the middle, where the logarithm would be negative or infinite
    size = np.maximum(np.abs(offset), middle)
    steps = np.log(size / middle) / np.log((max_distance - 1) / middle) * (middle - 1)
    # rounded first: where the logarithm is whole, its last digit must not choose the bucket
    bucket = middle + np.ceil(np.round(steps, 9))
    bucket = np.where(size > middle, np.copysign(bucket, offset), offset)
    return bucket.astype(np.int64)


class DeBERTa(nn.Module):
    """Add products of queries and offsets (c2p) and of keys and offsets (p2c), and rescale q k.

    `key_table` and `query_table` (heads, 2 buckets, dim) start normal with standard deviation 0.02.
    Checkpoints project one table, `rows = encoder.get_rel_embedding()`: key_table is
    `pos_key_proj(rows).unflatten(-1, (heads, dim)).transpose(0, 1)`, query_table so by
    pos_query_proj; with share_att_key by key_proj and query_proj, in v1 by pos_proj and pos_q_proj.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h; key/value heads may be fewer.
        buckets: Buckets B on each side; half of them hold one offset each.
        max_distance: Offsets from it on share a row; None, for one each, is v1 with 512 buckets.

    Raises:
        ValueError: In a call, if omitted positions have no default, or others are no integers.
        ValueError: In a call, if `max_distance` is buckets/2 + 1 or less.
        ValueError: In a call, if `q` is not floating point.

    Examples:
        >>> encoding, q, k = DeBERTa(8, 2), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
        >>> logits = q @ k.mT / 8**0.5 + encoding(q, k)  # (1, 2, 5, 5)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        buckets: int = 256,
        max_distance: int | None = 512,
    ):
        super().__init__()
        self.buckets = buckets
        self.max_distance = max_distance
        shape = heads, 2 * buckets, dim
        self.key_table = nn.Parameter(0.02 * torch.randn(shape))
        self.query_table = nn.Parameter(0.02 * torch.randn(shape))

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
        m, n = _positions(q, k.shape[2], positions, key_positions)
        scaled_q, wide_k = self._scaled(q, k)
        product = scaled_q @ wide_k.mT  # (b, h, t, s)
        by_query, by_key = self._products(scaled_q, wide_k)
        # of the products with all rows each pair takes one: there is no (t, s, d) to store
        rows = self._rows(q.device)
        reach = len(rows) // 2
        row = rows[(m - n).clamp(-reach, reach) + reach].expand(product.shape)
        by_query = by_query.gather(3, row)  # (b, h, t, s)
        by_key = by_key.gather(3, row.mT).mT  # (b, h, t, s)
        scores = (product + by_query + by_key) / 3**0.5 - product
        return scores.to(q.dtype)  # (b, h, t, s)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return modify(score, b, h, q_idx, kv_idx), which adds the same in FlexAttention.

        Its `score`, the logit so far, must be q k / sqrt(d).
        """
        m, n = _positions(q, k.shape[2], positions, key_positions)
        by_query, by_key = self._products(*self._scaled(q, k))
        # made here: a kernel that meets single pairs has no logarithms to take
        rows = self._rows(q.device)
        reach = len(rows) // 2

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = m[b, 0, q_idx, 0] - n[b, 0, 0, kv_idx]
            row = rows[offset.clamp(-reach, reach) + reach]
            return (score + by_query[b, h, q_idx, row] + by_key[b, h, kv_idx, row]) / 3**0.5

        return _modify

    def _scaled(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries over sqrt(d), and keys for as many heads."""
        if not q.is_floating_point():
            raise ValueError(f"deberta: q must be floating point, got {q.dtype}")
        # products in half precision would lose digits
        wide_q = q.to(torch.promote_types(q.dtype, torch.float32))
        wide_k = k.repeat_interleave(len(self.key_table) // k.shape[1], dim=1).to(wide_q)
        return wide_q / q.shape[3] ** 0.5, wide_k  # (b, h, t, d), (b, h, s, d)

    def _products(self, scaled_q: Tensor, wide_k: Tensor) -> tuple[Tensor, Tensor]:
        """Return the products of queries and of keys with all rows of their tables."""
        by_query = scaled_q @ self.key_table.to(scaled_q).mT  # (b, h, t, r)
        scaled_table = self.query_table.to(wide_k) / wide_k.shape[3] ** 0.5
        by_key = wide_k @ scaled_table.mT  # (b, h, s, r)
        return by_query, by_key

    def _rows(self, device: torch.device) -> Tensor:
        """Return the row of each offset from -reach to reach, beyond which it stays the same."""
        reach = self.max_distance or self.buckets
        row = _row(np.arange(-reach, reach + 1), self.buckets, self.max_distance)
        return torch.from_numpy(row).to(device)


def _row(offset: np.ndarray, buckets: int, max_distance: int | None) -> np.ndarray:
    """Return row(m, n) for each offset m - n."""
    bucket = deberta_bucket(offset, buckets, max_distance)
    return np.clip(bucket + buckets, 0, 2 * buckets - 1)


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to subtract."""
    b, _, t, _ = q.shape
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"deberta: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        if t != s:
            raise ValueError(
                f"deberta: key_positions must be given for {t} queries and {s} keys, got None"
            )
        key_positions = positions
    for p in (positions, key_positions):
        if p.is_floating_point():
            raise ValueError(f"deberta: positions must be integers, got {p.dtype}")
    m = positions.long().unflatten(-1, (1, t, 1)).expand(b, 1, t, 1)
    n = key_positions.long().unflatten(-1, (1, 1, s)).expand(b, 1, 1, s)
    # the kernels of FlexAttention read no strides
    return m.contiguous(), n.contiguous()  # (b, 1, t, 1), (b, 1, 1, s)
