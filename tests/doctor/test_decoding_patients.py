"""Patients of the doctor that cache, turn values or are told lengths: each with a fault, beside a sound version."""

import math

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation

DIM, HEADS, WIDE = 64, 4, 16


class CausalAttention(nn.Module):
    """Causal, with a cache that is asked for."""

    def __init__(self):
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(DIM, DIM) for _ in range(4))

    def forward(self, x, past_kv=None, use_cache=False):
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, WIDE)).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), self.joined(past_kv[1], v)
        logits = self.content(q, k).masked_fill(~self.seen(q.shape[2], k.shape[2]), float("-inf"))
        out = self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))
        return out, (k, v) if use_cache else None

    def content(self, q, k):
        return q @ k.mT / math.sqrt(WIDE)

    def joined(self, old, new):
        return torch.cat((old, new), 2)

    def seen(self, t, s):
        return torch.ones(t, s).tril(s - t).bool()


class OneIsAwaited(CausalAttention):
    def seen(self, t, s):
        return torch.ones(t, s).bool() if s > t else super().seen(t, s)


class FirstOnly(CausalAttention):
    def seen(self, t, s):
        return torch.ones(t, s).tril().bool()


class NewValuesFirst(CausalAttention):
    def joined(self, old, new):
        return torch.cat((new, old), 2)


class NotCausal(CausalAttention):
    def seen(self, t, s):
        return torch.ones(t, s).bool()


class ByQueriesAlone(CausalAttention):
    def content(self, q, k):
        return q @ q.mT / math.sqrt(WIDE) if q.shape == k.shape else super().content(q, k)


SICK = {
    OneIsAwaited: "future-seen",
    FirstOnly: "decode-aligned-first",
    NewValuesFirst: "cache-wrong",
    NotCausal: "future-seen",
    ByQueriesAlone: "one-for-both",
}


def test_a_cache_that_is_asked_for_is_sound():
    report = diagnose(CausalAttention(), dim=DIM, heads=HEADS)
    assert report.healthy
    assert "token by token" in str(report)


@pytest.mark.parametrize("cls", SICK)
def test_what_is_wrong_beside_a_cache_is_named(cls):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert SICK[cls] in ids(report), str(report)


class Turned(nn.Module):
    """Turns queries, keys and values, and turns what comes out back."""

    def __init__(self, back=True, causal=True, keys=True):
        super().__init__()
        self.num_heads, self.back, self.keys, self.ahead = HEADS, back, keys, 1 if causal else 99
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(DIM, DIM) for _ in range(4))

    def turn(self, x, sign=1):
        a = sign * torch.arange(x.shape[2])[:, None] * 100.0 ** (-torch.arange(0, WIDE, 2) / WIDE)
        one, two = x.chunk(2, -1)
        return torch.cat((one * a.cos() - two * a.sin(), two * a.cos() + one * a.sin()), -1)

    def forward(self, x, attention_mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, WIDE)).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k, v = self.turn(q), self.turn(k) if self.keys else k, self.turn(v)
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(self.ahead).bool()
        if attention_mask is not None:
            hidden = hidden | ~attention_mask[:, None, None]
        out = (q @ k.mT / math.sqrt(WIDE)).masked_fill(hidden, -1e9).softmax(-1) @ v
        return self.o_proj((self.turn(out, -1) if self.back else out).transpose(1, 2).flatten(2))


def test_values_may_turn_where_the_output_turns_back():
    assert diagnose(Turned(), dim=DIM, heads=HEADS).healthy


@pytest.mark.parametrize("causal", [True, False])
def test_turned_values_are_not_called_padding(causal):
    found = ids(diagnose(Turned(back=False, causal=causal), dim=DIM, heads=HEADS))
    assert "values-moved" in found
    assert "padding-counted" not in found


class Lengths(nn.Module):
    """Hides what lies beyond the length of a text."""

    def __init__(self, hides=-1e9, in_turn=False):
        super().__init__()
        self.num_heads, self.hides, self.in_turn = HEADS, hides, in_turn
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(DIM, DIM) for _ in range(4))

    def forward(self, x, valid_lens):
        q, k, v = (
            layer(x).unflatten(-1, (HEADS, WIDE)).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        logits = (q @ k.mT / math.sqrt(WIDE)).flatten(0, 1)
        if valid_lens is not None:
            each = valid_lens.repeat(HEADS) if self.in_turn else valid_lens.repeat_interleave(HEADS)
            logits = logits.masked_fill(torch.arange(x.shape[1]) >= each[:, None, None], self.hides)
        out = logits.softmax(-1).unflatten(0, (-1, HEADS)) @ v
        return self.o_proj(out.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("given", "causes"), [({}, set()), ({"hides": 0.0}, {"mask-ignored"})])
def test_tokens_beyond_a_length_are_hidden(given, causes):
    assert ids(diagnose(Lengths(**given), dim=DIM, heads=HEADS)) == causes


def test_each_head_has_the_length_of_its_own_text():
    assert ids(diagnose(Lengths(in_turn=True), dim=DIM, heads=HEADS)) == {"rows-mixed"}


class Blocks(nn.Module):
    """Sees the block before and its own, `ahead` keys of the future among them."""

    def __init__(self, ahead=0):
        super().__init__()
        self.ahead = ahead

    def forward(self, q, k, v):
        i, j = torch.arange(k.shape[2])[-q.shape[2] :, None], torch.arange(k.shape[2])
        seen = (j <= i + self.ahead) & (j // 8 <= i // 8) & (j // 8 >= i // 8 - 1)
        return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~seen, float("-inf")).softmax(-1) @ v


class NotItself(CausalAttention):
    def seen(self, t, s):
        return torch.ones(t, s).tril(s - t - 1).bool()


def test_a_first_query_without_a_key_is_named():
    assert ids(diagnose(NotItself(), dim=DIM, heads=HEADS)) == {"self-hidden"}


def test_a_key_ahead_is_found_inside_of_a_block():
    assert diagnose(Blocks()).healthy
    assert ids(diagnose(Blocks(1))) == {"future-seen"}


# Queries that are counted from 0 in each call


def counted_from_0(q, k, v, seen=None):
    q, k = (rotation(part, torch.arange(part.shape[2])) for part in (q, k))
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def if_causal(q, k, v, causal=False):
    return counted_from_0(
        q, k, v, torch.ones(q.shape[2], k.shape[2]).tril(k.shape[2] - q.shape[2]) > 0 if causal else None
    )


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (if_causal, {"offset-ignored"}),
        (lambda q, k, v, offset=0: counted_from_0(q, k, v), {"offset-ignored"}),
        (lambda q, k, v: counted_from_0(q, k, v), set()),
    ],
)
def test_a_lone_query_may_count_from_0_in_an_encoder_alone(function, found):
    report = diagnose(function, dim=WIDE, heads=3)
    assert ids(report) == found, str(report)
    assert report.finding("decoding").verdict == ("wrong" if found else "note")
