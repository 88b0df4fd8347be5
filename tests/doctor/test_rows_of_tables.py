"""Rows of a table: the order of their waves, how speeds fall, and which of them are alike."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.cases import ids as causes
from tests.doctor.cases import noise
from tests.doctor.test_table_patients import speeds, waves


def said(report, id):
    return next(finding.words for finding in report.findings if finding.id == id)


def paper(positions, dim, base=10_000.0):
    """Return sine and cosine beside each other."""
    angle = positions[..., None] * speeds(dim, base)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)


def shuffled(made):
    return made[:, torch.randperm(made.shape[1], generator=torch.Generator().manual_seed(1))]


def half_written(made):
    made[:, 1::2] = 0
    return made


def no_sines(made):
    made[:, 0::2] = 0
    return made


def kept_apart(made):
    """Sines before cosines, and rows of the width cut from them: two positions of sines in one row."""
    return torch.cat((made[:, 0::2], made[:, 1::2])).view(made.shape)[: len(made) // 2]


def every_channel(made):
    """Even channels sines, odd ones cosines, each with a speed of its own: 10,000^(-i/d)."""
    dim = made.shape[1]
    channel = torch.arange(dim)
    angle = (torch.arange(len(made)) + 3)[:, None] * 10_000.0 ** (-channel / dim)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos())


@pytest.mark.parametrize(
    ("spoil", "cause", "words"),
    [
        (shuffled, "order-broken", "nor in two halves"),
        (half_written, "order-broken", "sines and 0 cosines"),
        (lambda made: made[:, 1::2].repeat(1, 2), "order-broken", "hold the same"),
        (no_sines, "order-broken", "sines are 0 in every row"),
        (every_channel, "crossed", "every channel has a speed of its own"),
        (lambda made: made / made.shape[1], "scale-twice", "divided by the width"),
    ],
)
@pytest.mark.parametrize("dim", [32, 64])
def test_waves_that_are_spoilt(spoil, cause, words, dim):
    report = diagnose(lambda length, dim: spoil(paper(torch.arange(length), dim)), dim=dim)
    assert causes(report) == {cause}, str(report)
    assert words in said(report, cause)


@pytest.mark.parametrize("base", [2.0, 10_000.0])
def test_two_positions_of_sines_in_a_row(base):
    rows = kept_apart(paper(torch.arange(1000), 64, base))
    report = diagnose(lambda positions: rows[positions])
    assert causes(report) == {"order-broken"}, str(report)
    assert "share a speed" in said(report, "order-broken")


@pytest.mark.parametrize("start", [1, 8, 9, 100])
def test_a_table_that_begins_later(start):
    report = diagnose(lambda length, dim: waves(torch.arange(length) + start, dim))
    assert not causes(report), str(report)
    words = f"that of position {start}, not 0" if start <= 8 else "row 0 is not 0 in sines"
    assert any(words in finding.words for finding in report.findings)


@pytest.mark.parametrize("base", [100.0, 10_000.0, 1e6])
@pytest.mark.parametrize("dim", [2, 4, 8, 10, 12])
def test_waves_of_few_channels(dim, base):
    report = diagnose(lambda length, dim: paper(torch.arange(length), dim, base), dim=dim)
    assert causes(report) == ({"exponent-halved"} if base == 100 and dim > 2 else set()), str(report)


@pytest.mark.parametrize("base", [100.0, 1e8])
def test_a_base_that_is_told_is_no_root_and_no_square(base):
    def table(length, dim, base=base):
        return waves(torch.arange(length), dim, base)

    assert diagnose(table).healthy, str(diagnose(table))


@pytest.mark.parametrize("left_out", [False, True])
def test_a_row_of_zeros_before_all_others(left_out):
    def table(length, dim):
        at = torch.arange(length)
        return waves((at - int(left_out)).clamp(min=0), dim) * (at > 0)[:, None]

    report = diagnose(table)
    assert causes(report) == ({"positions-shifted"} if left_out else set()), str(report)
    assert "zeros, as of a padding" in report.finding("first row").words


@pytest.mark.parametrize("parts", [1, 2])
def test_a_table_among_several(parts):
    def table(length, dim):
        return (waves(torch.arange(length), dim),) * parts

    if parts == 1:
        assert diagnose(table, kind="table").healthy
    else:
        with pytest.raises(ValueError, match="2 of one shape: cosines and sines"):
            diagnose(table, kind="table")


def test_a_table_of_plain_angles():
    report = diagnose(lambda length, dim: (torch.arange(length)[:, None] * speeds(dim)).repeat(1, 2), kind="table")
    assert not causes(report), str(report)


@pytest.mark.parametrize(("exponent", "words"), [(1, "belong to one angle"), (4, "belong to one angle"), (-2, "")])
def test_cosines_of_other_speeds(exponent, words):
    def table(length, dim):
        of = [10_000.0 ** (-torch.arange(dim // 2) * times / dim) for times in (2, exponent)]
        sine, cosine = (torch.arange(length)[:, None] * each for each in of)
        return torch.cat((sine.sin(), cosine.cos()), -1)

    report = diagnose(table)
    assert causes(report) == {"crossed"}, str(report)
    assert words in said(report, "crossed")


@pytest.mark.parametrize(
    ("exponent", "cause"),
    [
        (lambda i, dim: 4 * i / dim, "exponent-doubled"),
        (lambda i, dim: i / dim, "exponent-halved"),
        (lambda i, dim: 2 * (i + 1) / dim, "exponent-shifted"),
        (lambda i, dim: 0 * i, "exponent-flat"),
        (lambda i, dim: (2 * i / dim) * (i > dim // 4), "exponent-flat"),
        (lambda i, dim: -2 * i / dim / 4, "exponent-rising"),
    ],
)
@pytest.mark.parametrize("base", [10_000.0, 600.0])
def test_exponents_of_a_base_that_is_told(exponent, cause, base):
    def table(length, dim, base=base):
        angle = torch.arange(length)[:, None] * base ** -exponent(torch.arange(dim // 2), dim)
        return torch.cat((angle.sin(), angle.cos()), -1)

    assert causes(diagnose(table)) - {"base-ignored"} == {cause}, str(diagnose(table))


def test_angles_that_do_not_grow_with_the_position():
    report = diagnose(lambda length, dim: waves(torch.log2(torch.arange(float(length)) + 1), dim))
    assert causes(report) == {"not-linear-in-position"}, str(report)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_table_that_is_multiplied(factor):
    report = diagnose(lambda length, dim: factor * waves(torch.arange(length), dim))
    assert not causes(report), str(report)
    assert f"multiplied by {factor:g}" in report.finding("size").words


# Rows


@pytest.mark.parametrize(("first", "second"), [(3, 7), (7, 8), (260, 270)])
def test_two_rows_that_are_alike(first, second):
    rows = noise(300, 64)
    rows[second] = rows[first]
    report = diagnose(lambda positions: rows[positions])
    assert causes(report) == {"rows-alike"}
    assert f"positions {first} and {second} have" in report.finding("rows").words


@pytest.mark.parametrize("period", [2, 8])
def test_rows_that_repeat(period):
    report = diagnose(lambda positions, dim: waves(positions % period, dim))
    assert report.finding("rows").words.startswith(f"rows repeat every {period} positions: right only")


@pytest.mark.parametrize("times", [0.25, 0.5])
def test_positions_that_are_multiplied(times):
    report = diagnose(lambda length, dim: waves(torch.arange(length) * times, dim))
    assert f"positions are multiplied by {times:.3g}" in report.finding("speeds").words


def test_a_base_that_is_refused():
    def table(length, dim, base=10_000.0):
        if base < 1000:
            raise ValueError("the base is too small")
        return waves(torch.arange(length), dim, base)

    report = diagnose(table)
    assert report.healthy
    assert report.finding("base").verdict == "not checked"
