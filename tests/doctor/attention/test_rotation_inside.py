"""The rotation inside of an attention: queries and keys are rotated once, alike, and by angles as they should be."""

import math

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.attention.patients import (
    DIM,
    HEADS,
    WIDTH,
    Encoder,
    Grouped,
    Rotated,
    SelfAttention,
    behind,
    masked,
)
from tests.doctor.blocks import attend_behind, below, frequencies, offsets, rotate, rotate_by, rotate_interleaved


class GroupedRotated(Rotated, Grouped):
    """Heads that share keys, rotated."""


class Mixed(SelfAttention):
    """Mix the two channels of a pair by a cosine and a sine."""

    def mixed(self, a, b, cos, sin):
        return a * cos - b * sin, b * cos + a * sin

    def turned(self, q, k):
        angles = torch.arange(q.shape[2])[:, None] * frequencies(WIDTH)
        cos, sin = angles.cos().to(q), angles.sin().to(q)
        return tuple(torch.cat(self.mixed(*part.chunk(2, -1), cos, sin), -1) for part in (q, k))


class SineForCosine(Mixed):
    """Take the sine for the cosine in the second channel of a pair."""

    def mixed(self, a, b, cos, sin):
        return a * cos - b * sin, b * sin + a * sin


class WithoutMinus(Mixed):
    """Add both sines: lengths of channels stay, and pairs are no longer square to each other."""

    def mixed(self, a, b, cos, sin):
        return a * cos + b * sin, b * cos + a * sin


