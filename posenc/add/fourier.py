"""Fourier features: add to each embedding the sines and cosines of its continuous coordinates, at chosen frequencies.

Paper: Tancik et al., 2020, "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional
       Domains", https://arxiv.org/abs/2006.10739, sec. 4.
Used:  NeRF (powers of two), SAM's prompt encoder (Gaussian), Perceiver (linear bands), timm's Fourier embeddings
Cost:  nothing to learn, or n d/2 parameters where learned; one table (t, d) a call

Key:   b batch, t length, d width, n axes, f frequencies of an axis

    cycles[a, i]      how often feature i turns while coordinate a grows by 1
    angle[m, i]     = 2 pi sum_a m_a cycles[a, i],  i = 0 .. d/2-1
    PE[m]           = [sin angle | cos angle]

    "powers"     2^k / 2 for k = 0, 1, ..., each axis by itself: sin(2^k pi m), as in NeRF (2003.08934, eq. 4)
    "bands"      from 1/2 to resolution / 4 in equal steps, each axis by itself, as in Perceiver (2103.03206)
    "gaussian"   N(0, scale^2), drawn once from `seed`: every feature mixes all axes
    "learned"    the same as a start, then trained (Li et al., 2106.02795, who put an MLP behind)

so the dot product of two codes depends on the offset only. Coordinates are meant to lie in [-1, 1] or [0, 1]. Cycles
are powers of two or float32 numbers, so that an integer coordinate times a cycle is exact in float64. NeRF's published
code leaves pi out and alternates sines and cosines frequency by frequency; both it and Perceiver append the coordinates
as well. SAM's matrix is a checkpoint's `cycles`: load it where kind is "learned".
"""

import numpy as np
import torch
from torch import Tensor, nn

KINDS = ("powers", "bands", "gaussian", "learned")
COORDINATES = 'a row for each token, as of axial_coordinates((height, width), "eva-pixel"), which lie in [-1, 1]'
Resolution = float | tuple[float, ...]


def fourier(
    positions: np.ndarray,
    dim: int,
    axes: int = 1,
    kind: str = "powers",
    resolution: Resolution = 224.0,
    scale: float = 1.0,
    seed: int = 0,
    cycles: np.ndarray | None = None,
) -> np.ndarray:
    """Return the float64 features (..., t, d) of `positions` (..., t), or (..., t, n) where there are n > 1 axes.

    `cycles` (n, d/2) replaces those of `kind`; for "learned" it is the trained parameter.
    """
    made = fourier_cycles(dim, axes, kind, resolution, scale, seed)  # (n, d/2)
    cycles = made if cycles is None else _numbers("cycles", cycles)  # (n, d/2)
    if cycles.shape != made.shape:
        raise ValueError(f"fourier: cycles must be (n, d/2) = {made.shape}, got {cycles.shape}; a row an axis")
    positions = _numbers("positions", positions)
    if axes == 1:
        positions = positions[..., None]  # (..., t, 1)
    if positions.ndim < 2 or positions.shape[-1] != axes:
        raise ValueError(
            f"fourier: positions must be (..., t, n) with n = {axes}, got {positions.shape}; {COORDINATES}"
        )
    turns = positions[..., None] * cycles  # (..., t, n, d/2)
    angle = 2 * np.pi * (turns - np.rint(turns)).sum(axis=-2)  # (..., t, d/2)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)  # (..., t, d)


