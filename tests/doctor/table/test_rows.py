"""Rows of a table: no two alike, the same for each text of a batch, whether computed or learned."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding
from tests.doctor.blocks import noise, sinusoids
from tests.doctor.blocks import sinusoids_in_halves as halves


def look_up(rows):
    return lambda positions: rows[positions]


def with_equal_rows(length, dim):
    """Give positions 3 and 9 one row."""
    rows = sinusoids(max(length, 10), dim)
    rows[9] = rows[3]
    return rows[:length]


@pytest.mark.parametrize(("first", "second"), [(3, 7), (7, 8), (260, 270)])
def test_two_learned_rows_that_are_alike(first, second):
    rows = noise(300, 64)
    rows[second] = rows[first]
    report = diagnose(look_up(rows))
    assert_report(report, "rows-alike")
    assert {str(first), str(second)} <= set(finding(report, "rows").words.split())


def test_the_end_of_a_table_is_named():
    assert "between lengths 64 and 128" in finding(diagnose(look_up(noise(100, 64))), "limit").words


def test_two_computed_rows_that_are_alike():
    assert_report(diagnose(with_equal_rows), "rows-alike")


@pytest.mark.parametrize("period", [2, 7, 8])
def test_rows_that_repeat_are_noted_with_their_period(period):
    report = diagnose(lambda positions, dim: halves(positions % period, dim))
    assert_report(report, "wrapped", "rows")
    assert finding(report, "rows").number == period


def small_rows_behind_zeros():
    rows = 0.02 * noise(600, 64)
    rows[0] = 0
    return look_up(rows)


SOUND = {
    "one channel": (lambda: look_up(noise(300, 1)), 1),
    "small rows behind one of zeros": (small_rows_behind_zeros, None),
    "digits of positions": (lambda: lambda positions, dim: ((positions[:, None] >> torch.arange(dim)) % 2).float(), 18),
}


@pytest.mark.parametrize("name", SOUND)
def test_rows_of_other_kinds_are_sound(name):
    make, dim = SOUND[name]
    assert_report(diagnose(make(), dim=dim))


class Learned(nn.Module):
    """Learned rows, found by a function of the positions."""

    def __init__(self, change):
        super().__init__()
        self.change, self.rows = change, nn.Parameter(noise(600, 64))

    def forward(self, positions):
        return self.rows[self.change(positions)]


USED_TWICE = {
    "columns alone": (lambda at: at % 7, "axis-lost wrapped"),
    "rows alone": (lambda at: at // 7, "axis-lost"),
    "the first": (lambda at: (at - 1).clamp(min=0), "rows-alike"),
    "one behind 256": (lambda at: at - (at > 280).long(), "positions-rounded"),
    "two behind 256": (lambda at: at - (at > 280).long() - (at > 290).long(), "positions-rounded"),
    "one before 256": (lambda at: at - (at > 250).long(), "rows-alike"),
}


@pytest.mark.parametrize("name", USED_TWICE)
def test_learned_rows_that_are_used_twice(name):
    change, wrong = USED_TWICE[name]
    assert_report(diagnose(Learned(change)), wrong)


def test_a_table_of_rows_alone_loses_an_axis():
    rows = noise(8, 64)
    assert_report(diagnose(lambda positions: rows[positions // 8]), "axis-lost")


def in_a_tuple(parts):
    return lambda length, dim: (halves(torch.arange(length), dim),) * parts


def test_a_table_may_come_in_a_tuple():
    assert_report(diagnose(in_a_tuple(1), kind="table"))


def test_two_tables_of_one_shape_are_refused():
    with pytest.raises(ValueError, match="2 of one shape"):
        diagnose(in_a_tuple(2), kind="table")


# A row of positions for each text

EACH_TEXT = {
    "sound": (lambda rows, at: rows[at], ""),
    "the first text's for all": (lambda rows, at: rows[at[:1]].expand(len(at), -1, -1), "rows-mixed"),
    "in one line": (lambda rows, at: rows[at].flatten(0, 1), ""),
    "tokens first": (lambda rows, at: rows[at].transpose(0, 1), "batch-axis"),
    "a neighbor's": (lambda rows, at: rows[at + torch.arange(len(at))[:, None]], "rows-mixed"),
}


@pytest.mark.parametrize("name", EACH_TEXT)
def test_positions_of_each_text_get_their_rows(name):
    of_each, wrong = EACH_TEXT[name]
    rows = noise(300, 64)
    report = diagnose(lambda positions: of_each(rows, positions) if positions.ndim == 2 else rows[positions])
    assert_report(report, wrong)


@pytest.mark.parametrize(("by", "wrong"), [(0, ""), (1, "rows-mixed")])
def test_rows_that_are_off_by_a_twentieth_of_a_position(by, wrong):
    def table(positions):
        off = torch.arange(len(positions))[:, None] * by if positions.ndim == 2 else 0
        return halves((positions + off) / 20, 64)

    assert_report(diagnose(table), wrong)
