"""Patients of the doctor that turn and differ a little from what is sound, each by one slight fault, and sound ones."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, neighbors, rotation, thetas, told, turned

ARANGE = torch.arange


def places_of(x, offset=0):
    return offset + ARANGE(x.shape[2])


def slowly(x, positions):
    """No pair turns by more than a fiftieth a token, so that results differ by less than their size."""
    return turned(x, positions[..., None] * thetas(x.shape[-1]) / 50)


# Positions, told in each way


def grows_with_the_call(x, offset=0):
    return rotation(x, places_of(x, offset)) * (1 + x.shape[2] / 10_000)


def counts_a_token_from_0(x, positions):
    return slowly(x, positions - positions[0] * (len(positions) < 3))


def of_the_first_row(x, positions):
    return turned(x, (positions.reshape(-1, x.shape[2])[:1, :, None] * thetas(x.shape[-1]) / 50)[:, None])


def of_rows(x, positions):
    return turned(x, (positions.reshape(-1, x.shape[2])[..., None] * thetas(x.shape[-1]))[:, None])


def slower_by_a_hundredth(x, positions):
    return rotation(x, positions * (1 - 0.01 * (positions.max() > 5000)))


def of_short_texts(x, positions):
    if x.shape[2] > 5000:
        raise ValueError("too many tokens")
    return rotation(x, positions)


class Late(nn.Module):
    """Keeps the furthest start."""

    start = 0

    def forward(self, x, offset=0):
        self.start = max(self.start, offset)
        return turned(x, places_of(x, self.start)[:, None] * thetas(x.shape[-1]) / 50_000)


class Coarse(nn.Module):
    """Keeps its cosines and sines in the dtype of the first call, or of each."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.dtype = kept, None

    def forward(self, x, positions):
        self.dtype = (self.kept and self.dtype) or x.dtype
        angle = positions[:, None] * thetas(x.shape[-1])
        cos, sin = (part.to(self.dtype).to(x.dtype) for part in (angle.cos(), angle.sin()))
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


