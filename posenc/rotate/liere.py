"""LieRE: rotate queries and keys by a learned matrix, the exponential of a generator for each axis.

Paper: Ostmeier et al., 2024, "LieRE: Lie Rotational Positional Encodings",
       https://arxiv.org/abs/2406.10322, the section that defines LieRE.
Used:  the authors' vision transformers for images and videos
Cost:  a c d (w-1)/2 numbers to learn; c exponentials (w, w) per token and block, then a product

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, a axes,
       w width of a block, n blocks, c sets of generators

    y = R(p) x in each block,    R(p) = exp(sum_a p_a A_a),    A_a = U_a - U_a^T

with U_a the part of generators[a] above its diagonal, of each set and block. R is orthogonal: it
keeps norms. A logit is q . R(m)^T R(n) k, and R(m)^T R(n) = R(n - m) only where generators commute:
on one axis, or in blocks of width 2, where this is RoPE with learned frequencies and, for some
generators, RoPE itself, axial or mixed. Elsewhere a logit depends on both absolute positions.

By default the heads share one set, as in the authors' code, whose published settings have one for
each head and layer: its generator_raw_params[:, layer], unflattened to (a, h, n, w, w), are
`generators` here. It scales positions to [0, 1] across an image of the trained size, for which the
start is made: pass positions so, or choose a smaller `init`.
"""

import contextlib
import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def liere(x: ArrayLike, positions: ArrayLike, generators: ArrayLike) -> np.ndarray:
    """Return `x` (..., h, t, d), or (t, d), in float64, rotated by `positions` (t, a).

    `generators` are (a, c, n, w, w), a set for h/c heads each, or (a, n, w, w), one for all.

    Raises:
        ValueError: If `positions` are not (t, a).
    """
    x = np.asarray(x, np.float64)
    p = np.asarray(positions, np.float64)
    raw = np.asarray(generators, np.float64)
    raw = raw.reshape(len(raw), -1, *raw.shape[-3:])  # (a, c, n, w, w)
    axes, sets, blocks, width, _ = raw.shape
    t = x.shape[-2]
    # of (t, d) there is one head
    h = math.prod(x.shape[-3:-2])
    if p.shape != (t, axes):
        raise ValueError(f"liere: positions must have shape ({t}, {axes}), got {p.shape}")

    upper = np.triu(raw, 1)
    algebra = np.einsum("ta,acnij->ctnij", p, upper - upper.swapaxes(-2, -1))  # (c, t, n, w, w)
    # i A is Hermitian, so exp(A) = V exp(-i angles) V^H
    angles, basis = np.linalg.eigh(1j * algebra)
    rotated_basis = basis * np.exp(-1j * angles)[..., None, :]
    rotation = np.real(rotated_basis @ basis.conj().swapaxes(-2, -1))  # (c, t, n, w, w)
    split = x.reshape(*x.shape[:-3], sets, h // sets, t, blocks, width)  # (..., c, h/c, t, n, w)
    return np.einsum("ctnij,...chtnj->...chtni", rotation, split).reshape(x.shape)


class LieRE(nn.Module):
    """Rotate queries and keys by learned rotations of their coordinates.

    Exponentials are taken in float64 and err by about 2e-16 times the angle.

    Args:
        dim: Width d of a head.
        axes: Coordinates a of a position, 2 in an image.
        block: Width w of the blocks that rotate apart, a divisor of `dim`; by default all of it.
        init: `generators` (a, c, n, w, w) start uniform in [0, init); the authors' 2 pi is for
            positions within [0, 1].
        heads: Sets of generators c: 1 for all heads, or the key/value heads g, or a divisor of g.

    Raises:
        ValueError: If `block` is below 2, or no divisor of `dim`.
        ValueError: In a call, if `positions` are missing, or a shape or dtype does not fit.

    Examples:
        >>> q, k = torch.randn(1, 8, 4, 64), torch.randn(1, 2, 4, 64)
        >>> grid = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]) / 2
        >>> rotated_q, rotated_k = LieRE(64)(q, k, grid)
    """

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        block: int | None = None,
        init: float = 2 * math.pi,
        heads: int = 1,
    ):
        super().__init__()
        if block is None:
            block = dim
        if block not in range(2, dim + 1) or dim % block:
            raise ValueError(f"liere: dim must be a multiple of block, got {dim} and {block}")
        self.dim = dim
        self.axes = axes
        self.block = block
        self.heads = heads
        # float32 whatever the default dtype: with coarser generators angles of far tokens are wrong
        start = torch.empty(axes, heads, dim // block, block, block, dtype=torch.float32)
        self.generators = nn.Parameter(nn.init.uniform_(start, 0, init))  # (a, c, n, w, w)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated by positions (t, a) or (b, t, a).

        `positions` have no default, which would be a diagonal; with t = s, `key_positions` default
        to `positions`.
        """
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)

    def table(self, positions: Tensor | None, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the rotations (..., c, t, n, w, w) for every call, in float32 or finer."""
        if positions is None or positions.shape[1:][-1:] != (self.axes,):
            got = None if positions is None else tuple(positions.shape)
            raise ValueError(
                f"liere: positions or key_positions must have shape (t, {self.axes}) "
                f"or (b, t, {self.axes}), got {got}; of patches, grid_positions(height, width)"
            )
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        upper = self.generators.to(device, torch.float64).triu(1)  # (a, c, n, w, w)
        p = positions.to(device, torch.float64)  # (..., t, a)
        algebra = torch.einsum("...ta,acnij->...ctnij", p, upper - upper.mT)
        rotation = torch.matrix_exp(algebra.contiguous())  # (..., c, t, n, w, w)
        return rotation.to(positions.device, torch.promote_types(dtype, torch.float32))

    def turn(self, x: Tensor, table: Tensor) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its matrix in a `table`."""
        self._check(x, table)
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, table.dtype))  # (b, h, t, d)
        split = wide.unflatten(1, (self.heads, -1)).unflatten(-1, (-1, self.block))
        # autocast would round these products; it does not know "meta"
        autocast = contextlib.nullcontext()
        if x.device.type != "meta":
            autocast = torch.autocast(x.device.type, enabled=False)
        with autocast:
            rotated = torch.einsum("...ctnij,...chtnj->...chtni", table.to(wide.dtype), split)
        return rotated.flatten(-2).flatten(1, 2).to(x.dtype)  # (b, h, t, d)

    def _check(self, x: Tensor, table: Tensor) -> None:
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"liere: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*table.shape[:-5], table.shape[-4])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"liere: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )
