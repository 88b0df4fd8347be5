"""Tables with one thing wrong, and the same without: volumes, masks of padding, token ids, points, streams."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.cases import ids as causes


def speeds(dim, base=10_000.0):
    return base ** (-torch.arange(0, dim, 2) / dim)


def waves(positions, dim, base=10_000.0):
    angle = positions[..., None] * speeds(dim, base)
    return torch.cat((angle.sin(), angle.cos()), -1)


def volume(grid_size, dim, order=(0, 1, 2), lost=False):
    axes = torch.meshgrid(*(torch.arange(float(grid_size[axis])) for axis in order), indexing="ij")
    axes = [axes[order.index(axis)] for axis in range(3)]
    return torch.cat([waves(axes[0 if lost else axis].flatten(), dim // 3) for axis in range(3)], -1)


def test_a_table_of_a_volume():
    report = diagnose(lambda grid_size, dim: volume(grid_size, dim), dim=96)
    assert report.healthy, str(report)
    assert "a grid of 3 by 4 by 6" in report.examined["grid"]
    assert causes(diagnose(lambda grid_size, dim: volume(grid_size, dim, (2, 1, 0)), dim=96)) == {"axes-swapped"}
    assert causes(diagnose(lambda grid_size, dim: volume(grid_size, dim, lost=True), dim=96)) == {"axis-lost"}


class Padded(nn.Module):
    """Cells counted where a mask (b, h, w) is true, as parts of what is seen, as in DETR."""

    def __init__(self, heeds=True, floored=True, exchanged=False):
        super().__init__()
        self.heeds, self.floored, self.exchanged = heeds, floored, exchanged

    def forward(self, mask):
        seen = mask.bool() if self.heeds else torch.ones_like(mask, dtype=torch.bool)
        parts = []
        for axis in (1, 2):
            count = seen.cumsum(axis).float()
            part = count / (count.narrow(axis, count.shape[axis] - 1, 1) + 1e-6) * 6
            channel = torch.arange(32)
            angle = part[..., None] / 10_000 ** (2 * (channel // 2 if self.floored else channel / 2) / 32)
            parts.append(torch.stack((angle[..., ::2].sin(), angle[..., 1::2].cos()), -1).flatten(-2))
        made = torch.cat(parts, -1).permute(0, 3, 1, 2)
        return made.transpose(2, 3) if self.exchanged else made


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, set()),
        ({"heeds": False}, {"padding-counted"}),
        ({"floored": False}, {"crossed"}),
        ({"exchanged": True}, {"axes-swapped"}),
    ],
)
def test_a_picture_with_a_mask(settings, found):
    report = diagnose(Padded(**settings))
    assert causes(report) == found, str(report)


@pytest.mark.parametrize("side", ["height", "width"])
def test_points_divided_by_the_sides_of_the_picture(side):
    torch.manual_seed(0)
    directions = torch.randn(2, 32)

    def encode(coords, image_size):
        """Points (b, n, 2), the column first."""
        height, width = image_size
        sides = torch.tensor([width, height if side == "height" else width])
        angle = ((coords + 0.5) / sides) @ directions
        return torch.cat((angle.sin(), angle.cos()), -1)

    report = diagnose(encode)
    assert causes(report) == ({"axes-swapped"} if side == "width" else set()), str(report)


class Words(nn.Module):
    """Words and learned positions that do not count padding, as in RoBERTa."""

    def __init__(self, counts_padding=False, loses_words=False):
        super().__init__()
        torch.manual_seed(0)
        self.word_embeddings, self.positions = nn.Embedding(50, 64, 1), nn.Embedding(70, 64, 1)
        self.padding_idx, self.counts_padding, self.loses_words = 1, counts_padding, loses_words

    def forward(self, input_ids, past_length=0):
        seen = torch.ones_like(input_ids) if self.counts_padding else input_ids.ne(self.padding_idx).long()
        table = self.positions((seen.cumsum(1) + past_length) * seen + self.padding_idx)
        return table if self.loses_words else self.word_embeddings(input_ids) + table


@pytest.mark.parametrize(
    ("settings", "found"),
    [({}, set()), ({"counts_padding": True}, {"padding-counted"}), ({"loses_words": True}, {"embeddings-lost"})],
)
def test_words_and_positions(settings, found):
    report = diagnose(Words(**settings))
    assert report.kind == "table"
    assert causes(report) == found, str(report)


def test_a_row_of_positions_for_each_text():
    rows = torch.randn(256, 64, generator=torch.Generator().manual_seed(0))
    assert diagnose(lambda positions: rows[positions]).healthy
    turned = diagnose(lambda positions: rows[positions].transpose(0, 1) if positions.ndim == 2 else rows[positions])
    assert causes(turned) == {"batch-axis"}


def test_a_table_cut_by_the_batch():
    report = diagnose(lambda x: waves(torch.arange(x.shape[0]), 64)[:, None] if x.shape[-1] == 64 else 1 / 0)
    assert causes(report) == {"batch-axis"}, str(report)


def test_channels_first():
    def adds(x):
        """Embeddings (b, d, t)."""
        return x + waves(torch.arange(x.shape[2]), x.shape[1]).T if x.shape[1] == 64 else 1 / 0

    assert diagnose(adds).healthy, str(diagnose(adds))


@pytest.mark.parametrize("twice", [False, True])
def test_learned_speeds(twice):
    class Fourier(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.speeds = nn.Parameter(torch.randn(32))

        def forward(self, x):
            angle = torch.arange(x.shape[1])[:, None] * self.speeds
            return x + torch.cat((angle.cos(), angle.cos() if twice else angle.sin()), -1)

    assert causes(diagnose(Fourier())) - {"positions-rounded", "buffers-rounded"} == (
        {"order-broken"} if twice else set()
    )


@pytest.mark.parametrize("deaf", [False, True])
def test_a_base_for_each_axis(deaf):
    class Grid(nn.Module):
        def __init__(self):
            super().__init__()
            self.temperature_height, self.temperature_width = 20.0, 100.0

        def forward(self, height, width):
            down, along = torch.meshgrid(torch.arange(float(height)), torch.arange(float(width)), indexing="ij")
            base = self.temperature_width if deaf else self.temperature_height
            return torch.cat((waves(down, 32, base), waves(along, 32, self.temperature_width)), -1)

    assert causes(diagnose(Grid())) == ({"base-ignored"} if deaf else set())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_positions_counted_in_half_precision(dtype):
    report = diagnose(lambda length, dim: waves(torch.arange(length).to(dtype).float(), dim))
    assert causes(report) == (set() if dtype == torch.float32 else {"positions-rounded"}), str(report)


def test_a_grid_in_one_line_that_loses_an_axis():
    rows = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    report = diagnose(lambda positions: rows[positions // 8])
    assert causes(report) == {"axis-lost"}, str(report)
