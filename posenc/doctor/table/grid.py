"""Examine a table of a picture or of a volume: a row of numbers for each cell of a grid, whose sides differ."""

from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from posenc.doctor.call.code import Code
from posenc.doctor.call.declared import declared_bases_of_axes, rebuilt_with
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, run_checks, wrong
from posenc.doctor.table.cells import MARGIN, Cells, again, made_by
from posenc.doctor.table.grid_use import CHECKS
from posenc.doctor.table.row_distance import ALIKE, largest, twins
from posenc.doctor.table.sin_cos_order import twice
from posenc.doctor.table.sinusoids import check_sinusoids


def accepts(code: Code) -> bool:
    """Tell whether some call gives a row for each cell of a grid."""
    return next(made_by(code), None) is not None


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on the grid whose channels follow one axis each, and what was examined."""
    cells = max(made_by(code), key=_plain)
    sides = " by ".join(map(str, cells.sides))
    about = {"grid": f"a grid of {sides}, asked for by {cells.asked}", "width": f"{cells.moved.shape[1]} channels"}
    straight, order = _straight(cells)
    if order:
        return [*run_checks((distinct,), straight), *run_checks((axes,), cells), *run_checks((waves,), straight)], about
    return run_checks((distinct, axes, waves, base, other_sizes, *CHECKS), cells), about


def _straight(cells: Cells) -> tuple[Cells, tuple[int, ...]]:
    """Return the cells as they lie where channels follow one axis each, and the order of axes if it is another."""
    for order in permutations(range(len(cells.sides))) if not cells.order else ():
        turned = cells._replace(numbers=_relaid(cells.numbers, order))
        if not (turned.moved.sum(0) > 1).any():
            return turned, order if order != tuple(range(len(order))) else ()
    return cells, ()


def _plain(cells: Cells) -> tuple[float, bool]:
    """Tell how far this looks like a grid: what share of channels follows one axis alone, whether none is lost."""
    axes = cells.moved.sum(0)
    return float((axes[axes > 0] == 1).double().mean()), bool(cells.moved.any(1).all())


def distinct(cells: Cells) -> Finding:
    """Check that no two cells share a row of numbers."""
    nearest, *places = twins(cells.numbers.flatten(0, -2))
    lost = [name for name, moved in zip(cells.names, cells.moved, strict=True) if not moved.any()]
    if nearest >= MARGIN and not lost:
        return passed(f"all cells differ, the nearest two by {nearest:.2g}", nearest)._replace(check="rows")
    first, second = (_cell(place, cells) for place in places)
    words = f"cells {first} and {second} ({', '.join(cells.names)}) have the same numbers"
    if lost:
        words = f"{words}: no channel depends on the {lost[0]}, so one axis of the grid is lost"
    return wrong("axis-lost" if lost else "rows-alike", words, nearest)._replace(check="rows")


def _cell(place: int, cells: Cells) -> tuple[int, ...]:
    return tuple(int(index) for index in torch.unravel_index(torch.tensor(place), cells.sides))


def axes(cells: Cells) -> Finding:
    """Say which channels follow which axis."""
    mixed = int((cells.moved.sum(0) > 1).sum())
    sides = " by ".join(map(str, cells.sides))
    if cells.order:
        words = f"for a grid of {sides} one of {' by '.join(str(cells.sides[i]) for i in cells.order)} comes back"
        return wrong("axes-swapped", f"{words}: axes are exchanged on the way")
    if not mixed:
        each = [f"{int(moved.sum())} the {name}" for name, moved in zip(cells.names, cells.moved, strict=True)]
        return passed(f"of the channels follow {', '.join(each)}")
    if _straight(cells)[1]:
        return wrong(
            "axes-swapped",
            f"in a grid of {sides} the cells run in another order than the last axis first: "
            "right only where sides are equal. Flatten in the order of the axes, or exchange them",
            mixed,
        )
    words = f"{mixed} of {cells.moved.shape[1]} channels depend on several axes together: learned, or waves across"
    return note(words, mixed)


def _relaid(numbers: Tensor, order: tuple[int, ...]) -> Tensor:
    """Return the cells as if they had been laid in another order of axes."""
    sides = [numbers.shape[axis] for axis in order]
    back = [order.index(axis) for axis in range(len(order))]
    return numbers.reshape(*sides, -1).permute(*back, -1)


def waves(cells: Cells) -> list[Finding]:
    """Read sines and cosines along each axis."""
    live = largest(cells.numbers)  # a width that no number of axes divides is filled up with zeros
    cells = cells._replace(numbers=cells.numbers[..., : int(live.nonzero().max()) + 1])
    if (cells.moved.sum(0) > 1).any() or not cells.moved.any(1).all():
        twins = twice(cells.numbers.flatten(0, -2)) if cells.moved.any(1).all() else None
        return [twins or not_checked("needs channels for each axis")._replace(check="waves")]
    bases = declared_bases_of_axes(cells.code)
    found = []
    for axis, (name, part) in enumerate(zip(cells.names, _whole(cells.moved), strict=True)):
        told, _ = check_sinusoids(cells.line(axis)[:, part], cells.code, by_first=True)
        found += [f._replace(words=f"by {name}: {f.words}") for f in told if _worth(f)]
        found += _deaf(name, bases, next((f.number for f in told if f.check == "speeds" and f.verdict == "ok"), None))
    return found


def _deaf(axis: str, bases: dict[str, float], base: float | None) -> list[Finding]:
    """Say whether the base that the code names for an axis is another than its speeds show."""
    sides = ("height", "h", "y") if axis == "row" else ("width", "w", "x")
    name = next((name for name in bases if name.rpartition("_")[2] in sides), None)
    if name is None or base is None or abs(base / bases[name] - 1) < 1e-2:
        return []
    words = f"by {axis}: {name} is {bases[name]:g}, and speeds fall as for a base of {base:.4g}: it does not arrive"
    return [wrong("base-ignored", words, base)._replace(check="bases")]


def _worth(finding: Finding) -> bool:
    """Tell what is said of an axis: cells often count from 1, and speeds are read off few of them."""
    return finding.verdict != "ok" and finding.id not in ("positions-shifted", "exponent-shifted")


def _whole(moved: Tensor) -> list[Tensor]:
    """Return the channels of each axis with those that move too slowly to be seen: parts, or every other few."""
    n, d = moved.shape
    channel = torch.arange(d)
    for group in (channel * n // d, channel * n * 2 // d % n, channel // 2 % n, channel % n):
        for order in permutations(range(n)):
            parts = [group == place for place in order]
            if not any((own & ~part).any() for own, part in zip(moved, parts, strict=True)):
                return parts
    return [*moved]


def base(cells: Cells) -> Finding | None:
    """Ask for another base, and see whether the numbers follow."""
    code = rebuilt_with(cells.code, "base", 500)
    made = None if code is None else again(cells._replace(code=code), cells.sides)
    if made is None:
        return None
    if relative_difference(made, cells.numbers) < ALIKE:
        return wrong("base-ignored", "asked for base 500, it gives the same numbers: the base does not arrive", 500.0)
    return passed("asked for base 500, it gives other numbers")


def other_sizes(cells: Cells) -> Finding:
    """Ask for grids that are longer along one axis: cells keep their numbers, or each axis is scaled by its side."""
    grown = [again(cells, _longer(cells, axis)) for axis in range(len(cells.sides))]
    if any(one is None for one in grown):
        return not_checked("another size raises, or gives another form")
    inside = tuple(slice(side) for side in cells.sides)
    changes = [largest(one[inside] - cells.numbers) > 1e-3 for one in grown if one is not None]
    any_change = torch.stack(changes).any(0)
    if not any_change.any():
        return passed("a cell keeps its numbers in a larger grid")
    for name, moved, change in zip(cells.names, cells.moved, changes, strict=True):
        if (moved & any_change).any() and not (moved & change).any():
            words = f"numbers change along the {name} with the length of another axis, not with its own"
            return wrong("axes-swapped", f"{words}: positions are divided by the wrong side")
    return note("a cell has other numbers in a larger grid: positions are fractions of the size")


def _longer(cells: Cells, axis: int) -> tuple[int, ...]:
    return tuple(side + 9 * (place == axis) for place, side in enumerate(cells.sides))
