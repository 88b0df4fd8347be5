"""Patients of the doctor that see keys, texts or values which they should not, each beside a sound version."""

import math

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation

HIDDEN = -1e9


def attention(q, k, v, seen, scale=1.0, **softmax):
    """Return the result where `seen` (t, s) says which keys each query sees."""
    logits = scale * q @ k.mT / math.sqrt(q.shape[-1])
    return logits.masked_fill(~seen, HIDDEN).softmax(**{"dim": -1} | softmax) @ v


def below(q, k, by=0):
    t, s = q.shape[2], k.shape[2]
    return torch.ones(t, s).tril(s - t + by).bool()


def everything(q, k):
    return torch.ones(q.shape[2], k.shape[2]).bool()


class Says(nn.Module):
    """A module that may say that it is causal."""

    def __init__(self, is_causal, causal=True):
        super().__init__()
        self.is_causal, self.hides = is_causal, causal

    def forward(self, q, k, v):
        return attention(q, k, v, below(q, k) if self.hides else everything(q, k))


class CausalByName(Says):
    pass


class NonCausal(Says):
    pass


class CausalByMask(Says):
    def forward(self, q, k, v, mask=None):
        return attention(q, k, v, everything(q, k) if mask is None else mask.bool())


@pytest.mark.parametrize("cls", [Says, CausalByName, NonCausal, CausalByMask])
@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("hides", [True, False])
def test_what_says_that_it_is_causal_is(cls, says, hides):
    report = diagnose(cls(says, hides), dim=16)
    lies = (says or cls is CausalByName) and (not hides or cls is CausalByMask)
    assert ids(report) == ({"future-seen"} if lies else set()), str(report)


def test_a_wrapped_module_says_that_it_is_causal():
    causal, plain = CausalByName(False, False), NonCausal(False, False)
    assert ids(diagnose(lambda q, k, v: causal(q, k, v), dim=16)) == {"future-seen"}
    assert not ids(diagnose(lambda q, k, v: plain(q, k, v), dim=16))
    assert not ids(diagnose(lambda q, k, v: (causal(q, k, v) + plain(q, k, v)) / 2, dim=16))


def strict(q, k, v):
    """The first query has no key left, and sees all."""
    return attention(q, k, v, below(q, k, -1))


def strict_without_the_first(q, k, v):
    return attention(q, k, v, below(q, k, -1)) * below(q, k, -1).any(-1, keepdim=True)


def inverted(q, k, v):
    return attention(q, k, v, ~below(q, k))


def two_ahead(q, k, v):
    return attention(q, k, v, below(q, k, 2))


def window(q, k, v, wide=5, ahead=99):
    return attention(q, k, v, below(q, k, ahead) & ~below(q, k, -wide))


def of_both_sides(q, k, v):
    return window(q, k, v, ahead=4)


def nearly_all_behind(q, k, v):
    return window(q, k, v, wide=14)


def two_behind(q, k, v):
    return window(q, k, v, wide=3, ahead=0)


def behind_and_itself(q, k, v):
    return attention(q, k, v, below(q, k))


def but_itself(q, k, v):
    t, s = q.shape[2], k.shape[2]
    return attention(q, k, v, ~torch.eye(s)[s - t :].bool())


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (behind_and_itself, None),
        (two_behind, None),
        (of_both_sides, None),
        (but_itself, None),
        (strict, "self-hidden"),
        (strict_without_the_first, "self-hidden"),
        (inverted, "mask-inverted"),
        (two_ahead, "future-seen"),
        (window, "future-seen"),
        (nearly_all_behind, None),
    ],
)
def test_which_keys_a_query_sees(function, cause):
    report = diagnose(function, dim=16)
    assert (cause in ids(report)) if cause else report.healthy, str(report)


def others(q, k):
    """Each key behind, and the first query itself."""
    return below(q, k, -1) | ~below(q, k, -1).any(-1, keepdim=True) & below(q, k)


def told(hidden_when_causal, hidden_else):
    def fn(q, k, v, causal=True):
        seen = (hidden_when_causal if causal else hidden_else)(q, k)
        t = torch.arange(k.shape[2])
        return attention(rotation(q, t[-q.shape[2] :]), rotation(k, t), v, seen)

    return fn


@pytest.mark.parametrize(
    ("causal", "otherwise", "cause"),
    [
        (below, everything, None),
        (below, below, None),
        (others, everything, "self-hidden"),
        (lambda q, k: below(q, k, 1), everything, "future-seen"),
        (lambda q, k: below(q, k, 3), below, "future-seen"),
        (everything, everything, "future-seen"),
        (everything, below, "future-seen"),
    ],
)
def test_causal_is_heeded(causal, otherwise, cause):
    report = diagnose(told(causal, otherwise), dim=16)
    assert ids(report) == ({cause} if cause else set()), str(report)


