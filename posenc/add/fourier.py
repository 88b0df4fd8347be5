"""Fourier features: add to each embedding sines and cosines of its continuous coordinates.

Paper: Tancik et al., 2020, "Fourier Features Let Networks Learn High Frequency Functions in Low
       Dimensional Domains", https://arxiv.org/abs/2006.10739, sec. 4.
Used:  NeRF (powers of two), SAM's prompt encoder (Gaussian), Perceiver (linear bands), timm's
       Fourier embeddings
Cost:  nothing to learn, or n d/2 parameters where learned; one table (t, d) a call

Key:   b batch, t length, d width, n axes, f frequencies of an axis

    cycles[a, i]    periods of feature i while coordinate a grows by 1
    angle[m, i]   = 2 pi sum_a m_a cycles[a, i],  i = 0 .. d/2-1
    PE[m]         = [sin angle | cos angle]

    "powers"    1/2, 1, 2, 4 ..., each axis by itself: sin(2^k pi m), as in NeRF (2003.08934, eq. 4)
    "bands"     from 1/2 to resolution / 4 in equal steps, each axis by itself, as in Perceiver
                (2103.03206)
    "gaussian"  N(0, scale^2), drawn once from `seed`: every feature mixes all axes
    "learned"   the same as a start, then trained (Li et al., 2106.02795, who put an MLP behind)

so the dot product of two encodings depends on the offset only. Coordinates are meant to lie in [-1,
1] or [0, 1]. Cycles are powers of two or float32 numbers, so that times an integer they are exact
in float64. NeRF's published code leaves pi out and alternates sines and cosines frequency by
frequency; both it and Perceiver append the coordinates as well. SAM's matrix is a checkpoint's
`cycles`: load it where kind is "learned".
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

KINDS = ("powers", "bands", "gaussian", "learned")
REMEDY = 'a row a token, such as axial_coordinates((height, width), "eva-pixel"), in [-1, 1]'

Array = TypeVar("Array", np.ndarray, Tensor)


def fourier(
    positions: ArrayLike,
    dim: int,
    axes: int = 1,
    kind: str = "powers",
    resolution: float | Sequence[float] = 224.0,
    scale: float = 1.0,
    seed: int = 0,
    cycles: ArrayLike | None = None,
) -> np.ndarray:
    """Return the table (..., t, d) in float64 for `positions` (..., t), on n > 1 axes (..., t, n).

    `cycles` (n, d/2) replaces those of `kind`; for "learned" it is the trained parameter.

    Raises:
        ValueError: If `kind` is unknown, or `dim` no multiple of 2, for "powers" and "bands" of 2n.
        ValueError: If `positions` on several axes are not (..., t, n).
    """
    start = fourier_cycles(dim, axes, kind, resolution, scale, seed)  # (n, d/2)
    cycles = start if cycles is None else np.broadcast_to(cycles, start.shape)  # (n, d/2)
    coordinates = _coordinates(np.asarray(positions, np.float64), axes)  # (..., t, n)
    periods = coordinates[..., None] * cycles  # (..., t, n, d/2)
    # whole periods change nothing, and would cost digits of the sum
    periods = (periods % 1).sum(axis=-2)  # (..., t, d/2)
    angle = 2 * np.pi * periods
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)  # (..., t, d)


class Fourier(nn.Module):
    """Add Fourier features of continuous coordinates to embeddings. Angles are float64.

    Args:
        dim: Width d of the embeddings; a multiple of 2n for "powers" and "bands", else even.
        axes: Coordinates n of a position.
        kind: "powers" of two, linear "bands", "gaussian" or "learned" (see the module).
        resolution: For "bands", one number or one an axis: the highest frequency is resolution / 4
            periods a unit, which samples 2 / resolution apart resolve. Perceiver's max_resolution.
        scale: For "gaussian" and "learned": the spread of the cycles; larger fits finer detail, and
            noise.
        seed: For "gaussian" and "learned": what NumPy's default generator draws the cycles from.

    Raises:
        ValueError: If `kind` is unknown, or `dim` no multiple of 2, for "powers" and "bands" of 2n.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> encode, x = Fourier(dim=64, axes=2, kind="gaussian", scale=10.0), torch.randn(1, 5, 64)
        >>> encoded = encode(x, torch.rand(5, 2))
        >>> table = encode.table(torch.rand(5, 2))  # to concatenate instead
    """

    def __init__(
        self,
        dim: int,
        axes: int = 1,
        kind: str = "powers",
        resolution: float | Sequence[float] = 224.0,
        scale: float = 1.0,
        seed: int = 0,
    ):
        super().__init__()
        cycles = fourier_cycles(dim, axes, kind, resolution, scale, seed)  # (n, d/2)
        self.dim = dim
        self.axes = axes
        if kind == "learned":
            self.cycles = nn.Parameter(torch.tensor(cycles, dtype=torch.float32))
        else:
            # lists, not a buffer: model.to(torch.bfloat16) would round it
            self.cycles = cycles.tolist()

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Return `x` (b, t, d) plus the table of its `positions` (t, n) or (b, t, n).

        On one axis they are (t,) or (b, t), and with t > 1 default to 0 .. t-1; a lone token, as in
        decoding, must be given its own. Several axes have no default.
        """
        self._check(x, positions)
        if positions is None:
            positions = torch.arange(x.shape[-2], device=x.device)
        return x + self.table(positions).to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the table (..., t, d) in float64 for `positions` (..., t, n), or (..., t)."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        cycles = torch.as_tensor(self.cycles, dtype=torch.float64, device=device)  # (n, d/2)
        coordinates = _coordinates(positions.to(device, torch.float64), self.axes)  # (..., t, n)
        periods = coordinates[..., None] * cycles  # (..., t, n, d/2)
        # whole periods change nothing, and would cost digits of the sum
        periods = (periods % 1).sum(dim=-2)  # (..., t, d/2)
        angle = 2 * torch.pi * periods
        return torch.cat([angle.sin(), angle.cos()], dim=-1)  # (..., t, d)

    def _check(self, x: Tensor, positions: Tensor | None) -> None:
        *batch, t, dim = x.shape
        if dim != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"fourier: x must have shape (b, t, {self.dim}) and a float dtype, got {got}"
            )
        if positions is None:
            self._check_default(t)
            return
        # one position would broadcast over all tokens without an error
        shape = tuple(_coordinates(positions, self.axes).shape[:-1])
        misfit = shape != (t,) and shape != (1, t) and shape != (*batch, t)
        if misfit or len(shape) >= x.ndim:
            fitting = f"({t},) or {(*batch, t)}"
            raise ValueError(f"fourier: positions must be of {fitting} tokens, got {shape}")

    def _check_default(self, t: int) -> None:
        # the coordinates of token i of an image are not (i, i)
        if self.axes > 1:
            raise ValueError(
                f"fourier: positions must have shape ({t}, {self.axes}), got None; {REMEDY}"
            )
        # a lone token is a new one behind a cache, and its position is not 0
        if t == 1:
            raise ValueError(
                "fourier: positions must be given for a lone token, got None; "
                "torch.tensor([s]) behind a cache of s tokens"
            )


