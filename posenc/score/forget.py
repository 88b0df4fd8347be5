"""Forget: add to each logit the log forget gates of the tokens after the key, up to the query.

Paper: Lin et al., 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
       https://arxiv.org/abs/2503.02130, sec. 3.
Used:  FoX, PaTH-FoX; x-transformers (as data-dependent ALiBi) and flash-linear-attention offer it
Cost:  heads x (dim + 1) numbers to learn, or none where the caller computes gates; s sums a head

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim

    f(l)          = weight . k_l + bias for each head, or the `gates` given
    F(x)          = sum of ln sigmoid(f(l)) over the tokens l at positions <= x
    s(q, k, m, n) = F(m) - F(n), the sum over the tokens after the key up to the query

so with one gate for all tokens it is causal ALiBi of slope -ln sigmoid(f), and a token whose gate
is 0 hides all before it. Nothing is added for a key ahead of the query: causal attention is meant.
F grows with the text, so it is of float64. Tokens that `mask` hides forget nothing: this matters
between tokens that are visible, as in packed documents whose positions restart, not at either end.

The paper computes the gates from the tokens x, not from the keys: pass x W + b as `gates`. Its code
starts the bias at 0, x-transformers at 5.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def forget(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    gates: ArrayLike | None = None,
    mask: ArrayLike | None = None,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d).

    Raises:
        ValueError: If positions are not (t,) and (s,).
    """
    k = np.asarray(k, np.float64)
    h, t, _ = np.shape(q)
    m = np.reshape(positions, (t, 1, 1))
    n = np.reshape(key_positions, k.shape[1])
    if gates is None:
        k = np.repeat(k, h // len(k), axis=0)  # (h, s, d)
        gates = np.einsum("hsd,hd->hs", k, np.asarray(weight)) + np.asarray(bias)[:, None]
    # ln sigmoid, without an overflow on either side
    fade = -np.logaddexp(0, -np.asarray(gates, np.float64))  # (h, s)
    # an axis for queries, since a mask may hide other tokens from each
    fade = fade[:, None]  # (h, 1, s)
    if mask is not None:
        fade = np.where(mask, fade, 0)  # (..., s)
    between = (n[:, None] < n) & (n <= m)  # (t, s, s)
    return np.einsum("htl,tsl->hts", fade, between)  # (h, t, s)


class Forget(nn.Module):
    """Add the log forget gates of the tokens after each key, up to the query.

    `weight` (heads, dim) and `bias` (heads,) give the gates from the keys; of grouped heads, each
    query head computes its own from their key/value head. `weight` starts normal with standard
    deviation 0.02, `bias` at `initial`. Where each call is given `gates`, delete both.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with gates of its own; key/value heads may be fewer.
        initial: Logit of every gate at the start; at 0 a token halves the weight of those before.

    Raises:
        ValueError: In a call, if omitted positions have no default, or others another shape.
        ValueError: In a call, if `q` and `k` are not floats of one width.

    Examples:
        >>> q, k, gates = torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 3)
        >>> Forget(8, heads=1)(q, k, gates=gates).exp()[0, 0]  # what is left of each key
        tensor([[1.0000, 1.0000, 1.0000],
                [0.5000, 1.0000, 1.0000],
                [0.2500, 0.5000, 1.0000]])
    """

    def __init__(self, dim: int, heads: int, initial: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(heads, dim))
        self.bias = nn.Parameter(initial + torch.zeros(heads))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        gates: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t), in any order. With t = s > 1, `positions` default to
        0 .. t-1; with t = s, `key_positions` default to `positions`. `gates` (b, h, s) are logits
        in place of those computed. `mask` (b, h, t, s), or less, is true where a key is visible.
        """
        sums_q, sums_k = self._sums(q, k, positions, key_positions, gates, mask)
        # the difference is positive where a key lies ahead
        scores = (sums_q - sums_k).clamp(max=0)
        return scores.to(q)  # (b, h, t, s)

    def score_mod(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        gates: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Callable[..., Tensor]:
        """Return modify(score, b, h, q_idx, kv_idx), which adds the same in FlexAttention.

        `mask` must have one row for all queries.
        """
        sums_q, sums_k = self._sums(q, k, positions, key_positions, gates, mask)
        rows = sums_k.shape[2]
        if rows > 1:
            raise ValueError(f"forget: mask must be one row for all queries, got {rows} rows")
        # kernels take no float64
        high_m, low_m = _in_float32(sums_q[..., 0])  # (b, h, t), (b, h, t)
        high_n, low_n = _in_float32(sums_k[:, :, 0])  # (b, h, s), (b, h, s)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            high = high_m[b, h, q_idx] - high_n[b, h, kv_idx]
            low = low_m[b, h, q_idx] - low_n[b, h, kv_idx]
            return score + (high + low).clamp(max=0)

        return _modify

    def gates(self, k: Tensor) -> Tensor:
        """Return the logits of the gates (b, h, s), as computed from the keys `k` (b, g, s, d)."""
        k = k.repeat_interleave(len(self.weight) // k.shape[1], dim=1)  # (b, h, s, d)
        logits = torch.einsum("bhsd,hd->bhs", k, self.weight.to(k))
        return logits + self.bias.to(k)[:, None]  # (b, h, s)

    def _sums(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None,
        key_positions: Tensor | None,
        gates: Tensor | None,
        mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return F at the queries (b, h, t, 1) and the keys (b, h, 1, s), or (b, h, t, s)."""
        b, h, _, d = q.shape
        # q's content is unused, so a wrong width would go unnoticed
        if k.shape[3] != d or not q.is_floating_point():
            got = f"{q.dtype} of width {d} and {k.shape[3]}"
            raise ValueError(f"forget: q and k must be floats of one width, got {got}")
        m, n = _positions(q, k.shape[2], positions, key_positions)
        # in float64, as positions are: far tokens differ in the last digits of long sums
        if gates is None:
            gates = self.gates(k.to(n))
        fade = nn.functional.logsigmoid(gates.to(n)).unsqueeze(2)  # (b, h, 1, s)
        if mask is not None:
            fade = torch.where(mask.to(n.device), fade, 0)  # (..., s)
        # the mask decides whether one row of sums serves all queries
        return _sums_up_to(m, n, fade.expand(b, h, -1, k.shape[2]))


