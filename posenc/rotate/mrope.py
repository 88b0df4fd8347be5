"""M-RoPE: turn some pairs of channels by the time of a token, some by its row, some by its column.

Paper: Wang et al., 2024, "Qwen2-VL: Enhancing Vision-Language Model's Perception of the World at
       Any Resolution", https://arxiv.org/abs/2409.12191, sec. 2.1.
Used:  Qwen2-VL (chunked); Qwen3-VL (interleaved, arXiv 2511.21631); by `axes`, Ernie 4.5 VL, NeoMME
Cost:  nothing to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, r rotary dim, n axes

    y_first  = x_first cos(angle) - x_second sin(angle),    angle_i = p[axes_i] theta_i
    y_second = x_second cos(angle) + x_first sin(angle),    theta_i = base^(-2i/r)

with p = (time, row, column) and pairs (i, i + r/2). Text has equal numbers and turns as by RoPE.
Sections (T, R, C) count the pairs of an axis. Chunked, the first T turn with time, the next with
the row, the last, slowest, with the column. Interleaved, R pairs 1, 4, 7 .. turn with the row, C
pairs 2, 5, 8 .. with the column, as far as there are such, the others with time: (8, 12, 12) is
(11, 11, 10), as in transformers. n sections are of n axes; `axes` names that of each pair.
"""

import numpy as np
import torch
from torch import Tensor, nn


