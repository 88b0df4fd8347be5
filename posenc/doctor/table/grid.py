"""Examine the table of a picture or a volume: a row of numbers for each cell of a grid, whose sides differ."""

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.doctor.call.code import Code, first_result
from posenc.doctor.call.declared import declared_bases_of_axes
from posenc.doctor.numerics import is_finite, not_finite, random, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, note, passed, run_checks, stopped, with_check_name, wrong
from posenc.doctor.safe_call import attempt
from posenc.doctor.table.measure import EQUAL, are_equal, grows_linearly, nearest_rows
from posenc.doctor.table.precision import HalfCall, check_half
from posenc.doctor.table.sinusoids import base_of, equal_channels, examine_sinusoids
from posenc.doctor.table.usage import base, cached, finite, written_in_place

PICTURE, VOLUME = (4, 6), (3, 4, 6)
SQUARES = (5, 14, 7, 16, 8)  # sides of a picture that is asked for by one side, or whose cells are tokens
BATCH = 2  # pictures
VARIES = 1e-5  # from which range on a channel depends on an axis
MORE_ROWS = 300  # of which bfloat16 cannot tell the last ones apart
PADDED = ((2, 3), (3, 2))  # rows and columns that two masks leave
AXES = {2: ("row", "column"), 3: ("first axis", "second axis", "third axis")}
Sides = tuple[int, ...]


class GridRecord(NamedTuple):
    """The rows of cells (rows, columns, d), or with an axis more, in float64, and the call that they came from.

    `returned_axes` is the order of the axes of the result, and `cell_order` that in which cells run, where these are
    not the usual ones; `rows` are in the usual order.
    """

    code: Code
    rows: Tensor
    call: str
    returned_axes: Sides = ()
    cell_order: Sides = ()

    @property
    def sides(self) -> Sides:
        """How many cells along each axis."""
        return tuple(self.rows.shape[:-1])

    @property
    def size(self) -> str:
        """The sides in words."""
        return " by ".join(map(str, self.sides))

    @property
    def channels(self) -> dict[str, Tensor]:
        """Which channels (d,) vary along each axis, by the name of the axis."""
        ranges = [self.rows.amax(axis) - self.rows.amin(axis) for axis in range(len(self.sides))]
        return {name: _largest(each) > VARIES for name, each in zip(AXES[len(self.sides)], ranges, strict=True)}

    @property
    def lost_axes(self) -> list[str]:
        """The axes along which no channel varies."""
        return [name for name, varies in self.channels.items() if not varies.any()]

    @property
    def mixed_channels(self) -> int:
        """How many channels vary along several axes."""
        return int((torch.stack([*self.channels.values()]).sum(0) > 1).sum())

    def arguments(self, sides: Sides) -> dict[str, Any] | None:
        """Return the arguments that ask for these sides in the same call; None where there are none."""
        return dict(_calls(self.code, sides)).get(self.call)

    def of(self, code: Code, sides: Sides = ()) -> Tensor | None:
        """Return the rows of other code, or of other sides, by the same call; None where none come."""
        sides = sides or self.sides
        arguments = self.arguments(sides)
        return None if arguments is None else _table(code, sides, arguments)[0]


def _largest(numbers: Tensor) -> Tensor:
    return numbers.abs().flatten(0, -2).amax(0)  # (d,)


# The calls


