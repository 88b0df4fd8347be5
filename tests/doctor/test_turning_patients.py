"""Patients of the doctor that turn: lengths, pairs, sides, grids and ends, of few channels and few heads."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose
from tests.doctor.cases import ids, neighbors, rotation, thetas, told, turned, yarn_thetas

SIZES = {"dim": 16, "heads": 3}
ORDER = torch.tensor([3, 0, 14, 7, 9, 1, 12, 5, 2, 15, 4, 11, 6, 13, 8, 10])


def examined(function, **given):
    return diagnose(function, kind="rotation", **SIZES | given)


# Lengths


def padded(x, positions, sine=1.0):
    """The cosines and sines of the slowest pair are 1 and what is given."""
    angle = positions[:, None] * thetas(x.shape[-1])
    cos, sin = angle.cos(), angle.sin()
    cos[:, -1], sin[:, -1] = 1.0, sine
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def of_two_angles(x, positions):
    """The sines of all pairs but two belong to other angles."""
    angle = positions[:, None] * thetas(x.shape[-1])
    cos, sin = angle.cos(), (angle * torch.tensor([1.0] * 2 + [2.0] * 6)).sin()
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def by_one_sign(x, positions):
    angle = positions[:, None] * thetas(x.shape[-1])
    first, second = x.chunk(2, -1)
    return torch.cat((first * angle.cos() + second * angle.sin(), second * angle.cos() + first * angle.sin()), -1)


def mixing(x, positions):
    """Turns in both layouts, one after the other."""
    return neighbors(rotation(x, positions), positions)


def scaled(x, positions):
    return x * (1 + positions[:, None] / 1000)


def signs(first, last):
    """Return -1 for some of the channels."""
    return 1.0 - 2.0 * ((torch.arange(16) >= first) & (torch.arange(16) < last))


LENGTHS = {
    "one factor": (lambda x, positions: 1.5 * rotation(x, positions), "multiplied by 1.5"),
    "less than one": (lambda x, positions: 0.5 * rotation(x, positions), "multiplied by 0.5"),
    "normalized": (lambda x, positions: rotation(F.normalize(x, dim=-1), positions), "not linear"),
    "by heads": (
        lambda x, positions: rotation(x, positions) * torch.tensor([1.0, 1, 2])[:, None, None],
        "heads differ",
    ),
    "padded with one": (padded, "padded-with-one"),
    "padded with two": (lambda x, positions: padded(x, positions, 2.0), "not-a-rotation"),
    "padded with zero": (lambda x, positions: padded(x, positions, 0.0), "14 of 16 channels turn"),
    "two angles": (of_two_angles, "not-a-rotation"),
    "one sign": (by_one_sign, "not-a-rotation"),
    "mixing": (mixing, "channels mix in more than pairs"),
    "scaled by places": (scaled, "not-a-rotation"),
    "at every other place": (
        lambda x, positions: rotation(x, positions) * (1 + (2**0.5 - 1) * (positions[:, None] % 2)),
        "not-a-rotation",
    ),
    "by YaRN and by 2": (
        lambda x, positions: 2 * turned(x, positions[:, None] * yarn_thetas(16)),
        "multiplied by 2.0000",
    ),
    "some pairs mirrored": (lambda x, positions: rotation(x, positions) * signs(8, 10), "layout-mixed"),
    "all pairs mirrored": (lambda x, positions: rotation(x, positions) * signs(8, 16), "are mirrored, not turned"),
    "one half of each pair": (
        lambda x, positions: rotation(x, positions) * torch.tensor([1.0, 1.2]).repeat_interleave(8),
        "layout-mixed",
    ),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_stay_or_it_is_said_what_changes_them(name):
    function, said = LENGTHS[name]
    report = examined(function)
    assert said in ids(report) or said in told(report), str(report)


# Queries and keys


def wide(x, positions):
    angle = positions[:, None] * thetas(x.shape[-1])
    return torch.cat((x * angle.cos().repeat(1, 2), x * angle.sin().repeat(1, 2)), -1)


def shuffled(x, positions):
    return rotation(x[..., ORDER], positions)[..., ORDER.argsort()]


SIDES = {  # what turns queries, and keys: what is wrong
    "alike": (rotation, rotation, ""),
    "in neighbors": (neighbors, neighbors, ""),
    "in pairs of their own": (shuffled, shuffled, ""),
    "one in pairs of its own": (rotation, shuffled, "sides-differ"),
    "queries alone": (rotation, lambda x, positions: 1.0 * x, "one-side"),
    "queries twice as fast": (lambda x, positions: rotation(x, 2 * positions), rotation, "sides-differ"),
    "keys backwards": (rotation, lambda x, positions: rotation(x, -positions), "opposite"),
    "both backwards": (*[lambda x, positions: rotation(x, -positions)] * 2, ""),
    "both from 3": (*[lambda x, positions: rotation(x, positions + 3)] * 2, ""),
    "both from a half": (*[lambda x, positions: rotation(x, positions + 0.5)] * 2, ""),
    "keys from 1": (rotation, lambda x, positions: rotation(x, positions + 1), "sides-differ"),
    "keys mixed": (rotation, mixing, "sides-differ"),
    "keys stretched": (rotation, lambda x, positions: padded(x, positions, 2.0), "not-a-rotation"),
    "queries stretched": (lambda x, positions: padded(x, positions, 2.0), rotation, "not-a-rotation"),
    "keys cut": (rotation, lambda x, positions: rotation(x, positions) * (torch.arange(16) % 8 < 6), "width-wrong"),
    "keys wide": (rotation, wide, "width-wrong"),
    "both wide": (wide, wide, ""),
    "keys of other tokens": (rotation, lambda x, positions: rotation(x, positions // 2 * 2), "sides-differ"),
}


@pytest.mark.parametrize("name", SIDES)
def test_queries_and_keys_are_turned_alike(name):
    of_q, of_k, cause = SIDES[name]
    report = examined(lambda q, k, positions: (of_q(q, positions), of_k(k, positions)))
    assert (cause in ids(report)) if cause else not ids(report), str(report)


# Grids


class Picture(nn.Module):
    """Turns half of the pairs along rows and half from row to row, with or without a token of the class."""

    def __init__(self, rows, columns, place="none", dim=16, flat=False):
        super().__init__()
        speeds, tokens = thetas(dim // 2, 1.0 if flat else 100.0), torch.arange(rows * columns)[:, None]
        angle = torch.cat((tokens // columns * speeds, tokens % columns * speeds), -1)
        none = torch.zeros(1, angle.shape[-1])
        self.angle = torch.cat({"none": (angle,), "before": (none, angle), "behind": (angle, none)}[place])

    def forward(self, x):
        return turned(x, self.angle)


@pytest.mark.parametrize("place", ["none", "before", "behind"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 8), (8, 2), (8, 8)])
def test_grids_are_read_with_or_without_a_token_of_the_class(rows, columns, place):
    report = examined(Picture(rows, columns, place, dim=8), dim=8)
    assert not ids(report), str(report)
    assert f"rows of {columns}" in told(report)


def of_picture(down, along, base=100.0):
    def turn(x, height, width):
        place = torch.arange(height * width)[:, None]
        speeds = thetas(x.shape[-1] // 2, base)
        return turned(x, torch.cat((down(place, height, width) * speeds, along(place, height, width) * speeds), -1))

    return turn


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (of_picture(lambda p, h, w: p // w, lambda p, h, w: p % w), set()),
        (of_picture(lambda p, h, w: p // w, lambda p, h, w: p // w), {"axis-lost", "still"}),
        (of_picture(lambda p, h, w: p // w, lambda p, h, w: p % w, 1.0), {"exponent-flat"}),
        (of_picture(lambda p, h, w: p // w, lambda p, h, w: p % h), {"axes-swapped"}),
        (of_picture(lambda p, h, w: p, lambda p, h, w: p), set()),
        (of_picture(lambda p, h, w: p**2 % 7, lambda p, h, w: p**2 % 5), {"absolute"}),
        (lambda x, height, width: mixing(x, torch.arange(height * width)), {"absolute"}),
    ],
)
def test_pictures_that_say_their_sides(function, found):
    report = examined(function)
    assert ids(report) == found, str(report)


@pytest.mark.parametrize(("dim", "base", "flat"), [(16, 1.0, True), (12, 1.0, True), (8, 1.0, False), (16, 1.5, False)])
def test_three_or_more_pairs_of_an_axis_that_turn_alike_are_flat(dim, base, flat):
    report = examined(of_picture(lambda p, h, w: p // w, lambda p, h, w: p % w, base), dim=dim)
    assert ids(report) == ({"exponent-flat"} if flat else set()), str(report)


def test_a_width_is_not_asked_of_a_picture():
    picture = Picture(4, 4, dim=8)
    picture.rotary_dim = 6
    assert not ids(examined(picture, dim=8))


def by_axes(axes, lost=None):
    """Turn by positions of several numbers, or by one for all axes."""

    def turn(x, positions):
        places = positions if positions.ndim == 3 else positions.expand(axes, len(x), -1)
        kept = torch.arange(axes) if lost is None else torch.arange(axes).where(torch.arange(axes) != lost, 0)
        of_pair = places[kept[torch.arange(x.shape[-1] // 2) % axes]]  # (pairs, b, t)
        return turned(x, (of_pair.permute(1, 2, 0) * thetas(x.shape[-1]))[:, None])

    return turn


@pytest.mark.parametrize(("lost", "found"), [(None, set()), (1, {"axis-lost"}), (2, {"axis-lost"})])
def test_each_of_three_axes_turns_pairs_of_its_own(lost, found):
    report = examined(by_axes(3, lost), dim=24)
    assert ids(report) == found, str(report)


def by_grid(x, positions):
    """Turn by one number, which positions of three numbers are counted into."""
    time, row, column = positions if positions.ndim == 3 else (0, 0, positions.expand(len(x), -1))
    return turned(x, ((16 * time + 4 * row + column)[..., None] * thetas(x.shape[-1]))[:, None])


def test_three_numbers_that_are_counted_into_one_are_no_three_axes():
    report = examined(by_grid, dim=24)
    assert report.healthy, str(report)
    assert not any("axes" in finding.words for finding in report.findings)


def by_last_axis(axes, rows, lost=None):
    """Turn by positions (t, axes) or (b, t, axes), and by no others."""

    def turn(x, positions):
        if positions.ndim != 2 + rows or positions.shape[-1] != axes or positions.shape[-2] != x.shape[2]:
            raise ValueError("positions")
        pair = torch.arange(x.shape[-1] // 2) % axes
        angle = positions[..., pair.where(pair != lost, 0) if lost else pair] * thetas(x.shape[-1])
        return turned(x, angle[:, None] if rows else angle)

    return turn


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("rows", [False, True])
def test_positions_of_several_numbers_may_come_last(axes, rows):
    report = examined(by_last_axis(axes, rows), dim=24)
    assert not ids(report), str(report)
    assert ids(examined(by_last_axis(axes, rows, lost=axes - 1), dim=24)) == {"axis-lost"}


# How far positions go, and calls after calls


class Table(nn.Module):
    def __init__(self, length, told=True):
        super().__init__()
        self.angle = torch.arange(length)[:, None] * thetas(16)

    def forward(self, x, positions):
        return turned(x, self.angle[positions])


class FromZero(Table):
    def forward(self, x):
        return turned(x, self.angle[: x.shape[2]])


class Offset(Table):
    """The last row of the table is all that is left for two tokens, and serves both."""

    def forward(self, x, offset=0):
        return turned(x, self.angle[offset : offset + x.shape[2]])


@pytest.mark.parametrize("length", [8, 9, 20, 100, 1000, 1030])
@pytest.mark.parametrize("cls", [Table, FromZero, Offset])
def test_tables_end_where_they_end(cls, length):
    report = examined(cls(length))
    assert ids(report) == ({"clipped"} if cls is Offset else set()), str(report)


ENDS = {
    "clipped": lambda p: p.clamp(max=700),
    "wrapped": lambda p: p % 500,
    "wrapped late": lambda p: p % 5000,
    "positions-rounded": lambda p: p.to(torch.bfloat16),
    "positions-rounded, half": lambda p: p.to(torch.float16),
    "clipped, to 0": lambda p: torch.where(p < 300, p, 0),
    "wrapped, one alone": lambda p: torch.where(p == 4096, 0, p),
}


@pytest.mark.parametrize("name", ENDS)
def test_positions_go_on_or_raise(name):
    of = ENDS[name]
    report = examined(lambda x, positions: rotation(x, of(positions)))
    assert name.partition(",")[0].partition(" ")[0] in ids(report), str(report)


class Keeping(nn.Module):
    """Keeps its angles: of the first call, of the longest, or of each start."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.angle, self.start = kept, None, None

    def forward(self, x, offset=0):
        places = offset + torch.arange(x.shape[2])
        stale = self.angle is None or len(self.angle) < x.shape[2] or (self.kept == "start" and self.start != offset)
        if stale or self.kept == "nothing":
            self.angle, self.start = places[:, None] * thetas(x.shape[-1]), offset
        return turned(x, self.angle[: x.shape[2]])


