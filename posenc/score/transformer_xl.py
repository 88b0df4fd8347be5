"""Transformer-XL: add to each logit the query's match with the sinusoid of the offset, and a bias.

Paper: Dai et al., 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
       https://arxiv.org/abs/1901.02860, sec. 3.3.
Used:  Transformer-XL, XLNet, Funnel Transformer, Conformers such as Parakeet
Cost:  u and v (h, d) and weight (h, d, w) to learn; w products for each pair, where q k takes d

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim, w sinusoid width

    R[o]          = [sin(o theta_i) for each i, cos(o theta_i) for each i],  theta_i = base^(-2i/w)
    s(q, k, m, n) = (u . k + (q + v) . weight R[m - n]) / sqrt(d)    for a query at m, a key at n

so moving all tokens by one offset changes nothing. Nothing is shifted, and no R is made for pairs:

    a . R[m - n] = for_cos . cos(n theta) + for_sin . sin(n theta),    a = (q + v) weight
    for_cos      = a_sin sin(m theta) + a_cos cos(m theta)
    for_sin      = a_cos sin(m theta) - a_sin cos(m theta)

for any positions, whole or not. Sines stand before cosines, as in the authors' code and XLNet;
Conformers alternate them, so there the columns of `weight` stand in another order.
"""

import numpy as np
import torch
from torch import Tensor, nn


def transformer_xl(q, k, positions, key_positions, u, v, weight, base=10_000.0) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d)."""
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    theta = _theta(base, weight.shape[-1])
    m = np.reshape(positions, (q.shape[1], 1, 1))
    n = np.reshape(key_positions, (1, k.shape[1], 1))
    offset = np.subtract(m, n, dtype=np.float64)  # (t, s, 1)
    angle = offset * theta  # (t, s, w/2)
    sinusoid = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)  # (t, s, w)
    query = q + np.asarray(v)[:, None]  # (h, t, d)
    of_offset = np.einsum("htd,hdw,tsw->hts", query, weight, sinusoid, optimize=True)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    of_key = np.einsum("hd,hsd->hs", u, k)[:, None]  # (h, 1, s)
    return (of_key + of_offset) / q.shape[-1] ** 0.5  # (h, t, s)


class TransformerXL(nn.Module):
    """Score queries against the sinusoid of the offset, and keys against a learned bias.

    `u` and `v` (heads, dim) and `weight` (heads, dim, width) start normal with standard deviation
    0.02. The authors call them r_w_bias, r_r_bias and `r_net.weight.unflatten(0, (heads, dim))`.

    Args:
        dim: Width d of a head.
        heads: Number of heads h.
        base: Sets the slowest wavelength of the sinusoid, 2 pi base^(1 - 2/width) positions.
        width: Width w of the sinusoid, even; by default that of the model, dim x heads.

    Examples:
        >>> encoding, q, k = TransformerXL(8, 2), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
        >>> logits = q @ k.mT / 8**0.5 + encoding(q, k)  # (1, 2, 5, 5)
    """

    def __init__(self, dim: int, heads: int, base: float = 10_000.0, width=None):
        super().__init__()
        width = width or dim * heads
        self.theta = tuple(_theta(base, width).tolist())
        self.u = nn.Parameter(0.02 * torch.randn(heads, dim))
        self.v = nn.Parameter(0.02 * torch.randn(heads, dim))
        self.weight = nn.Parameter(0.02 * torch.randn(heads, dim, width))

    def forward(self, q: Tensor, k: Tensor, positions=None, key_positions=None) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t). By default keys stand at 0 .. s-1, or where as many
        queries do, and queries where the last t keys do.
        """
        m, n = _places(q, k, positions, key_positions)
        x = q.to(torch.promote_types(q.dtype, torch.float32))
        query = x + self.v.to(x)[:, None]  # (b, h, t, d)
        a = query @ self.weight.to(x)  # (b, h, t, w)
        a = a.unflatten(-1, (2, -1))  # (b, h, t, 2, w/2)
        a_sin, a_cos = a.unbind(-2)
        sin, cos = self._waves(m, x)
        for_cos = a_sin * sin + a_cos * cos
        for_sin = a_cos * sin - a_sin * cos
        sin, cos = self._waves(n, x)
        of_offset = for_cos @ cos.mT + for_sin @ sin.mT  # (b, h, t, s)
        group = len(self.u) // k.shape[1]
        y = k.repeat_interleave(group, dim=1).to(x)  # (b, h, s, d)
        of_key = self.u.to(x)[:, None] @ y.mT  # (b, h, 1, s)
        scores = (of_key + of_offset) / x.shape[-1] ** 0.5
        return scores.to(q.dtype)  # (b, h, t, s)

    def _waves(self, positions, x):
        where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
        theta = torch.tensor(self.theta, dtype=torch.float64, device=where)  # (w/2,)
        angle = positions.to(where, torch.float64) * theta
        return angle.sin().to(x), angle.cos().to(x)


def _theta(base, width):
    if not 0 < base < float("inf"):
        raise ValueError(f"transformer_xl: base must be positive and finite, got {base}")
    return base ** (-np.arange(0, width, 2) / width)  # (w/2,)


def _places(q, k, positions, key_positions):
    t, s = q.shape[2], k.shape[2]
    if not q.is_floating_point():
        raise ValueError(f"transformer_xl: q must be floats, got {q.dtype}")
    if positions is key_positions is None and t > s:
        raise ValueError(f"transformer_xl: positions must be given if {t} > {s} keys, got None")
    if key_positions is None:
        key_positions = torch.arange(s, device=k.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    m = positions.unflatten(-1, (1, t, 1))  # (..., 1, t, 1)
    n = key_positions.unflatten(-1, (1, s, 1))  # (..., 1, s, 1)
    return m, n
