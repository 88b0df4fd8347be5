"""What the checks measure with: random content, and how far two results are apart."""

from typing import Any

import torch
from torch import Tensor

DRAWN = 64  # tokens of noise


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal random numbers, the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def repeated_random(like: Tensor, seed: int) -> Tensor:
    """Return other content of the shape and dtype of `like` (b, h, t, d); drawing takes time, so it repeats itself."""
    b, h, t, d = like.shape
    return random(b, h, min(t, DRAWN), d, seed=seed).to(like.dtype)[:, :, torch.arange(t) % DRAWN]


def wrap_angle(angle: Tensor) -> Tensor:
    """Return angles without whole turns, from -pi to pi."""
    return torch.atan2(angle.sin(), angle.cos())


def relative_difference(one: Any, other: Any) -> float:
    """Return the largest difference, relative to the largest number of `other`; inf if shapes or NaNs differ."""
    if not all(isinstance(part, Tensor) for part in (one, other)) or one.shape != other.shape:
        return float("inf")
    one, other = one.detach().double(), other.detach().double()
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return float("inf")
    one, other = one[finite], other[finite]
    return float(one.numel() and (one - other).abs().max() / other.abs().max().clamp(min=1e-30))


def with_heads_and_tokens_swapped(x: Tensor) -> Tensor:
    """Return (b, h, t, d) as if its numbers had been laid out as (b, t, h, d), or the other way round."""
    return x.transpose(1, 2).reshape(x.shape)


def mixes_own_values_only(out: Tensor, v: Tensor) -> bool:
    """Tell whether each head of what comes out is a sum of its own values, by whatever weights, and none is silent."""
    weights = torch.linalg.lstsq(v.mT.double(), out.mT.double()).solution
    speak = bool(torch.linalg.matrix_norm(out).all())
    return speak and relative_difference(v.mT.double() @ weights, out.mT.double()) < 2e-2
