"""Transformer-XL: add to each logit a match of the query with the sinusoid of the offset, and a bias for the key.

Paper: Dai et al., 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
       https://arxiv.org/abs/1901.02860, sec. 3.3.
Used:  Transformer-XL, XLNet, Funnel Transformer, Conformers such as Parakeet
Cost:  u and v (h, d) and weight (h, d, w) to learn; w products for each pair, where q k takes d, and no index at all

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, w sinusoid width, m position of a query,
       n of a key

    R[o]          = [sin(o theta_i) for each i, cos(o theta_i) for each i],  theta_i = base^(-2i/w),  i = 0 .. w/2-1
    s(q, k, m, n) = (u . k_n + (q_m + v) . weight R[m - n]) / sqrt(d)

so the logits are (q + u) k + (q + v) weight R, and moving all tokens by one offset changes nothing. No R is made for
pairs or offsets, and nothing is shifted: for a = weight^T (q_m + v) the sines of a difference take a . R[m - n] apart,

    [a_sin sin(m theta) + a_cos cos(m theta), a_cos sin(m theta) - a_sin cos(m theta)] . [cos(n theta), sin(n theta)]

which holds for any positions, whole or not, past or future: hide the future with a mask. The offset is query minus key.
There is no score_mod: a pair needs w products, and a table of each query's at each offset is as large as the scores.
`joined` takes its place, for any fused attention. Sines stand before cosines, as in the authors' code and in XLNet;
Conformers alternate them, so there the columns of `weight` stand in another order.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def transformer_xl(
    q: np.ndarray,
    k: np.ndarray,
    positions: np.ndarray,
    key_positions: np.ndarray,
    u: np.ndarray,
    v: np.ndarray,
    weight: np.ndarray,
    base: float = 10_000.0,
) -> np.ndarray:
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d) at the positions (t,) and (s,).

    Learned are `u` (h, d), `v` (h, d) and `weight` (h, d, w).
    """
    q, k, weight = _array("q", q, 3), _array("k", k, 3), _array("weight", weight, 3)
    _check(q, k, q.shape[-1], len(q), np.ndarray)
    _check_sinusoid(weight.shape[-1], base)
    u, v = _array("u", u, 2), _array("v", v, 2)
    for name, learned in (("u", u), ("v", v), ("weight", weight)):
        if learned.shape[:2] != q.shape[::2]:
            raise ValueError(f"transformer_xl: {name} must be of (h, d) = {q.shape[::2]}, got {learned.shape}")
    m, n = _row("positions", positions, q.shape[1]), _row("key_positions", key_positions, k.shape[1])
    theta = float(base) ** (-2 * np.arange(weight.shape[-1] // 2) / weight.shape[-1])  # (w/2,)
    angle = (m[:, None] - n)[..., None] * theta  # (t, s, w/2)
    sinusoid = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)  # (t, s, w)
    to_offset = np.einsum("htd,hdw,tsw->hts", q + v[:, None], weight, sinusoid, optimize=True)  # (h, t, s)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    return (np.einsum("hd,hsd->hs", u, k)[:, None] + to_offset) / q.shape[-1] ** 0.5  # (h, t, s)


class TransformerXL(nn.Module):
    """Score queries against the sinusoid of the offset to each key, and keys against a learned bias.

    `u` (heads, dim), `v` (heads, dim) and `weight` (heads, dim, width) are learned. They start normal with standard
    deviation 0.02, as in the authors' code, where they are called r_w_bias, r_r_bias and r_net: `weight` is
    `r_net.weight.unflatten(0, (heads, dim))`.

    Args:
        dim: Width d of a head.
        heads: Number of heads h.
        base: Sets the slowest wavelength of the sinusoid, 2 pi base^(1 - 2/width) positions.
        width: Width w of the sinusoid, even; by default that of the model, dim x heads.

    Raises:
        ValueError: If an argument is out of range; the message says what to pass instead.

    Examples:
        >>> import torch
        >>> encoding = TransformerXL(dim=1, heads=1, width=2)
        >>> for parameter, value in ((encoding.u, 0), (encoding.v, 0), (encoding.weight, torch.tensor([0.0, 1.0]))):
        ...     parameter.data[:] = value  # so that the score is the cosine of the offset
        >>> encoding(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 4, 1)).detach().acos().flatten()
        tensor([3., 2., 1., 0.])
    """

    def __init__(self, dim: int, heads: int, base: float = 10_000.0, width: int | None = None) -> None:
        super().__init__()
        for name, number in (("dim", dim), ("heads", heads)):
            if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
                raise ValueError(
                    f"transformer_xl: {name} must be a positive integer, got {number!r}; u and v are (heads, dim)"
                )
        width = dim * heads if width is None else width
        _check_sinusoid(width, base)
        self.dim, self.heads, self.base, self.width = int(dim), int(heads), float(base), int(width)
        self.u = nn.Parameter(0.02 * torch.randn(self.heads, self.dim))
        self.v = nn.Parameter(0.02 * torch.randn(self.heads, self.dim))
        self.weight = nn.Parameter(0.02 * torch.randn(self.heads, self.dim, self.width))

    def forward(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) and `k` (b, g, s, d), in the dtype of `q`.

        `positions` (t,) or (b, t) and `key_positions` (s,) or (b, s) are integers or floats; by default keys stand at
        0 .. s-1, or where as many queries are said to, and queries at the last t. One row (1, t) serves a batch.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        left, right = self._factors(q, k, positions, key_positions)
        u = self.u.to(left.dtype).unflatten(0, (k.shape[1], -1))  # (g, h/g, d)
        to_key = (u @ k.to(u.dtype).mT).flatten(1, 2)  # (b, h, s)
        return ((to_key[..., None, :] + left @ right.mT) / self.dim**0.5).to(q.dtype)  # (b, h, t, s)

    def joined(
        self, q: Tensor, k: Tensor, positions: Tensor | None = None, key_positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return longer queries (b, h, t, d+w) and keys (b, g, s, d+w) whose products / sqrt(d) are the whole logits.

        So fused attention needs no (t, s): `F.scaled_dot_product_attention(*joined(q, k), values, scale=dim**-0.5)`.

        Raises:
            ValueError: If an argument does not fit; the message says what to pass instead.
        """
        left, right = self._factors(q, k, positions, key_positions)
        moved = q.to(left.dtype) + self.u.to(left.dtype)[:, None]  # (b, h, t, d)
        longer_q = torch.cat([moved, left], dim=-1).to(q.dtype)  # (b, h, t, d+w)
        right = right.to(k.dtype).expand(*k.shape[:-1], self.width)  # (b, g, s, w)
        return longer_q, torch.cat([k, right], dim=-1)  # (b, h, t, d+w), (b, g, s, d+w)

    def _factors(self, q: Tensor, k: Tensor, *places: Tensor | None) -> tuple[Tensor, Tensor]:
        _check(q, k, self.dim, self.heads)
        m, n = self._angles(q, k, *places)
        x = q.to(torch.promote_types(q.dtype, torch.float32))  # (b, h, t, d)
        a = (x + self.v.to(x.dtype)[:, None]) @ self.weight.to(x.dtype)  # (b, h, t, w)
        a_sin, a_cos = a.chunk(2, dim=-1)  # (b, h, t, w/2)
        sin, cos = m.sin().to(x), m.cos().to(x)  # (..., t, w/2)
        left = torch.cat([a_sin * sin + a_cos * cos, a_cos * sin - a_sin * cos], dim=-1)  # (b, h, t, w)
        return left, torch.cat([n.cos(), n.sin()], dim=-1).to(x)  # (b, h, t, w), (..., s, w)

    def _angles(
        self, q: Tensor, k: Tensor, positions: Tensor | None, key_positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        where = "cpu" if q.device.type == "mps" else q.device  # mps has no float64
        t, s = q.shape[-2], k.shape[-2]
        for name, given, x in (("positions", positions, q), ("key_positions", key_positions, k)):
            number = isinstance(given, Tensor) and given.dtype != torch.bool and not given.is_complex()
            b, _, length, _ = x.shape
            if given is not None and not (number and given.shape in ((length,), (b, length), (1, length))):
                wanted = f"a tensor of numbers ({length},) or {(b, length)}"
                raise ValueError(f"transformer_xl: {name} must be {wanted}, got {_kind(given)}; one a token")
        key_positions = positions if key_positions is None and positions is not None and t == s else key_positions
        m = torch.arange(s - t, s, device=where) if positions is None else positions.to(where)
        n = torch.arange(s, device=where) if key_positions is None else key_positions.to(where)
        pair = torch.arange(self.width // 2, dtype=torch.float64, device=where)  # (w/2,)
        theta = self.base ** (-2 * pair / self.width)  # (w/2,)
        m, n = (place.double()[..., None, :, None] * theta for place in (m, n))
        return m, n  # (..., t, w/2), (..., s, w/2)

    def extra_repr(self) -> str:
        """Return the arguments, for `print(model)`."""
        return f"dim={self.dim}, heads={self.heads}, base={self.base:g}, width={self.width}"


def _check_sinusoid(width: int, base: float) -> None:
    if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 2 or width % 2:
        raise ValueError(
            f"transformer_xl: width must be an even positive integer, got {width!r}; sines pair with cosines"
        )
    real = isinstance(base, int | float | np.integer | np.floating) and not isinstance(base, bool)
    if not real or not 0 < base < float("inf"):
        raise ValueError(f"transformer_xl: base must be positive and finite, got {base!r}; the paper takes 10,000")


def _row(name: str, given: object, length: int) -> np.ndarray:
    row = _array(name, given, 1)
    if len(row) != length or not np.isfinite(row).all():
        raise ValueError(f"transformer_xl: {name} must be {length} finite numbers, got {row}; one a token")
    return row


def _array(name: str, given: object, axes: int) -> np.ndarray:
    try:
        array = np.asarray(given)
    except (RuntimeError, TypeError, ValueError):  # ragged lists, tensors that NumPy cannot read
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or array.ndim != axes:
        raise ValueError(f"transformer_xl: {name} must be numbers in {axes} axes, got {_kind(given)}")
    return array.astype(np.float64)


def _check(q: Any, k: Any, dim: int, heads: int, kind: type = Tensor) -> None:
    """Check tensors, or the function's arrays, which have no batch."""
    b, what = ("b, ", "a floating point tensor") if kind is Tensor else ("", "numbers")
    for name, x, axes in (("q", q, f"{b}{heads}, t, {dim}"), ("k", k, f"{b}g, s, {dim}")):
        real = isinstance(x, kind) and (kind is np.ndarray or (x.is_floating_point() and x.ndim == 4))
        if not real or x.shape[-1] != dim or (name == "q" and heads != x.shape[-3]):
            raise ValueError(f"transformer_xl: {name} must be {what} ({axes}), got {_kind(x)}; split off the heads")
    if q.shape[:-3] != k.shape[:-3] or not k.shape[-3] or q.shape[-3] % k.shape[-3]:
        raise ValueError(f"transformer_xl: k must be of q's batch with g dividing h, got {_kind(k)} for q {_kind(q)}")


def _kind(given: object) -> str:
    return f"{getattr(given, 'dtype', type(given).__name__)} {tuple(getattr(given, 'shape', ()))}"