def _calls(code: Code, sides: Sides) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls that ask for a grid of these sides: name, arguments."""
    d = code.dim
    # Squares are for code that cannot know two sides apart; all other faults of axes show where sides differ.
    if len({*sides}) == 1:
        if code.takes("grid") and not code.takes("positions"):
            yield "a side", {"grid": sides[0]}
        if code.takes("x"):
            yield f"tokens of {' by '.join(map(str, sides))} cells", {"x": torch.zeros(BATCH, math.prod(sides), d)}
        return
    if code.takes("mask"):
        yield from _calls_with_mask(code, torch.ones(BATCH, *sides, dtype=torch.bool))
    if code.takes("depth", "rows", "columns") and len(sides) == 3:
        yield "depth, rows and columns", dict(zip(_roles_of_sides(code), sides, strict=True))
    elif code.takes("rows", "columns") and len(sides) == 2:
        yield "rows and columns", {"rows": sides[0], "columns": sides[1]}
    if code.takes("positions"):
        # Points of a picture are (x, y) by custom, and a size is (height, width).
        points = torch.cartesian_prod(*(torch.arange(float(side)) for side in sides)).flip(-1)
        yield "points (b, n, axes), the last axis first", {"positions": points[None], "grid": sides}
    elif code.takes("grid"):
        yield "sides", {"grid": sides}
    if code.takes("shape"):
        yield "a shape (b, d, h, w)", {"shape": torch.Size((BATCH, d, *sides))}
    if code.takes("x"):
        yield "a picture (b, d, h, w)", {"x": torch.zeros(BATCH, d, *sides)}
        yield "a picture (b, h, w, d)", {"x": torch.zeros(BATCH, *sides, d)}
        yield "a mask (b, h, w)", {"x": torch.zeros(BATCH, *sides, dtype=torch.bool)}


def _roles_of_sides(code: Code) -> tuple[str, ...]:
    """Return the roles of three sides in the order of the parameters: depth comes first or last."""
    names = [*code.parameters]
    depth_first = names.index(code.roles["depth"]) < names.index(code.roles["rows"])
    return ("depth", "rows", "columns") if depth_first else ("rows", "columns", "depth")


def _calls_with_mask(code: Code, visible: Tensor) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls with a mask (b, h, w), which may mark what is padded or what is visible."""
    shape = torch.Size((BATCH, code.dim, *visible[0].shape))
    call = "a mask (b, h, w)"
    arguments = {}
    if code.takes("shape"):
        call = "a shape and a mask (b, h, w)"
        arguments = {"shape": shape}
    elif code.takes("x"):
        call = "a picture and its mask"
        arguments = {"x": torch.zeros(shape)}
    yield f"{call} of what is padded", arguments | {"mask": ~visible}
    yield f"{call} of what is visible", arguments | {"mask": visible.float()}


def _grids(code: Code) -> Iterator[GridRecord]:
    """Yield the table of each call that returns one."""
    for sides in (PICTURE, VOLUME, *((side, side) for side in SQUARES)):
        for call, arguments in _calls(code, sides):
            table, returned_axes = _table(code, sides, arguments)
            if table is None:
                continue
            cells = table.flatten(0, -2)
            # A layer that divides by the length of its content returns NaN for zeros, and is no table.
            is_layer = "x" in arguments and not is_finite(table)
            if is_layer or are_equal(cells) or grows_linearly(cells):  # plain angles grow linearly
                continue
            # Without a picture to add the table to, the order of its axes is the caller's choice.
            has_axes = code.takes("x") or code.takes("mask")
            yield GridRecord(code, table, call, returned_axes if has_axes else ())


def _table(code: Code, sides: Sides, arguments: dict[str, Any]) -> tuple[Tensor | None, Sides]:
    """Return the table (*sides, d) and the order in which its axes came; None where no table comes."""
    result, _ = attempt(lambda: first_result(code(**arguments)))
    if not isinstance(result, Tensor) or not result.is_floating_point():
        return None, ()
    table = result.detach().double()
    # The batch may be the second axis.
    if table.ndim > 2:
        table = table[0] if len(table) <= BATCH else table.squeeze(1)
    cells, n = math.prod(sides), len(sides)
    # A class token may come before the cells; (cells, cells) is a bias.
    if table.ndim == 2 and len(table) in (cells, cells + 1) and table.shape[1] != cells:
        return table[-cells:].reshape(*sides, -1), ()
    # The sides differ, so that they show which axis of the result is which.
    for order in permutations(range(n)):
        for channels_last in (table, table.movedim(0, -1)):
            if tuple(channels_last.shape[:-1]) == tuple(sides[axis] for axis in order):
                is_usual = order == tuple(range(n))
                return channels_last.permute(*_inverse(order), -1), () if is_usual else order
    return None, ()


def _inverse(order: Sides) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


def accepts(code: Code) -> bool:
    """Return whether some call returns a row for each cell of a grid."""
    return any(True for _ in _grids(code))


def measure_grid(code: Code) -> GridRecord:
    """Return the grid whose channels follow one axis each, of all that calls return, with its cells in place."""
    record = max(_grids(code), key=_plainness)
    if record.returned_axes or not record.mixed_channels:
        return record
    # Cells in one line do not show their order: in the right one, each channel varies along one axis.
    for order in permutations(range(len(record.sides))):
        table = record.rows.reshape(*(record.sides[axis] for axis in order), -1).permute(*_inverse(order), -1)
        relaid = record._replace(rows=table)
        if not relaid.mixed_channels:
            return relaid._replace(cell_order=order)
    return record


def _plainness(record: GridRecord) -> tuple[bool, float, bool]:
    """Tell how far this looks like a grid: finite, what share of channels follows one axis alone, no axis lost."""
    axes = torch.stack([*record.channels.values()]).sum(0)  # (d,)
    share = float((axes[axes > 0] == 1).double().mean().nan_to_num())
    return is_finite(record.rows), share, not record.lost_axes


