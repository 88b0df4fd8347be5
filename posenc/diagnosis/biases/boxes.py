"""Examine a bias by the boxes of words on a page, (1, t, 4): left, top, right, bottom, as in LayoutLM and UDOP."""

import re
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.biases.asking import Bias, is_square, names_of
from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import Code
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, note, ok, wrong

PAGES = (1024, 1.0)  # how wide a page is: boxes are integers, or fractions
CELL = 1 / 64  # of the page: exact in both, so that offsets are too
STEP = 3 * CELL
HERE, THERE = (20 * CELL, 20 * CELL), (32 * CELL, 26 * CELL)
PLACES = {"here": (0, 0), "right": (1, 0), "below": (0, 1), "up right": (1, -1), "further right": (3, 0)}
ONE_AXIS = {"horizontal": r"horizontal", "vertical": r"vertical"}


class Page(NamedTuple):
    """What the checks share: the code, how wide its page is, the numbers (h,) of one word for those at PLACES."""

    code: Code
    width: float
    numbers: dict[str, Tensor]

    def differs(self, one: str, other: str = "here") -> bool:
        """Tell whether words at two places get different numbers."""
        return far(self.numbers[one], self.numbers[other]) > 1e-6


def boxes(width: float, at: tuple[float, float] = HERE) -> Tensor:
    """Return boxes (1, t, 4) of words at PLACES from a point of the page."""
    corners = torch.tensor([[at[0] + STEP * x, at[1] + STEP * y] for x, y in PLACES.values()]) * width
    made = torch.cat((corners, corners + torch.tensor([2 * CELL, CELL]) * width), 1)[None]
    return made.round().long() if isinstance(width, int) else made


def square(code: Code, width: float, at: tuple[float, float] = HERE) -> Tensor:
    """Return the bias (h, t, t) among words at PLACES."""
    return Bias(code).laid(code(boxes=boxes(width, at)), len(PLACES), len(PLACES)).double()


def page(code: Code) -> Page | None:
    """Return the page that the code takes boxes of, None if it takes none."""
    for width in PAGES:
        made, failed = attempt(square, code.fresh(), width)
        if not failed and is_square(made, len(PLACES), len(PLACES)):
            return Page(code, width, {name: made[:, 0, place] for place, name in enumerate(PLACES)})
    return None


def offsets(case: Page) -> Finding:
    """Check that the numbers stay where all words move together."""
    here, there = (square(case.code.fresh(), case.width, at) for at in (HERE, THERE))
    if far(there, here) > 1e-4:
        return wrong("absolute", "where all boxes move together the numbers change: it depends on absolute places")
    return ok("depends on the offsets of boxes only")


def axes(case: Page) -> Finding:
    """Check which axes of the page are seen: both, or the one of the name, and each for itself."""
    seen = {"horizontal": case.differs("right"), "vertical": case.differs("below")}
    named = [axis for axis, words in ONE_AXIS.items() if re.search(words, names_of(case.code), re.I)]
    if not any(seen.values()):
        return wrong("scaled-wrong", f"boxes {STEP:.0%} of a page apart get the number of one place: nothing is scaled")
    if len(named) == 1 and seen[{"horizontal": "vertical", "vertical": "horizontal"}[named[0]]]:
        return wrong("axes-swapped", f"by its name it is {named[0]}, and it changes along the other axis")
    if not all(seen.values()):
        lost = next(axis for axis in seen if not seen[axis])
        return ok(f"{named[0]} only, as its name says") if named else _lost(lost)
    return _both(case)


def _lost(axis: str) -> Finding:
    return wrong("axis-lost", f"{axis} offsets are ignored: one axis of the boxes is lost")


def _both(case: Page) -> Finding:
    if not case.differs("up right"):
        return wrong("axes-swapped", "a word to the right and up gets the number of no offset: the axes are added up")
    shapes = [tuple(table.shape) for table in case.code.learned.values()]
    if case.differs("right", "below"):
        return ok("both axes, each with numbers of its own")
    if any(shapes.count(shape) > 1 for shape in shapes):
        return wrong("axes-swapped", "both axes read one table, and a second one of its size has been learned")
    return note("both axes share their numbers")


CHECKS = (offsets, axes)
