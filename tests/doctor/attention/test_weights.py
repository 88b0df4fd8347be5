"""Products are divided by sqrt(d), weights sum to 1 and fall with distance, values come through as they are."""

import math
import types

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.attention.patients import (
    DIM,
    HEADS,
    HIDDEN,
    WIDTH,
    Encoder,
    Rotated,
    SelfAttention,
    behind,
    every_key,
    masked,
)
from tests.doctor.blocks import attend, attend_behind, offsets, penalty, rotate, rotate_at_end

# The scale


def unscaled(q, k, v):
    """Do not divide products by sqrt(d)."""
    return (q @ k.mT).softmax(-1) @ v


def scaled_twice(q, k, v):
    """Divide products by sqrt(d) twice."""
    return attend(q / q.shape[-1] ** 0.5, k, v)


def times(scale):
    """Return a causal attention whose products are multiplied by a function of (h, d) more."""
    return lambda q, k, v: masked(q, k, v, behind(q, k), scale=scale(q.shape[1], q.shape[-1]))


SCALES = {  # what is wrong, what is noted, by how much products are too large
    "sound": (attend, {}, "", "", 1),
    "none": (unscaled, {}, "scale-missing", "", 8),
    "twice": (scaled_twice, {}, "scale-wrong", "", 1 / 8),
    "none, causal": (times(lambda h, d: math.sqrt(d)), {"dim": 16}, "scale-missing", "", 4),
    "twice, causal": (times(lambda h, d: 1 / math.sqrt(d)), {"dim": 16}, "scale-wrong", "", 1 / 4),
    "by the width of all heads": (times(lambda h, d: 1 / math.sqrt(h)), {"dim": 16}, "scale-wrong", "", 1 / 2),
    "otherwise": (times(lambda h, d: 1.2), {"dim": 16}, "", "scale", 1.2),
}


@pytest.mark.parametrize("name", SCALES)
def test_products_are_divided_by_the_root_of_the_width(name):
    patient, sizes, wrong, notes, factor = SCALES[name]
    report = diagnose(patient, heads=4, **sizes)
    assert_report(report, wrong, notes)
    assert finding(report, "scale").number == pytest.approx(factor, rel=1e-3)


class Unscaled(Rotated):
    """Do not divide products by sqrt(d)."""

    def scores(self, q, k):
        return q @ k.mT


class ScaledByTheModel(Rotated):
    """Divide by the root of the width of all heads."""

    def scores(self, q, k):
        return q @ k.mT / math.sqrt(DIM)


class Normed(SelfAttention):
    """Give queries and keys one length before they meet."""

    def turned(self, q, k):
        return tuple(nn.functional.rms_norm(part, (WIDTH,)) for part in (q, k))


class InBuckets(Encoder):
    """Add a bias by buckets of distances and do without a scale, as T5; or have a bias and say nothing of buckets."""

    def __init__(self, buckets=True):
        super().__init__()
        self.bias = nn.Embedding(4, HEADS)
        if buckets:
            self.num_buckets = 4

    def scores(self, q, k):
        distance = -offsets(q.shape[2], k.shape[2])
        return q @ k.mT + self.bias(distance.clamp(0, 3)).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("make", "wrong", "notes"),
    [
        (Rotated, "", ""),
        (Unscaled, "scale-missing", ""),
        (ScaledByTheModel, "scale-wrong", ""),
        (Normed, "", "scale"),
        (InBuckets, "", "scale"),
        (lambda: InBuckets(buckets=False), "scale-missing", ""),
    ],
)
def test_products_of_a_layer_are_divided_by_the_root_of_the_width(make, wrong, notes):
    assert_report(diagnose(make(), dim=DIM), wrong, notes)


class Configured(Encoder):
    """Multiply products by `scale`, which a configuration says or not."""

    def __init__(self, scale, **settings):
        super().__init__()
        self.scale, self.config = scale, types.SimpleNamespace(**settings)

    def scores(self, q, k):
        return q @ k.mT * self.scale


