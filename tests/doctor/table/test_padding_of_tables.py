"""Rows where texts and pictures are padded: by token ids, by a mask of a text, by a mask of a picture."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, label, verdicts
from tests.doctor.blocks import noise
from tests.doctor.blocks import sinusoids_in_halves as halves

# Texts


class Words(nn.Module):
    """Words and learned positions that do not count padding, as in RoBERTa."""

    def __init__(self, counts_padding=False, loses_words=False):
        super().__init__()
        self.word_embeddings, self.positions = nn.Embedding(50, 64, 1), nn.Embedding(70, 64, 1)
        self.padding_idx, self.counts_padding, self.loses_words = 1, counts_padding, loses_words

    def forward(self, input_ids, past_length=0):
        real = torch.ones_like(input_ids) if self.counts_padding else input_ids.ne(self.padding_idx).long()
        table = self.positions((real.cumsum(1) + past_length) * real + self.padding_idx)
        return table if self.loses_words else self.word_embeddings(input_ids) + table


class OnTheRight(nn.Module):
    """Token ids, whose padding has row 0 and is counted all the same: right where padding stands on the right."""

    padding_idx = 1

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(noise(300, 64))

    def forward(self, input_ids):
        positions = (torch.arange(input_ids.shape[1]) + 1).expand(input_ids.shape)
        return self.table[positions * input_ids.ne(1)]


class Masked(nn.Module):
    """Learned positions of what a mask (b, t) shows, as in OPT."""

    def __init__(self, counts_padding=False, strict=False):
        super().__init__()
        self.rows, self.counts_padding, self.strict = nn.Embedding(300, 64), counts_padding, strict

    def forward(self, attention_mask):
        if self.strict and not attention_mask.all():
            raise ValueError("no padding, please")
        real = torch.ones_like(attention_mask) if self.counts_padding else attention_mask
        return self.rows((real.cumsum(1) * real).long())


class MaskedOrPlaced(Masked):
    """As in OPT, which takes positions, too."""

    def forward(self, attention_mask, past_key_values_length=0, position_ids=None):
        if position_ids is None:
            position_ids = (attention_mask.cumsum(1) * attention_mask).long()
        return self.rows(position_ids[:, past_key_values_length:])


@pytest.mark.parametrize(
    ("patient", "settings", "kind", "wrong"),
    [
        (Words, {}, None, ""),
        (Words, {"counts_padding": True}, None, "padding-counted"),
        (Words, {"loses_words": True}, None, "embeddings-lost"),
        (Masked, {}, "table", ""),
        (Masked, {"counts_padding": True}, "table", "padding-counted"),
        (Masked, {"strict": True}, "table", ""),
        (MaskedOrPlaced, {}, None, ""),
    ],
    ids=label,
)
def test_positions_of_a_text_do_not_count_padding(patient, settings, kind, wrong):
    report = diagnose(patient(**settings), kind=kind)
    assert report.kind == "table"
    assert_report(report, wrong)


def test_padding_that_is_right_on_the_right_only_is_a_note():
    assert_report(diagnose(OnTheRight(), kind="table"), notes="padding")


def test_padding_that_is_refused_is_not_checked():
    assert verdicts(diagnose(Masked(strict=True), kind="table"), "padding") == ["not checked"]


# Pictures


class Fractions(nn.Module):
    """Cells counted where a mask (b, h, w) is true, as fractions of what it shows, as in DETR."""

    def __init__(self, heeds=True, floored=True, exchanged=False):
        super().__init__()
        self.heeds, self.floored, self.exchanged = heeds, floored, exchanged

    def along(self, seen, axis):
        count = seen.cumsum(axis).float()
        part = count / (count.narrow(axis, count.shape[axis] - 1, 1) + 1e-6) * 6
        channel = torch.arange(32)
        pair = channel // 2 if self.floored else channel / 2
        angle = part[..., None] / 10_000 ** (2 * pair / 32)
        return torch.stack((angle[..., ::2].sin(), angle[..., 1::2].cos()), -1).flatten(-2)

    def forward(self, mask):
        seen = mask.bool() if self.heeds else torch.ones_like(mask, dtype=torch.bool)
        rows = torch.cat([self.along(seen, axis) for axis in (1, 2)], -1).permute(0, 3, 1, 2)
        return rows.transpose(2, 3) if self.exchanged else rows


class Counted(nn.Module):
    """Rows of the cells that are seen, waves or learned ones; kept by shape, or not for padding, or in spite of it."""

    def __init__(self, kept=False, strict=False, learned=False, heeds=True):
        super().__init__()
        self.kept, self.strict, self.heeds, self.last, self.table = kept, strict, heeds, None, None
        self.rows = nn.Parameter(noise(20, 16)) if learned else None

    def rows_of(self, shape, seen):
        if seen.shape != (shape[0], *shape[2:]):
            raise ValueError("a mask of the picture, please")
        if self.kept and shape == self.last:
            return self.table
        if self.strict and not seen.all():
            raise ValueError("no padding, please")
        counts = [(seen if self.heeds else torch.ones_like(seen)).cumsum(axis) for axis in (1, 2)]
        parts = [halves(count, shape[1] // 2, 50.0) if self.rows is None else self.rows[count] for count in counts]
        self.last, self.table = shape, torch.cat(parts, -1).permute(0, 3, 1, 2)
        return self.table


class OfShape(Counted):
    """Take a shape (b, d, h, w), and a mask that is true where it hides, or none."""

    def forward(self, shape, mask=None):
        seen = torch.ones(shape[0], *shape[2:], dtype=torch.bool) if mask is None else ~mask.bool()
        return self.rows_of(tuple(shape), seen)


class OfPicture(Counted):
    """Take a picture (b, d, h, w) and its mask."""

    def forward(self, x, mask):
        if mask is None or x.shape[1] != 32:
            raise ValueError("a picture and its mask, please")
        return self.rows_of(tuple(x.shape), mask.bool())


@pytest.mark.parametrize(
    ("patient", "settings", "dim", "wrong"),
    [
        (Fractions, {}, None, ""),
        (Fractions, {"heeds": False}, None, "padding-counted"),
        (Fractions, {"floored": False}, None, "crossed"),
        (Fractions, {"exchanged": True}, None, "axes-swapped"),
        (OfShape, {}, 32, ""),
        (OfShape, {"kept": True}, 32, "cache-stale"),
        (OfShape, {"learned": True, "kept": True}, 32, "cache-stale"),
        (OfPicture, {}, 32, ""),
        (OfPicture, {"strict": True}, 32, ""),
        (OfPicture, {"heeds": False}, 32, "padding-counted"),
        (OfPicture, {"learned": True}, 32, ""),
        (OfPicture, {"learned": True, "heeds": False}, 32, ""),
    ],
    ids=label,
)
def test_cells_of_a_picture_do_not_count_padding(patient, settings, dim, wrong):
    """Of learned rows it is not known how they should be counted."""
    assert_report(diagnose(patient(**settings), dim=dim), wrong)
