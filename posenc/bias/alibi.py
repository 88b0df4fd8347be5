"""ALiBi: subtract from each logit a penalty proportional to the distance, at a fixed slope a head.

Paper: Press et al., 2021, "Train Short, Test Long: Attention with Linear Biases Enables Input
       Length Extrapolation", https://arxiv.org/abs/2108.12409, sec. 3.
Used:  BLOOM, MPT, Falcon-RW, Baichuan-13B, BTLM; symmetric in JinaBERT and the encoder of data2vec
       2.0
Cost:  nothing to learn; one product for each pair and head, or two more channels of q and k

Key:   b batch, h heads, t queries, s keys, c channels, m position of a query, n of a key

    B[i, m, n] = -slopes[i] (m - n)          key n at or before query m
               = -right_slopes[i] (n - m)    key n ahead; by default slopes[i]; -inf if causal
    slopes[i]  = 2^(-8 (i+1) / h),  i = 0 .. h-1, if h is a power of two; MPT can set the 8

so only offsets count, and at each further position back a key's weight is divided by e^slope. For
other h the paper's code and MPT's take the slopes of the closest lower power of two, then every
other one of its double; the formula for any h gives another set. The paper states the causal case;
the symmetric one is for encoders, and right_slopes=0 leaves keys ahead unpenalized. BLOOM and MPT
write slope * n, which differs from -slope (m - n) by a constant of each query, which softmax
cancels. Falcon adds its bias before it divides by sqrt(d): its slopes here are alibi_slopes(h) /
sqrt(head dim).
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def alibi_slopes(heads: int, alibi_bias_max: float = 8.0) -> np.ndarray:
    """Return the slopes (h,) in float64, for any number of heads as the paper's code and MPT's do.

    Examples:
        >>> alibi_slopes(4)
        array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    # the formula is for a power of two: take the closest one below, and its double
    lower = 2 ** int(math.log2(heads))
    exponent = alibi_bias_max * np.arange(1, 2 * lower + 1) / (2 * lower)
    slopes_of_double = 2.0**-exponent
    # every second one is a slope of `lower` heads; heads beyond these take the others
    slopes = np.concatenate([slopes_of_double[1::2], slopes_of_double[::2]])
    return slopes[:heads]  # (h,)


