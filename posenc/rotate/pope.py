"""PoPE: turn queries and keys by position alone; what they hold sets magnitudes and no angle.

Paper: Gopalakrishnan, Csordás, Schmidhuber & Mozer, 2025, "Decoupling the "What" and "Where" With
       Polar Coordinate Positional Embeddings", https://arxiv.org/abs/2509.10534, eqs. 3-10.
Used:  the authors' models of up to 774M parameters; offered by PoPE-pytorch and x-transformers
Cost:  one phase per head and channel to learn; queries and keys twice as wide, values stay

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, o width 2d

    score = sum_c softplus(q_c) softplus(k_c) cos((n - m) theta_c + delta_c),  theta_c = base^(-c/d)

for a query at m and a key at n, c = 0 .. d-1: d frequencies, where RoPE has d/2. With delta = 0 the
score of any q and k is highest at offset 0; in RoPE what they hold moves that peak. The paper turns
keys by delta; here queries turn by -delta, which scores the same and lets heads share keys. It
clamps delta to [-2 pi, 0] and starts it at 0, the edge of a dead zone: a delta that a step takes
above 0 gets no gradient, and stays there. Cosines precede sines; PoPE-pytorch alternates.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

TURN = 2 * np.pi


def pope(
    q, k, positions, key_positions, base=10_000.0, phase=None, bound="clamp", theta=None
) -> np.ndarray:
    """Return scores (..., h, t, s) of `q` (..., h, t, d) and `k` (..., g, s, d), not yet scaled.

    They are float64. `phase` (h, d) is delta before it is bounded.
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    h, t, d = q.shape[-3:]
    g, s, _ = k.shape[-3:]
    theta = _theta(d, base, bound, theta)  # (d,)
    delta = np.zeros((h, d)) if phase is None else np.asarray(phase, np.float64)
    if bound == "clamp":
        delta = np.clip(delta, -TURN, 0)  # (h, d)

    m = np.asarray(positions, np.float64).reshape(t, 1, 1)
    n = np.asarray(key_positions, np.float64).reshape(s, 1)
    angle = (n - m) * theta + delta.reshape(h, 1, 1, d)  # (h, t, s, d)
    length_q = np.logaddexp(0, q)  # (..., h, t, d)
    length_k = np.logaddexp(0, k).repeat(h // g, axis=-3)  # (..., h, s, d)
    return np.einsum("...htd,...hsd,htsd->...hts", length_q, length_k, np.cos(angle))


class PoPE(nn.Module):
    """Return queries and keys of width 2d, whose products are the scores of PoPE.

    Attention keeps the scale of the width before:
    `F.scaled_dot_product_attention(*pope(q, k), v, scale=dim**-0.5)`.

    Args:
        dim: Width d of a head, odd or even.
        heads: Query heads h, each with phases of its own; key heads may be fewer.
        base: Sets the slowest wavelength, 2 pi base^(1 - 1/d) positions.
        init: Start of the learned `phase` (h, d): "zero", which extrapolates best in the paper,
            or "uniform" in [-2 pi, 0).
        bound: How delta comes from `phase`: by a "clamp" to [-2 pi, 0], or as it is, "free".
            "wrap" is the same: a cosine sees no whole turns.
        theta: Frequencies (d,) in place of those of `base`.

    Examples:
        >>> q, k = PoPE(8, heads=2)(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
        >>> q.shape[-1], bool(((q * k).sum(-1) > 0).all())  # no token scores 0 where it stands
        (16, True)
    """

    def __init__(self, dim: int, heads: int, base=10_000.0, init="zero", bound="clamp", theta=None):
        super().__init__()
        theta = _theta(dim, base, bound, theta)
        self.theta = tuple(theta.tolist())  # no buffer: model.to(torch.bfloat16) would round it
        self.dim, self.heads, self.bound = dim, heads, bound
        self.phase = nn.Parameter(torch.zeros(heads, dim))  # (h, d)
        if init == "uniform":
            nn.init.uniform_(self.phase, -TURN, 0)
        elif init != "zero":
            raise ValueError(f"pope: init must be 'zero' or 'uniform', got {init!r}")

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None, table=None):
        """Return (b, h, t, o) and (b, g, s, o) of `q` (b, h, t, d) and `k` (b, g, s, d).

        By default keys stand at 0 .. s-1, or where as many queries do, and queries where the last
        t keys do. Positions are (t,) or (b, t). `table(key_positions)` replaces both.
        """
        t, s = q.shape[2], k.shape[2]
        if q.shape[1] != self.heads:
            got = f"{tuple(q.shape)}; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"pope: heads of q must be {self.heads}, in axis 1, got {got}")
        if positions is key_positions is table is None and (t > s or s == 1):
            got = "None; or transpose(1, 2) if tokens come before heads"
            raise ValueError(f"pope: positions must be given for {t} queries, {s} keys, got {got}")
        if key_positions is None:
            key_positions = torch.arange(s, device=k.device)
            if positions is not None and t == s:
                key_positions = positions
        dtype = torch.promote_types(q.dtype, torch.float32)
        of_k = self.table(key_positions, dtype) if table is None else table
        of_q = of_k[..., s - t :, :] if positions is None else self.table(positions, dtype)
        return self._turned(q, of_q, self.delta(dtype)), self._turned(k, of_k)

    def delta(self, dtype=torch.float32) -> Tensor:
        """Return the phases (h, d) that count: those stored in `phase`, within their bound."""
        stored = self.phase.to(dtype)
        if self.bound != "clamp":
            return stored
        # at 0, where delta starts, clamp itself passes no gradient since PyTorch 2.14
        within = (stored >= -TURN) & (stored <= 0)
        return torch.where(within, stored, stored.detach().clamp(-TURN, 0))

    def table(self, positions: Tensor, dtype=torch.float32) -> Tensor:
        """Return cosines, then sines (..., t, o); without phases, so that layers can share it."""
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (d,)
        angle = positions.to(where, torch.float64)[..., None] * theta  # (..., t, d)
        made = torch.cat([angle.cos(), angle.sin()], dim=-1)  # (..., t, o)
        return made.to(positions.device, dtype)

    def _turned(self, x, table, delta=None):
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            raise ValueError(
                f"pope: q or k of dim {self.dim} must be floats (b, h, t, {self.dim}), "
                f"got {x.dtype} {tuple(x.shape)}"
            )
        rows = tuple(table.shape[:-1])
        if rows != (t,) and rows != (1, t) and rows != (b, t):
            raise ValueError(f"pope: positions or table must be ({t},) or ({b}, {t}), got {rows}")

        cos, sin = table.unsqueeze(-3).chunk(2, dim=-1)  # (..., 1, t, d), (..., 1, t, d)
        if delta is not None:
            by_cos = delta.cos()[:, None]  # (h, 1, d)
            by_sin = delta.sin()[:, None]  # (h, 1, d)
            cos, sin = cos * by_cos + sin * by_sin, sin * by_cos - cos * by_sin
        length = x.to(torch.promote_types(x.dtype, table.dtype))
        length = F.softplus(length, threshold=40)  # (b, h, t, d)
        turned = torch.cat([length * cos, length * sin], dim=-1)  # (b, h, t, o)
        return turned.to(x.dtype)


def _theta(dim, base, bound, theta):
    if bound not in ("clamp", "wrap", "free"):
        raise ValueError(f"pope: bound must be 'clamp', 'wrap' or 'free', got {bound!r}")
    if not 0 < base < float("inf"):
        raise ValueError(f"pope: base must be positive and finite, got {base}")
    if theta is None:
        theta = base ** (-np.arange(dim) / dim)
    theta = np.asarray(theta, np.float64)
    if theta.size != dim:
        raise ValueError(f"pope: theta of dim must be {dim} numbers, got {theta.size}")
    return theta.reshape(dim)
