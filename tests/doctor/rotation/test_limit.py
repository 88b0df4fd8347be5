"""How far positions go: tables end in an error, and nothing is clipped, wrapped or rounded without a word."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding
from tests.doctor.blocks import rotate, rotate_by
from tests.doctor.rotation.patients import SMALL, Table, TableFromZero


class TableByOffset(Table):
    """Take rows from an offset on: the last one is all that is left for two tokens, and serves both."""

    def forward(self, x, offset=0):
        return rotate_by(x, self.angles[offset : offset + x.shape[2]])


@pytest.mark.parametrize("length", [8, 9, 20, 100, 1000, 1030])
@pytest.mark.parametrize(("cls", "wrong"), [(Table, ""), (TableFromZero, ""), (TableByOffset, "clipped")])
def test_tables_end_in_an_error(cls, wrong, length):
    report = diagnose(cls(16, length), kind="rotation", **SMALL)
    assert_report(report, wrong)
    if not wrong:
        assert finding(report, "limit").number == length - 1


@pytest.mark.parametrize("length", [16, 64, 256, 512, 3000])
@pytest.mark.parametrize("cls", [Table, TableFromZero])
def test_a_rotation_of_few_positions_is_examined(cls, length):
    report = diagnose(cls(64, length))
    assert_report(report, notes="limit")
    assert finding(report, "limit").number == length - 1
    assert finding(report, "frequencies").number == pytest.approx(10_000)


def changed(change, x, positions):
    return rotate(x, change(positions))


ENDS = {  # positions, what is wrong, and the last position that is turned its own way
    "clipped at 11": (lambda p: p.clamp(max=11), "absolute clipped", 11),
    "clipped at 700": (lambda p: p.clamp(max=700), "absolute clipped", 700),
    "clipped at 2,047": (lambda p: p.clamp(max=2047), "clipped", 2047),
    "clipped at 30,000": (lambda p: p.clamp(max=30_000), "clipped", 30_000),
    "0 from 300 on": (lambda p: torch.where(p < 300, p, 0), "absolute clipped", 299),
    "wrapped at 500": (lambda p: p % 500, "wrapped", 499),
    "wrapped at 2,500": (lambda p: p % 2500, "wrapped", 2499),
    "wrapped at 4,096": (lambda p: p % 4096, "wrapped", 4095),
    "wrapped at 5,000": (lambda p: p % 5000, "wrapped", 4999),
    "4,096 alone wrapped": (lambda p: torch.where(p == 4096, 0, p), "wrapped", 4095),
    "in bfloat16": (lambda p: p.to(torch.bfloat16), "absolute positions-rounded", 257),
    "in float16": (lambda p: p.to(torch.float16), "positions-rounded", 2049),
    "in steps of two from 2,000 on": (
        lambda p: torch.where(p > 2000, p // 2 * 2, p),
        "positions-rounded",
        2001,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_positions_go_on_or_raise(name):
    change, wrong, last = ENDS[name]
    report = diagnose(lambda x, positions: changed(change, x, positions), kind="rotation", **SMALL)
    assert_report(report, wrong)
    assert finding(report, "limit").number == last


def by_offset(x, offset=0):
    """Clip positions at 600,000."""
    return rotate(x, (offset + torch.arange(x.shape[2])).clamp(max=600_000))


def by_length(x):
    """Clip positions at 40,000."""
    return rotate(x, torch.arange(x.shape[2]).clamp(max=40_000))


@pytest.mark.parametrize(("patient", "last"), [(by_offset, 600_000), (by_length, 40_000)])
def test_positions_are_clipped_far_out(patient, last):
    report = diagnose(patient, kind="rotation", dim=6, heads=2)
    assert_report(report, "clipped")
    assert finding(report, "limit").number == last


def not_turned_from_4096_on(x, positions):
    """Leave tokens behind position 4,095 as they come."""
    return torch.where((positions < 4096)[:, None], rotate(x, positions), x)


def test_tokens_behind_the_end_that_are_not_turned():
    report = diagnose(not_turned_from_4096_on)
    assert_report(report, "clipped")
    assert finding(report, "limit").number == 4095
