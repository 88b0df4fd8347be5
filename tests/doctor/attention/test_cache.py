"""Decoding with a cache of keys and values gives what prefill gives, in whatever form the cache comes back."""

import math

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.attention.patients import DIM, HEADS, WIDTH, SelfAttention
from tests.doctor.blocks import attend_behind, below, rotate

SIZES = {"dim": 16, "heads": 2}


class Caching:
    """Causal and rotated, with a cache (keys, values, tokens seen), in steps that a subclass changes."""

    kept = None  # how many keys stay

    def positions(self, t, seen):
        return seen + torch.arange(t)

    def rotate_keys(self, k, positions):
        return rotate(k, positions)

    def grown_keys(self, old, new):
        return torch.cat((old, new), 2)

    def grown_values(self, old, new):
        return torch.cat((old, new), 2)

    def seen(self, t, s):
        return below(t, s)

    def scale(self, t, d):
        return d**-0.5

    def __call__(self, q, k, v, cache=None):
        before = 0 if cache is None else cache[2]
        positions = self.positions(q.shape[2], before)
        q, k = rotate(q, positions), self.rotate_keys(k, positions)
        if cache is not None:
            k, v = self.grown_keys(cache[0], k), self.grown_values(cache[1], v)
        scores = q @ k.mT * self.scale(q.shape[2], q.shape[3])
        weights = scores.masked_fill(~self.seen(q.shape[2], k.shape[2]), -math.inf).softmax(-1)
        first = 0 if self.kept is None else max(0, k.shape[2] - self.kept)
        return weights @ v, (k[:, :, first:], v[:, :, first:], before + len(positions))


class OneAtATime(Caching):
    """Take one token alone beside a cache."""

    def positions(self, t, seen):
        assert t == 1 or not seen, "one token beside a cache"
        return super().positions(t, seen)


class Evicting(Caching):
    """Keep 20 keys."""

    kept = 20


class AtOnePosition(Caching):
    """Rotate several new tokens as the first of them."""

    def positions(self, t, seen):
        return torch.full((t,), seen) if seen else super().positions(t, seen)


class SeesAhead(Caching):
    """See all keys where several new tokens come."""

    def seen(self, t, s):
        return super().seen(t, s) if t in (1, s) else torch.ones(t, s).bool()


class SeenByAll(Caching):
    """See all keys: one at a time that is causal, all at once it is not."""

    def seen(self, t, s):
        return torch.ones(t, s).bool()


class NewKeysFirst(Caching):
    """Put new keys before those of the cache."""

    def grown_keys(self, old, new):
        return torch.cat((new, old), 2)


class NewValuesFirst(Caching):
    """Put new values before those of the cache."""

    def grown_values(self, old, new):
        return torch.cat((new, old), 2)


class LongerInSteps(Caching):
    """Scale the keys of a lone token, as if sine and cosine disagreed."""

    def rotate_keys(self, k, positions):
        return rotate(k, positions) * (1.0 if len(positions) > 1 else 1.5)


class NotItselfInSteps(Caching):
    """Hide the own key of a new token."""

    def seen(self, t, s):
        return below(t, s) if t == s else below(t, s, -1)


class FirstInSteps(Caching):
    """Align the queries with the first keys."""

    def seen(self, t, s):
        return torch.ones(t, s).tril().bool()


class NoScaleInSteps(Caching):
    """Leave the scale out for a lone token."""

    def scale(self, t, d):
        return super().scale(t, d) if t > 1 else 1.0


class ScaledTwiceInSteps(Caching):
    """Apply the scale twice for a lone token."""

    def scale(self, t, d):
        return super().scale(t, d) if t > 1 else 1 / d


class OnePositionLate(Caching):
    """Count new tokens from one position too late."""

    def positions(self, t, seen):
        return super().positions(t, seen + 1 if seen else seen)


class FromTheCall(Caching):
    """Count positions from 0 in each call."""

    def positions(self, t, seen):
        return torch.arange(t)


class RotatedAgain(Caching):
    """Rotate the keys of the cache a step on in each call."""

    def grown_keys(self, old, new):
        return torch.cat((rotate(old, torch.ones(old.shape[2])), new), 2)


class CountsKept(Evicting):
    """Count the keys that are kept, not the tokens seen."""

    def __call__(self, q, k, v, cache=None):
        return super().__call__(q, k, v, None if cache is None else (*cache[:2], cache[0].shape[2]))


