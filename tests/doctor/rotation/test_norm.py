"""Lengths of channels stay under a rotation; what changes them, and whether queries and keys cancel it."""

import math

import pytest
import torch
from torch.nn import functional as F

import posenc
from posenc import diagnose
from tests.doctor.assertions import assert_report, finding
from tests.doctor.blocks import frequencies, rotate, rotate_by, rotate_interleaved
from tests.doctor.rotation.patients import (
    SMALL,
    padded,
    rotate_slowly,
    sides,
    tiled_angles,
    widened,
)

YARN_FACTOR = 0.1 * math.log(32) + 1


def yarn_frequencies(dim, factor=32.0):
    plain = frequencies(dim)
    turns = 4096 * plain / (2 * math.pi)
    kept = ((turns - 1) / (32 - 1)).clamp(0, 1)
    return plain * kept + plain / factor * (1 - kept)


def yarn(factor):
    """Return YaRN with so much of its attention factor (sglang#33558, vllm#46280)."""
    return lambda x, positions: rotate_by(x, positions[:, None] * yarn_frequencies(x.shape[-1]), factor)


def repeated_angles(x, positions):
    angles = (positions[:, None] * frequencies(x.shape[-1])).repeat_interleave(2, dim=-1)
    crossed = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * angles.cos() + crossed * angles.sin()


def halves_with_repeated_angles(x, positions):
    """Pair halves and repeat the table of angles for neighbors."""
    angles = (positions[:, None] * frequencies(x.shape[-1])).repeat_interleave(2, dim=-1)
    first, second = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()


def of_two_angles(x, positions):
    """Take the sines of all pairs but two from angles twice as large."""
    angles = positions[:, None] * frequencies(x.shape[-1])
    cos, sin = angles.cos(), (angles * torch.tensor([1.0] * 2 + [2.0] * 6)).sin()
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def without_minus(x, positions):
    """Add both sines, where one has to be subtracted."""
    angles = positions[:, None] * frequencies(x.shape[-1])
    first, second = x.chunk(2, -1)
    return torch.cat((first * angles.cos() + second * angles.sin(), second * angles.cos() + first * angles.sin()), -1)


def stretched(x, positions):
    """Double two channels."""
    return rotate(x, positions) * (1 + (torch.arange(64) % 32 == 4))


def negated(first, last):
    """Rotate 16 channels, and change the sign of some."""
    signs = torch.ones(16)
    signs[first:last] = -1.0
    return lambda x, positions: rotate(x, positions) * signs


def times(factor):
    return lambda x, positions: factor * rotate(x, positions)


def in_each_head(gains):
    return lambda x, positions: rotate(x, positions) * gains[:, None, None]


def part_and(rest):
    """Rotate half of the channels, and put `rest` behind them."""
    return lambda x, positions: torch.cat((rotate(x[..., :32], positions), rest(x)), -1)


NORMS = {
    "sound": (rotate, {}, "", ""),
    "sound, interleaved": (repeated_angles, {}, "", ""),
    "angles tiled for neighbors": (tiled_angles, {}, "layout-mixed", ""),
    "angles tiled for neighbors, fast": (lambda x, positions: tiled_angles(x, 3 * positions), {}, "layout-mixed", ""),
    "angles repeated for halves": (halves_with_repeated_angles, {}, "layout-mixed", ""),
    "one half of each pair longer": (
        lambda x, positions: rotate(x, positions) * torch.tensor([1.0, 1.2]).repeat_interleave(8),
        SMALL,
        "layout-mixed",
        "",
    ),
    "some pairs mirrored": (negated(8, 10), SMALL, "layout-mixed", ""),
    "all pairs mirrored": (negated(8, 16), SMALL, "not-a-rotation", ""),
    "without the minus": (without_minus, {}, "not-a-rotation", ""),
    "two channels doubled": (stretched, {}, "not-a-rotation", ""),
    "sines of other angles": (of_two_angles, SMALL, "not-a-rotation", ""),
    "longer from place to place": (
        lambda x, positions: x * (1 + positions[:, None] / 1000),
        SMALL,
        "not-a-rotation",
        "layout",
    ),
    "longer at every other place": (
        lambda x, positions: rotate(x, positions) * (1 + (2**0.5 - 1) * (positions[:, None] % 2)),
        SMALL,
        "not-a-rotation",
        "",
    ),
    "YaRN": (yarn(YARN_FACTOR), {}, "", ""),
    "YaRN's factor twice": (yarn(YARN_FACTOR**2), {}, "factor-twice", ""),
    "YaRN without its factor": (yarn(1.0), {}, "", ""),
    "YaRN and a factor of 2": (yarn(2.0), SMALL, "", "norm"),
    "a factor of 1.5": (times(1.5), SMALL, "", "norm"),
    "a factor of a half": (times(0.5), SMALL, "", "norm"),
    "other factors in heads": (in_each_head(torch.tensor([1.0, 1, 2])), SMALL, "", "linear"),
    "rising factors in heads": (in_each_head(1 + torch.arange(4)), {}, "", "linear"),
    "a little other factors in heads": (in_each_head(1 + torch.arange(3) / 50), SMALL, "", "linear"),
    "normalized": (
        lambda x, positions: rotate(F.normalize(x, dim=-1), positions),
        SMALL,
        "",
        "linear",
    ),
    "eight pairs padded with one": (lambda x, positions: padded(x, positions, 8), {}, "padded-with-one", "origin"),
    "eight pairs padded with zero": (lambda x, positions: padded(x, positions, 8, 0.0), {}, "", ""),
    "a pair padded with one": (padded, SMALL, "padded-with-one", "origin"),
    "a pair padded with two": (lambda x, positions: padded(x, positions, 1, 2.0), SMALL, "not-a-rotation", "origin"),
    "a pair padded with zero": (lambda x, positions: padded(x, positions, 1, 0.0), SMALL, "", ""),
    "the rest passes": (part_and(lambda x: x[..., 32:]), {"dim": 64}, "", ""),
    "the start for the rest": (part_and(lambda x: x[..., :-32]), {"dim": 64}, "width-wrong", ""),
    "wider, as in PoPE": (widened, SMALL, "", "norm"),
}


