"""Decomposed: add to each logit the query's products with vectors of the row and the column offset.

Paper: Li et al., 2022, "MViTv2: Improved Multiscale Vision Transformers for Classification and
       Detection", https://arxiv.org/abs/2112.01526, eq. 4.
Used:  SAM, SAM-HQ, MViTv2, ViTDet, SegGPT, GOT-OCR2, DeepSeek-OCR2
Cost:  two tables (2H-1, d) and (2W-1, d) to learn for all heads; two products a query and offset

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, H rows of a grid,
       W columns, r rows of the one table, c of the other, m position of a query, n of a key

    s(q, k, m, n) = q . row_table[dy + H - 1] + q . column_table[dx + W - 1],  (dy, dx) = m - n

so 2H-1 + 2W-1 vectors serve the (2H-1)(2W-1) offsets of a grid: it is Shaw's table once for each
axis. An offset beyond the grid counts as its edge; for another grid `resize_offsets` interpolates a
table, as SAM does in each call. Positions are whole rows and columns (t, 2), such as those of
`posenc.positions.grid_positions`. The products are not divided by sqrt(d), as in all code that has
them. Where MViTv2 pools two keys into one, its position is that of the second: 1, 3, 5, ...
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def decomposed(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    row_table: ArrayLike,
    column_table: ArrayLike,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) for `k` (g, s, d).

    Raises:
        ValueError: If positions are fractions, or not (t, 2) and (s, 2).
    """
    q = np.asarray(q, np.float64)
    row_table = np.asarray(row_table, np.float64)
    column_table = np.asarray(column_table, np.float64)
    m = np.asarray(positions, np.float64).reshape(q.shape[1], 1, 2)
    n = np.asarray(key_positions, np.float64).reshape(1, np.shape(k)[1], 2)
    offset = m - n  # (t, s, 2)
    # the table has vectors for whole offsets only
    if (offset % 1).any():
        got = f"{positions} and {key_positions}"
        raise ValueError(f"decomposed: positions must be whole, got {got}")
    dy, dx = np.moveaxis(offset, 2, 0).astype(int)  # (t, s), (t, s)
    # an offset beyond the grid counts as its edge
    height, width = len(row_table) // 2 + 1, len(column_table) // 2 + 1
    row = np.clip(dy, 1 - height, height - 1) + height - 1  # (t, s)
    column = np.clip(dx, 1 - width, width - 1) + width - 1  # (t, s)
    vector = row_table[row] + column_table[column]  # (t, s, d)
    return np.einsum("htd,tsd->hts", q, vector)  # (h, t, s)


def resize_offsets(table: Tensor, size: int) -> Tensor:
    """Return a table (r, d) of offsets, interpolated for `size` rows or columns: (2 size - 1, d).

    Examples:
        >>> resize_offsets(torch.tensor([[-1.0], [0.0], [1.0]]), 3).flatten().round(decimals=2)
        tensor([-1.0000, -0.6000,  0.0000,  0.6000,  1.0000])
    """
    # a batch of one, whose channels are lines along the offsets
    lines = table.T[None].float()  # (1, d, r)
    resized = nn.functional.interpolate(lines, size=2 * size - 1, mode="linear")
    return resized[0].T.to(table.dtype)