class NeverGrown(Caching):
    """Hand back what the first call returned for good."""

    def __call__(self, q, k, v, cache=None):
        out, new = super().__call__(q, k, v, cache)
        return out, cache or new


class BitBehind(Caching):
    """Rotate a query a little less in steps, so that no factor explains its products."""

    def positions(self, t, seen):
        return super().positions(t, seen - 0.25 if seen else seen)


WRONG = {
    Caching: "",
    OneAtATime: "",
    Evicting: "",
    AtOnePosition: "cache-wrong",
    SeesAhead: "future-seen",
    SeenByAll: "offset-ignored",
    NewKeysFirst: "cache-wrong",
    NewValuesFirst: "cache-wrong",
    LongerInSteps: "not-a-rotation",
    NotItselfInSteps: "mask-off-by-one",
    FirstInSteps: "decode-aligned-first",
    NoScaleInSteps: "scale-missing",
    ScaledTwiceInSteps: "scale-wrong",
    OnePositionLate: "offset-ignored",
    FromTheCall: "offset-ignored",
    RotatedAgain: "turned-twice",
    CountsKept: "kept-for-seen",
    NeverGrown: "offset-ignored",
    BitBehind: "offset-ignored",
}


@pytest.mark.parametrize("cls", WRONG)
def test_steps_with_a_cache_give_what_prefill_gives(cls):
    assert_report(diagnose(cls(), **SIZES), WRONG[cls])


@pytest.mark.parametrize(("cls", "eviction"), [(Caching, "not checked"), (OneAtATime, "not checked"), (Evicting, "ok")])
def test_keys_that_are_dropped_are_checked(cls, eviction):
    assert verdicts(diagnose(cls(), **SIZES), "cache", "eviction") == ["ok", eviction]


@pytest.mark.parametrize(
    "cls", [NoScaleInSteps, ScaledTwiceInSteps, FirstInSteps, NotItselfInSteps, NeverGrown, BitBehind]
)
def test_the_first_step_is_read_where_channels_are_as_many_as_keys(cls):
    assert_report(diagnose(cls(), dim=12, heads=3), WRONG[cls])


def test_a_scale_of_few_channels_is_not_told_from_other_faults():
    assert_report(diagnose(NoScaleInSteps(), dim=8, heads=2), "offset-ignored")


def in_order(patient, order):
    """Return code that takes and caches contents in another order of axes than (b, h, t, d)."""
    outward = [*map("bhtd".index, order)]
    inward = [*map(order.index, "bhtd")]

    def call(q, k, v, cache=None):
        q, k, v = (part.permute(inward) for part in (q, k, v))
        cache = cache and (cache[0].permute(inward), cache[1].permute(inward), cache[2])
        out, (k, v, seen) = patient(q, k, v, cache)
        return out.permute(outward), (k.permute(outward), v.permute(outward), seen)

    return call


@pytest.mark.parametrize("order", ["bthd", "tbhd"])
@pytest.mark.parametrize("cls", [Caching, NewKeysFirst, RotatedAgain, LongerInSteps, Evicting, CountsKept])
def test_the_same_in_another_order_of_axes(cls, order):
    assert_report(diagnose(in_order(cls(), order), order=order, **SIZES), WRONG[cls])


def evicting_without(drift):
    """Return an attention of 64 channels that keeps 16 keys, and counts tokens seen, or keys kept (VeloxQuant#389)."""

    class Sixteen(CountsKept if drift else Evicting):
        kept = 16

    return Sixteen()


@pytest.mark.parametrize(("drift", "wrong"), [(False, ""), (True, "kept-for-seen")])
def test_sixteen_keys_of_64_channels_are_kept(drift, wrong):
    assert_report(diagnose(evicting_without(drift)), wrong)


def rotating_what_is_cached(q, k, v, cache=None):
    """Cache keys as they come, and rotate all of them in each call, those of a cache given once more (shainet#110)."""
    if cache is not None:
        k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
    t, s = q.shape[2], k.shape[2]
    q, k = rotate(q, torch.arange(s - t, s)), rotate(k, torch.arange(s))
    return attend_behind(q, k, v), (k, v)


def keys_rotated_twice(q, k, v, cache=None):
    """Rotate keys before they are cached and once more as they are: alike in prefill and in decoding."""
    seen = 0 if cache is None else cache[0].shape[2]
    positions = torch.arange(seen, seen + q.shape[2])
    q, k = rotate(q, positions), rotate(rotate(k, positions), positions)
    if cache is not None:
        k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
    return attend_behind(q, k, v), (k, v)