@pytest.mark.parametrize(
    ("kept", "found"),
    [("nothing", set()), ("start", set()), ("longest", {"offset-ignored"})],
)
def test_what_is_kept_is_told_by_where_it_starts(kept, found):
    assert ids(examined(Keeping(kept))) >= found
    assert bool(ids(examined(Keeping(kept)))) == bool(found)


class Late(nn.Module):
    """Keeps the start of the first call that was told one."""

    def __init__(self):
        super().__init__()
        self.start = 0

    def forward(self, x, offset=0):
        self.start = max(self.start, offset)
        return rotation(x, self.start + torch.arange(x.shape[2]))


def test_a_start_that_stays_is_stale():
    report = examined(Late())
    assert ids(report) & {"cache-stale", "offset-ignored"}, str(report)


class Near(nn.Module):
    """Keeps the angles of the first call that ends near enough, wherever it began."""

    def __init__(self, end=500):
        super().__init__()
        self.end, self.angle = end, None

    def forward(self, x, offset=0):
        places = offset + torch.arange(x.shape[2])
        if self.angle is not None and len(self.angle) >= x.shape[2] and not offset:
            return turned(x, self.angle[: x.shape[2]])
        angle = places[:, None] * thetas(x.shape[-1])
        if places[-1] < self.end and self.angle is None:
            self.angle = angle
        return turned(x, angle)


