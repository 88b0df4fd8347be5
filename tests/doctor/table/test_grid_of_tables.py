"""Tables of pictures, volumes and points: no axis lost or taken for another, frequencies and base of each axis, use."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, label
from tests.doctor.blocks import frequencies, interleave, noise
from tests.doctor.blocks import sinusoids_in_halves as halves
from tests.doctor.table.patients import cells, picture

# Axes of a picture


def in_one_line(dim, height, width, indexing="ij", lost=False):
    """Return rows (h * w, d), the cells row by row where indexing is "ij"."""
    down, along = torch.meshgrid(torch.arange(height), torch.arange(width), indexing=indexing)
    sides = (along if lost else down, along)
    return torch.cat([interleave(axis.flatten()[:, None] * frequencies(dim // 2)) for axis in sides], -1)


def with_h_and_w(dim, h, w):
    return in_one_line(dim, h, w)


def from_sides(exponents):
    """Return cells divided by the sides of the picture, each by the side that is named."""

    def table(dim, height, width):
        sides = (height, width)
        places = zip(cells(height, width), exponents, strict=True)
        return torch.cat([halves(axis / sides[by] * 6, dim // 2, 50.0) for axis, by in places], -1)

    return table


def one_fraction(scaled):
    """Return cells of which one axis alone is a fraction."""

    def table(dim, height, width):
        places, sides = [*cells(height, width)], (height, width)
        places[scaled] = places[scaled] / sides[scaled] * 2
        return torch.cat([halves(place, dim // 2, 50.0) for place in places], -1)

    return table


def across(twice):
    """Return waves across the picture, sines in place of cosines or not."""
    directions = noise(2, 32)

    def table(dim, height, width):
        turn = torch.stack(cells(height, width), -1) @ directions
        return torch.cat((turn.sin(), turn.sin() if twice else turn.cos()), -1)

    return table


def of_axes(down_base=50.0, along_base=50.0, twice=False):
    def table(dim, height, width):
        down, along = cells(height, width)
        rows = [halves(down, dim // 2, down_base), halves(along, dim // 2, along_base)]
        if twice:
            rows = [part[..., : dim // 4].repeat(1, 1, 2) for part in rows]
        return torch.cat(rows, -1)

    return table


def summed(dim, height, width):
    """Add row and column, so that cells of one diagonal share a row."""
    down, along = cells(height, width)
    return halves(down + along, dim)


PICTURES = {
    "in one line": (in_one_line, "", ""),
    "in one line of a text": (lambda dim, height, width: in_one_line(dim, height, width)[:, None], "", ""),
    "h and w": (with_h_and_w, "", ""),
    "column by column": (lambda dim, height, width: in_one_line(dim, height, width, "xy"), "axes-swapped", ""),
    "columns alone": (lambda dim, height, width: in_one_line(dim, height, width, lost=True), "axis-lost", ""),
    "divided by their sides": (from_sides((0, 1)), "", "other-sizes"),
    "divided by the width": (from_sides((1, 1)), "axes-swapped", ""),
    "divided by the height": (from_sides((0, 0)), "axes-swapped", ""),
    "divided by the other side": (from_sides((1, 0)), "axes-swapped", ""),
    "rows as fractions": (one_fraction(0), "", "other-sizes"),
    "columns as fractions": (one_fraction(1), "", "other-sizes"),
    "waves across": (across(twice=False), "", "axes"),
    "sines twice, across": (across(twice=True), "order-broken", ""),
    "two axes": (of_axes(), "", ""),
    "another base for columns": (of_axes(along_base=100.0), "exponent-halved", ""),
    "sines twice": (of_axes(twice=True), "order-broken", ""),
    "row and column added": (summed, "rows-alike", ""),
}


@pytest.mark.parametrize("name", PICTURES)
def test_rows_and_columns_are_told_apart(name):
    patient, wrong, notes = PICTURES[name]
    report = diagnose(patient)
    assert report.kind == "table"
    assert_report(report, wrong, notes)
    if name.startswith("in one line"):
        assert "4 by 6" in report.examined["grid"]


LAYOUTS = {
    "halves": lambda row, column: torch.cat((*row, *column), -1),
    "quarters": lambda row, column: torch.cat((row[0], column[0], row[1], column[1]), -1),
    "pairs": lambda row, column: torch.stack((*row, *column), -1).flatten(-2),
    "one by one": lambda row, column: torch.stack((row[0], column[0], row[1], column[1]), -1).flatten(-2),
    "columns first": lambda row, column: torch.cat((*column, *row), -1),
}


@pytest.mark.parametrize("base", [50.0, 1e7])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_channels_of_an_axis_may_lie_anywhere(layout, base):
    """With a large base the slowest channels hardly move, and their axis is told by their place."""

    def table(dim, height, width):
        turns = [axis[..., None] * frequencies(dim // 2, base) for axis in cells(height, width)]
        return LAYOUTS[layout](*((turn.sin(), turn.cos()) for turn in turns))

    assert_report(diagnose(table))


def test_what_is_no_number_is_wrong():
    assert_report(diagnose(lambda dim, height, width: picture(height, width, dim) / torch.zeros(dim)), "not-finite")


# Bases


class BaseOfEachAxis(nn.Module):
    """Name a base for each axis, and take that of the width for both or not."""

    def __init__(self, deaf):
        super().__init__()
        self.deaf, self.temperature_height, self.temperature_width = deaf, 20.0, 100.0

    def forward(self, height, width):
        down, along = cells(height, width)
        base = self.temperature_width if self.deaf else self.temperature_height
        return torch.cat((halves(down, 32, base), halves(along, 32, self.temperature_width)), -1)


def deaf_picture(dim, height, width, base=50.0):
    """Take a base and ignore it."""
    return picture(height, width, dim, 50.0)


def hearing_picture(dim, height, width, base=50.0):
    return picture(height, width, dim, base)


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: hearing_picture, ""),
        (lambda: deaf_picture, "base-ignored"),
        (lambda: BaseOfEachAxis(deaf=False), ""),
        (lambda: BaseOfEachAxis(deaf=True), "base-ignored"),
    ],
    ids=["hears", "deaf", "hears both", "deaf for one"],
)
def test_another_base_gives_another_picture(make, wrong):
    assert_report(diagnose(make()), wrong)


# Volumes


def volume(grid_size, dim, order=(0, 1, 2), lost=False):
    axes = torch.meshgrid(*(torch.arange(float(grid_size[axis])) for axis in order), indexing="ij")
    axes = [axes[order.index(axis)] for axis in range(3)]
    return torch.cat([halves(axes[0 if lost else axis].flatten(), dim // 3) for axis in range(3)], -1)


def along(dim, *sides, axes=(0, 1, 2)):
    """Return a table whose channels are thirds of these axes."""
    rows = [halves(axis, dim // 3) for axis in cells(*sides)]
    return torch.cat([rows[axis] for axis in axes], -1)


VOLUMES = {
    "sound": (lambda grid_size, dim: volume(grid_size, dim), ""),
    "sides in another order": (lambda grid_size, dim: volume(grid_size, dim, (2, 1, 0)), "axes-swapped"),
    "one axis for all": (lambda grid_size, dim: volume(grid_size, dim, lost=True), "axis-lost"),
    "depth first": (lambda dim, depth, height, width: along(dim, depth, height, width), ""),
    "depth last": (lambda dim, height, width, depth: along(dim, height, width, depth), ""),
    "depth first, width lost": (
        lambda dim, depth, height, width: along(dim, depth, height, width, axes=(0, 1, 1)),
        "axis-lost",
    ),
    "depth last, depth lost": (
        lambda dim, height, width, depth: along(dim, height, width, depth, axes=(0, 1, 1)),
        "axis-lost",
    ),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_three_axes_of_a_volume(name):
    patient, wrong = VOLUMES[name]
    assert_report(diagnose(patient, dim=96), wrong)


def test_the_sides_of_a_volume_are_examined():
    assert "3 by 4 by 6" in diagnose(VOLUMES["sound"][0], dim=96).examined["grid"]


@pytest.mark.parametrize("base", [50.0, 10_000.0])
def test_a_width_that_three_axes_do_not_fill(base):
    def table(grid_size, dim):
        rows = torch.cat([halves(axis, dim // 6 * 2, base) for axis in cells(*grid_size)], -1)
        return nn.functional.pad(rows, (0, dim - rows.shape[-1]))

    assert_report(diagnose(table, dim=64))


@pytest.mark.parametrize("widths", [(24, 20, 20), (32, 16, 16), (20, 24, 20)])
def test_axes_may_have_widths_of_their_own(widths):
    def table(grid_size, dim):
        return torch.cat([halves(*given, 50.0) for given in zip(cells(*grid_size), widths, strict=True)], -1)

    assert_report(diagnose(table, dim=64))


# Points


def encode_by(sides):
    """Return waves of points (b, n, 2), the column first, divided by what `sides` makes of height and width."""
    directions = noise(2, 32)

    def encode(coords, image_size):
        angle = ((coords + 0.5) / torch.tensor(sides(*image_size))) @ directions
        return torch.cat((angle.sin(), angle.cos()), -1)

    return encode


def scaled_points(coords, image_size):
    height, width = image_size
    coords = coords / torch.tensor([width, height])
    return torch.cat([halves(coords[..., axis] * 6, 32, 50.0) for axis in (1, 0)], -1)


def points_written_to(coords, image_size):
    """Scale the points that are handed in in place."""
    height, width = image_size
    coords[..., 0] /= width
    coords[..., 1] /= height
    return torch.cat([halves(coords[..., axis] * 6, 32, 50.0) for axis in (1, 0)], -1)


@pytest.mark.parametrize(
    ("patient", "wrong"),
    [
        (encode_by(lambda height, width: [width, height]), ""),
        (encode_by(lambda height, width: [width, width]), "axes-swapped"),
        (scaled_points, ""),
        (points_written_to, "in-place"),
    ],
)
def test_points_are_divided_by_the_sides_of_their_picture(patient, wrong):
    assert_report(diagnose(patient), wrong)


# Pictures and their tables


class AddsPicture(nn.Module):
    """A picture (b, d, h, w) and its table; the settings say in which numbers, up to which side, what is kept."""

    def __init__(self, side=0, alone=False, coarse=False, caches=False, of_buffer=False, refuses=False):
        super().__init__()
        self.side, self.alone, self.coarse, self.caches = side, alone, coarse, caches
        self.refuses, self.cache = refuses, None
        self.register_buffer("speeds", frequencies(32, 50.0) if of_buffer else None)

    def forward(self, x):
        height, width = x.shape[2:]
        if x.shape[1] != 64 or (self.side and max(height, width) > self.side):
            raise ValueError("another form")
        if self.refuses and x.dtype == torch.bfloat16:
            raise ValueError("float32, please")
        table = self.table(height, width, x.dtype)
        return table[None] if self.alone else x + table

    def table(self, height, width, dtype):
        if self.caches and self.cache is not None and self.cache.shape[1:] == (height, width):
            return self.cache
        speeds = frequencies(32, 50.0) if self.speeds is None else self.speeds
        places = [axis.to(dtype) if self.coarse else axis for axis in cells(height, width)]
        turns = [axis[..., None] * speeds for axis in places]
        rows = torch.cat([wave for turn in turns for wave in (turn.sin(), turn.cos())], -1)
        self.cache = rows.to(dtype).permute(2, 0, 1)
        return self.cache


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({}, ""),
        ({"alone": True}, ""),
        ({"side": 6}, ""),
        ({"side": 20}, ""),
        ({"refuses": True}, ""),
        ({"coarse": True}, "positions-rounded"),
        ({"of_buffer": True}, "buffers-rounded"),
        ({"caches": True}, "cache-stale"),
    ],
    ids=label,
)
def test_a_table_that_is_added_to_a_picture(settings, wrong):
    assert_report(diagnose(AddsPicture(**settings)), wrong)


def written_to(x):
    """Add the table to the picture in place."""
    if x.shape[1] != 64:
        raise ValueError("another form")
    x += picture(*x.shape[2:], 64, 50.0).permute(2, 0, 1)
    return x


def test_a_picture_that_is_written_to():
    assert_report(diagnose(written_to), "in-place")


def channels_last(x):
    """Take any width, so that a picture with channels first would get rows for its channels."""
    half = x.shape[-1] // 2
    rows = [halves(axis, half + half % 2, 50.0)[..., :half] for axis in cells(*x.shape[1:3])]
    return x + torch.cat(rows, -1)


def test_a_picture_whose_channels_come_last():
    report = diagnose(channels_last)
    assert_report(report)
    assert "(b, h, w, d)" in report.examined["grid"]


def test_learned_rows_for_each_cell_and_a_class_token():
    rows = noise(1, 26, 64)

    def adds(x):
        if x.shape[1:] != (25, 64):
            raise ValueError("5 by 5 cells, please")
        return rows

    report = diagnose(adds, kind="table")
    assert_report(report)
    assert "5 by 5" in report.examined["grid"]
