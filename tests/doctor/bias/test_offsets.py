"""A bias depends on the offset of a key alone: not on places, the number of keys, calls before or other queries."""

import math

import pytest
import torch
from torch import nn

import posenc
from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, note_ids, verdicts, wrong_ids
from tests.doctor.blocks import below, offsets, penalty, slopes

HEADS = {"heads": 4}


def of_lengths(change):
    """Return a bias (h, i, j) that is changed after it was made."""

    def bias(n_heads, i, j):
        return change(penalty(n_heads, i, j).double())

    return bias


def of_squares(positions, key_positions):
    """Take the difference of squared positions."""
    return -slopes(4)[:, None, None] * (key_positions**2 - positions[:, None] ** 2).abs()


def reshaped(length, heads):
    """Reshape numbers (t, s, h) to (h, t, s), which mixes heads and places."""
    return penalty(heads, length, length).permute(1, 2, 0).reshape(heads, length, length)


def reshaped_keys(length, heads):
    """Reshape numbers (s, h) of keys to (h, 1, s)."""
    numbers = torch.arange(length)[:, None] * torch.tensor([2.0 ** (-head - 1) for head in range(heads)])
    return numbers.reshape(heads, 1, length)


def places_of_one_head(length):
    """Multiply the place of the key by that of the query."""
    return (torch.arange(length) * (1 + torch.arange(length)[:, None]) / 8.0)[None]


def slope_times_key(heads, t, s):
    """Leave out the query's part, a constant of each row, as in BLOOM and MPT."""
    return slopes(heads)[:, None, None] * torch.arange(s)


def in_parts(length, heads):
    """Hide the keys of other parts of the text, whatever their offset."""
    part = torch.arange(length) // 5
    return penalty(heads, length, length).masked_fill(part != part[:, None], -math.inf)


OFFSETS = {
    "slope times key": (slope_times_key, HEADS, "", "offsets"),
    "zeros": (of_lengths(lambda numbers: 0 * numbers), HEADS, "", "offsets"),
    "a constant of each query": (of_lengths(lambda numbers: numbers - numbers[:, :, :1]), HEADS, "", "offsets"),
    "one number for all keys": (
        of_lengths(lambda numbers: numbers[:, :, :1].expand_as(numbers)),
        HEADS,
        "absolute",
        "",
    ),
    "of squares": (of_squares, {}, "absolute", ""),
    "places of one head": (places_of_one_head, {}, "absolute slopes-wrong", ""),
    "heads reshaped, 2": (reshaped, {"heads": 2}, "heads-mixed length-dependent", ""),
    "heads reshaped, 5": (reshaped, {"heads": 5}, "heads-mixed length-dependent", ""),
    "heads of keys reshaped": (reshaped_keys, {"kind": "bias"}, "heads-mixed length-dependent", ""),
    "two places": (lambda: torch.zeros(2, 2), {"kind": "bias"}, "", "offsets"),
    "parts that do not see each other": (in_parts, HEADS, "", ""),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_only_the_offset_counts(name):
    patient, settings, wrong, notes = OFFSETS[name]
    assert_report(diagnose(patient, **settings), wrong, notes)


def test_parts_that_do_not_see_each_other_depend_on_the_offset():
    assert verdicts(diagnose(in_parts, heads=4), "offsets") == ["ok"]


@pytest.mark.parametrize(("part", "wrong"), [(1e-3, "absolute"), (1e-5, "")])
def test_a_small_part_that_depends_on_places(part, wrong):
    """The whole bias is small, too."""

    def bias(heads, i, j):
        rows = torch.arange(j - i, j)[:, None].double()
        return 1e-2 * penalty(heads, i, j).double() * (1 + part * rows)

    assert_report(diagnose(bias, heads=4), wrong)


class Untrained(nn.Module):
    """A learned bias of embeddings (b, t, d) that begins with zeros, by offsets or by places."""

    def __init__(self, absolute=False):
        super().__init__()
        self.absolute, self.gain, self.table = absolute, nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(127, 4))

    def forward(self, x):
        t = x.shape[1]
        by_place = torch.arange(t).expand(t, t) * (1 + torch.arange(t)[:, None] % 2)
        return self.gain * self.table[by_place if self.absolute else offsets(t, t) + 63].permute(2, 0, 1)


