"""M-RoPE: rotate each pair of channels by the time, the row or the column of its token.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at
       Any Resolution", https://arxiv.org/abs/2409.12191, sec. 2.1.
Used:  Qwen2-VL (chunked); Qwen3-VL (interleaved, arXiv 2511.21631); by `axes`, Ernie 4.5 VL, NeoMME
Cost:  nothing to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rotary dim, n axes

    y_first  = x_first cos(angle) - x_second sin(angle),    angle_i = p[axes_i] theta_i
    y_second = x_second cos(angle) + x_first sin(angle),    theta_i = base^(-2i/r)

with p = (time, row, column) and pairs (i, i + r/2). Text has one position on all axes, so its
rotation is RoPE's; `posenc.models.mrope` has the positions and axes of released models. Sections
(T, R, C) count the pairs of an axis. Chunked, the first T rotate by time, the next by the row, the
last, of lowest frequency, by the column. Interleaved, R pairs 1, 4, 7 .. rotate by the row, C pairs
2, 5, 8 .. by the column, as far as there are such, the others by time: (8, 12, 12) is (11, 11, 10),
as in transformers. n sections are of n axes; `axes` names that of each pair.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def mrope(
    x: ArrayLike,
    positions: ArrayLike,
    sections: Sequence[int] | None = None,
    interleaved: bool = False,
    base: float = 1_000_000.0,
    rotary_dim: int | None = None,
    theta: ArrayLike | None = None,
    attention_factor: float = 1.0,
    axes: ArrayLike | None = None,
) -> np.ndarray:
    """Return `x` (..., t, d) in float64, each row rotated by its time, row and column (t, n).

    Raises:
        ValueError: If d or `rotary_dim` is odd, or `rotary_dim` not 2 to d.
        ValueError: If `sections`, `axes` or `theta` are not of r/2 pairs.
        ValueError: If `positions` are not (t, n).
        ValueError: If `base` is not positive and finite.
    """
    x = np.asarray(x, np.float64)
    theta = _frequencies(x.shape[-1], base, rotary_dim, theta)
    theta = theta * _axes(len(theta), sections, interleaved, axes)  # (n, r/2)
    p = np.asarray(positions)
    if p.shape != (x.shape[-2], len(theta)):
        expected = (x.shape[-2], len(theta))
        raise ValueError(f"mrope: positions must have shape {expected}, got {p.shape}")
    angle = p @ theta  # (t, r/2)
    cos = attention_factor * np.cos(angle)
    sin = attention_factor * np.sin(angle)
    pairs = theta.shape[-1]
    first, second, rest = np.split(x, [pairs, 2 * pairs], axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


class MRoPE(nn.Module):
    """Rotate queries and keys by time, row and column. Angles are float64, rounded once.

    Args:
        dim: Width d of a head.
        sections: Pairs of time, row and column, by default as (16, 24, 24) or (24, 20, 20) of 64.
        interleaved: Give every third pair to the row, every third to the column.
        base: Sets the longest wavelength: 1,000,000 in Qwen2-VL, 5,000,000 in Qwen3-VL.
        rotary_dim: How many channels r rotate, the first; by default all, 64 of 256 in Qwen3.5.
        theta: Frequencies (r/2,) in place of those of `base`, such as YaRN's of Qwen2.5-VL.
        attention_factor: Multiplies cosine and sine, as YaRN does.
        axes: The axis (r/2,) that each pair follows, counted from 0, in place of sections.

    Raises:
        ValueError: If `dim` or `rotary_dim` is odd, or `rotary_dim` not 2 to `dim`.
        ValueError: If `sections`, `axes` or `theta` are not of r/2 pairs.
        ValueError: If `base` is not positive and finite.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> mrope, q, k = MRoPE(128), torch.randn(1, 8, 3, 128), torch.randn(1, 2, 3, 128)
        >>> rotated_q, rotated_k = mrope(q, k, torch.tensor([[0, 0, 0], [1, 1, 1], [1, 1, 2]]))
    """

    def __init__(
        self,
        dim: int,
        sections: Sequence[int] | None = None,
        interleaved: bool = False,
        base: float = 1_000_000.0,
        rotary_dim: int | None = None,
        theta: ArrayLike | None = None,
        attention_factor: float = 1.0,
        axes: ArrayLike | None = None,
    ):
        super().__init__()
        theta = _frequencies(dim, base, rotary_dim, theta)
        theta = theta * _axes(len(theta), sections, interleaved, axes)  # (n, r/2)
        # numbers, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = theta.tolist()
        self.dim = dim
        self.axes = len(self.theta)
        self.attention_factor = attention_factor

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), rotated by positions (t, n) or (b, t, n).

        Text may be (t,). With t = s > 1, `positions` default to 0 .. t-1, as of text; with t = s,
        `key_positions` default to `positions`.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"mrope: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn(q, table_q), self.turn(k, table_k)

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (..., 1, t, r/2) for every layer, in float32 or finer."""
        n = self.axes
        # text has equal positions on all axes
        p = positions[:, None].expand(-1, n) if positions.ndim == 1 else positions  # (..., t, n)
        if p.shape[-1] != n:
            got = f"{tuple(p.shape)}; movedim(0, -1) makes it of Qwen's ({n}, b, t)"
            raise ValueError(f"mrope: positions must have shape (t, {n}) or (b, t, {n}), got {got}")
        device = "cpu" if p.device.type == "mps" else p.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (n, r/2)
        # the same for all heads
        angle = (p.to(device, torch.float64) @ theta).unsqueeze(-3)  # (..., 1, t, r/2)
        cos = self.attention_factor * angle.cos()
        sin = self.attention_factor * angle.sin()
        dtype = torch.promote_types(dtype, torch.float32)
        return cos.to(positions.device, dtype), sin.to(positions.device, dtype)

    def turn(self, x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return `x` (b, h, t, d), each token rotated by its coordinates in a `table`."""
        cos, sin = table
        self._check(x, cos)
        pairs = cos.shape[-1]
        # products in half precision would lose digits
        wide = x.to(torch.promote_types(x.dtype, cos.dtype))
        first, second, rest = wide.split([pairs, pairs, self.dim - 2 * pairs], dim=-1)
        rotated_first = first * cos - second * sin  # (b, h, t, r/2)
        rotated_second = second * cos + first * sin  # (b, h, t, r/2)
        return torch.cat([rotated_first, rotated_second, rest], dim=-1).to(x.dtype)  # (b, h, t, d)

    def _check(self, x: Tensor, cos: Tensor) -> None:
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(
                f"mrope: q or k must have shape (b, h, t, {self.dim}) and a float dtype, got {got}"
            )
        b, _, t, _ = x.shape
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"mrope: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )


def _frequencies(
    dim: int, base: float, rotary_dim: int | None, theta: ArrayLike | None
) -> np.ndarray:
    """Return theta (r/2,), in radians a position, highest first."""
    r = dim if rotary_dim is None else rotary_dim
    if dim % 2 or r not in range(2, dim + 1, 2):
        raise ValueError(f"mrope: dim and rotary_dim must be even, 2 <= r <= d, got {dim} and {r}")
    if not 0 < base < np.inf:
        raise ValueError(f"mrope: base must be positive and finite, got {base}")
    if theta is None:
        theta = base ** (-np.arange(0, r, 2) / r)
    theta = np.asarray(theta, np.float64)
    if theta.shape != (r // 2,):
        raise ValueError(f"mrope: theta must have shape ({r // 2},), got {theta.shape}")
    return theta


def _axes(
    pairs: int, sections: Sequence[int] | None, interleaved: bool, axes: ArrayLike | None
) -> np.ndarray:
    """Return for each axis and pair (n, r/2) whether the pair follows the axis, 1 or 0."""
    if sections is None:
        # of 64 pairs, rows and columns have 24 each in Qwen2-VL, 20 in Qwen3-VL
        side = (20 if interleaved else 24) * pairs // 64
        sections = (pairs - 2 * side, side, side)
    axis = _axis_by_sections(sections, interleaved) if axes is None else np.asarray(axes)
    if len(axis) != pairs:
        raise ValueError(f"mrope: sections or axes must be {pairs} in all, got {len(axis)}")
    n = len(sections) if axes is None else 1 + int(axis.max())
    return (axis == np.arange(n)[:, None]).astype(np.float64)


def _axis_by_sections(sections: Sequence[int], interleaved: bool) -> np.ndarray:
    """Return the axis (r/2,) of each pair: a run for each section, or interleaved."""
    n = len(sections)
    if not interleaved:
        return np.repeat(np.arange(n), sections)
    pair = np.arange(sum(sections))
    axis = pair % n
    # an axis that has all its pairs leaves the next ones to time
    left = pair < n * np.take(sections, axis)
    return np.where(left, axis, 0)
