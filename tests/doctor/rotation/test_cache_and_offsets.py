"""Calls after calls: what one keeps for the next, where a lone token stands, longer texts, a row for each text."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.blocks import frequencies, rotate, rotate_by, rotate_pair
from tests.doctor.rotation.patients import SMALL, rotate_rows, rotate_slowly, row_pair

# What a call keeps


class Cached:
    """Keep angles by the length of the call, which forgets the offset (rotary-embedding-torch#11)."""

    def __init__(self, dim):
        self.dim, self.tables = dim, {}

    def key(self, length, offset):
        return length

    def __call__(self, x, offset=0):
        key = self.key(x.shape[-2], offset)
        if key not in self.tables:
            self.tables[key] = (offset + torch.arange(x.shape[-2]))[:, None] * frequencies(self.dim)
        return rotate_by(x, self.tables[key])


class CachedByOffset(Cached):
    def key(self, length, offset):
        return length, offset


class CachedInFirstDtype(Cached):
    """Keep angles in the dtype of the first call."""

    def __call__(self, x, offset=0):
        end = offset + x.shape[-2]
        if self.tables.get("length", 0) < end:
            self.tables["length"] = end
            self.tables["angles"] = (torch.arange(end)[:, None] * frequencies(self.dim)).to(x.dtype)
        return rotate_by(x, self.tables["angles"][offset:end])


class KeepsDtype(nn.Module):
    """Round cosines and sines to the dtype of the first call, or of each."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.dtype = kept, None

    def forward(self, x, positions):
        if self.dtype is None or not self.kept:
            self.dtype = x.dtype
        angles = positions[:, None] * frequencies(x.shape[-1])
        cos, sin = (part.to(self.dtype).to(x.dtype) for part in (angles.cos(), angles.sin()))
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class KeepsAngles(nn.Module):
    """Keep angles: none, of each start, or the longest, which forgets where it started."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.angles, self.start = kept, None, None

    def is_stale(self, length, offset):
        if self.kept == "none" or self.angles is None or len(self.angles) < length:
            return True
        return self.kept == "start" and self.start != offset

    def forward(self, x, offset=0):
        if self.is_stale(x.shape[2], offset):
            self.angles = (offset + torch.arange(x.shape[2]))[:, None] * frequencies(x.shape[-1])
            self.start = offset
        return rotate_by(x, self.angles[: x.shape[2]])


class KeepsNear(nn.Module):
    """Keep the angles of the first call that ends before 500, wherever it began."""

    def __init__(self):
        super().__init__()
        self.angles = None

    def forward(self, x, offset=0):
        positions = offset + torch.arange(x.shape[2])
        if self.angles is not None and len(self.angles) >= x.shape[2] and not offset:
            return rotate_by(x, self.angles[: x.shape[2]])
        angles = positions[:, None] * frequencies(x.shape[-1])
        if positions[-1] < 500 and self.angles is None:
            self.angles = angles
        return rotate_by(x, angles)


class KeepsStart(nn.Module):
    """Keep the furthest start of all calls."""

    def __init__(self, speed=1.0):
        super().__init__()
        self.start, self.speed = 0, speed

    def forward(self, x, offset=0):
        self.start = max(self.start, offset)
        return rotate(x, self.speed * (self.start + torch.arange(x.shape[2])))


KEPT = {
    "by length and offset": (lambda: CachedByOffset, {}, "", ""),
    "by length": (lambda: Cached, {}, "cache-stale offset-ignored", ""),
    "in the dtype of the first call": (lambda: CachedInFirstDtype, {}, "angles-rounded cache-stale", ""),
    "the dtype of each call": (lambda: KeepsDtype(kept=False), SMALL, "", ""),
    "the dtype of the first call": (lambda: KeepsDtype(kept=True), SMALL, "cache-stale", ""),
    "nothing": (lambda: KeepsAngles("none"), SMALL, "", ""),
    "angles of each start": (lambda: KeepsAngles("start"), SMALL, "", ""),
    "the longest angles": (lambda: KeepsAngles("longest"), SMALL, "cache-stale offset-ignored", ""),
    "angles of near positions": (KeepsNear, SMALL, "cache-stale", ""),
    "the furthest start": (KeepsStart, SMALL, "cache-stale offset-ignored wrapped", "origin"),
    "the furthest start, slow": (lambda: KeepsStart(1 / 50_000), SMALL, "cache-stale wrapped", "origin"),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_call_does_not_depend_on_the_calls_before_it(name):
    make, settings, wrong, notes = KEPT[name]
    assert_report(diagnose(make(), kind="rotation", **settings), wrong, notes)


def test_angles_of_near_positions_are_found_by_where_they_start():
    assert finding(diagnose(KeepsNear(), kind="rotation", **SMALL), "memory").id == "cache-stale"


# A token alone, and longer texts


def from_call(x, positions):
    """Count on by the length of the call."""
    return rotate(x, positions + x.shape[2])


def alone_from_zero(x, positions):
    """Turn a token or two as if they were the first."""
    return rotate(x, positions - positions[0] if len(positions) < 3 else positions)


def slowly_alone_from_zero(x, positions):
    """Turn a token or two as if they were the first, slowly."""
    return rotate_slowly(x, positions - positions[0] if len(positions) < 3 else positions)


def dynamic_ntk(x, positions):
    """Raise the base with the length of the text (transformers#25104)."""
    dim, length = x.shape[-1], int(positions.max()) + 1
    grown = max(1.0, 2 * length / 2048 - 1)
    return rotate(x, positions, 10_000.0 * grown ** (dim / (dim - 2)))


def slower_in_long_texts(x, positions):
    """Slow down with the last position, from 600 on."""
    return rotate(x, positions * (600 / positions.max().clamp(600)))


def a_hundredth_slower(x, positions):
    """Slow down by a hundredth in texts beyond 5,000."""
    return rotate(x, positions * 0.99 if positions.max() > 5000 else positions)


def grows_with_length(x, positions):
    return rotate(x, positions) * (1 + positions.shape[-1] / 10_000)


def grows_with_call(x, offset=0):
    return rotate(x, offset + torch.arange(x.shape[2])) * (1 + x.shape[2] / 10_000)


def of_short_texts(x, positions):
    if x.shape[2] > 5000:
        raise ValueError("too many tokens")
    return rotate(x, positions)


LENGTHS = {
    "sound": (rotate, {}, "", ""),
    "counts from the end of the call": (
        from_call,
        {},
        "length-dependent offset-ignored wrapped",
        "origin",
    ),
    "alone from zero": (alone_from_zero, SMALL, "offset-ignored rows-mixed wrapped", ""),
    "slowly alone from zero": (slowly_alone_from_zero, SMALL, "offset-ignored rows-mixed wrapped", ""),
    "dynamic NTK": (dynamic_ntk, {}, "length-dependent", ""),
    "slower in long texts": (
        slower_in_long_texts,
        SMALL,
        "absolute length-dependent wrapped",
        "",
    ),
    "a hundredth slower": (a_hundredth_slower, SMALL, "length-dependent", ""),
    "grows with the length": (grows_with_length, SMALL, "", "longer-calls"),
    "grows with the call": (grows_with_call, SMALL, "", "decoding longer-calls"),
    "short texts only": (of_short_texts, SMALL, "", "longer-calls"),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_token_turns_alike_alone_and_in_longer_texts(name):
    patient, settings, wrong, notes = LENGTHS[name]
    assert_report(diagnose(patient, kind="rotation", **settings), wrong, notes)


def test_a_rotation_that_takes_no_position_cannot_decode():
    assert_report(diagnose(lambda x: rotate(x, torch.arange(x.shape[2]))), notes="decoding")


# A row of positions for each text


def batch_for_heads(x, positions):
    """Broadcast the batch of positions against the heads."""
    angles = positions[..., None].float() * frequencies(x.shape[-1])
    return rotate_by(x, angles[:1] if angles.ndim == 3 else angles)


def first_row_pair(q, k, position_ids):
    """Take the first row for all texts."""
    return row_pair(q, k, position_ids[:1].expand(position_ids.shape))


def first_row(x, positions):
    """Take the first row for all texts."""
    return rotate_rows(x, positions[:1] if positions.ndim == 2 else positions)


def slowly_first_row(x, positions):
    """Take the first row for all texts, and turn slowly."""
    return rotate_rows(x, positions.reshape(-1, x.shape[2])[:1] / 50)


def first_row_for_keys(q, k, positions):
    """Take the first row for the keys of all texts."""
    return rotate_rows(q, positions), first_row(k, positions)


@pytest.mark.parametrize(
    ("patient", "settings", "wrong"),
    [
        (rotate, {}, ""),
        (rotate_pair, {}, ""),
        (rotate_rows, SMALL, ""),
        (row_pair, {}, ""),
        (batch_for_heads, {}, "rows-mixed"),
        (first_row_pair, {}, "rows-mixed"),
        (first_row, SMALL, "rows-mixed"),
        (slowly_first_row, SMALL, "axis-lost rows-mixed"),
        (first_row_for_keys, SMALL, "rows-mixed"),
    ],
)
def test_each_text_is_turned_by_its_own_positions(patient, settings, wrong):
    report = diagnose(patient, kind="rotation", **settings)
    assert_report(report, wrong)
    assert verdicts(report, "batched positions") == ["wrong" if wrong else "ok"]
