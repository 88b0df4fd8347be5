"""Latent: turn one slice of each head and leave the rest, as a cache of latents needs it.

Paper: DeepSeek-AI, 2024, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts
       Language Model", https://arxiv.org/abs/2405.04434, sec. 2.1.3, eq. 14-18.
Used:  DeepSeek V2 to V4, Kimi K2, GLM-5, Mistral 4, LongCat, MiniCPM 3
Cost:  nothing to learn; a cache of l + r numbers a token, whatever the number of heads

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, c content, r rotary, l latent

    score = q_content . (U_h latent_n) + (R_m q_rotary) . (R_n key_n)
    score = (U_h^T q_content) . latent_n + (R_m q_rotary) . (R_n key_n),  theta_i = base^(-2i/r)

A turned key could not be made of its latent any more, as R_n would stand between U_h and latent_n;
so r channels beside it carry the position, and all heads share their key. The second line is
"absorbed": it reads the cache as it is. Here the last channels turn; in the indexer of DeepSeek
V3.2 the first, layout "half"; in GLM-5's the first, interleaved. Scores are divided once by the
root of d; YaRN's factor belongs there. V4's values are keys: turn its outputs by -positions.
"""

import numpy as np
import torch
from torch import Tensor, nn


def latent(x, positions, rotary_dim, start=None, base=1e4, layout="interleaved", theta=None):
    """Return `x` (..., t, d) in float64, the slice of `rotary_dim` channels turned."""
    x = np.asarray(x, np.float64)
    start, theta = _settings(x.shape[-1], rotary_dim, start, base, layout, theta)
    first, second = _pairs(start, rotary_dim, layout)
    angle = np.asarray(positions, np.float64).reshape(x.shape[-2], 1) * theta
    cos, sin = np.cos(angle), np.sin(angle)
    one, other = x[..., first], x[..., second]
    y = x.copy()  # (..., t, d)
    y[..., first] = one * cos - other * sin
    y[..., second] = other * cos + one * sin
    return y


def absorbed_scores(content: Tensor, rotary: Tensor, latents: Tensor, keys: Tensor, up: Tensor):
    """Return scores (b, h, t, s), before their scale, from what a cache of latents holds.

    `content` (b, h, t, c) are the slices of queries that do not turn, `rotary` (b, h, t, r) those
    that were turned, `latents` (b, s, l) and turned `keys` (b, s, r) the cache, and `up` (h, c, l)
    would make a head's keys from latents.

    Examples:
        >>> q, up, latents = torch.randn(1, 8, 5, 16), torch.randn(8, 16, 32), torch.randn(1, 9, 32)
        >>> absorbed_scores(q, torch.ones(1, 8, 5, 4), latents, torch.ones(1, 9, 4), up).shape
        torch.Size([1, 8, 5, 9])
    """
    absorbed = torch.einsum("bhtc,hcl->bhtl", content, up)
    return absorbed @ latents.mT[:, None] + rotary @ keys.mT[:, None]  # (b, h, t, s)


class Latent(nn.Module):
    """Turn a slice of queries and keys to their positions, by angles in float64.

    Args:
        dim: Width d of a head, of both slices together.
        rotary_dim: How many channels r turn; even.
        start: The first of them; by default the last r channels turn.
        base: Sets the slowest wavelength, 2 pi base^(1 - 2/r) positions.
        layout: "interleaved" pairs the channels (2i, 2i + 1) of the slice, "half" (i, i + r/2).
        theta: Frequencies (r/2,) in place of those of `base`, such as YaRN's.

    Examples:
        >>> mla, q, k = Latent(192, 64), torch.randn(1, 8, 5, 192), torch.randn(1, 1, 5, 192)
        >>> turned_q, turned_k = mla(q, k)  # one rotary key for eight heads
    """

    def __init__(
        self,
        dim: int,
        rotary_dim: int,
        start: int | None = None,
        base: float = 1e4,
        layout: str = "interleaved",
        theta=None,
    ):
        super().__init__()
        self.start, theta = _settings(dim, rotary_dim, start, base, layout, theta)
        self.theta = tuple(theta.tolist())
        self.dim, self.rotary_dim, self.layout = dim, rotary_dim, layout

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned to positions (t,) or (b, t).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do. `table(key_positions)` replaces both.
        """
        t, s = q.shape[2], k.shape[2]
        if positions is key_positions is table is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"latent: positions must be given for {t} of {s} keys, got {got}")
        if key_positions is None and t == s:
            key_positions = positions
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
        of_k = self.table(key_positions, q.dtype) if table is None else table
        of_q = of_k[..., s - t :, :] if positions is None else self.table(positions, q.dtype)
        return self._turned(q, of_q), self._turned(k, of_k)

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return `x` (b, h, t, d) turned to `positions`; to their negatives, turned back."""
        return self._turned(x, self.table(positions, x.dtype))

    def table(self, positions: Tensor, dtype=torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, r), in float32 or finer: it serves every layer."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)
        angle = positions.to(where, torch.float64)[..., None] * theta
        made = torch.cat([angle.cos(), angle.sin()], dim=-1)  # (..., t, r)
        return made.to(positions.device, torch.promote_types(dtype, torch.float32))

    def _turned(self, x, table):
        (b, _, t, d), rows = x.shape, tuple(table.shape[:-1])
        if d != self.dim or not x.is_floating_point():
            raise ValueError(f"latent: dim of float q or k must be {self.dim}, got {x.dtype}, {d}")
        if rows not in ((t,), (1, t), (b, t)):
            raise ValueError(f"latent: positions or table must be ({t},) or ({b}, {t}), got {rows}")
        cos, sin = table.unsqueeze(-3).chunk(2, dim=-1)
        first, second = _pairs(self.start, self.rotary_dim, self.layout)
        one, other = x[..., first], x[..., second]
        y = x.to(table.dtype, copy=True)  # (b, h, t, d)
        y[..., first] = one * cos - other * sin
        y[..., second] = other * cos + one * sin
        return y.to(x.dtype)


def _pairs(start, rotary_dim, layout):
    end = start + rotary_dim
    if layout == "interleaved":
        return slice(start, end, 2), slice(start + 1, end, 2)
    middle = start + rotary_dim // 2
    return slice(start, middle), slice(middle, end)


def _settings(dim, rotary_dim, start, base, layout, theta):
    if rotary_dim % 2 or not 0 < rotary_dim <= dim:
        raise ValueError(f"latent: rotary_dim of dim must be even, 2 to {dim}, got {rotary_dim}")
    start = dim - rotary_dim if start is None else start
    if not 0 <= start <= dim - rotary_dim:
        raise ValueError(f"latent: start must be 0 to {dim - rotary_dim}, got {start}")
    if layout not in ("half", "interleaved"):
        raise ValueError(f"latent: layout must be 'half' or 'interleaved', got {layout!r}")
    if not 0 < base < np.inf:
        raise ValueError(f"latent: base must be positive and finite, got {base}")
    if theta is None:
        theta = base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)
    return start, np.asarray(theta, np.float64).reshape(rotary_dim // 2)
