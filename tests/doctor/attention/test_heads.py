"""Heads and texts stay apart; heads of queries that share those of keys share the right ones."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.attention.patients import DIM, HEADS, WIDTH, Grouped, GroupedEncoder, Rotated, every_key, masked
from tests.doctor.blocks import attend, split_heads

# Heads that share keys


class OneHeadOfKeys(Grouped):
    kv_heads = 1


class ValuesTiled(Grouped):
    """Repeat all values one after the other, where each should be repeated."""

    def values(self, v):
        return v.repeat(1, HEADS // self.kv_heads, 1, 1)


class KeysTiled(Grouped):
    """Repeat all keys one after the other, where each should be repeated."""

    def keys(self, k):
        return k.repeat(1, HEADS // self.kv_heads, 1, 1)


class KeysFlipped(Grouped):
    """Give the heads the keys in reverse order."""

    def keys(self, k):
        return super().keys(k).flip(1)


class LastHeadWithoutKeys(Grouped):
    """Leave the products of the last head zero."""

    def scores(self, q, k):
        scores = torch.zeros(len(q), HEADS, q.shape[2], k.shape[2])
        for head in range(HEADS - 1):
            scores[:, head] = q[:, head] @ k[:, head].mT / math.sqrt(WIDTH)
        return scores


class Shuffled(Rotated):
    """Join heads and tokens in the wrong order."""

    def joined(self, x):
        return x.flatten(2).reshape(x.shape[0], x.shape[2], -1)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (Grouped, ""),
        (GroupedEncoder, ""),
        (OneHeadOfKeys, ""),
        (ValuesTiled, "groups-tiled"),
        (KeysTiled, "groups-tiled"),
        (KeysFlipped, "heads-mixed"),
        (LastHeadWithoutKeys, "heads-mixed"),
        (Shuffled, "heads-mixed"),
    ],
)
def test_heads_of_a_layer_share_the_right_keys(cls, wrong):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert_report(report, wrong)
    if wrong:
        assert verdicts(report, "everything else") == ["not checked"]


def test_heads_are_as_many_as_the_module_says():
    assert_report(diagnose(ValuesTiled(), dim=DIM, heads=2), "groups-tiled")
    assert_report(diagnose(Grouped(), dim=DIM, heads=8))


def shared(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def tiled(q, k, v):
    """Repeat all keys and values one after the other, where each should be repeated."""
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1))


@pytest.mark.parametrize(("patient", "wrong"), [(shared, ""), (tiled, "groups-tiled")])
def test_heads_of_a_function_share_the_right_keys(patient, wrong):
    report = diagnose(patient)
    assert_report(report, wrong)
    assert verdicts(report, "grouped heads") == ["wrong" if wrong else "ok"]


def repeated(query, key, value, n_heads, kv_n_heads, repeat=lambda x, share: x.repeat_interleave(share, 1)):
    q, k, v = split_heads(query, n_heads), split_heads(key, kv_n_heads), split_heads(value, kv_n_heads)
    share = n_heads // kv_n_heads
    return attend(q, repeat(k, share), repeat(v, share)).transpose(1, 2).flatten(2)


def tiled_of_embeddings(query, key, value, n_heads, kv_n_heads):
    """Repeat all keys and values one after the other, where each should be repeated."""
    return repeated(query, key, value, n_heads, kv_n_heads, lambda x, share: x.repeat(1, share, 1, 1))


@pytest.mark.parametrize(("patient", "wrong"), [(repeated, ""), (tiled_of_embeddings, "groups-tiled")])
def test_numbers_of_heads_that_cannot_be_left_out(patient, wrong):
    report = diagnose(patient, heads=4, order="btd")
    assert_report(report, wrong)
    assert verdicts(report, "grouped heads") == ["wrong" if wrong else "ok"]


@pytest.mark.parametrize(
    ("sizes", "checks"),
    [({"dim": 8}, ("offsets", "decay", "scale")), ({"heads": 3}, ("grouped heads",))],
    ids=["8 channels", "3 heads"],
)
def test_sizes_that_are_too_small_for_a_check(sizes, checks):
    assert verdicts(diagnose(attend, **sizes), *checks) == ["not checked"] * len(checks)


# Heads and texts that mix


def over_texts(q, k, v):
    """Take the softmax over the texts of the batch."""
    return masked(q, k, v, every_key(q, k), axis=0)


def one_head_fewer(q, k, v):
    """Leave the last head zero."""
    out = torch.zeros_like(q)
    for head in range(q.shape[1] - 1):
        out[:, head] = masked(q[:, head, None], k[:, head, None], v[:, head, None], every_key(q, k))[:, 0]
    return out


def values_of_the_first(q, k, v):
    """Give all heads the values of the first."""
    return masked(q, k, v[:, :1].expand_as(v), every_key(q, k))


@pytest.mark.parametrize(
    ("patient", "wrong"),
    [(over_texts, "batch-mixed"), (one_head_fewer, "heads-mixed"), (values_of_the_first, "heads-mixed")],
)
def test_heads_and_texts_stay_apart(patient, wrong):
    assert_report(diagnose(patient, dim=16, heads=4), wrong)


class HeadsApart(nn.Module):
    """Give each head layers of its own."""

    def __init__(self, scale=None):
        super().__init__()
        self.num_heads, self.scale = HEADS, scale
        self.heads = nn.ModuleList(
            nn.ModuleDict({role: nn.Linear(DIM, WIDTH) for role in ("query", "key", "value")}) for _ in range(HEADS)
        )
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, x):
        parts = [[head[role](x) for role in ("query", "key", "value")] for head in self.heads]
        outs = [F.scaled_dot_product_attention(*part, is_causal=True, scale=self.scale) for part in parts]
        return self.proj(torch.cat(outs, -1))


@pytest.mark.parametrize(("scale", "wrong"), [(None, ""), (1 / 8, "scale-wrong")])
def test_heads_in_layers_of_their_own(scale, wrong):
    report = diagnose(HeadsApart(scale), dim=DIM)
    assert_report(report, wrong)
    assert verdicts(report, "scale") == ["wrong" if wrong else "ok"]
