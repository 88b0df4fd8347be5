"""Transformer-XL: add to each logit products of the query with the offset's sinusoid, and a bias.

Paper: Dai et al., 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
       https://arxiv.org/abs/1901.02860, sec. 3.3.
Used:  Transformer-XL, XLNet, Funnel Transformer, Conformers such as Parakeet
Cost:  u and v (h, d) and weight (h, d, w) to learn; w products for each pair, where q k takes d

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, w sinusoid width

    R[o]          = [sin(o theta_i) for each i, cos(o theta_i) for each i],  theta_i = base^(-2i/w)
    s(q, k, m, n) = (u . k + (q + v) . weight R[m - n]) / sqrt(d)    for a query at m, a key at n

so moving all tokens by one offset changes nothing. Nothing is shifted, and no R is made for pairs:

    a . R[m - n] = for_cos . cos(n theta) + for_sin . sin(n theta),    a = (q + v) weight
    for_cos      = a_sin sin(m theta) + a_cos cos(m theta)
    for_sin      = a_cos sin(m theta) - a_sin cos(m theta)

for any positions, whole or not. Sines come before cosines, as in the authors' code and XLNet;
Conformers alternate them, so there the columns of `weight` have another order.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def transformer_xl(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    u: ArrayLike,
    v: ArrayLike,
    weight: ArrayLike,
    base: float = 10_000.0,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d).

    Raises:
        ValueError: If `base` is not positive and finite.
        ValueError: If positions are not (t,) and (s,).
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    u, v, weight = (np.asarray(x, np.float64) for x in (u, v, weight))
    m = np.reshape(positions, (q.shape[1], 1, 1))
    n = np.reshape(key_positions, (1, k.shape[1], 1))
    offset = np.subtract(m, n, dtype=np.float64)  # (t, s, 1)
    angle = offset * _frequencies(base, weight.shape[-1])  # (t, s, w/2)
    sinusoid = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)  # (t, s, w)
    query = q + v[:, None]  # (h, t, d)
    of_offset = np.einsum("htd,hdw,tsw->hts", query, weight, sinusoid, optimize=True)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    of_key = np.einsum("hd,hsd->hs", u, k)[:, None]  # (h, 1, s)
    return (of_key + of_offset) / q.shape[-1] ** 0.5  # (h, t, s)


class TransformerXL(nn.Module):
    """Add products of queries with the sinusoid of the offset, and of keys with a learned bias.

    `u` and `v` (heads, dim) and `weight` (heads, dim, width) start normal with standard deviation
    0.02. The authors call them r_w_bias, r_r_bias and `r_net.weight.unflatten(0, (heads, dim))`.

    Args:
        dim: Width d of a head.
        heads: Number of heads h.
        base: Sets the longest wavelength of the sinusoid, 2 pi base^(1 - 2/width) positions.
        width: Width w of the sinusoid, even; by default that of the model, dim x heads.

    Raises:
        ValueError: If `base` is not positive and finite.
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if `q` is not floating point.

    Examples:
        >>> encoding, q, k = TransformerXL(8, 2), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
        >>> logits = q @ k.mT / 8**0.5 + encoding(q, k)  # (1, 2, 5, 5)
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        base: float = 10_000.0,
        width: int | None = None,
    ):
        super().__init__()
        width = width or dim * heads
        # a tuple, not a buffer: model.to(torch.bfloat16) would round it
        self.theta = tuple(_frequencies(base, width).tolist())
        self.u = nn.Parameter(0.02 * torch.randn(heads, dim))
        self.v = nn.Parameter(0.02 * torch.randn(heads, dim))
        self.weight = nn.Parameter(0.02 * torch.randn(heads, dim, width))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t). With t = s > 1, `positions` default to 0 .. t-1; with
        t = s, `key_positions` default to `positions`.
        """
        if not q.is_floating_point():
            raise ValueError(f"transformer_xl: q must be floating point, got {q.dtype}")
        m, n = _positions(q, k.shape[2], positions, key_positions)
        # products in half precision would lose digits
        wide = q.to(torch.promote_types(q.dtype, torch.float32))
        sin_m, cos_m = self._waves(m, wide)
        sin_n, cos_n = self._waves(n, wide)
        query = wide + self.v.to(wide)[:, None]  # (b, h, t, d)
        a = query @ self.weight.to(wide)  # (b, h, t, w)
        a_sin, a_cos = a.unflatten(-1, (2, -1)).unbind(-2)  # (b, h, t, w/2), (b, h, t, w/2)
        # the sine and cosine of a difference, as products of those of m and of n
        for_cos = a_sin * sin_m + a_cos * cos_m
        for_sin = a_cos * sin_m - a_sin * cos_m
        of_offset = for_cos @ cos_n.mT + for_sin @ sin_n.mT  # (b, h, t, s)
        # a key/value head serves h/g query heads
        k = k.repeat_interleave(len(self.u) // k.shape[1], dim=1).to(wide)  # (b, h, s, d)
        of_key = self.u.to(wide)[:, None] @ k.mT  # (b, h, 1, s)
        scores = (of_key + of_offset) / q.shape[-1] ** 0.5
        return scores.to(q.dtype)  # (b, h, t, s)

    def _waves(self, positions: Tensor, wide: Tensor) -> tuple[Tensor, Tensor]:
        """Return sines and cosines (..., t, w/2) of `positions` (..., t, 1), as `wide` is."""
        device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=device)  # (w/2,)
        # rounded after the sine: far out, float32 has no digits left for an angle
        angle = positions.to(device, torch.float64) * theta
        return angle.sin().to(wide), angle.cos().to(wide)


def _frequencies(base: float, width: int) -> np.ndarray:
    """Return theta (w/2,), in radians a position."""
    if not 0 < base < float("inf"):
        raise ValueError(f"transformer_xl: base must be positive and finite, got {base}")
    return base ** (-np.arange(0, width, 2) / width)  # (w/2,)


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, for heads and channels."""
    t = q.shape[2]
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"transformer_xl: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        if t != s:
            raise ValueError(
                "transformer_xl: key_positions must be given for "
                f"{t} queries and {s} keys, got None"
            )
        key_positions = positions
    m = positions.unflatten(-1, (1, t, 1))  # (..., 1, t, 1)
    n = key_positions.unflatten(-1, (1, s, 1))  # (..., 1, s, 1)
    return m, n
