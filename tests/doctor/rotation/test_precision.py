"""What a rotation loses to coarse numbers: half-precision input, tables, a cast module."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.blocks import frequencies, rotate, rotate_by
from tests.doctor.rotation.patients import SMALL

# Half precision


def angles(x, positions):
    return positions[:, None].float() * frequencies(x.shape[-1])


def positions_of_input(x, positions):
    """Cast positions and frequencies to the dtype of the input."""
    return rotate_by(x, positions.to(x.dtype)[:, None] * frequencies(x.shape[-1]).to(x.dtype))


def angles_of_input(x, positions):
    """Cast angles to the dtype of the input."""
    return rotate_by(x, angles(x, positions).to(x.dtype))


def positions_in_float16(x, positions):
    """Cast positions where the input is float16, and there alone."""
    return rotate(x, positions.half() if x.dtype == torch.float16 else positions)


def input_in_bfloat16(x, positions):
    """Cast the input to bfloat16, whatever it is."""
    return rotate(x.bfloat16(), positions).to(x.dtype)


def result_in_bfloat16(x, positions):
    """Round the result to bfloat16, whatever the input."""
    return rotate(x, positions).bfloat16().to(x.dtype)


def table_in(dtype, base=10_000.0, first=0):
    """Return a rotation by cosines and sines of a dtype, whatever the input, from position `first` on."""

    def turn(x, offset=0):
        positions = first + offset + torch.arange(x.shape[-2])
        turns = positions[:, None] * frequencies(x.shape[-1], base)
        cos, sin = (part.to(dtype).to(x.dtype).repeat(1, 2) for part in (turns.cos(), turns.sin()))
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    return turn


COARSE = {
    "sound": (rotate, {}, "", ""),
    "positions as the input": (positions_of_input, {}, "positions-rounded", ""),
    "positions in float16 alone": (positions_in_float16, SMALL, "positions-rounded", ""),
    "angles as the input": (angles_of_input, SMALL, "angles-rounded", ""),
    "input in bfloat16": (input_in_bfloat16, SMALL, "angles-rounded", "linear"),
    "result in bfloat16": (result_in_bfloat16, SMALL, "angles-rounded", "linear"),
    "table in float32": (table_in(torch.float32), {}, "", ""),
    "table in bfloat16": (table_in(torch.bfloat16), {}, "angles-rounded", ""),
    "table in bfloat16, base 100": (table_in(torch.bfloat16, 100.0), {}, "angles-rounded exponent-halved", ""),
    "table in bfloat16, from 1": (table_in(torch.bfloat16, first=1), {}, "angles-rounded", "origin"),
}


@pytest.mark.parametrize("name", COARSE)
def test_positions_and_angles_are_kept_in_float32(name):
    patient, settings, wrong, notes = COARSE[name]
    assert_report(diagnose(patient, kind="rotation", **settings), wrong, notes)


def test_the_first_place_of_a_coarse_table_is_read_all_the_same():
    assert finding(diagnose(table_in(torch.bfloat16, first=1)), "origin").number == 1


@pytest.mark.parametrize("name", ["positions as the input", "angles as the input"])
def test_the_number_of_half_precision_is_the_largest_difference(name):
    patient, settings, *_ = COARSE[name]
    report = diagnose(patient, kind="rotation", **settings)
    assert verdicts(report, "half precision") == ["wrong"]
    assert finding(report, "half precision").number > 0.03


# A module that is cast


class Buffered(nn.Module):
    """Keep frequencies in a buffer, which is cast with the module (transformers#25681)."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("inv_freq", frequencies(dim))

    def forward(self, x, positions):
        return rotate_by(x, positions[:, None] * self.inv_freq)


class Computed(nn.Module):
    """Compute frequencies in each call."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, positions):
        return rotate(x, positions)


class Learned(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.theta = nn.Parameter(frequencies(dim))

    def forward(self, x, positions):
        return rotate_by(x, positions[:, None] * self.theta)


class Beside(Computed):
    """Hold a buffer beside, which the rotation does not need."""

    def __init__(self, dim, kind=torch.float32):
        super().__init__(dim)
        self.register_buffer("step", torch.ones(1, dtype=kind))


class OfIntegers(Beside):
    def __init__(self, dim):
        super().__init__(dim, torch.long)


class InOwnDtype(Beside):
    """Take input in the dtype of its buffer alone."""

    def forward(self, x, positions):
        if x.dtype != self.step.dtype:
            raise ValueError("another dtype")
        return super().forward(x, positions)


class LosesNumbers(nn.Module):
    """Give no numbers once it is cast."""

    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def factor(self, dtype):
        return 1.0 if self.weight.dtype == torch.float32 else torch.nan

    def forward(self, x, positions):
        return rotate(x, positions) * self.factor(x.dtype)


class RefusesCast(LosesNumbers):
    """Raise once it is cast."""

    def factor(self, dtype):
        return 1.0 if self.weight.dtype == torch.float32 else 1 / 0


class InDtypeOfParameter(LosesNumbers):
    """Raise for input of another dtype than its parameter's, except float64."""

    def factor(self, dtype):
        return 1.0 if dtype in (self.weight.dtype, torch.float64) else 1 / 0


@pytest.mark.parametrize(
    ("cls", "settings", "verdict", "wrong"),
    [
        (Computed, {}, "ok", ""),
        (Computed, SMALL, "ok", ""),
        (Beside, SMALL, "ok", ""),
        (OfIntegers, SMALL, "ok", ""),
        (InOwnDtype, SMALL, "ok", ""),
        (InDtypeOfParameter, {}, "ok", ""),
        (Buffered, {}, "wrong", "buffers-rounded"),
        (Buffered, SMALL, "wrong", "buffers-rounded"),
        (Learned, {}, "note", ""),
        (Learned, SMALL, "note", ""),
        (LosesNumbers, {}, "wrong", "not-finite"),
        (RefusesCast, {}, "not checked", ""),
    ],
)
def test_a_module_that_is_cast_turns_as_before(cls, settings, verdict, wrong):
    report = diagnose(cls(settings.get("dim", 64)), **settings)
    assert verdicts(report, "module cast") == [verdict], str(report)
    assert_report(report, wrong)


def test_the_buffers_that_are_rounded_are_named():
    assert "inv_freq" in finding(diagnose(Buffered), "module cast").words
