"""Examine the bias of a window of a picture: tokens are cells of a grid, and offsets are of rows and columns."""

import torch
from torch import Tensor

from posenc.diagnosis.biases.square import Case, unevenness
from posenc.diagnosis.report import Finding, note, ok, wrong

MARGIN = 1e-5


def columns(square: Tensor) -> int:
    """Return the length of a row if numbers (h, n, n) belong to cells of a grid, else 0; one class token may lead."""
    n = square.shape[1]
    if square.shape[1] != square.shape[2] or n < 4 or not square.any() or unevenness(square) < 1e-4:
        return 0
    for lead in (0, 1):
        cells = square[:, lead:, lead:]
        for width in range(2, (n - lead) // 2 + 1):
            if (n - lead) % width == 0 and _uneven(cells, width) < 1e-4:
                return width
    return 0


def _cells(square: Tensor, width: int) -> Tensor:
    """Return the numbers as (h, rows, columns, rows, columns)."""
    height = square.shape[1] // width
    return square.reshape(-1, height, width, height, width)


def _uneven(square: Tensor, width: int) -> float:
    """Return how much numbers change where query and key move together, along a row or from row to row."""
    cells = _cells(square, width)
    along = cells[:, :, 1:, :, 1:] - cells[:, :, :-1, :, :-1]
    down = cells[:, 1:, :, 1:] - cells[:, :-1, :, :-1]
    most = max(float(part.abs().max()) if part.numel() else 0.0 for part in (along, down))
    return most / float(square.abs().max().clamp(min=1e-9))


def _lead(case: Case) -> int:
    return 0 if columns(case.square) and case.square.shape[1] % columns(case.square) == 0 else 1


def offsets(case: Case) -> Finding:
    """Say that the bias depends on the offset in rows and columns."""
    width, lead = columns(case.square), _lead(case)
    token = ", after one token of another kind" if lead else ""
    return ok(f"depends on the offset in rows and columns only, in rows of {width}{token}")


def distinct(case: Case) -> Finding:
    """Check that each offset of rows and columns has a number of its own."""
    width, lead = columns(case.square), _lead(case)
    cells = _cells(case.square[:, lead:, lead:], width)
    numbers = _by_offset(cells)
    for axis, name in enumerate(("rows", "columns")):
        line = torch.stack([number for offset, number in numbers.items() if not offset[1 - axis]])
        if len(line) > 2 and float((line - line[:1]).abs().max()) < MARGIN < float(case.square.abs().max()):
            return wrong("axis-lost", f"the numbers do not depend on the offset of {name}: one axis is lost")
    every = torch.stack([*numbers.values()])
    gap = torch.cdist(every, every) + 1e9 * torch.eye(len(every), dtype=torch.float64)
    nearest = float(gap.min())
    if nearest > MARGIN / 100:
        return ok(f"each of {len(every)} offsets has numbers of its own", nearest)
    one, other = (list(numbers)[place] for place in sorted(divmod(int(gap.argmin()), len(every))))
    if sorted(map(abs, one)) == sorted(map(abs, other)):
        return note("offsets of one distance share a number: symmetric, by a formula")
    words = f"offsets {one} and {other} (rows, columns) share a number: the index of the table mixes them up"
    return wrong("buckets-wrong", f"{words}. Rows count by 2 * columns - 1")


def _by_offset(cells: Tensor) -> dict[tuple[int, int], Tensor]:
    """Return the numbers (h,) of each offset in rows and columns, from (h, rows, columns, rows, columns)."""
    found: dict[tuple[int, int], Tensor] = {}
    for row in range(cells.shape[1]):
        for column in range(cells.shape[2]):
            found[row, column] = cells[:, 0, 0, row, column]
            found[-row, -column] = cells[:, row, column, 0, 0]
            found[row, -column] = cells[:, 0, column, row, 0]
            found[-row, column] = cells[:, row, 0, 0, column]
    return found


CHECKS = (offsets, distinct)