def fourier_cycles(
    dim: int,
    axes: int = 1,
    kind: str = "powers",
    resolution: float | Sequence[float] = 224.0,
    scale: float = 1.0,
    seed: int = 0,
) -> np.ndarray:
    """Return the cycles (n, d/2) per unit of each axis: what every kind starts from.

    Examples:
        >>> fourier_cycles(dim=8, axes=2).tolist()  # each axis has features of its own
        [[0.5, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 1.0]]
    """
    if kind not in KINDS:
        raise ValueError(f"fourier: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    step = 2 * axes if kind in ("powers", "bands") else 2
    if dim < step or dim % step:
        raise ValueError(f"fourier: dim must be a multiple of {step}, got {dim}, for {axes} axes")
    if kind in ("gaussian", "learned"):
        cycles = np.random.default_rng(seed).normal(0, scale, (axes, dim // 2))  # (n, d/2)
        # float32 numbers, whose products with whole numbers are exact in float64
        return cycles.astype(np.float32).astype(np.float64)
    if kind == "powers":
        of_axis = 2.0 ** np.arange(dim // step) / 2  # (f,)
    else:
        of_axis = np.linspace(1 / 2, np.divide(resolution, 4), dim // step).astype(np.float32).T
    # a feature depends on its own axis alone
    cycles = np.eye(axes)[..., None] * of_axis  # (n, n, f)
    return cycles.reshape(axes, -1)  # (n, d/2)


def _coordinates(positions: Array, axes: int) -> Array:
    """Return positions with an axis of coordinates, which those on one axis lack."""
    if axes == 1:
        return positions[..., None]  # (..., t, 1)
    # else the coordinates of token i would be (i, i)
    if positions.ndim < 2 or positions.shape[-1] != axes:
        got = tuple(positions.shape)
        raise ValueError(
            f"fourier: positions must have shape (..., t, {axes}), got {got}; {REMEDY}"
        )
    return positions  # (..., t, n)
