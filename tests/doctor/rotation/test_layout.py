"""Which channels pair, in which sense they turn and from where on, alike for queries and keys."""

import pytest
import torch

import posenc
from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, note_ids
from tests.doctor.blocks import rotate, rotate_at_end, rotate_interleaved, rotate_pair
from tests.doctor.rotation.patients import SMALL, rotate_backwards, rotate_slowly, rotate_twice, sides

ORDER = torch.tensor([3, 0, 14, 7, 9, 1, 12, 5, 2, 15, 4, 11, 6, 13, 8, 10])


def in_other_pairs(x, positions):
    return rotate(x[..., ORDER], positions)[..., ORDER.argsort()]


def on_two_axes(x, positions):
    return torch.cat((rotate(x[..., :32], positions), rotate_interleaved(x[..., 32:], positions)), dim=-1)


def mixed_at_random(x, positions):
    """At each position but 0, apply one random rotation of all channels; and take no float64."""
    mixing = torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))[0]
    return torch.where(positions[:, None] == 0, x, x.float() @ mixing if x.dtype != torch.float64 else 1 / 0)


def one_pair(x, positions):
    return torch.cat((rotate(x[..., :2], positions), x[..., 2:]), dim=-1)


@pytest.mark.parametrize(
    ("patient", "settings", "wrong", "notes", "width"),
    [
        (rotate, {}, "", "", 64),
        (rotate_interleaved, {}, "", "", 64),
        (one_pair, {}, "", "frequencies", 2),
        (on_two_axes, {}, "", "layout", 64),
        (mixed_at_random, {}, "absolute clipped", "layout", None),
        (rotate_twice, SMALL, "absolute", "layout", None),
    ],
)
def test_the_pairs_of_channels_are_read(patient, settings, wrong, notes, width):
    report = diagnose(patient, kind="rotation", **settings)
    assert_report(report, wrong, notes)
    assert finding(report, "layout").number == width


@pytest.mark.parametrize(
    ("base", "layout", "width"), [(10_000.0, "half", 64), (500_000.0, "interleaved", 32), (1e6, "half", 16)]
)
def test_layout_width_and_base_are_read(base, layout, width):
    report = diagnose(posenc.RoPE(64, base=base, layout=layout, rotary_dim=width))
    assert finding(report, "layout").words.startswith(layout)
    assert finding(report, "layout").number == width
    assert finding(report, "frequencies").number == pytest.approx(base)


# Queries and keys


def moved(by):
    """Return a rotation that counts from elsewhere."""
    return lambda x, positions: rotate(x, positions + by)


def faster(times):
    return lambda x, positions: rotate(x, times * positions)


