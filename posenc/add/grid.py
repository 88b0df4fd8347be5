"""Grid encoding: add to each patch the sines and cosines of its row, column and other coordinates.

Paper: He et al., 2021, "Masked Autoencoders Are Scalable Vision Learners",
       https://arxiv.org/abs/2111.06377, app. A.1.
Used:  MAE, DiT (mae), DETR, MoCo v3 (timm-axes), 2-D and 3-D tables of many image and video models
Cost:  nothing to learn; one table (t, d) a call

Key:   b batch, t length, d model dim, n axes, w width of an axis, c a coordinate

Each coordinate of a position has a sinusoidal encoding of its own, w = d/n channels wide:

    PE(c)      = sin(angle_k(c)), cos(angle_k(c)),  k = 0 .. w/2-1, in one of five orders
    angle_k(c) = c * base^(-2k/w)

so the dot product of two encodings depends on the offset along each axis only. The orders in use:

    "mae"        the LAST axis first (column, then row); in each all sines, then all cosines
    "timm"       all sines of the first axis, of the second .., then all cosines alike
    "timm-axes"  first axis first; in each all sines, then all cosines (its interleave_sin_cos)
    "detr"       first axis first; in each sines and cosines alternate; for `detr_coordinates`
    "per-axis"   as "detr", for any d: axes as wide as 2 ceil(d / 2n), the surplus cut off

SimpleViT in big_vision has k / (w/2 - 1) for 2k/w: order "mae" with base 10,000^(w/(w-2)).
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

# the axis of (sine, cosine) in an array that ends with (axes, frequencies) and is flattened:
# -1 makes them alternate, -2 puts the sines of an axis before its cosines, -3 those of all axes
WAVE_AXES = {"mae": -2, "timm": -3, "timm-axes": -2, "detr": -1, "per-axis": -1}
ORDERS = tuple(WAVE_AXES)
REMEDY = "a row of coordinates a token: posenc.positions.grid_positions(height, width)"


def grid(
    positions: ArrayLike,
    dim: int,
    base: float = 10_000.0,
    order: str = "mae",
) -> np.ndarray:
    """Return the table (..., t, d) in float64 for `positions` (..., t, n), a row a token.

    Raises:
        ValueError: If `dim` is no multiple of 2n, unless `order` is "per-axis".
        ValueError: If `base` is not positive and finite, or `order` unknown.
    """
    positions = np.asarray(positions, np.float64)
    *batch, t, n = positions.shape
    theta = _frequencies(dim, n, base, order)  # (w/2,)
    angle = positions[..., None] * theta  # (..., t, n, w/2)
    if order == "mae":
        angle = np.flip(angle, axis=-2)  # (..., t, n, w/2)
    waves = np.stack([np.sin(angle), np.cos(angle)], axis=WAVE_AXES[order])
    table = waves.reshape(*batch, t, 2 * n * len(theta))
    # per-axis is wider where d is no multiple of 2n
    return table[..., :dim]  # (..., t, d)


class Grid(nn.Module):
    """Add the sines and cosines of each coordinate to the embeddings of patches, pixels or cells.

    Class tokens: leave them out, as MAE does (it adds zeros), and concatenate them afterwards.

    Args:
        dim: Width d of the embeddings; a multiple of twice the axes, unless `order` is "per-axis".
        axes: Coordinates n of a position: 2 for images, 3 for video.
        base: Sets the longest wavelength along each axis.
        order: Where sines, cosines and axes go: "mae", "timm", "timm-axes", "detr" or "per-axis".

    Raises:
        ValueError: If `dim` is no multiple of twice the axes, unless `order` is "per-axis".
        ValueError: If `base` is not positive and finite, or `order` unknown.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> rows, columns = torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")
        >>> positions = torch.stack([rows, columns], dim=-1).flatten(0, 1)  # (196, 2)
        >>> encoded = Grid(dim=64)(torch.randn(1, 196, 64), positions)
    """

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        base: float = 10_000.0,
        order: str = "mae",
    ):
        super().__init__()
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, axes, base, order).tolist())
        self.dim = dim
        self.axes = axes
        self.order = order

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the table of its `positions` (t, n) or (b, t, n).

        On one axis they may be (t,), and with t > 1 default to 0 .. t-1; a lone token, as in
        decoding, must be given its own. Several axes have no default: an index in the sequence is
        no position in a grid.
        """
        self._check(x, positions)
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        return x + self.table(positions).to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the table (..., t, d) in float64 for `positions` (..., t, n)."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (w/2,)
        coordinates = _coordinates(positions.to(device, torch.float64), self.axes)  # (..., t, n)
        angle = coordinates[..., None] * theta  # (..., t, n, w/2)
        if self.order == "mae":
            angle = angle.flip(-2)  # (..., t, n, w/2)
        waves = torch.stack([angle.sin(), angle.cos()], dim=WAVE_AXES[self.order])
        # per-axis is wider where d is no multiple of 2n
        return waves.flatten(-3)[..., : self.dim]  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        *batch, t, dim = x.shape
        if dim != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"grid: x must have shape (b, t, {self.dim}) and a float dtype, got {got}"
            )
        if positions is None:
            self._check_default(t)
            return
        # one position would broadcast over all tokens without an error
        shape = tuple(_coordinates(positions, self.axes).shape[:-1])
        misfit = shape != (t,) and shape != (1, t) and shape != (*batch, t)
        if misfit or len(shape) >= x.ndim:
            fitting = f"({t},) or {(*batch, t)}"
            raise ValueError(f"grid: positions must be of {fitting} tokens, got {shape}")

    def _check_default(self, t: int) -> None:
        # the coordinates of token i of an image are not (i, i)
        if self.axes > 1:
            raise ValueError(
                f"grid: positions must have shape ({t}, {self.axes}), got None; {REMEDY}"
            )
        # a lone token is a new one behind a cache, and its position is not 0
        if t == 1:
            raise ValueError(
                "grid: positions must be given for a lone token, got None; "
                "torch.tensor([s]) behind a cache of s tokens"
            )


