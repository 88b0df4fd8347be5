"""Rotations, tables and biases that later public code has brought to the doctor, each sick and sound."""

import math

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation, thetas
from tests.doctor.test_bias_patients import ARANGE, bucket
from tests.doctor.test_table_patients import waves

# Names by their pieces


def test_names_are_understood_by_their_pieces():
    assert diagnose(
        lambda h_q, h_k, seq_positions: (rotation(h_q, seq_positions), rotation(h_k, seq_positions))
    ).healthy
    with pytest.raises(ValueError, match="q_pos_bias"):
        diagnose(lambda x, q_pos_bias: x)


# Tables in half precision


def coarse(x, offset=0, base=10_000.0, first=0, dtype=torch.bfloat16):
    angle = (first + offset + ARANGE(x.shape[-2]))[:, None] * thetas(x.shape[-1], base)
    cos, sin = (part.to(dtype).to(x.dtype).repeat(1, 2) for part in (angle.cos(), angle.sin()))
    return x * cos + torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1) * sin


def test_a_table_in_half_precision_is_rounded_and_turns_all_the_same():
    assert diagnose(lambda x, offset=0: coarse(x, offset, dtype=torch.float32)).healthy
    assert ids(diagnose(lambda x, offset=0: coarse(x, offset))) == {"angles-rounded"}
    assert ids(diagnose(lambda x, offset=0: coarse(x, offset, 100.0))) == {"angles-rounded", "exponent-halved"}
    report = diagnose(lambda x, offset=0: coarse(x, offset, first=1))
    assert "as position 1 should be" in report.finding("origin").words


def test_a_mixed_layout_is_one_cause():
    def mixed(x, positions):
        angle = (3 * positions[:, None] * thetas(x.shape[-1], 10_000.0)).repeat(1, 2)
        pairs = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
        return x * angle.cos() + pairs * angle.sin()

    assert ids(diagnose(mixed)) == {"layout-mixed"}


class Forth(torch.autograd.Function):
    """Turns, and turns gradients forth too, or back."""

    @staticmethod
    def forward(ctx, x, sense):
        ctx.sense = sense
        return rotation(x, ARANGE(x.shape[-2]))

    @staticmethod
    def backward(ctx, grad):
        return rotation(grad, ctx.sense * ARANGE(grad.shape[-2])), None


@pytest.mark.parametrize(("sense", "found"), [(1, {"gradient-wrong"}), (-1, set())])
def test_gradients_turn_back(sense, found):
    assert ids(diagnose(lambda x: Forth.apply(x, sense))) == found


def head(x, table):
    return table[: x.shape[-2]].to(x.dtype)


def end(x, table):
    return table[-x.shape[-2] :].to(x.dtype)


@pytest.mark.parametrize(("cut", "found"), [(head, {"offset-ignored"}), (end, set())])
def test_fewer_queries_under_tables_that_are_given(cut, found):
    def turned(x, cos, sin, part):
        half = x.shape[-1] // 2
        return x * part(x, cos) + torch.cat((-x[..., half:], x[..., :half]), -1) * part(x, sin)

    assert ids(diagnose(lambda q, k, cos, sin: (turned(q, cos, sin, cut), turned(k, cos, sin, head)))) == found


# Rows behind a row of zeros


def behind_zeros(positions, first, sign=-1):
    speeds = torch.exp(sign * math.log(10_000.0) / 31 * ARANGE(32))
    angle = (positions - first)[..., None] * speeds
    return torch.cat((angle.sin(), angle.cos()), -1) * (positions > 0)[..., None]


def test_rows_behind_that_of_a_padding():
    assert diagnose(lambda positions: behind_zeros(positions, 0)).healthy
    assert diagnose(lambda positions: behind_zeros(positions, 1)).healthy
    assert "exponent-rising" in ids(diagnose(lambda positions: behind_zeros(positions, 0, sign=1)))
    assert diagnose(lambda x, offset=0: x + waves(offset + ARANGE(x.shape[1]), 64)).healthy
    shifted = diagnose(lambda x, offset=0: x + behind_zeros(offset + ARANGE(x.shape[1]), 1))
    assert ids(shifted) == {"positions-shifted"}, str(shifted)


# Biases


class OfWindow(nn.Module):
    """The queries of a window of 4 by 4 by a table of offsets along a row and one from row to row."""

    def __init__(self, above=False):
        super().__init__()
        torch.manual_seed(0)
        self.above = above
        self.row, self.column = (nn.Parameter(torch.randn(7, 16)) for _ in range(2))

    def forward(self, q):
        cell = ARANGE(16)
        down, along = cell // 4 - cell[:, None] // 4 + 3, cell % 4 - cell[:, None] % 4 + 3
        of_rows = q.roll(1, 1) if self.above else q
        rows = torch.einsum("btd,tsd->bts", of_rows.reshape(-1, 16, 16), self.row[down])
        return rows + torch.einsum("btd,tsd->bts", q, self.column[along])


OfWindow.__name__ = OfWindow.__qualname__ = "RelPosEmb"


def test_a_bias_of_contents_in_a_window():
    report = diagnose(OfWindow())
    assert report.kind == "bias"
    assert report.healthy, str(report)
    assert ids(diagnose(OfWindow(above=True))) == {"queries-mixed"}


class Buckets(nn.Module):
    """T5's buckets, up to the distance that it names or further."""

    def __init__(self, reach=128):
        super().__init__()
        torch.manual_seed(0)
        self.reach, self.max_distance, self.table = reach, 128, nn.Embedding(32, 4)

    def forward(self, length):
        return self.table(bucket(ARANGE(length) - ARANGE(length)[:, None], limit=self.reach)).permute(2, 0, 1)


def wrapped(layer):
    return lambda length: layer(length)


def test_a_module_inside_says_how_far_its_buckets_reach():
    assert diagnose(wrapped(Buckets()), heads=4).healthy
    assert ids(diagnose(wrapped(Buckets(reach=400)), heads=4)) == {"buckets-wrong"}


class Offsets(nn.Module):
    """A learned number for each offset of 64 tokens."""

    def __init__(self, one_sided=False):
        super().__init__()
        torch.manual_seed(0)
        self.one_sided, self.table = one_sided, nn.Parameter(torch.randn(127, 4))

    def forward(self, length):
        if length > 64:
            raise ValueError("too long")
        offset = ARANGE(length) - ARANGE(length)[:, None]
        return self.table[(offset.abs() if self.one_sided else offset) + 63].permute(2, 0, 1)


def test_both_halves_of_a_learned_table_are_read():
    assert diagnose(Offsets(), heads=4).healthy
    assert ids(diagnose(Offsets(one_sided=True), heads=4)) == {"one-direction-lost"}


def causal_if_many(length, key_length, heads, first):
    """A penalty for distance, and a mask where there are several queries."""
    key, start = ARANGE(key_length), first if first >= 0 else key_length - length
    bias = key * 2.0 ** -ARANGE(1, heads + 1)[:, None, None]
    hidden = key > (start + ARANGE(length))[:, None]
    return bias.expand(-1, length, -1).masked_fill(hidden & (length > 1), -math.inf)


@pytest.mark.parametrize(("first", "found"), [(-1, set()), (0, {"decode-aligned-first"})])
def test_two_queries_stand_at_the_end_as_one_does(first, found):
    def decay(heads, query_length, key_length):
        return causal_if_many(query_length, key_length, heads, first)

    assert ids(diagnose(decay, heads=4)) - {"slopes-wrong"} == found
