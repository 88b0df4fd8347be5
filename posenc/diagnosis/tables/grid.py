"""Examine a table of a picture: a row for each cell of a grid of ROWS by COLUMNS, or of SIDE by SIDE."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.diagnosis.calling.call import Code, attempt
from posenc.diagnosis.calling.told import with_base
from posenc.diagnosis.compare import far
from posenc.diagnosis.report import Finding, findings, note, ok, unchecked, wrong
from posenc.diagnosis.tables.sinusoids import sinusoids

ROWS, COLUMNS, SIDE = 4, 6, 5
MARGIN = 1e-5


class Cells(NamedTuple):
    """The table (rows, columns, d) in float64, with the way it was asked for."""

    code: Code
    numbers: Tensor
    asked: str

    @property
    def channels(self) -> tuple[Tensor, Tensor, Tensor]:
        """Which channels change with the column only, with the row only, with both."""
        along = (self.numbers - self.numbers[:, :1]).abs().amax((0, 1)) > MARGIN
        down = (self.numbers - self.numbers[:1]).abs().amax((0, 1)) > MARGIN
        return along & ~down, down & ~along, along & down


def accepts(code: Code) -> bool:
    """Tell whether some call gives a row for each cell of a grid."""
    return next(_cells(code), None) is not None


def _calls(code: Code) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """Yield what a grid can be asked for by: words, rows, columns, arguments."""
    if code.takes("rows", "columns"):
        yield "rows and columns", ROWS, COLUMNS, {"rows": ROWS, "columns": COLUMNS}
    if code.takes("grid"):
        yield "a pair", ROWS, COLUMNS, {"grid": (ROWS, COLUMNS)}
        yield "a side", SIDE, SIDE, {"grid": SIDE}
    if code.takes("shape"):
        shape = torch.Size((2, code.dim, ROWS, COLUMNS))
        yield "a shape (b, d, h, w)", ROWS, COLUMNS, {"shape": shape}
    if code.takes("x"):
        d = code.dim
        yield "a picture (b, d, h, w)", ROWS, COLUMNS, {"x": torch.zeros(2, d, ROWS, COLUMNS)}
        yield "a picture (b, h, w, d)", ROWS, COLUMNS, {"x": torch.zeros(2, ROWS, COLUMNS, d)}
        yield "a mask (b, h, w)", ROWS, COLUMNS, {"x": torch.zeros(2, ROWS, COLUMNS, dtype=torch.bool)}
        for side in (14, 7, 16, 8, SIDE):
            yield f"tokens of {side} by {side} cells", side, side, {"x": torch.zeros(2, side * side, d)}
    if code.takes("x", "mask"):
        picture = torch.zeros(2, code.dim, ROWS, COLUMNS)
        yield "a picture and its mask", ROWS, COLUMNS, {"x": picture, "mask": torch.ones(2, ROWS, COLUMNS)}
    if code.takes("mask"):
        yield "a mask (b, h, w)", ROWS, COLUMNS, {"mask": torch.zeros(2, ROWS, COLUMNS, dtype=torch.bool)}
        yield "a mask (b, h, w) of what is seen", ROWS, COLUMNS, {"mask": torch.ones(2, ROWS, COLUMNS)}


def _cells(code: Code) -> Iterator[Cells]:
    for asked, rows, columns, given in _calls(code):
        made, failed = attempt(code, **given)
        made = made[0] if isinstance(made, tuple) and made else made
        if failed or not isinstance(made, Tensor) or not made.is_floating_point():
            continue
        numbers = _laid(made, rows, columns)
        if numbers is not None and bool(numbers.isfinite().all()) and (numbers - numbers[0, 0]).any():
            yield Cells(code, numbers.detach().double(), asked)


def _laid(made: Tensor, rows: int, columns: int) -> Tensor | None:
    """Return the result as (rows, columns, d); the tokens before the cells, such as a class token, are left out."""
    one = made[0] if made.ndim > 2 and made.shape[0] in (1, 2) else made
    cells = rows * columns
    if one.ndim == 3 and one.shape[:2] == (rows, columns):
        return one
    if one.ndim == 3 and one.shape[1:] == (rows, columns):
        return one.permute(1, 2, 0)
    if one.ndim == 2 and len(one) in (cells, cells + 1) and one.shape[1] != cells:
        return one[-cells:].reshape(rows, columns, -1)
    return None


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on the first grid that is made, and what was examined."""
    cells = next(_cells(code))
    rows, columns, width = cells.numbers.shape
    about = {"grid": f"a grid of {rows} by {columns}, asked for by {cells.asked}", "width": f"{width} channels"}
    return findings((distinct, axes, waves, base, other_sizes), cells), about


