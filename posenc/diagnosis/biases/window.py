"""Examine the bias of a window of a picture: tokens are cells of a grid, and offsets are of rows and columns."""

import torch
from torch import Tensor

from posenc.diagnosis.biases.asking import WINDOWS, Bias, own_windows
from posenc.diagnosis.biases.square import Case, unevenness
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.report import Finding, note, ok, wrong

MARGIN = 1e-5
Offset = tuple[int, int]  # in rows and columns


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
    return _mixed(numbers, cells.shape[1], width, (one, other))


def _mixed(numbers: dict[Offset, Tensor], rows: int, width: int, pair: tuple[Offset, Offset]) -> Finding:
    """Say which step from row to row makes offsets share a number."""
    steps = (step for step in range(1, 2 * width - 1) if _fits(numbers, step))
    step, due = next(steps, 0), 2 * width - 1
    words = f"offsets {pair[0]} and {pair[1]} (rows, columns) share a number"
    if step and step == 2 * rows - 1:
        why = f"rows count by {step} = 2 * rows - 1, and {due} = 2 * columns - 1 is due. Square windows hide it"
        return wrong("axes-swapped", f"{words}: {why}", step)
    counted = f" rows count by {step}," if step else ""
    return wrong("buckets-wrong", f"{words}: the index of the table mixes them up;{counted} 2 * columns - 1 is due")


def _fits(numbers: dict[Offset, Tensor], step: int) -> bool:
    """Tell whether the numbers depend on rows * step + columns only."""
    seen: dict[int, Tensor] = {}
    return all(
        torch.equal(seen.setdefault(row * step + column, number), number) for (row, column), number in numbers.items()
    )


def _by_offset(cells: Tensor) -> dict[Offset, Tensor]:
    """Return the numbers (h,) of each offset in rows and columns, from (h, rows, columns, rows, columns)."""
    found: dict[Offset, Tensor] = {}
    for row in range(cells.shape[1]):
        for column in range(cells.shape[2]):
            found[row, column] = cells[:, 0, 0, row, column]
            found[-row, -column] = cells[:, row, column, 0, 0]
            found[row, -column] = cells[:, 0, column, row, 0]
            found[-row, column] = cells[:, row, 0, 0, column]
    return found


def shape(case: Case) -> Finding | None:
    """Check that windows that are not square are taken, and that their rows are rows."""
    if case.bias.told_by != "window":
        return None
    bias, (rows, width) = Bias(case.code.fresh()), case.bias.window
    if rows == width:
        _, failed = attempt(bias.of_window, *WINDOWS[0])
        words = f"a window of {WINDOWS[0][0]} by {WINDOWS[0][1]} raises {failed}, one of {rows} by {width} does not"
        return wrong("axes-swapped", f"{words}: rows are taken for columns") if failed else None
    if columns(case.square) == rows:
        return wrong("axes-swapped", f"asked for {rows} rows of {width}, it gives {width} rows of {rows}")
    return ok(f"asked for {rows} rows of {width}, it gives these")


def entries(case: Case) -> Finding | None:
    """Check that the bias of a module's own window consists of what its table has learned."""
    n = case.square.shape[1]
    for rows, width in own_windows(case.code):
        for table in case.code.learned.values():
            if n - rows * width in (0, 1) and (2 * rows - 1) * (2 * width - 1) <= len(table.flatten()) // case.heads:
                return _found(case, table.detach().double())
    return None


def _found(case: Case, table: Tensor) -> Finding | None:
    kept = torch.isin(case.square.float(), table.float()).double().mean()
    if kept > 0.999:
        return ok("each number is one of the learned table")
    if kept < 0.01:
        return None  # made of the table by a formula
    words = f"in a window of the table's own size only {float(kept):.0%} of the numbers are in the table"
    return wrong("axes-swapped", f"{words}: it is read with rows for columns. Square windows hide it", float(kept))


CHECKS = (offsets, distinct, shape, entries)


def is_mask(case: Case) -> bool:
    """Tell whether this is a mask of one size: some pairs are hidden and the others left as they are."""
    hidden = hides(case.square)
    return case.bias.told_by == "nothing" and bool(hidden.any()) and not case.square[~hidden].any()


def parts(case: Case) -> Finding:
    """Check that a mask is causal, or parts the cells into groups that see each other."""
    seen = ~hides(case.square)
    if not seen.diagonal(dim1=1, dim2=2).all():
        return wrong("mask-off-by-one", "a token does not see itself: the mask hides one key too many")
    if not torch.triu(seen, 1).any():
        return ok("causal: keys ahead are hidden")
    if torch.equal(seen, seen.mT):
        return ok("a symmetric mask: who sees is seen")
    one, other = (seen & ~seen.mT).nonzero()[0].tolist()[1:]
    words = f"token {one} sees token {other}, which does not see it, and the mask is not causal: one half is missing"
    return wrong("one-direction-lost", words)


def hides(square: Tensor) -> Tensor:
    """Return where scores are hidden."""
    return torch.isneginf(square) | (square < -1e4)
