"""Biases in use: one query after its keys, positions kept from calls before, and steps in half precision."""

import math

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.blocks import offsets, penalty, slopes


def from_the_first(heads, t, s):
    """Align the first query with the first key."""
    offset = torch.arange(s) - torch.arange(t)[:, None]
    return -slopes(heads)[:, None, None] * offset.abs()


def of_offsets(heads, t, s):
    return slopes(heads)[:, None, None] * offsets(t, s)


def ids_from_the_first(length, key_length):
    """Number offsets as if the first query stood at the first key."""
    return torch.arange(key_length) - torch.arange(length)[:, None]


def distances_from_the_first(length, key_length):
    """Take distances as if the first query stood at the first key."""
    return ids_from_the_first(length, key_length).clamp(max=0).abs()


def after_past_tokens(query_length, key_length, past_seen_tokens=0):
    query = past_seen_tokens + torch.arange(query_length)
    return -slopes(4)[:, None, None] * (query[:, None] - torch.arange(key_length)).abs()


def forgets_past_tokens(query_length, key_length, past_seen_tokens=0):
    """Take the number of past tokens and ignore it."""
    return after_past_tokens(query_length, key_length)


class FromTheFirst(nn.Module):
    """Align the first query with the first key, in an encoder or a decoder."""

    def __init__(self, is_decoder):
        super().__init__()
        self.is_decoder = is_decoder

    def forward(self, query_length, key_length):
        return from_the_first(4, query_length, key_length)


def test_an_encoder_does_not_decode():
    report = diagnose(FromTheFirst(is_decoder=False))
    assert_report(report)
    assert verdicts(report, "decoding") == ["not checked"]


class Keeps(nn.Module):
    """ALiBi that keeps its bias, and takes the last rows of it, or the first."""

    def __init__(self, first=False):
        super().__init__()
        self.first, self.bias = first, None

    def forward(self, i, j):
        if self.bias is None or self.bias.shape[-2] < i or self.bias.shape[-1] < j:
            self.bias = penalty(8, i, j)
        return self.bias[:, :i, :j] if self.first else self.bias[:, -i:, -j:]


def masked_if_many(first_row):
    """Return a penalty by key, masked where queries are several, at the end or from `first_row` on."""

    def decay(heads, query_length, key_length):
        key = torch.arange(key_length)
        start = key_length - query_length if first_row is None else first_row
        bias = (key * 2.0 ** -torch.arange(1, heads + 1)[:, None, None]).expand(-1, query_length, -1)
        hidden = key > (start + torch.arange(query_length))[:, None]
        return bias.masked_fill(hidden, -math.inf) if query_length > 1 else bias

    return decay


DECODING = {
    "sound": (of_offsets, {}, ""),
    "symmetric": (lambda heads, t, s: penalty(heads, t, s), {}, ""),
    "with n and length": (lambda heads, n, length: of_offsets(heads, n, length), {}, ""),
    "from the first key, in a decoder": (FromTheFirst(is_decoder=True), {}, "decode-aligned-first"),
    "from the first key": (from_the_first, {}, "decode-aligned-first"),
    "ids from the first key": (ids_from_the_first, {}, "decode-aligned-first"),
    "distances from the first key": (distances_from_the_first, {}, "decode-aligned-first"),
    "after past tokens": (after_past_tokens, {}, ""),
    "past tokens are forgotten": (forgets_past_tokens, {}, "decode-aligned-first"),
    "last rows of what is kept": (Keeps(), {"heads": 8}, ""),
    "first rows of what is kept": (Keeps(first=True), {"heads": 8}, "decode-aligned-first"),
    "two queries at the end": (masked_if_many(None), {"heads": 4}, ""),
    "two queries at the start": (masked_if_many(0), {"heads": 4}, "decode-aligned-first"),
}


@pytest.mark.parametrize("name", DECODING)
def test_queries_stand_at_the_end_of_the_keys(name):
    patient, settings, wrong = DECODING[name]
    report = diagnose(patient, **settings)
    assert_report(report, wrong)
    if not wrong:
        assert verdicts(report, "decoding") == ["ok"]


def test_without_a_length_of_queries_decoding_is_not_checked():
    report = diagnose(lambda heads, length: of_offsets(heads, length, length))
    assert verdicts(report, "decoding") == ["not checked"]


def lone_query(change):
    """Return a bias that is changed where queries are fewer than keys."""

    def bias(n_heads, i, j):
        return penalty(n_heads, i, j) if i == j else change(penalty(n_heads, i, j))

    return bias


LONE = {
    "gets zeros": lambda numbers: 0 * numbers,
    "gets two rows": lambda numbers: numbers.expand(4, 2, numbers.shape[-1]),
    "gets no keys": lambda numbers: numbers[:, :, :0],
    "loses its axis": lambda numbers: numbers.squeeze(1),
}


@pytest.mark.parametrize("name", LONE)
def test_a_lone_query_that_gets_no_row_is_a_note(name):
    assert_report(diagnose(lone_query(LONE[name]), heads=4), notes="decoding")


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_a_constant_of_a_lone_query_is_not_seen_by_softmax(shift):
    def bias(heads, i, j):
        numbers = penalty(heads, i, j)
        if i < 3:
            numbers = numbers - 7 * (torch.arange(i)[:, None] % 2)
        return numbers + shift if i == 1 else numbers

    assert verdicts(diagnose(bias, heads=4), "decoding") == ["ok"]


# Half precision


def rounded_positions(heads, t, s, dtype=torch.float32):
    """Round slope times position before the difference is taken."""
    places = slopes(heads).to(dtype)[:, None] * torch.arange(s, dtype=dtype)
    return places[:, None, :] - places[:, s - t :, None]


def rounded_once(heads, t, s, dtype=torch.float32):
    return of_offsets(heads, t, s).to(dtype)


def of_keys(mask, heads, dtype):
    """Return slope times key (heads, 1, s) in the dtype of the model, as BLOOM's code does."""
    return (slopes(heads)[:, None].to(dtype) * torch.arange(mask.shape[-1]).to(dtype))[:, None]


def around(level):
    """Return a penalty that is rounded at a level away from zero."""

    def bias(heads, i, j, dtype=torch.float32):
        return ((penalty(heads, i, j) + level).to(dtype) - level).to(dtype)

    return bias


ROUNDED = {
    "once": (rounded_once, ""),
    "positions first": (rounded_positions, "bias-rounded"),
    "products with keys": (of_keys, "bias-rounded"),
    "around 8": (around(8), ""),
    "around 20": (around(20), ""),
    "around 1024": (around(1024), "bias-rounded"),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_steps_between_near_keys_survive_half_precision(name):
    patient, wrong = ROUNDED[name]
    report = diagnose(patient)
    assert_report(report, wrong)
    if wrong:
        assert finding(report, "rounding").number > 0.5