@pytest.mark.parametrize(
    ("scale", "settings", "verdict", "wrong"),
    [
        (1 / 8, {"query_pre_attn_scalar": 64}, "ok", ""),
        (0.1, {"attention_multiplier": 0.1}, "ok", ""),
        (0.1, {"attention_multiplier": 0.2}, "note", ""),
        (1.0, {"attention_multiplier": 0.2}, "wrong", "scale-missing"),
    ],
    ids=str,
)
def test_a_configuration_says_the_scale(scale, settings, verdict, wrong):
    report = diagnose(Configured(scale, **settings), dim=DIM, heads=HEADS)
    assert_report(report, wrong)
    assert verdicts(report, "scale") == [verdict]


# What is added to the products


def with_penalty(sign):
    """Return a causal attention with ALiBi's bias, or its opposite."""

    def call(q, k, v):
        scores = sign * penalty(q.shape[1], q.shape[2], k.shape[2])
        return attend(q, k, v, scores.masked_fill(~behind(q, k), -math.inf))

    return call


def with_bias(change):
    """Return a causal attention with a bias made of the distance."""

    def call(q, k, v):
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + change(offsets(q.shape[2], k.shape[2]).abs())
        return scores.masked_fill(~behind(q, k), HIDDEN).softmax(-1) @ v

    return call


class FarWins(SelfAttention):
    """Add slope times distance."""

    def scores(self, q, k):
        return super().scores(q, k) - penalty(HEADS, q.shape[2], k.shape[2])


BIASES = {
    "ALiBi": (lambda: with_penalty(1), {}, "", ""),
    "ALiBi reversed": (lambda: with_penalty(-1), {}, "penalty-reversed", ""),
    "steep": (lambda: with_bias(lambda distance: -0.5 * distance), {"dim": 16}, "", ""),
    "steep, reversed": (lambda: with_bias(lambda distance: 0.5 * distance), {"dim": 16}, "penalty-reversed", ""),
    "wavy": (lambda: with_bias(lambda distance: (2.0 * distance).sin()), {"dim": 16}, "", "decay"),
    "a layer, reversed": (FarWins, {"dim": DIM}, "penalty-reversed", ""),
}


@pytest.mark.parametrize("name", BIASES)
def test_near_keys_win(name):
    make, sizes, wrong, notes = BIASES[name]
    assert_report(diagnose(make(), **sizes), wrong, notes)


# Values and weights


def over_queries(q, k, v):
    """Take the softmax over the queries."""
    return masked(q, k, v, every_key(q, k), axis=-2)


def positions_in_values(q, k, v):
    """Add a table of positions to keys and values."""
    table = torch.arange(k.shape[2])[:, None] / 16 * torch.linspace(-1, 1, k.shape[3])
    return masked(q, k + table, v + table, every_key(q, k))


def one_added(q, k, v):
    """Add 1 to the values."""
    return masked(q, k, v, every_key(q, k)) + 1


def rotated(q, k, v):
    return attend_behind(*rotate_at_end(q, k), v)


def values_rotated(q, k, v):
    """Rotate the values, too."""
    return rotated(q, k, rotate(v, torch.arange(k.shape[2])))


def values_rotated_encoder(q, k, v):
    """Rotate the values, too."""
    return attend(*rotate_at_end(q, k), rotate(v, torch.arange(k.shape[2])))


