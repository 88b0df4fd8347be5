"""CoPE: count relevant tokens back to each key, and add the query's product with a count's vector.

Paper: Golovneva et al., 2024, "Contextual Position Encoding: Learning to Count What's Important",
       https://arxiv.org/abs/2405.18719, sec. 4 and app. B.
Used:  research models up to GPT-2's size; x-transformers offers it
Cost:  length x dim numbers to learn, for all heads; (b, h, t, s) gates a call, no fused attention

Key:   b batch, h heads, g key/value heads, t queries, s keys, d head dim, r rows of the table

    gate(m, l)    = sigmoid(q_m . k_l / sqrt(d))        for a query at m and a key at l
    count(m, n)   = sum of gate(m, l) over the tokens l with n <= position of l <= m, at most r - 1
    s(q, k, m, n) = q_m . e[count(m, n)],  e = weight, interpolated between its two nearest rows

so where every gate is 1 it is a table of relative positions looked up at m - n + 1: the key counts
too. Nothing is added for a key ahead of the query: causal attention is meant. Tokens that `mask`
hides do not count. This matters where they lie between tokens that are visible or share a position
with them: in packed documents whose positions restart, or with padding at position 0. FlexAttention
shows one pair at a time, and a count sums over all keys between: there is no score_mod.

Here q . e is not divided by sqrt(d), as in the paper's listing and x-transformers. The authors'
training code divides it by default (scale=True): divide such a table once.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def cope(
    q: ArrayLike,
    k: ArrayLike,
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike,
    mask: ArrayLike | None = None,
) -> np.ndarray:
    """Return, in float64, what is added to the logits (h, t, s) of `q` (h, t, d) and `k` (g, s, d).

    Raises:
        ValueError: If positions are not (t,) and (s,).
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    weight = np.asarray(weight, np.float64)
    k = np.repeat(k, len(q) // len(k), axis=0)  # (h, s, d)
    m = np.reshape(positions, (q.shape[1], 1))
    n = np.reshape(key_positions, (1, k.shape[1]))
    past = n <= m  # (t, s)
    counted = past if mask is None else past & np.asarray(mask)  # (..., t, s)

    logits = q @ k.swapaxes(1, 2) / q.shape[2] ** 0.5  # (h, t, s)
    # a sigmoid that overflows on neither side
    gate = np.where(counted, np.exp(-np.logaddexp(0, -logits)), 0)
    last = len(weight) - 1
    # a product with ones for the tokens l at the position of a key or after it
    count = np.minimum(gate @ (n <= n.T), last)  # (h, t, s)
    # no row lies above the last one: there the fraction is 0
    low = count.astype(int)
    high = np.minimum(low + 1, last)
    products = q @ weight.T  # (h, t, r)
    below = np.take_along_axis(products, low, axis=2)  # (h, t, s)
    above = np.take_along_axis(products, high, axis=2)  # (h, t, s)
    scores = below + (above - below) * (count - low)
    return np.where(past, scores, 0)  # (h, t, s)


class CoPE(nn.Module):
    """Add to each logit the query's product with a vector for the number of relevant tokens.

    `weight` (length, dim) starts at zero, as in the paper's listing: at first nothing is added.

    Args:
        dim: Width d of a head.
        length: Rows of the table; counts past length - 1 share the last one.

    Raises:
        ValueError: In a call, if omitted positions have no default.
        ValueError: In a call, if `q` is not floating point.

    Examples:
        >>> encoding = CoPE(dim=1, length=5)
        >>> encoding.weight.data[:, 0] = torch.arange(5)  # so that the count itself is added
        >>> k = torch.tensor([50.0, -50.0, 50.0, -50.0]).view(1, 1, 4, 1)  # two keys are relevant
        >>> encoding(torch.ones(1, 1, 4, 1), k)[0, 0, -1].round().tolist()
        [2.0, 1.0, 1.0, 0.0]
    """

    def __init__(self, dim: int, length: int = 64):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(length, dim))

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        positions: Tensor | None = None,
        key_positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return what is added to the logits (b, h, t, s) of `q` (b, h, t, d) for `k` (b, g, s, d).

        Positions are numbers, (t,) or (b, t), in any order. With t = s > 1, `positions` default to
        0 .. t-1; with t = s, `key_positions` default to `positions`. `mask`, true where a query may
        look, is broadcast to (b, h, t, s).
        """
        if not q.is_floating_point():
            raise ValueError(f"cope: q must be floating point, got {q.dtype}")
        m, n = _positions(q, k.shape[2], positions, key_positions)
        past = n <= m  # (..., 1, t, s)
        counted = past if mask is None else past & mask  # (..., t, s)

        # products in half precision would lose digits
        wide = q.to(torch.promote_types(q.dtype, torch.float32))
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).to(wide)  # (b, h, s, d)
        # autocast makes halves of a product, which are too coarse to be summed
        logits = (wide @ k.mT).to(wide) / q.shape[3] ** 0.5  # (b, h, t, s)
        gate = torch.where(counted, logits.sigmoid(), 0)

        last = len(self.weight) - 1
        count = _sums_from_key(n, gate).clamp(max=last)
        # clamped on both sides, since a NaN is no row of the table
        low = count.long().clamp(0, last)
        high = (low + 1).clamp(max=last)
        products = wide @ self.weight.to(wide).T  # (b, h, t, r)
        below = products.gather(3, low)  # (b, h, t, s)
        above = products.gather(3, high)  # (b, h, t, s)
        scores = below + (above - below) * (count - low)
        return torch.where(past, scores, 0).to(q.dtype)  # (b, h, t, s)


def _sums_from_key(n: Tensor, gate: Tensor) -> Tensor:
    """Return, for each key, the sum of the gates (b, h, t, s) at its position n and after it."""
    # keys may come in any order: sum back from the furthest position
    ordered, order = n.sort(dim=-1)
    ordered_gate = gate.gather(3, order.expand(gate.shape))
    sums = ordered_gate.flip(3).cumsum(3).flip(3)
    # keys at one position count one another: all have the sum of the first
    first = torch.searchsorted(ordered, n.contiguous())
    return sums.gather(3, first.expand(gate.shape))  # (b, h, t, s)


def _positions(
    q: Tensor, s: int, positions: Tensor | None, key_positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries (b, h, t, d) and of `s` keys, to compare."""
    t = q.shape[2]
    if positions is None:
        # a lone token is a new one behind a cache, and its position is not 0
        if t != s or t == 1 or key_positions is not None:
            raise ValueError(
                f"cope: positions must be given for {t} queries and {s} keys, got None; "
                "or transpose(1, 2) if tokens come before heads"
            )
        positions = torch.arange(t, device=q.device)
    if key_positions is None:
        if t != s:
            raise ValueError(
                f"cope: key_positions must be given for {t} queries and {s} keys, got None"
            )
        key_positions = positions
    m = positions.unflatten(-1, (1, t, 1))  # (..., 1, t, 1)
    n = key_positions.unflatten(-1, (1, 1, s))  # (..., 1, 1, s)
    return m, n