@pytest.mark.parametrize("name", NORMS)
def test_lengths_stay_the_same(name):
    patient, settings, wrong, notes = NORMS[name]
    assert_report(diagnose(patient, kind="rotation", **settings), wrong, notes)


NUMBERS = {
    "a factor of 1.5": 1.5,
    "a factor of a half": 0.5,
    "YaRN": YARN_FACTOR,
    "YaRN's factor twice": YARN_FACTOR**2,
    "YaRN and a factor of 2": 2.0,
    "sound": 1.0,
    "a pair padded with one": 2**0.5,
    "a pair padded with two": 5**0.5,
    "two channels doubled": 2.0,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_of_the_norm_is_the_factor_or_the_longest_channel(name):
    patient, settings, *_ = NORMS[name]
    report = diagnose(patient, kind="rotation", **settings)
    assert finding(report, "norm").number == pytest.approx(NUMBERS[name], rel=1e-3)


@pytest.mark.parametrize(("name", "channels"), [("two channels doubled", "4, 36"), ("a pair padded with one", "7, 15")])
def test_the_words_name_the_channels_that_change(name, channels):
    patient, settings, *_ = NORMS[name]
    assert channels in finding(diagnose(patient, kind="rotation", **settings), "norm").words


def test_the_missing_factor_of_yarn_is_named_where_its_frequencies_are_found():
    assert f"{YARN_FACTOR:.4f}" in finding(diagnose(yarn(1.0)), "frequencies").words


def test_an_attention_factor_is_measured():
    report = diagnose(posenc.RoPE(64, attention_factor=1.4852))
    assert_report(report, notes="norm")
    assert finding(report, "norm").number == pytest.approx(1.4852)


def test_pairs_that_are_no_rotation_have_no_direction_and_no_frequencies():
    checks = {each.check for each in diagnose(without_minus).findings}
    assert not checks & {"direction", "frequencies"}


# Queries and keys


def fade(power, alike=True):
    """Return a rotation whose pairs fade with their position as in xPos, by a power; or not alike in a pair."""

    def faded(x, positions):
        dim, rows = x.shape[-1], positions.reshape(-1, 1, x.shape[2], 1)
        scale = (torch.arange(0.4, 1.4, 2 / dim)[: dim // 2] / 1.4) ** (power * rows / 512)
        return rotate(x, positions) * (scale.repeat(1, 1, 1, 2) if alike else scale.repeat_interleave(2, -1))

    return faded


def in_waves(x, positions):
    """Lengthen every third position by a fiftieth more than the one before."""
    return rotate(x, positions) * (1 + 0.02 * (positions.reshape(-1, 1, x.shape[2], 1) % 3))


SIDES = {
    "xPos": (fade(1), fade(-1), "", "norm"),
    "xPos the other way": (fade(-1), fade(1), "", "norm"),
    "both fade": (fade(1), fade(1), "absolute", ""),
    "both grow": (fade(-1), fade(-1), "absolute", ""),
    "both in waves": (in_waves, in_waves, "not-a-rotation", ""),
    "pairs do not fade alike": (fade(1, alike=False), fade(1, alike=False), "layout-mixed", ""),
    "both doubled": (times(2), times(2), "", "norm"),
    "keys mirrored": (rotate, negated(8, 16), "not-a-rotation", ""),
    "keys stretched": (
        rotate,
        lambda x, positions: padded(x, positions, 1, 2.0),
        "not-a-rotation sides-differ",
        "",
    ),
    "queries stretched": (
        lambda x, positions: padded(x, positions, 1, 2.0),
        rotate,
        "not-a-rotation sides-differ",
        "origin",
    ),
    "channels of keys lost": (
        rotate,
        lambda x, positions: torch.where(torch.arange(16) % 8 < 6, rotate(x, positions), 0.0),
        "width-wrong",
        "",
    ),
    "keys wider": (rotate, widened, "width-wrong", ""),
    "both wider": (widened, widened, "", "norm"),
}


@pytest.mark.parametrize("name", SIDES)
def test_lengths_of_queries_and_keys_cancel(name):
    of_queries, of_keys, wrong, notes = SIDES[name]
    assert_report(diagnose(sides(of_queries, of_keys), kind="rotation", **SMALL), wrong, notes)


def test_a_scale_of_one_side_is_no_fault_while_the_other_is_not_seen():
    assert_report(diagnose(fade(1)), notes="norm")


def test_a_constant_factor_of_content_that_does_not_turn_is_noted():
    report = diagnose(lambda q, k: (2 * q, 2 * k))
    assert_report(report, "clipped", "norm layout")
    assert finding(report, "norm").number == pytest.approx(2.0)


def test_a_slow_rotation_keeps_its_lengths():
    assert_report(diagnose(rotate_slowly, kind="rotation", **SMALL))


def test_a_rotation_of_pairs_beside_each_other_keeps_its_lengths():
    assert_report(diagnose(rotate_interleaved, kind="rotation", **SMALL))