CALLS = {
    "grows with the call, by offsets": (grows_with_the_call, set(), "a token alone grows otherwise"),
    "a token alone from 0": (counts_a_token_from_0, {"offset-ignored"}, ""),
    "rows": (of_rows, set(), ""),
    "rows of the first": (of_the_first_row, {"rows-mixed"}, ""),
    "rows of the first, for keys": (
        lambda q, k, positions: (of_rows(q, positions), of_rows(k, positions.reshape(-1, k.shape[2])[:1])),
        {"rows-mixed"},
        "",
    ),
    "slower in long texts": (slower_by_a_hundredth, {"length-dependent"}, ""),
    "of short texts": (of_short_texts, set(), "tokens raise ValueError"),
    "a start that stays": (Late(), {"cache-stale"}, ""),
    "a dtype that stays": (Coarse(kept=True), {"cache-stale"}, "keeps the dtype"),
    "a dtype of each call": (Coarse(kept=False), set(), ""),
    "heads": (
        lambda x, positions: rotation(x, positions) * (1 + ARANGE(x.shape[1]) / 50)[:, None, None],
        set(),
        "heads differ",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_differ_a_little(name):
    function, found, said = CALLS[name]
    report = diagnose(function, kind="rotation", dim=10, heads=3)
    assert found <= ids(report), str(report)
    assert report.healthy or found
    assert said in told(report)


# How far positions go


def behind(most, x, positions):
    return rotation(x, positions.clamp(max=most))


ENDS = {
    "clipped": (lambda x, positions: behind(30_000, x, positions), "clipped", "behind position 30,000"),
    "clipped far out": (lambda x, offset=0: behind(600_000, x, places_of(x, offset)), "clipped", "600,000"),
    "clipped, of a length": (lambda x: behind(40_000, x, places_of(x)), "clipped", "behind position 40,000"),
    "clipped soon": (lambda x, positions: behind(11, x, positions), "clipped", "behind position 11"),
    "wrapped": (lambda x, positions: rotation(x, positions % 2500), "wrapped", "position 2,500 is turned"),
    "in steps": (lambda x, positions: rotation(x, positions - (positions > 2000) * (positions % 2)), "", "turn alike"),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_positions(name):
    function, cause, said = ENDS[name]
    report = diagnose(function, kind="rotation", dim=6, heads=2)
    assert (cause or "positions-rounded") in ids(report), str(report)
    assert said in told(report)


# Queries beside keys


def scaled(x, positions, power, alike=True):
    """Pairs fade as in xPos, slowly; or the two of a pair do not fade alike."""
    rows = positions.reshape(-1, 1, x.shape[2], 1)
    scale = (0.5 + ARANGE(x.shape[-1] // 2) / x.shape[-1]) ** (power * rows / 500)
    return rotation(x, positions) * (torch.cat((scale, scale), -1) if alike else scale.repeat_interleave(2, -1))


def in_waves(x, positions):
    return rotation(x, positions) * (1 + 0.02 * (positions.reshape(-1, 1, x.shape[2], 1) % 3))


def by_halves(x, positions):
    return rotation((x + x.detach()) / 2, positions)


SIDES = {
    "xPos": (lambda x, p: scaled(x, p, 1), lambda x, p: scaled(x, p, -1), ""),
    "xPos the other way": (lambda x, p: scaled(x, p, -1), lambda x, p: scaled(x, p, 1), ""),
    "both fade": (*[lambda x, p: scaled(x, p, 1)] * 2, "absolute"),
    "both grow": (*[lambda x, p: scaled(x, p, -1)] * 2, "absolute"),
    "both in waves": (*[in_waves] * 2, "not-a-rotation"),
    "pairs do not fade alike": (*[lambda x, p: scaled(x, p, 1, alike=False)] * 2, "layout-mixed"),
    "speeds": (lambda x, p: rotation(x, 1.01 * p), rotation, "sides-differ"),
    "starts": (lambda x, p: rotation(x, p + 0.01), rotation, "sides-differ"),
    "a hair": (lambda x, p: rotation(x, p + 1e-4), rotation, ""),
    "keys without gradients": (rotation, lambda x, p: rotation(x.detach(), p), "no-gradient"),
    "keys with half": (rotation, by_halves, "gradient-wrong"),
    "keys in place": (lambda x, p: x.copy_(rotation(x, p)), rotation, "in-place"),
    "exchanged": (rotation, rotation, "swapped"),
    "queries twice": (rotation, rotation, "one-for-both"),
}


@pytest.mark.parametrize("name", SIDES)
def test_sides_that_differ_a_little(name):
    of_q, of_k, cause = SIDES[name]

    def turn(q, k, positions):
        made = of_q(q, positions), of_k(k, positions)
        return made[::-1] if name == "exchanged" else made[:1] * 2 if name == "queries twice" else made

    report = diagnose(turn, kind="rotation", dim=12, heads=2)
    assert (cause in ids(report)) if cause else report.healthy, str(report)


@pytest.mark.parametrize(
    ("shift", "said"),
    [(-1, "as position -1 should"), (8, "as position 8 should"), (9, "turned too"), (0.1, "turned too"), (1e-4, "")],
)
def test_where_position_0_stands(shift, said):
    report = diagnose(lambda x, positions: neighbors(x, positions + shift), kind="rotation", dim=10, heads=3)
    assert report.healthy, str(report)
    assert said in told(report)
    assert bool(said) == ("origin" in {finding.check for finding in report.findings})


def along_heads(x):
    """Turns a little from head to head, and not at all from token to token."""
    return slowly(x.transpose(1, 2), ARANGE(x.shape[1])).transpose(1, 2)


def along_texts(x):
    return slowly(x.transpose(0, 2), ARANGE(x.shape[0])).transpose(0, 2)


@pytest.mark.parametrize(("function", "cause"), [(along_heads, "heads-axis"), (along_texts, "batch-axis")])
def test_what_turns_along_another_axis(function, cause):
    assert ids(diagnose(function, kind="rotation", dim=10, heads=3, order="bhtd")) == {cause}


# Grids


class OnGrid(nn.Module):
    """Queries and keys of a picture of 16 tokens, by rows of so many; or a line; a token of the class before it."""

    def __init__(self, of_queries, of_keys, first=False, line=False, corner=0):
        super().__init__()
        self.angles = [self.of(columns, first, line, corner) for columns in (of_queries, of_keys)]

    def of(self, columns, first, line, corner):
        tokens, speeds = ARANGE(16)[:, None], thetas(6, 100.0)
        angle = torch.cat(((tokens // columns + corner) * speeds, (tokens % columns + corner) * speeds), -1)
        angle = tokens * thetas(12) if line else angle
        return torch.cat((torch.zeros(1, 6), angle)) if first else angle

    def forward(self, q, k):
        return tuple(turned(x, angle) for x, angle in zip((q, k), self.angles, strict=True))


@pytest.mark.parametrize(
    ("columns", "given", "found"),
    [
        ((4, 4), {}, set()),
        ((4, 4), {"corner": 1}, set()),
        ((4, 8), {}, {"absolute"}),
        ((2, 8), {}, {"absolute"}),
        ((2, 2), {"first": True}, set()),
        ((4, 4), {"first": True, "line": True}, set()),
    ],
)
def test_queries_and_keys_on_grids(columns, given, found):
    report = diagnose(OnGrid(*columns, **given), kind="rotation", dim=12, heads=2)
    assert ids(report) == found, str(report)


def counted(x, positions, weight=0.02):
    """Turns by one number, into which positions of three numbers are counted, two of them lightly."""
    first, second, third = positions if positions.ndim == 3 else (0, 0, positions.expand(len(x), -1))
    return turned(x, ((weight * first + weight * second + third)[..., None] * thetas(x.shape[-1]))[:, None])


@pytest.mark.parametrize("weight", [0.02, 0.3])
def test_three_numbers_that_make_one(weight):
    report = diagnose(lambda x, positions: counted(x, positions, weight), kind="rotation", dim=12, heads=2)
    assert report.healthy, str(report)
    assert "axes" not in told(report)
