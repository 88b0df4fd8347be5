"""FIRE: add to each logit a learned function of the distance, as a share of the query's position.

Paper: Li et al., 2024, "Functional Interpolation for Relative Positions Improves Long Context
       Transformers", https://arxiv.org/abs/2310.04418, sec. 3.
Used:  studies of length extrapolation, among them DAPE's
Cost:  a small network to learn; a call runs it for every pair

Key:   b batch, h heads, t queries, s keys, u hidden units, m position of a query, n of a key

    psi(x)     = ln(|c| x + 1)
    share      = psi(|m - n|) / (psi(max(L, |m|, |n|)) + eps),  L = |multiplier| threshold
    B[i, m, n] = sum_u out_weight[i, u] relu(hidden_weight[u] share + hidden_bias[u]) + out_bias[i]

for head i, so the network's inputs are shares from 0 to 1 at any length, and up to position L the
bias depends on the distance alone. One hidden unit a distance makes B any bias of it: FIRE contains
T5, ALiBi and KERPLE (theorem 3.1). The distance to a key ahead is divided by the key's own
position, so past and future are alike; published listings, whose mask hides it, divide by the
query's. The paper counts from 1, DAPE's code from 0, as here; there hidden_* and out_* are mlp.0.*
and mlp.2.*, threshold is init_L.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def fire(
    positions: ArrayLike,
    key_positions: ArrayLike,
    c: ArrayLike,
    multiplier: ArrayLike,
    hidden_weight: ArrayLike,
    hidden_bias: ArrayLike,
    out_weight: ArrayLike,
    out_bias: ArrayLike,
    threshold: float = 512.0,
    eps: float = 1e-6,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    Raises:
        ValueError: If positions are not (t,) and (s,).
    """
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t); m[:, None] would broadcast it silently
    m = m.reshape(len(m), 1)  # (t, 1)
    n = n.reshape(1, len(n))  # (1, s)
    c = np.abs(np.asarray(c, np.float64))
    learned_threshold = np.abs(multiplier) * threshold
    reach = np.maximum(np.maximum(np.abs(m), np.abs(n)), learned_threshold)  # (t, s)
    share = np.log1p(c * np.abs(m - n)) / (np.log1p(c * reach) + eps)  # (t, s)
    hidden_weight = np.asarray(hidden_weight, np.float64)[:, :, None]  # (u, 1, 1)
    hidden_bias = np.asarray(hidden_bias, np.float64)[:, None, None]  # (u, 1, 1)
    hidden = np.maximum(hidden_weight * share + hidden_bias, 0)  # (u, t, s)
    out_weight = np.asarray(out_weight, np.float64)  # (h, u)
    out_bias = np.asarray(out_bias, np.float64)[:, None, None]  # (h, 1, 1)
    return np.tensordot(out_weight, hidden, axes=1) + out_bias  # (h, t, s)


class FIRE(nn.Module):
    """Give the bias to add to the logits, from a network with one hidden layer of ReLUs.

    Learned are `hidden_weight` (u, 1), `hidden_bias` (u,), `out_weight` (h, u) and `out_bias` (h,),
    which start as those of `torch.nn.Linear`, and the numbers `c` from 0.1 and `multiplier` from 1.

    Args:
        heads: Number of query heads h.
        width: Number of hidden units u.
        threshold: L before it is learned: up to this position the divisor is the same for all.
        eps: Added to the divisor, which is 0 where c is.

    Raises:
        ValueError: If `heads` is below 1.
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> FIRE(heads=8, threshold=64)(torch.arange(100)).shape
        torch.Size([8, 100, 100])
    """

    def __init__(self, heads: int, width: int = 32, threshold: float = 512.0, eps: float = 1e-6):
        super().__init__()
        if heads < 1:
            raise ValueError(f"fire: heads must be 1 or more, got {heads}")
        self.width = width
        self.threshold = threshold
        self.eps = eps
        self.c = nn.Parameter(torch.tensor(0.1))
        self.multiplier = nn.Parameter(torch.tensor(1.0))
        # Linear's bounds are 1 / sqrt(inputs)
        self.hidden_weight = nn.Parameter(torch.empty(width, 1).uniform_(-1, 1))
        self.hidden_bias = nn.Parameter(torch.empty(width).uniform_(-1, 1))
        bound = width**-0.5
        self.out_weight = nn.Parameter(torch.empty(heads, width).uniform_(-bound, bound))
        self.out_bias = nn.Parameter(torch.empty(heads).uniform_(-bound, bound))

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t) or
        (b, s) gives (b, h, t, s).
        """
        m, n = _positions(positions, key_positions)
        hidden_weight, hidden_bias, out_weight, out_bias = self._network()
        share = self._share(m[..., :, None], n[..., None, :])  # (..., t, s)
        # rounded only here: float32 holds shares of far tokens, not their positions
        share = share.to(positions.device, out_bias.dtype).unsqueeze(-3)  # (..., 1, t, s)
        hidden = hidden_weight[..., None] * share + hidden_bias[:, None, None]  # (..., u, t, s)
        # autocast would sum in half precision; it knows no meta device
        device = "cpu" if share.device.type == "meta" else share.device.type
        with torch.autocast(device, enabled=False):
            bias = torch.einsum("hu,...uts->...hts", out_weight, hidden.relu())  # (..., h, t, s)
        return (bias + out_bias[:, None, None]).float()  # (..., h, t, s)

    def score_mod(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_positions(positions, key_positions))
        hidden_weight, hidden_bias, out_weight, out_bias = self._network()

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            share = self._share(_at(m, b, q_idx), _at(n, b, kv_idx)).to(out_bias.dtype)
            bias = out_bias[h]
            # a loop, since FlexAttention's kernels have no sum over an axis
            for u in range(self.width):
                hidden = torch.relu(hidden_weight[u, 0] * share + hidden_bias[u])
                bias = bias + out_weight[h, u] * hidden
            return score + bias.to(score.dtype)

        return _modify

    def _share(self, m: Tensor, n: Tensor) -> Tensor:
        """Return the distance from m to n as a share of the position, both through psi."""
        c = self.c.to(m).abs()
        learned_threshold = self.multiplier.to(m).abs() * self.threshold
        reach = torch.maximum(torch.maximum(m.abs(), n.abs()), learned_threshold)
        return torch.log1p(c * (m - n).abs()) / (torch.log1p(c * reach) + self.eps)

    def _network(self) -> list[Tensor]:
        """Return weight and bias of the hidden and of the last layer, in float32 or finer."""
        dtype = torch.promote_types(self.out_bias.dtype, torch.float32)
        network = (self.hidden_weight, self.hidden_bias, self.out_weight, self.out_bias)
        return [parameter.to(dtype) for parameter in network]


def _positions(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys in float64."""
    if key_positions is None:
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError(
                "fire: key_positions must be given for a lone query, got None; "
                "torch.arange(s) for a cache of s keys"
            )
        key_positions = positions
    device = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
    return positions.to(device, torch.float64), key_positions.to(device, torch.float64)


def _at(positions: Tensor, b: Tensor, i: Tensor) -> Tensor:
    """Return the position of token i of sequence b, of (b, t) or (1, t)."""
    # one row serves every sequence
    row = 0 * b if len(positions) == 1 else b
    return positions[row, i]
