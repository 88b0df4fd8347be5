"""Tables of pictures and volumes: how their cells are asked for, where channels of an axis lie, and what use does."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.cases import ids as causes
from tests.doctor.test_table_patients import speeds, waves


def cells(*sides, stretched=()):
    """Return the place of each cell along each axis, (*sides) each."""
    places = [
        torch.arange(float(side)) * factor for side, factor in zip(sides, stretched or [1] * len(sides), strict=True)
    ]
    return torch.meshgrid(*places, indexing="ij")


def picture(height, width, dim, base=10_000.0):
    return torch.cat([waves(axis, dim // 2, base) for axis in cells(height, width)], -1)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_depth_comes_first_or_last(first, lost):
    def of(depth, height, width, dim):
        made = [waves(axis, dim // 3) for axis in cells(depth, height, width)]
        return torch.cat([made[0], made[1], made[1 if lost else 2]], -1)

    def depth_first(dim, depth, height, width):
        return of(depth, height, width, dim)

    def depth_last(dim, height, width, depth):
        return of(height, width, depth, dim)

    report = diagnose(depth_first if first else depth_last, dim=96)
    assert causes(report) == ({"axis-lost"} if lost else set()), str(report)


LAYOUTS = {
    "halves": lambda row, column: torch.cat((*row, *column), -1),
    "quarters": lambda row, column: torch.cat((row[0], column[0], row[1], column[1]), -1),
    "pairs": lambda row, column: torch.stack((*row, *column), -1).flatten(-2),
    "one by one": lambda row, column: torch.stack((row[0], column[0], row[1], column[1]), -1).flatten(-2),
    "columns first": lambda row, column: torch.cat((*column, *row), -1),
}


@pytest.mark.parametrize("base", [50.0, 1e7])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_where_the_channels_of_an_axis_lie(layout, base):
    """With a large base the slowest channels hardly move, and their axis is told by their place."""

    def table(dim, height, width):
        turns = [axis[..., None] * speeds(dim // 2, base) for axis in cells(height, width)]
        return LAYOUTS[layout](*((turn.sin(), turn.cos()) for turn in turns))

    report = diagnose(table)
    assert causes(report) == set(), str(report)


@pytest.mark.parametrize("base", [50.0, 10_000.0])
def test_a_volume_of_a_width_that_is_filled_up(base):
    def table(grid_size, dim):
        made = torch.cat([waves(axis, dim // 6 * 2, base) for axis in cells(*grid_size)], -1)
        return nn.functional.pad(made, (0, dim - made.shape[-1]))

    report = diagnose(table, dim=64)
    assert report.healthy, str(report)


@pytest.mark.parametrize("widths", [(24, 20, 20), (32, 16, 16), (20, 24, 20)])
def test_a_volume_whose_axes_have_widths_of_their_own(widths):
    def table(grid_size, dim):
        return torch.cat([waves(*given, 50.0) for given in zip(cells(*grid_size), widths, strict=True)], -1)

    report = diagnose(table, dim=64)
    assert report.healthy, str(report)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, set()),
        ({"halved": True}, {"exponent-halved"}),
        ({"twice": True}, {"order-broken"}),
        ({"summed": True}, {"rows-alike"}),
    ],
)
def test_waves_of_a_picture(settings, found):
    def table(dim, height, width):
        down, along = cells(height, width)
        if settings.get("summed"):
            return waves(down + along, dim)
        made = [waves(down, dim // 2, 50.0), waves(along, dim // 2, 100.0 if settings.get("halved") else 50.0)]
        if settings.get("twice"):
            made = [part[..., : dim // 4].repeat(1, 1, 2) for part in made]
        return torch.cat(made, -1)

    assert causes(diagnose(table)) == found, str(diagnose(table))


@pytest.mark.parametrize("divided", [(0, 1), (1, 1), (0, 0), (1, 0)])
def test_cells_divided_by_the_sides(divided):
    def table(dim, height, width):
        sides = (height, width)
        places = zip(cells(height, width), divided, strict=True)
        return torch.cat([waves(axis / sides[by] * 6, dim // 2, 50.0) for axis, by in places], -1)

    report = diagnose(table)
    assert causes(report) == (set() if divided == (0, 1) else {"axes-swapped"}), str(report)


def test_a_picture_of_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="must be a rotation, a table"):
        diagnose(lambda dim, height, width: picture(height, width, dim) / torch.zeros(dim))


@pytest.mark.parametrize("twice", [False, True])
def test_waves_across_a_picture(twice):
    directions = torch.randn(2, 32, generator=torch.Generator().manual_seed(0))

    def table(dim, height, width):
        turn = torch.stack(cells(height, width), -1) @ directions
        return torch.cat((turn.sin(), turn.sin() if twice else turn.cos()), -1)

    report = diagnose(table)
    assert causes(report) == ({"order-broken"} if twice else set()), str(report)


@pytest.mark.parametrize("deaf", [False, True])
def test_another_base_for_a_picture(deaf):
    def table(dim, height, width, base=50.0):
        return picture(height, width, dim, 50.0 if deaf else base)

    assert causes(diagnose(table)) == ({"base-ignored"} if deaf else set())


class Seen(nn.Module):
    """Cells counted where they are seen, for a shape (b, d, h, w) or for a picture of it, with a mask or without."""

    def __init__(self, kept=False, strict=False, learned=False, heeds=True):
        super().__init__()
        self.kept, self.strict, self.heeds, self.last, self.table = kept, strict, heeds, None, None
        self.rows = nn.Parameter(torch.randn(20, 16, generator=torch.Generator().manual_seed(0))) if learned else None

    def of(self, shape, seen):
        if seen.shape != (shape[0], *shape[2:]):
            raise ValueError("a mask of the picture, please")
        if self.kept and shape == self.last:
            return self.table
        if self.strict and not seen.all():
            raise ValueError("no padding, please")
        counts = [(seen if self.heeds else torch.ones_like(seen)).cumsum(axis) for axis in (1, 2)]
        if self.rows is not None:
            made = torch.cat([self.rows[count] for count in counts], -1)
        else:
            made = torch.cat([waves(count, shape[1] // 2, 50.0) for count in counts], -1)
        self.last, self.table = shape, made.permute(0, 3, 1, 2)
        return self.table


class OfShape(Seen):
    def forward(self, shape, mask=None):
        seen = torch.ones(shape[0], *shape[2:], dtype=torch.bool) if mask is None else ~mask.bool()
        return self.of(tuple(shape), seen)


class OfPicture(Seen):
    def forward(self, x, mask):
        if mask is None or x.shape[1] != 32:
            raise ValueError("a picture and its mask, please")
        return self.of(tuple(x.shape), mask.bool())


@pytest.mark.parametrize(
    ("asked", "settings", "found"),
    [
        (OfShape, {}, set()),
        (OfShape, {"kept": True}, {"cache-stale"}),
        (OfPicture, {}, set()),
        (OfPicture, {"strict": True}, set()),
        (OfPicture, {"heeds": False}, {"padding-counted"}),
        (OfPicture, {"learned": True}, set()),
        (OfPicture, {"learned": True, "heeds": False}, set()),
        (OfShape, {"learned": True, "kept": True}, {"cache-stale"}),
    ],
)
def test_padding_of_a_picture(asked, settings, found):
    report = diagnose(asked(**settings), dim=32)
    assert causes(report) == found, str(report)


class Adds(nn.Module):
    """A picture (b, d, h, w) and its table, of so many sides and in such numbers as the settings say."""

    def __init__(self, side=0, alone=False, coarse=False, caches=False, of_buffer=False, refuses=False):
        super().__init__()
        self.side, self.alone, self.coarse, self.caches = side, alone, coarse, caches
        self.refuses, self.cache = refuses, None
        self.register_buffer("speeds", speeds(32, 50.0) if of_buffer else None)

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
        fast = speeds(32, 50.0) if self.speeds is None else self.speeds
        places = [axis.to(dtype) if self.coarse else axis for axis in cells(height, width)]
        turns = [axis[..., None] * fast for axis in places]
        made = torch.cat([wave for turn in turns for wave in (turn.sin(), turn.cos())], -1)
        self.cache = made.to(dtype).permute(2, 0, 1)
        return self.cache


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, set()),
        ({"alone": True}, set()),
        ({"side": 6}, set()),
        ({"side": 20}, set()),
        ({"refuses": True}, set()),
        ({"coarse": True}, {"positions-rounded"}),
        ({"of_buffer": True}, {"buffers-rounded"}),
        ({"caches": True}, {"cache-stale"}),
    ],
)
def test_a_picture_and_its_table(settings, found):
    report = diagnose(Adds(**settings))
    assert causes(report) == found, str(report)


@pytest.mark.parametrize("writes", [False, True])
def test_points_that_are_handed_in_stay_as_they_are(writes):
    def encode(coords, image_size):
        """Points (b, n, 2), the column first."""
        height, width = image_size
        if writes:
            coords[..., 0] /= width
            coords[..., 1] /= height
        else:
            coords = coords / torch.tensor([width, height])
        return torch.cat([waves(coords[..., axis] * 6, 32, 50.0) for axis in (1, 0)], -1)

    report = diagnose(encode)
    assert causes(report) == ({"in-place"} if writes else set()), str(report)


def test_a_picture_that_is_written_to():
    def adds(x):
        if x.shape[1] != 64:
            raise ValueError("another form")
        x += picture(*x.shape[2:], 64, 50.0).permute(2, 0, 1)
        return x

    report = diagnose(adds)
    assert causes(report) == {"in-place"}, str(report)
