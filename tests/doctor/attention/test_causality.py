"""Which keys a query sees: none ahead where the attention is causal, its own, those of a window; and what it says."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.attention.patients import behind, every_key, masked, masked_by
from tests.doctor.blocks import attend_behind, rotate, rotate_pair

# Masks without a parameter


def strict(q, k, v):
    """Hide the query's own key; the first query has no key left, and sees all."""
    return masked(q, k, v, behind(q, k, -1))


def strict_without_the_first(q, k, v):
    """Hide the query's own key, and give zeros to the first query."""
    return masked(q, k, v, behind(q, k, -1)) * behind(q, k, -1).any(-1, keepdim=True)


def inverted(q, k, v):
    """Show what should be hidden."""
    return masked(q, k, v, ~behind(q, k))


def window(wide, ahead):
    """Return an attention to so many keys, its own among them, and some ahead."""
    return lambda q, k, v: masked(q, k, v, behind(q, k, ahead) & ~behind(q, k, -wide))


def but_itself(q, k, v):
    """See every key but the own one."""
    s = k.shape[2]
    return masked(q, k, v, ~torch.eye(s)[s - q.shape[2] :].bool())


MASKS = {
    "causal": (lambda q, k, v: masked(q, k, v, behind(q, k)), {}, ""),
    "one ahead": (lambda q, k, v: masked(q, k, v, behind(q, k, 1)), {}, "future-seen"),
    "two ahead": (lambda q, k, v: masked(q, k, v, behind(q, k, 2)), {}, "future-seen"),
    "strict": (strict, {}, "self-hidden"),
    "strict without the first": (strict_without_the_first, {}, "self-hidden values-moved"),
    "inverted": (inverted, {}, "mask-inverted"),
    "a window of 3 keys": (window(3, 0), {}, ""),
    "a window open to the future": (window(5, 99), {}, "future-seen"),
    "a window of both sides": (window(5, 4), {}, ""),
    "nearly all behind, all ahead": (window(14, 99), {}, ""),
    "all but its own": (but_itself, {}, ""),
    "blocks of two": (masked_by(lambda t, s: s // 2 <= t // 2), {"dim": 24, "heads": 3}, ""),
    "every other key": (masked_by(lambda t, s: (s <= t) & ((t - s) % 2 == 0)), {"dim": 24, "heads": 3}, ""),
    "a window of 3": (masked_by(lambda t, s: (s <= t) & (s > t - 3)), {"dim": 24, "heads": 3}, ""),
    "ahead alone": (masked_by(lambda t, s: (s >= t) | (t == t.max())), {"dim": 24, "heads": 3}, "mask-inverted"),
    "one behind and all ahead": (masked_by(lambda t, s: s >= t - 1), {"dim": 24, "heads": 3}, "future-seen"),
    "three behind and two ahead": (
        masked_by(lambda t, s: (s > t - 4) & (s <= t + 2)),
        {"dim": 24, "heads": 3},
        "future-seen",
    ),
    "three behind and three ahead": (masked_by(lambda t, s: (s > t - 4) & (s <= t + 3)), {"dim": 24, "heads": 3}, ""),
}


@pytest.mark.parametrize("name", MASKS)
def test_no_key_ahead_is_seen_and_its_own_is(name):
    patient, sizes, wrong = MASKS[name]
    assert_report(diagnose(patient, **({"dim": 16} | sizes)), wrong)


@pytest.mark.parametrize(("name", "ahead"), [("one ahead", 1), ("two ahead", 2), ("three behind and two ahead", 2)])
def test_the_number_is_how_many_keys_ahead_are_seen(name, ahead):
    patient, sizes, _ = MASKS[name]
    assert finding(diagnose(patient, **({"dim": 16} | sizes)), "future").number == ahead


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("causal", "ok"), ("every other key", "ok"), ("blocks of two", "note"), ("three behind and three ahead", "note")],
)
def test_an_encoder_is_noted(name, verdict):
    patient, sizes, _ = MASKS[name]
    assert verdicts(diagnose(patient, **({"dim": 16} | sizes)), "future") == [verdict]


def test_the_width_of_a_window_is_told():
    assert "3 keys" in finding(diagnose(window(3, 0), dim=16), "future").words