def distinct(cells: Cells) -> Finding:
    """Check that no two cells share a row of numbers."""
    _, columns, width = cells.numbers.shape
    flat = cells.numbers.reshape(-1, width)
    gap = torch.cdist(flat, flat) + 1e9 * torch.eye(len(flat), dtype=torch.float64)
    nearest = float(gap.min())
    if nearest >= MARGIN:
        return ok(f"all {len(flat)} cells differ, the nearest two by {nearest:.2g}", nearest)._replace(check="rows")
    first, second = (divmod(place, columns) for place in sorted(divmod(int(gap.argmin()), len(flat))))
    words = f"cells {first} and {second} (row, column) have the same numbers"
    along, down, both = (int(part.sum()) for part in cells.channels)
    if not both and not (along and down):
        lost = "rows" if not down else "columns"
        words = f"{words}: no channel depends on the {lost[:-1]}, so one axis of the grid is lost"
        return wrong("axis-lost", words, nearest)._replace(check="rows")
    return wrong("rows-alike", words, nearest)._replace(check="rows")


def axes(cells: Cells) -> Finding:
    """Say which channels follow the column and which the row."""
    along, down, both = (int(part.sum()) for part in cells.channels)
    rows, columns, width = cells.numbers.shape
    if not both:
        first = "columns" if bool(cells.channels[0][: max(1, width // 8)].any()) else "rows"
        return ok(f"{along} channels follow the column and {down} the row, those of {first} first", along)
    turned = cells._replace(numbers=cells.numbers.reshape(columns, rows, width).transpose(0, 1))
    if rows != columns and not int(turned.channels[2].sum()):
        return wrong(
            "axes-swapped",
            f"cells run down the columns: in a grid of {rows} rows and {columns} columns, cell n stands in row n % "
            f"{rows}. Flatten row by row, or exchange height and width",
            both,
        )
    return note(f"{both} of {width} channels depend on row and column together: learned, or waves across", both)


def waves(cells: Cells) -> list[Finding]:
    """Read sines and cosines along each axis."""
    along, down, both = cells.channels
    if both.any() or not along.any() or not down.any():
        return [unchecked("needs channels for each axis")._replace(check="waves")]
    along, down = _whole(along, down)
    lines = {"column": cells.numbers[0][:, along], "row": cells.numbers[:, 0][:, down]}
    found = []
    for name, line in lines.items():
        told, _ = sinusoids(line, cells.code, by_first=True)
        found += [f._replace(words=f"by {name}: {f.words}") for f in told if _worth(f)]
    same = min(line.shape[0] for line in lines.values())
    one, other = (line[:same] for line in lines.values())
    if far(one, other) > 1e-3:
        found.append(note("rows and columns have waves of their own, or another order")._replace(check="both axes"))
    return found


def _worth(finding: Finding) -> bool:
    """Tell what is said of an axis: cells often count from 1, and speeds are read off few of them."""
    return finding.verdict != "ok" and finding.id not in ("positions-shifted", "exponent-shifted")


def base(cells: Cells) -> Finding | None:
    """Ask for another base, and see whether the numbers follow."""
    code = with_base(cells.code, 500.0)
    made = None if code is None else next(_cells(code), None)
    if made is None:
        return None
    if far(made.numbers, cells.numbers) < 1e-6:
        return wrong("base-ignored", "asked for base 500, it gives the same numbers: the base does not arrive", 500.0)
    return ok("asked for base 500, it gives other numbers")


def _whole(along: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """Return the channels of each axis with those that move too slowly to be seen: halves, or every other few."""
    d = len(along)
    for block in (d // 2, d // 4, 2, 1):
        if not block or d % (2 * block):
            continue
        first = (torch.arange(d) // block) % 2 == 0
        for one, other in ((first, ~first), (~first, first)):
            if not (along & ~one).any() and not (down & ~other).any():
                return one, other
    return along, down


def other_sizes(cells: Cells) -> Finding:
    """Ask for a larger grid: a cell keeps its numbers."""
    code = cells.code
    if code.takes("rows", "columns"):
        given: dict[str, Any] = {"rows": ROWS + 3, "columns": COLUMNS + 3}
    elif code.takes("grid"):
        given = {"grid": (ROWS + 3, COLUMNS + 3)}
    else:
        return unchecked("needs parameters for the size of the grid")
    made, failed = attempt(code, **given)
    larger = None if failed or not isinstance(made, Tensor) else _laid(made, ROWS + 3, COLUMNS + 3)
    if larger is None:
        return unchecked(f"another size raises {failed}" if failed else "another size gives another form")
    rows, columns = cells.numbers.shape[:2]
    if far(larger.double()[:rows, :columns], cells.numbers) < 1e-3:
        return ok("a cell keeps its numbers in a larger grid")
    return note("a cell has other numbers in a larger grid: positions are fractions of the size")