class Closed(nn.Module):
    """A norm, and projections in one weight of no known name."""

    def __init__(self, seen):
        super().__init__()
        self.norm, self.mixing, self.seen = nn.LayerNorm(64), nn.Parameter(torch.randn(4, 64, 64) / 8), seen

    def forward(self, x):
        q, k, v = ((self.norm(x) @ w).unflatten(-1, (4, 16)).transpose(1, 2) for w in self.mixing[:3])
        t = torch.arange(x.shape[1])
        out = attention(rotation(q, t), rotation(k, t), v, self.seen(q, k))
        return out.transpose(1, 2).flatten(2) @ self.mixing[3]


@pytest.mark.parametrize(
    ("seen", "cause"), [(below, None), (everything, None), (lambda q, k: below(q, k, 2), "future-seen")]
)
def test_a_norm_hides_no_key_ahead(seen, cause):
    report = diagnose(Closed(seen), dim=64, heads=4)
    assert report.finding("weights").verdict == "not checked"
    assert ids(report) == ({cause} if cause else set()), str(report)
    assert report.finding("future").verdict == ("wrong" if cause else "note" if seen is everything else "ok")


# Texts, heads and values


def over_texts(q, k, v):
    return attention(q, k, v, everything(q, k), dim=0)


def over_queries(q, k, v):
    return attention(q, k, v, everything(q, k), dim=-2)


def places_in_values(q, k, v):
    table = torch.arange(k.shape[2])[:, None] / 16 * torch.linspace(-1, 1, k.shape[3])
    return attention(q, k + table, v + table, everything(q, k))


def one_added_to_values(q, k, v):
    return attention(q, k, v, everything(q, k)) + 1


def turned_values(q, k, v):
    t = torch.arange(k.shape[2])
    return attention(rotation(q, t[-q.shape[2] :]), rotation(k, t), rotation(v, t), everything(q, k))


def one_head_fewer(q, k, v):
    out = torch.zeros_like(q)
    for head in range(q.shape[1] - 1):
        out[:, head] = attention(q[:, head, None], k[:, head, None], v[:, head, None], everything(q, k))[:, 0]
    return out


def values_of_the_first(q, k, v):
    return attention(q, k, v[:, :1].expand_as(v), everything(q, k))


def not_scaled(q, k, v):
    return attention(q, k, v, below(q, k), scale=math.sqrt(q.shape[-1]))


def scaled_twice(q, k, v):
    return attention(q, k, v, below(q, k), scale=1 / math.sqrt(q.shape[-1]))


def scaled_by_all(q, k, v):
    return attention(q, k, v, below(q, k), scale=1 / math.sqrt(q.shape[1]))


def scaled_otherwise(q, k, v):
    return attention(q, k, v, below(q, k), scale=1.2)


def distance(q, k, sign, slope=0.5):
    t, s = q.shape[2], k.shape[2]
    return sign * slope * (torch.arange(s) - torch.arange(s - t, s)[:, None]).abs()


def with_bias(q, k, v, sign=-1):
    logits = q @ k.mT / math.sqrt(q.shape[-1]) + distance(q, k, sign)
    return logits.masked_fill(~below(q, k), HIDDEN).softmax(-1) @ v


def reversed_bias(q, k, v):
    return with_bias(q, k, v, 1)


def wavy_bias(q, k, v):
    logits = q @ k.mT / math.sqrt(q.shape[-1]) + distance(q, k, 1, 2.0).sin()
    return logits.masked_fill(~below(q, k), HIDDEN).softmax(-1) @ v


def keys_turned_twice(q, k, v):
    t = torch.arange(k.shape[2])
    return attention(rotation(q, t[-q.shape[2] :]), rotation(rotation(k, t), t), v, below(q, k))


def queries_turned_twice(q, k, v):
    t = torch.arange(k.shape[2])
    return attention(rotation(rotation(q, t), t) if len(t) == q.shape[2] else q, rotation(k, t), v, below(q, k))


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (with_bias, None),
        (wavy_bias, None),
        (scaled_otherwise, None),
        (over_texts, "batch-mixed"),
        (over_queries, "weights-wrong"),
        (places_in_values, "values-moved"),
        (one_added_to_values, "values-moved"),
        (turned_values, "values-moved"),
        (one_head_fewer, "heads-mixed"),
        (values_of_the_first, "heads-mixed"),
        (not_scaled, "scale-missing"),
        (scaled_twice, "scale-wrong"),
        (scaled_by_all, "scale-wrong"),
        (reversed_bias, "penalty-reversed"),
        (keys_turned_twice, "turned-twice"),
        (queries_turned_twice, "turned-twice"),
    ],
)
def test_what_is_done_to_products_and_values(function, cause):
    report = diagnose(function, dim=16, heads=4)
    assert (cause in ids(report)) if cause else report.healthy, str(report)


def test_a_hint_at_a_mask_is_no_mask():
    """In torch's own layer `is_causal` goes with the mask; alone it raises in training, and else hides nothing."""
    report = diagnose(nn.MultiheadAttention(64, 4, batch_first=True), dim=64, heads=4)
    assert report.healthy
    (future,) = [found for found in report.findings if found.check == "future"]
    assert (future.verdict, "hints at a mask" in future.words) == ("note", True)
