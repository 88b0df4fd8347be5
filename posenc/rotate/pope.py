"""PoPE: rotate queries and keys by position alone; content sets magnitudes and no phase.

Paper: Gopalakrishnan, Csordás, Schmidhuber & Mozer, 2025, "Decoupling the "What" and "Where" With
       Polar Coordinate Positional Embeddings", https://arxiv.org/abs/2509.10534, eqs. 3-10.
Used:  the authors' models of up to 774M parameters; offered by PoPE-pytorch and x-transformers
Cost:  one phase per head and channel to learn; queries and keys twice as wide, values stay

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, o width 2d

    logit = sum_c softplus(q_c) softplus(k_c) cos((n - m) theta_c + delta_c),  theta_c = base^(-c/d)

for a query at m and a key at n, c = 0 .. d-1: d frequencies, where RoPE has d/2. With delta = 0 the
logit of any q and k is highest at offset 0; in RoPE their content moves that maximum. The paper
adds delta to the phase of keys; here -delta is added to that of queries, which gives the same
logits and lets heads share keys. It clamps delta to [-2 pi, 0] and starts it at 0, the edge of a
dead zone: a delta that a step takes above 0 gets no gradient, and stays there. Output channels: d
cosines, then d sines; PoPE-pytorch alternates them.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

TWO_PI = 2 * np.pi


def pope(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    base: float = 10_000.0,
    phase: ArrayLike | None = None,
    bound: str = "clamp",
    theta: ArrayLike | None = None,
) -> np.ndarray:
    """Return logits (..., h, t, s) of `q` (..., h, t, d) and `k` (..., g, s, d), not yet scaled.

    They are float64. `phase` (h, d) is delta before it is bounded.

    Raises:
        ValueError: If `base` is not positive and finite, `bound` unknown, or `theta` not (d,).
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    h, t, d = q.shape[-3:]
    g, s, _ = k.shape[-3:]
    theta = _frequencies(d, base, theta)
    _check_bound(bound)
    delta = np.zeros((h, d)) if phase is None else np.asarray(phase, np.float64)
    if bound == "clamp":
        delta = np.clip(delta, -TWO_PI, 0)  # (h, d)

    m = np.asarray(positions, np.float64).reshape(t, 1, 1)
    n = np.asarray(key_positions, np.float64).reshape(s, 1)
    angle = (n - m) * theta + delta.reshape(h, 1, 1, d)  # (h, t, s, d)
    magnitude_q = np.logaddexp(0, q)  # (..., h, t, d)
    magnitude_k = np.logaddexp(0, k).repeat(h // g, axis=-3)  # (..., h, s, d)
    return np.einsum("...htd,...hsd,htsd->...hts", magnitude_q, magnitude_k, np.cos(angle))


class PoPE(nn.Module):
    """Return queries and keys of width 2d, whose products are the logits of PoPE.

    Scale by dim**-0.5, not by the new width:
    `F.scaled_dot_product_attention(*pope(q, k), v, scale=dim**-0.5)`.

    Args:
        dim: Width d of a head, odd or even.
        heads: Query heads h, each with phases of its own; key/value heads may be fewer.
        base: Sets the longest wavelength, 2 pi base^(1 - 1/d) positions.
        init: Start of the learned `phase` (h, d): "zero", which extrapolates best in the paper,
            or "uniform" in [-2 pi, 0).
        bound: How delta comes from `phase`: "clamp" to [-2 pi, 0], as in the paper; "free",
            unbounded; "wrap", the same as "free", since cosines have period 2 pi.
        theta: Frequencies (d,) in place of those of `base`.

    Raises:
        ValueError: If `dim` is below 1, or `theta` not (d,).
        ValueError: If `base` is not positive and finite.
        ValueError: If `init` or `bound` is unknown.
        ValueError: In a call, if omitted positions have no default, or a shape or dtype is wrong.

    Examples:
        >>> q, k = PoPE(8, heads=2)(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8))
        >>> q.shape[-1], bool(((q * k).sum(-1) > 0).all())  # no logit of a token with itself is 0
        (16, True)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        base: float = 10_000.0,
        init: str = "zero",
        bound: str = "clamp",
        theta: ArrayLike | None = None,
    ):
        super().__init__()
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(dim, base, theta).tolist())
        _check_bound(bound)
        self.dim = dim
        self.heads = heads
        self.bound = bound
        self.phase = nn.Parameter(torch.zeros(heads, dim))  # (h, d)
        if init == "uniform":
            nn.init.uniform_(self.phase, -TWO_PI, 0)
        elif init != "zero":
            raise ValueError(f"pope: init must be 'zero' or 'uniform', got {init!r}")

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return (b, h, t, o) and (b, g, s, o) of `q` (b, h, t, d) and `k` (b, g, s, d).

        Positions are (t,) or (b, t). With t = s > 1, `positions` default to 0 .. t-1; with t = s,
        `key_positions` default to `positions`.
        """
        t, s = q.shape[-2], k.shape[-2]
        if positions is None:
            # a lone token is a new one behind a cache, and its position is not 0
            if t != s or t == 1 or key_positions is not None:
                raise ValueError(
                    f"pope: positions must be given for {t} queries and {s} keys, got None; "
                    "or transpose(1, 2) if tokens come before heads"
                )
            positions = torch.arange(t, device=q.device)
        table_q = self.table(positions, q.dtype)
        table_k = table_q if key_positions is None else self.table(key_positions, k.dtype)
        return self.turn_q(q, table_q), self.turn_k(k, table_k)

    def delta(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the phases (h, d) that count: those stored in `phase`, within their bound."""
        stored = self.phase.to(dtype)
        if self.bound != "clamp":
            return stored
        # from PyTorch 2.14 on, clamp passes no gradient at 0, where delta starts
        within = (stored >= -TWO_PI) & (stored <= 0)
        return torch.where(within, stored, stored.detach().clamp(-TWO_PI, 0))

    def table(self, positions: Tensor, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return cosines and sines (..., 1, t, d); without phases, so that layers share them."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (d,)
        # the same for all heads
        p = positions.to(device, torch.float64)[..., None, :, None]  # (..., 1, t, 1)
        angle = p * theta  # (..., 1, t, d)
        dtype = torch.promote_types(dtype, torch.float32)
        return angle.cos().to(positions.device, dtype), angle.sin().to(positions.device, dtype)

    def turn_q(self, q: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return queries (b, h, t, o) at positions of a `table`, less their phases."""
        if q.shape[1] != self.heads:
            raise ValueError(
                f"pope: heads of q must be {self.heads}, in axis 1, got {tuple(q.shape)}; "
                "or transpose(1, 2) if tokens come before heads"
            )
        cos, sin = table
        delta = self.delta(cos.dtype)
        # cos(a - delta) and sin(a - delta), which need no table of their own
        cos_delta = delta.cos()[:, None]  # (h, 1, d)
        sin_delta = delta.sin()[:, None]  # (h, 1, d)
        return self._rotate(q, cos * cos_delta + sin * sin_delta, sin * cos_delta - cos * sin_delta)

    def turn_k(self, k: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
        """Return keys (b, g, s, o) at positions of a `table`."""
        return self._rotate(k, *table)

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, _, t, d = x.shape
        if d != self.dim or not x.is_floating_point():
            raise ValueError(
                f"pope: q or k of dim {self.dim} must have shape (b, h, t, {self.dim}) "
                f"and a float dtype, got {x.dtype} {tuple(x.shape)}"
            )
        # a table of one row would broadcast over all tokens without an error
        table_shape = (*cos.shape[:-3], cos.shape[-2])
        if table_shape != (t,) and table_shape != (1, t) and table_shape != (b, t):
            raise ValueError(
                f"pope: positions or table must have shape ({t},) or ({b}, {t}), got {table_shape}"
            )
        # softplus in half precision would lose digits
        magnitude = x.to(torch.promote_types(x.dtype, cos.dtype))
        # torch's default threshold of 20 would be off by 2e-9
        magnitude = F.softplus(magnitude, threshold=40)  # (b, h, t, d)
        rotated = torch.cat([magnitude * cos, magnitude * sin], dim=-1)  # (b, h, t, o)
        return rotated.to(x.dtype)


def _frequencies(dim: int, base: float, theta: ArrayLike | None) -> np.ndarray:
    """Return theta (d,), in radians a position, highest first."""
    if not 0 < base < float("inf"):
        raise ValueError(f"pope: base must be positive and finite, got {base}")
    if dim < 1:
        raise ValueError(f"pope: dim must be 1 or more, got {dim}")
    if theta is None:
        theta = base ** (-np.arange(dim) / dim)
    theta = np.asarray(theta, np.float64)
    if theta.shape != (dim,):
        raise ValueError(f"pope: theta for this dim must have shape ({dim},), got {theta.shape}")
    return theta


def _check_bound(bound: str) -> None:
    if bound not in ("clamp", "wrap", "free"):
        raise ValueError(f"pope: bound must be 'clamp', 'wrap' or 'free', got {bound!r}")
