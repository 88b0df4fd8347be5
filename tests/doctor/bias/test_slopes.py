"""Slopes of a bias that falls linearly, compared with ALiBi's: alone, in a bias, and for other numbers of heads."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.blocks import offsets, penalty, slopes


def slopes_by_formula(heads):
    """Take the rule for powers of two at any number of heads."""
    return torch.tensor([2 ** (-8 * (k + 1) / heads) for k in range(heads)])


def slopes_from_one(heads):
    """Count heads from 0: the first slope is 1 (mlx#343)."""
    return slopes(heads) * 2 ** (8 / heads) if heads in (4, 8) else slopes(heads)


def slopes_sorted(heads):
    """Return ALiBi's slopes in another order where heads are no power of two."""
    return slopes(heads).sort(descending=True).values


def penalty_by_formula(heads, t, s):
    """Take the rule for powers of two at any number of heads."""
    return penalty(4, t, s)[:1] * 4 * slopes_by_formula(heads)[:, None, None]


def alibi_slopes(heads):
    """Return other slopes under ALiBi's name."""
    return slopes(heads) * 1.3


SLOPES = {
    "sound": (slopes, {}, "", ""),
    "off by rounding": (lambda heads: slopes(heads) * 1.001, {"heads": 8}, "", ""),
    "negative": (lambda heads: -slopes(heads), {"heads": 8}, "", ""),
    "12 heads raise": (lambda heads: slopes(heads) if heads < 12 else 1 / 0, {}, "", "other-heads"),
    "of another rule": (lambda heads: 0.5 ** (1 + torch.arange(heads)), {}, "", "slopes"),
    "rising": (lambda heads: torch.linspace(1, 2, heads), {}, "", "slopes"),
    "one slope of 3": (lambda heads: 3 * torch.ones(heads), {"heads": 1}, "", "slopes"),
    "by the formula": (slopes_by_formula, {}, "slopes-wrong", ""),
    "in a bias by the formula": (penalty_by_formula, {}, "slopes-wrong", ""),
    "from one": (slopes_from_one, {}, "slopes-wrong", ""),
    "sorted": (slopes_sorted, {}, "slopes-wrong", ""),
    "too few": (lambda heads: slopes(4), {}, "slopes-wrong", ""),
    "too few in a bias": (lambda heads, i, j: penalty(4, i, j), {"heads": 8}, "slopes-wrong", ""),
    "others under the name": (alibi_slopes, {}, "slopes-wrong", ""),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_are_compared_with_those_of_alibi(name):
    patient, settings, wrong, notes = SLOPES[name]
    report = diagnose(patient, **settings)
    assert report.kind == "bias"
    assert_report(report, wrong, notes)


@pytest.mark.parametrize(
    ("patient", "check", "number"),
    [(slopes_from_one, "slopes", 1.0), (lambda heads: slopes(4), "slopes", 4), (slopes, "slopes", 0.5)],
)
def test_the_number_is_the_first_slope_or_how_many_there_are(patient, check, number):
    assert finding(diagnose(patient), check).number == pytest.approx(number, rel=1e-3)


@pytest.mark.parametrize(("heads", "expected"), [(None, ["4", "0.25"]), (8, ["8", "0.5"])])
def test_the_words_name_the_heads_and_the_slope_that_is_due(heads, expected):
    text = finding(diagnose(slopes_from_one, heads=heads), "slopes").words.replace(":", "").split()
    assert set(expected) <= set(text)


@pytest.mark.parametrize("patient", [slopes_by_formula, penalty_by_formula])
def test_slopes_are_judged_for_the_heads_that_are_asked_for(patient):
    assert finding(diagnose(patient), "other heads").id == "slopes-wrong"
    of_eight = diagnose(patient, heads=8)
    assert_report(of_eight)
    assert verdicts(of_eight, "slopes", "other heads") == ["ok", "note"]
    assert_report(diagnose(patient, heads=12), "slopes-wrong")


class OfPowersOfTwo(nn.Module):
    """Take the rule for powers of two for any number of heads, which is another than ALiBi's for 12 alone."""

    def __init__(self, heads):
        super().__init__()
        self.slopes = 2 ** (-8 * torch.arange(1, heads + 1) / heads)

    def forward(self, i, j):
        return -self.slopes[:, None, None] * offsets(i, j).abs()


def test_a_class_is_built_for_other_numbers_of_heads():
    report = diagnose(OfPowersOfTwo)
    assert verdicts(report, "slopes", "other heads") == ["ok", "wrong"]
    assert_report(report, "slopes-wrong")


class LinearBias(nn.Module):
    """Named like ALiBi, with slopes of another rule."""

    def forward(self, i, j):
        return -(0.7 ** torch.arange(1, 5))[:, None, None] * offsets(i, j).abs()


@pytest.mark.parametrize(
    ("name", "wrong"), [("LinearBias", "slopes-wrong"), ("Linear_Bias", "slopes-wrong"), ("Falling", "")]
)
def test_the_name_of_alibi_promises_its_slopes(name, wrong):
    cls = type(name, (LinearBias,), {})
    assert_report(diagnose(cls(), heads=4), wrong)
