"""The sign of a bias: near keys win, in whatever axes the numbers come and whoever learns them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import posenc
from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.bias.patients import change_of_scores
from tests.doctor.blocks import offsets, penalty, slopes

FORMS = {  # of numbers (h, t, s)
    "beside slopes": lambda numbers: (slopes(len(numbers)), numbers),
    "(t, s, h)": lambda numbers: numbers.permute(1, 2, 0),
    "(b, h, t, s)": lambda numbers: torch.stack((numbers, 2 * numbers)),
    "(1, 1, h, t, s)": lambda numbers: numbers[None, None],
    "(1, t, s, h)": lambda numbers: numbers.permute(1, 2, 0)[None],
    "an array": np.asarray,
    "in an object": lambda numbers: SimpleNamespace(size=numbers.shape[-1], slopes=slopes(4), numbers=numbers),
}


@pytest.mark.parametrize(("sign", "wrong"), [(1, ""), (-1, "sign-reversed")])
@pytest.mark.parametrize("form", FORMS)
def test_the_sign_is_read_in_each_form_of_the_numbers(form, sign, wrong):
    def bias(heads, i, j):
        return FORMS[form](sign * penalty(heads, i, j))

    assert_report(diagnose(bias, heads=3, kind="bias"), wrong)


def reversed_change_of_scores(score, b, h, q_idx, kv_idx):
    """Add slope times (query - key), so that far keys win."""
    return score + torch.exp2(-(h + 1) * 8.0 / 4) * (q_idx - kv_idx)


def change_by_a_table(score, b, h, q_idx, kv_idx):
    return score + slopes(8)[h + b] * (kv_idx - q_idx)


def reversed_change_by_a_table(score, b, h, q_idx, kv_idx):
    """Subtract the bias, so that far keys win."""
    return score - slopes(8)[h + b] * (kv_idx - q_idx)


@pytest.mark.parametrize(
    ("patient", "heads", "wrong"),
    [
        (change_of_scores, None, ""),
        (reversed_change_of_scores, None, "sign-reversed"),
        (change_by_a_table, 8, ""),
        (reversed_change_by_a_table, 8, "sign-reversed"),
    ],
)
def test_the_sign_of_a_change_of_each_score(patient, heads, wrong):
    assert_report(diagnose(patient, heads=heads), wrong)


class GainOfRoots(nn.Module):
    """A bias that rises with distance, times a learned gain or its exponential, which is never negative."""

    def __init__(self, signed):
        super().__init__()
        self.signed, self.gain = signed, nn.Parameter(torch.ones(4))

    def forward(self, i, j):
        gain = self.gain if self.signed else self.gain.exp()
        return gain[:, None, None] * (offsets(i, j).abs() // 2).double().sqrt()


@pytest.mark.parametrize(("signed", "wrong", "notes"), [(True, "", "sign"), (False, "sign-reversed", "")])
def test_a_sign_that_training_can_turn_is_a_note(signed, wrong, notes):
    assert_report(diagnose(GainOfRoots(signed), heads=4), wrong, notes)


def test_the_learned_sign_of_fire_is_a_note():
    fire = posenc.FIRE(heads=4)
    with torch.no_grad():
        for parameter in fire.parameters():
            parameter.abs_()
    assert_report(diagnose(fire), notes="sign")


class ReversedKERPLE(posenc.KERPLE):
    """Negate a penalty whose parameters cannot change its sign."""

    def forward(self, positions, key_positions):
        return -super().forward(positions, key_positions)


def test_a_sign_that_is_built_in_is_wrong():
    assert verdicts(diagnose(posenc.KERPLE(heads=4)), "sign") == ["ok"]
    report = diagnose(ReversedKERPLE(heads=4))
    assert finding(report, "sign").id == "sign-reversed"
    assert finding(report, "sign").number > 0
