"""Patients of the doctor that decode with a cache of keys and values: each with one fault, beside the sound version."""

import math

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation


class Caching:
    """Causal and turned, with a cache (keys, values, tokens seen), and parts that a subclass changes."""

    keep = None  # how many keys stay

    def places(self, t, seen):
        return seen + torch.arange(t)

    def turn_keys(self, k, places):
        return rotation(k, places)

    def grown(self, old, new):
        return torch.cat((old, new), 2)

    def grown_values(self, old, new):
        return self.grown(old, new)

    def below(self, t, s):
        return torch.ones(t, s).tril(s - t).bool()

    def scale(self, t, d):
        return d**-0.5

    def __call__(self, q, k, v, cache=None):
        seen = 0 if cache is None else cache[2]
        places = self.places(q.shape[2], seen)
        q, k = rotation(q, places), self.turn_keys(k, places)
        if cache is not None:
            k, v = self.grown(cache[0], k), self.grown_values(cache[1], v)
        logits = q @ k.mT * self.scale(q.shape[2], q.shape[3])
        w = logits.masked_fill(~self.below(q.shape[2], k.shape[2]), float("-inf")).softmax(-1)
        kept = slice(-self.keep if self.keep else 0, None)
        return w @ v, (k[:, :, kept], v[:, :, kept], seen + len(places))


class OneAtATime(Caching):
    def places(self, t, seen):
        assert t == 1 or not seen, "one token beside a cache"
        return super().places(t, seen)


class SeenByAll(Caching):
    """Not causal: all at once every query sees every key."""

    def below(self, t, s):
        return torch.ones(t, s).bool()


class AtOnePlace(Caching):
    """Several new tokens are all turned as the first of them."""

    def places(self, t, seen):
        return super().places(t, seen) if not seen else torch.full((t,), seen)


class LooksAhead(Caching):
    def below(self, t, s):
        return super().below(t, s) if t in (1, s) else torch.ones(t, s).bool()


class NewKeysFirst(Caching):
    def grown(self, old, new):
        return torch.cat((new, old), 2)

    def grown_values(self, old, new):
        return torch.cat((old, new), 2)


class NewValuesFirst(Caching):
    def grown_values(self, old, new):
        return torch.cat((new, old), 2)


class Lengthened(Caching):
    """New keys are scaled, as if sine and cosine disagreed."""

    def turn_keys(self, k, places):
        return rotation(k, places) * (1.0 if len(places) > 1 else 1.5)


class NotItselfInSteps(Caching):
    def below(self, t, s):
        return super().below(t, s) if t == s else torch.ones(t, s).tril(s - t - 1).bool()


class FirstInSteps(Caching):
    def below(self, t, s):
        return torch.ones(t, s).tril().bool()


class NoScaleInSteps(Caching):
    def scale(self, t, d):
        return super().scale(t, d) if t > 1 else 1.0


class TwiceInSteps(Caching):
    def scale(self, t, d):
        return super().scale(t, d) if t > 1 else 1 / d


class OnePlaceLate(Caching):
    def places(self, t, seen):
        return seen + torch.arange(t) + (seen > 0)


class FromTheCall(Caching):
    def places(self, t, seen):
        return torch.arange(t)


class TurnedAgain(Caching):
    """Keys of the cache are turned a step on in each call."""

    def grown(self, old, new):
        return torch.cat((rotation(old, torch.ones(old.shape[2])), new), 2)

    def grown_values(self, old, new):
        return torch.cat((old, new), 2)


class Dropping(Caching):
    keep = 20


class Drifting(Dropping):
    def __call__(self, q, k, v, cache=None):
        return super().__call__(q, k, v, None if cache is None else (*cache[:2], cache[0].shape[2]))


SICK = {
    AtOnePlace: "cache-wrong",
    LooksAhead: "future-seen",
    NewKeysFirst: "cache-wrong",
    NewValuesFirst: "cache-wrong",
    Lengthened: "not-a-rotation",
    NotItselfInSteps: "mask-off-by-one",
    FirstInSteps: "decode-aligned-first",
    NoScaleInSteps: "scale-missing",
    TwiceInSteps: "scale-wrong",
    OnePlaceLate: "offset-ignored",
    FromTheCall: "offset-ignored",
    TurnedAgain: "turned-twice",
    Drifting: "kept-for-seen",
}


@pytest.mark.parametrize("cls", [Caching, OneAtATime, Dropping])
def test_a_cache_is_sound(cls):
    report = diagnose(cls(), dim=16, heads=2)
    assert report.healthy, str(report)
    assert report.finding("cache").verdict == "ok"
    assert report.finding("eviction").verdict == ("ok" if cls is Dropping else "not checked")


@pytest.mark.parametrize("cls", SICK)
def test_what_is_wrong_with_a_cache_is_named(cls):
    report = diagnose(cls(), dim=16, heads=2)
    assert ids(report) == {SICK[cls]}, str(report)


def laid_otherwise(made):
    """Return code that takes and caches (b, t, h, d)."""

    def fn(q, k, v, cache=None):
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        cache = cache and (cache[0].transpose(1, 2), cache[1].transpose(1, 2), cache[2])
        out, (k, v, seen) = made(q, k, v, cache)
        return out.transpose(1, 2), (k.transpose(1, 2), v.transpose(1, 2), seen)

    return fn


