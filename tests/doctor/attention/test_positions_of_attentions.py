"""Positions that an attention takes: they reach queries and keys, as they are, and offsets alone count."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.attention.patients import DIM, HEADS, Block, SelfAttention, behind, every_key, masked
from tests.doctor.blocks import attend_behind, below, frequencies, interleave, rotate, rotate_by

SMALL = {"dim": 16, "heads": 2}

# Positions of queries and of keys


def placed(change=lambda positions: positions, mixing=lambda q, k, v: masked(q, k, v, every_key(q, k))):
    """Return an attention rotated by what is made of the positions that it takes."""

    def attend(q, k, v, positions, key_positions):
        return mixing(rotate(q, change(positions)), rotate(k, change(key_positions)), v)

    return attend


def of_queries_alone(q, k, v, positions, key_positions):
    """Give the positions to the queries alone."""
    return masked(rotate(q, positions), rotate(k, torch.arange(k.shape[2])), v, every_key(q, k))


def of_none(q, k, v, positions, key_positions):
    """Take positions and ignore them."""
    return masked(q, k, v, every_key(q, k))


def angles_of_input(q, k, v, positions, key_positions):
    """Make angles in the dtype of the input."""
    q, k = (
        rotate_by(x, (at.to(x.dtype)[:, None] * frequencies(x.shape[-1]).to(x.dtype)))
        for x, at in ((q, positions), (k, key_positions))
    )
    return masked(q, k, v, every_key(q, k))


def rounded_with_input(q, k, v, positions, key_positions):
    """Cast positions to the dtype of the input."""
    return attend_behind(rotate(q, positions.to(q.dtype)), rotate(k, key_positions.to(q.dtype)), v)


def with_table(size):
    """Return a rotated attention that adds a table of positions of this size to queries and keys."""

    def attend(q, k, v, positions, key_positions):
        q, k = (
            rotate(x, at) + size * torch.sin(at[:, None] * torch.linspace(0, 1, 16))
            for x, at in ((q, positions), (k, key_positions))
        )
        return attend_behind(q, k, v)

    return attend


PLACED = {
    "sound": (placed(), SMALL, ""),
    "sound, causal": (placed(mixing=attend_behind), {}, ""),
    "of queries alone": (of_queries_alone, SMALL, "sides-differ"),
    "of none": (of_none, SMALL, "positions-ignored"),
    "clipped at 400": (placed(lambda p: p.clamp(max=400), attend_behind), {}, "clipped"),
    "clipped at 2,047": (placed(lambda p: p.clamp(max=2047)), SMALL, "clipped"),
    "in bfloat16": (placed(lambda p: p.bfloat16(), attend_behind), {}, "clipped"),
    "rounded to bfloat16": (placed(lambda p: p.bfloat16().float()), SMALL, "clipped"),
    "in the dtype of the input": (rounded_with_input, {}, "precision-lost"),
    "angles in the dtype of the input": (angles_of_input, SMALL, "precision-lost"),
    "no table": (with_table(0.0), {"dim": 16, "heads": 3}, ""),
    "a faint table": (with_table(0.1), {"dim": 16, "heads": 3}, "absolute"),
    "a table": (with_table(1.0), SMALL, "absolute"),
}


@pytest.mark.parametrize("name", PLACED)
def test_positions_reach_queries_and_keys(name):
    patient, sizes, wrong = PLACED[name]
    assert_report(diagnose(patient, **sizes), wrong)


# Positions of one kind


def of_all_keys(q, k, v, positions):
    return attend_behind(rotate(q, positions[-q.shape[2] :]), rotate(k, positions), v)


def of_queries(q, k, v, positions):
    return attend_behind(rotate(q, positions), rotate(k, torch.arange(k.shape[2])), v)


def of_the_last(q, k, v, positions):
    """Take as many positions as there are queries, and count back from the last for keys."""
    return attend_behind(rotate(q, positions), rotate(k, positions[-1] + torch.arange(1 - k.shape[2], 1)), v)


def of_the_first(q, k, v, positions):
    """Take queries for the first of the keys, so that fewer queries than keys cannot be asked for."""
    return masked(rotate(q, positions[: q.shape[2]]), rotate(k, positions), v, behind(q, k))


@pytest.mark.parametrize("patient", [of_all_keys, of_queries, of_the_last, of_the_first])
def test_positions_of_all_keys_or_of_the_queries(patient):
    assert_report(diagnose(patient, **SMALL))


@pytest.mark.parametrize(("heads", "rows"), [(16, False), (16, True), (3, True)])
def test_rows_of_positions_and_as_many_heads_as_tokens(heads, rows):
    def attend(q, k, v, positions):
        q, k = (rotate(x, positions if rows else positions.flatten()) for x in (q, k))
        return masked(q, k, v, every_key(q, k))

    assert_report(diagnose(attend, dim=16, heads=heads))


# Rows of positions, and a table beside them


def by_rows(q, k, v, attention_mask=None, position_ids=None, table=False):
    """Attend causally, with the positions of all keys as rows; queries are the last of them."""
    t, s = q.shape[2], k.shape[2]
    rows = torch.arange(s)[None] if position_ids is None else position_ids
    if table:
        k = k + interleave(rows[..., None] * frequencies(k.shape[-1])).unsqueeze(1).to(k.dtype)
    q, k = rotate(q, rows[:, -t:]), rotate(k, rows)
    seen = below(t, s)[None, None]
    if attention_mask is not None:
        seen = seen & attention_mask.bool()[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def rows(q, k, v, attention_mask=None, position_ids=None):
    return by_rows(q, k, v, attention_mask, position_ids)


def rows_with_table(q, k, v, attention_mask=None, position_ids=None):
    """Leave the table in beside the rotation (transformers#22161)."""
    return by_rows(q, k, v, attention_mask, position_ids, table=True)


@pytest.mark.parametrize(("patient", "wrong"), [(rows, ""), (rows_with_table, "absolute")])
def test_no_table_is_left_in_beside_rows(patient, wrong):
    assert_report(diagnose(patient), wrong)


@pytest.mark.parametrize("heads", [2, 6, 12])
def test_rows_are_not_matched_with_heads(heads):
    report = diagnose(rows, heads=heads)
    assert_report(report)
    assert verdicts(report, "order", "shift", "decoding") == ["ok"] * 3


class BlockWithTable(Block):
    """Leave the learned table in beside the rotation (karpathy/nanoGPT#450)."""

    has_table = True


class RowBlock(Block):
    """Take rows of positions and a mask (b, s) of 1 and 0."""

    def forward(self, x, position_ids, attention_mask=None):
        q, k, v = self.project(x, position_ids)
        return by_rows(q, k, v, attention_mask, position_ids).transpose(1, 2).flatten(2)


class RowBlockWithTable(RowBlock):
    """Leave the learned table in beside the rotation."""

    has_table = True


class RowBlockWithoutMask(RowBlock):
    """Take a mask and ignore it."""

    def forward(self, x, position_ids, attention_mask=None):
        return super().forward(x, position_ids)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (Block, ""),
        (BlockWithTable, "absolute"),
        (RowBlock, ""),
        (RowBlockWithTable, "absolute"),
        (RowBlockWithoutMask, "mask-ignored"),
    ],
)
def test_a_block_of_a_model_takes_positions_and_no_table(cls, wrong):
    assert_report(diagnose(cls), wrong)


