"""Which channels pair in the matrices of a rotation, and by which angle each pair turns."""

import torch
from torch import Tensor


def pairs_of(matrices: Tensor) -> tuple[list[tuple[int, int]], str]:
    """Return the pairs of channels that mix with each other and with no other, and the name of their layout."""
    matrices = matrices / matrices.norm(dim=1, keepdim=True).clamp(min=1e-30)
    crossed = (matrices - torch.diag_embed(matrices.diagonal(dim1=1, dim2=2))).abs().amax(0)
    largest, partner = crossed.max(0)
    turned = (largest > 1e-6).nonzero().flatten().tolist()
    pairs = sorted({(min(j, int(partner[j])), max(j, int(partner[j]))) for j in turned})
    channels = sorted(channel for pair in pairs for channel in pair)
    crossed[partner, torch.arange(len(partner))] = 0
    if channels != turned or (crossed > 1e-5).any():
        return [], "mixed"
    steps = {second - first for first, second in pairs}
    return pairs, "interleaved" if steps == {1} else "half" if len(steps) == 1 else "other" if steps else "none"


def start_of(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angles at position 0, or zeros where its matrix (d, d) does not turn."""
    start = angles_of(matrix, pairs)
    square = matrix.T @ matrix
    orthogonal = (square - square.diagonal().diag()).abs().max() < 1e-3
    return start if orthogonal and start.abs().max() > 1e-6 else torch.zeros_like(start)


def angles_of(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angle by which each pair turns, (..., n), in matrices (..., d, d)."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    across = matrix[..., second, first] - matrix[..., first, second]
    return torch.atan2(across, matrix[..., first, first] + matrix[..., second, second])
