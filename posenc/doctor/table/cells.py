"""Ask code for the table of a grid, a picture or a volume, in each usual way, and lay it out as (..., d)."""

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code, first_result
from posenc.doctor.table.row_distance import alike, largest

PICTURE, VOLUME = (4, 6), (3, 4, 6)
SQUARES = (5, 14, 7, 16, 8)  # sides of a picture that is told by one, or whose cells are tokens
BATCH = 2  # pictures
MARGIN = 1e-5
NAMES = {2: ("row", "column"), 3: ("first axis", "second axis", "third axis")}
Sides = tuple[int, ...]


class Cells(NamedTuple):
    """The table (rows, columns, d), or with an axis more, in float64, with the way it was asked for."""

    code: Code
    numbers: Tensor
    asked: str
    order: Sides = ()
    """The order in which axes come back, where it is not that of the call."""

    @property
    def sides(self) -> Sides:
        """How many cells along each axis."""
        return tuple(self.numbers.shape[:-1])

    @property
    def names(self) -> tuple[str, ...]:
        """What the axes are called."""
        return NAMES[len(self.sides)]

    @property
    def moved(self) -> Tensor:
        """Which channels change along each axis, (axes, d)."""
        ranges = [self.numbers.amax(axis) - self.numbers.amin(axis) for axis in range(len(self.sides))]
        return torch.stack([largest(each) > MARGIN for each in ranges])

    def given(self, sides: Sides) -> dict[str, Any] | None:
        """Return the arguments that ask for these sides in the same way; None where there are none."""
        return next((given for asked, given in calls(self.code, sides) if asked == self.asked), None)

    def line(self, axis: int) -> Tensor:
        """Return the cells along one axis, the same wherever they stand along the others, (t, d)."""
        return self.numbers.movedim(axis, -2).flatten(0, -3).mean(0)


def calls(code: Code, sides: Sides) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a grid of these sides can be asked for by: words, arguments."""
    d, flat, square = code.dim, len(sides) == 2, len({*sides}) == 1
    if code.takes("mask"):
        yield from masks(code, torch.ones(BATCH, *sides, dtype=torch.bool))
    if code.takes("depth", "rows", "columns") and not flat:
        yield "depth, rows and columns", dict(zip(_named_sides(code), sides, strict=True))
    elif code.takes("rows", "columns") and flat:
        yield "rows and columns", {"rows": sides[0], "columns": sides[1]}
    if code.takes("positions"):
        points = torch.cartesian_prod(*(torch.arange(float(side)) for side in sides)).flip(-1)
        yield "points (b, n, axes), the last axis first", {"positions": points[None], "grid": sides}
    elif code.takes("grid"):
        yield "sides", {"grid": sides}
        if square:
            yield "a side", {"grid": sides[0]}
    if code.takes("shape"):
        yield "a shape (b, d, h, w)", {"shape": torch.Size((BATCH, d, *sides))}
    if code.takes("x"):
        yield "a picture (b, d, h, w)", {"x": torch.zeros(BATCH, d, *sides)}
        yield "a picture (b, h, w, d)", {"x": torch.zeros(BATCH, *sides, d)}
        yield "a mask (b, h, w)", {"x": torch.zeros(BATCH, *sides, dtype=torch.bool)}
        if square:
            yield f"tokens of {' by '.join(map(str, sides))} cells", {"x": torch.zeros(BATCH, math.prod(sides), d)}


def masks(code: Code, seen: Tensor) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a mask can be handed in with, and what it can say."""
    others: dict[str, dict[str, Any]] = {"a mask (b, h, w)": {}}
    shape = torch.Size((BATCH, code.dim, *seen[0].shape))
    if code.takes("x"):
        others = {"a picture and its mask": {"x": torch.zeros(shape)}}
    if code.takes("shape"):
        others = {"a shape and a mask (b, h, w)": {"shape": shape}}
    for words, given in others.items():
        yield f"{words} of what is padded", given | {"mask": ~seen}
        yield f"{words} of what is seen", given | {"mask": seen.float()}


def _named_sides(code: Code) -> tuple[str, ...]:
    """Return the roles of three sides in the order of the parameters: depth comes first or last."""
    names = [*code.parameters]
    first = names.index(code.roles["depth"]) < names.index(code.roles["rows"])
    return ("depth", "rows", "columns") if first else ("rows", "columns", "depth")


def made_by(code: Code) -> Iterator[Cells]:
    """Yield the table for each call that gives one."""
    for sides in (PICTURE, VOLUME, *((side, side) for side in SQUARES)):
        for asked, given in calls(code, sides):
            if sides not in (PICTURE, VOLUME) and not asked.startswith(("tokens", "a side")):
                continue
            laid = _called(code, sides, given)
            if laid is not None and not alike(laid[0].flatten(0, -2)):
                exchanged = laid[1] if code.takes("x") or code.takes("mask") else ()
                yield Cells(code, laid[0], asked, exchanged)


def again(cells: Cells, sides: Sides) -> Tensor | None:
    """Return the table of other sides, asked for in the same way; None where none comes."""
    given = cells.given(sides)
    laid = None if given is None else _called(cells.code, sides, given)
    return None if laid is None else laid[0]


def _called(code: Code, sides: Sides, given: dict[str, Any]) -> tuple[Tensor, Sides] | None:
    made, _ = attempt(lambda: first_result(code(**given)))
    if not isinstance(made, Tensor) or not made.is_floating_point() or not made.isfinite().all():
        return None
    return _laid(made.detach().double(), sides)


def _laid(made: Tensor, sides: Sides) -> tuple[Tensor, Sides] | None:
    """Return the result as (..., d), and the order of its axes; a class token before the cells is left out."""
    one = (made[0] if len(made) <= BATCH else made.squeeze(1)) if made.ndim > 2 else made  # texts may stand second
    cells, n = math.prod(sides), len(sides)
    if one.ndim == 2 and len(one) in (cells, cells + 1) and one.shape[1] != cells:
        return one[-cells:].reshape(*sides, -1), ()
    for order in permutations(range(n)) if one.ndim == n + 1 else ():
        turned = tuple(sides[axis] for axis in order)
        for laid in (one, one.movedim(0, -1)):
            if tuple(laid.shape[:-1]) == turned:
                back = [order.index(axis) for axis in range(n)]
                return laid.permute(*back, -1), () if back == [*range(n)] else order
    return None
