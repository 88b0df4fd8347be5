"""Embeddings of offsets in an attention, as Shaw's and Transformer-XL's: read off the weights."""

import math

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report
from tests.doctor.attention.patients import DIM, HEADS, WIDTH, Encoder
from tests.doctor.blocks import below, offsets, split_heads


class Relative(Encoder):
    """Add Shaw's embeddings of offsets to keys."""

    def __init__(self):
        super().__init__()
        self.rel_table = nn.Parameter(torch.randn(2 * 64 + 1, WIDTH))

    def rows(self, t):
        return 64 + offsets(t, t)

    def content(self, q, k):
        return q @ k.mT

    def relative(self, q):
        return torch.einsum("bhtd,tsd->bhts", q, self.rel_table[self.rows(q.shape[2])])

    def scores(self, q, k):
        return (self.content(q, k) + self.relative(q)) / math.sqrt(WIDTH)


class OfQueryAbove(Relative):
    """Read the embeddings of the query above."""

    def relative(self, q):
        return super().relative(q.roll(1, 2))


class Dropped(Relative):
    """Hold a table and never read it."""

    def relative(self, q):
        return 0.0


class TimesZero(Relative):
    """Multiply the embeddings by 0."""

    def relative(self, q):
        return 0.0 * super().relative(q)


class OfThePast(Relative):
    """Take all keys ahead for one."""

    def rows(self, t):
        return 64 + offsets(t, t).clamp(max=0)


class ByKey(Relative):
    """Look the embeddings up by the place of the key."""

    def rows(self, t):
        return 64 + torch.arange(t).expand(t, t)


class KeysOfQueries(Relative):
    """Add queries to keys."""

    def content(self, q, k):
        return q @ (k + q).mT


class QueriesOfKeys(Relative):
    """Add keys to queries."""

    def content(self, q, k):
        return (q + k) @ k.mT


class Clipped(Relative):
    """Four offsets on each side, and another parameter that the module holds."""

    nearest, furthest = -4, 4

    def __init__(self):
        super().__init__()
        self.rel_table = nn.Parameter(torch.randn(9, WIDTH))
        self.gate = nn.Parameter(torch.randn(5))

    def rows(self, t):
        return 4 + offsets(t, t).clamp(self.nearest, self.furthest)


class ClippedToThePast(Clipped):
    """Take all keys ahead for one."""

    furthest = 0


class ClippedToTheFuture(Clipped):
    """Take all keys behind for one."""

    nearest = 0


class Behind(Relative):
    """Causal, so that offsets ahead are never met."""

    def relative(self, q):
        t = q.shape[2]
        return super().relative(q).masked_fill(~below(t, t), -math.inf)


class Inside(nn.Module):
    """A model with a table of its own, of which the attention is a part."""

    def __init__(self, cls):
        super().__init__()
        self.pos_table, self.pos_attention = nn.Parameter(torch.randn(31, DIM)), cls()
        self.num_heads = HEADS

    def forward(self, x):
        return self.pos_attention(x)


PATIENTS = {
    "sound": (Relative, ""),
    "of the query above": (OfQueryAbove, "queries-mixed"),
    "dropped": (Dropped, "bias-lost"),
    "times zero": (TimesZero, "bias-lost"),
    "of the past": (OfThePast, "one-direction-lost"),
    "by the key": (ByKey, "absolute one-direction-lost"),
    "keys of queries": (KeysOfQueries, "one-for-both"),
    "queries of keys": (QueriesOfKeys, "one-for-both"),
    "clipped": (Clipped, ""),
    "clipped to the past": (ClippedToThePast, "one-direction-lost"),
    "clipped to the future": (ClippedToTheFuture, "one-direction-lost"),
    "causal": (Behind, ""),
    "inside": (lambda: Inside(Relative), ""),
    "inside, times zero": (lambda: Inside(TimesZero), "bias-lost"),
    "inside, without a table": (lambda: Inside(Encoder), ""),
}


@pytest.mark.parametrize("name", PATIENTS)
def test_a_table_of_offsets_is_read_on_both_sides(name):
    make, wrong = PATIENTS[name]
    assert_report(diagnose(make(), dim=DIM, heads=HEADS), wrong)


class OfOffsets(Encoder):
    """Take encodings of offsets, from the farthest key behind to the farthest ahead, as Transformer-XL."""

    def __init__(self, scale=WIDTH**-0.5):
        super().__init__()
        self.scale = scale
        self.linear_pos = nn.Linear(DIM, DIM, bias=False)

    def forward(self, query, key, value, pos_emb):
        layers = ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        q, k, v = (split_heads(layer(x), HEADS) for layer, x in layers)
        t = q.shape[2]
        by_offset = q @ split_heads(self.linear_pos(pos_emb), HEADS).mT
        columns = (t - 1 + offsets(t, t)).expand(len(q), HEADS, t, t)
        scores = q @ k.mT + by_offset.gather(-1, columns)
        return self.o_proj(self.joined((scores * self.scale).softmax(-1) @ v))


@pytest.mark.parametrize(("scale", "wrong"), [(WIDTH**-0.5, ""), (1 / 8, "scale-wrong")])
def test_encodings_of_offsets_that_are_given(scale, wrong):
    assert_report(diagnose(OfOffsets(scale), dim=DIM), wrong)
