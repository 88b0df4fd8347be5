"""Patients of the doctor that turn queries and keys inside: each with one fault, beside the sound version."""

import pytest
import torch

from posenc.doctor import diagnose
from tests.doctor.cases import ids, thetas
from tests.doctor.test_opened_patients import DIM, HEADS, WIDE, AllGrouped, Grouped, Turns, turned


class SineForCosine(Turns):
    def products(self, q, k):
        angle = torch.arange(q.shape[2])[:, None] * thetas(WIDE)
        cos, sin = angle.cos().to(q), angle.sin().to(q)
        halves = (part.chunk(2, -1) for part in (q, k))
        return Grouped.products(self, *(torch.cat(self.mixed(*two, cos, sin), -1) for two in halves))

    def mixed(self, a, b, cos, sin):
        return a * cos - b * sin, b * sin + a * sin


class NoMinus(SineForCosine):
    """Lengths of channels stay, and pairs are no longer square to each other."""

    def mixed(self, a, b, cos, sin):
        return a * cos + b * sin, b * cos + a * sin


class KeysByColumns(AllGrouped):
    """Queries are turned by the rows of a grid first, keys by its columns."""

    def products(self, q, k):
        speeds, t = thetas(WIDE // 2), torch.arange(q.shape[2])
        row, column = (part[:, None] * speeds for part in (t // 4, t % 4))
        one = torch.ones(len(t))[:, None]
        q = turned(q, one[:, 0], torch.cat((row, column), -1))
        return super().products(q, turned(k, one[:, 0], torch.cat((column, row), -1)))


class HalfTurns(Turns):
    """Turns the first half of the channels."""

    def products(self, q, k):
        t = torch.arange(q.shape[2])
        q, k = (torch.cat((turned(part[..., :8], t), part[..., 8:]), -1) for part in (q, k))
        return Grouped.products(self, q, k)


class KeysBack(Turns):
    def products(self, q, k):
        t = torch.arange(q.shape[2])
        return Grouped.products(self, turned(q, t), turned(k, -t))


class KeysStill(Turns):
    def products(self, q, k):
        return Grouped.products(self, turned(q, torch.arange(q.shape[2])), k)


@pytest.mark.parametrize(
    ("cls", "cause"),
    [
        (Turns, None),
        (HalfTurns, None),
        (SineForCosine, "not-a-rotation"),
        (NoMinus, "not-a-rotation"),
        (KeysByColumns, "sides-differ"),
        (KeysBack, "opposite"),
        (KeysStill, "one-side"),
    ],
)
def test_the_rotation_inside(cls, cause):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert (cause in ids(report)) if cause else report.healthy, str(report)


class Biased(Turns):
    """Turned, with what hangs on the query alone, on the key alone, and on neither."""

    def __init__(self):
        super().__init__()
        self.rel_table, self.u = (torch.nn.Parameter(torch.randn(*shape)) for shape in ((129, WIDE), (HEADS, 1, WIDE)))

    def products(self, q, k):
        t = torch.arange(q.shape[2])
        offset = t - t[:, None]
        of_query = torch.einsum("bhtd,tsd->bhts", q, self.rel_table[64 + offset].to(q))
        of_key = self.u.to(k) @ k.mT
        return super().products(q, k) + (of_query + of_key) / 4 + 0.1 * offset


class Slow(Turns):
    def angles(self, t):
        return torch.arange(t) * 0.01


class Sink(Turns):
    """Sees the last four keys, and the first."""

    def weights(self, logits):
        t = torch.arange(logits.shape[-1])
        behind = t[:, None] - t
        return logits.masked_fill((behind < 0) | (behind > 3) & (t > 0), float("-inf")).softmax(-1)


class OfUnits(Turns):
    """Queries and keys are brought to one length first."""

    def products(self, q, k):
        return super().products(*(3 * part / (part.norm(dim=-1, keepdim=True) + 1e-6) for part in (q, k)))


class Single(Turns):
    """Cannot be cast."""

    def products(self, q, k):
        assert q.dtype != torch.float64, "not in float64"
        return super().products(q, k)


class Fading(Turns):
    """Queries grow from place to place, and keys fade alike."""

    def products(self, q, k):
        by = 1.002 ** torch.arange(q.shape[2])[:, None].to(q)
        return super().products(q * by, k / by)


class ByTheGrid(Turns):
    """Queries and keys are turned by the rows and columns of a grid."""

    def products(self, q, k):
        speeds, t = thetas(WIDE // 2), torch.arange(q.shape[2])
        angle = torch.cat([part[:, None] * speeds for part in (t // 4, t % 4)], -1)
        one = torch.ones(len(t))
        return Grouped.products(self, turned(q, one, angle), turned(k, one, angle))


@pytest.mark.parametrize("cls", [Biased, Slow, Sink, OfUnits, Single, Fading, ByTheGrid])
def test_what_stands_beside_a_rotation_is_no_fault(cls):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert report.healthy, str(report)
    inside = [found.check for found in report.findings if found.check.startswith("rotation inside")]
    assert bool(inside) == (cls not in (Sink, OfUnits)), str(report)


@pytest.mark.parametrize(("heads", "dim", "room"), [(3, 20, 99), (5, 18, 2), (2, 64, 99)])
def test_a_function_that_turns_inside(heads, dim, room):
    def fn(q, k, v):
        assert len(q) <= room, "another number of texts"
        t = torch.arange(k.shape[2])
        q, k = turned(q, t[-q.shape[2] :]), turned(k, t)
        hidden = torch.ones(q.shape[2], len(t)).triu(1 + len(t) - q.shape[2]).bool()
        return (q @ k.mT / dim**0.5).masked_fill(hidden, float("-inf")).softmax(-1) @ v

    report = diagnose(fn, dim=dim, heads=heads)
    assert report.healthy, str(report)
    assert report.finding("rotation inside, frequencies").verdict == "ok"
