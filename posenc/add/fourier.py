"""Fourier features: add to each embedding sines and cosines of its continuous coordinates.

Paper: Tancik et al., 2020, "Fourier Features Let Networks Learn High Frequency Functions in Low
       Dimensional Domains", https://arxiv.org/abs/2006.10739, sec. 4.
Used:  NeRF (powers of two), SAM's prompt encoder (Gaussian), Perceiver (linear bands), timm's
       Fourier embeddings
Cost:  nothing to learn, or n d/2 parameters where learned; one table (t, d) a call

Key:   b batch, t length, d width, n axes, f frequencies of an axis

    cycles[a, i]    how often feature i turns while coordinate a grows by 1
    angle[m, i]   = 2 pi sum_a m_a cycles[a, i],  i = 0 .. d/2-1
    PE[m]         = [sin angle | cos angle]

    "powers"    1/2, 1, 2, 4 ..., each axis by itself: sin(2^k pi m), as in NeRF (2003.08934, eq. 4)
    "bands"     from 1/2 to resolution / 4 in equal steps, each axis by itself, as in Perceiver
                (2103.03206)
    "gaussian"  N(0, scale^2), drawn once from `seed`: every feature mixes all axes
    "learned"   the same as a start, then trained (Li et al., 2106.02795, who put an MLP behind)

so the dot product of two codes depends on the offset only. Coordinates are meant to lie in [-1, 1]
or [0, 1]. Cycles are powers of two or float32 numbers, so that times an integer they are exact in
float64. NeRF's published code leaves pi out and alternates sines and cosines frequency by
frequency; both it and Perceiver append the coordinates as well. SAM's matrix is a checkpoint's
`cycles`: load it where kind is "learned".
"""

import numpy as np
import torch
from torch import Tensor, nn

KINDS = ("powers", "bands", "gaussian", "learned")


def fourier(
    positions, dim, axes=1, kind="powers", resolution=224.0, scale=1.0, seed=0, cycles=None
) -> np.ndarray:
    """Return the table (..., t, d) in float64 for `positions` (..., t), on n > 1 axes (..., t, n).

    `cycles` (n, d/2) replaces those of `kind`; for "learned" it is the trained parameter.
    """
    made = fourier_cycles(dim, axes, kind, resolution, scale, seed)  # (n, d/2)
    cycles = made if cycles is None else np.broadcast_to(cycles, made.shape)  # (n, d/2)
    positions = _coordinates(np.asarray(positions, np.float64), axes)  # (..., t, n)
    turns = positions[..., None] * cycles  # (..., t, n, d/2)
    turns = (turns % 1).sum(axis=-2)  # (..., t, d/2), less whole ones, which would cost digits
    angle = 2 * np.pi * turns
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)  # (..., t, d)


class Fourier(nn.Module):
    """Add Fourier features of continuous coordinates to embeddings. Angles are float64.

    Args:
        dim: Width d of the embeddings; a multiple of 2n for "powers" and "bands", else even.
        axes: Coordinates n of a position.
        kind: "powers" of two, linear "bands", "gaussian" or "learned" (see the module).
        resolution: For "bands", one number or one an axis: the fastest turns resolution / 4 times
            a unit, which samples 2 / resolution apart show. Perceiver's max_resolution.
        scale: For "gaussian" and "learned": the spread of the cycles; larger fits finer detail, and
            noise.
        seed: For "gaussian" and "learned": what NumPy's default generator draws the cycles from.

    Examples:
        >>> encode, x = Fourier(dim=64, axes=2, kind="gaussian", scale=10.0), torch.randn(1, 5, 64)
        >>> encoded = encode(x, torch.rand(5, 2))
        >>> table = encode.table(torch.rand(5, 2))  # to concatenate instead
    """

    def __init__(self, dim: int, axes=1, kind="powers", resolution=224.0, scale=1.0, seed: int = 0):
        super().__init__()
        cycles = fourier_cycles(dim, axes, kind, resolution, scale, seed)  # (n, d/2)
        self.dim, self.axes = dim, axes
        if kind == "learned":
            self.cycles = nn.Parameter(torch.tensor(cycles, dtype=torch.float32))
        else:
            self.cycles = cycles.tolist()  # a buffer would be cast to bfloat16

    def forward(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, t, d) plus a table, by default that of `positions` (t, n) or (b, t, n).

        On one axis they are (t,) or (b, t), by default 0 .. t-1; with several there is no default.
        """
        shape = tuple(x.shape)
        if shape[-1] != self.dim or not x.is_floating_point():
            raise ValueError(f"fourier: x must be floats (b, t, {self.dim}), got {x.dtype} {shape}")
        if table is None:
            if positions is None:
                positions = torch.arange(shape[-2], device=x.device)
            table = self.table(positions)
        t, of_x = shape[-2], shape[:-1]
        rows = tuple(table.shape[:-1])
        if rows not in ((t,), (1, t), of_x) or table.ndim > x.ndim:
            raise ValueError(f"fourier: positions or table must be ({t},) or {of_x}, got {rows}")
        return x + table.to(x)  # (b, t, d)

    def table(self, positions: Tensor) -> Tensor:
        """Return the table (..., t, d) in float64 for `positions` (..., t, n), or (..., t)."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        cycles = torch.as_tensor(self.cycles, dtype=torch.float64, device=where)  # (n, d/2)
        positions = _coordinates(positions.to(where, torch.float64), self.axes)  # (..., t, n)
        turns = positions[..., None] * cycles  # (..., t, n, d/2)
        turns = (turns % 1).sum(dim=-2)  # (..., t, d/2), less whole ones, which would cost digits
        angle = 2 * torch.pi * turns
        return torch.cat([angle.sin(), angle.cos()], dim=-1)  # (..., t, d)


def fourier_cycles(dim, axes=1, kind="powers", resolution=224.0, scale=1.0, seed=0) -> np.ndarray:
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
        drawn = np.random.default_rng(seed).normal(0, scale, (axes, dim // 2))  # (n, d/2)
        return drawn.astype(np.float32).astype(np.float64)
    if kind == "powers":
        own = 2.0 ** np.arange(dim // step) / 2  # (f,)
    else:
        own = np.linspace(1 / 2, np.divide(resolution, 4), dim // step).astype(np.float32).T
    cycles = np.eye(axes)[..., None] * own  # (n, n, f)
    return cycles.reshape(axes, -1)  # (n, d/2)


def _coordinates(positions, axes):
    if axes == 1:
        return positions[..., None]  # (..., t, 1)
    if positions.ndim < 2 or positions.shape[-1] != axes:
        raise ValueError(
            f"fourier: positions must be (..., t, {axes}), got {tuple(positions.shape)}; a row "
            'a token, such as axial_coordinates((height, width), "eva-pixel"), in [-1, 1]'
        )
    return positions  # (..., t, n)