@pytest.mark.parametrize(("absolute", "wrong"), [(False, ""), (True, "absolute one-direction-lost")])
def test_a_table_that_begins_with_zeros_is_filled_first(absolute, wrong):
    assert_report(diagnose(Untrained(absolute), kind="bias", heads=4), wrong)


# Many keys


def steeper_from_100(numbers):
    """Make the bias steeper for queries from 100 on."""
    query = torch.arange(numbers.shape[-2])[:, None]
    return torch.where(query > 100, 1.01 * numbers, numbers)


def clamp_at(limit):
    """Return a penalty that stops at so many steps."""
    return lambda heads, i, j: penalty(heads, i, j).clamp(min=-limit * slopes(heads)[:, None, None])


class Network(nn.Module):
    """A bias by a network of the distance, which may be clipped first."""

    def __init__(self, limit=None):
        super().__init__()
        self.limit, self.net = limit, nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 4))

    def forward(self, i, j):
        distance = offsets(i, j).abs().clamp(max=self.limit or j)
        return self.net(distance[..., None].float()).permute(2, 0, 1)


class SymmetricNetwork(nn.Module):
    """A learned function of the distance that is the same in both directions, and says that it is not causal."""

    def __init__(self):
        super().__init__()
        self.causal, self.net = False, nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, i, j):
        return self.net(offsets(i, j).abs()[..., None].float() / 64).permute(2, 0, 1)


MANY_KEYS = {
    "divided by the number of keys": (
        lambda: of_lengths(lambda numbers: numbers / max(numbers.shape[-1], 64)),
        "length-dependent",
    ),
    "steeper from query 100 on": (
        lambda: of_lengths(steeper_from_100),
        "absolute",
    ),
    "one percent steeper in long texts": (
        lambda: lambda heads, i, j: penalty(heads, i, j) * (1 + 0.01 * j / 512),
        "length-dependent",
    ),
    "a hair steeper in long texts": (lambda: lambda heads, i, j: penalty(heads, i, j) * (1 + 1e-5 * j / 512), ""),
    "clipped at 40 steps": (
        lambda: of_lengths(lambda numbers: numbers.clamp(min=-40 * numbers[:, -1, -2].abs()[:, None, None])),
        "clipped",
    ),
    "clipped at 100 steps": (lambda: clamp_at(100), "clipped"),
    "clipped at 300 steps": (lambda: clamp_at(300), "clipped"),
    "clipped at 600 steps": (lambda: clamp_at(600), ""),
    "a network": (Network, ""),
    "a network of clipped distances": (lambda: Network(limit=8), "clipped"),
    "a network of the distance alone": (SymmetricNetwork, ""),
}


@pytest.mark.parametrize("name", MANY_KEYS)
def test_more_keys_change_nothing(name):
    make, wrong = MANY_KEYS[name]
    assert_report(diagnose(make(), heads=4), wrong)


# Far positions


def at_positions(change):
    def bias(positions, key_positions):
        return -slopes(4)[:, None, None] * change(positions[:, None], key_positions)

    return bias


FAR = {
    "sound": (lambda q, k: (q - k).abs().float(), "ok"),
    "clipped distances": (lambda q, k: (q - k).abs().clamp(max=5), "ok"),
    "rounded positions": (lambda q, k: (q.bfloat16() - k.bfloat16()).abs().float(), "wrong"),
    "clipped positions": (lambda q, k: (k.clamp(max=5000) - q.clamp(max=5000)).abs(), "wrong"),
    "other numbers from 9,000 on": (lambda q, k: (q - k).abs() * (1.0 + (q > 9_000)), "note"),
    "other numbers from 900,000 on": (lambda q, k: (q - k).abs() * (1.0 + (q > 900_000)), "note"),
}


