"""Axial RoPE: rotate pairs of channels by several coordinates, such as a patch's row and column.

Paper: Heo et al., 2024, "Rotary Position Embedding for Vision Transformer",
       https://arxiv.org/abs/2403.13298, sec. 3.
Used:  EVA-02, DINOv3, Pixtral, SAM 2, RoPE-ViT, vision towers of Qwen2-VL to Qwen3-VL and Gemma 4
Cost:  nothing to learn, or d numbers a head (mixed); one table, one pass over queries and keys

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, n axes, c sets of theta

    y_first  = x_first cos(angle_i) - x_second sin(angle_i),    angle_i = sum_a p_a theta[a, i]
    y_second = x_second cos(angle_i) + x_first sin(angle_i),    i = 0 .. d/2-1

so norms stay, and logits depend on differences of coordinates alone. By default each axis has m =
d/2n pairs to itself, of theta base^(-k/m). A pair is (i, i + d/2) in layout "half", two neighbors
in "interleaved", and in "blocks" half a block apart, one block of d/n channels an axis. Models
differ in theta, layout and coordinates: see `axial_convention`. A class token at 0 is not rotated.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def axial(
    x: ArrayLike,
    positions: ArrayLike,
    base: float = 10_000.0,
    layout: str = "half",
    theta: ArrayLike | None = None,
) -> np.ndarray:
    """Return `x` (..., h, t, d) in float64, rotated by `positions` (t, n).

    `theta` (n, d/2), or (c, n, d/2) for h/c heads each, replaces those of `base`.

    Raises:
        ValueError: If d is no multiple of 2n, or `theta` not (n, d/2) or (c, n, d/2).
        ValueError: If `base` is not positive and finite, or `layout` unknown.
    """
    x = np.asarray(x, np.float64)
    t, d = x.shape[-2:]
    _, n = np.shape(positions)
    theta = _frequencies(d, n, base, theta)  # (c, n, d/2)
    blocks = _blocks(d, n, layout)
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
    """Rotate queries and keys by their coordinates. Angles are float64, rounded once.

    Args:
        dim: Width d of a head.
        axes: Coordinates n of a position: 2, or 3 for video.
        base: Sets the longest wavelength, as in RoPE.
        layout: Which channels are pairs: "half", "interleaved" or "blocks".
        theta: Frequencies (n, d/2) in place of those of `base`, of any axis in any pair.
        heads: How many sets of theta c to learn, as RoPE-ViT's mixed: the key/value heads g, or
            a divisor of g. Each starts as theta rotated by a random angle, on two axes.

    Raises:
        ValueError: If `dim` is no multiple of twice the axes, or `theta` not (n, d/2).
        ValueError: If `base` is not positive and finite, or `layout` unknown.
        ValueError: In a call, if `positions` are missing, or a shape or dtype does not fit.

    Examples:
        >>> q, k = torch.randn(1, 8, 4, 64), torch.randn(1, 2, 4, 64)
        >>> rotated_q, rotated_k = Axial(64)(q, k, torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]))
    """

    def __init__(
        self,
        dim: int,
        axes: int = 2,
        base: float = 10_000.0,
        layout: str = "half",
        theta: ArrayLike | None = None,
        heads: int | None = None,
    ):
        super().__init__()
        start = _frequencies(dim, axes, base, theta)  # (c, n, d/2)
        self.blocks = _blocks(dim, axes, layout)
        self.dim = dim
        self.axes = axes
        # numbers, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = start.tolist()
        if heads is not None:
            self.theta = nn.Parameter(_rotated_at_random(start, heads))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated by positions (t, n) or (b, t, n).

        `positions` have no default, which would be a diagonal; with t = s, `key_positions` default
        to `positions`.
        """
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)

    def table(
        self, positions: Tensor | None, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (..., c, t, d/2) for every layer, in float32 or finer."""
        if positions is None or positions.shape[1:][-1:] != (self.axes,):
            got = None if positions is None else tuple(positions.shape)
            raise ValueError(
                f"axial: positions or key_positions must have shape (t, {self.axes}) "
                f"or (b, t, {self.axes}), got {got}; of patches, grid_positions(height, width)"
            )
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.as_tensor(self.theta, dtype=torch.float64, device=device)  # (c, n, d/2)
        # an axis of sets, over which positions are the same
        p = positions.to(device, torch.float64).unsqueeze(-3)  # (..., 1, t, n)
        angle = p @ theta  # (..., c, t, d/2)
        dtype = torch.promote_types(dtype, torch.float32)
        return angle.cos().to(positions.device, dtype), angle.sin().to(positions.device, dtype)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its coordinates in a `table`."""
        cos, sin = table
        self._check(x, cos)
        sets = cos.shape[-3]
        if sets > 1:
            # heads of a set lie together
            cos = cos.repeat_interleave(x.shape[1] // sets, dim=-3)  # (..., h, t, d/2)
            sin = sin.repeat_interleave(x.shape[1] // sets, dim=-3)  # (..., h, t, d/2)
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        first, second = wide.unflatten(-1, (self.blocks, 2, -1)).unbind(-2)
        cos = cos.unflatten(-1, (self.blocks, -1))
        sin = sin.unflatten(-1, (self.blocks, -1))
        rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-2)
        return rotated.flatten(-3).to(x.dtype)  # (b, h, t, d)

    def _check(self, x: Tensor, cos: Tensor) -> None:
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"axial: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"axial: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )


def _frequencies(dim: int, axes: int, base: float, theta: ArrayLike | None) -> np.ndarray:
    """Return theta (c, n, d/2): each pair's angle for a step along each axis, a set a group."""
    if not 0 < base < float("inf"):
        raise ValueError(f"axial: base must be positive and finite, got {base}")
    if dim < 2:
        raise ValueError(f"axial: dim must be 2 or more, got {dim}")
    if theta is None:
        pairs = dim // axes // 2
        if pairs < 1 or dim != 2 * pairs * axes:
            raise ValueError(f"axial: dim must be a multiple of {2 * axes}, got {dim}")
        theta = np.kron(np.eye(axes), base ** (-np.arange(pairs) / pairs))
    theta = np.asarray(theta, np.float64)
    shape = (axes, dim // 2)
    if theta.shape[-2:] != shape:
        raise ValueError(f"axial: theta for this dim must have shape {shape}, got {theta.shape}")
    return theta.reshape(-1, *shape)


def _rotated_at_random(theta: np.ndarray, heads: int) -> Tensor:
    """Return a set of theta (c, 2, d/2) a head, its two axes rotated by an angle of its own."""
    y, x = torch.tensor(theta).unbind(dim=1)
    angle = 2 * np.pi * torch.rand(heads, 1, dtype=torch.float64)
    cos = angle.cos()
    sin = angle.sin()
    return torch.stack([y * cos + x * sin, x * cos - y * sin], dim=1).float()


def _blocks(dim: int, axes: int, layout: str) -> int:
    """Return of how many blocks a head is, in each of which pairs are half a block apart."""
    blocks = {"half": 1, "interleaved": dim // 2, "blocks": axes}
    if not isinstance(layout, str) or layout not in blocks:
        names = "'half', 'interleaved' or 'blocks'"
        raise ValueError(f"axial: layout must be {names}, got {layout!r}")
    return blocks[layout]
