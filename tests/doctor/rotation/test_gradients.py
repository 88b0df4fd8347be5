"""Gradients of a rotation are those of its result, and its input is not written to."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding
from tests.doctor.blocks import frequencies, rotate, rotate_by
from tests.doctor.rotation.patients import SMALL, sides


class Learns(nn.Module):
    """Learn how much faster pairs turn."""

    def __init__(self, dim):
        super().__init__()
        self.turn_by = nn.Parameter(torch.zeros(dim // 2))

    def speeds(self):
        return self.turn_by

    def forward(self, x, positions):
        return rotate_by(x, positions[:, None] * (frequencies(x.shape[-1]) + self.speeds()))


class WritesToParameter(Learns):
    """Clamp the parameter in place, which autograd refuses (PoPE-pytorch)."""

    def speeds(self):
        return self.turn_by.clamp_(0, 6)


class ClampedAway(Learns):
    """Start where the clamp has no gradient."""

    def speeds(self):
        return (self.turn_by - 1).clamp(0, 6)


class Backward(torch.autograd.Function):
    """Rotate, and rotate gradients too, in the same sense where `sense` is 1, which is wrong."""

    @staticmethod
    def forward(ctx, x, sense):
        ctx.sense = sense
        return rotate(x, torch.arange(x.shape[-2]))

    @staticmethod
    def backward(ctx, grad):
        return rotate(grad, ctx.sense * torch.arange(grad.shape[-2])), None


def halved(x):
    """Return the content with half of its gradient."""
    return (x + x.detach()) / 2


def in_place(x, positions):
    """Write the result into the input."""
    return x.copy_(rotate(x, positions))


WRITTEN = "absolute in-place no-gradient offset-ignored"
GRADIENTS = {
    "sound": (rotate, {}, "", ""),
    "learned": (Learns, {}, "", ""),
    "parameter written to": (WritesToParameter, {}, "no-gradient", ""),
    "parameter clamped away": (ClampedAway, {}, "", "gradients"),
    "detached": (lambda x, positions: rotate(x.detach(), positions), SMALL, "no-gradient", ""),
    "of zeros": (lambda x, positions: rotate(x * 1.0 - x + x.detach(), positions), SMALL, "gradient-wrong", ""),
    "of no number": (
        lambda x, positions: rotate(x + 0 * (x - x.detach()).abs().sqrt(), positions),
        SMALL,
        "gradient-wrong",
        "",
    ),
    "of half": (lambda x, positions: rotate(halved(x), positions), SMALL, "gradient-wrong", ""),
    "backwards": (lambda x: Backward.apply(x, -1), {}, "", ""),
    "forwards": (lambda x: Backward.apply(x, 1), {}, "gradient-wrong", ""),
    "keys detached": (sides(rotate, lambda x, p: rotate(x.detach(), p)), SMALL, "no-gradient", ""),
    "keys of half": (sides(rotate, lambda x, p: rotate(halved(x), p)), SMALL, "gradient-wrong", ""),
    "written to": (in_place, {}, WRITTEN, ""),
    "queries written to": (sides(in_place, rotate), SMALL, WRITTEN, ""),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_the_result(name):
    patient, settings, wrong, notes = GRADIENTS[name]
    assert_report(diagnose(patient, kind="rotation", **settings), wrong, notes)


def test_the_parameter_without_a_gradient_is_named():
    assert "turn_by" in finding(diagnose(ClampedAway), "gradients").words
