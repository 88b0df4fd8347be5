"""Tables that are a little otherwise: as little as may be before it is wrong, or just so much that it is."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.cases import ids as causes
from tests.doctor.cases import noise
from tests.doctor.test_table_patients import speeds, waves
from tests.doctor.test_tables_of_pictures import cells


def of_width(x, dim=64):
    """Return how many tokens there are; refuse another width."""
    if x.shape[-1] != dim:
        raise ValueError("another width")
    return x.shape[1]


@pytest.mark.parametrize("given", [False, True])
def test_axes_that_are_exchanged_with_positions_alone_or_without(given):
    def adds(x, positions=None):
        made = x + waves(torch.arange(of_width(x)) if positions is None else positions, 64)
        return made.transpose(0, 1) if (positions is not None) == given else made

    assert causes(diagnose(adds)) == {"batch-axis"}, str(diagnose(adds))


def test_a_table_of_one_channel():
    rows = noise(300, 1)
    report = diagnose(lambda positions: rows[positions], dim=1)
    assert report.healthy, str(report)


def test_small_rows_behind_that_of_a_padding():
    rows = 0.02 * noise(600, 64)
    rows[0] = 0
    report = diagnose(lambda positions: rows[positions])
    assert report.healthy, str(report)


def test_the_digits_of_positions():
    report = diagnose(lambda positions, dim: ((positions[:, None] >> torch.arange(dim)) % 2).float(), dim=18)
    assert report.healthy, str(report)


@pytest.mark.parametrize(("slow", "found"), [(0.001, set()), (0.1, {"buffers-rounded"})])
def test_speeds_that_are_rounded_with_their_module(slow, found):
    class Rows(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("speeds", slow * speeds(64))

        def forward(self, length):
            angle = torch.arange(length)[:, None] * self.speeds
            return torch.cat((angle.sin(), angle.cos()), -1)

    assert causes(diagnose(Rows(), kind="table")) == found, str(diagnose(Rows(), kind="table"))


@pytest.mark.parametrize(("slow", "found"), [(0.001, set()), (0.1, {"angles-rounded", "positions-rounded"})])
def test_angles_in_the_dtype_of_embeddings(slow, found):
    class Adds(nn.Module):
        def forward(self, x):
            angle = (torch.arange(of_width(x))[:, None] * (slow * speeds(64))).to(x.dtype)
            return x + torch.cat((angle.sin(), angle.cos()), -1)

    report = diagnose(Adds())
    assert not causes(report) - found, str(report)
    assert bool(causes(report)) == bool(found), str(report)


class Tiled(nn.Module):
    """Learned rows, found by what of the positions is told."""

    def __init__(self, place):
        super().__init__()
        self.place, self.rows = place, nn.Parameter(noise(600, 64))

    def forward(self, positions):
        return self.rows[self.place(positions)]


@pytest.mark.parametrize(
    ("place", "found"),
    [
        (lambda at: at % 7, {"axis-lost"}),
        (lambda at: at // 7, {"axis-lost"}),
        (lambda at: (at - 1).clamp(min=0), {"rows-alike"}),
        (lambda at: at - (at > 280).long(), {"positions-rounded"}),
        (lambda at: at - (at > 280).long() - (at > 290).long(), {"positions-rounded"}),
        (lambda at: at - (at > 250).long(), {"rows-alike"}),
    ],
)
def test_learned_rows_that_are_used_twice(place, found):
    report = diagnose(Tiled(place))
    assert causes(report) & {"axis-lost", "rows-alike", "positions-rounded"} == found, str(report)


@pytest.mark.parametrize("by", [0, 1])
def test_rows_of_a_neighbor_for_each_text(by):
    def table(positions):
        off = torch.arange(len(positions))[:, None] * by if positions.ndim == 2 else 0
        return waves((positions + off) / 20, 64)

    assert causes(diagnose(table)) == ({"rows-mixed"} if by else set()), str(diagnose(table))


@pytest.mark.parametrize(
    ("otherwise", "words"),
    [
        (lambda x: 1.01 * x, "multiplied by 1.01"),
        (lambda x: x + 0.02 * x.abs(), "come through unchanged"),
        (lambda x: 0.01 * x, "multiplied by 0.01"),
    ],
)
def test_embeddings_that_are_a_little_otherwise(otherwise, words):
    report = diagnose(lambda x: otherwise(x) + waves(torch.arange(of_width(x)), 64))
    assert not causes(report), str(report)
    assert words in report.finding("content").words


@pytest.mark.parametrize(("more", "found"), [(1e-8, set()), (1e-4, {"length-dependent"})])
def test_angles_that_depend_a_little_on_the_length(more, found):
    report = diagnose(lambda length, dim: waves(torch.arange(length) * (1 - more * length), dim))
    assert causes(report) == found, str(report)


@pytest.mark.parametrize("seven", [6.5, 6.999, 7])
def test_angles_that_grow_otherwise_once(seven):
    places = torch.tensor([0, 1, 2, 3, 4, 5, 6, seven, *range(8, 300)])
    report = diagnose(lambda positions: waves(places[positions], 64))
    assert causes(report) == ({"not-linear-in-position"} if seven == 6.5 else set()), str(report)


@pytest.mark.parametrize(("size", "found"), [(0.99, "note"), (1.0005, "ok")])
def test_waves_that_run_not_quite_to_one(size, found):
    report = diagnose(lambda length, dim: size * waves(torch.arange(length), dim))
    assert report.healthy, str(report)
    assert [finding.check for finding in report.findings if finding.check == "size"] == ["size"] * (found == "note")


@pytest.mark.parametrize("base", [98.0, 100.0, 1e7, 1e8])
def test_bases_that_are_nearly_the_root_or_the_square(base):
    report = diagnose(lambda length, dim: waves(torch.arange(length), dim, base))
    due = {100.0: {"exponent-halved"}, 1e8: {"exponent-doubled"}}.get(base, set())
    assert causes(report) == due, str(report)


@pytest.mark.parametrize("turn", [0.0, 0.5])
def test_waves_in_an_order_of_their_own(turn):
    """Speeds drawn at random, and each channel a wave with a start of its own, as random features have: no bug."""
    fast = torch.rand(64, generator=torch.Generator().manual_seed(0)) * 3
    start = turn + noise(64)
    report = diagnose(lambda length, dim: (torch.arange(length)[:, None] * fast + start).cos(), dim=64)
    assert report.healthy, str(report)


@pytest.mark.parametrize("dim", [6, 10, 34])
@pytest.mark.parametrize("base", [10_000.0, 2_000.0])
def test_speeds_spread_to_the_end(dim, base):
    """As in tensor2tensor: the last speed is 1 over the base that is told."""

    def table(length, dim, base=base):
        angle = torch.arange(length)[:, None] * base ** -torch.linspace(0, 1, dim // 2)
        return torch.cat((angle.sin(), angle.cos()), -1)

    report = diagnose(table, dim=dim)
    assert report.healthy, str(report)
    assert "tensor2tensor" in report.finding("speeds").words


# Pictures


def test_a_picture_whose_channels_come_last():
    """Any width is taken, so a picture with channels first would get rows for its channels."""

    def adds(x):
        half = x.shape[-1] // 2
        made = [waves(axis, half + half % 2, 50.0)[..., :half] for axis in cells(*x.shape[1:3])]
        return x + torch.cat(made, -1)

    report = diagnose(adds)
    assert report.healthy, str(report)
    assert "a picture (b, h, w, d)" in report.examined["grid"]


@pytest.mark.parametrize("scaled", [0, 1])
def test_one_axis_alone_that_is_a_fraction(scaled):
    def table(dim, height, width):
        places = [*cells(height, width)]
        places[scaled] = places[scaled] / (height, width)[scaled] * 2
        return torch.cat([waves(place, dim // 2, 50.0) for place in places], -1)

    report = diagnose(table)
    assert report.healthy, str(report)
    assert report.finding("other sizes").verdict == "note"


def test_learned_rows_for_each_cell_and_a_class_token():
    rows = noise(1, 26, 64)

    def adds(x):
        if x.shape[1:] != (25, 64):
            raise ValueError("5 by 5 cells, please")
        return rows

    report = diagnose(adds, kind="table")
    assert "tokens of 5 by 5 cells" in report.examined["grid"]
    assert report.healthy, str(report)
