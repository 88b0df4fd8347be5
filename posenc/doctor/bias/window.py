"""Check the bias of a window of a picture, whose tokens are cells of a grid, of words on a page, and masks."""

import re
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.bias.measure import SAME_NUMBERS, WINDOWS, Bias, BiasRecord, declared_windows, has_shape, names_of
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, note, passed, wrong
from posenc.doctor.safe_call import attempt

REFUSAL = re.compile(r"(Assertion|Value|NotImplemented)Error: .*(square|equal|same)", re.I)


def distinct(record: BiasRecord) -> Finding | None:
    """Check that each offset of rows and columns has a number of its own."""
    if record.grid is None:
        return None
    _, rows, columns = record.grid
    cells = record.grid.cells(record.numbers)
    # An axis is lost where the first row, or column, of keys stands for all.
    for name, first in {"rows": cells[:, :, :, :1], "columns": cells[..., :1]}.items():
        if relative_difference(first.expand_as(cells), cells) < SAME_NUMBERS:
            return wrong("axis-lost", f"the numbers do not depend on the offset of {name}: one axis is lost")
    offsets = torch.cartesian_prod(torch.arange(1 - rows, rows), torch.arange(1 - columns, columns))  # (n, 2)
    # For each offset, one pair of cells that has it.
    query_row, query_column = (-offsets).clamp(min=0).T  # (n,)
    key_row, key_column = offsets.clamp(min=0).T  # (n,)
    numbers = cells[:, query_row, query_column, key_row, key_column].T  # (n, h)
    _, index, counts = numbers.unique(dim=0, return_inverse=True, return_counts=True)
    if len(counts) == len(offsets):
        return passed(f"each of {len(offsets)} offsets has numbers of its own")
    first, second = offsets[index == counts.argmax()][:2].tolist()  # of those that share one number
    # The mirror image of an offset, or any other at its distance, may share its number: a formula of the distance.
    if sorted(map(abs, first)) == sorted(map(abs, second)) or _depend_on_distance(numbers, offsets):
        return note("offsets of one distance share a number: symmetric, by a formula")
    # Swin's index is row * (2 * columns - 1) + column; by 2 * rows - 1 it is one to one in a square alone.
    sentence = f"offsets {(*first,)} and {(*second,)} (rows, columns) share a number: rows count by"
    if len((offsets @ torch.tensor([2 * rows - 1, 1])).unique()) == len(counts):
        return wrong("axes-swapped", f"{sentence} 2 * rows - 1, and 2 * columns - 1 is due. Square windows hide it")
    return wrong("buckets-wrong", f"{sentence} another number than 2 * columns - 1, and the index mixes them up")


def _depend_on_distance(numbers: Tensor, offsets: Tensor) -> bool:
    """Return whether offsets (n, 2) of one distance have one number (n, h), by one of the usual distances."""
    down, along = offsets.abs().unbind(-1)  # (n,)
    for distance in (down + along, down**2 + along**2, torch.maximum(down, along)):
        of_distance = numbers.new_zeros(int(distance.max()) + 1, numbers.shape[1])
        of_distance[distance] = numbers
        if relative_difference(of_distance[distance], numbers) < SAME_NUMBERS:
            return True
    return False


def shape(record: BiasRecord) -> Finding | None:
    """Check that windows that are not square are taken, and that their rows are rows."""
    if record.bias.position_argument != "window":
        return None
    rows, columns = record.bias.window
    if rows == columns:  # the last window to try, after those that are not square
        _, refusal = attempt(Bias(record.code.fresh()).of_window, WINDOWS[0])
        if REFUSAL.match(refusal):
            return note(f"windows that are not square are refused: {refusal}")
        return wrong("axes-swapped", "windows that are not square raise an error: rows are taken for columns")
    # The numbers lie in the other grid, so that cells of one row are taken for cells of a column.
    if record.grid and record.grid.columns == rows:
        return wrong("axes-swapped", f"asked for {rows} rows of {columns}, it gives {columns} rows of {rows}")
    return passed(f"asked for {rows} rows of {columns}, it gives these")


def entries(record: BiasRecord) -> Finding | None:
    """Check that the bias of a module's own window consists of what its table has learned."""
    if record.grid is None or record.grid[1:] not in declared_windows(record.code):
        return None
    # In its own window nothing is resized, so that each number must be one that was learned.
    learned = torch.cat([table.flatten() for table in record.code.learned_parameters.values()])  # (n,)
    share = float(torch.isin(record.numbers.float(), learned.float()).double().mean())
    if share > 0.999:
        return passed("each number is one of the learned table")
    if share < 0.01:
        return None  # computed from the table by a formula
    sentence = f"in a window of the table's own size only {share:.0%} of the numbers are in the table"
    return wrong("axes-swapped", f"{sentence}: rows are read as columns. Square windows hide it", share)


