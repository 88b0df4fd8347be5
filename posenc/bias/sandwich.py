"""Sandwich: add to each logit the dot product of two sinusoidal encodings, less with distance.

Paper: Chi et al., 2023, "Dissecting Transformer Length Extrapolation via the Lens of Receptive
       Field Analysis", https://arxiv.org/abs/2212.10356, the section on Sandwich.
Used:  its authors' language models; an option of NVIDIA NeMo
Cost:  nothing to learn; one matrix product of sinusoids for all heads

Key:   b batch, h heads, t queries, s keys, d width of the sinusoids, m position of a query,
       n of a key

    theta_k    = base^(-2k/d),  k = 1 .. d/2
    B[i, m, n] = h / (8 i) (sum_k cos((m - n) theta_k) - d/2),  i = 1 .. h

so the sum is PE(m) . PE(n), and B is 0 at distance 0, never positive and the same for past and
future. Up to a distance of `base` it falls about as the logarithm, with ripples: by h/(8i) d/8 for
each factor of ten. The first head is the steepest. The width d is no width of a head: the paper
takes 128 for all its models, NeMo what it is given. k counts from 1, as in the paper's equation and
NeMo; Vaswani et al. count from 0. NeMo computes in float32, this file in float64.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn


def sandwich(
    positions: ArrayLike,
    key_positions: ArrayLike,
    heads: int,
    dim: int = 128,
    base: float = 10_000.0,
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,).

    Raises:
        ValueError: If `heads` is below 1, `dim` odd or below 2, or `base` not positive and finite.
        ValueError: If positions are not (t,) and (s,).
    """
    slopes = _slopes(heads)[:, None, None]  # (h, 1, 1)
    theta = _frequencies(dim, base)  # (d/2,)
    m = np.asarray(positions, np.float64)
    n = np.asarray(key_positions, np.float64)
    # reshape refuses a batch (b, t); m[:, None] would broadcast it silently
    offset = m.reshape(len(m), 1) - n.reshape(1, len(n))  # (t, s)
    # one frequency after the other, with no array (t, s, d/2)
    cosines = sum(np.cos(offset * frequency) for frequency in theta)  # (t, s)
    return slopes * (cosines - dim / 2)  # (h, t, s)


class Sandwich(nn.Module):
    """Give the bias to add to the logits; nothing is learned or stored.

    Args:
        heads: Number of query heads h.
        dim: Width d of the sinusoids, even; 128 whatever the width of the model.
        base: Sets the longest wavelength, 2 pi base positions.

    Raises:
        ValueError: If `heads` is below 1, `dim` odd or below 2, or `base` not positive and finite.
        ValueError: In a call, if a lone query has no `key_positions`.

    Examples:
        >>> Sandwich(heads=8)(torch.tensor([0]), torch.tensor([0, 1, 10, 100, 1000]))[0, 0]
        tensor([  0.0000,  -1.4466, -19.3409, -33.3189, -53.3896])
    """

    def __init__(self, heads: int, dim: int = 128, base: float = 10_000.0):
        super().__init__()
        # tuples, not buffers: model.to(torch.bfloat16) would round them
        self.slopes = tuple(_slopes(heads).tolist())
        self.theta = tuple(_frequencies(dim, base).tolist())
        self.heads = heads
        self.dim = dim
        self.base = base

    def forward(self, positions: Tensor, key_positions: Tensor | None = None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        `key_positions` default to `positions`; a lone query must be given them. A batch (b, t) or
        (b, s) gives (b, h, t, s).
        """
        m, n = _positions(positions, key_positions)
        # cos(a - b) = cos a cos b + sin a sin b: two tables, not d/2 cosines for each pair
        cosines = self._sinusoids(m) @ self._sinusoids(n).mT  # (..., t, s)
        slopes = cosines.new_tensor(self.slopes)[:, None, None]  # (h, 1, 1)
        bias = slopes * (cosines - self.dim / 2).unsqueeze(-3)  # (..., h, t, s)
        return bias.to(positions.device, torch.float32)

    def score_mod(
        self, positions: Tensor, key_positions: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_positions(positions, key_positions))
        slopes = m.new_tensor(self.slopes)  # (h,)

        def _modify(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            offset = _at(m, b, q_idx) - _at(n, b, kv_idx)
            # one after the other: FlexAttention's kernels have no sum over an axis
            cosines = sum([torch.cos(offset * frequency) for frequency in self.theta])
            bias = slopes[h] * (cosines - self.dim / 2)
            return score + bias.to(score.dtype)

        return _modify

    def _sinusoids(self, positions: Tensor) -> Tensor:
        """Return the cosines and sines (..., t, d) of positions (..., t)."""
        angle = positions[..., None] * positions.new_tensor(self.theta)  # (..., t, d/2)
        return torch.cat([angle.cos(), angle.sin()], dim=-1)  # (..., t, d)


def _slopes(heads: int) -> np.ndarray:
    """Return the slopes h / (8 i) of the heads i = 1 .. h."""
    if heads < 1:
        raise ValueError(f"sandwich: heads must be 1 or more, got {heads}")
    return heads / (8 * np.arange(1, heads + 1))  # (h,)


def _frequencies(dim: int, base: float) -> np.ndarray:
    """Return theta (d/2,), in radians a position, highest first."""
    if dim < 2 or dim % 2:
        raise ValueError(f"sandwich: dim must be even, 2 or more, got {dim}; the paper takes 128")
    if not 0 < base < float("inf"):
        raise ValueError(f"sandwich: base must be positive and finite, got {base}")
    return base ** (-2 * np.arange(1, dim // 2 + 1) / dim)  # (d/2,)


def _positions(positions: Tensor, key_positions: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the positions of queries and keys in float64."""
    if key_positions is None:
        # a lone query has a cache of keys, over which its bias (h, 1, 1) would broadcast
        if positions.shape[-1] == 1:
            raise ValueError(
                "sandwich: key_positions must be given for a lone query, got None; "
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
