"""Grid encoding: add to each patch the sines and cosines of its row, column and other coordinates.

Paper: He et al., 2021, "Masked Autoencoders Are Scalable Vision Learners",
       https://arxiv.org/abs/2111.06377, app. A.1.
Used:  MAE, DiT (mae), DETR, MoCo v3 (timm-axes), 2-D and 3-D codes of many image and video models
Cost:  nothing to learn; one table (t, d) a call

Key:   b batch, t length, d model dim, n axes, w width of an axis, c a coordinate

Each coordinate of a position has a sinusoidal code of its own, w = d/n channels wide:

    code(c)    = sin(angle_k(c)), cos(angle_k(c)),  k = 0 .. w/2-1, in one of five orders
    angle_k(c) = c * base^(-2k/w)

so the dot product of two codes depends on the offset along each axis only. The orders in use:

    "mae"        the LAST axis first (column, then row); in each all sines, then all cosines
    "timm"       all sines of the first axis, of the second .., then all cosines alike
    "timm-axes"  first axis first; in each all sines, then all cosines (its interleave_sin_cos)
    "detr"       first axis first; in each sines and cosines alternate; for `detr_coordinates`
    "per-axis"   as "detr", for any d: axes as wide as 2 ceil(d / 2n), the surplus cut off

SimpleViT in big_vision has k / (w/2 - 1) for 2k/w: order "mae" with base 10,000^(w/(w-2)).
"""

import numpy as np
import torch
from torch import Tensor, nn

PLACES = {  # of the axis (sine, cosine) in an array that ends with (axes, frequencies)
    "mae": -2,  # all sines, then all cosines of an axis
    "timm": -3,  # all sines, then all cosines of all axes
    "timm-axes": -2,
    "detr": -1,  # a sine, then its cosine
    "per-axis": -1,
}
ORDERS = tuple(PLACES)
REMEDY = "a row of coordinates a token: posenc.positions.grid_positions(height, width)"


def grid(positions, dim, base=10_000.0, order="mae") -> np.ndarray:
    """Return the table (..., t, d) in float64 for `positions` (..., t, n), a row a token."""
    positions = np.asarray(positions, np.float64)
    *batch, t, n = positions.shape
    theta = _theta(dim, n, base, order)  # (w/2,)
    angle = positions[..., None] * theta  # (..., t, n, w/2)
    if order == "mae":
        angle = np.flip(angle, axis=-2)  # (..., t, n, w/2)
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=PLACES[order])
    table = waves.reshape(*batch, t, 2 * n * len(theta))
    return table[..., :dim]  # (..., t, d)


class Grid(nn.Module):
    """Add the sines and cosines of each coordinate to the embeddings of patches, pixels or cells.

    Class tokens: leave them out, as MAE does (it adds zeros), and concatenate them afterwards.

    Args:
        dim: Width d of the embeddings; a multiple of twice the axes, unless `order` is "per-axis".
        axes: Coordinates n of a position: 2 for images, 3 for video.
        base: Sets the slowest wavelength along each axis.
        order: Where sines, cosines and axes go: "mae", "timm", "timm-axes", "detr" or "per-axis".

    Examples:
        >>> rows, columns = torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")
        >>> positions = torch.stack([rows, columns], dim=-1).flatten(0, 1)  # (196, 2)
        >>> encoded = Grid(dim=64)(torch.randn(1, 196, 64), positions)
    """

    def __init__(self, dim: int, axes=2, base=10_000.0, order="mae"):
        super().__init__()
        self.theta = tuple(_theta(dim, axes, base, order).tolist())  # a buffer would be cast
        self.dim, self.axes, self.order = dim, axes, order

    def forward(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, t, d) plus a table, by default that of `positions` (t, n) or (b, t, n).

        A place in a text is no place in a grid: on one axis alone they may be (t,), or left out.
        """
        shape = tuple(x.shape)
        if shape[-1] != self.dim or not x.is_floating_point():
            raise ValueError(f"grid: x must be floats (b, t, {self.dim}), got {x.dtype} {shape}")
        if table is None:
            if positions is None:
                positions = torch.arange(shape[-2], device=x.device)
            table = self.table(positions)
        t, of_x = shape[-2], shape[:-1]
        rows = tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), of_x) or table.ndim > x.ndim:
            raise ValueError(f"grid: positions or table must be ({t},) or {of_x}, got {rows}")
        return x + table.to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the table (..., t, d) in float64 for `positions` (..., t, n)."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        if positions.ndim == self.axes == 1:
            positions = positions[:, None]  # (t, 1)
        n, shape = self.axes, tuple(positions.shape)
        if len(shape) < 2 or shape[-1] != n:
            raise ValueError(f"grid: positions must be (..., t, {n}), got {shape}; {REMEDY}")
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (w/2,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, n, w/2)
        if self.order == "mae":
            angle = angle.flip(-2)  # (..., t, n, w/2)
        waves = torch.stack([angle.sin(), angle.cos()], dim=PLACES[self.order])
        return waves.flatten(-3)[..., : self.dim]  # (..., t, d)


def detr_coordinates(mask: Tensor, scale=2 * np.pi, center=False) -> Tensor:
    """Return DETR's coordinates (..., height, width, 2) of pixels, row first, from 0 to `scale`.

    `mask` (..., height, width) is true where the image is, false where it is padded. Rows and
    columns are counted from 1 over what is not padded and divided by how many there are; `center`
    takes half a step off.

    Examples:
        >>> detr_coordinates(torch.ones(1, 3), scale=3.0).round(decimals=3).tolist()
        [[[3.0, 1.0], [3.0, 2.0], [3.0, 3.0]]]
    """
    rows, columns = mask.double().cumsum(-2), mask.double().cumsum(-1)
    step = 0.5 if center else 0.0
    y = (rows - step) / (rows[..., -1:, :] + 1e-6)
    x = (columns - step) / (columns[..., -1:] + 1e-6)
    return scale * torch.stack([y, x], dim=-1)


def _theta(dim, axes, base, order):
    if order not in ORDERS:
        raise ValueError(f"grid: order must be one of {', '.join(ORDERS)}, got {order!r}")
    step = 1 if order == "per-axis" else 2 * axes
    if dim < 1 or dim % step:
        raise ValueError(f"grid: dim must be a multiple of {step}, got {dim}, for {axes} axes")
    if not 0 < base < float("inf"):
        raise ValueError(f"grid: base must be positive and finite, got {base}")
    pairs = -(-dim // (2 * axes))  # of one axis, rounded up
    return base ** (-np.arange(pairs) / pairs)  # (w/2,)