class Sliding(nn.Module):
    """Say a window of 8 keys, and see `seen` of them and some ahead; fewer queries are taken for the first ones."""

    def __init__(self, seen=8, ahead=0):
        super().__init__()
        self.sliding_window, self.seen, self.ahead = 8, seen, ahead

    def forward(self, q, k, v):
        distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        hidden = (distance < -self.ahead) | (distance >= self.seen)
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        return scores.softmax(-1) @ v


@pytest.mark.parametrize(
    ("seen", "ahead", "wrong"),
    [
        (8, 0, "decode-aligned-first"),
        (9, 0, "decode-aligned-first mask-off-by-one"),
        (4, 99, "future-seen"),
    ],
)
def test_a_window_is_as_wide_as_the_module_says(seen, ahead, wrong):
    assert_report(diagnose(Sliding(seen, ahead)), wrong)


@pytest.mark.parametrize(("seen", "heads", "dim"), [(2, 3, 20), (3, 1, 16), (99, 5, 24)])
def test_products_are_measured_in_a_narrow_window(seen, heads, dim):
    assert verdicts(diagnose(Sliding(seen), dim=dim, heads=heads), "scale") == ["ok"]


class Blocks(nn.Module):
    """See the block of 8 keys before and its own, `ahead` keys of the future among them."""

    def __init__(self, ahead=0):
        super().__init__()
        self.ahead = ahead

    def forward(self, q, k, v):
        s = torch.arange(k.shape[2])
        t = s[-q.shape[2] :, None]
        seen = (s <= t + self.ahead) & (s // 8 <= t // 8) & (s // 8 >= t // 8 - 1)
        return masked(q, k, v, seen)


@pytest.mark.parametrize(("ahead", "wrong"), [(0, ""), (1, "future-seen")])
def test_a_key_ahead_is_found_inside_of_a_block(ahead, wrong):
    assert_report(diagnose(Blocks(ahead)), wrong)


class WholeWindows(nn.Module):
    """Take embeddings (b, t, d) of whole windows of 8 tokens alone."""

    def __init__(self, ahead=0):
        super().__init__()
        self.ahead = ahead

    def forward(self, q, k, v):
        assert q.shape[1] % 8 == 0, "whole windows only"
        seen = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril(self.ahead).triu(-7)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


@pytest.mark.parametrize(("ahead", "wrong"), [(0, ""), (1, "future-seen")])
def test_whole_windows_without_layers(ahead, wrong):
    report = diagnose(WholeWindows(ahead), dim=16, order="btd")
    assert_report(report, wrong)
    assert wrong or "8 keys" in finding(report, "future").words


# What says that it is causal


class Says(nn.Module):
    """Say whether it is causal, and be so or not."""

    def __init__(self, declared, hides):
        super().__init__()
        self.is_causal, self.hides = declared, hides

    def forward(self, q, k, v):
        return masked(q, k, v, behind(q, k) if self.hides else every_key(q, k))


class CausalByName(Says):
    """Say by its name that it is causal."""


class NonCausal(Says):
    """Say by its name that it is not causal."""


class CausalByMask(Says):
    """Leave it to a mask from outside, whatever it says."""

    def forward(self, q, k, v, mask=None):
        return masked(q, k, v, every_key(q, k) if mask is None else mask.bool())


@pytest.mark.parametrize(
    ("cls", "declared", "hides", "wrong"),
    [
        (Says, True, True, ""),
        (Says, True, False, "future-seen"),
        (Says, False, True, ""),
        (Says, False, False, ""),
        (CausalByName, True, True, ""),
        (CausalByName, True, False, "future-seen"),
        (CausalByName, False, True, ""),
        (CausalByName, False, False, "future-seen"),
        (NonCausal, True, True, ""),
        (NonCausal, True, False, "future-seen"),
        (NonCausal, False, True, ""),
        (NonCausal, False, False, ""),
        (CausalByMask, True, True, "future-seen"),
        (CausalByMask, True, False, "future-seen"),
        (CausalByMask, False, True, ""),
        (CausalByMask, False, False, ""),
    ],
)
def test_what_says_that_it_is_causal_is(cls, declared, hides, wrong):
    assert_report(diagnose(cls(declared, hides), dim=16), wrong)


def test_a_function_around_one_module_says_what_that_says():
    causal, plain = CausalByName(False, False), NonCausal(False, False)
    assert_report(diagnose(lambda q, k, v: causal(q, k, v), dim=16), "future-seen")
    assert_report(diagnose(lambda q, k, v: plain(q, k, v), dim=16))
    assert_report(diagnose(lambda q, k, v: (causal(q, k, v) + plain(q, k, v)) / 2, dim=16))


# A parameter `causal`


def others(q, k):
    """Each key behind, and the first query itself."""
    strictly = behind(q, k, -1)
    return strictly | ~strictly.any(-1, keepdim=True) & behind(q, k)


def switched(where_causal, elsewhere):
    """Return a rotated attention with a mask where it is causal and another elsewhere."""

    def attend(q, k, v, causal=True):
        seen = where_causal(q, k) if causal else elsewhere(q, k)
        positions = torch.arange(k.shape[2])
        return masked(rotate(q, positions[-q.shape[2] :]), rotate(k, positions), v, seen)

    return attend


def leaking(q, k, v, causal=False):
    """See the next key where it is causal."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=behind(q, k, 1) if causal else None)


def tight(q, k, v, causal=False):
    return attend_behind(q, k, v) if causal else F.scaled_dot_product_attention(q, k, v)


def always_causal(q, k, v, causal=False):
    """Be causal whatever the parameter says."""
    return attend_behind(q, k, v)


CAUSAL = {
    "heeded": (switched(behind, every_key), {"dim": 16}, "", ""),
    "causal in any case": (switched(behind, behind), {"dim": 16}, "", "future"),
    "its own key hidden": (switched(others, every_key), {"dim": 16}, "self-hidden", ""),
    "one ahead": (switched(lambda q, k: behind(q, k, 1), every_key), {"dim": 16}, "future-seen", ""),
    "three ahead": (switched(lambda q, k: behind(q, k, 3), behind), {"dim": 16}, "future-seen", ""),
    "ignored": (switched(every_key, every_key), {"dim": 16}, "future-seen", ""),
    "exchanged": (switched(every_key, behind), {"dim": 16}, "future-seen", ""),
    "heeded, off by default": (tight, {}, "", ""),
    "one ahead, off by default": (leaking, {}, "future-seen", ""),
    "causal in any case, off by default": (always_causal, {}, "", "future"),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_is_heeded(name):
    patient, settings, wrong, notes = CAUSAL[name]
    assert_report(diagnose(patient, **settings), wrong, notes)


def test_a_hint_at_a_mask_is_no_mask():
    """In torch's own layer `is_causal` goes with the mask; alone it raises in training, and else hides nothing."""
    report = diagnose(nn.MultiheadAttention(64, 4, batch_first=True), dim=64, heads=4)
    assert_report(report, notes="future")
    assert verdicts(report, "future") == ["note"]


# A layer that cannot be opened


class Closed(nn.Module):
    """Put a norm first, and all projections in one weight of no known name."""

    def __init__(self, seen):
        super().__init__()
        self.norm, self.mixing, self.seen = nn.LayerNorm(64), nn.Parameter(torch.randn(4, 64, 64) / 8), seen

    def forward(self, x):
        q, k, v = ((self.norm(x) @ w).unflatten(-1, (4, 16)).transpose(1, 2) for w in self.mixing[:3])
        q, k = rotate_pair(q, k, torch.arange(x.shape[1]))
        return masked(q, k, v, self.seen(q, k)).transpose(1, 2).flatten(2) @ self.mixing[3]


CLOSED = {
    "causal": (behind, "ok", ""),
    "an encoder": (every_key, "note", ""),
    "two ahead": (lambda q, k: behind(q, k, 2), "wrong", "future-seen"),
}


@pytest.mark.parametrize("name", CLOSED)
def test_a_norm_hides_no_key_ahead(name):
    seen, verdict, wrong = CLOSED[name]
    report = diagnose(Closed(seen), dim=64, heads=4)
    assert_report(report, wrong)
    assert verdicts(report, "future", "weights") == [verdict, "not checked"]
