"""Which channels pair in the matrices of a rotation, by which angle each pair turns, and whether it counts in rows."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc.doctor.numerics import wrap_angle

APART = 1e-2  # angles


def pairs_of(matrices: Tensor) -> tuple[list[tuple[int, int]], str]:
    """Return the pairs of channels that mix with each other and with no other, and the name of their layout."""
    with_heads_and_tokens_swapped = F.normalize(matrices, dim=1).abs().amax(0)
    with_heads_and_tokens_swapped = with_heads_and_tokens_swapped - with_heads_and_tokens_swapped.diag().diag()
    (largest, others), (partner, _) = with_heads_and_tokens_swapped.topk(2, dim=0)
    turned = (largest > 1e-6).nonzero().flatten().tolist()
    pairs = sorted({(min(j, other), max(j, other)) for j, other in enumerate(partner.tolist()) if j in turned})
    if sorted(channel for pair in pairs for channel in pair) != turned or (others > 1e-5).any():
        return [], "mixed"
    steps = {second - first for first, second in pairs}
    return pairs, "interleaved" if steps == {1} else "half" if len(steps) == 1 else "other" if steps else "none"


def angles_of(matrix: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Return the angle by which each pair turns, (..., n), in matrices (..., d, d)."""
    first, second = (list(side) for side in zip(*pairs, strict=True))
    across = matrix[..., second, first] - matrix[..., first, second]
    return torch.atan2(across, matrix[..., first, first] + matrix[..., second, second])


class Grid(NamedTuple):
    """How long the rows of a grid are, the angles (n,) at its corner, of a step along a row and of one to the next."""

    columns: int
    start: Tensor
    along: Tensor
    down: Tensor


def rows_of(angle: Tensor) -> Grid | None:
    """Return the grid on which angles (t, n) grow along rows and from row to row, if there is one."""
    places, start = torch.arange(len(angle))[:, None], angle[0]
    along = angle[1] - start
    breaks = (wrap_angle(angle - start - places * along).abs() > APART).any(1)
    columns = int(breaks.int().argmax()) or 2  # of one line rows may be of any length
    down = angle[columns] - start
    expected = start + places % columns * along + places // columns * down
    return Grid(columns, start, along, down) if wrap_angle(angle - expected).abs().max() < APART else None
