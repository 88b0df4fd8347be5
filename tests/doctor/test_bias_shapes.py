"""Biases of other shapes: how they are told which tokens, in what axes numbers come, and thresholds from both sides."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, slopes
from tests.doctor.test_bias_patients import ARANGE, Buckets, bucket


def offsets(i, j):
    return ARANGE(j) - ARANGE(j - i, j)[:, None]


def alibi(heads, i, j):
    return -slopes(heads)[:, None, None] * offsets(i, j).abs()


# In what axes numbers come, and what else comes with them


def pair(heads, i, j):
    return slopes(heads), alibi(heads, i, j)


def heads_last(heads, i, j):
    return alibi(heads, i, j).permute(1, 2, 0)


def batched(heads, i, j):
    return torch.stack((alibi(heads, i, j), 2 * alibi(heads, i, j)))


def of_one_text(heads, i, j):
    return alibi(heads, i, j)[None, None]


def of_numpy(heads, i, j):
    return np.asarray(alibi(heads, i, j))


def of_text_and_heads_last(heads, i, j):
    return heads_last(heads, i, j)[None]


class Kept:
    def __init__(self, made):
        self.size, self.slopes, self.made = made.shape[-1], slopes(4), made


def in_an_object(heads, i, j):
    return Kept(alibi(heads, i, j))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "bias", [pair, heads_last, batched, of_one_text, of_numpy, of_text_and_heads_last, in_an_object]
)
def test_numbers_in_whatever_axes_they_come(bias, sign, monkeypatch):
    monkeypatch.setitem(
        globals(), "alibi", lambda heads, i, j: -sign * slopes(heads)[:, None, None] * offsets(i, j).abs()
    )
    report = diagnose(bias, heads=3, kind="bias")
    assert ids(report) == ({"sign-reversed"} if sign < 0 else set()), str(report)


def test_ids_beside_a_row_of_numbers():
    report = diagnose(lambda length, key_length: (ARANGE(3), bucket(offsets(length, key_length))), kind="bias")
    assert report.healthy, str(report)


@pytest.mark.parametrize(
    "made", [None, "", torch.zeros(1, 1), torch.zeros(4, 3), torch.zeros(5, 3, 2), torch.zeros(3, 1)]
)
def test_what_is_no_bias(made):
    with pytest.raises(ValueError, match="must be a rotation"):
        diagnose(lambda: made, kind="bias")


def test_what_makes_no_slopes_and_a_bias_of_two_places():
    with pytest.raises(ValueError, match="must be a rotation"):
        diagnose(lambda heads: torch.zeros(heads, 3), kind="bias")
    assert diagnose(lambda: torch.zeros(2, 2), kind="bias").finding("offsets").verdict == "note"


# How a bias is told for which tokens


def relative_ids(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    return bucket(relative_position, limit=max_distance)


def coarse_ids(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    return bucket(relative_position, limit=16)


def own_length(heads, length=9):
    return alibi(heads, length, length)


def of_embeddings(x, mask=None):
    return alibi(4, x.shape[1], x.shape[1])


def of_query_and_key(q, k, mask=None):
    return alibi(q.shape[1], q.shape[2], k.shape[2])


@pytest.mark.parametrize("bias", [relative_ids, own_length, of_embeddings, of_query_and_key])
def test_ways_to_tell_which_tokens(bias):
    report = diagnose(bias, kind="bias")
    assert report.healthy, str(report)


@pytest.mark.parametrize(("sign", "causes"), [(1, set()), (-1, {"sign-reversed"})])
def test_a_change_of_each_score(sign, causes):
    def change(score, b, h, q_idx, kv_idx):
        return score + sign * slopes(8)[h + b] * (kv_idx - q_idx)

    assert ids(diagnose(change, heads=8)) == causes, str(diagnose(change, heads=8))


def test_ids_of_offsets_that_are_given():
    assert "buckets-wrong" in ids(diagnose(coarse_ids, kind="bias"))


def test_scores_of_query_and_key_are_no_bias():
    with pytest.raises(ValueError, match="fits none"):
        diagnose(lambda q, k: q @ k.mT + alibi(q.shape[1], q.shape[2], k.shape[2]), kind="bias")


@pytest.mark.parametrize(
    "change", [lambda scores: scores, lambda scores: scores.softmax(-1), lambda scores: 0 * scores]
)
def test_scores_to_which_nothing_is_added_are_no_bias(change):
    with pytest.raises(ValueError, match="fits none"):
        diagnose(lambda attention_scores: change(attention_scores), kind="bias")


class Untrained(nn.Module):
    """A learned bias of embeddings (b, t, d) that begins with zeros."""

    def __init__(self, absolute=False):
        super().__init__()
        self.absolute, self.gain, self.table = absolute, nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(127, 4))

    def forward(self, x):
        t = x.shape[1]
        rows = ARANGE(t).expand(t, t) * (1 + ARANGE(t)[:, None] % 2) if self.absolute else offsets(t, t) + 63
        return self.gain * self.table[rows].permute(2, 0, 1)


def test_a_table_that_begins_with_zeros():
    report = diagnose(Untrained(), kind="bias", heads=4)
    assert report.healthy, str(report)
    assert "absolute" in ids(diagnose(Untrained(absolute=True), kind="bias", heads=4))


# Offsets


@pytest.mark.parametrize(("size", "cause"), [(1e-5, "absolute"), (1e-7, "")])
def test_small_numbers_that_depend_on_places_a_little(size, cause):
    """The whole bias is small, and what it should not depend on is one part in a thousand, or in ten thousand more."""

    def bias(heads, i, j):
        return 1e-2 * alibi(heads, i, j).double() * (1 + 1e2 * size * ARANGE(j - i, j)[:, None].double())

    assert ids(diagnose(bias, heads=4)) - {"slopes-wrong", "length-dependent"} == ({cause} - {""})


def test_one_head_has_nothing_to_be_mixed_with():
    report = diagnose(lambda length: (ARANGE(length) * (1 + ARANGE(length)[:, None]) / 8.0)[None], kind="bias")
    assert report.finding("offsets").id == "absolute", str(report)


@pytest.mark.parametrize("heads", [2, 5])
def test_heads_that_are_mixed(heads):
    def bias(length, heads):
        return alibi(heads, length, length).permute(1, 2, 0).reshape(heads, length, length)

    assert "heads-mixed" in ids(diagnose(bias, heads=heads))


def test_queries_that_hide_keys_of_their_own_choice():
    """Parts of a text do not see each other; what is seen depends on the offset."""

    def bias(length, heads):
        part = ARANGE(length) // 5
        return alibi(heads, length, length).masked_fill(part != part[:, None], -math.inf)

    report = diagnose(bias, heads=4)
    assert report.finding("offsets").verdict == "ok", str(report)


@pytest.mark.parametrize(("ahead", "cause"), [(0, ""), (1, "mask-off-by-one"), (2, ""), (-1, "mask-off-by-one")])
@pytest.mark.parametrize("hidden", [-math.inf, -1e9, -2e4])
def test_how_many_keys_ahead_are_seen(ahead, cause, hidden):
    def bias(heads, i, j):
        return alibi(heads, i, j).masked_fill(offsets(i, j) > ahead, hidden)

    assert ids(diagnose(bias, heads=4)) == ({cause} - {""}), str(diagnose(bias, heads=4))


class OfGain(nn.Module):
    """A bias that rises with distance, times what is learned: by its sign, or by its exponential."""

    def __init__(self, signed):
        super().__init__()
        self.signed, self.gain = signed, nn.Parameter(torch.ones(4))

    def forward(self, i, j):
        gain = self.gain if self.signed else self.gain.exp()
        return gain[:, None, None] * (offsets(i, j).abs() // 2).double().sqrt()


@pytest.mark.parametrize(("signed", "verdict"), [(True, "note"), (False, "wrong")])
def test_a_sign_that_training_can_turn(signed, verdict):
    assert diagnose(OfGain(signed), heads=4).finding("sign").verdict == verdict


@pytest.mark.parametrize("window", [1, 3])
def test_a_mask_of_a_few_keys_behind(window):
    def bias(query_length, key_length):
        offset = offsets(query_length, key_length)
        return torch.where((offset <= 0) & (offset > -window), 0.0, -math.inf)

    assert diagnose(bias, kind="bias").healthy, str(diagnose(bias, kind="bias"))


# Slopes


def of_slopes(change):
    return ids(diagnose(lambda heads: change(slopes(heads), heads), heads=8))


def test_slopes_a_little_off():
    assert not of_slopes(lambda right, heads: right * 1.001)
    assert not of_slopes(lambda right, heads: -right)

    def alibi_slopes(heads):
        return slopes(heads) * 1.3

    assert ids(diagnose(alibi_slopes)) == {"slopes-wrong"}


def test_slopes_of_too_few_heads():
    assert ids(diagnose(lambda heads, i, j: alibi(4, i, j), heads=8)) == {"slopes-wrong"}


class LinearBias(nn.Module):
    """Named as ALiBi, with slopes of another rule."""

    def forward(self, i, j):
        return -(0.7 ** ARANGE(1, 5))[:, None, None] * offsets(i, j).abs()


def test_a_name_that_promises_slopes():
    assert ids(diagnose(LinearBias(), heads=4)) == {"slopes-wrong"}
    LinearBias.__name__ = LinearBias.__qualname__ = "Linear_Bias"
    assert ids(diagnose(LinearBias(), heads=4)) == {"slopes-wrong"}
    LinearBias.__name__ = LinearBias.__qualname__ = "Falling"
    assert diagnose(LinearBias(), heads=4).healthy


# Use


def test_one_query_whose_axis_is_lost():
    def bias(heads, i, j):
        return alibi(heads, i, j).squeeze(1)

    assert "one query after 24 keys raises" in diagnose(bias, heads=4).finding("decoding").words


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_a_constant_of_one_query_alone_is_not_seen(shift):
    def bias(heads, i, j):
        return alibi(heads, i, j) + shift * (i == 1) - 7 * (i < 3) * (ARANGE(i)[:, None] % 2)

    assert diagnose(bias, heads=4).finding("decoding").verdict == "ok"


def test_ids_that_are_counted_from_the_first_key():
    def shifted(length, key_length):
        return (ARANGE(key_length) - ARANGE(length)[:, None]).clamp(max=0).abs()

    assert diagnose(shifted).finding("decoding").id == "decode-aligned-first"
    assert diagnose(lambda length, key_length: ARANGE(key_length) - ARANGE(length)[:, None]).finding("decoding").id == (
        "decode-aligned-first"
    )


class Writes(nn.Module):
    """ALiBi that makes a table for all keys once, and writes on what it kept."""

    def __init__(self, by=1.0):
        super().__init__()
        self.by, self.calls = by, 0

    def forward(self, i, j):
        self.calls += 1
        return alibi(4, i, j) * self.by ** (self.calls - 1)


@pytest.mark.parametrize(
    ("by", "causes"), [(1.0, set()), (1.01, {"cache-stale", "length-dependent"}), (1.00001, set())]
)
def test_numbers_that_change_from_call_to_call(by, causes):
    assert ids(diagnose(Writes(by), heads=4)) == causes, str(diagnose(Writes(by), heads=4))


@pytest.mark.parametrize(("part", "cause"), [(0.01, "length-dependent"), (1e-5, "")])
def test_numbers_that_follow_the_length_a_little(part, cause):
    def bias(heads, i, j):
        return alibi(heads, i, j) * (1 + part * j / 512)

    assert ids(diagnose(bias, heads=4)) - {"slopes-wrong"} == {cause} - {""}


@pytest.mark.parametrize(("limit", "causes"), [(100, {"clipped"}), (300, {"clipped"}), (600, set())])
def test_a_penalty_that_stops(limit, causes):
    assert (
        ids(diagnose(lambda heads, i, j: alibi(heads, i, j).clamp(min=-limit * slopes(heads)[:, None, None]))) == causes
    )


@pytest.mark.parametrize(("coarse", "causes"), [(8, set()), (20, set()), (1024, {"bias-rounded"})])
def test_steps_in_half_precision(coarse, causes):
    def bias(heads, i, j, dtype=torch.float32):
        return ((alibi(heads, i, j) + coarse).to(dtype) - coarse).to(dtype)

    assert ids(diagnose(bias, heads=4)) == causes, str(diagnose(bias, heads=4))


@pytest.mark.parametrize(
    ("value", "causes"), [(0, set()), (1, set()), (1.0, set()), (0.25, {"scaled-wrong"}), (3, {"scaled-wrong"})]
)
def test_a_factor_of_one_or_of_none_need_not_be_applied(value, causes):
    module = Buckets(applied=0.5)
    module.scale = value
    assert ids(diagnose(module, heads=4)) == causes


class Attention(Buckets):
    """An attention whose scale is not that of its bias."""

    def compute_bias(self, query_length, key_length):
        return self.table(bucket(offsets(query_length, key_length))).permute(2, 0, 1)


def test_a_method_of_an_attention_need_not_apply_its_scale():
    assert diagnose(Attention().compute_bias, heads=4).healthy