def _sums_up_to(m: Tensor, n: Tensor, fade: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of `fade` (b, h, 1 or t, s) over the keys up to each query and each key."""
    b, h, rows, s = fade.shape
    t = m.shape[1]
    # keys may come in any order: sum along their positions
    ordered, order = n.sort()
    order = order.reshape(b, 1, 1, s).expand(fade.shape)
    sums = fade.gather(3, order).cumsum(3)
    # the first sum is that of no token, for queries before all keys
    sums = nn.functional.pad(sums, (1, 0))
    up_to_m = torch.searchsorted(ordered, m, right=True).reshape(b, 1, rows, t // rows)
    up_to_n = torch.searchsorted(ordered, n, right=True).reshape(b, 1, 1, s)
    sums_q = sums.gather(3, up_to_m.expand(b, h, rows, t // rows)).reshape(b, h, t, 1)
    sums_k = sums.gather(3, up_to_n.expand(fade.shape))
    return sums_q, sums_k


def _in_float32(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return two parts in float32 whose sum is nearly as exact as float64."""
    high = x.float()
    return high, (x - high).float()


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, in float64."""
    b, _, t, _ = q.shape
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"forget: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        key_positions = positions
    # one position would broadcast over all tokens without an error
    for name, p, length in (("positions", positions, t), ("key_positions", key_positions, s)):
        if p.shape[-1:] != (length,):
            fitting = f"({length},) or ({b}, {length})"
            raise ValueError(f"forget: {name} must have shape {fitting}, got {tuple(p.shape)}")
    device = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
    m = positions.to(device, torch.float64).expand(b, t)
    n = key_positions.to(device, torch.float64).expand(b, s)
    # searchsorted copies what is strided, and warns
    return m.contiguous(), n.contiguous()  # (b, t), (b, s)
