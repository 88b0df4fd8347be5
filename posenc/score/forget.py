"""Forget: lower each logit by what the tokens since the key have made the head forget.

Paper: Lin et al., 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
       https://arxiv.org/abs/2503.02130, sec. 3.
Used:  FoX, PaTH-FoX; x-transformers (as data-dependent ALiBi) and flash-linear-attention offer it
Cost:  heads x (dim + 1) numbers to learn, or none where the caller computes gates; s sums a head

Key:   b batch, h heads, g key heads, t queries, s keys, d head dim

    f(l)          = weight . k_l + bias for each head, or the `gates` given
    F(x)          = sum of ln sigmoid(f(l)) over the tokens l at positions <= x
    s(q, k, m, n) = F(m) - F(n), the sum over the tokens after the key up to the query

so with one gate for all tokens it is causal ALiBi of slope -ln sigmoid(f), and a token that shuts
its gate hides all before it. A key ahead of the query scores 0: causal attention is meant. F grows
with the text, so it is of float64. Tokens that `mask` hides forget nothing: this matters between
tokens that are seen, as in packed documents whose positions restart, not at either end.

The paper reads the gates from the tokens x, not from the keys: pass x W + b as `gates`. Its code
starts the bias at 0, x-transformers at 5.
"""

import numpy as np
import torch
from torch import Tensor, nn


def forget(q, k, positions, key_positions, weight=None, bias=None, gates=None, mask=None):
    """Return the float64 scores (h, t, s) of `q` (h, t, d) and `k` (g, s, d)."""
    k = np.asarray(k, np.float64)
    m = np.reshape(positions, (len(q[0]), 1, 1))
    n = np.reshape(key_positions, k.shape[1])
    if gates is None:
        each = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
        gates = np.einsum("hsd,hd->hs", each, np.asarray(weight)) + np.asarray(bias)[:, None]
    fade = -np.logaddexp(0, np.negative(gates))  # (h, s)
    fade = fade[:, None]
    if mask is not None:
        fade = np.where(mask, fade, 0)  # (..., s)
    between = (n[:, None] < n) & (n <= m)  # (t, s, s)
    return np.einsum("htl,tsl->hts", fade, between)  # (h, t, s)


class Forget(nn.Module):
    """Score each key by the forget gates of the tokens after it, up to the query.

    `weight` (heads, dim) and `bias` (heads,) read the gates from the keys; of grouped heads, each
    query head reads its own from their key head. `weight` starts normal with standard deviation
    0.02, `bias` at `initial`. Where each call is given `gates`, delete both.

    Args:
        dim: Width d of a head.
        heads: Number of query heads h, each with gates of its own; key heads may be fewer.
        initial: Logit of every gate at the start; at 0 a token halves the weight of those before.

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

    def forward(self, q, k, positions=None, key_positions=None, gates=None, mask=None) -> Tensor:
        """Return the scores (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t), in any order. By default keys stand at 0 .. s-1, or
        where as many queries do, and queries where the last t keys do. `gates` (b, h, s) are
        logits in place of those read. `mask` (b, h, t, s), or less, is true where a query may look.
        """
        of_queries, of_keys = self._sums(q, k, positions, key_positions, gates, mask)
        scores = (of_queries - of_keys).clamp(max=0)
        return scores.to(q)  # (b, h, t, s)

    def score_mod(self, q, k, positions=None, key_positions=None, gates=None, mask=None):
        """Return modify(score, b, h, t, s): the same, where `mask` has one row for all queries."""
        of_queries, of_keys = self._sums(q, k, positions, key_positions, gates, mask)
        rows = of_keys.shape[2]
        if rows > 1:
            raise ValueError(f"forget: mask must be one row for all queries, got {rows} rows")
        m, m_rest = _in_float32(of_queries[..., 0])  # (b, h, t), (b, h, t)
        n, n_rest = _in_float32(of_keys[:, :, 0])  # (b, h, s), (b, h, s)

        def _modify(score, b, h, t, s):
            difference = m[b, h, t] - n[b, h, s]
            rest = m_rest[b, h, t] - n_rest[b, h, s]
            return score + (difference + rest).clamp(max=0)

        return _modify

    def gates(self, k: Tensor) -> Tensor:
        """Return the logits of the gates (b, h, s), as read from the keys `k` (b, g, s, d)."""
        each = k.repeat_interleave(len(self.weight) // k.shape[1], dim=1)  # (b, h, s, d)
        logits = torch.einsum("bhsd,hd->bhs", each, self.weight.to(k))
        return logits + self.bias.to(k)[:, None]  # (b, h, s)

    def _sums(self, q, k, positions, key_positions, gates, mask):
        """Return F at the queries (b, h, t, 1) and the keys (b, h, 1, s), or (b, h, t, s)."""
        m, n = _places(q, k, positions, key_positions)
        gates = self.gates(k.to(n)) if gates is None else gates.to(n)
        fade = nn.functional.logsigmoid(gates).unsqueeze(2)  # (b, h, 1, s)
        if mask is not None:
            fade = torch.where(mask.to(n.device), fade, 0)  # (..., s)
        b, h, t, _ = q.shape
        fade = fade.expand(b, h, -1, k.shape[2])  # of one row, or one a query
        _, _, rows, s = fade.shape
        ordered, order = n.sort()
        order = order.reshape(b, 1, 1, s).expand(fade.shape)
        sums = fade.gather(3, order).cumsum(3)
        sums = nn.functional.pad(sums, (1, 0))  # of no token, of the first, of the first two
        upto = torch.searchsorted(ordered, n, right=True).reshape(b, 1, 1, s)
        of_keys = sums.gather(3, upto.expand(fade.shape))
        upto = torch.searchsorted(ordered, m, right=True).reshape(b, 1, rows, t // rows)
        of_queries = sums.gather(3, upto.expand(b, h, rows, t // rows))
        return of_queries.reshape(b, h, t, 1), of_keys


def _in_float32(x):
    """Return two parts whose sum is as exact, for kernels that take no float64."""
    high = x.float()
    return high, (x - high).float()


def _places(q, k, positions, key_positions):
    b, _, t, d = q.shape
    s = k.shape[2]
    if k.shape[3] != d or not q.is_floating_point():
        got = f"{q.dtype} of width {d} and {k.shape[3]}"
        raise ValueError(f"forget: q and k must be floats of one width, got {got}")
    if positions is key_positions is None and t > s:
        got = "None; or transpose(1, 2) if tokens come before heads"
        raise ValueError(f"forget: positions must be given for {t} queries, {s} keys, got {got}")
    if key_positions is None:
        key_positions = torch.arange(s, device=q.device)
        if positions is not None and t == s:
            key_positions = positions
    if positions is None:
        positions = key_positions[..., s - t :]
    for given, length in ((positions, t), (key_positions, s)):
        if given.shape[-1] != length:
            raise ValueError(f"forget: positions must be {length} a row, got {tuple(given.shape)}")
    where = "cpu" if q.device.type == "mps" else q.device  # mps lacks float64
    m = positions.to(where, torch.float64).expand(b, t)
    n = key_positions.to(where, torch.float64).expand(b, s)
    return m.contiguous(), n.contiguous()  # (b, t), (b, s)
