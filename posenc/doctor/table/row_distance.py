"""How rows of a table compare: which are one and the same, and whether they lie on a line."""

import math

import torch
from torch import Tensor

ALIKE = 1e-6  # numbers that are so near are the same


def alike(rows: Tensor) -> bool:
    """Tell whether all rows (t, ...) are one and the same."""
    return float((rows - rows[:1]).abs().max()) < ALIKE


def straight(rows: Tensor) -> bool:
    """Tell whether rows (t, d) grow by the same from each to the next, as angles do."""
    return bool((rows.double().diff(n=2, dim=0).abs() < 1e-4).all())


def largest(numbers: Tensor) -> Tensor:
    """Return the largest absolute number of each channel (d,) of (..., d)."""
    return numbers.abs().flatten(0, -2).amax(0)


def twins(rows: Tensor) -> tuple[float, int, int]:
    """Return how far apart the nearest two rows (t, d) are, and which these are, the first one first."""
    gap = torch.cdist(rows, rows).fill_diagonal_(math.inf)
    first, second = sorted(divmod(int(gap.argmin()), len(rows)))
    return float(gap.min()), first, second