SIDES = {
    "alike": (rotate, rotate, "", ""),
    "in neighbors": (rotate_interleaved, rotate_interleaved, "", ""),
    "in other pairs": (in_other_pairs, in_other_pairs, "", "layout frequencies"),
    "keys in other pairs": (rotate, in_other_pairs, "sides-differ", ""),
    "keys in neighbors": (rotate, rotate_interleaved, "sides-differ", ""),
    "keys mixed": (rotate, rotate_twice, "sides-differ", ""),
    "queries alone": (rotate, lambda x, positions: 1.0 * x, "one-side", ""),
    "keys alone": (lambda x, positions: x, rotate, "clipped one-side", ""),
    "queries twice as fast": (faster(2), rotate, "exponent-rising sides-differ", ""),
    "queries a hundredth faster": (faster(1.01), rotate, "exponent-rising sides-differ", ""),
    "keys of another base": (
        rotate_interleaved,
        lambda x, p: rotate_interleaved(x, p, 500_000.0),
        "sides-differ",
        "",
    ),
    "half as many channels of keys": (
        rotate_interleaved,
        lambda x, p: torch.cat((rotate_interleaved(x[..., :8], p), x[..., 8:]), dim=-1),
        "sides-differ",
        "",
    ),
    "keys backwards": (rotate, rotate_backwards, "opposite", ""),
    "both backwards": (rotate_backwards, rotate_backwards, "", "direction"),
    "both from 3": (moved(3), moved(3), "", "origin"),
    "both from a half": (moved(0.5), moved(0.5), "", "origin"),
    "keys from 1": (rotate, moved(1), "sides-differ", ""),
    "queries from 1": (moved(1), rotate, "sides-differ", "origin"),
    "queries from 0.01": (moved(0.01), rotate, "sides-differ", "origin"),
    "queries from 0.0001": (moved(1e-4), rotate, "", ""),
    "keys of every other token": (rotate, lambda x, p: rotate(x, p // 2 * 2), "sides-differ", ""),
}


@pytest.mark.parametrize("name", SIDES)
def test_queries_and_keys_are_turned_alike(name):
    of_queries, of_keys, wrong, notes = SIDES[name]
    assert_report(diagnose(sides(of_queries, of_keys), kind="rotation", **SMALL), wrong, notes)


def queries_for_both(q, k, positions):
    """Return the queries for keys, too."""
    return (rotate(q, positions),) * 2


def keys_for_both(q, k, positions):
    """Return the keys for queries, too."""
    return (rotate(k, positions),) * 2


def exchanged(q, k, positions):
    """Return the keys first."""
    return rotate_pair(k, q, positions)


@pytest.mark.parametrize("settings", [{}, SMALL], ids=["64 channels", "16 channels"])
@pytest.mark.parametrize(
    ("patient", "wrong"),
    [(rotate_pair, ""), (queries_for_both, "one-for-both"), (keys_for_both, "one-for-both"), (exchanged, "swapped")],
)
def test_queries_and_keys_come_out_of_their_own_content(patient, wrong, settings):
    assert_report(diagnose(patient, kind="rotation", **settings), wrong)


# Where position 0 stands


def from_position(start):
    return lambda x, positions: rotate_interleaved(x, positions + start)


@pytest.mark.parametrize(("shift", "place"), [(1, 1), (-1, -1), (8, 8), (9, None), (0.1, None)])
def test_a_rotation_that_counts_from_elsewhere_is_noted(shift, place):
    report = diagnose(from_position(shift), kind="rotation", dim=10, heads=3)
    assert_report(report, notes="origin")
    assert finding(report, "origin").number == place


def test_a_start_of_a_rounding_is_none():
    report = diagnose(from_position(1e-4), kind="rotation", dim=10, heads=3)
    assert_report(report)
    assert "origin" not in note_ids(report)


# Along which axis


def along_heads(x):
    """Turn from head to head, and not from token to token."""
    return rotate(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)


def slowly_along_heads(x):
    """Turn a little from head to head, and not from token to token."""
    return rotate_slowly(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)


def slowly_along_texts(x):
    """Turn a little from text to text, and not from token to token."""
    return rotate_slowly(x.transpose(0, 2), torch.arange(x.shape[0])).transpose(0, 2)


def tokens_first(x):
    """Take (t, b, h, d)."""
    return rotate(x.permute(1, 2, 0, 3), torch.arange(x.shape[0])).permute(2, 0, 1, 3)


@pytest.mark.parametrize(
    ("patient", "settings", "wrong"),
    [
        (along_heads, {"order": "bhtd"}, "heads-axis"),
        (slowly_along_heads, {"order": "bhtd", "dim": 10, "heads": 3}, "heads-axis"),
        (slowly_along_texts, {"order": "bhtd", "dim": 10, "heads": 3}, "batch-axis"),
        (tokens_first, {}, "batch-axis"),
        (tokens_first, {"order": "tbhd"}, ""),
    ],
)
def test_a_rotation_runs_along_the_tokens(patient, settings, wrong):
    assert_report(diagnose(patient, kind="rotation", **settings), wrong)


# One side that stays behind


def from_offset(x, offset):
    return rotate(x, offset + torch.arange(x.shape[2]))


def keys_left_behind(q, k, offset=0):
    """Count keys from 0 in each call."""
    return from_offset(q, offset), from_offset(k, 0)


def queries_left_behind(q, k, offset=0):
    """Count queries from 0 in each call."""
    return from_offset(q, 0), from_offset(k, offset)


def from_the_start(q, k):
    """Turn the last queries as the first ones."""
    return rotate(q, torch.arange(q.shape[2])), rotate(k, torch.arange(k.shape[2]))


def under_tables(part):
    """Return code that is given cos and sin, and takes a part of them for queries."""

    def turn(x, cos, sin, part):
        half = x.shape[-1] // 2
        crossed = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * part(x, cos) + crossed * part(x, sin)

    return lambda q, k, cos, sin: (turn(q, cos, sin, part), turn(k, cos, sin, first_rows))


def first_rows(x, table):
    return table[: x.shape[-2]].to(x.dtype)


def last_rows(x, table):
    return table[-x.shape[-2] :].to(x.dtype)


BEHIND = {
    "sound": (rotate_at_end, "", ""),
    "keys from 0 in each call": (keys_left_behind, "sides-differ", "decoding"),
    "queries from 0 in each call": (queries_left_behind, "offset-ignored sides-differ wrapped", "decoding"),
    "last queries as the first": (from_the_start, "offset-ignored", ""),
    "last rows of a table": (under_tables(last_rows), "", ""),
    "first rows of a table": (under_tables(first_rows), "offset-ignored", ""),
}


@pytest.mark.parametrize("name", BEHIND)
def test_queries_stand_at_the_end_of_the_keys(name):
    patient, wrong, notes = BEHIND[name]
    assert_report(diagnose(patient, dim=64), wrong, notes)