@pytest.mark.parametrize("cls", [Caching, NewKeysFirst, TurnedAgain, Lengthened, Dropping, Drifting])
def test_the_same_in_another_order_of_axes(cls):
    report = diagnose(laid_otherwise(cls()), dim=16, heads=2, order="bthd")
    assert ids(report) == ({SICK[cls]} if cls in SICK else set()), str(report)


def test_a_decoder_that_sees_all_is_right_one_at_a_time():
    report = diagnose(SeenByAll(), dim=16, heads=2)
    assert report.finding("cache").verdict == "wrong"


def test_few_channels_decode_too():
    report = diagnose(NoScaleInSteps(), dim=8, heads=2)
    assert report.finding("cache").verdict == "wrong"


# A cache that a module holds


class Holding(nn.Module):
    """Llama as it was published: keys are written into the module, from `start_pos` on."""

    def __init__(
        self, writes_at=lambda start: start, reads_to=lambda start, t: start + t, turns_from=lambda start: start
    ):
        super().__init__()
        self.n_heads = 4
        self.writes_at, self.reads_to, self.turns_from = writes_at, reads_to, turns_from
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(64, 64) for _ in range(4))
        self.cache_k, self.cache_v = torch.zeros(2, 4, 4, 8192, 16)

    def forward(self, x, start_pos):
        t = x.shape[1]
        q, k, v = (layer(x).unflatten(-1, (4, 16)).transpose(1, 2) for layer in (self.wq, self.wk, self.wv))
        places = self.turns_from(start_pos) + torch.arange(t)
        q, k = rotation(q, places), rotation(k, places)
        at, end = self.writes_at(start_pos), self.reads_to(start_pos, t)
        self.cache_k, self.cache_v = self.cache_k.to(x), self.cache_v.to(x)
        self.cache_k[: len(x), :, at : at + t], self.cache_v[: len(x), :, at : at + t] = k.detach(), v.detach()
        keys, values = (cache[: len(x), :, :end] for cache in (self.cache_k, self.cache_v))
        logits = q @ keys.mT / math.sqrt(16)
        logits = logits.masked_fill(~torch.ones(t, keys.shape[2]).tril(keys.shape[2] - t).bool(), float("-inf"))
        return self.wo((logits.softmax(-1) @ values).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({}, None),
        ({"turns_from": lambda start: 0}, "cache-wrong"),
        ({"writes_at": lambda start: start + (start > 0)}, "cache-wrong"),
    ],
)
def test_a_cache_that_a_module_holds(given, cause):
    report = diagnose(Holding(**given), dim=64, heads=4)
    assert ids(report) == ({cause} if cause else set()), str(report)
    assert report.finding("own cache").verdict == ("wrong" if cause else "ok")


# What a cache looks like


class NeverGrown(Caching):
    """What the first call returns is handed back for good."""

    def __call__(self, q, k, v, cache=None):
        out, new = super().__call__(q, k, v, cache)
        return out, cache or new


class SlowlyTurned(Caching):
    """In steps each query is turned by a little less, so that no factor explains its products."""

    def places(self, t, seen):
        return seen + torch.arange(t) - 0.25 * (seen > 0)


def stacked(cache):
    return torch.stack(cache[:2])


def of_stack(stack):
    return (*stack, stack.shape[3])


LOOKS = {
    "tuple": (lambda out, cache, w: (out, cache), lambda cache: cache),
    "before weights": (lambda out, cache, w: (out, cache, w), lambda cache: cache),
    "behind weights": (lambda out, cache, w: (out, w, cache), lambda cache: cache),
    "before nothing": (lambda out, cache, w: (out, cache, None), lambda cache: cache),
    "tensor": (lambda out, cache, w: (out, stacked(cache)), of_stack),
    "tensor behind weights": (lambda out, cache, w: (out, w, stacked(cache)), of_stack),
    "dictionary": (lambda out, cache, w: (out, dict(enumerate(cache))), lambda cache: tuple(cache.values())),
    "number first": (lambda out, cache, w: (out, (cache[2], *cache[:2])), lambda cache: (*cache[1:], cache[0])),
}


def looking(made, look):
    pack, unpack = LOOKS[look]

    def fn(q, k, v, cache=None):
        out, cache = made(q, k, v, None if cache is None else unpack(cache))
        return pack(out, cache, torch.ones(*q.shape[:3], cache[2]))

    return fn


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("cls", [Caching, FromTheCall, NewKeysFirst, TurnedAgain])
def test_the_cache_is_found_in_what_comes_back(cls, look):
    report = diagnose(looking(cls(), look), dim=16, heads=2)
    assert report.finding("cache").verdict == ("wrong" if cls in SICK else "ok"), str(report)


@pytest.mark.parametrize("cls", [NeverGrown, SlowlyTurned])
def test_what_no_factor_explains_is_no_scale(cls):
    assert ids(diagnose(cls(), dim=12, heads=3)) == {"offset-ignored"}


@pytest.mark.parametrize("cls", [NoScaleInSteps, TwiceInSteps, FirstInSteps, NotItselfInSteps])
def test_the_first_step_is_read_where_channels_are_as_many_as_keys(cls):
    assert ids(diagnose(cls(), dim=12, heads=3)) == {SICK[cls]}
