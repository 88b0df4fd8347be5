"""How fast pairs turn: the rule that the frequencies follow, or the fault that made them."""

import pytest
import torch

import posenc
from posenc import diagnose
from posenc.rotate.frequencies import linear, llama3, yarn
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.blocks import rotate_by


def turning(frequencies):
    """Return a rotation by frequencies of its width."""
    return lambda x, positions: rotate_by(x, positions[:, None] * frequencies(x.shape[-1]))


def powers(dim, base=10_000.0, first=0):
    """Return base ** -((2i + first) / dim)."""
    return base ** (-(torch.arange(0, dim, 2).float() + first) / dim)


def slowed(dim, factor, base=10_000.0):
    """Slow the second half of the pairs."""
    return powers(dim, base) / torch.where(torch.arange(dim // 2) < dim // 4, 1.0, factor)


def listed(*frequencies):
    return lambda dim: torch.tensor(frequencies)


def masked(*kept):
    """Let some of the pairs rest."""
    return lambda dim: powers(dim) * torch.tensor(kept)


FAULTS = {  # the identifiers, and the highest frequency
    "base 100": (lambda d: powers(d, 100.0), "exponent-halved", 1.0),
    "base of root 500,000": (lambda d: powers(d, 500_000**0.5), "exponent-halved", 1.0),
    "base 1e8": (lambda d: powers(d, 1e8), "exponent-doubled", 1.0),
    "from 2/r": (lambda d: powers(d, first=2), "exponent-shifted", 0.31623),
    "from 2/r, divided by 4": (lambda d: powers(d, first=2) / 4, "exponent-shifted", 0.31623 / 4),
    "from 2/r, base 777": (lambda d: powers(d, 777.0, first=2), "exponent-shifted", 0.43521),
    "from -2/r, base 100": (lambda d: powers(d, 100.0, first=-2), "exponent-shifted", 1.77828),
    "from -2/r, base 1,000": (lambda d: powers(d, 1e3, first=-2), "exponent-shifted", 2.37137),
    "from -2/r, base 777": (lambda d: powers(d, 777.0, first=-2), "exponent-rising", 2.29775),
    "times 1.5": (lambda d: 1.5 * powers(d), "exponent-rising", 1.5),
    "backwards and fast": (lambda d: -1.5 * powers(d), "exponent-rising", 1.5),
    "slowest first": (lambda d: powers(d).flip(0), "exponent-rising", 1.0),
    "slowest of base 5 first": (lambda d: powers(d, 5.0).flip(0), "exponent-rising", 1.0),
    "inverted": (lambda d: 1 / powers(d), "absolute exponent-inverted", 3162.28),
    "inverted, base 1,000": (lambda d: powers(d, 1e-3), "absolute exponent-inverted", 421.697),
    "inverted, base 500,000": (lambda d: powers(d, 1 / 5e5), "absolute exponent-inverted", 96_961),
    "all alike": (lambda d: torch.ones(d // 2), "exponent-flat", 1.0),
    "all alike and slow": (lambda d: torch.ones(d // 2) / 4, "exponent-flat", 0.25),
    "most alike": (listed(1, 1, 1, 1, 1, 0.5, 0.3, 0.1), "exponent-flat", 1.0),
    "nothing turns": (lambda d: 0 * powers(d), "clipped still", 0.0),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_exponent_is_named(name):
    frequencies, wrong, highest = FAULTS[name]
    report = diagnose(turning(frequencies), kind="rotation", dim=16, heads=2)
    assert_report(report, wrong)
    assert finding(report, "frequencies").number == pytest.approx(highest, rel=1e-3)


RULES = {  # the base, and the factor of a scaling as it is told
    "usual": (powers, 10_000, ""),
    "base 123": (lambda d: powers(d, 123.0), 123, ""),
    "divided by 4": (lambda d: powers(d) / 4, 10_000, "4"),
    "divided by 2.5": (lambda d: powers(d) / 2.5, 10_000, "2.5"),
    "base 777, divided by 4": (lambda d: powers(d, 777.0) / 4, 777, "4"),
    "base 1e7, divided by 2.5": (lambda d: powers(d, 1e7) / 2.5, 1e7, "2.5"),
    "slow ones slowed": (lambda d: slowed(d, 8.0), 10_000, "8"),
    "slow ones slowed 8,000 times": (lambda d: slowed(d, 8e3), 10_000, "8000"),
    "slow ones of base 500,000 slowed": (lambda d: slowed(d, 8.0, 5e5), 500_000, "8"),
    "slow ones rest": (lambda d: powers(d, 5_000.0) * torch.tensor([1.0] * 6 + [0.0] * 2), 594.604, ""),
    "backwards and forwards": (lambda d: powers(d) * (-1) ** torch.arange(d // 2), 10_000, ""),
}


@pytest.mark.parametrize("name", RULES)
def test_the_base_and_the_factor_of_a_scaling_are_read(name):
    frequencies, base, factor = RULES[name]
    report = diagnose(turning(frequencies), kind="rotation", dim=16, heads=2)
    assert_report(report)
    assert finding(report, "frequencies").number == pytest.approx(base, rel=1e-3)
    assert factor in finding(report, "frequencies").words.split() or not factor


def test_pairs_that_rest_are_not_counted_among_those_that_turn():
    report = diagnose(turning(RULES["slow ones rest"][0]), kind="rotation", dim=16, heads=2)
    assert finding(report, "layout").number == 12


BACKWARDS = {
    "backwards": (lambda d: -powers(d), 10_000),
    "backwards, base 1,000": (lambda d: -powers(d, 1e3), 1000),
    "backwards and divided by 4": (lambda d: -powers(d) / 4, 10_000),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_rotation_backwards_is_noted_and_its_base_read(name):
    frequencies, base = BACKWARDS[name]
    report = diagnose(turning(frequencies), kind="rotation", dim=16, heads=2)
    assert_report(report, notes="direction")
    assert finding(report, "frequencies").number == pytest.approx(base)


IRREGULAR = {  # what is noted
    "base 5": lambda d: powers(d, 5.0),
    "half alike": listed(1, 1, 1, 1, 0.5, 0.3, 0.1, 0.05),
    "all but the first alike": listed(1, *[0.5] * 7),
    "a later one is fast": listed(1, 0.5, 1.5, 0.4, 0.3, 0.2, 0.1, 0.05),
    "evenly down": lambda d: torch.linspace(1, 0.01, d // 2),
    "slow ones slowed 8 and 2 times": lambda d: slowed(d, 8.0) * torch.tensor([1.0] * 6 + [4.0] * 2),
    "slow ones slowed 12,000 times": lambda d: slowed(d, 1.2e4),
    "slow ones quickened": lambda d: slowed(d, 0.5),
    "slow ones of base 777 slowed": lambda d: slowed(d, 8.0, 777.0),
    "divided by 4, slow ones slowed": lambda d: slowed(d, 8.0) / 4,
    "a pair in between rests": masked(1, 1, 0, 1, 1, 1, 1, 1),
}


@pytest.mark.parametrize("name", IRREGULAR)
def test_frequencies_without_a_usual_base_are_noted(name):
    report = diagnose(turning(IRREGULAR[name]), kind="rotation", dim=16, heads=2)
    assert_report(report, notes="frequencies")
    assert ("base 5" in finding(report, "frequencies").words) == (name == "base 5")


# Few pairs

FEW = {
    "1": (2, powers, "", "frequencies"),
    "2": (4, powers, "", ""),
    "3": (6, powers, "", ""),
    "2 alike": (4, lambda d: torch.ones(2), "", "frequencies"),
    "2, divided by 4": (4, lambda d: powers(d) / 4, "", ""),
    "2 of 3 alike": (6, listed(1, 1, 0.1), "", "frequencies"),
    "2 of 4 alike": (8, listed(1, 1, 0.2, 0.1), "", "frequencies"),
    "3 of 4 alike": (8, listed(1, 1, 1, 0.1), "exponent-flat", ""),
    "3 inverted": (6, lambda d: 1 / powers(d), "absolute exponent-rising", ""),
    "4 inverted": (8, lambda d: 1 / powers(d), "exponent-inverted", ""),
    "4, slow ones slowed": (8, lambda d: slowed(d, 8.0), "", ""),
}


@pytest.mark.parametrize("name", FEW)
def test_few_pairs_have_a_rule_from_two_on(name):
    dim, frequencies, wrong, notes = FEW[name]
    report = diagnose(turning(frequencies), kind="rotation", dim=dim, heads=3)
    assert_report(report, wrong, notes)
    if not wrong and not notes:
        assert finding(report, "frequencies").number == 10_000


@pytest.mark.parametrize("base", [1e3, 1e4, 4e4, 1e5, 1.5e5, 5e5, 1e6, 5e6, 1e7])
def test_usual_bases_are_read(base):
    def patient(x, positions):
        return rotate_by(x, (positions[:, None] * powers(16, base).double()).float())

    report = diagnose(patient, dim=16, heads=2)
    assert_report(report)
    assert finding(report, "frequencies").number == base


def test_the_base_that_is_meant_is_named():
    """A halved exponent looks like the root of the base, a doubled one like its square."""
    halved = diagnose(turning(lambda d: powers(d, 500_000**0.5)), dim=16, heads=2)
    assert "500,000" in finding(halved, "frequencies").words
    doubled = diagnose(turning(lambda d: powers(d, 1e8)), dim=16, heads=2)
    assert finding(doubled, "frequencies").id == "exponent-doubled"
    assert "10,000" in finding(doubled, "frequencies").words


def test_scalings_of_the_package_are_named():
    by_four = diagnose(posenc.RoPE(64, theta=linear(64, 4.0)[0]))
    assert "4" in finding(by_four, "frequencies").words.split()
    by_eight = diagnose(posenc.RoPE(64, theta=llama3(64)[0]))
    assert "8" in finding(by_eight, "frequencies").words.split()
    theta, factor = yarn(64, 16.0, 4096)
    of_yarn = diagnose(posenc.RoPE(64, theta=theta, attention_factor=factor))
    assert verdicts(of_yarn, "norm") == ["ok"]
    assert finding(of_yarn, "norm").number == pytest.approx(factor)