@pytest.mark.parametrize(
    ("patient", "wrong"),
    [(rotating_what_is_cached, "turned-twice"), (keys_rotated_twice, "sides-differ turned-twice")],
)
def test_keys_are_rotated_once(patient, wrong):
    assert_report(diagnose(patient), wrong)


class OfEmbeddings(SelfAttention):
    """Embeddings are (b, t, d), and the cache is (b, h, s, d)."""

    def grown(self, old, new):
        return torch.cat((old, new), 2)

    def forward(self, x, cache=None):
        q, k, v = self.project(x)
        seen = 0 if cache is None else cache[0].shape[2]
        positions = torch.arange(seen, seen + q.shape[2])
        q, k = rotate(q, positions), rotate(k, positions)
        if cache is not None:
            k, v = self.grown(cache[0], k), torch.cat((cache[1], v), 2)
        return self.o_proj(attend_behind(q, k, v).transpose(1, 2).flatten(2)), (k, v)


class OfEmbeddingsRotatedAgain(OfEmbeddings):
    """Rotate the keys of the cache a step on in each call."""

    def grown(self, old, new):
        return super().grown(rotate(old, torch.ones(old.shape[2])), new)


class OfEmbeddingsNewFirst(OfEmbeddings):
    """Put new keys before those of the cache."""

    def grown(self, old, new):
        return super().grown(new, old)


@pytest.mark.parametrize("order", [None, "btd"])
@pytest.mark.parametrize(
    ("cls", "wrong"),
    [(OfEmbeddings, ""), (OfEmbeddingsRotatedAgain, "turned-twice"), (OfEmbeddingsNewFirst, "cache-wrong")],
)
def test_the_cache_of_embeddings(cls, wrong, order):
    report = diagnose(cls(), dim=DIM, order=order)
    assert_report(report, wrong)
    if cls is OfEmbeddingsNewFirst:
        assert "before the old ones" in finding(report, "cache").words


def test_a_cache_that_does_not_come_back_is_not_checked():
    report = diagnose(lambda q, k, v, cache=None: nn.functional.scaled_dot_product_attention(q, k, v))
    assert_report(report)
    assert verdicts(report, "cache") == ["not checked"]


# The form of the cache


def stacked(cache):
    return torch.stack(cache[:2])


def from_stack(stack):
    return (*stack, stack.shape[3])


FORMS = {
    "tuple": (lambda out, cache, weights: (out, cache), lambda cache: cache),
    "before weights": (lambda out, cache, weights: (out, cache, weights), lambda cache: cache),
    "behind weights": (lambda out, cache, weights: (out, weights, cache), lambda cache: cache),
    "before nothing": (lambda out, cache, weights: (out, cache, None), lambda cache: cache),
    "tensor": (lambda out, cache, weights: (out, stacked(cache)), from_stack),
    "tensor behind weights": (lambda out, cache, weights: (out, weights, stacked(cache)), from_stack),
    "dictionary": (lambda out, cache, weights: (out, dict(enumerate(cache))), lambda cache: tuple(cache.values())),
    "number first": (lambda out, cache, weights: (out, (cache[2], *cache[:2])), lambda cache: (*cache[1:], cache[0])),
}
WITHOUT_NAME = ("tensor", "tensor behind weights", "dictionary")  # of a fault: what is in these is not looked into


def in_form(patient, form):
    pack, unpack = FORMS[form]

    def call(q, k, v, cache=None):
        out, cache = patient(q, k, v, None if cache is None else unpack(cache))
        return pack(out, cache, torch.ones(*q.shape[:3], cache[2]))

    return call


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cls", [Caching, FromTheCall, NewKeysFirst, RotatedAgain])
def test_the_cache_is_found_in_what_comes_back(cls, form):
    wrong = WRONG[cls]
    if wrong and form in WITHOUT_NAME:
        wrong = "offset-ignored"
    assert_report(diagnose(in_form(cls(), form), **SIZES), wrong)


# A cache that a module holds