def mrope(
    x,
    positions,
    sections=None,
    interleaved=False,
    base=1_000_000.0,
    rotary_dim=None,
    theta=None,
    attention_factor=1.0,
    axes=None,
) -> np.ndarray:
    """Return `x` (..., t, d) in float64, each row turned to its time, row and column (t, n)."""
    x = np.asarray(x, np.float64)
    p = np.asarray(positions)
    theta = _theta(x.shape[-1], sections, interleaved, base, rotary_dim, theta, axes)
    if p.shape != (x.shape[-2], len(theta)):
        raise ValueError(f"mrope: positions must be {x.shape[-2], len(theta)}, got {p.shape}")
    angle = p @ theta  # (t, r/2)
    cos = attention_factor * np.cos(angle)
    sin = attention_factor * np.sin(angle)
    first, second, rest = np.split(x, np.multiply(len(theta[0]), [1, 2]), axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


class MRoPE(nn.Module):
    """Turn queries and keys by time, row and column. Angles are float64, rounded once.

    Args:
        dim: Width d of a head.
        sections: Pairs of time, row and column, by default as (16, 24, 24) or (24, 20, 20) of 64.
        interleaved: Give every third pair to the row, every third to the column.
        base: Sets the slowest wavelength: 1,000,000 in Qwen2-VL, 5,000,000 in Qwen3-VL.
        rotary_dim: How many channels r turn, the first ones; all by default, 64 of 256 in Qwen3.5.
        theta: Frequencies (r/2,) in place of those of `base`, such as YaRN's of Qwen2.5-VL.
        attention_factor: Multiplies cosine and sine, as YaRN does.
        axes: The axis (r/2,) that each pair follows, counted from 0, in place of sections.

    Examples:
        >>> mrope, q, k = MRoPE(128), torch.randn(1, 8, 3, 128), torch.randn(1, 2, 3, 128)
        >>> turned_q, turned_k = mrope(q, k, torch.tensor([[0, 0, 0], [1, 1, 1], [1, 1, 2]]))
    """

    def __init__(
        self,
        dim: int,
        sections=None,
        interleaved: bool = False,
        base: float = 1_000_000.0,
        rotary_dim: int | None = None,
        theta=None,
        attention_factor: float = 1.0,
        axes=None,
    ):
        super().__init__()
        self.theta = _theta(dim, sections, interleaved, base, rotary_dim, theta, axes).tolist()
        self.dim, self.axes, self.attention_factor = dim, len(self.theta), attention_factor

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t, n) or (b, t, n).

        Text may be (t,). By default keys are text at 0 .. s-1, or stand where as many queries do,
        and queries where the last t keys do. `table(key_positions)` replaces both.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is key_positions is table is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"mrope: positions must be given for {t} queries, {s} keys, got {got}")
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
            if positions is not None and t == s:
                key_positions = positions
        dtype = torch.promote_types(q.dtype, torch.float32)
        of_k = self.table(key_positions, dtype) if table is None else table
        of_q = of_k[..., s - t :, :] if positions is None else self.table(positions, dtype)
        return self.turn(q, table=of_q), self.turn(k, table=of_k)

    def turn(self, x: Tensor, positions=None, table=None) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions`, or by a `table` of them."""
        if x.ndim != 4 or x.shape[-1] != self.dim or not x.is_floating_point():
            got = f"{x.dtype} {tuple(x.shape)}"
            raise ValueError(f"mrope: q or k must be floats (b, h, t, {self.dim}), got {got}")
        if table is None:
            table = self.table(positions, torch.promote_types(x.dtype, torch.float32))
        b, t, rows = x.shape[0], x.shape[2], tuple(table.shape[:-1])
        if rows != (t,) and rows != (1, t) and rows != (b, t):
            raise ValueError(f"mrope: positions or table must be ({t},) or ({b}, {t}), got {rows}")
        r = 2 * len(self.theta[0])
        y = x[..., :r].to(torch.promote_types(x.dtype, table.dtype))  # (b, h, t, r)
        cos, sin = table.unsqueeze(-3).chunk(2, dim=-1)  # (..., 1, t, r), (..., 1, t, r)
        turned = torch.addcmul(y * cos, y.roll(r // 2, dims=-1), sin).to(x)
        if r < self.dim:
            turned = torch.cat([turned, x[..., r:]], dim=-1)
        return turned  # (b, h, t, d)

    def table(self, positions, dtype=torch.float32) -> Tensor:
        """Return what a call needs of positions: made once, it serves every layer."""
        n = self.axes
        p = positions[:, None].expand(-1, n) if positions.ndim == 1 else positions  # (..., t, n)
        if p.shape[-1] != n:
            got = f"{tuple(p.shape)}; movedim(0, -1) makes it of Qwen's ({n}, b, t)"
            raise ValueError(f"mrope: positions must be (t, {n}) or (b, t, {n}), got {got}")
        where = "cpu" if p.device.type == "mps" else p.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (n, r/2)
        angle = p.to(where, torch.float64) @ theta  # (..., t, r/2)
        cos = self.attention_factor * angle.cos()
        sin = self.attention_factor * angle.sin()
        return torch.cat([cos, cos, -sin, sin], dim=-1).to(p.device, dtype)  # (..., t, 2r)


def _theta(dim, sections, interleaved, base, rotary_dim, theta, axes):
    r = dim if rotary_dim is None else rotary_dim
    if dim % 2 or r not in range(2, dim + 1, 2):
        raise ValueError(f"mrope: dim and rotary_dim must be even, 2 <= r <= d, got {dim} and {r}")
    if not 0 < base < np.inf:
        raise ValueError(f"mrope: base must be positive and finite, got {base}")
    theta = base ** (-np.arange(0, r, 2) / r) if theta is None else np.asarray(theta, np.float64)
    each = (5 if interleaved else 6) * r // 32
    sections = sections or (r // 2 - 2 * each, each, each)
    n = len(sections) if axes is None else 1 + max(axes)
    axis = np.repeat(range(n), sections) if axes is None else np.asarray(axes)
    if len(axis) != r // 2:
        raise ValueError(f"mrope: sections or axes must be {r // 2} in all, got {len(axis)}")
    if interleaved and axes is None:
        axis = np.arange(r // 2) % n
        axis[np.arange(r // 2) >= n * np.take(sections, axis)] = 0
    return theta.reshape(axis.shape) * (axis == np.arange(n)[:, None])  # (n, r/2)
