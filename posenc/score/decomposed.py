"""Decomposed: match each query with a vector of the offset in rows and one of that in columns.

Paper: Li et al., 2022, "MViTv2: Improved Multiscale Vision Transformers for Classification and
       Detection", https://arxiv.org/abs/2112.01526, eq. 4.
Used:  SAM, SAM-HQ, MViTv2, ViTDet, SegGPT, GOT-OCR2, DeepSeek-OCR2
Cost:  two tables (2H-1, d) and (2W-1, d) to learn for all heads; two products a query and offset

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, H rows of a grid, W columns,
       r rows of the one table, c of the other, m position of a query, n of a key

    s(q, k, m, n) = q . row_table[dy + H - 1] + q . column_table[dx + W - 1],  (dy, dx) = m - n

so 2H-1 + 2W-1 vectors serve the (2H-1)(2W-1) offsets of a grid: it is Shaw's table once for each
axis. An offset beyond the grid counts as its edge; for another grid `resize_offsets` interpolates a
table, as SAM does in each call. Places are whole rows and columns (t, 2), such as those of
`posenc.positions.grid_positions`. The score is not divided by sqrt(d), as in all code that has it.
Where MViTv2 pools two keys into one, its key stands at the second of their places: 1, 3, 5, ...
"""

import numpy as np
import torch
from torch import Tensor, nn


def decomposed(q, k, positions, key_positions, row_table, column_table) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) for `k` (g, s, d)."""
    q = np.asarray(q, np.float64)
    m = np.asarray(positions, np.float64).reshape(q.shape[1], 1, 2)
    n = np.asarray(key_positions, np.float64).reshape(1, len(k[0]), 2)
    offset = m - n  # (t, s, 2)
    if (offset % 1).any():
        raise ValueError(f"decomposed: positions must be whole, got {positions}")
    rows = np.asarray(row_table, np.float64)
    columns = np.asarray(column_table, np.float64)
    dy, dx = np.moveaxis(offset, 2, 0).astype(int)  # (t, s), (t, s)
    vector = rows[_row(dy, len(rows))] + columns[_row(dx, len(columns))]  # (t, s, d)
    return np.einsum("htd,tsd->hts", q, vector)  # (h, t, s)


def resize_offsets(table: Tensor, size: int) -> Tensor:
    """Return a table (r, d) of offsets, interpolated for `size` rows or columns: (2 size - 1, d).

    Examples:
        >>> resize_offsets(torch.tensor([[-1.0], [0.0], [1.0]]), 3).flatten().round(decimals=2)
        tensor([-1.0000, -0.6000,  0.0000,  0.6000,  1.0000])
    """
    lines = table.T[None].float()
    made = nn.functional.interpolate(lines, size=2 * size - 1, mode="linear")
    return made[0].T.to(table.dtype)  # (r, d)


class Decomposed(nn.Module):
    """Score queries against learned vectors of the offsets in rows and in columns.

    `row_table` (2H-1, dim) and `column_table` (2W-1, dim) are learned and start at zero, as in SAM.

    Args:
        dim: Width d of a head.
        size: Rows H and columns W of the grid; 14 x 14 are a window of SAM.

    Examples:
        >>> encoding = Decomposed(dim=1, size=(2, 2))
        >>> encoding.column_table.data[:, 0] = torch.tensor([-1.0, 0.0, 1.0])  # the offset
        >>> places = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])  # grid_positions(2, 2)
        >>> encoding(torch.ones(1, 1, 4, 1), torch.ones(1, 1, 4, 1), places)[0, 0, 1].tolist()
        [1.0, 0.0, 1.0, 0.0]
    """

    axes = 2

    def __init__(self, dim: int, size: tuple[int, int] = (14, 14)):
        super().__init__()
        height, width = size
        self.size = height, width
        self.row_table = nn.Parameter(torch.zeros(2 * height - 1, dim))
        self.column_table = nn.Parameter(torch.zeros(2 * width - 1, dim))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are integers (t, 2) or (b, t, 2), without a default; as many keys as queries
        stand where these do.
        """
        m, n = self._whole(q, k, positions, key_positions)
        offset = m.unsqueeze(-2) - n.unsqueeze(-3)  # (..., t, s, 2)
        dy, dx = offset.unsqueeze(-4).unbind(-1)
        rows, columns = self._products(q, k)
        height, width = rows.shape[3], columns.shape[3]
        pairs = *q.shape[:3], k.shape[2]
        row = _row(dy, height).expand(pairs)  # (b, h, t, s)
        column = _row(dx, width).expand(pairs)  # (b, h, t, s)
        of_rows = rows.gather(3, row)
        of_columns = columns.gather(3, column)
        return (of_rows + of_columns).to(q.dtype)  # (b, h, t, s)

    def score_mod(self, q: Tensor, k: Tensor, positions=None, key_positions=None):
        """Return modify(score, b, h, t, s), which adds the same scores in FlexAttention."""
        m, n = self._whole(q, k, positions, key_positions)
        m = m.expand(len(q), -1, -1).contiguous()  # kernels read no strides
        n = n.expand(len(q), -1, -1).contiguous()
        rows, columns = self._products(q, k)
        height, width = rows.shape[3], columns.shape[3]

        def _modify(score, b, h, t, s):
            dy = m[b, t, 0] - n[b, s, 0]
            dx = m[b, t, 1] - n[b, s, 1]
            of_rows = rows[b, h, t, _row(dy, height)]
            of_columns = columns[b, h, t, _row(dx, width)]
            return score + of_rows + of_columns

        return _modify

    def _products(self, q, k):
        d = q.shape[3]
        if k.shape[3] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[3]}"
            raise ValueError(f"decomposed: q and k must be floats of one width, got {got}")
        x = q.to(torch.promote_types(q.dtype, torch.float32))
        rows = torch.einsum("bhtd,rd->bhtr", x, self.row_table.to(x))
        columns = torch.einsum("bhtd,rd->bhtr", x, self.column_table.to(x))
        return rows, columns  # (b, h, t, r), (b, h, t, c)

    def _whole(self, q, k, positions, key_positions):
        t, s = q.shape[2], k.shape[2]
        key_positions = positions if key_positions is None and t == s else key_positions
        whole = []
        for p, length in ((positions, t), (key_positions, s)):
            got = None if p is None else f"{p.dtype} {tuple(p.shape)}"
            if p is None or p.is_floating_point() or p.shape[-2:] != (length, 2):
                raise ValueError(
                    f"decomposed: positions must be whole rows and columns ({length}, 2), "
                    f"got {got}; take grid_positions{self.size}"
                )
            whole.append(p.long())
        return whole


def _row(offset, rows):
    edge = (rows - 1) // 2
    return offset.clip(-edge, edge) + edge
