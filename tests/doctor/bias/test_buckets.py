"""Biases by buckets of distance, as T5's: buckets widen, each is one stretch, and all are read."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, label, wrong_ids
from tests.doctor.bias.patients import Buckets, LearnedByOffset, bucket
from tests.doctor.blocks import offsets


def in_stretches(*widths):
    """Return buckets of so many distances each, the last without end, on both sides."""
    ends = torch.tensor(widths).cumsum(0)

    def change(offset):
        number = torch.bucketize(offset.abs(), ends, right=True)
        ahead = torch.where(offset > 0, number + len(ends) + 1, number)
        return torch.where(offset == 0, 2 * len(ends) + 2, ahead)

    return change


def by_parts(near, far, first):
    """Return buckets of `near` distances below 12 and of `far` ones beyond, `first` of them near, on both sides."""

    def change(offset):
        distance = offset.abs()
        beyond = first + ((distance - 12) // far).clamp(0, 22 - first)
        number = torch.where(distance < 12, distance // near, beyond)
        return torch.where(offset > 0, number + 23, number)

    return change


def far_only(offset):
    """Number near offsets by themselves and far ones by their distance alone."""
    return torch.where(offset.abs() < 8, offset + 100, bucket(offset, both_sides=False))


def far_as_near(offset):
    """Number far distances as if they were nearer, so that buckets come again."""
    return torch.where(offset.abs() < 8, bucket(offset), (bucket(offset) - 8).clamp(min=0))


def ends_in_one(offset):
    return torch.where(offset.abs() < 91, bucket(offset.clamp(-90, 90)), 32)


LEARNED = {
    "T5's": (bucket, {}, ""),
    "of a slow logarithm": (lambda offset: bucket(offset, half=64, limit=200), {}, ""),
    "both ends share the last": (ends_in_one, {}, ""),
    "2, 2, 2 ... then 6": (by_parts(2, 6, 6), {}, ""),
    "6, 6, then 2": (by_parts(6, 2, 2), {}, "buckets-wrong"),
    "narrower by one": (in_stretches(2, 2, 3, 4, 4, 3, 4, 5), {}, ""),
    "narrower by two": (in_stretches(2, 2, 3, 4, 5, 3, 5, 5), {}, "buckets-wrong"),
    "clipped at the limit": (lambda offset: offset.clamp(-128, 128) + 128, {"max_distance": 128}, ""),
    "clipped at half the limit": (lambda offset: offset.clamp(-64, 64) + 64, {"max_distance": 128}, ""),
    "clipped at less": (lambda offset: offset.clamp(-60, 60) + 60, {"max_distance": 128}, "buckets-wrong"),
    "clipped beyond the limit": (lambda offset: offset.clamp(-130, 130) + 130, {"max_distance": 128}, "buckets-wrong"),
    "to a limit of 800": (lambda offset: bucket(offset, limit=800), {"max_distance": 800}, ""),
    "to 300 of 800": (lambda offset: bucket(offset, limit=300), {"max_distance": 800}, "buckets-wrong"),
}


@pytest.mark.parametrize("name", LEARNED)
def test_stretches_widen_and_end_where_the_module_says(name):
    change, attributes, wrong = LEARNED[name]
    assert_report(diagnose(LearnedByOffset(change, **attributes), heads=4), wrong)


def test_the_number_is_the_width_of_the_narrower_stretch():
    assert finding(diagnose(LearnedByOffset(by_parts(6, 2, 2)), heads=4), "widen").number == 2


@pytest.mark.parametrize(("limit", "wrong"), [(128, ""), (400, "buckets-wrong")])
def test_a_module_inside_a_function_says_how_far_its_buckets_reach(limit, wrong):
    module = LearnedByOffset(lambda offset: bucket(offset, limit=limit), max_distance=128)
    assert_report(diagnose(lambda length: module(length, length), heads=4), wrong)


# Ids of buckets


def of_offsets(change):
    return lambda length, key_length: change(offsets(length, key_length))


def relative_ids(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    return bucket(relative_position, limit=max_distance)


def coarse_ids(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    """Take another limit than the one that is given."""
    return bucket(relative_position, limit=16)


IDS = {
    "offsets": (of_offsets(lambda offset: offset), ""),
    "T5's": (of_offsets(bucket), ""),
    "far ones without a direction": (of_offsets(far_only), "one-direction-lost"),
    "far ones as near ones": (of_offsets(far_as_near), "buckets-wrong"),
    "beside a row of numbers": (lambda length, key_length: (torch.arange(3), bucket(offsets(length, key_length))), ""),
    "of offsets that are given": (relative_ids, ""),
    "of another limit than is given": (coarse_ids, "buckets-wrong"),
}


@pytest.mark.parametrize("name", IDS)
def test_ids_of_buckets(name):
    patient, wrong = IDS[name]
    assert_report(diagnose(patient, kind="bias"), wrong)


# Directions

ONE_WAY = {
    "distance alone": lambda offset: bucket(-offset.abs()),
    "keys ahead share one": lambda offset: bucket(offset.clamp(max=0)),
}


@pytest.mark.parametrize(
    ("attributes", "lost"),
    [
        ({"bidirectional": True}, True),
        ({"is_decoder": False}, True),
        ({"causal": False}, True),
        ({}, False),
        ({"bidirectional": False}, False),
        ({"is_decoder": True}, False),
    ],
    ids=label,
)
@pytest.mark.parametrize("name", ONE_WAY)
def test_both_directions_are_told_apart_where_the_code_says_so(name, attributes, lost):
    report = diagnose(LearnedByOffset(ONE_WAY[name], **attributes), heads=4)
    assert ("one-direction-lost" in wrong_ids(report)) == lost, str(report)


# Rows of a learned table that are read, and the factor that it keeps


class Attention(Buckets):
    """An attention whose scale is not that of its bias."""

    def compute_bias(self, query_length, key_length):
        return self.table(bucket(offsets(query_length, key_length))).permute(2, 0, 1)


def with_scale(value):
    module = Buckets(applied=0.5)
    module.scale = value
    return module


BUCKETS = {
    "sound": (Buckets, ""),
    "half of the rows unread": (lambda: Buckets(both_sides=False), "one-direction-lost"),
    "12 rows unread": (lambda: Buckets(half=10), "buckets-wrong"),
    "scale of a quarter not applied": (lambda: Buckets(applied=1.0), "scaled-wrong"),
    "scale of 0": (lambda: with_scale(0), ""),
    "scale of 1": (lambda: with_scale(1), ""),
    "scale of 1.0": (lambda: with_scale(1.0), ""),
    "scale of a quarter, a half applied": (lambda: with_scale(0.25), "scaled-wrong"),
    "scale of 3, a half applied": (lambda: with_scale(3), "scaled-wrong"),
    "the scale of an attention": (lambda: Attention().compute_bias, ""),
}


@pytest.mark.parametrize("name", BUCKETS)
def test_all_rows_are_read_and_the_scale_is_applied(name):
    make, wrong = BUCKETS[name]
    assert_report(diagnose(make(), heads=4), wrong)


class Rows(nn.Module):
    """A learned table of heads by rows, of which some are read, for so many tokens."""

    def __init__(self, rows=40, longest=999, read=40):
        super().__init__()
        self.longest, self.read, self.table = longest, read, nn.Parameter(torch.randn(4, rows))

    def forward(self, i, j):
        if j > self.longest:
            raise ValueError("too many")
        half = self.read // 2
        return self.table[:, offsets(i, j).clamp(-half, half - 1) + half]


@pytest.mark.parametrize(("read", "wrong"), [(40, ""), (34, ""), (32, "buckets-wrong"), (30, "buckets-wrong")])
@pytest.mark.parametrize("longest", [999, 64])
def test_a_fifth_of_the_rows_may_be_unread(read, longest, wrong):
    report = diagnose(Rows(longest=longest, read=read), heads=4)
    assert_report(report, wrong)
    if wrong:
        assert finding(report, "widen").number == 40 - read


def test_rows_of_more_tokens_than_can_be_asked_for_may_be_unread():
    assert_report(diagnose(Rows(rows=400, read=400, longest=64), heads=4), notes="widen")


class BothHalves(nn.Module):
    """A learned number for each offset of 64 tokens, or for each distance."""

    def __init__(self, one_sided=False):
        super().__init__()
        self.one_sided, self.table = one_sided, nn.Parameter(torch.randn(127, 4))

    def forward(self, length):
        if length > 64:
            raise ValueError("too long")
        offset = offsets(length, length)
        return self.table[(offset.abs() if self.one_sided else offset) + 63].permute(2, 0, 1)


@pytest.mark.parametrize(("one_sided", "wrong"), [(False, ""), (True, "one-direction-lost")])
def test_both_halves_of_a_learned_table_are_read(one_sided, wrong):
    assert_report(diagnose(BothHalves(one_sided), heads=4), wrong)