@pytest.mark.parametrize("name", FAR)
def test_far_positions_get_the_same_numbers(name):
    change, verdict = FAR[name]
    report = diagnose(at_positions(change), heads=4)
    assert verdicts(report, "far positions") == [verdict], str(report)
    assert ("bias-rounded" in wrong_ids(report)) == (verdict == "wrong")


def test_positions_that_raise_far_out_are_noted():
    table = -torch.arange(5_000.0)

    def bias(positions, key_positions):
        last = positions.max()
        row = (last - positions)[:, None] * 0 + last - 0 * key_positions
        return slopes(4)[:, None, None] * (table[row] - (positions[:, None] - key_positions).abs())

    report = diagnose(bias, heads=4)
    assert "far-positions" in note_ids(report)
    assert "IndexError" in finding(report, "far positions").words


def test_the_place_of_the_query_in_fire_is_a_note():
    assert_report(diagnose(posenc.FIRE(heads=4)), notes="far-positions")


# Calls after calls


class Writes(nn.Module):
    """A penalty that is multiplied once more in each call."""

    def __init__(self, by):
        super().__init__()
        self.by, self.calls = by, 0

    def forward(self, i, j):
        self.calls += 1
        return penalty(4, i, j) * self.by ** (self.calls - 1)


class Keeps(nn.Module):
    """A penalty that is kept by the numbers of queries and keys; it may refuse a second size."""

    def __init__(self, refuses=False):
        super().__init__()
        self.refuses, self.kept = refuses, {}

    def forward(self, i, j):
        if (i, j) not in self.kept:
            if self.refuses and self.kept:
                raise RuntimeError("a second size")
            self.kept[i, j] = penalty(4, i, j)
        return self.kept[i, j]


@pytest.mark.parametrize(
    ("patient", "settings", "wrong"),
    [
        (Writes, {"by": 1.0}, ""),
        (Writes, {"by": 1.00001}, ""),
        (Writes, {"by": 1.01}, "cache-stale length-dependent"),
        (Keeps, {}, ""),
        (Keeps, {"refuses": True}, "cache-stale"),
    ],
)
def test_calls_before_change_nothing(patient, settings, wrong):
    assert_report(diagnose(patient(**settings), heads=4), wrong)


# Contents


class ByContent(nn.Module):
    """Products of queries (b, h, t, d) with a table of offsets; for keys behind, those of the query above."""

    def __init__(self, above=False):
        super().__init__()
        self.above, self.table = above, nn.Parameter(torch.randn(31, 16))

    def forward(self, q):
        products, t = torch.einsum("bhtd,rd->bhtr", q, self.table), q.shape[2]
        rows = (offsets(t, t) + 15).expand(*q.shape[:2], -1, -1)
        own, other = products.gather(-1, rows), products.roll(1, 2).gather(-1, rows)
        return torch.where(below(t, t, -1), other, own) if self.above else own


class ByContentInWindow(nn.Module):
    """Queries of a window of 4 by 4 by a table of offsets along a row and one from row to row."""

    def __init__(self, above=False):
        super().__init__()
        self.above = above
        self.row, self.column = (nn.Parameter(torch.randn(7, 16)) for _ in range(2))

    def forward(self, q):
        cell = torch.arange(16)
        down, along = cell // 4 - cell[:, None] // 4 + 3, cell % 4 - cell[:, None] % 4 + 3
        of_rows = q.roll(1, 1) if self.above else q
        rows = torch.einsum("btd,tsd->bts", of_rows.reshape(-1, 16, 16), self.row[down])
        return rows + torch.einsum("btd,tsd->bts", q, self.column[along])


@pytest.mark.parametrize(("above", "wrong"), [(False, ""), (True, "queries-mixed")])
@pytest.mark.parametrize(("patient", "settings"), [(ByContent, {"dim": 16}), (ByContentInWindow, {})])
def test_the_numbers_of_a_query_are_made_of_its_own_content(patient, settings, above, wrong):
    named = type("RelPosEmb", (patient,), {})
    report = diagnose(named(above=above), **settings)
    assert report.kind == "bias"
    assert_report(report, wrong)