def alibi(
    positions: ArrayLike,
    key_positions: ArrayLike,
    heads: int,
    slopes: ArrayLike | None = None,
    right_slopes: ArrayLike | None = None,
    causal: bool = False,
    alibi_bias_max: float = 8.0,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    Raises:
        ValueError: If a slope is negative, or one of `slopes` infinite.
        ValueError: If positions are not (t,) and (s,).
    """
    left, right = _slopes(heads, slopes, right_slopes, alibi_bias_max)
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t); m[:, None] would broadcast it silently
    offset = n.reshape(1, len(n)) - m.reshape(len(m), 1)  # (t, s)
    signed_slope = np.where(offset > 0, -right[:, None, None], left[:, None, None])  # (h, t, s)
    bias = signed_slope * offset  # (h, t, s)
    if causal:
        bias = np.where(offset > 0, -np.inf, bias)  # (h, t, s)
    return bias


class ALiBi(nn.Module):
    """Give the bias to add to the logits; nothing is learned or stored.

    Args:
        heads: Number of heads h.
        slopes: Of the keys at or before the query, one number or one a head; by default those of
            `alibi_slopes`.
        right_slopes: Of the keys ahead, likewise; by default `slopes`, 0 for no penalty.
        causal: Give -inf to the keys ahead, where the logits have no causal mask already.
        alibi_bias_max: The 8 in the formula; the flattest head has slope 2^-8. Named as in MPT's
            config.

    Raises:
        ValueError: If a slope is negative, or one of `slopes` infinite.
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> bias = ALiBi(heads=8)(torch.tensor([3]), torch.arange(6))  # one query, six keys
        >>> bias[0].exp()  # slope 1/2: e^(-distance/2)
        tensor([[0.2231, 0.3679, 0.6065, 1.0000, 0.6065, 0.3679]])
    """

    def __init__(
        self,
        heads: int,
        slopes: ArrayLike | None = None,
        right_slopes: ArrayLike | None = None,
        causal: bool = False,
        alibi_bias_max: float = 8.0,
    ):
        super().__init__()
        left, right = _slopes(heads, slopes, right_slopes, alibi_bias_max)
        self.heads = heads
        self.causal = causal
        # tuples, not buffers: model.to(torch.bfloat16) would round them
        self.slopes = tuple(left.tolist())
        self.right_slopes = tuple(right.tolist())

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t) or
        (b, s) gives (b, h, t, s).
        """
        m, n = _positions(positions, key_positions)
        offset = n[..., None, :] - m[..., :, None]  # (..., t, s)
        # rounded only here: float32 holds the offsets of far tokens, not their positions
        offset = offset.to(positions.device, torch.float32).unsqueeze(-3)  # (..., 1, t, s)
        left = offset.new_tensor(self.slopes)[:, None, None]  # (h, 1, 1)
        if self.causal:
            # a mask, not an infinite slope: that would be an infinite gradient of learned positions
            mask = torch.zeros_like(offset).masked_fill(offset > 0, -math.inf)  # (..., 1, t, s)
            return (left * offset).add_(mask)  # (..., h, t, s)
        right = offset.new_tensor(self.right_slopes)[:, None, None]  # (h, 1, 1)
        signed_slope = torch.where(offset > 0, -right, left)  # (..., h, t, s)
        # in place: spares a second tensor (b, h, t, s)
        return signed_slope.mul_(offset)  # (..., h, t, s)

    def score_mod(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_positions(positions, key_positions))
        left = m.new_tensor(self.slopes, dtype=torch.float32)  # (h,)
        right = m.new_tensor(self.right_slopes, dtype=torch.float32)  # (h,)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = (_at(n, b, kv_idx) - _at(m, b, q_idx)).float()
            bias = torch.where(offset > 0, -right[h], left[h]) * offset
            if self.causal:
                bias = torch.where(offset > 0, -math.inf, bias)
            return score + bias.to(score.dtype)

        return _modify

    def channels(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return channels of queries (h, t, 2) and keys (1, s, 2) whose products are the bias.

        Concatenate them with q and k in place of a bias (h, t, s), one of the two divided by the
        softmax scale, by which attention multiplies their products; `posenc.fast.alibi` does both.
        For causal attention only: keys ahead would get a positive bias. In float64, positions
        counted from the first query, so that the numbers stay small.
        """
        m, n = _positions(positions, key_positions)
        first = m[..., :1]
        m = (m - first).unsqueeze(-2)  # (..., 1, t)
        n = (n - first).unsqueeze(-2)  # (..., 1, s)
        slopes = m.new_tensor(self.slopes)[:, None, None]  # (h, 1, 1)
        # -slope (m - n) = (slope, -slope m) . (n, 1)
        query_channels = slopes * torch.stack([torch.ones_like(m), -m], dim=-1)  # (..., h, t, c)
        key_channels = torch.stack([n, torch.ones_like(n)], dim=-1)  # (..., 1, s, c)
        return query_channels, key_channels


def _slopes(
    heads: int,
    slopes: ArrayLike | None,
    right_slopes: ArrayLike | None,
    alibi_bias_max: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes (h,) of the keys at or before a query, and (h,) of those ahead."""
    if slopes is None:
        slopes = alibi_slopes(heads, alibi_bias_max)
    if right_slopes is None:
        right_slopes = slopes
    left = np.broadcast_to(np.asarray(slopes, np.float64), heads)
    right = np.broadcast_to(np.asarray(right_slopes, np.float64), heads)
    # a negative one rewards distance, an infinite one times a distance of 0 is NaN
    valid = (left >= 0) & (left < np.inf) & (right >= 0)
    if not valid.all():
        raise ValueError(
            f"alibi: slopes must be finite and 0 or more, got {left} back and {right} ahead"
        )
    return left, right


def _positions(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys in float64."""
    if key_positions is None:
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError(
                "alibi: key_positions must be given for a lone query, got None; "
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