def parts(record: BiasRecord) -> Finding:
    """Check that a mask is causal, or parts the tokens into groups that see each other."""
    visible = ~record.hidden
    if not visible.diagonal(dim1=1, dim2=2).all():
        return wrong("mask-off-by-one", "a token does not see itself: the mask hides one key too many")
    if not visible.triu(1).any():
        return passed("causal: keys ahead are hidden")
    if torch.equal(visible, visible.mT):
        return passed("symmetric: tokens that see each other do so in both directions")
    return wrong("one-direction-lost", "a token sees one that does not see it, in a mask that is not causal")


CHECKS = (distinct, entries, shape)

# Words on a page: boxes (1, t, 4) of left, top, right, bottom, as in LayoutLM and UDOP

PAGE_WIDTHS = (1024, 1.0)  # boxes are integers, or fractions
CELLS = 64  # of a page along each axis: exact in both, so that offsets are too
WORDS = {"here": (0, 0), "horizontal": (3, 0), "vertical": (0, 3), "up right": (3, -3)}  # in cells from the first
FIRST_BOX, ELSEWHERE = (20, 20, 22, 21), (32, 26, 34, 27)  # in cells
AXES = ("horizontal", "vertical")


class BoxesRecord(NamedTuple):
    """What the checks of boxes share: the code, the width of its page, the numbers (h, t, t) among words."""

    code: Code
    width: float
    numbers: Tensor

    def differ(self, first: str, second: str) -> bool:
        """Return whether two words get different numbers from the first one."""
        numbers = dict(zip(WORDS, self.numbers[:, 0].T, strict=True))
        return relative_difference(numbers[first], numbers[second]) > 1e-6


def measure_boxes(code: Code) -> BoxesRecord | None:
    """Return the record of code that takes boxes, None if it takes none."""
    for width in PAGE_WIDTHS if code.takes("boxes") else ():
        numbers, _ = attempt(_numbers_on_page, code.fresh(), width, FIRST_BOX)
        if has_shape(numbers, len(WORDS), len(WORDS)):
            return BoxesRecord(code, width, numbers)
    return None


def _numbers_on_page(code: Code, width: float, first_box: tuple[int, ...]) -> Tensor:
    """Return the bias (h, t, t) among the words, of which the first has this box."""
    cells = torch.tensor(first_box) + torch.tensor([*WORDS.values()]).repeat(1, 2)  # (t, 4)
    boxes = (cells * width / CELLS)[None]  # (1, t, 4)
    result = code(boxes=boxes.long() if isinstance(width, int) else boxes)
    return Bias(code).as_numbers(result, len(WORDS), len(WORDS)).double()


def offsets(page: BoxesRecord) -> Finding:
    """Check that the numbers stay where all words move together."""
    moved = _numbers_on_page(page.code.fresh(), page.width, ELSEWHERE)
    if relative_difference(moved, page.numbers) <= SAME_NUMBERS:
        return passed("depends on the offsets of boxes only")
    return wrong("absolute", "where all boxes move together the numbers change: it depends on absolute positions")


def axes(page: BoxesRecord) -> Finding:
    """Check which axes of the page are seen: both, or the one of the name, and each for itself."""
    changing = [axis for axis in AXES if page.differ("here", axis)]
    by_name = [axis for axis in AXES if axis in names_of(page.code)]
    if not changing:
        return wrong("scaled-wrong", "boxes apart by a twentieth of a page get the number of offset 0: not scaled")
    if len(by_name) == 1 and changing == by_name:
        return passed(f"{by_name[0]} only, as its name says")
    if len(by_name) == 1:
        return wrong("axes-swapped", f"by its name it is {by_name[0]}, and it changes along the other axis")
    if changing != [*AXES]:
        return wrong("axis-lost", f"offsets other than {changing[0]} ones are ignored: one axis of the boxes is lost")
    # As much to the right as up: their sum is 0, as the offset of a word to itself.
    if not page.differ("here", "up right"):
        return wrong("axes-swapped", "a box to the right and up gets the number of offset 0: the axes are added up")
    # The same offset to the right and below: equal numbers come from one table for both.
    if page.differ(*AXES):
        return passed("both axes, each with numbers of its own")
    shapes = [tuple(table.shape) for table in page.code.learned_parameters.values()]
    if len({*shapes}) < len(shapes):
        return wrong("axes-swapped", "both axes read one table, and a second one of its size has been learned")
    return note("both axes share their numbers")


CHECKS_OF_BOXES = (offsets, axes)