def examine(code: Code) -> tuple[list[Finding], dict[str, Any]]:
    """Return the findings on a grid, and what was examined."""
    record = measure_grid(code)
    width = f"{record.rows.shape[-1]} channels"
    examined = {"grid": f"a grid of {record.size}, asked for by {record.call}", "width": width}
    findings = run_checks((finite,), record)
    if findings[-1].is_wrong:
        return stopped(findings), examined
    # Calls for other sizes would have to be put in order too.
    checks = CHECKS_OF_CELLS if record.cell_order else (*CHECKS_OF_CELLS, *CHECKS_OF_CALLS)
    return findings + run_checks(checks, record), examined


# Checks of cells


def rows(record: GridRecord) -> Finding:
    """Check that no two cells share a row of numbers."""
    distance, *nearest = nearest_rows(record.rows.flatten(0, -2))
    if distance >= VARIES and not record.lost_axes:
        return passed(f"all cells differ, the nearest two by {distance:.2g}", distance)
    first, second = (tuple(map(int, torch.unravel_index(torch.tensor(cell), record.sides))) for cell in nearest)
    message = f"cells {first} and {second} ({', '.join(record.channels)}) have the same numbers"
    if not record.lost_axes:
        return wrong("rows-alike", message, distance)
    return wrong("axis-lost", f"{message}: no channel depends on the {record.lost_axes[0]}", distance)


def axes(record: GridRecord) -> Finding:
    """Tell which channels depend on which axis."""
    if record.returned_axes:
        returned = " by ".join(str(record.sides[axis]) for axis in record.returned_axes)
        return wrong("axes-swapped", f"for a grid of {record.size} one of {returned} comes back: exchange the axes")
    if record.cell_order:
        message = f"in a grid of {record.size} the cells do not run along the last axis first"
        return wrong("axes-swapped", f"{message}: right only where sides are equal. Exchange the axes, then flatten")
    if record.mixed_channels == 0:
        counts = [f"{int(varies.sum())} channels depend on the {name}" for name, varies in record.channels.items()]
        return passed(", ".join(counts))
    message = f"{record.mixed_channels} of {record.rows.shape[-1]} channels depend on several axes together"
    return note(f"{message}: learned, or sines and cosines of a sum", record.mixed_channels)


def waves(record: GridRecord) -> list[Finding]:
    """Read sines and cosines along each axis."""
    # A width that the axes do not divide is filled up with zeros.
    used = _largest(record.rows).nonzero()  # (n, 1)
    record = record._replace(rows=record.rows[..., : int(used.max()) + 1])
    if record.lost_axes or record.mixed_channels:
        equal = None if record.lost_axes else equal_channels(record.rows.flatten(0, -2))
        return [equal or not_checked("needs channels for each axis")]
    findings = []
    for axis, (name, channels) in enumerate(_channels_of_axes(record.channels).items()):
        # Rows of this axis alone: its channels are equal along the others.
        cells = record.rows.movedim(axis, -2).flatten(0, -3).mean(0)
        of_axis, _ = examine_sinusoids(cells[:, channels], record.code, is_relative=True)
        # Cells are often counted from 1, and frequencies are read off few of them.
        reported = [f for f in of_axis if f.verdict != "ok" and f.id not in ("positions-shifted", "exponent-shifted")]
        findings += [finding._replace(words=f"by {name}: {finding.words}") for finding in reported]
        findings += _declared_base(record.code, name, base_of(of_axis))
    return findings


def _declared_base(code: Code, axis: str, base: float | None) -> list[Finding]:
    """Check the base that was read against the one that the code names for an axis."""
    endings = ("height", "h", "y") if axis == "row" else ("width", "w", "x")
    for name, expected in declared_bases_of_axes(code).items():
        if base and name.rpartition("_")[2] in endings and abs(base / expected - 1) >= 1e-2:
            message = f"by {axis}: {name} is {expected:g}, and frequencies fall as for a base of {base:.4g}"
            return [with_check_name(wrong("base-ignored", f"{message}: it is not used", base), "bases")]
    return []