class Decomposed(nn.Module):
    """Add products of queries with learned vectors of the offsets in rows and in columns.

    `row_table` (2H-1, dim) and `column_table` (2W-1, dim) are learned and start at zero, as in SAM.

    Args:
        dim: Width d of a head.
        size: Rows H and columns W of the grid; 14 x 14 are a window of SAM.

    Raises:
        ValueError: In a call, if positions are missing, fractions or of another shape.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> encoding = Decomposed(dim=1, size=(2, 2))
        >>> encoding.column_table.data[:, 0] = torch.tensor([-1.0, 0.0, 1.0])  # the offset
        >>> positions = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # grid_positions(2, 2)
        >>> encoding(torch.ones(1, 1, 4, 1), torch.ones(1, 1, 4, 1), positions)[0, 0, 1].tolist()
        [1.0, 0.0, 1.0, 0.0]
    """

    axes = 2

    def __init__(self, dim: int, size: tuple[int, int] = (14, 14)):
        super().__init__()
        height, width = size
        self.size = height, width
        self.row_table = nn.Parameter(torch.zeros(2 * height - 1, dim))
        self.column_table = nn.Parameter(torch.zeros(2 * width - 1, dim))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers (t, 2) or (b, t, 2), without a default; with t = s, `key_positions`
        default to `positions`.
        """
        m, n = self._positions(q, k, positions, key_positions)
        offset = m.unsqueeze(-2) - n.unsqueeze(-3)  # (..., t, s, 2)
        # a head axis, over which offsets are the same
        dy, dx = offset.unsqueeze(-4).unbind(-1)  # (..., t, s), (..., t, s)
        by_row, by_column = self._products(q, k)
        # of the products with all rows each pair takes one: there is no (t, s, d) to store
        pairs = *q.shape[:3], k.shape[2]
        row = _row(dy, by_row).expand(pairs)  # (b, h, t, s)
        column = _row(dx, by_column).expand(pairs)  # (b, h, t, s)
        scores = by_row.gather(3, row) + by_column.gather(3, column)
        return scores.to(q.dtype)  # (b, h, t, s)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return modify(score, b, h, q_idx, kv_idx), which adds the same in FlexAttention."""
        m, n = self._positions(q, k, positions, key_positions)
        # the kernels of FlexAttention read no strides
        m = m.expand(len(q), -1, -1).contiguous()
        n = n.expand(len(q), -1, -1).contiguous()
        by_row, by_column = self._products(q, k)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            dy = m[b, q_idx, 0] - n[b, kv_idx, 0]
            dx = m[b, q_idx, 1] - n[b, kv_idx, 1]
            of_row = by_row[b, h, q_idx, _row(dy, by_row)]
            of_column = by_column[b, h, q_idx, _row(dx, by_column)]
            return score + of_row + of_column

        return _modify

    def _products(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return the products of each query with all rows of both tables."""
        d = q.shape[3]
        # k's content is unused, so a wrong width would go unnoticed
        if k.shape[3] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[3]}"
            raise ValueError(f"decomposed: q and k must be floats of one width, got {got}")
        # products in half precision would lose digits
        wide = q.to(torch.promote_types(q.dtype, torch.float32))
        by_row = torch.einsum("bhtd,rd->bhtr", wide, self.row_table.to(wide))
        by_column = torch.einsum("bhtd,rd->bhtr", wide, self.column_table.to(wide))
        return by_row, by_column  # (b, h, t, r), (b, h, t, c)

    def _positions(
        self, q: Tensor, k: Tensor, positions: Tensor | None, key_positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the positions of queries (..., t, 2) and of keys (..., s, 2), in 64 bits."""
        if key_positions is None:
            key_positions = positions
        m = self._whole("positions", positions, q.shape[2])
        n = self._whole("key_positions", key_positions, k.shape[2])
        return m, n  # (..., t, 2), (..., s, 2)

    def _whole(self, name: str, positions: Tensor | None, length: int) -> Tensor:
        # positions of a text are no coordinates; one alone would broadcast over all tokens
        if (
            positions is None
            or positions.is_floating_point()
            or positions.shape[-2:] != (length, 2)
        ):
            got = None if positions is None else f"{positions.dtype} {tuple(positions.shape)}"
            raise ValueError(
                f"decomposed: {name} must have shape ({length}, 2) or (b, {length}, 2) and an "
                f"integer dtype, got {got}; take grid_positions{self.size}"
            )
        return positions.long()


def _row(offset: Tensor, products: Tensor) -> Tensor:
    """Return the row of each offset among those of `products` (b, h, t, r)."""
    edge = products.shape[3] // 2
    return offset.clip(-edge, edge) + edge