def detr_coordinates(mask: Tensor, scale: float = 2 * np.pi, center: bool = False) -> Tensor:
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
    # DETR's epsilon, without which a column of padding would be divided by 0
    y = (rows - step) / (rows[..., -1:, :] + 1e-6)
    x = (columns - step) / (columns[..., -1:] + 1e-6)
    return scale * torch.stack([y, x], dim=-1)


def _coordinates(positions: Tensor, axes: int) -> Tensor:
    """Return positions (..., t, n), which on one axis may be a line (t,)."""
    if axes == 1 and positions.ndim == 1:
        return positions[:, None]  # (t, 1)
    # else the coordinates of token i would be (i, i)
    if positions.ndim < 2 or positions.shape[-1] != axes:
        got = tuple(positions.shape)
        raise ValueError(f"grid: positions must have shape (..., t, {axes}), got {got}; {REMEDY}")
    return positions


def _frequencies(dim: int, axes: int, base: float, order: str) -> np.ndarray:
    """Return theta (w/2,) of one axis, in radians a step, highest first."""
    if order not in ORDERS:
        raise ValueError(f"grid: order must be one of {', '.join(ORDERS)}, got {order!r}")
    step = 1 if order == "per-axis" else 2 * axes
    if dim < 1 or dim % step:
        raise ValueError(f"grid: dim must be a multiple of {step}, got {dim}, for {axes} axes")
    if not 0 < base < float("inf"):
        raise ValueError(f"grid: base must be positive and finite, got {base}")
    # rounded up, as per-axis has it
    pairs = -(-dim // (2 * axes))
    return base ** (-np.arange(pairs) / pairs)  # (w/2,)