def test_what_is_kept_of_near_places_alone_is_found_stale():
    report = examined(Near())
    assert report.finding("starts").id == "cache-stale", str(report)


def rows_apart(x, positions):
    places = positions if positions.ndim == 2 else positions[None]
    return turned(x, (places[..., None] * thetas(x.shape[-1]))[:, None])


USES = {
    "rows": (rows_apart, set()),
    "rows of the first": (
        lambda x, positions: rows_apart(x, positions[:1] if positions.ndim == 2 else positions),
        {"rows-mixed"},
    ),
    "no gradient": (lambda x, positions: rotation(x.detach(), positions), {"no-gradient"}),
    "gradients of zero": (lambda x, positions: rotation(x * 1.0 - x + x.detach(), positions), {"gradient-wrong"}),
    "gradients of no number": (
        lambda x, positions: rotation(x + 0 * (x - x.detach()).abs().sqrt(), positions),
        {"gradient-wrong"},
    ),
    "gradient of half": (lambda x, positions: rotation((x + x.detach()) / 2, positions), {"gradient-wrong"}),
    "integers": (lambda x, positions: rotation(x, positions.long()), set()),
    "in place": (lambda x, positions: x.copy_(rotation(x, positions)), {"in-place"}),
    "grows with the length": (
        lambda x, positions: rotation(x, positions) * (1 + positions.shape[-1] / 10_000),
        set(),
    ),
    "slower in long texts": (
        lambda x, positions: rotation(x, positions * (600 / positions.max().clamp(600))),
        {"length-dependent"},
    ),
    "by the call": (
        lambda x, positions: rotation(x, positions - positions[0] * (len(positions) < 3)),
        {"offset-ignored"},
    ),
}


@pytest.mark.parametrize("name", USES)
def test_uses_of_a_rotation(name):
    function, found = USES[name]
    report = examined(function)
    assert found <= ids(report), str(report)
    assert report.healthy or found, str(report)
