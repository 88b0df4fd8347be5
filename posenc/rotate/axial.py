"""Axial RoPE: turn pairs of channels by two or more coordinates, such as row and column of a patch.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer",
       https://arxiv.org/abs/2403.13298, sec. 3.
Used:  EVA-02, DINOv3, Pixtral, SAM 2, RoPE-ViT, vision towers of Qwen2-VL to Qwen3-VL and Gemma 4
Cost:  nothing to learn, or d numbers a head (mixed); one table, one pass over queries and keys

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, n axes, c sets of theta

    y_first  = x_first cos(angle_i) - x_second sin(angle_i),    angle_i = sum_a p_a theta[a, i]
    y_second = x_second cos(angle_i) + x_first sin(angle_i),    i = 0 .. d/2-1

so norms stay, and scores see differences of coordinates alone. By default each axis has m = d/2n
pairs to itself, of theta base^(-k/m). A pair is (i, i + d/2) in layout "half", two neighbors in
"interleaved", and in "blocks" half a block apart, one block of d/n channels an axis. Models differ
in theta, layout and coordinates: see `axial_convention`. A class token at 0 does not turn.
"""

import numpy as np
import torch
from torch import Tensor, nn


def axial(x, positions, base=10_000.0, layout="half", theta=None) -> np.ndarray:
    """Return `x` (..., h, t, d) in float64, turned to `positions` (t, n).

    `theta` (n, d/2), or (c, n, d/2) for h/c heads each, replaces those of `base`.
    """
    x = np.asarray(x, np.float64)
    t, d = x.shape[-2:]
    _, n = np.shape(positions)
    theta, blocks = _settings(d, n, base, layout, theta)
    angle = np.asarray(positions).reshape(t, n) @ theta  # (c, t, d/2)
    if len(theta) > 1:
        angle = angle.repeat(x.shape[-3] // len(theta), axis=0)  # (h, t, d/2)
    cos = np.cos(angle)
    sin = np.sin(angle)

    channel = np.arange(d).reshape(blocks, 2, -1)
    first, second = channel.swapaxes(0, 1).reshape(2, -1)
    y = np.empty_like(x)  # (..., t, d)
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


class Axial(nn.Module):
    """Turn queries and keys by their coordinates. Angles are float64, rounded once.

    Args:
        dim: Width d of a head.
        axes: Coordinates n of a position: 2, or 3 for video.
        base: Sets the slowest wavelength, as in RoPE.
        layout: Which channels are pairs: "half", "interleaved" or "blocks".
        theta: Frequencies (n, d/2) in place of those of `base`, of any axis in any pair.
        heads: How many sets of theta c to learn, as RoPE-ViT's mixed: the key heads g, or a
            divisor of g. Each starts as theta turned by a random angle, on two axes.

    Examples:
        >>> q, k = torch.randn(1, 8, 4, 64), torch.randn(1, 2, 4, 64)
        >>> turned_q, turned_k = Axial(64)(q, k, torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
    """

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        base: float = 10_000.0,
        layout: str = "half",
        theta=None,
        heads: int | None = None,
    ):
        super().__init__()
        start, self.blocks = _settings(dim, axes, base, layout, theta)
        self.dim, self.axes = dim, axes
        self.theta = start.tolist()  # no buffer: model.to(torch.bfloat16) would round it
        if heads is not None:
            y, x = torch.tensor(start).unbind(dim=1)
            turn = 2 * np.pi * torch.rand(heads, 1, dtype=torch.float64)
            cos = turn.cos()
            sin = turn.sin()
            turned = torch.stack([y * cos + x * sin, x * cos - y * sin], dim=1)
            self.theta = nn.Parameter(turned.float())  # (c, n, d/2)

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t, n) or (b, t, n).

        They have no default, which would be a diagonal; as many keys stand where queries do.
        `table(key_positions)` replaces both, and queries take its last t rows.
        """
        t, s = q.shape[2], k.shape[2]
        dtype = torch.promote_types(q.dtype, torch.float32)
        if table is None:
            key_positions = positions if key_positions is None and t == s else key_positions
            table = self.table(key_positions, dtype)
        of_q = table[..., s - t :, :]
        if positions is not key_positions:
            of_q = self.table(positions, dtype)
        return self.turn(q, table=of_q), self.turn(k, table=table)

    def turn(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions`, or by a `table` of them."""
        b, h, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(f"axial: dim of float q or k must be {self.dim}, got {got}")
        if table is None:
            table = self.table(positions, torch.promote_types(x.dtype, torch.float32))
        rows = *table.shape[:-3], table.shape[-2]
        if rows != (t,) and rows != (1, t) and rows != (b, t):
            raise ValueError(f"axial: positions or table must be ({t},) or ({b}, {t}), got {rows}")

        sets = table.shape[-3]
        if sets > 1:
            table = table.repeat_interleave(h // sets, dim=-3)
        cos, sin = table.chunk(2, dim=-1)  # (..., t, d), (..., t, d)
        y = x.to(torch.promote_types(x.dtype, table.dtype))  # (b, h, t, d)
        pairs = y.unflatten(-1, (self.blocks, 2, -1))
        swapped = pairs.flip(-2).flatten(-3)  # (b, h, t, d)
        return torch.addcmul(y * cos, swapped, sin).to(x.dtype)  # (b, h, t, d)

    def table(self, positions, dtype=torch.float32) -> Tensor:
        """Return what a call needs of positions: made once, it serves every layer."""
        if positions is None or positions.shape[1:][-1:] != (self.axes,):
            got = None if positions is None else tuple(positions.shape)
            raise ValueError(
                f"axial: positions or key_positions must be (t, {self.axes}), a row a token, "
                f"got {got}; of patches, grid_positions(height, width)"
            )
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.as_tensor(self.theta, dtype=torch.float64, device=where)  # (c, n, d/2)
        angle = positions.to(where, torch.float64).unsqueeze(-3) @ theta  # (..., c, t, d/2)
        angle = angle.unflatten(-1, (self.blocks, 1, -1))
        signed = torch.cat([-angle, angle], dim=-2).flatten(-3)  # (..., c, t, d)
        made = torch.cat([signed.cos(), signed.sin()], dim=-1)  # (..., c, t, 2*d)
        return made.to(positions.device, dtype)


def _settings(dim, axes, base, layout, theta):
    if layout not in ("half", "interleaved", "blocks"):
        wanted = "'half', 'interleaved' or 'blocks'"
        raise ValueError(f"axial: layout must be {wanted}, got {layout!r}")
    if not 0 < base < float("inf"):
        raise ValueError(f"axial: base must be positive and finite, got {base}")
    if theta is None:
        pairs = dim // axes // 2
        if pairs < 1 or dim != 2 * pairs * axes:
            raise ValueError(f"axial: dim must be a multiple of {2 * axes}, got {dim}")
        theta = np.kron(np.eye(axes), base ** (-np.arange(pairs) / pairs))
    theta = np.asarray(theta, np.float64)
    wanted = axes, dim // 2
    if theta.shape[-2:] != wanted:
        raise ValueError(f"axial: theta or dim must be {wanted}, got {theta.shape} for dim {dim}")
    blocks = {"half": 1, "interleaved": dim // 2, "blocks": axes}[layout]
    return theta.reshape(-1, *wanted), blocks
