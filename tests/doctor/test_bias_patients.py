"""Biases that public code has brought to the doctor: each with one fault, beside the sound version."""

import math

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, slopes

ARANGE = torch.arange


def bucket(offset, half=16, limit=128, sided=True):
    """T5's buckets of both sides, 2 * half in all."""
    near, distance = half // 2, offset.abs()
    far = near + (torch.log(distance.clamp(min=1) / near) / math.log(limit / near) * (half - near)).long()
    return torch.where(distance < near, distance, far.clamp(max=half - 1)) + half * (offset > 0) * sided


# Ways to be told


def by_scores(attention_scores):
    h, t, s = attention_scores.shape[1:]
    distance = ARANGE(s - t, s)[:, None] - ARANGE(s)
    return attention_scores - slopes(h)[:, None, None] * distance.abs()


def by_contents(query, key):
    distance = ARANGE(key.shape[2]) - ARANGE(key.shape[2] - query.shape[2], key.shape[2])[:, None]
    return -slopes(query.shape[1])[:, None, None] * distance.abs()


def by_mask(n_heads, mask):
    return (mask.cumsum(-1) * slopes(n_heads)[:, None])[:, None]


def by_seen(n_heads, mask):
    return mask.cumsum(-1)[..., None] * slopes(n_heads)


def by_embeddings(x, num_buckets=32):
    table = torch.randn(num_buckets, 4, generator=torch.Generator().manual_seed(0))
    return table[bucket(ARANGE(x.shape[1]) - ARANGE(x.shape[1])[:, None])].permute(2, 0, 1)[None]


by_embeddings.__name__ = by_embeddings.__qualname__ = "compute_position_bias"


@pytest.mark.parametrize("function", [by_scores, by_contents, by_mask, by_seen, by_embeddings])
def test_a_bias_is_told_by_what_its_layer_has(function):
    report = diagnose(function)
    assert report.kind == "bias"
    assert report.healthy, str(report)


def test_scores_that_come_back_changed_are_no_bias():
    with pytest.raises(ValueError, match="fits none"):
        diagnose(lambda logits: 2 * logits + 1, kind="bias")


# What calls keep


class Keeps(nn.Module):
    """ALiBi that keeps its bias, and takes the last rows of it, or the first."""

    def __init__(self, heads=8, first=False):
        super().__init__()
        self.first, self.bias = first, None

    def forward(self, i, j):
        if self.bias is None or self.bias.shape[-2] < i or self.bias.shape[-1] < j:
            self.bias = -slopes(8)[:, None, None] * (ARANGE(j - i, j)[:, None] - ARANGE(j)).abs()
        return self.bias[:, :i, :j] if self.first else self.bias[:, -i:, -j:]


def test_a_bias_that_is_kept_is_cut_at_its_end():
    assert diagnose(Keeps(), heads=8).healthy
    assert ids(diagnose(Keeps(first=True), heads=8)) == {"decode-aligned-first"}


# Ids and buckets


def of_offsets(change):
    def relative_ids(length, key_length):
        return change(ARANGE(key_length) - ARANGE(key_length - length, key_length)[:, None])

    return diagnose(relative_ids)


def test_ids_of_buckets():
    assert of_offsets(lambda offset: offset).healthy
    assert of_offsets(bucket).healthy
    far = of_offsets(lambda offset: torch.where(offset.abs() < 8, offset + 100, bucket(offset, sided=False)))
    assert "one-direction-lost" in ids(far), str(far)
    again = of_offsets(lambda offset: torch.where(offset.abs() < 8, bucket(offset), (bucket(offset) - 8).clamp(min=0)))
    assert "buckets-wrong" in ids(again), str(again)


class Buckets(nn.Module):
    """T5's bias; `scale` is what it keeps, `applied` what it multiplies by."""

    def __init__(self, applied=0.25, sided=True, limit=128, each=16):
        super().__init__()
        torch.manual_seed(0)
        self.scale, self.sided, self.limit, self.each = 0.25, sided, limit, each
        self.ratio, self.table = applied / 0.25, nn.Embedding(32, 4)

    def forward(self, i, j):
        offset = ARANGE(j) - ARANGE(j - i, j)[:, None]
        factor = self.ratio * self.scale if self.ratio == 1 else 1.0
        return self.table(bucket(offset, self.each, self.limit, self.sided)).permute(2, 0, 1) * factor


def test_buckets_that_are_learned_and_never_read():
    assert diagnose(Buckets(), heads=4).healthy, str(diagnose(Buckets(), heads=4))
    assert ids(diagnose(Buckets(sided=False), heads=4)) == {"one-direction-lost"}
    assert ids(diagnose(Buckets(each=10), heads=4)) == {"buckets-wrong"}


def test_a_factor_that_is_kept_and_not_applied():
    assert ids(diagnose(Buckets(applied=1.0), heads=4)) == {"scaled-wrong"}


class Network(nn.Module):
    """A bias by a network of the distance."""

    def __init__(self, limit=None):
        super().__init__()
        torch.manual_seed(0)
        self.limit, self.net = limit, nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 4))

    def forward(self, i, j):
        distance = (ARANGE(j - i, j)[:, None] - ARANGE(j)).abs().clamp(max=self.limit or j)
        return self.net(distance[..., None].float()).permute(2, 0, 1)


def test_a_network_of_the_distance_that_stops():
    assert diagnose(Network(), heads=4).healthy
    assert ids(diagnose(Network(limit=8), heads=4)) == {"clipped"}


# Windows


