"""Learned encoding: add to each token embedding a learned vector for its position, a table's row.

Paper: Gehring et al., 2017, "Convolutional Sequence to Sequence Learning",
       https://arxiv.org/abs/1705.03122, sec. 3.1.
Used:  BERT, GPT-2, OPT, RoBERTa, CLIP, ViT
Cost:  n d parameters; one look-up a token

Key:   b batch, t length, d model dim, n rows, o new rows, p prefix rows, r rows of the grid,
       s new rows of the grid

    PE[m] = weight[offset + m]

so a position beyond the table has no row: there is an error, never a wrapped or a repeated row. OPT
counts from offset 2 and RoBERTa from its padding index + 1. Rows start as N(0, std^2) with std
0.02, as in BERT; GPT-2 has 0.01. A table can be interpolated to another length afterwards: `resize`
for text, `resize_grid` for the patches of an image.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def learned(positions: ArrayLike, weight: ArrayLike, offset: int = 0) -> np.ndarray:
    """Return the rows (..., t, d) of `weight` (n, d) for `positions` (..., t), in float64.

    Raises:
        ValueError: If `positions` or `offset` are negative or fractions.
        IndexError: If a position has no row.
    """
    positions = np.asarray(positions)  # (..., t)
    # NumPy would count a negative row from the end
    if offset < 0 or (positions < 0).any() or (positions % 1).any():
        raise ValueError(f"learned: positions and offset must be 0, 1.., got {positions}, {offset}")
    weight = np.asarray(weight, np.float64)  # (n, d)
    return weight[offset + positions.astype(int)]  # (..., t, d)


class Learned(nn.Module):
    """Add learned rows to embeddings: dropout(x + weight[offset + positions]).

    Args:
        dim: Width d of the embeddings.
        length: How many positions the table holds; a later one is refused.
        offset: Rows before that of position 0: 2 for OPT, padding index + 1 for RoBERTa.
        std: Deviation of the normal distribution that `weight` (offset + length, d) starts from.
        dropout: Probability of zeroing an element of the sum while training.

    Raises:
        ValueError: If `dim` is below 1, or `offset` below 0.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.
        IndexError: In a call, if a position has no row.

    Examples:
        >>> encode, x = Learned(dim=64, length=512), torch.randn(2, 10, 64)
        >>> encoded = encode(x)  # at positions 0 to 9
        >>> encoded = encode(x[:, 9:], torch.tensor([9]))  # decoding: say where
    """

    def __init__(
        self,
        dim: int,
        length: int,
        offset: int = 0,
        std: float = 0.02,
        dropout: float = 0.0,
    ):
        super().__init__()
        if dim < 1 or offset < 0:
            raise ValueError(f"learned: dim and offset must be >= 1 and 0, got {dim} and {offset}")
        self.dim = dim
        self.length = length
        self.offset = offset
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(offset + length, dim))  # (n, d)
        nn.init.normal_(self.weight, std=std)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the rows of its `positions` (t,) or (b, t).

        With t > 1, `positions` default to 0 .. t-1; a lone token, as in decoding, must be given its
        own.
        """
        self._check(x, positions)
        if positions is None:
            # a slice, which costs less than a look-up
            rows = self.weight[self.offset :][: x.shape[-2]]  # (t, d)
        else:
            rows = self.table(positions)  # (..., t, d)
        return nn.functional.dropout(x + rows.to(x), self.dropout, self.training)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the rows (..., t, d) of integer `positions` (..., t)."""
        if positions.is_floating_point():
            raise ValueError(f"learned: positions must be integers, got {positions.dtype}")
        # without the rows before, for -1 is no position but the last of these
        rows = self.weight[self.offset :]
        return nn.functional.embedding(positions.long(), rows)  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        *batch, t, dim = x.shape
        if dim != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"learned: x must have shape (b, t, {self.dim}) and a float dtype, got {got}"
            )
        if positions is None:
            self._check_default(t)
            return
        # one position would broadcast over all tokens without an error
        shape = tuple(positions.shape)
        misfit = shape != (t,) and shape != (1, t) and shape != (*batch, t)
        if misfit or len(shape) >= x.ndim:
            fitting = f"({t},) or {(*batch, t)}"
            raise ValueError(f"learned: positions must have shape {fitting}, got {shape}")

    def _check_default(self, t: int) -> None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t == 1:
            raise ValueError(
                "learned: positions must be given for a lone token, got None; "
                "torch.tensor([s]) behind a cache of s tokens"
            )
        # a table of one row would broadcast over all tokens without an error
        rows = len(self.weight) - self.offset
        if t > rows:
            raise ValueError(
                f"learned: rows must be at least {t}, one a token, got {rows}; resize adds more"
            )


def row_statistics(weight: Tensor) -> dict[str, Tensor]:
    """Return of a table (n, d) each row's norm, and its cosine and distance to the next row.

    Rows of positions that no training text had keep the norm of their start, near std sqrt(d), and
    a cosine near 0 with their neighbors; trained rows of a smooth table have cosines near 1.

    Examples:
        >>> row_statistics(torch.tensor([[3.0, 4.0], [4.0, 3.0]]))["norm"]
        tensor([5., 5.], dtype=torch.float64)
    """
    rows = weight.detach().cpu().double()  # (n, d)
    here, there = rows[:-1], rows[1:]  # (n-1, d)
    norm = rows.norm(dim=-1)  # (n,)
    cosine = nn.functional.cosine_similarity(here, there, dim=-1)  # (n-1,)
    step = (there - here).norm(dim=-1)  # (n-1,)
    return {"norm": norm, "cosine": cosine, "step": step}


def resize(weight: Tensor, length: int, mode: str = "linear") -> Tensor:
    """Return a text table (n, d) interpolated to `length` rows (o, d), in the same dtype.

    A longer table keeps its first and last row and interpolates between them, "linear" or "cubic";
    a row of a shorter one averages the rows that it covers. A shorter context needs no resizing:
    use the first rows. Rows before an `offset` are no positions: resize the rest.

    Examples:
        >>> short, long = Learned(dim=8, length=3), Learned(dim=8, length=5)
        >>> long.load_state_dict({"weight": resize(short.weight, 5)})
        <All keys matched successfully>
    """
    shrinks = length < len(weight)
    # of a longer table the corners stay, of a shorter one each row averages those that it covers
    mix = _interpolation(
        weight, len(weight), length, mode, antialias=shrinks, align_corners=not shrinks
    )
    resized = mix @ weight.to(mix)  # (o, d)
    return resized.to(weight.dtype)


def resize_grid(
    weight: Tensor,
    size: tuple[int, int],
    new_size: tuple[int, int],
    prefix: int = 0,
    mode: str = "cubic",
    antialias: bool = True,
) -> Tensor:
    """Return a table (..., p + r, d) of image patches for another grid; the p `prefix` rows stay.

    `size` and `new_size` are (height, width) in patches, which lie row by row, after class and
    register tokens. `mode` is "linear" or "cubic", in PyTorch and timm bilinear and bicubic.
    Antialiasing averages old patches where the grid shrinks; it also changes the cubic kernel
    everywhere, from a = -3/4 to -1/2, the only one of the two that keeps a ramp straight.

    Examples:
        >>> small = Learned(dim=8, length=1 + 14 * 14).weight  # a class token and the patches
        >>> resize_grid(small, (14, 14), (16, 24), prefix=1).shape
        torch.Size([385, 8])
    """
    rows = _interpolation(weight, size[0], new_size[0], mode, antialias)
    columns = _interpolation(weight, size[1], new_size[1], mode, antialias)
    patches = weight[..., prefix:, :].to(rows)  # (..., r, d)
    grid = patches.unflatten(-2, size)
    grid = torch.einsum("Yy, Xx, ...yxd -> ...YXd", rows, columns, grid)
    patches = grid.flatten(-3, -2).to(weight.dtype)  # (..., s, d)
    return torch.cat([weight[..., :prefix, :], patches], dim=-2)  # (..., p+s, d)


def _interpolation(
    weight: Tensor, n: int, new: int, mode: str, antialias: bool, align_corners: bool = False
) -> Tensor:
    """Return the matrix (o, n) that makes new rows of old ones: the identity, interpolated."""
    # halves are rounded once, at the end; finfo refuses integers, whose means would be cut
    half = torch.finfo(weight.dtype).bits < 32
    dtype = torch.float32 if half else weight.dtype
    identity = torch.eye(n, dtype=dtype, device=weight.device)
    # an image of one line and n channels: torch has no cubic mode for less
    lines = identity[None, :, None]  # (1, n, 1, n)
    mixed = nn.functional.interpolate(
        lines, (1, new), mode=f"bi{mode}", align_corners=align_corners, antialias=antialias
    )
    return mixed[0, :, 0].T  # (o, n)
