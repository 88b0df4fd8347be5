"""Biases by buckets of distance: stretches that narrow or come again, rows that are never read, and where they end."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids
from tests.doctor.test_bias_offset_patients import OfOffsets
from tests.doctor.test_bias_patients import bucket
from tests.doctor.test_bias_shapes import offsets


def slow(offset):
    """A logarithm so slow that stretches of distances differ by one, as in DeBERTa."""
    return bucket(offset, half=64, limit=200)


def stretches(*lengths):
    """Return buckets of so many distances each, the last without end, on both sides."""
    ends = torch.tensor(lengths).cumsum(0)

    def change(offset):
        number = torch.bucketize(offset.abs(), ends, right=True)
        return torch.where(offset == 0, 2 * len(ends) + 2, number + (len(ends) + 1) * (offset > 0))

    return change


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        (slow, set()),
        (stretches(2, 2, 3, 4, 4, 3, 4, 5), set()),
        (stretches(2, 2, 3, 4, 5, 3, 5, 5), {"buckets-wrong"}),
        (lambda offset: torch.where(offset.abs() < 91, bucket(offset.clamp(-90, 90)), 32), set()),
    ],
)
def test_stretches_of_distances(change, causes):
    report = diagnose(OfOffsets(change), heads=4)
    assert ids(report) == causes, str(report)


@pytest.mark.parametrize(
    ("change", "due", "causes"),
    [
        (lambda offset: offset.clamp(-128, 128) + 128, 128, set()),
        (lambda offset: offset.clamp(-64, 64) + 64, 128, set()),
        (lambda offset: offset.clamp(-60, 60) + 60, 128, {"buckets-wrong"}),
        (lambda offset: offset.clamp(-130, 130) + 130, 128, {"buckets-wrong"}),
        (lambda offset: bucket(offset, limit=800), 800, set()),
        (lambda offset: bucket(offset, limit=300), 800, {"buckets-wrong"}),
    ],
)
def test_where_the_last_bucket_begins(change, due, causes):
    report = diagnose(OfOffsets(change, max_distance=due), heads=4)
    assert ids(report) == causes, str(report)


class Rows(nn.Module):
    """A learned table of heads by rows, of which some are read, for so many tokens."""

    def __init__(self, rows=40, most=999, read=40):
        super().__init__()
        torch.manual_seed(0)
        self.most, self.read, self.table = most, read, nn.Parameter(torch.randn(4, rows))

    def forward(self, i, j):
        if j > self.most:
            raise ValueError("too many")
        half = self.read // 2
        return self.table[:, offsets(i, j).clamp(-half, half - 1) + half]


@pytest.mark.parametrize(
    ("read", "causes"), [(40, set()), (34, set()), (32, {"buckets-wrong"}), (30, {"buckets-wrong"})]
)
@pytest.mark.parametrize("most", [999, 64])
def test_rows_that_no_offset_reads(read, most, causes):
    report = diagnose(Rows(most=most, read=read), heads=4)
    assert ids(report) == causes, str(report)


def test_rows_of_more_tokens_than_can_be_asked_for():
    assert diagnose(Rows(rows=400, read=400, most=70), heads=4).healthy


class Turning(nn.Module):
    """A learned function of the distance that is the same in both directions, and says that it is not causal."""

    def __init__(self, most=0):
        super().__init__()
        torch.manual_seed(0)
        self.causal, self.most, self.net = False, most, nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, i, j):
        distance = offsets(i, j).abs()[..., None].float() / 64
        return self.net(distance).permute(2, 0, 1)


def test_a_function_of_the_distance_may_be_symmetric():
    assert diagnose(Turning(), heads=4).healthy, str(diagnose(Turning(), heads=4))
