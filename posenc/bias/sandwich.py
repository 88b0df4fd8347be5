"""Sandwich: add to each logit the inner product of two sinusoidal encodings, less at a distance.

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

import numpy as np
import torch
from torch import Tensor, nn


def sandwich(
    positions, key_positions, heads: int, dim: int = 128, base: float = 10_000.0
) -> np.ndarray:
    """Return the float64 bias (h, t, s) between `positions` (t,) and `key_positions` (s,)."""
    slopes, theta = _slopes(heads), _theta(dim, base)  # (h,), (d/2,)
    m = np.asarray(positions, np.float64).reshape(len(positions), 1)  # (t, 1)
    n = np.asarray(key_positions, np.float64).reshape(1, len(key_positions))  # (1, s)
    total = sum(np.cos((m - n) * rate) for rate in theta) - dim / 2  # (t, s)
    return slopes[:, None, None] * total  # (h, t, s)


class Sandwich(nn.Module):
    """Give the bias to add to the logits; nothing is learned or stored.

    Args:
        heads: Number of query heads h.
        dim: Width d of the sinusoids, even; 128 whatever the width of the model.
        base: Sets the slowest wavelength, 2 pi base positions.

    Examples:
        >>> Sandwich(heads=8)(torch.tensor([0]), torch.tensor([0, 1, 10, 100, 1000]))[0, 0]
        tensor([  0.0000,  -1.4466, -19.3409, -33.3189, -53.3896])
    """

    def __init__(self, heads: int, dim: int = 128, base: float = 10_000.0):
        super().__init__()
        self.slopes, self.theta = tuple(_slopes(heads).tolist()), tuple(_theta(dim, base).tolist())
        self.heads, self.dim, self.base = heads, dim, base

    def forward(self, positions: Tensor, key_positions=None) -> Tensor:
        """Return the bias (h, t, s), float32, from `positions` (t,) to `key_positions` (s,).

        Keys stand where queries do by default. A batch (b, t) or (b, s) gives (b, h, t, s).
        """
        m, n = _in_float64(positions, key_positions)
        # cos(a - b) = cos a cos b + sin a sin b: two tables, not d/2 cosines for each pair
        total = self._sinusoids(m) @ self._sinusoids(n).mT - self.dim / 2  # (..., t, s)
        slopes = total.new_tensor(self.slopes)[:, None, None]  # (h, 1, 1)
        bias = slopes * total[..., None, :, :]  # (..., h, t, s)
        return bias.to(positions.device, torch.float32)

    def score_mod(self, positions: Tensor, key_positions=None):
        """Return what FlexAttention calls for each pair: the same bias, one number at a time."""
        m, n = torch.atleast_2d(*_in_float64(positions, key_positions))  # one row serves each b
        slopes = m.new_tensor(self.slopes)

        def _modify(score, b, h, t, s):
            offset = m[b * (len(m) > 1), t] - n[b * (len(n) > 1), s]
            total = -self.dim / 2
            for rate in self.theta:  # FlexAttention's kernels have no sum over an axis
                total = total + torch.cos(offset * rate)
            return score + (slopes[h] * total).to(score.dtype)

        return _modify

    def _sinusoids(self, positions):
        angle = positions[..., None] * positions.new_tensor(self.theta)  # (..., t, d/2)
        return torch.cat([angle.cos(), angle.sin()], dim=-1)  # (..., t, d)


def _slopes(heads):
    if heads < 1:
        raise ValueError(f"sandwich: heads must be 1 or more, got {heads}")
    return heads / (8 * np.arange(1, heads + 1))  # (h,)


def _theta(dim, base):
    if dim < 2 or dim % 2:
        raise ValueError(f"sandwich: dim must be even, 2 or more, got {dim}; the paper takes 128")
    if not 0 < base < float("inf"):
        raise ValueError(f"sandwich: base must be positive and finite, got {base}")
    return float(base) ** (-2 * np.arange(1, dim // 2 + 1) / dim)  # (d/2,)


def _in_float64(positions, key_positions):
    where = "cpu" if positions.device.type == "mps" else positions.device  # mps lacks float64
    keys = positions if key_positions is None else key_positions
    return positions.to(where, torch.float64), keys.to(where, torch.float64)
