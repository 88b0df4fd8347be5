"""Patients of the doctor that round: angles, positions or tables, in a half precision, once cast, or far off."""

import time

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation, thetas, turned

SIZES = {"dim": 16, "heads": 3}


def angles(x, positions):
    return positions[:, None].float() * thetas(x.shape[-1])


def far_off(x, positions, by):
    """Turn the first pair on by so much from position 50,000 on."""
    angle = angles(x, positions).double()
    angle[:, 0] += by * (positions > 50_000)
    return turned(x, angle.float())


ROUNDED = {
    "angles": (lambda x, positions: turned(x, angles(x, positions).to(x.dtype)), "half precision", "angles-rounded"),
    "positions, in float16 alone": (
        lambda x, positions: rotation(x, positions.half() if x.dtype == torch.float16 else positions),
        "half precision",
        "positions-rounded",
    ),
    "all, whatever the input": (lambda x, positions: rotation(x.bfloat16(), positions).to(x.dtype), "norm", ""),
    "cosines": (lambda x, positions: rotation(x, positions).bfloat16().to(x.dtype), "norm", ""),
    "far positions by 1": (lambda x, positions: far_off(x, positions, 1.0), "far positions", "angles-rounded"),
    "far positions by 0.15": (lambda x, positions: far_off(x, positions, 0.15), "far positions", "angles-rounded"),
    "far positions by 0.02": (lambda x, positions: far_off(x, positions, 0.02), "far positions", ""),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_rounded_is_told_by_the_check_that_sees_it(name):
    function, check, cause = ROUNDED[name]
    report = diagnose(function, kind="rotation", **SIZES)
    found = report.finding(check)
    assert (found.id == cause) if cause else (found.verdict != "wrong"), str(report)


def exactly(x, positions):
    """Turn by angles in float64."""
    return turned(x, positions[:, None].double() * 10_000.0 ** (-torch.arange(0, 16, 2, dtype=torch.float64) / 16))


def slowly(x, positions):
    """Take half a second for positions from 100,000 on."""
    until = time.thread_time() + 0.3 * (100_000 <= int(positions.max()) < 100_010)
    while time.thread_time() < until:
        pass
    return rotation(x, positions)


def failing(x, positions):
    if 1_000_000 <= int(positions.max()) < 1_000_010:
        raise ValueError("too far")
    return rotation(x, positions)


@pytest.mark.parametrize(
    ("function", "words"),
    [(exactly, "and"), (slowly, "at 10^5, against"), (failing, "position 1,000,000 raises ValueError: too far")],
)
def test_far_positions_are_asked_for_as_far_as_they_go(function, words):
    report = diagnose(function, kind="rotation", **SIZES)
    assert words in report.finding("far positions").words, str(report)
    assert report.finding("far positions").verdict == ("ok" if function is exactly else "note")


class Cast(nn.Module):
    """Holds its speeds in a way that a cast finds or does not find."""

    def __init__(self, held):
        super().__init__()
        speeds = thetas(16)
        self.held = held
        if held == "learned":
            self.speeds = nn.Parameter(speeds)
        elif held == "buffer":
            self.register_buffer("speeds", speeds)
        else:
            self.speeds = speeds
        self.register_buffer("step", torch.ones(1) if held in ("float too", "own dtype") else torch.ones(1).long())

    def forward(self, x, positions):
        if self.held == "own dtype" and x.dtype != self.step.dtype:
            raise ValueError("another dtype")
        return turned(x, positions[:, None] * self.speeds)


@pytest.mark.parametrize(
    ("held", "verdict"),
    [("plain", "ok"), ("float too", "ok"), ("learned", "note"), ("buffer", "wrong"), ("own dtype", "ok")],
)
def test_a_module_may_be_cast(held, verdict):
    report = diagnose(Cast(held), **SIZES)
    assert report.finding("module cast").verdict == verdict, str(report)
    assert ids(report) <= {"buffers-rounded"}