VALUES = {
    "sound": (rotated, {}, ""),
    "softmax over queries": (over_queries, {"dim": 16}, "weights-wrong"),
    "positions added": (positions_in_values, {"dim": 16}, "absolute one-for-both values-moved"),
    "one added": (one_added, {"dim": 16}, "values-moved"),
    "rotated": (values_rotated, {}, "values-moved"),
    "rotated, an encoder": (values_rotated_encoder, {"dim": 16}, "values-moved"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_through_as_they_are(name):
    patient, sizes, wrong = VALUES[name]
    assert_report(diagnose(patient, heads=4, **sizes), wrong)


class NamesExchanged(SelfAttention):
    """Take keys for queries and queries for keys."""

    def turned(self, q, k):
        return k, q


class AddsTokenBefore(Encoder):
    """Add the token before to each query."""

    def turned(self, q, k):
        return q + nn.functional.pad(q, (0, 0, 1, 0))[:, :, :-1], k


class ByLength(SelfAttention):
    """Rotate by positions that are counted by the length of the call."""

    def turned(self, q, k):
        positions = torch.arange(q.shape[2]) * 16.0 / q.shape[2]
        return rotate(q, positions), rotate(k, positions)


class ByLengthEncoder(ByLength):
    hides_ahead = False


class OverQueries(Encoder):
    """Take the softmax over the queries."""

    def weights(self, scores):
        return scores.softmax(-2)


class PlusOne(Encoder):
    """Add 1 below the line of the softmax, so that weights sum to less than 1."""

    def weights(self, scores):
        return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))


class ByOffset(Encoder):
    """Add Shaw's embeddings of offsets to values."""

    def __init__(self):
        super().__init__()
        self.rel_values = nn.Parameter(torch.randn(2 * 64 + 1, WIDTH) / 10)

    def rows(self, t):
        return offsets(t, t)

    def summed(self, weights, v):
        return weights @ v + torch.einsum("bhts,tsd->bhtd", weights, self.rel_values[64 + self.rows(v.shape[2])])


class ByOffsetAndRotated(ByOffset):
    """Rotate the values, too."""

    def values(self, v):
        return rotate(super().values(v), torch.arange(v.shape[2]))


class ByKey(ByOffset):
    """Look the embeddings up by the place of the key."""

    def rows(self, t):
        return 3 * torch.arange(t).expand(t, t) - 16


class ByKeyBehind(ByKey):
    """Look the embeddings up by the place of the key, causally."""

    hides_ahead = True


class ByQuery(ByOffset):
    """Look the embeddings up by the place of the query, which is one number for all keys."""

    def rows(self, t):
        return 3 * torch.arange(t)[:, None].expand(t, t) - 16


@pytest.mark.parametrize(
    ("cls", "wrong", "notes"),
    [
        (NamesExchanged, "swapped", ""),
        (AddsTokenBefore, "", "contents"),
        (ByLength, "length-dependent", ""),
        (ByLengthEncoder, "", "lengths"),
        (OverQueries, "weights-wrong", ""),
        (PlusOne, "weights-wrong", ""),
        (ByOffset, "", ""),
        (ByOffsetAndRotated, "values-moved", ""),
        (ByKey, "values-moved", ""),
        (ByKeyBehind, "values-moved", ""),
        (ByQuery, "", ""),
    ],
)
def test_what_weights_and_values_of_a_layer_depend_on(cls, wrong, notes):
    assert_report(diagnose(cls(), dim=DIM, heads=HEADS), wrong, notes)


class RotatesBack(SelfAttention):
    """Rotate queries, keys and values, and rotate what comes out back; or do not."""

    def __init__(self, back=True, hides=True):
        super().__init__()
        self.back, self.hides_ahead = back, hides

    def turn(self, x, sign=1):
        return rotate(x, sign * torch.arange(x.shape[2]), 100.0)

    def turned(self, q, k):
        return self.turn(q), self.turn(k)

    def values(self, v):
        return self.turn(v)

    def joined(self, x):
        return super().joined(self.turn(x, -1) if self.back else x)

    def forward(self, x, attention_mask=None):
        self.shown = None if attention_mask is None else attention_mask[:, None, None]
        return super().forward(x)

    def weights(self, scores):
        return super().weights(scores if self.shown is None else scores.masked_fill(~self.shown, HIDDEN))


@pytest.mark.parametrize(
    ("back", "hides", "wrong"), [(True, True, ""), (False, True, "values-moved"), (False, False, "values-moved")]
)
def test_values_may_turn_where_the_output_turns_back(back, hides, wrong):
    assert_report(diagnose(RotatesBack(back, hides), dim=DIM, heads=HEADS), wrong)