class Cells(nn.Module):
    """Swin's bias of a window that is no square; `step` from row to row of the table, rows for columns in `read`."""

    def __init__(self, step=11, mixed=False, read=False):
        super().__init__()
        torch.manual_seed(0)
        self.window_size, self.mixed, self.read = (4, 6), mixed, read
        self.relative_position_bias_table = nn.Parameter(torch.randn(7 * 11, 3))
        rows, columns = (axis.flatten() for axis in torch.meshgrid(ARANGE(4), ARANGE(6), indexing="ij"))
        offset = (rows[:, None] - rows + 3) * step + columns[:, None] - columns + 5
        self.index = offset

    def forward(self):
        table = self.relative_position_bias_table
        if self.read:
            picture = table.reshape(1, 11, 7, 3).permute(0, 3, 1, 2)
            table = nn.functional.interpolate(picture, size=(7, 11), mode="bilinear").permute(0, 2, 3, 1).reshape(77, 3)
        made = table[self.index]
        return made.view(-1, 24, 24) if self.mixed else made.permute(2, 0, 1)


CELLS = [
    ({}, set()),
    ({"step": 7}, {"axes-swapped"}),
    ({"step": 5}, {"buckets-wrong"}),
    ({"mixed": True}, {"heads-mixed"}),
    ({"read": True}, {"axes-swapped"}),
]


@pytest.mark.parametrize(("fault", "causes"), CELLS)
def test_a_window_that_is_no_square(fault, causes):
    report = diagnose(Cells(**fault), heads=3)
    assert ids(report) == causes, str(report)


def decomposed(attn, q, rel_pos_h, rel_pos_w, q_size, k_size, lost=False, square=False):
    """SAM's bias: q meets a table of rows and one of columns."""
    (h, w), content = q_size, q.reshape(1, *q_size, -1)
    down, along = (table[ARANGE(n)[:, None] - ARANGE(n) + n - 1] for table, n in ((rel_pos_h, h), (rel_pos_w, w)))
    rows = torch.einsum("bhwc,wkc->bhwk" if square else "bhwc,hkc->bhwk", content, down)[..., :, None]
    columns = torch.einsum("bhwc,wkc->bhwk", content, along)[..., None, :]
    return (attn.view(1, h, w, h, w) + (0 * rows if lost else rows) + columns).view(1, h * w, h * w)


def test_decomposed_relative_positions():
    assert diagnose(decomposed).healthy
    lost = diagnose(
        lambda attn, q, rel_pos_h, rel_pos_w, q_size, k_size: decomposed(
            attn, q, rel_pos_h, rel_pos_w, q_size, k_size, lost=True
        )
    )
    square = diagnose(
        lambda attn, q, rel_pos_h, rel_pos_w, q_size, k_size: decomposed(
            attn, q, rel_pos_h, rel_pos_w, q_size, k_size, square=True
        )
    )
    assert ids(lost) == {"axis-lost"}
    assert "axes-swapped" in ids(square), str(square)


def shifted(half=False):
    """The mask of a window that was shifted: two bands of rows do not see each other."""
    hidden = torch.zeros(16, 16)
    hidden[:8, 8:] = -math.inf
    if not half:
        hidden[8:, :8] = -math.inf
    return hidden


def test_the_mask_of_a_shifted_window():
    report = diagnose(lambda window=4, rows=True, columns=False: shifted())
    assert report.kind == "bias"
    assert report.healthy, str(report)
    assert ids(diagnose(lambda: shifted(half=True))) == {"one-direction-lost"}


# Boxes of words


class Boxes(nn.Module):
    """LayoutLM's bias by the left and the lower edge of boxes, or by others."""

    def __init__(self, edges=(0, 3), one_table=False, page=1000.0):
        super().__init__()
        torch.manual_seed(0)
        self.edges, self.one_table, self.page = edges, one_table, page
        self.x, self.y = nn.Embedding(32, 4), nn.Embedding(32, 4)

    def forward(self, bbox):
        tables = (self.x, self.x if self.one_table else self.y)
        places = [(bbox[:, :, edge].float() * self.page / 1000).long() for edge in self.edges]
        offsets = [place[:, None, :] - place[:, :, None] for place in places]
        made = [table(bucket(offset)) for table, offset in zip(tables, offsets, strict=True)]
        return torch.stack(made).sum(0).permute(0, 3, 1, 2)


def test_a_bias_by_boxes():
    assert diagnose(Boxes(), heads=4).healthy, str(diagnose(Boxes(), heads=4))
    assert ids(diagnose(Boxes(edges=(0, 0)), heads=4)) == {"axis-lost"}
    assert ids(diagnose(Boxes(one_table=True), heads=4)) == {"axes-swapped"}
    assert ids(diagnose(Boxes(page=1.0), heads=4)) == {"scaled-wrong"}


# Contents


class OfContents(nn.Module):
    """q by a table of offsets; a shift takes the row of the query above for keys behind."""

    def __init__(self, above=False):
        super().__init__()
        torch.manual_seed(0)
        self.above, self.table = above, nn.Parameter(torch.randn(31, 16))

    def forward(self, q):
        products, t = torch.einsum("bhtd,rd->bhtr", q, self.table), ARANGE(q.shape[2])
        offset = t - t[:, None] + 15
        own = products.gather(-1, offset.expand(*q.shape[:2], -1, -1))
        other = products.roll(1, 2).gather(-1, offset.expand(*q.shape[:2], -1, -1))
        return torch.where(t < t[:, None], other, own) if self.above else own


OfContents.__name__ = OfContents.__qualname__ = "RelPosEmb"


def test_a_bias_of_contents_reads_its_own_query():
    assert diagnose(OfContents(), dim=16).healthy, str(diagnose(OfContents(), dim=16))
    assert ids(diagnose(OfContents(above=True), dim=16)) == {"queries-mixed"}