def test_the_mask_of_a_block_is_checked():
    assert verdicts(diagnose(RowBlock), "padding") == ["ok"]


# Positions that a layer takes


class Placed(SelfAttention):
    """Rotate queries and keys by the positions that it takes."""

    def forward(self, x, positions):
        self.positions = positions
        return super().forward(x)

    def turned(self, q, k):
        return rotate(q, self.positions), rotate(k, self.positions)


class PlacedQueriesAlone(Placed):
    """Give the positions to the queries alone."""

    def turned(self, q, k):
        return rotate(q, self.positions), rotate(k, torch.arange(k.shape[2]))


class PlacedNone(Placed):
    """Take positions and ignore them."""

    def turned(self, q, k):
        return q, k


class PlacedWithTable(Placed):
    """Add a table of positions to queries and keys."""

    def turned(self, q, k):
        table = torch.sin(self.positions[:, None] * 100.0 ** -torch.linspace(0, 1, q.shape[-1])).to(q)
        return super().turned(q + table, k + table)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (Placed, ""),
        (PlacedQueriesAlone, "sides-differ"),
        (PlacedNone, "positions-ignored"),
        (PlacedWithTable, "absolute"),
    ],
)
def test_positions_that_a_layer_takes_reach_queries_and_keys(cls, wrong):
    assert_report(diagnose(cls(), dim=DIM, heads=HEADS), wrong)


# What is made and does not reach the weights


class RotaryEmbedding(nn.Module):
    def forward(self, x):
        return rotate(x, torch.arange(x.shape[2]))


class NotRotated(SelfAttention):
    """Make a rotation and forget to take what it gives."""

    def __init__(self):
        super().__init__()
        self.rope = RotaryEmbedding()

    def turned(self, q, k):
        self.rope(q), self.rope(k)
        return q, k


class NotRotatedEncoder(NotRotated):
    hides_ahead = False


class NotBiased(SelfAttention):
    """Hold the slopes of ALiBi and forget them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("alibi_slopes", torch.ones(4))


def forgets_alibi(q, k, v):
    """Make the slopes of ALiBi and forget them."""
    alibi_slopes = 2.0 ** -torch.arange(q.shape[1])
    alibi_slopes.mul(1.0)
    return masked(q, k, v, behind(q, k))


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (SelfAttention, ""),
        (NotRotated, "positions-ignored"),
        (NotRotatedEncoder, "positions-ignored"),
        (NotBiased, "bias-lost"),
        (lambda: forgets_alibi, "bias-lost"),
    ],
)
def test_what_is_made_reaches_the_weights(make, wrong):
    assert_report(diagnose(make(), dim=DIM, heads=HEADS), wrong)
