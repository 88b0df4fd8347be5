"""Random content, and the one comparison of numbers of the doctor, for which NaN equals nothing."""

import math
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.report import Finding, wrong

HALF_PRECISION = {"bfloat16": torch.bfloat16, "float16": torch.float16}
DRAWN_TOKENS = 64  # of repeated_random
TINY = 1e-30  # so that a difference from zeros is large, and none is 0


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal random numbers, the same in each run."""
    # Drawn in float64 and rounded, so that results in two dtypes are of the same content.
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def repeated_random(like: Tensor, seed: int) -> Tensor:
    """Return random content of the shape and dtype of `like` (b, h, t, d), which repeats itself: drawing is slow."""
    b, h, t, d = like.shape
    drawn = random(b, h, min(t, DRAWN_TOKENS), d, seed=seed).to(like.dtype)
    return drawn[:, :, torch.arange(t) % DRAWN_TOKENS]  # (b, h, t, d)


def wrap_angle(angle: Tensor) -> Tensor:
    """Return angles without whole turns, from -pi to pi."""
    # Not by %, which would put an angle just below 0 far from one just above it.
    return torch.atan2(angle.sin(), angle.cos())


def relative_difference(result: Any, expected: Any) -> float:
    """Return the largest difference, relative to the largest number of `expected`.

    It is inf where one is no tensor, where shapes differ, where `result` holds a NaN, and where infinities differ.
    """
    if not isinstance(result, Tensor) or not isinstance(expected, Tensor) or result.shape != expected.shape:
        return math.inf
    result, expected = result.detach().double(), expected.detach().double()
    is_finite = result.isfinite()
    # Masked scores are -inf in both; a NaN, or an infinity in one of the two alone, is a difference.
    if result.isnan().any() or not torch.equal(result[~is_finite], expected[~is_finite]):
        return math.inf
    if not expected[is_finite].isfinite().all():
        return math.inf
    # Where all keys are masked nothing is left to compare.
    if not is_finite.any():
        return 0.0
    result, expected = result[is_finite], expected[is_finite]
    return float((result - expected).abs().max() / expected.abs().max().clamp(min=TINY))


def token_differences(result: Tensor, expected: Tensor) -> Tensor:
    """Return the largest difference of each token (t,) of (b, h, t, d), relative to its length; inf for a NaN."""
    lengths = expected.double().norm(dim=-1).clamp(min=torch.finfo(torch.float64).eps)  # (b, h, t)
    differences = (result.double() - expected.double()).norm(dim=-1) / lengths  # (b, h, t)
    return differences.nan_to_num(nan=math.inf, posinf=math.inf).flatten(0, 1).amax(0)  # (t,)


def worst(*differences: float | Tensor) -> float:
    """Return the largest of all differences, inf if one of them is a NaN."""
    # Python's max() may pass over a NaN, so that broken code would look healthy.
    flat = torch.cat([torch.as_tensor(difference, dtype=torch.float64).flatten() for difference in differences])
    return float(flat.nan_to_num(nan=math.inf, posinf=math.inf).amax()) if len(flat) else 0.0


def is_finite(result: Any) -> bool:
    """Return whether a tensor, or each tensor of several, holds neither a NaN nor an infinity."""
    return all(bool(part.isfinite().all()) for part in _real_parts(result))


def not_finite(result: Any, where: str, may_hide_keys: bool = False) -> Finding | None:
    """Return the finding on a result, or on several, with NaN or infinity in it; -inf may hide keys of a bias."""
    for part in _real_parts(result):
        invalid = ~part.isfinite()
        if may_hide_keys:
            invalid &= part != -torch.inf
        if invalid.any():
            first = tuple(int(axis[0]) for axis in invalid.nonzero(as_tuple=True))
            counts = f"{int(invalid.sum()):,} of {invalid.numel():,} numbers"
            sentence = f"{where}: NaN or infinity in {counts}, the first at index {first} of {tuple(part.shape)}"
            return wrong("not-finite", f"{sentence}. Look for a division by 0 or an overflow")
    return None


def _real_parts(result: Any) -> list[Tensor]:
    parts = result if isinstance(result, tuple) else (result,)
    return [part for part in parts if isinstance(part, Tensor) and not part.is_complex()]
