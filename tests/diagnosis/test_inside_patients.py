"""Patients of the doctor that turn queries and keys inside: each with one fault, beside the sound version."""

import pytest
import torch

from posenc.diagnosis import doctor
from tests.diagnosis.cases import ids, thetas
from tests.diagnosis.test_opened_patients import DIM, HEADS, WIDE, AllGrouped, Grouped, Turns, turned


class SineForCosine(Turns):
    def products(self, q, k):
        angle = torch.arange(q.shape[2])[:, None] * thetas(WIDE)
        cos, sin = angle.cos().to(q), angle.sin().to(q)
        halves = (part.chunk(2, -1) for part in (q, k))
        return Grouped.products(self, *(torch.cat((a * cos - b * sin, b * sin + a * sin), -1) for a, b in halves))


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
        (KeysByColumns, "sides-differ"),
        (KeysBack, "opposite"),
        (KeysStill, "one-side"),
    ],
)
def test_the_rotation_inside(cls, cause):
    report = doctor(cls(), dim=DIM, heads=HEADS)
    assert (cause in ids(report)) if cause else report.healthy, str(report)