def fourier_cycles(
    dim: int, axes: int = 1, kind: str = "powers", resolution: Resolution = 224.0, scale: float = 1.0, seed: int = 0
) -> np.ndarray:
    """Return the cycles (n, d/2) per unit of each axis: what every kind starts from.

    Examples:
        >>> fourier_cycles(dim=8, axes=2).tolist()  # each axis has features of its own
        [[0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 1.0]]
    """
    _check_settings(dim, axes, kind, resolution, scale, seed)
    if kind in ("gaussian", "learned"):
        drawn = np.random.default_rng(seed).normal(0, scale, (axes, dim // 2))  # (n, d/2)
        return drawn.astype(np.float32).astype(np.float64)  # (n, d/2)
    count = dim // (2 * axes)
    cycles = np.zeros((axes, axes, count))  # (n, n, f)  each axis has features of its own, 0 for the others
    for axis, fastest in enumerate(np.broadcast_to(resolution, axes)):
        bands = np.linspace(1, fastest / 2, count) / 2  # (f,)
        cycles[axis, axis] = 2.0 ** np.arange(count) / 2 if kind == "powers" else bands.astype(np.float32)
    return cycles.reshape(axes, -1)  # (n, d/2)


class Fourier(nn.Module):
    """Add Fourier features of continuous coordinates to embeddings of the same width.

    Nothing is stored unless it is learned. To concatenate the features instead, take them from `table(positions)`.

    Args:
        dim: Width d of the embeddings; a multiple of twice the axes for "powers" and "bands", else even.
        axes: Coordinates n of a position.
        kind: "powers" of two, linear "bands", "gaussian" or "learned" (see the module).
        resolution: For "bands": the fastest turns resolution / 4 times a unit, which samples 2 / resolution apart show;
            one number, or one an axis, as Perceiver's max_resolution.
        scale: For "gaussian" and "learned": the spread of the cycles; larger fits finer detail, and noise.
        seed: For "gaussian" and "learned": what the cycles are drawn from, with NumPy's default generator.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encode = Fourier(dim=64, axes=2, kind="gaussian", scale=10.0)
        >>> encode.table(torch.rand(1024, 2)).shape, len(list(encode.parameters()))
        (torch.Size([1024, 64]), 0)
    """

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        kind: str = "powers",
        resolution: Resolution = 224.0,
        scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        cycles = fourier_cycles(dim, axes, kind, resolution, scale, seed)  # (n, d/2)
        self.dim, self.axes, self.kind = int(dim), int(axes), kind
        self.resolution = tuple(np.broadcast_to(resolution, axes).astype(float).tolist())
        self.scale, self.seed = float(scale), int(seed)
        if kind == "learned":
            self.cycles = nn.Parameter(torch.tensor(cycles, dtype=torch.float32))  # (n, d/2)
        else:
            self.cycles = tuple(map(tuple, cycles.tolist()))

    def forward(self, x: Tensor, positions: Tensor | None = None, table: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the features at `positions` (t, n), (1, t, n) or (b, t, n).

        Where there is one axis, they are (t,), (1, t) or (b, t), 0 .. t-1 by default; with several there is no default.
        `table`, from `table(positions)`, replaces `positions` where one table serves several calls.
        """
        self._check(x, positions, table)
        if table is None:
            if positions is None:
                positions = torch.arange(x.shape[-2], device=x.device)  # (t,)
            table = self.table(positions)
        return x + table.to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the float64 features (..., t, d) of `positions` (..., t, n); (..., t) where there is one axis."""
        _check_places(positions)
        where = positions.device if positions.device.type != "mps" else torch.device("cpu")  # mps has no float64
        if self.axes > 1 and (positions.ndim < 2 or positions.shape[-1] != self.axes):
            raise ValueError(
                f"fourier: positions must be (..., t, {self.axes}), got {tuple(positions.shape)}; {COORDINATES}"
            )
        positions = positions.to(where, torch.float64)
        if self.axes == 1:
            positions = positions[..., None]  # (..., t, 1)
        if isinstance(self.cycles, Tensor):
            cycles = self.cycles.to(where, torch.float64)  # (n, d/2)
        else:
            cycles = torch.tensor(self.cycles, dtype=torch.float64, device=where)  # (n, d/2)
        turns = positions[..., None] * cycles  # (..., t, n, d/2)
        angle = 2 * torch.pi * (turns - turns.detach().round()).sum(dim=-2)  # (..., t, d/2)
        return torch.cat([angle.sin(), angle.cos()], dim=-1)  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None, table: Tensor | None) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.ndim < 2 or x.shape[-1] != self.dim:
            raise ValueError(
                f"fourier: x must be floating point (b, t, {self.dim}), got {_kind(x)}; embed it to this width first"
            )
        t, n, one = x.shape[-2], (self.axes,) * (self.axes > 1), (1,) * (x.ndim - 2)  # a row for all sequences
        if positions is not None:
            _check_places(positions)
        required = positions is not None or (self.axes > 1 and table is None)
        shape = None if positions is None else tuple(positions.shape)
        if required and shape not in ((t, *n), (*one, t, *n), (*x.shape[:-1], *n)):
            wanted = f"(t, {n[0]}), (1, t, {n[0]}) or (b, t, {n[0]})" if n else "(t,), (1, t) or (b, t)"
            raise ValueError(
                f"fourier: positions must be {wanted} for x (b, t, d) of {tuple(x.shape)}, got {shape}; "
                f"{COORDINATES if n else 'give each token its coordinate'}"
            )
        if table is not None and getattr(table, "shape", None) not in (x.shape[-2:], (*one, *x.shape[-2:]), x.shape):
            raise ValueError(
                f"fourier: table must be (t, d), (1, t, d) or (b, t, d) for x (b, t, d) of {tuple(x.shape)}, "
                f"got {_kind(table)}; make it with table(positions)"
            )

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        made = f"resolution={self.resolution}, scale={self.scale:g}, seed={self.seed}"
        return f"dim={self.dim}, axes={self.axes}, kind={self.kind!r}, {made}"


def _check_settings(dim: int, axes: int, kind: str, resolution: Resolution, scale: float, seed: int) -> None:
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"fourier: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    for name, value, least in (("axes", axes, 1), ("seed", seed, 0), ("dim", dim, 2)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"fourier: {name} must be an integer of at least {least}, got {value!r}")
    step = 2 * axes if kind in ("powers", "bands") else 2
    if dim % step:
        raise ValueError(
            f"fourier: dim must be a multiple of {step} for {axes} axes, got {dim}; a sine and a cosine each"
        )
    if kind == "powers" and dim > 2000 * axes:
        raise ValueError(
            f"fourier: dim must be at most {2000 * axes} for {axes} axes of powers, got {dim}; each feature doubles "
            "the frequency of the last: take bands"
        )
    if np.ndim(_numbers("scale", scale)) or scale <= 0:
        raise ValueError(f"fourier: scale must be positive and finite, got {scale!r}; one number for all axes")
    resolutions = _numbers("resolution", resolution)
    if resolutions.shape not in ((), (axes,)) or (resolutions <= 0).any():
        raise ValueError(
            f"fourier: resolution must be positive and finite, got {resolution!r}; one number, or one for each axis"
        )


def _kind(value: object) -> str:
    size = f"of length {len(value)}" if isinstance(value, list | tuple) else tuple(getattr(value, "shape", ()))
    return f"{'numpy array ' * isinstance(value, np.ndarray)}{getattr(value, 'dtype', type(value).__name__)} {size}"


def _check_places(positions: Tensor) -> None:
    if not isinstance(positions, Tensor) or positions.dtype == torch.bool or positions.is_complex():
        raise ValueError(
            f"fourier: positions must be a tensor of integers or floats, got {_kind(positions)}; "
            "torch.as_tensor makes one of a list or an array"
        )


def _numbers(name: str, value: object) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (RuntimeError, TypeError, ValueError):  # ragged, or a tensor that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        unread = isinstance(value, Tensor) and array.dtype == object
        remedy = f"; NumPy reads {name}.detach().cpu().double()" if unread else ""
        raise ValueError(f"fourier: {name} must be finite numbers, got {value!r}{remedy}")
    return array.astype(np.float64)
