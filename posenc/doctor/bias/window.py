"""Examine the bias of a window of a picture: tokens are cells of a grid, and offsets are of rows and columns."""

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.bias.bias_matrix import EVEN, Case, even, hides
from posenc.doctor.bias.call_bias import own_windows
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, note, passed, wrong

Offset = tuple[int, int]  # in rows and columns


class Grid(NamedTuple):
    """How tokens lie: after `lead` ones of another kind, the cells, row by row."""

    lead: int
    rows: int
    columns: int

    def cells(self, square: Tensor) -> Tensor:
        """Return the numbers (h, n, n) as (h, rows, columns, rows, columns)."""
        lead, *sides = self
        return square[:, lead:, lead:].reshape(-1, *sides, *sides)


class Window(NamedTuple):
    """What the checks share: the case, and the grid of its tokens."""

    case: Case
    grid: Grid


def grid(square: Tensor) -> Grid | None:
    """Return the grid whose cells numbers (h, n, n) belong to, None if there is none; one class token may lead."""
    *_, n = square.shape
    if even(square):
        return None
    grids = (Grid(*each) for each in product((0, 1), range(2, n), range(2, n)))
    return next((each for each in grids if each.lead + each.rows * each.columns == n and _even(each, square)), None)


def _even(grid: Grid, square: Tensor) -> bool:
    """Tell whether numbers stay where query and key move together, along a row and from row to row."""
    cells = grid.cells(square)
    along = relative_difference(cells[:, :, 1:, :, 1:], cells[:, :, :-1, :, :-1])
    return max(along, relative_difference(cells[:, 1:, :, 1:], cells[:, :-1, :, :-1])) < EVEN


def offsets(window: Window) -> Finding:
    """Say that the bias depends on the offset in rows and columns."""
    lead, _, columns = window.grid
    token = ", after one token of another kind" if lead else ""
    return passed(f"depends on the offset in rows and columns only, in rows of {columns}{token}")


def distinct(window: Window) -> Finding:
    """Check that each offset of rows and columns has a number of its own."""
    cells = window.grid.cells(window.case.square)
    for name, first in {"rows": cells[:, :, :, :1], "columns": cells[..., :1]}.items():
        if relative_difference(first.expand_as(cells), cells) < EVEN:
            return wrong("axis-lost", f"the numbers do not depend on the offset of {name}: one axis is lost")
    numbers = _by_offset(cells)
    offsets = {number: [offset for offset in numbers if numbers[offset] == number] for number in numbers.values()}
    one, *others = max(offsets.values(), key=len)
    if not others:
        return passed(f"each of {len(numbers)} offsets has numbers of its own")
    other, *_ = others
    if sorted(map(abs, one)) == sorted(map(abs, other)):
        return note("offsets of one distance share a number: symmetric, by a formula")
    words = f"offsets {one} and {other} (rows, columns) share a number: rows count by"
    if len({row * (2 * window.grid.rows - 1) + column for row, column in numbers}) == len(offsets):
        return wrong("axes-swapped", f"{words} 2 * rows - 1, and 2 * columns - 1 is due. Square windows hide it")
    return wrong("buckets-wrong", f"{words} another number than 2 * columns - 1, and the index mixes them up")


def _by_offset(cells: Tensor) -> dict[Offset, tuple[float, ...]]:
    """Return the numbers of all heads for each offset in rows and columns."""
    _, rows, columns, *_ = cells.shape
    numbers = cells.movedim(0, -1).tolist()
    places = product(range(rows), range(columns), range(rows), range(columns))
    return {(row - above, column - left): (*numbers[above][left][row][column],) for above, left, row, column in places}


def shape(case: Case) -> Finding | None:
    """Check that windows that are not square are taken, and that their rows are rows."""
    if case.bias.told_by != "window":
        return None
    rows, columns = case.bias.window
    if rows == columns:
        return wrong("axes-swapped", "windows that are not square raise an error: rows are taken for columns")
    if (found := grid(case.square)) and found.columns == rows:
        return wrong("axes-swapped", f"asked for {rows} rows of {columns}, it gives {columns} rows of {rows}")
    return passed(f"asked for {rows} rows of {columns}, it gives these")


def entries(window: Window) -> Finding | None:
    """Check that the bias of a module's own window consists of what its table has learned."""
    case, grid = window
    if (grid.rows, grid.columns) not in own_windows(case.code):
        return None
    learned = torch.cat([table.flatten() for table in case.code.learned_parameters.values()])
    kept = float(torch.isin(case.square.float(), learned.float()).double().mean())
    if kept > 0.999:
        return passed("each number is one of the learned table")
    if kept < 0.01:
        return None  # made of the table by a formula
    words = f"in a window of the table's own size only {kept:.0%} of the numbers are in the table"
    return wrong("axes-swapped", f"{words}: it is read with rows for columns. Square windows hide it", kept)


CHECKS = (offsets, distinct, entries)


def is_mask(case: Case) -> bool:
    """Tell whether this is a mask of one size: some pairs are hidden and the others left as they are."""
    hidden = hides(case.square)
    return case.bias.told_by == "nothing" and bool(hidden.any()) and not case.square[~hidden].any()


def parts(case: Case) -> Finding:
    """Check that a mask is causal, or parts the cells into groups that see each other."""
    seen = ~hides(case.square)
    if not seen.diagonal(dim1=1, dim2=2).all():
        return wrong("mask-off-by-one", "a token does not see itself: the mask hides one key too many")
    if not seen.triu(1).any():
        return passed("causal: keys ahead are hidden")
    if torch.equal(seen, seen.mT):
        return passed("a symmetric mask: who sees is seen")
    words = "a token sees one that does not see it, and the mask is not causal: one half is missing"
    return wrong("one-direction-lost", words)
