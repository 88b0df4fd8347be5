"""Examine a bias by the boxes of words on a page, (1, t, 4): left, top, right, bottom, as in LayoutLM and UDOP."""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.bias.call_bias import Bias, is_square, names_of
from posenc.doctor.call.code import Code
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, note, passed, wrong

PAGES = (1024, 1.0)  # how wide a page is: boxes are integers, or fractions
CELLS = 64  # of a page along each axis: exact in both, so that offsets are too
BOXES = {  # in cells
    "here": (12, 12, 14, 13),
    "horizontal": (15, 12, 17, 13),
    "vertical": (12, 15, 14, 16),
    "up right": (15, 9, 17, 10),
}
HERE, THERE = (8, 8, 8, 8), (20, 14, 20, 14)  # by how many cells all are moved
AXES = ("horizontal", "vertical")


class Page(NamedTuple):
    """What the checks share: the code, how wide its page is, the numbers (h,) of one word for those in BOXES."""

    code: Code
    width: float
    numbers: dict[str, Tensor]

    def differs(self, one: str, other: str = "here") -> bool:
        """Tell whether words at two places get different numbers."""
        return relative_difference(self.numbers[one], self.numbers[other]) > 1e-6


def square(code: Code, width: float, moved: tuple[int, ...]) -> Tensor:
    """Return the bias (h, t, t) among words in BOXES, all of them moved by so many cells."""
    cells = torch.tensor([*BOXES.values()]) + torch.tensor(moved)
    boxes = (cells * width / CELLS)[None]
    made = code(boxes=boxes.long() if isinstance(width, int) else boxes)
    return Bias(code).laid(made, len(BOXES), len(BOXES)).double()


def page(code: Code) -> Page | None:
    """Return the page that the code takes boxes of, None if it takes none."""
    for width in PAGES:
        made, _ = attempt(square, code.fresh(), width, HERE)
        if is_square(made, len(BOXES), len(BOXES)):
            return Page(code, width, dict(zip(BOXES, made[:, 0].T, strict=True)))
    return None


def offsets(case: Page) -> Finding:
    """Check that the numbers stay where all words move together."""
    here, there = (square(case.code.fresh(), case.width, moved) for moved in (HERE, THERE))
    if relative_difference(there, here) > 1e-4:
        return wrong("absolute", "where all boxes move together the numbers change: it depends on absolute places")
    return passed("depends on the offsets of boxes only")


def axes(case: Page) -> Finding:
    """Check which axes of the page are seen: both, or the one of the name, and each for itself."""
    seen = [axis for axis in AXES if case.differs(axis)]
    by_name = [axis for axis in AXES if axis in names_of(case.code)]
    if not seen:
        return wrong("scaled-wrong", "boxes apart by a twentieth of a page get the number of one place: not scaled")
    if len(by_name) == 1:
        if seen == by_name:
            return passed(f"{by_name[0]} only, as its name says")
        return wrong("axes-swapped", f"by its name it is {by_name[0]}, and it changes along the other axis")
    if seen != [*AXES]:
        return wrong("axis-lost", f"offsets other than {seen[0]} ones are ignored: one axis of the boxes is lost")
    return _both(case)


def _both(case: Page) -> Finding:
    if not case.differs("up right"):
        return wrong("axes-swapped", "a word to the right and up gets the number of no offset: the axes are added up")
    if case.differs(*AXES):
        return passed("both axes, each with numbers of its own")
    shapes = [tuple(table.shape) for table in case.code.learned_parameters.values()]
    if len({*shapes}) < len(shapes):
        return wrong("axes-swapped", "both axes read one table, and a second one of its size has been learned")
    return note("both axes share their numbers")


CHECKS = (offsets, axes)