def _channels_of_axes(channels: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the channels (d,) of each axis, with those whose frequency is too low to be seen to vary."""
    n, d = len(channels), len(next(iter(channels.values())))
    channel = torch.arange(d)
    # The axes have parts one after the other, two parts each, pairs in turn, or channels in turn.
    for axis_of_channel in (channel * n // d, channel * n * 2 // d % n, channel // 2 % n, channel % n):
        for order in permutations(range(n)):
            parts = {name: axis_of_channel == place for name, place in zip(channels, order, strict=True)}
            if not any((channels[name] & ~part).any() for name, part in parts.items()):
                return parts
    return channels


# Checks of calls


def other_sizes(record: GridRecord) -> Finding:
    """Compare grids that are longer along one axis: cells keep their numbers, or each axis is divided by its side."""
    # Which channels change where the grid grows along an axis.
    changes = []
    for axis in range(len(record.sides)):
        sides = tuple(side + 9 if each == axis else side for each, side in enumerate(record.sides))
        table = record.of(record.code, sides)
        if table is None:
            return not_checked("another size raises, or gives another form")
        if finding := not_finite(table, f"the cells of a grid of {' by '.join(map(str, sides))}"):
            return finding
        # Tables that are interpolated to another size may be off by rounding.
        inside = tuple(slice(side) for side in record.sides)
        changes.append(_largest(table[inside] - record.rows) > 1e-3)
    changes_at_all = torch.stack(changes).any(0)  # (d,)
    if not changes_at_all.any():
        return passed("a cell keeps its numbers in a larger grid")
    # Positions that are fractions of a side change with that side, and not with the other alone.
    for (name, varies), change in zip(record.channels.items(), changes, strict=True):
        if (varies & changes_at_all).any() and not (varies & change).any():
            return wrong("axes-swapped", f"positions along the {name} are divided by the length of another axis")
    return note("a cell has other numbers in a larger grid: positions are fractions of the size")


def content(record: GridRecord) -> Finding | None:
    """Check that the arguments stay as they are, also for content that is not 0."""
    arguments = record.arguments(record.sides) or {}
    role = "x" if "x" in arguments else "positions"
    if role not in arguments:
        return None
    # Of a picture of zeros, x *= 2 would change nothing.
    x = arguments[role] if arguments[role].any() else random(*arguments[role].shape)
    original = x.clone()
    result = first_result(record.code.fresh()(**arguments | {role: x}))
    if finding := written_in_place(x, original) or not_finite(result, "for random content"):
        return finding
    return passed("what is passed stays as it is, and the result is finite")


def padding(record: GridRecord) -> Finding | None:
    """Check that padding on the right and below, marked by the mask, is not counted, by fresh and by used code."""
    calls = [record.arguments(record.sides) or {}]
    for rows, columns in PADDED if len(record.sides) == 2 else ():
        visible = torch.zeros(BATCH, *record.sides, dtype=torch.bool)
        visible[:, :rows, :columns] = True
        calls += [arguments for call, arguments in _calls_with_mask(record.code, visible) if call == record.call]
    if len(calls) == 1:
        return None
    # In used code the call without padding comes first: a table that is cached by its shape stays for the masks.
    used = record.code.fresh()
    results = [first_result(used(**arguments)) for arguments in calls]
    expected = [first_result(record.code.fresh()(**arguments)) for arguments in calls]
    if relative_difference(expected[1], expected[0]) < EQUAL:
        # Learned rows may be those of places in the picture, padding or not.
        if record.code.learned_parameters:
            return passed("learned rows and columns, which no mask changes")
        message = "the mask changes nothing: padding is counted. Count with cumsum over what is visible"
        return wrong("padding-counted", message)
    if finding := not_finite(expected[1], "with a mask"):
        return finding
    difference = worst(*(relative_difference(*pair) for pair in zip(results, expected, strict=True)))
    if difference <= EQUAL:
        return passed("padding that the mask marks is not counted")
    return cached(difference, "another mask of the same shape")


def half_precision(record: GridRecord) -> list[Finding]:
    """Check a module that was cast to half precision, and a picture in bfloat16 before one in float32."""
    code = record.code
    sides = (record.sides[0] + MORE_ROWS, *record.sides[1:])
    arguments = record.arguments(sides)
    if arguments is None or code.module is None or arguments.get("x", record.rows).dtype == torch.bool:
        return []

    def call(code: Code, dtype: torch.dtype) -> Tensor:
        content = {"x": arguments["x"].to(dtype)} if "x" in arguments else {}
        return first_result(code(**arguments | content))

    expected = call(code.fresh(), torch.float32)
    findings = [check_half(code, [HalfCall(call, expected)], is_cast=True)]
    if "x" in arguments:
        used = code.fresh()
        attempt(call, used, torch.bfloat16)
        result, failed = attempt(call, used, torch.float32)
        findings.append(cached(0.0 if failed else relative_difference(result, expected), "one call in bfloat16"))
    return findings


CHECKS_OF_CELLS = (rows, axes, waves)
CHECKS_OF_CALLS = (base, other_sizes, content, padding, half_precision)
