"""Grid encoding: add to each patch the sines and cosines of its row, its column, and of any further coordinate.

Paper: He et al., 2021, "Masked Autoencoders Are Scalable Vision Learners", https://arxiv.org/abs/2111.06377, app. A.1.
Used:  MAE, DiT (mae), DETR, MoCo v3 (timm-axes), the 2-D and 3-D codes of many vision and video models
Cost:  nothing to learn; one table (t, d) a call

Key:   b batch, t length, d model dim, n axes, w width of an axis, c a coordinate

Each coordinate of a position has a sinusoidal code of its own, w = d/n channels wide:

    code(c)    = sin(angle_k(c)), cos(angle_k(c)),  k = 0 .. w/2-1, in one of five orders
    angle_k(c) = c * base^(-2k/w)

so the dot product of two codes depends on the offset along each axis only. Five orders of channels are in use:

    "mae"        the LAST axis first (column, then row); in each all sines, then all cosines
    "timm"       all sines of the first axis, of the second ..., then all cosines in the same order
    "timm-axes"  first axis first; in each all sines, then all cosines (timm's interleave_sin_cos)
    "detr"       first axis first; in each sines and cosines alternate; DETR's coordinates: `detr_coordinates`
    "per-axis"   as "detr", for any d: axes as wide as 2 ceil(d / 2n), what is too much cut off at the end

SimpleViT in big_vision has k / (w/2 - 1) for 2k/w: order "mae" with base 10,000^(w/(w-2)).
"""

import numpy as np
import torch
from torch import Tensor, nn

PLACES = {"mae": -2, "timm": -3, "timm-axes": -2, "detr": -1, "per-axis": -1}  # of (sine, cosine) among the axes
ORDERS = tuple(PLACES)
REMEDY = "a row of coordinates a token: posenc.positions.grid_positions(height, width)"


def grid(positions: np.ndarray, dim: int, base: float = 10_000.0, order: str = "mae") -> np.ndarray:
    """Return the float64 table (..., t, d) for `positions` (..., t, n), a row of n coordinates a token."""
    positions = _numbers("positions", positions)  # (..., t, n)
    if positions.ndim < 2 or positions.shape[-1] < 1:
        raise ValueError(f"grid: positions must be (..., t, n), got {positions.shape}; {REMEDY}")
    axes = positions.shape[-1]
    theta = _theta(dim, axes, base, order)  # (w/2,)
    angle = positions[..., None] * theta  # (..., t, n, w/2)
    if order == "mae":
        angle = np.flip(angle, axis=-2)  # (..., t, n, w/2)
    pairs = np.stack([np.sin(angle), np.cos(angle)], axis=PLACES[order])
    return pairs.reshape(*positions.shape[:-1], 2 * theta.size * axes)[..., :dim]  # (..., t, d)


