"""Code that makes the angles of a rotation, or their cosines and sines: the doctor rotates with what it makes."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, wrong_ids
from tests.doctor.blocks import frequencies, interleave
from tests.doctor.call.patients import DIM, SIZES, angles_of, cos_and_sin, in_halves


def of(length):
    return angles_of(torch.arange(length))


def pair_of(length):
    return cos_and_sin(in_halves(of(length)))


def with_lengths(last):
    """Return cosines and sines whose pairs have lengths from 1 to `last`."""
    return lambda length: tuple(part * torch.linspace(1, last, DIM // 2) for part in cos_and_sin(of(length)))


class OfContent(nn.Module):
    """Make tables for content of three heads, which comes as wide and as long as it is turned."""

    def __init__(self, lay=lambda table: table):
        super().__init__()
        self.lay = lay

    def forward(self, x, position_ids):
        assert x.shape[1:] == (position_ids.shape[1], DIM)
        return cos_and_sin(self.lay(in_halves(angles_of(position_ids))))


def on_axes(rows, columns, dim):
    speeds = frequencies(dim, 100.0)
    down, along = torch.arange(rows)[:, None, None] * speeds, torch.arange(columns)[:, None] * speeds
    return cos_and_sin(torch.cat((down.expand(-1, columns, -1), along.expand(rows, -1, -1)), -1))


class OfPicture(nn.Module):
    """Make the table of a picture (1, d, rows, columns)."""

    def forward(self, x):
        b, d, rows, columns = x.shape
        assert (b, d) == (1, DIM)
        return on_axes(rows, columns, d // 2)


MAKERS = {
    "two": pair_of,
    "two, as neighbors": lambda length: cos_and_sin(of(length).repeat_interleave(2, -1)),
    "two, once": lambda length: cos_and_sin(of(length)),
    "two, of positions": lambda positions: cos_and_sin(in_halves(angles_of(positions))),
    "two, of rows": lambda position_ids: cos_and_sin(in_halves(angles_of(position_ids))),
    "two, with rows and heads": lambda length: cos_and_sin(in_halves(of(length))[None, None]),
    "two, with heads behind": lambda length: cos_and_sin(in_halves(of(length))[:, None]),
    "two, with rows, and heads behind": lambda length: cos_and_sin(in_halves(of(length))[None, :, None]),
    "two, tokens before rows and heads": lambda length: cos_and_sin(in_halves(of(length))[:, None, None]),
    "two, of content and rows": lambda x, position_ids: cos_and_sin(in_halves(angles_of(position_ids))),
    "of content and rows": OfContent(),
    "of content and rows, with heads": OfContent(lambda table: table[:, None]),
    "of content and rows, heads behind": OfContent(lambda table: table[:, :, None]),
    "complex": lambda length: torch.polar(torch.ones(length, DIM // 2), of(length)),
    "stacked last": lambda length: torch.stack(cos_and_sin(of(length)), -1),
    "stacked first": lambda length: torch.stack(cos_and_sin(of(length))),
    "cos, then sin": lambda length: torch.cat(cos_and_sin(of(length)), -1),
    "sin, then cos": lambda length: torch.cat(cos_and_sin(of(length))[::-1], -1),
    "angles": lambda length: in_halves(of(length)),
    "angles and more": lambda length: (of(length), 1.0),
    "angles of t": lambda t: angles_of(t),
    "angles that are repeated": lambda seq: in_halves(angles_of(seq)),
    "of two axes": lambda ids: cos_and_sin(torch.cat([angles_of(ids[:, i], DIM // 2) for i in range(2)], -1)),
    "of three axes": lambda ids: cos_and_sin(torch.cat([angles_of(ids[:, i]) for i in range(3)], -1)),
    "of a picture": OfPicture(),
    "of height and width": lambda height, width: on_axes(height, width, DIM),
    "of an odd number of pairs": lambda length: cos_and_sin(angles_of(torch.arange(length), 6)),
    "longer than asked for": lambda length: pair_of(2 * length),
    "of the length of content": lambda x: cos_and_sin(in_halves(angles_of(torch.arange(x.shape[1]), x.shape[2]))),
    "of a length that is asked for twice": lambda x, length: cos_and_sin(
        in_halves(angles_of(torch.arange(length)[: x.shape[1]], x.shape[2]))
    ),
    "counted from one": lambda length: cos_and_sin(angles_of(torch.arange(1, length + 1))),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers_are_taken_for_rotations(name):
    report = diagnose(MAKERS[name], kind="rotation", **SIZES)
    assert report.kind == "rotation"
    assert_report(report)


@pytest.mark.parametrize("name", ["of a picture", "of height and width"])
def test_the_grid_of_a_maker_is_read(name):
    assert "rows of 6" in diagnose(MAKERS[name], kind="rotation", **SIZES).examined["grid"]


def test_pairs_of_a_maker_that_are_a_little_longer_than_others():
    assert_report(diagnose(with_lengths(1.008), kind="rotation", **SIZES), "not-a-rotation")


NO_MAKERS = {
    "too few tokens": lambda length: cos_and_sin(of(5)),
    "nothing turns": lambda length: cos_and_sin(0.01 * of(length)),
    "lengths differ": with_lengths(1.03),
    "angles that do not grow evenly": lambda length: torch.arange(length)[:, None] ** 1.5 * frequencies(DIM),
    "angles from one": lambda length: angles_of(torch.arange(1, length + 1)),
}


@pytest.mark.parametrize("name", NO_MAKERS)
def test_what_makes_no_angles_is_refused(name):
    with pytest.raises(ValueError, match=r"doctor: function must be .*got"):
        diagnose(NO_MAKERS[name], kind="rotation", **SIZES)


# Modules


HELD = {
    "angles": lambda angles: angles,
    "cos and sin": lambda angles: cos_and_sin(in_halves(angles)),
    "complex": lambda angles: torch.polar(torch.ones_like(angles), angles),
    "stacked": lambda angles: torch.stack(cos_and_sin(angles), -1),
    "in one row": lambda angles: torch.cat((angles.sin(), angles.cos()), -1),
}


class Rotary(nn.Module):
    def __init__(self, held, base=10_000.0):
        super().__init__()
        self.held, self.base = held, base

    def forward(self, t):
        return HELD[self.held](t[..., None] * frequencies(64, self.base))


@pytest.mark.parametrize("base", [10_000.0, 100.0])
@pytest.mark.parametrize("held", HELD)
def test_a_module_that_makes_angles_turns_by_its_base(held, base):
    """Base 100 is what the module says, so it is no root of the usual base."""
    report = diagnose(Rotary(held, base))
    assert report.kind == "rotation"
    assert_report(report)
    assert finding(report, "frequencies").number == pytest.approx(base)


class Based(nn.Module):
    """Make tables by a base that is set, or by the usual one; its buffer is rounded when the module is cast."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.register_buffer("speeds", frequencies(dim, self.changed(base)), persistent=False)

    def changed(self, base):
        return base

    def forward(self, x, position_ids):
        return cos_and_sin(in_halves(position_ids[..., None] * self.speeds))


class Deaf(Based):
    """Ignore the base."""

    def changed(self, base):
        return 10_000.0


@pytest.mark.parametrize(("cls", "wrong"), [(Based, set()), (Deaf, {"base-ignored"})])
def test_a_base_reaches_what_a_maker_makes(cls, wrong):
    assert wrong_ids(diagnose(cls(DIM), kind="rotation", **SIZES)) == wrong | {"buffers-rounded"}


# Makers without a kind that is told


def angles_of_width(length, dim):
    return angles_of(torch.arange(length), dim)


def pair_of_width(length, dim):
    return cos_and_sin(angles_of_width(length, dim))


def waves_of_width(length, dim):
    return interleave(angles_of_width(length, dim))


@pytest.mark.parametrize(
    ("patient", "kind"), [(angles_of_width, "rotation"), (pair_of_width, "rotation"), (waves_of_width, "table")]
)
def test_angles_are_told_from_a_table(patient, kind):
    assert diagnose(patient).kind == kind