def on_grid(t, columns_first=False):
    """Return the angles (t, d/2) of cells in rows of four."""
    cell, speeds = torch.arange(t)[:, None], frequencies(WIDTH // 2)
    row, column = cell // 4 * speeds, cell % 4 * speeds
    return torch.cat((column, row) if columns_first else (row, column), -1)


class KeysByColumns(Encoder):
    """Rotate queries by the rows of a grid first, keys by its columns."""

    def turned(self, q, k):
        t = q.shape[2]
        return rotate_by(q, on_grid(t)), rotate_by(k, on_grid(t, columns_first=True))


class OnGrid(SelfAttention):
    def turned(self, q, k):
        return rotate_by(q, on_grid(q.shape[2])), rotate_by(k, on_grid(q.shape[2]))


class HalfOfChannels(SelfAttention):
    def turned(self, q, k):
        positions = torch.arange(q.shape[2])
        return tuple(torch.cat((rotate(part[..., :8], positions), part[..., 8:]), -1) for part in (q, k))


class KeysBackwards(SelfAttention):
    """Rotate keys the other way."""

    def turned(self, q, k):
        positions = torch.arange(q.shape[2])
        return rotate(q, positions), rotate(k, -positions)


class QueriesAlone(SelfAttention):
    """Do not rotate keys."""

    def turned(self, q, k):
        return rotate(q, torch.arange(q.shape[2])), k


class KeysTwice(Rotated):
    """Rotate keys twice."""

    def turned(self, q, k):
        q, k = super().turned(q, k)
        return q, rotate(k, torch.arange(k.shape[2]))


class KeysInNeighbors(SelfAttention):
    """Rotate queries in halves and keys in neighbors."""

    def turned(self, q, k):
        positions = torch.arange(q.shape[2])
        return rotate(q, positions), rotate_interleaved(k, positions)


class InvertedExponent(SelfAttention):
    """Divide positions by the frequencies."""

    def turned(self, q, k):
        angles = torch.arange(q.shape[2])[:, None] / frequencies(WIDTH)
        return rotate_by(q, angles), rotate_by(k, angles)


class Biased(Rotated):
    """Add what depends on the query alone, on the key alone, and on neither."""

    def __init__(self):
        super().__init__()
        self.rel_table, self.u = (nn.Parameter(torch.randn(*shape)) for shape in ((129, WIDTH), (HEADS, 1, WIDTH)))

    def scores(self, q, k):
        offset = offsets(q.shape[2], k.shape[2])
        content = self.content
        of_query = torch.einsum("bhtd,tsd->bhts", content, self.rel_table[64 + offset].to(q))
        return super().scores(q, k) + (of_query + self.u.to(k) @ self.unturned.mT) / 4 + 0.1 * offset

    def turned(self, q, k):
        self.content, self.unturned = q, k
        return super().turned(q, k)


class Slow(SelfAttention):
    """Rotate by a hundredth of the position."""

    def turned(self, q, k):
        positions = torch.arange(q.shape[2]) * 0.01
        return rotate(q, positions), rotate(k, positions)


class Sink(Rotated):
    """See the last four keys, and the first."""

    def seen(self, t, s):
        distance = -offsets(t, s)
        return (distance >= 0) & ((distance <= 3) | (torch.arange(s) == 0))


class UnitLength(Rotated):
    """Bring queries and keys to one length first."""

    def turned(self, q, k):
        return super().turned(*(3 * part / (part.norm(dim=-1, keepdim=True) + 1e-6) for part in (q, k)))


class NoFloat64(Rotated):
    def turned(self, q, k):
        assert q.dtype != torch.float64, "not in float64"
        return super().turned(q, k)


class Fading(Rotated):
    """Queries grow from position to position, and keys fade alike."""

    def turned(self, q, k):
        by = 1.002 ** torch.arange(q.shape[2])[:, None].to(q)
        return super().turned(q * by, k / by)


LAYERS = {
    Rotated: ("", ""),
    GroupedRotated: ("", ""),
    HalfOfChannels: ("", ""),
    Mixed: ("", ""),
    SineForCosine: ("not-a-rotation", ""),
    WithoutMinus: ("not-a-rotation", ""),
    KeysByColumns: ("sides-differ", ""),
    KeysInNeighbors: ("scale-wrong sides-differ", ""),
    KeysBackwards: ("opposite", ""),
    QueriesAlone: ("one-side", ""),
    KeysTwice: ("sides-differ turned-twice", ""),
    InvertedExponent: ("exponent-inverted", ""),
    Biased: ("", "decay"),
    Slow: ("", ""),
    Sink: ("", ""),
    UnitLength: ("", "scale"),
    NoFloat64: ("", ""),
    Fading: ("", "norm"),
    OnGrid: ("", "offsets"),
}
NOT_READ = (Sink, UnitLength)  # products of few keys, or of other lengths than those that come in


@pytest.mark.parametrize("cls", LAYERS)
def test_queries_and_keys_are_rotated_alike(cls):
    wrong, notes = LAYERS[cls]
    assert_report(diagnose(cls(), dim=DIM, heads=HEADS), wrong, notes)


@pytest.mark.parametrize("cls", [Biased, Slow, Sink, UnitLength, NoFloat64, Fading, OnGrid])
def test_a_rotation_is_read_beside_what_is_added(cls):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    inside = [each.check for each in report.findings if each.check.startswith("rotation inside")]
    assert bool(inside) == (cls not in NOT_READ)


# Functions


def rotated(q, k, v, times_q=1, times_k=1):
    positions = torch.arange(k.shape[2])
    q = rotate(q, times_q * positions[-q.shape[2] :])
    return attend_behind(q, rotate(k, times_k * positions), v)


def queries_twice(q, k, v):
    """Rotate queries twice."""
    return rotated(q, k, v, times_q=2)


def keys_twice(q, k, v):
    """Rotate keys twice."""
    return rotated(q, k, v, times_k=2)


def queries_twice_but_alone(q, k, v):
    """Rotate queries twice, and a lone one not at all."""
    positions = torch.arange(k.shape[2])
    q = rotate(q, 2 * positions) if q.shape[2] == k.shape[2] else q
    return masked(q, rotate(k, positions), v, behind(q, k))


@pytest.mark.parametrize(
    ("patient", "sizes", "wrong"),
    [
        (rotated, {}, ""),
        (queries_twice, {}, "exponent-rising sides-differ turned-twice"),
        (keys_twice, {"dim": 16}, "sides-differ turned-twice"),
        (queries_twice_but_alone, {"dim": 16}, "exponent-rising offset-ignored sides-differ turned-twice"),
    ],
)
def test_a_function_rotates_queries_and_keys_once(patient, sizes, wrong):
    assert_report(diagnose(patient, heads=4, **sizes), wrong)


@pytest.mark.parametrize(("heads", "dim", "most"), [(3, 20, 99), (5, 18, 2), (2, 64, 99)])
def test_the_rotation_of_a_function_is_read(heads, dim, most):
    def attend(q, k, v):
        assert len(q) <= most, "another number of texts"
        positions = torch.arange(k.shape[2])
        q, k = rotate(q, positions[-q.shape[2] :]), rotate(k, positions)
        scores = (q @ k.mT / math.sqrt(dim)).masked_fill(~below(q.shape[2], k.shape[2]), -math.inf)
        return scores.softmax(-1) @ v

    report = diagnose(attend, dim=dim, heads=heads)
    assert_report(report)
    assert verdicts(report, "rotation inside, frequencies") == ["ok"]


# Tables that are given


class InPart(SelfAttention):
    """Rotate the first channels of a head by tables of their width, those of keys or not."""

    def __init__(self, width, lost=False):
        super().__init__()
        self.turning, self.lost = width, lost

    def forward(self, x, cos, sin):
        assert cos.shape[-1] == self.turning
        self.tables = cos[:, None], sin[:, None]
        return super().forward(x)

    def turned(self, q, k):
        return self.by_tables(q), k if self.lost else self.by_tables(k)

    def by_tables(self, x):
        cos, sin = self.tables
        part, rest = x[..., : self.turning], x[..., self.turning :]
        first, second = part.chunk(2, -1)
        return torch.cat((part * cos + torch.cat((-second, first), -1) * sin, rest), -1)


@pytest.mark.parametrize(("lost", "wrong"), [(False, ""), (True, "absolute one-side")])
@pytest.mark.parametrize("width", [16, 8, 4])
def test_tables_as_wide_as_the_part_of_a_head_that_turns(width, lost, wrong):
    assert_report(diagnose(InPart(width, lost), dim=DIM, heads=HEADS), wrong)
