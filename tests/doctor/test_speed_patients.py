"""Patients of the doctor whose pairs turn at other speeds than 10,000^(-2i/r): by fault, rule or request."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, neighbors, rotation, thetas, turned

SIZES = {"dim": 16, "heads": 2}


def by(speeds):
    return lambda x, positions: turned(x, positions[:, None] * speeds(x.shape[-1]))


def powers(dim, base=10_000.0, first=0):
    return base ** (-(torch.arange(0, dim, 2).float() + first) / dim)


def slowed(dim, factor, base=10_000.0):
    """Slow the second half of the pairs."""
    return thetas(dim, base) / torch.where(torch.arange(dim // 2) < dim // 4, 1.0, factor)


# The rule that speeds follow

RULES = {  # what is wrong, or the words of the note, or how the base is told
    "base 123": (lambda d: powers(d, 123.0), "base 123"),
    "base 100": (lambda d: powers(d, 100.0), "exponent-halved"),
    "base of root 500,000": (lambda d: powers(d, 500_000**0.5), "exponent-halved"),
    "base 1e8": (lambda d: powers(d, 1e8), "exponent-doubled"),
    "base 5": (lambda d: powers(d, 5.0), "base 5 fits: check the exponent"),
    "divided by 4": (lambda d: powers(d) / 4, "base 10,000, positions divided by 4"),
    "divided by 2.5": (lambda d: powers(d) / 2.5, "base 10,000, positions divided by 2.5"),
    "base 777, divided by 4": (lambda d: powers(d, 777.0) / 4, "base 777, positions divided by 4"),
    "from 2/r": (lambda d: powers(d, first=2), "exponent-shifted"),
    "from 2/r, divided by 4": (lambda d: powers(d, first=2) / 4, "exponent-shifted"),
    "from 2/r, base 777": (lambda d: powers(d, 777.0, first=2), "exponent-shifted"),
    "from -2/r": (lambda d: powers(d, 100.0, first=-2), "exponent-shifted"),
    "from -2/r, base 777": (lambda d: powers(d, 777.0, first=-2), "exponent-rising"),
    "times 1.5": (lambda d: 1.5 * powers(d), "exponent-rising"),
    "backwards and fast": (lambda d: -1.5 * powers(d), "exponent-rising"),
    "slowest first": (lambda d: powers(d).flip(0), "exponent-rising"),
    "inverted, base 1,000": (lambda d: powers(d, 1e-3), "exponent-inverted"),
    "all alike": (lambda d: torch.ones(d // 2), "exponent-flat"),
    "all alike and slow": (lambda d: torch.ones(d // 2) / 4, "exponent-flat"),
    "most alike": (lambda d: torch.tensor([1.0] * 5 + [0.5, 0.3, 0.1]), "exponent-flat"),
    "half alike": (lambda d: torch.tensor([1.0] * 4 + [0.5, 0.3, 0.1, 0.05]), "no base fits"),
    "evenly down": (lambda d: torch.linspace(1, 0.01, d // 2), "no base fits"),
    "slow ones slowed": (lambda d: slowed(d, 8.0), "scaled by parts"),
    "slow ones slowed 8 and 2 times": (lambda d: slowed(d, 8.0) * torch.tensor([1.0] * 6 + [4.0] * 2), "no base fits"),
    "slow ones slowed 8,000 times": (lambda d: slowed(d, 8e3), "scaled by parts"),
    "slow ones slowed 12,000 times": (lambda d: slowed(d, 1.2e4), "no base fits"),
    "slow ones quickened": (lambda d: slowed(d, 0.5), "no base fits"),
    "slow ones of base 777 slowed": (lambda d: slowed(d, 8.0, 777.0), "no base fits"),
    "divided by 4, slow ones slowed": (lambda d: slowed(d, 8.0) / 4, "no base fits"),
    "backwards": (lambda d: -powers(d), "turns backwards"),
    "backwards and divided by 4": (lambda d: -powers(d) / 4, "turns backwards"),
    "slow ones rest": (lambda d: powers(d, 5_000.0) * torch.tensor([1.0] * 6 + [0.0] * 2), "12 of 16 channels"),
    "a pair in between rests": (lambda d: powers(d) * torch.tensor([1.0, 1, 0, 1, 1, 1, 1, 1]), "no base fits"),
    "nothing turns": (lambda d: 0 * powers(d), "still"),
    "second is faster": (lambda d: powers(d, 5.0).flip(0), "exponent-rising"),
    "all but the first alike": (lambda d: torch.tensor([1.0] + [0.5] * 7), "no base fits"),
    "a later one is fast": (lambda d: torch.tensor([1.0, 0.5, 1.5, 0.4, 0.3, 0.2, 0.1, 0.05]), "no base fits"),
    "from -2/r, base 1,000": (lambda d: powers(d, 1e3, first=-2), "exponent-shifted"),
    "base 1e7, divided by 2.5": (lambda d: powers(d, 1e7) / 2.5, "base 1e+07, positions divided by 2.5"),
    "slow ones of base 500,000 slowed": (lambda d: slowed(d, 8.0, 5e5), "scaled by parts"),
    "inverted, base 500,000": (lambda d: powers(d, 1 / 5e5), "exponent-inverted"),
    "backwards, base 1,000": (lambda d: -powers(d, 1e3), "turns backwards"),
    "backwards and forwards": (lambda d: powers(d) * (-1) ** torch.arange(d // 2), "base 10,000"),
}


@pytest.mark.parametrize("name", RULES)
def test_the_rule_of_speeds_is_named(name):
    speeds, said = RULES[name]
    report = diagnose(by(speeds), kind="rotation", **SIZES)
    assert said in ids(report) or said in " ".join(str(report).split()), str(report)


@pytest.mark.parametrize("dim", [2, 4, 6])
def test_few_pairs_have_a_rule_where_there_are_two(dim):
    report = diagnose(rotation, dim=dim, heads=3)
    assert report.healthy, str(report)
    assert ("no base to read" in str(report)) == (dim == 2)


@pytest.mark.parametrize(
    ("speeds", "flat"), [([1.0, 1.0, 0.1], False), ([1.0, 1.0, 1.0, 0.1], True), ([1.0, 1.0, 0.2, 0.1], False)]
)
def test_most_of_more_than_three_alike_are_flat(speeds, flat):
    report = diagnose(by(lambda d: torch.tensor(speeds)), dim=2 * len(speeds), heads=2)
    assert ids(report) == ({"exponent-flat"} if flat else set()), str(report)


@pytest.mark.parametrize(
    ("dim", "speeds", "said"),
    [
        (6, lambda d: 1 / powers(d), "exponent-rising"),
        (8, lambda d: 1 / powers(d), "exponent-inverted"),
        (8, lambda d: slowed(d, 8.0), "scaled by parts"),
        (4, lambda d: torch.ones(2), "check the exponent"),
        (4, lambda d: powers(d) / 4, "positions divided by 4"),
    ],
)
def test_the_rule_of_few_speeds_is_named(dim, speeds, said):
    report = diagnose(by(speeds), kind="rotation", dim=dim, heads=3)
    assert said in ids(report) or said in " ".join(str(report).split()), str(report)


@pytest.mark.parametrize("base", [100, 1e3, 1e4, 4e4, 1e5, 1.5e5, 5e5, 1e6, 5e6, 1e7])
def test_usual_bases_are_known_so_well_that_far_positions_can_be_told(base):
    report = diagnose(lambda x, positions: turned(x, (positions[:, None] * powers(16, base).double()).float()), **SIZES)
    assert report.finding("far positions").verdict in ("ok", "note"), str(report)
    assert f"base {base:,.6g}" in " ".join(str(report).split())


# What the code says of its base


def named(base, of=None):
    """Return a rotation that names a base, and turns by that or by another."""

    def turn(x, positions, base=base):
        return turned(x, positions[:, None] * powers(x.shape[-1], base if of is None else of))

    return turn


NAMED = {
    "as it turns": (named(100.0), set()),
    "2": (named(2.0), set()),
    "not a number": (named(None, 100.0), {"exponent-halved", "base-ignored"}),
    "the square of it": (named(300.0, 90_000.0), {"exponent-doubled", "base-ignored"}),
    "the root of it": (named(640_000.0, 800.0), {"exponent-halved", "base-ignored"}),
    "of nothing that turns": (
        lambda x, positions, base=777.0: x * (0 * positions + 1.0)[:, None],
        {"still", "clipped"},
    ),
    "none that is near": (named(640_000.0, 900.0), {"base-ignored"}),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_base_that_is_named_is_not_suspect(name):
    function, found = NAMED[name]
    report = diagnose(function, kind="rotation", **SIZES)
    assert ids(report) == found, str(report)


class Based(nn.Module):
    """A rotation that is built with a base, a factor and how many channels turn."""

    def __init__(self, dim, base=10_000.0, scaling_factor=1.0):
        super().__init__()
        self.speeds = powers(dim, self.of(base)) / scaling_factor
        self.check(base, scaling_factor)

    def of(self, base):
        return base

    def check(self, base, scaling_factor): ...

    def forward(self, x, positions):
        return turned(x, positions[:, None] * self.speeds)


class Rooted(Based):
    """Passes its base through a root, unless it is the usual one."""

    def of(self, base):
        return base if base == 10_000 else base**0.7


class Choosy(Based):
    """Fails in the call with another base or factor."""

    def check(self, base, scaling_factor):
        self.fails = base > 10_000 or scaling_factor > 1

    def forward(self, x, positions):
        if self.fails:
            raise ValueError("not supported")
        return super().forward(x, positions)


class Closed(Based):
    """Cannot be built with another base or factor."""

    def check(self, base, scaling_factor):
        if base > 10_000 or scaling_factor > 1:
            raise ValueError("not supported")


class Near(Based):
    """Slows far positions only."""

    def __init__(self, dim, scaling_factor=1.0):
        super().__init__(dim)
        self.factor = scaling_factor

    def forward(self, x, positions):
        near = positions.clamp(max=512)
        return turned(x, (near + (positions - near) / self.factor)[:, None] * self.speeds)


@pytest.mark.parametrize(
    ("cls", "found"), [(Based, set()), (Rooted, {"base-ignored"}), (Choosy, set()), (Closed, set()), (Near, set())]
)
def test_another_base_and_factor_are_asked_for(cls, found):
    report = diagnose(cls(16), **SIZES)
    assert ids(report) == found, str(report)


def test_a_base_that_was_set_otherwise_is_no_fault():
    of_other = Based(16, 777.0)
    assert diagnose(of_other, **SIZES).healthy
    of_other.speeds = of_other.speeds / 3
    assert diagnose(of_other, **SIZES).healthy


class InRowsOfFour(Based):
    """Counts along rows and from row to row, with speeds that one axis of twice as many pairs would have."""

    def forward(self, x, positions):
        speeds = self.speeds[: x.shape[-1] // 4]
        return turned(x, torch.cat((positions[:, None] // 4 * speeds, positions[:, None] % 4 * speeds), -1))


def test_a_base_of_two_axes_may_count_as_that_of_one():
    report = diagnose(InRowsOfFour(16), **SIZES)
    assert not ids(report), str(report)
    assert report.finding("base").verdict == "ok"


class Deaf(Based):
    """Hears of no factor."""

    def __init__(self, dim, scaling_factor=1.0):
        super().__init__(dim)


def test_a_factor_that_cannot_be_asked_for_is_not_missed():
    deaf = Deaf(16)
    assert ids(diagnose(deaf, **SIZES)) == {"scaling-ignored"}
    deaf.speeds = deaf.speeds / 3
    assert diagnose(deaf, **SIZES).healthy


class Given(nn.Module):
    """Turns by what it is given, whatever its base."""

    def __init__(self, dim, base=10_000.0):
        super().__init__()

    def forward(self, q, k, cos, sin):
        return tuple(x * cos + torch.cat((-x[..., 8:], x[..., :8]), -1) * sin for x in (q, k))


def test_a_base_does_not_reach_angles_that_are_given():
    assert diagnose(Given(16), **SIZES).healthy


# How many channels turn


class Wide(Based):
    """Says how many channels turn."""

    def __init__(self, dim, said=8, turning=8, rests=0):
        super().__init__(turning)
        self.rotary_dim, self.turning = said, turning
        self.speeds = self.speeds * (torch.arange(turning // 2) < turning // 2 - rests)

    def forward(self, x, positions):
        return torch.cat((super().forward(x[..., : self.turning], positions), x[..., self.turning :]), -1)


@pytest.mark.parametrize(
    ("said", "turning", "rests", "found"),
    [
        (8, 8, 0, set()),
        (8, 16, 0, {"width-wrong"}),
        (8, 4, 0, {"width-wrong"}),
        (16, 8, 0, {"width-wrong"}),
        (32, 8, 0, set()),
        (1, 8, 0, set()),
        (2, 8, 0, {"width-wrong"}),
        (12, 16, 2, set()),
        (16, 16, 2, {"width-wrong"}),
    ],
)
def test_as_many_channels_turn_as_the_code_says(said, turning, rests, found):
    report = diagnose(Wide(16, said, turning, rests), **SIZES)
    assert ids(report) == found, str(report)


def test_a_width_is_not_asked_of_what_does_not_turn_in_pairs():
    mixed = Mixed(16, said=8, turning=16)
    assert "width-wrong" not in ids(diagnose(mixed, **SIZES))


class Mixed(Wide):
    """Turns twice, in two layouts."""

    def forward(self, x, positions):
        return neighbors(super().forward(x, positions), positions)