class Holding(nn.Module):
    """Write keys and values into the module, from `start_pos` on, as Llama as it was published."""

    def __init__(self, write=lambda start: start, rotate=lambda start: start):
        super().__init__()
        self.n_heads, self.write, self.rotate = HEADS, write, rotate
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(DIM, DIM) for _ in range(4))
        self.cache_k, self.cache_v = torch.zeros(2, 4, HEADS, 8192, WIDTH)

    def forward(self, x, start_pos):
        b, t, _ = x.shape
        q, k, v = (layer(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for layer in (self.wq, self.wk, self.wv))
        positions = self.rotate(start_pos) + torch.arange(t)
        q, k = rotate(q, positions), rotate(k, positions)
        first = self.write(start_pos)
        self.cache_k, self.cache_v = self.cache_k.to(x), self.cache_v.to(x)
        self.cache_k[:b, :, first : first + t], self.cache_v[:b, :, first : first + t] = k.detach(), v.detach()
        keys, values = (cache[:b, :, : start_pos + t] for cache in (self.cache_k, self.cache_v))
        scores = (q @ keys.mT / math.sqrt(WIDTH)).masked_fill(~below(t, keys.shape[2]), -math.inf)
        return self.wo((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


HELD = {
    "sound": ({}, ""),
    "rotated from 0": ({"rotate": lambda start: 0}, "cache-wrong"),
    "written one late": ({"write": lambda start: start + 1 if start else 0}, "cache-wrong"),
}


@pytest.mark.parametrize("name", HELD)
def test_a_cache_that_a_module_holds(name):
    settings, wrong = HELD[name]
    report = diagnose(Holding(**settings), dim=DIM, heads=HEADS)
    assert_report(report, wrong)
    assert verdicts(report, "cache") == ["wrong" if wrong else "ok"]


# A cache that is asked for


class OnRequest(SelfAttention):
    """Return the cache where `use_cache` says so."""

    def forward(self, x, past_kv=None, use_cache=False):
        q, k, v = self.project(x)
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), self.grown_values(past_kv[1], v)
        out = self.o_proj(self.joined(self.weights(self.scores(q, k)) @ v))
        return out, (k, v) if use_cache else None

    def grown_values(self, old, new):
        return torch.cat((old, new), 2)


class SeesAllInSteps(OnRequest):
    """See all keys where there are more keys than queries."""

    def seen(self, t, s):
        return torch.ones(t, s).bool() if s > t else super().seen(t, s)


class AlignedWithTheFirst(OnRequest):
    """Align the queries with the first keys."""

    def seen(self, t, s):
        return torch.ones(t, s).tril().bool()


class PutsNewValuesFirst(OnRequest):
    """Put new values before those of the cache."""

    def grown_values(self, old, new):
        return torch.cat((new, old), 2)


class CausalByName(OnRequest):
    """See every key."""

    hides_ahead = False


class QueriesForKeys(OnRequest):
    """Take queries for keys where no cache is given."""

    def scores(self, q, k):
        return super().scores(q, q if q.shape == k.shape else k)


class HidesItself(OnRequest):
    """Hide the own key, so that the first query has none."""

    def seen(self, t, s):
        return below(t, s, -1)


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (OnRequest, ""),
        (SeesAllInSteps, "future-seen"),
        (AlignedWithTheFirst, "decode-aligned-first"),
        (PutsNewValuesFirst, "cache-wrong"),
        (CausalByName, "future-seen offset-ignored"),
        (QueriesForKeys, "one-for-both"),
        (HidesItself, "self-hidden"),
    ],
)
def test_a_cache_that_is_asked_for(cls, wrong):
    assert_report(diagnose(cls(), dim=DIM, heads=HEADS), wrong)


def test_a_cache_that_is_asked_for_is_checked():
    assert verdicts(diagnose(OnRequest(), dim=DIM, heads=HEADS), "cache") == ["ok"]


class Beside(SelfAttention):
    """Return weights, or nothing, beside the result, and no cache."""

    hides_ahead = False

    def __init__(self, weights):
        super().__init__()
        self.gives_weights = weights

    def forward(self, x, mask=None, kv_cache=None):
        q, k, v = self.project(x)
        scores = self.scores(q, k)
        scores = scores if mask is None else scores.masked_fill(mask[:, None] == 0, -1e9)
        out = self.o_proj(self.joined(scores.softmax(-1) @ v))
        return out, scores if self.gives_weights else None


@pytest.mark.parametrize("weights", [True, False])
def test_what_comes_beside_the_result_is_no_cache(weights):
    report = diagnose(Beside(weights), dim=DIM)
    assert_report(report)
    assert verdicts(report, "cache", "padding") == ["not checked", "ok"]
