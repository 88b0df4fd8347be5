"""ALiBi: take from each logit a penalty proportional to the distance, at a fixed slope a head.

Paper: Press et al., 2021, "Train Short, Test Long: Attention with Linear Biases Enables Input
       Length Extrapolation", https://arxiv.org/abs/2108.12409, sec. 3.
Used:  BLOOM, MPT, Falcon-RW, Baichuan-13B, BTLM; symmetric in JinaBERT and the encoder of data2vec
       2.0
Cost:  nothing to learn; one product for each pair and head, or two more channels of q and k

Key:   b batch, h heads, t queries, s keys, c channels, m position of a query, n of a key

    B[i, m, n] = -slopes[i] (m - n)          key n at or before query m
               = -right_slopes[i] (n - m)    key n ahead; by default slopes[i]; -inf if causal
    slopes[i]  = 2^(-8 (i+1) / h),  i = 0 .. h-1, if h is a power of two; MPT can set the 8

so only offsets count, and each step back divides a key's weight by e^slope. For other h the paper's
code and MPT's take the slopes of the closest lower power of two, then every other one of its
double; the formula for any h gives another set. The paper states the causal case; the symmetric one
is for encoders, and right_slopes=0 leaves keys ahead unpenalized. BLOOM and MPT write slope * n,
which differs from -slope (m - n) by a constant of each query: softmax does not see it. Falcon adds
its bias before it divides by sqrt(d): its slopes here are alibi_slopes(h) / sqrt(head dim).
"""

import math

import numpy as np
import torch
from torch import Tensor, nn


def alibi_slopes(heads: int, alibi_bias_max: float = 8.0) -> np.ndarray:
    """Return the slopes (h,) in float64, for any number of heads as the paper's code and MPT's do.

    Examples:
        >>> alibi_slopes(4)
        array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    lower = 2 ** int(math.log2(heads))  # the closest power of two
    of_double = 2.0 ** (-alibi_bias_max * np.arange(1, 2 * lower + 1) / (2 * lower))
    # every second one is a slope of `lower` heads; heads beyond these take the others
    return np.concatenate([of_double[1::2], of_double[::2]])[:heads]  # (h,)


def alibi(
    positions,
    key_positions,
    heads: int,
    slopes=None,
    right_slopes=None,
    causal: bool = False,
    alibi_bias_max: float = 8.0,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    left, right = _slopes(heads, slopes, right_slopes, causal, alibi_bias_max)
    m = np.asarray(positions, np.float64).reshape(len(positions), 1)  # (t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, len(key_positions))  # (1, s)
    offset = n - m  # (t, s)
    slope = np.where(offset > 0, -right[:, None, None], left[:, None, None])  # (h, t, s)
    return slope * offset  # (h, t, s)


class ALiBi(nn.Module):
    """Give the bias to add to the logits; nothing is learned or stored.

    Args:
        heads: Number of heads h.
        slopes: Of the keys at or before the query, one number or one a head; by default those of
            `alibi_slopes`.
        right_slopes: Of the keys ahead, likewise; by default `slopes`, 0 for no penalty.
        causal: Give -inf to the keys ahead, where the logits have no causal mask already.
        alibi_bias_max: The 8 of 2^-8, the slope of the flattest head; MPT's config calls it so.

    Examples:
        >>> bias = ALiBi(heads=8)(torch.tensor([3]), torch.arange(6))  # one query, six keys
        >>> bias[0].exp()  # slope 1/2: e^(-distance/2)
        tensor([[0.2231, 0.3679, 0.6065, 1.0000, 0.6065, 0.3679]])
    """

    def __init__(
        self,
        heads: int,
        slopes=None,
        right_slopes=None,
        causal: bool = False,
        alibi_bias_max: float = 8.0,
    ):
        super().__init__()
        left, right = _slopes(heads, slopes, right_slopes, causal, alibi_bias_max)
        self.heads = heads
        self.slopes, self.right_slopes = tuple(left.tolist()), tuple(right.tolist())

    def forward(self, positions: Tensor, key_positions=None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        Keys stand where queries do by default. A batch (b, t) or (b, s) gives (b, h, t, s).
        """
        m, n = _in_float64(positions, key_positions)
        offset = n[..., None, :] - m[..., :, None]  # (..., t, s)
        offset = offset.to(positions.device, torch.float32)[..., None, :, :]  # (..., 1, t, s)
        left, right = offset.new_tensor([self.slopes, self.right_slopes])[..., None, None]
        slope = torch.where(offset > 0, -right, left)  # (..., h, t, s)
        return slope.mul_(offset)  # (..., h, t, s)

    def score_mod(self, positions: Tensor, key_positions=None):
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_in_float64(positions, key_positions))  # one row serves each b
        left, right = m.new_tensor([self.slopes, self.right_slopes], dtype=torch.float32)

        def _modify(score, b, h, t, s):
            offset = (n[b * (len(n) > 1), s] - m[b * (len(m) > 1), t]).float()
            slope = torch.where(offset > 0, -right[h], left[h])
            return score + (slope * offset).to(score.dtype)

        return _modify

    def channels(self, positions: Tensor, key_positions=None) -> tuple[Tensor, Tensor]:
        """Return channels of queries (h, t, 2) and keys (1, s, 2) whose products are the bias.

        Behind q and k they spare attention a bias (h, t, s). Causal only: keys ahead get a bonus
        in place of a penalty. Float64, from the first query on: that keeps the numbers small.
        """
        m, n = _in_float64(positions, key_positions)
        first = m[..., :1]
        m, n = (m - first)[..., None, :], (n - first)[..., None, :]  # (..., 1, t), (..., 1, s)
        slopes = m.new_tensor(self.slopes)[:, None, None]  # (h, 1, 1)
        of_queries = slopes * torch.stack([torch.ones_like(m), -m], dim=-1)  # (..., h, t, c)
        of_keys = torch.stack([n, torch.ones_like(n)], dim=-1)  # (..., 1, s, c)
        return of_queries, of_keys


def _slopes(heads, slopes, right_slopes, causal, alibi_bias_max):
    left = alibi_slopes(heads, alibi_bias_max) if slopes is None else slopes
    right = left if right_slopes is None else right_slopes
    left, right = (np.broadcast_to(np.asarray(x, np.float64), heads) for x in (left, right))
    if not ((left >= 0) & (left < np.inf) & (right >= 0)).all():
        raise ValueError(
            f"alibi: slopes must be finite and 0 or more, got {left} back and {right} ahead"
        )
    return left, np.full(heads, np.inf) if causal else right  # (h,), (h,)


def _in_float64(positions, key_positions):
    where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
    keys = positions if key_positions is None else key_positions
    return positions.to(where, torch.float64), keys.to(where, torch.float64)
