"""What the code says of itself and does: the base that it names, another base or factor, how many channels turn."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.blocks import frequencies, rotate, rotate_by, rotate_interleaved

SIZES = {"dim": 16, "heads": 2}


# The base that the code names


def named(name, base=None):
    """Return a rotation whose base is named by default, and which turns by that or by another."""

    def turn(x, positions, base=name, turning=base):
        return rotate(x, positions, base if turning is None else turning)

    return turn


def still(x, positions, base=777.0):
    return x * (0 * positions + 1.0)[:, None]


def deaf(x, positions, base=10_000.0):
    """Take a base and turn by the usual one."""
    return rotate(x, positions)


NAMED = {
    "100": (named(100.0), ""),
    "2": (named(2.0), ""),
    "none, and turns by 100": (named(None, 100.0), "base-ignored exponent-halved"),
    "300, and turns by the square": (named(300.0, 90_000.0), "base-ignored exponent-doubled"),
    "640,000, and turns by the root": (named(640_000.0, 800.0), "base-ignored exponent-halved"),
    "640,000, and turns by 900": (named(640_000.0, 900.0), "base-ignored"),
    "777, and nothing turns": (still, "clipped still"),
    "10,000, and hears no other": (deaf, "base-ignored"),
}


@pytest.mark.parametrize("name", NAMED)
def test_the_base_that_is_named_is_the_one_that_turns(name):
    patient, wrong = NAMED[name]
    assert_report(diagnose(patient, kind="rotation", **SIZES), wrong)


# Another base or factor


class Based(nn.Module):
    """A rotation that is built with a base and a factor."""

    def __init__(self, dim, base=10_000.0, scaling_factor=1.0):
        super().__init__()
        self.speeds = frequencies(dim, self.changed(base)) / scaling_factor
        self.check(base, scaling_factor)

    def changed(self, base):
        return base

    def check(self, base, scaling_factor): ...

    def forward(self, x, positions):
        return rotate_by(x, positions[:, None] * self.speeds)


class Rooted(Based):
    """Pass the base through a root, unless it is the usual one."""

    def changed(self, base):
        return base if base == 10_000 else base**0.7


class FailsInCall(Based):
    """Fail in the call with another base or factor."""

    def check(self, base, scaling_factor):
        self.fails = base > 10_000 or scaling_factor > 1

    def forward(self, x, positions):
        if self.fails:
            raise ValueError("not supported")
        return super().forward(x, positions)


class FailsToBuild(Based):
    """Refuse another base or factor."""

    def check(self, base, scaling_factor):
        if base > 10_000 or scaling_factor > 1:
            raise ValueError("not supported")


class ScalesFar(Based):
    """Slow far positions only."""

    def __init__(self, dim, scaling_factor=1.0):
        super().__init__(dim)
        self.factor = scaling_factor

    def forward(self, x, positions):
        near = positions.clamp(max=512)
        return super().forward(x, near + (positions - near) / self.factor)


class DeafToFactor(Based):
    """Ignore the factor."""

    def __init__(self, dim, scaling_factor=1.0):
        super().__init__(dim)


class Deaf(Based):
    """Ignore base and factor."""

    def __init__(self, dim, base=10_000.0, scaling_factor=1.0):
        super().__init__(dim)


class OnGrid(Based):
    """Count along rows of 4 and from row to row, with the frequencies of one axis of twice as many pairs."""

    def forward(self, x, positions):
        speeds = self.speeds[: x.shape[-1] // 4]
        return rotate_by(x, torch.cat((positions[:, None] // 4 * speeds, positions[:, None] % 4 * speeds), -1))


class Given(nn.Module):
    """Turn by what is given, whatever the base."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()

    def forward(self, q, k, cos, sin):
        return tuple(x * cos + torch.cat((-x[..., 8:], x[..., :8]), -1) * sin for x in (q, k))


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (Based, ""),
        (Rooted, "base-ignored"),
        (FailsInCall, ""),
        (FailsToBuild, ""),
        (ScalesFar, ""),
        (DeafToFactor, "scaling-ignored"),
        (OnGrid, ""),
        (Given, ""),
    ],
)
def test_another_base_or_factor_turns_otherwise(cls, wrong):
    assert_report(diagnose(cls(16), **SIZES), wrong)


def test_the_base_of_two_axes_is_checked():
    assert verdicts(diagnose(OnGrid(16), **SIZES), "base") == ["ok"]


@pytest.mark.parametrize(("cls", "wrong"), [(Based, ""), (Deaf, "base-ignored scaling-ignored")])
def test_a_table_by_a_base_of_500(cls, wrong):
    class OfTable(cls):
        def forward(self, x, positions):
            table = torch.arange(4096)[:, None] * self.speeds
            return rotate_by(x, table[positions])

    module = OfTable(64, 500.0)
    assert_report(diagnose(module), wrong)


@pytest.mark.parametrize("cls", [Based, DeafToFactor])
def test_frequencies_that_were_set_otherwise_are_not_compared_with_those_built_anew(cls):
    module = cls(16)
    module.speeds = module.speeds / 3
    assert_report(diagnose(module, **SIZES))


def test_a_base_that_was_set_otherwise_is_no_fault():
    module = Based(16, 777.0)
    assert_report(diagnose(module, **SIZES))
    module.speeds = module.speeds / 3
    assert_report(diagnose(module, **SIZES))


# How many channels turn


class Wide(Based):
    """Say how many channels turn, and turn as many or others, some of which rest."""

    def __init__(self, dim, declared=8, turning=8, resting=0):
        super().__init__(turning)
        self.rotary_dim, self.turning = declared, turning
        self.speeds[turning // 2 - resting :] = 0

    def forward(self, x, positions):
        return torch.cat((super().forward(x[..., : self.turning], positions), x[..., self.turning :]), -1)


@pytest.mark.parametrize(
    ("declared", "turning", "resting", "wrong"),
    [
        (8, 8, 0, ""),
        (8, 16, 0, "width-wrong"),
        (8, 4, 0, "width-wrong"),
        (16, 8, 0, "width-wrong"),
        (32, 8, 0, ""),
        (1, 8, 0, ""),
        (2, 8, 0, "width-wrong"),
        (12, 16, 2, ""),
        (16, 16, 2, "width-wrong"),
    ],
)
def test_as_many_channels_turn_as_the_code_says(declared, turning, resting, wrong):
    assert_report(diagnose(Wide(16, declared, turning, resting), **SIZES), wrong)


class Mixed(Wide):
    """Turn in two layouts, one after the other."""

    def forward(self, x, positions):
        return rotate_interleaved(super().forward(x, positions), positions)


def test_a_width_is_not_asked_of_what_does_not_turn_in_pairs():
    assert_report(diagnose(Mixed(16, declared=8, turning=16), **SIZES), "absolute", "layout")
