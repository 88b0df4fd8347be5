"""xPos: turn queries and keys as RoPE does, and let scores fade with distance, fast pairs soonest.

Paper: Sun et al., 2022, "A Length-Extrapolatable Transformer", https://arxiv.org/abs/2212.10554,
       alg. 1.
Used:  LeX; an option of torchscale, flash-attn, x-transformers and rotary-embedding-torch
Cost:  nothing to learn; one table for all layers, one pass over queries and keys

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim

    q_i = zeta_i^((m - center) / scale_base) R(m theta_i) q_i,    theta_i = base^(-2i/d)
    k_i = zeta_i^((center - n) / scale_base) R(n theta_i) k_i,    zeta_i = (2i/d + 0.4) / 1.4

where R(angle) turns channels 2i and 2i + 1. A score is RoPE's, the part of pair i times
zeta_i^((m - n) / scale_base): it grows for keys ahead, so attend causally. The center drops out, so
keys can be cached; libraries center each call on half its length, and their keys fit no later call.
Float32 and bfloat16 reach 32 scale_base from the center, float16 4; beyond, keys become infinite.
"""

import numpy as np
import torch
from torch import Tensor, nn


def xpos(q, k, positions, key_positions, base=10_000.0, scale_base=512.0) -> np.ndarray:
    """Return float64 scores (..., h, t, s) of q (..., h, t, d) and k (..., g, s, d), unscaled."""
    theta, zeta = _settings(np.shape(q)[-1], base)
    q = np.ascontiguousarray(q, np.float64).view(np.complex128)  # (..., h, t, d/2)
    k = np.ascontiguousarray(k, np.float64).view(np.complex128)  # (..., g, s, d/2)
    h, t, _ = q.shape[-3:]
    g, s, _ = k.shape[-3:]
    m = np.asarray(positions, np.float64).reshape(t, 1, 1)
    n = np.asarray(key_positions, np.float64).reshape(s, 1)
    steps = (m - n) / scale_base  # (t, s, 1)
    most = abs(steps).max(initial=0)
    if most > 64:
        raise ValueError(f"xpos: positions must be within 64 scale_base, got {most:g} apart")
    kernel = zeta**steps * np.exp(1j * (m - n) * theta)  # (t, s, d/2)
    k = k.conj().repeat(h // g, axis=-3)  # (..., h, s, d/2)
    return np.einsum("...htc,...hsc,tsc->...hts", q, k, kernel).real


class XPos(nn.Module):
    """Turn queries and keys, and scale them so that their products fade with distance.

    Args:
        dim: Width d of a head; even.
        base: Sets the slowest turn, base^(-1 + 2/d) radians a position.
        scale_base: Positions over which pair i fades to zeta_i: 0.29 first, almost 1 last.
        center: The position left unscaled; half the longest context reaches furthest.

    Examples:
        >>> xpos, k, back = XPos(64), torch.ones(1, 1, 3, 64), torch.tensor([0, 64, 512])
        >>> q, k = xpos(k[:, :, :1], k, torch.tensor([9000]), 9000 - back)
        >>> [round(score, 1) for score in (q @ k.mT).flatten().tolist()]
        [64.0, 27.4, 12.6]
    """

    def __init__(self, dim: int, base=10_000.0, scale_base=512.0, center=0.0):
        super().__init__()
        theta, zeta = _settings(dim, base)
        self.theta = tuple(theta.tolist())  # no buffers: model.to(torch.bfloat16) would round them
        self.zeta = tuple(zeta.tolist())
        self.scale_base = scale_base
        self.center = center

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return `q` (b, h, t, d) and `k` (b, g, s, d), turned and scaled.

        Positions are (t,) or (b, t). By default keys stand at 0 .. s-1, or where as many queries
        do, and queries where the last t keys do. `table(key_positions)` replaces both.
        """
        t = q.shape[2]
        s = k.shape[2]
        if positions is key_positions is table is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"xpos: positions must be given for {t} queries, {s} keys, got {got}")
        if key_positions is None and t == s:
            key_positions = positions
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
        dtype = torch.promote_types(q.dtype, torch.float32)
        of_k = self.table(key_positions, dtype) if table is None else table
        of_q = of_k[..., s - t :, :] if positions is None else self.table(positions, dtype)
        turned_q = self._turned(q, of_q, 1)  # (b, h, t, d)
        return turned_q, self._turned(k, of_k, -1)

    def table(self, positions: Tensor, dtype=torch.float32) -> Tensor:
        """Return cosines, sines and the scales of a query (..., t, 3d/2), for every layer."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        of_pairs = torch.tensor([self.theta, self.zeta], dtype=torch.float64, device=where)
        theta, zeta = of_pairs  # (d/2,), (d/2,)
        p = positions.to(where, torch.float64)[..., None]  # (..., t, 1)
        angle = p * theta  # (..., t, d/2)
        scale = zeta ** ((p - self.center) / self.scale_base)  # (..., t, d/2)
        made = torch.cat([angle.cos(), angle.sin(), scale], dim=-1)  # (..., t, 3*d/2)
        return made.to(positions.device, dtype)

    def _turned(self, x, table, power):
        if not x.is_floating_point():
            raise ValueError(f"xpos: q and k must be floating point, got {x.dtype}")
        b, _, t, _ = x.shape
        rows = tuple(table.shape[:-1])
        if rows != (t,) and rows != (1, t) and rows != (b, t):
            raise ValueError(f"xpos: positions or table must be ({t},) or ({b}, {t}), got {rows}")
        y = x.to(torch.promote_types(x.dtype, table.dtype))
        first, second = y.unflatten(-1, (-1, 2)).unbind(-1)  # (b, h, t, d/2), (b, h, t, d/2)
        cos, sin, scale = table.unsqueeze(-3).chunk(3, dim=-1)
        cos = cos * scale**power  # (..., 1, t, d/2)
        sin = sin * scale**power  # (..., 1, t, d/2)
        turned = first * cos - second * sin, second * cos + first * sin
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)  # (b, h, t, d)


def _settings(dim, base):
    if dim % 2 or dim < 2:
        raise ValueError(f"xpos: dim of q and k must be even and at least 2, got {dim}")
    if not 0 < base < np.inf:
        raise ValueError(f"xpos: base must be positive and finite, got {base}")
    pair = np.arange(0, dim, 2) / dim  # (d/2,)
    return base**-pair, (pair + 0.4) / 1.4
