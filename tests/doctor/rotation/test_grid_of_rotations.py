"""Rotations of pictures and of positions with several numbers: no axis lost or taken for another."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding
from tests.doctor.blocks import frequencies, rotate_by
from tests.doctor.rotation.patients import rotate_twice


def on_axes(x, down, along, base=10_000.0):
    """Rotate half of the pairs by rows (t,) and half by columns."""
    speeds = frequencies(x.shape[-1] // 2, base)
    return rotate_by(x, torch.cat((down[:, None] * speeds, along[:, None] * speeds), -1))


# A picture of one size


class Picture(nn.Module):
    """Rotate by rows and columns, with or without a token of the class."""

    def __init__(self, rows, columns, place="none", dim=16, base=100.0):
        super().__init__()
        cell, speeds = torch.arange(rows * columns)[:, None], frequencies(dim // 2, base)
        angles = torch.cat((cell // columns * speeds, cell % columns * speeds), -1)
        none = torch.zeros(1, angles.shape[-1])
        parts = {"none": (angles,), "before": (none, angles), "behind": (angles, none)}
        self.angles = torch.cat(parts[place])

    def forward(self, x):
        return rotate_by(x, self.angles)


@pytest.mark.parametrize("place", ["none", "before", "behind"])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (2, 8), (8, 2), (8, 8)])
def test_grids_are_read_with_or_without_a_token_of_the_class(rows, columns, place):
    report = diagnose(Picture(rows, columns, place, dim=8), kind="rotation", dim=8, heads=3)
    assert_report(report, notes="frequencies")
    assert f"rows of {columns}" in report.examined["grid"]
    assert report.examined["base"] == "base 100"


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_token_of_the_class_beside_wide_heads(place):
    report = diagnose(Picture(4, 4, place, dim=64, base=10_000.0), dim=64)
    assert_report(report)
    assert "rows of 4" in report.examined["grid"]


def test_a_width_is_not_asked_of_a_picture():
    picture = Picture(4, 4, dim=8)
    picture.rotary_dim = 6
    assert_report(diagnose(picture, kind="rotation", dim=8, heads=3))


def four_by_four(x):
    cell = torch.arange(16)
    return on_axes(x, cell // 4, cell % 4) if x.shape[2] == 16 else 1 / 0


def four_columns(x):
    """Rotate all pairs by the column."""
    cell = torch.arange(16)
    return on_axes(x, cell % 4, cell % 4) if x.shape[2] == 16 else 1 / 0


@pytest.mark.parametrize(("patient", "wrong"), [(four_by_four, ""), (four_columns, "axis-lost")])
def test_a_picture_of_16_cells(patient, wrong):
    report = diagnose(patient)
    assert report.kind == "rotation"
    assert_report(report, wrong)


# Queries and keys of a picture


class Pair(nn.Module):
    """Queries and keys of 16 cells, by rows of so many or in a line; a token of the class before, or a corner off 0."""

    def __init__(self, of_queries, of_keys, class_token=False, line=False, corner=0):
        super().__init__()
        self.angles = [self.of(columns, class_token, line, corner) for columns in (of_queries, of_keys)]

    def of(self, columns, class_token, line, corner):
        cell, speeds = torch.arange(16)[:, None], frequencies(6, 100.0)
        angles = torch.cat(((cell // columns + corner) * speeds, (cell % columns + corner) * speeds), -1)
        angles = cell * frequencies(12) if line else angles
        return torch.cat((torch.zeros(1, 6), angles)) if class_token else angles

    def forward(self, q, k):
        return tuple(rotate_by(x, angles) for x, angles in zip((q, k), self.angles, strict=True))


PAIRS = {
    "4 by 4": ({"of_queries": 4, "of_keys": 4}, ""),
    "from another corner": ({"of_queries": 4, "of_keys": 4, "corner": 1}, ""),
    "keys in rows of 8": ({"of_queries": 4, "of_keys": 8}, "absolute"),
    "queries in rows of 2, keys of 8": ({"of_queries": 2, "of_keys": 8}, "absolute"),
    "a token of the class": ({"of_queries": 2, "of_keys": 2, "class_token": True}, ""),
    "a line behind a token of the class": ({"of_queries": 4, "of_keys": 4, "class_token": True, "line": True}, ""),
}


@pytest.mark.parametrize("name", PAIRS)
def test_queries_and_keys_lie_on_one_grid(name):
    settings, wrong = PAIRS[name]
    assert_report(diagnose(Pair(**settings), kind="rotation", dim=12, heads=2), wrong)


@pytest.mark.parametrize("corner", [0, 1])
def test_three_pairs_of_six_rotate_along_each_axis(corner):
    words = finding(diagnose(Pair(4, 4, corner=corner), kind="rotation", dim=12, heads=2), "grid").words
    assert "3 pairs rotate along a row, 3 from row to row" in words


# A picture that says its sides


def of_sides(down, along, base=10_000.0):
    """Return a rotation by functions of cell, height and width."""

    def turn(x, height, width):
        cell = torch.arange(height * width)
        return on_axes(x, down(cell, height, width), along(cell, height, width), base)

    return turn


def row(cell, height, width):
    return cell // width


def column(cell, height, width):
    return cell % width


def mixed(x, height, width):
    """Mix channels in more than pairs."""
    return rotate_twice(x, torch.arange(height * width))


SMALL = {"dim": 16, "heads": 3}
SIDES = {
    "sound": (of_sides(row, column), {}, ""),
    "rows by the height": (of_sides(lambda p, h, w: p // h, column), {}, "axes-swapped"),
    "column by column": (of_sides(lambda p, h, w: p // h, lambda p, h, w: p % h), {}, "axes-swapped"),
    "columns by the height": (of_sides(row, lambda p, h, w: p % h, 100.0), SMALL, "axes-swapped"),
    "columns alone": (of_sides(column, column), {}, "axis-lost"),
    "rows alone": (of_sides(row, row, 100.0), SMALL, "axis-lost still"),
    "in a line": (of_sides(lambda p, h, w: p, lambda p, h, w: p, 100.0), SMALL, ""),
    "by squares": (of_sides(lambda p, h, w: p**2 % 7, lambda p, h, w: p**2 % 5, 100.0), SMALL, "absolute"),
    "mixed": (mixed, SMALL, "absolute"),
    "pairs of an axis alike": (of_sides(row, column, 1.0), SMALL, "exponent-flat"),
    "three pairs of an axis alike": (of_sides(row, column, 1.0), {"dim": 12, "heads": 3}, "exponent-flat"),
    "two pairs of an axis alike": (of_sides(row, column, 1.0), {"dim": 8, "heads": 3}, ""),
    "a small base": (of_sides(row, column, 1.5), SMALL, ""),
}


@pytest.mark.parametrize("name", SIDES)
def test_rows_of_a_picture_are_as_long_as_it_is_wide(name):
    patient, settings, wrong = SIDES[name]
    assert_report(diagnose(patient, **settings), wrong)


# Positions of several numbers


def axes_first(axes, lost=None):
    """Rotate pairs in turn by positions (axes, b, t), or by (b, t) for all axes."""

    def turn(x, positions):
        places = positions if positions.ndim == 3 else positions.expand(axes, len(x), -1)
        axis = torch.arange(x.shape[-1] // 2) % axes
        of_pair = places[axis if lost is None else axis.where(axis != lost, 0)]  # (pairs, b, t)
        return rotate_by(x, (of_pair.permute(1, 2, 0) * frequencies(x.shape[-1]))[:, None])

    return turn


def axes_last(axes, rows, lost=None):
    """Rotate pairs in turn by positions (t, axes) or (b, t, axes), and by no others."""

    def turn(x, positions):
        if positions.ndim != 2 + rows or positions.shape[-1] != axes or positions.shape[-2] != x.shape[2]:
            raise ValueError("positions")
        axis = torch.arange(x.shape[-1] // 2) % axes
        of_pair = positions[..., axis if lost is None else axis.where(axis != lost, 0)]
        angles = of_pair * frequencies(x.shape[-1])
        return rotate_by(x, angles[:, None] if rows else angles)

    return turn


def halves_of_axes(first, second):
    """Rotate half of the pairs by one number of positions (t, 2) and half by another."""

    def turn(x, positions):
        return on_axes(x, positions[:, first], positions[:, second])

    return turn


SEVERAL = {
    "axes first": (axes_first(3), ""),
    "axes first, one lost": (axes_first(3, lost=1), "axis-lost"),
    "axes first, the last lost": (axes_first(3, lost=2), "axis-lost"),
    "two last": (axes_last(2, rows=False), ""),
    "two last, one lost": (axes_last(2, rows=False, lost=1), "axis-lost"),
    "three last": (axes_last(3, rows=False), ""),
    "three last, one lost": (axes_last(3, rows=False, lost=2), "axis-lost"),
    "two last, for each text": (axes_last(2, rows=True), ""),
    "two last, for each text, one lost": (axes_last(2, rows=True, lost=1), "axis-lost"),
    "three last, for each text": (axes_last(3, rows=True), ""),
    "three last, for each text, one lost": (axes_last(3, rows=True, lost=2), "axis-lost"),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_each_number_turns_pairs_of_its_own(name):
    patient, wrong = SEVERAL[name]
    assert_report(diagnose(patient, kind="rotation", dim=24, heads=3), wrong)


@pytest.mark.parametrize(
    ("patient", "wrong"), [(halves_of_axes(0, 1), ""), (halves_of_axes(0, 0), "axis-lost")], ids=["both", "one"]
)
def test_a_pair_of_numbers_for_each_token(patient, wrong):
    report = diagnose(patient)
    assert_report(report, wrong)
    assert "(t, 2)" in next(each.words for each in report.findings if each.check == "positions")


def counted_into_one(of_first, of_second):
    """Return a rotation by one number, into which positions of three numbers are counted."""

    def turn(x, positions):
        first, second, third = positions if positions.ndim == 3 else (0, 0, positions.expand(len(x), -1))
        places = of_first * first + of_second * second + third
        return rotate_by(x, (places[..., None] * frequencies(x.shape[-1]))[:, None])

    return turn


@pytest.mark.parametrize("weights", [(16, 4), (0.02, 0.02), (0.3, 0.3)])
def test_three_numbers_that_are_counted_into_one_are_no_three_axes(weights):
    report = diagnose(counted_into_one(*weights), kind="rotation", dim=12, heads=2)
    assert_report(report)
    assert "axes" not in {each.check for each in report.findings}


# Positions with a number for each axis


def by_axes(form, *axes):
    """Return a rotation by positions in a form such as (b, t, 3), in which pair i rotates by axes[i % len(axes)]."""

    def turn(x, positions):
        if positions.ndim != len(form):
            raise ValueError(form)
        numbers = positions.movedim(0, -1) if form == "3bt" else positions  # (b, t, 3) or (t, 3)
        of_pair = torch.tensor(axes)[torch.arange(x.shape[-1] // 2) % len(axes)]
        angles = numbers[..., of_pair] * frequencies(x.shape[-1])
        return rotate_by(x, angles[:, None] if angles.ndim == 3 else angles)

    return turn


FORMS = {"3bt": "(3, b, t)", "t2": "(t, 2)", "bt2": "(b, t, 2)", "t3": "(t, 3)", "bt3": "(b, t, 3)"}


@pytest.mark.parametrize("form", FORMS)
def test_positions_with_a_number_for_each_axis_are_found_out(form):
    axes = range(2 if "2" in form else 3)
    report = diagnose(by_axes(form, *axes), dim=24, heads=3)
    assert_report(report)
    assert FORMS[form] in finding(report, "positions").words
    assert f"along {len(axes)} axes" in finding(report, "each axis").words
    assert_report(diagnose(by_axes(form, *axes[1:]), dim=24, heads=3), "axis-lost")
