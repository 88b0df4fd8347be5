"""T5: add to each logit a bias learned for the bucket of the offset, one number for each head.

Paper: Raffel et al., 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
       Transformer", https://arxiv.org/abs/1910.10683, sec. 2.1.
Used:  T5, mT5, FLAN-T5, UL2, LongT5, MPNet; one table serves all layers of a stack, none the
       cross-attention
Cost:  buckets x h numbers to learn; a call finds the bucket of each pair and looks up its numbers

Key:   b batch, h heads, t queries, s keys, r buckets, o offsets, m position of a query, n of a key

    B[i, m, n] = weight[bucket(n - m), i]                                for head i
    bucket     = distance                                                if distance < exact
               = min(exact + floor(shared growth), one_side - 1)         otherwise
    growth     = ln(distance/exact) / ln(max_distance/exact)
    exact      = floor(one_side/2),  shared = one_side - exact
    bidirectional:  distance = |n - m|, one_side = r/2; keys ahead have their bucket plus one_side
    otherwise:      distance = m - n, one_side = r; keys ahead, where it is negative, have bucket 0

so near offsets have a bucket each, large ones share buckets that widen in proportion, and all from
max_distance on share the last. Bucket starts are computed in integers, because a rounded logarithm
can fall on the wrong side. T5's own float32 logarithm does so rarely: with buckets=48,
max_distance=81, bidirectional=False it misplaces distance 54; with powers of two never in our
tests. A fractional offset counts as the whole one toward 0. The offset is key - query. The bias is
not divided by sqrt(d), here as in T5, which does not divide q . k either: for its checkpoints give
`attention` scale=1.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def t5_bucket(
    offset: ArrayLike,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> np.ndarray:
    """Return the bucket of each offset key - query, an int64 array of the same shape.

    Examples:
        >>> t5_bucket([-200, -8, -1, 0, 1, 200])
        array([15,  8,  1,  0, 17, 31])
    """
    starts = _starts(buckets, max_distance, bidirectional)
    offset = np.trunc(np.asarray(offset, np.float64))
    distance = np.abs(offset) if bidirectional else -offset
    bucket = np.searchsorted(starts, distance, side="right")
    if bidirectional:
        # keys ahead have the second half of the table
        bucket = np.where(offset > 0, bucket + buckets // 2, bucket)
    return bucket


def t5(
    positions: ArrayLike,
    key_positions: ArrayLike,
    weight: ArrayLike,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    `weight` (r, h) is the table.

    Raises:
        ValueError: If r is below 2 a side, or odd if `bidirectional`.
        ValueError: If `max_distance` is within the exact buckets, or above 2**53.
        ValueError: If positions are not (t,) and (s,).
    """
    weight = np.asarray(weight, np.float64)  # (r, h)
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t); m[:, None] would broadcast it silently
    offset = n.reshape(1, len(n)) - m.reshape(len(m), 1)  # (t, s)
    bucket = t5_bucket(offset, len(weight), max_distance, bidirectional)  # (t, s)
    return weight[bucket].transpose(2, 0, 1)  # (h, t, s)


class T5(nn.Module):
    """Give the bias to add to the logits, from the learned `weight` (buckets, heads).

    It starts at zero; transformers starts it normal, with deviation 1 / sqrt(width of the model).

    Args:
        heads: Number of heads h.
        buckets: Rows of the table; even if `bidirectional`.
        max_distance: From this distance on all keys share a bucket.
        bidirectional: Give keys ahead buckets of their own; if not, they share bucket 0 with offset
            0, as in T5's decoder.

    Raises:
        ValueError: If `heads` is below 1, or `buckets` below 2 a side, or odd if `bidirectional`.
        ValueError: If `max_distance` is within the exact buckets, or above 2**53.
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> encoding = T5(heads=1)
        >>> encoding.weight.data[:, 0] = torch.arange(32)  # so that the bias is the bucket
        >>> encoding(torch.tensor([100]), torch.tensor([0, 50, 90, 99, 100, 101, 300])).tolist()
        [[[15.0, 13.0, 8.0, 1.0, 0.0, 17.0, 31.0]]]
    """

    def __init__(
        self,
        heads: int,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ):
        super().__init__()
        if heads < 1:
            raise ValueError(f"t5: heads must be 1 or more, got {heads}")
        self.heads = heads
        self.buckets = buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.starts = _starts(buckets, max_distance, bidirectional)
        self.weight = nn.Parameter(torch.zeros(buckets, heads))

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t) or
        (b, s) gives (b, h, t, s).
        """
        m, n = _positions(positions, key_positions)
        bucket = self._bucket(n[..., None, :] - m[..., :, None])  # (..., t, s)
        # index heads first, so that the bias is contiguous
        rows = bucket.flatten().to(self.weight.device)
        bias = self.weight.float().T.index_select(1, rows).unflatten(1, bucket.shape)
        return bias.movedim(0, -3)  # (..., h, t, s)

    def score_mod(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_positions(positions, key_positions))
        # the bias for offsets -reach .. reach; further out it is constant
        reach = self.starts[-1]
        offsets = torch.arange(-reach, reach + 1, device=positions.device)  # (o,)
        by_offset = self(torch.zeros_like(offsets[:1]), offsets)[:, 0]  # (h, o)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = _at(n, b, kv_idx) - _at(m, b, q_idx)
            column = offset.clamp(-reach, reach).int() + reach
            return score + by_offset[h, column].to(score.dtype)

        return _modify

    def _bucket(self, offset: Tensor) -> Tensor:
        """Return the bucket of each offset key - query, as `t5_bucket` does."""
        offset = offset.trunc()
        distance = offset.abs() if self.bidirectional else -offset
        bucket = torch.bucketize(distance, offset.new_tensor(self.starts), right=True)
        if self.bidirectional:
            # keys ahead have the second half of the table
            bucket = torch.where(offset > 0, bucket + self.buckets // 2, bucket)
        return bucket


def _starts(buckets: int, max_distance: int, bidirectional: bool) -> tuple[int, ...]:
    """Return the distances at which the buckets 1, 2, .. of one side start."""
    one_side = buckets // 2 if bidirectional else buckets
    exact = one_side // 2
    if exact < 1 or (bidirectional and buckets % 2):
        raise ValueError(
            f"t5: buckets must be 2 or more a side, and even if bidirectional, got {buckets}"
        )
    # beyond 2^53 float64 skips whole numbers
    if not exact < max_distance <= 2**53:
        bounds = f"more than {exact} and at most 2**53"
        raise ValueError(f"t5: max_distance must be {bounds}, got {max_distance}")
    starts = list(range(1, exact + 1))
    shared = one_side - exact
    for k in range(1, shared):
        start = int(exact * (max_distance / exact) ** (k / shared))
        # the first integer >= exact (max_distance/exact)^(k/shared): a float may be rounded below
        while start**shared < max_distance**k * exact ** (shared - k):
            start += 1
        starts.append(start)
    return tuple(starts)


def _positions(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys in float64."""
    if key_positions is None:
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError(
                "t5: key_positions must be given for a lone query, got None; "
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