def detr_coordinates(mask: Tensor, scale: float = 2 * np.pi, center: bool = False) -> Tensor:
    """Return DETR's coordinates (..., height, width, 2) of the pixels of an image, row first, from 0 to `scale`.

    `mask` (..., height, width) is true where the image is, false where it is padded. Rows and columns are counted
    from 1 over what is not padded and divided by how many there are; `center` takes half a step off.

    Examples:
        >>> import torch
        >>> detr_coordinates(torch.ones(1, 4, dtype=torch.bool), scale=4.0).round(decimals=3).tolist()
        [[[4.0, 1.0], [4.0, 2.0], [4.0, 3.0], [4.0, 4.0]]]
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.ndim < 2:
        raise ValueError(
            f"grid: mask must be boolean (..., height, width), got {_kind(mask)}; false where it is padded"
        )
    if not _is_number(scale) or not 0 < scale < float("inf"):
        raise ValueError(f"grid: scale must be positive and finite, got {scale!r}; DETR takes 2 pi")
    if not isinstance(center, bool):
        raise ValueError(f"grid: center must be True or False, got {center!r}; True takes half a step off")
    counts = [mask.double().cumsum(axis) for axis in (-2, -1)]
    ends = [counts[0][..., -1:, :], counts[1][..., :, -1:]]
    half = 0.5 if center else 0.0
    return torch.stack([(c - half) / (end + 1e-6) * scale for c, end in zip(counts, ends, strict=True)], dim=-1)


class Grid(nn.Module):
    """Add the sines and cosines of each coordinate to the embeddings of patches, pixels or cells.

    Nothing is learned or stored, and no resolution is too large: the table is computed for the coordinates of each
    call, in float64. Class tokens: leave them out, as MAE does (it adds zeros), and concatenate them afterwards.

    Args:
        dim: Width d of the embeddings; a multiple of twice the axes, unless `order` is "per-axis".
        axes: Coordinates n of a position: 2 for images, 3 for video.
        base: Sets the slowest wavelength along each axis.
        order: Where sines, cosines and axes go: "mae", "timm", "timm-axes", "detr" or "per-axis" (see the module).

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> rows, columns = torch.meshgrid(torch.arange(14), torch.arange(14), indexing="ij")
        >>> patches = torch.zeros(1, 196, 64)
        >>> Grid(dim=64)(patches, torch.stack([rows, columns], dim=-1).flatten(0, 1)).shape
        torch.Size([1, 196, 64])
    """

    def __init__(self, dim: int, axes: int = 2, base: float = 10_000.0, order: str = "mae") -> None:
        super().__init__()
        _theta(dim, axes, base, order)
        self.dim, self.axes, self.base, self.order = int(dim), int(axes), float(base), order

    def forward(self, x: Tensor, positions: Tensor | None = None, table: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the table at `positions` (t, n), (b, t, n) or (1, t, n), numbers of any kind.

        They have no default, as a place in a sequence is no place in a grid; on one axis (t,) will do, and 0 .. t-1 is
        the default. `table`, from `table(positions)`, replaces `positions` where one table serves several calls.
        """
        self._check(x, positions, table)
        if table is None:
            if positions is None:
                positions = torch.arange(x.shape[-2], device=x.device)  # (t,)
            table = self.table(positions)
        return x + table.to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the float64 table (..., t, d) for `positions` (..., t, n), or (t,) on one axis."""
        _check_places(positions)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        line = positions.ndim == self.axes == 1
        if not line and (positions.ndim < 2 or positions.shape[-1] != self.axes):
            form = f"(..., t, {self.axes})" + " or (t,)" * (self.axes == 1)
            raise ValueError(f"grid: positions must be {form}, got {tuple(positions.shape)}; {REMEDY}")
        positions = (positions[:, None] if line else positions).to(where, torch.float64)  # (..., t, n)
        steps = _width(self.dim, self.axes) // 2
        theta = self.base ** (-torch.arange(steps, dtype=torch.float64, device=where) / steps)  # (w/2,)
        angle = positions[..., None] * theta  # (..., t, n, w/2)
        if self.order == "mae":
            angle = angle.flip(-2)  # (..., t, n, w/2)
        pairs = torch.stack([angle.sin(), angle.cos()], dim=PLACES[self.order])
        return pairs.flatten(-3)[..., : self.dim]  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None, table: Tensor | None) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2 or x.shape[-1] != self.dim:
            raise ValueError(
                f"grid: x must be floating point (b, t, {self.dim}), got {_kind(x)}; embed the cells, row by row, first"
            )
        t, batch, n = x.shape[-2], x.shape[:-2], self.axes
        shapes = ((t, n), (*batch, t, n), (*(1 for _ in batch), t, n), *([(t,)] if n == 1 else []))
        form = f"(t, {n}) or (b, t, {n}){' or (t,)' * (n == 1)} for x (b, t, d) of {tuple(x.shape)}"
        if positions is None and table is None and n > 1:
            raise ValueError(f"grid: positions must be given, {form}, got None; {REMEDY}")
        if positions is not None:
            _check_places(positions)
        if positions is not None and positions.shape not in shapes:
            raise ValueError(f"grid: positions must be {form}, got {tuple(positions.shape)}; {REMEDY}")
        if table is not None and getattr(table, "shape", None) not in (x.shape[-2:], (1, *x.shape[-2:]), x.shape):
            raise ValueError(
                f"grid: table must be (t, d) or (b, t, d) for x (b, t, d) of {tuple(x.shape)}, got {_kind(table)}; "
                "make it with table(positions)"
            )

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, axes={self.axes}, base={self.base:g}, order={self.order!r}"


def _width(dim: int, axes: int) -> int:
    return 2 * -(-dim // (2 * axes))


def _theta(dim: int, axes: int, base: float, order: str) -> np.ndarray:
    if not isinstance(order, str) or order not in ORDERS:
        raise ValueError(f"grid: order must be one of {', '.join(ORDERS)}, got {order!r}")
    if not isinstance(axes, int | np.integer) or isinstance(axes, bool) or axes < 1:
        raise ValueError(f"grid: axes must be a positive integer, got {axes!r}; images have 2, videos 3")
    least = 1 if order == "per-axis" else 2 * axes
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 1 or dim % least:
        raise ValueError(
            f"grid: dim must be a positive multiple of {least} for {axes} axes, got {dim!r}; each frequency needs "
            'a sine and a cosine on each axis: order="per-axis" takes any width'
        )
    if not _is_number(base) or not 0 < base < float("inf"):
        raise ValueError(f"grid: base must be positive and finite, got {base!r}; MAE takes 10,000")
    steps = _width(dim, axes) // 2
    return float(base) ** (-np.arange(steps) / steps)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _kind(value: object) -> str:
    array = "numpy array " * isinstance(value, np.ndarray)
    return f"{array}{getattr(value, 'dtype', type(value).__name__)} {tuple(getattr(value, 'shape', ()))}"


def _check_places(positions: Tensor) -> None:
    if not isinstance(positions, Tensor) or positions.dtype == torch.bool or positions.is_complex():
        remedy = "torch.as_tensor makes one of a list or an array"
        raise ValueError(f"grid: positions must be a tensor of integers or floats, got {_kind(positions)}; {remedy}")


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise ValueError(f"grid: {name} must be finite numbers, got {value!r}")
    return array.astype(np.float64)
