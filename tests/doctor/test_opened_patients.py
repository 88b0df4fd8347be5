"""Patients of the doctor that bring queries, keys and values in themselves: each with one fault, beside the sound."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose
from tests.doctor.cases import ids, thetas

HEADS, KEYS, WIDE = 4, 2, 16
DIM = HEADS * WIDE


def joined(x):
    return x.transpose(1, 2).flatten(2)


def turned(x, places, speeds=None):
    angle = places[..., None] * thetas(x.shape[-1]) if speeds is None else places[..., None] * speeds
    cos, sin, (one, two) = angle.cos().to(x), angle.sin().to(x), x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


class Grouped(nn.Module):
    """Causal, with two heads of queries to each of keys, and parts that a subclass changes."""

    causal, kv_heads = True, KEYS

    def __init__(self):
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.o_proj = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.k_proj, self.v_proj = (nn.Linear(DIM, self.kv_heads * WIDE) for _ in range(2))

    def brought(self, x):
        layers = (self.q_proj, self.k_proj, self.v_proj)
        return [layer(x).unflatten(-1, (-1, WIDE)).transpose(1, 2) for layer in layers]

    def keys(self, k):
        return k.repeat_interleave(HEADS // self.kv_heads, 1)

    def values(self, v):
        return v.repeat_interleave(HEADS // self.kv_heads, 1)

    def products(self, q, k):
        return q @ k.mT / math.sqrt(WIDE)

    def weights(self, logits):
        hidden = torch.ones(logits.shape[-2:]).triu(1).bool() if self.causal else torch.zeros(1, 1).bool()
        return logits.masked_fill(hidden, float("-inf")).softmax(-1)

    def summed(self, w, v):
        return w @ v

    def forward(self, x):
        q, k, v = self.brought(x)
        w = self.weights(self.products(q, self.keys(k)))
        return self.o_proj(joined(self.summed(w, self.values(v))))


class AllGrouped(Grouped):
    causal = False


# Heads


class ValuesTiled(Grouped):
    def values(self, v):
        return v.repeat(1, HEADS // KEYS, 1, 1)


class KeysTiled(Grouped):
    def keys(self, k):
        return k.repeat(1, HEADS // KEYS, 1, 1)


class KeysFlipped(Grouped):
    def keys(self, k):
        return super().keys(k).flip(1)


class LastHeadWithoutKeys(Grouped):
    def products(self, q, k):
        logits = torch.zeros(len(q), HEADS, q.shape[2], k.shape[2])
        for head in range(HEADS - 1):
            logits[:, head] = q[:, head] @ k[:, head].mT / math.sqrt(WIDE)
        return logits


class Single(Grouped):
    kv_heads = 1


@pytest.mark.parametrize(
    ("cls", "cause"),
    [
        (Grouped, None),
        (AllGrouped, None),
        (Single, None),
        (ValuesTiled, "groups-tiled"),
        (KeysTiled, "groups-tiled"),
        (KeysFlipped, "heads-mixed"),
        (LastHeadWithoutKeys, "heads-mixed"),
    ],
)
def test_heads_that_share_keys(cls, cause):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert ids(report) == ({cause} if cause else set()), str(report)


def test_heads_are_as_many_as_the_module_says():
    assert ids(diagnose(ValuesTiled(), dim=DIM, heads=2)) == {"groups-tiled"}
    assert not ids(diagnose(Grouped(), dim=DIM, heads=8))


class Small(nn.Module):
    """As narrow as the doctor can open."""

    def __init__(self, scale=8**-0.5):
        super().__init__()
        self.num_heads, self.scale = 4, scale
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.proj(joined((q @ k.mT * self.scale).softmax(-1) @ v))


def test_a_narrow_module_is_opened():
    report = diagnose(Small(), dim=32, heads=4)
    assert report.healthy, str(report)
    assert report.finding("values").verdict == "ok"


# What comes in by one layer


class Fused(Grouped):
    """One layer for queries, keys and values of a group, as in InternLM2."""

    def __init__(self):
        super().__init__()
        del self.q_proj, self.k_proj, self.v_proj
        self.wqkv = nn.Linear(DIM, DIM + 2 * KEYS * WIDE)

    def brought(self, x):
        groups = self.wqkv(x).unflatten(-1, (KEYS, -1, WIDE))
        parts = groups[..., :-2, :].flatten(2, 3), groups[..., -2, :], groups[..., -1, :]
        return [part.transpose(1, 2) for part in parts]


class FusedWithoutScale(Fused):
    def products(self, q, k):
        return q @ k.mT


class OfPairs(Grouped):
    """One layer for keys and values."""

    def __init__(self):
        super().__init__()
        del self.k_proj, self.v_proj
        self.to_kv = nn.Linear(DIM, 2 * KEYS * WIDE)

    def brought(self, x):
        parts = (self.q_proj(x), *self.to_kv(x).chunk(2, -1))
        return [part.unflatten(-1, (-1, WIDE)).transpose(1, 2) for part in parts]


class OfPairsByTheWidth(OfPairs):
    def products(self, q, k):
        return q @ k.mT / math.sqrt(DIM)


class ByChannel(Grouped):
    """One layer, of which each channel has its query, key and value side by side."""

    kv_heads = HEADS

    def __init__(self):
        super().__init__()
        del self.q_proj, self.k_proj, self.v_proj
        self.qkv = nn.Linear(DIM, 3 * DIM)

    def brought(self, x):
        return self.qkv(x).unflatten(-1, (WIDE, 3, HEADS)).permute(3, 0, 4, 1, 2).unbind()


class ByHead(ByChannel):
    def brought(self, x):
        return self.qkv(x).unflatten(-1, (HEADS, 3, WIDE)).transpose(1, 2).unbind(-2)


class DividedTwice(ByHead):
    def products(self, q, k):
        return q @ k.mT / WIDE


class Lazy(Grouped):
    """Layers that take their width from the first call."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = nn.LazyLinear(DIM), nn.LazyLinear(DIM)
        self.k_proj, self.v_proj = (nn.LazyLinear(KEYS * WIDE) for _ in range(2))


class Narrow(nn.Module):
    """Queries come through a narrow layer too, keys of whose turning part all heads share; values are narrower."""

    def __init__(self, scaled=2 * WIDE):
        super().__init__()
        self.num_heads, self.scaled = HEADS, scaled
        self.q_a_proj, self.q_a_layernorm, self.q_b_proj = (
            nn.Linear(DIM, 40),
            nn.LayerNorm(40),
            nn.Linear(40, HEADS * 2 * WIDE),
        )
        self.kv_a_proj_with_mqa, self.kv_b_proj = nn.Linear(DIM, 48 + 8), nn.Linear(48, HEADS * (24 + WIDE))
        self.o_proj = nn.Linear(HEADS * WIDE, DIM)

    def forward(self, x):
        t = torch.arange(x.shape[1])
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        narrow, shared = self.kv_a_proj_with_mqa(x).split((48, 8), -1)
        k, v = self.kv_b_proj(narrow).unflatten(-1, (HEADS, -1)).transpose(1, 2).split((24, WIDE), -1)
        k = torch.cat((k, turned(shared[:, None], t).expand(-1, HEADS, -1, -1)), -1)
        q = torch.cat((q[..., :24], turned(q[..., 24:], t)), -1)
        w = (q @ k.mT / math.sqrt(self.scaled)).softmax(-1)
        return self.o_proj(joined(w @ v))


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (Fused, None),
        (FusedWithoutScale, "scale-missing"),
        (OfPairs, None),
        (OfPairsByTheWidth, "scale-wrong"),
        (ByChannel, None),
        (ByHead, None),
        (DividedTwice, "scale-wrong"),
        (Lazy, None),
        (Narrow, None),
        (lambda: Narrow(24), "scale-wrong"),
        (lambda: Narrow(8), "scale-wrong"),
    ],
)
def test_layers_by_which_queries_keys_and_values_come_in(made, cause):
    report = diagnose(made(), dim=DIM, heads=HEADS)
    assert ids(report) == ({cause} if cause else set()), str(report)
    assert "brought in by the projections" in " ".join(str(report).split())
    if made is Narrow:
        assert report.finding("rotation inside, layout").verdict == "ok"


# Whose content products and values are made of


class NamesExchanged(Grouped):
    kv_heads = HEADS

    def brought(self, x):
        q, k, v = super().brought(x)
        return k, q, v


class Convolved(AllGrouped):
    """Adds the token before to each query."""

    def products(self, q, k):
        return super().products(q + F.pad(q, (0, 0, 1, 0))[:, :, :-1], k)


class ByLength(Grouped):
    """Turns by places that are counted by the length of the call."""

    def products(self, q, k):
        places = torch.arange(q.shape[2]) * 16.0 / q.shape[2]
        return super().products(turned(q, places), turned(k, places))


class ByLengthOfAll(ByLength):
    causal = False


class OverQueries(AllGrouped):
    def weights(self, logits):
        return logits.softmax(-2)


class PlusOne(AllGrouped):
    """Softmax with 1 more below the line: weights sum to less than 1."""

    def weights(self, logits):
        return logits.exp() / (1 + logits.exp().sum(-1, keepdim=True))


class ValuesByOffset(AllGrouped):
    """Shaw's embeddings of offsets, added to values."""

    def __init__(self):
        super().__init__()
        self.rel_values = nn.Parameter(torch.randn(2 * 64 + 1, WIDE))

    def offsets(self, t):
        return torch.arange(t) - torch.arange(t)[:, None]

    def summed(self, w, v):
        return w @ v + torch.einsum("bhts,tsd->bhtd", w, self.rel_values[64 + self.offsets(w.shape[2])])


class ValuesTurnedToo(ValuesByOffset):
    def values(self, v):
        return turned(super().values(v), torch.arange(v.shape[2]))


class ValuesByPlace(ValuesByOffset):
    def offsets(self, t):
        return 3 * torch.arange(t).expand(t, t) - 16


class ValuesByPlaceBehind(ValuesByPlace):
    causal = True


class ValuesByQuery(ValuesByOffset):
    def offsets(self, t):
        return 3 * torch.arange(t)[:, None].expand(t, t) - 16


@pytest.mark.parametrize(
    ("cls", "causes"),
    [
        (NamesExchanged, {"swapped"}),
        (Convolved, set()),
        (ByLength, {"length-dependent"}),
        (ByLengthOfAll, set()),
        (OverQueries, {"weights-wrong"}),
        (PlusOne, {"weights-wrong"}),
        (ValuesByOffset, set()),
        (ValuesTurnedToo, {"values-moved"}),
        (ValuesByPlace, {"values-moved"}),
        (ValuesByPlaceBehind, {"values-moved"}),
        (ValuesByQuery, set()),
    ],
)
def test_what_weights_and_values_hang_on(cls, causes):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert ids(report) == causes, str(report)


# The rotation inside


class Turns(Grouped):
    """Turns queries and keys."""

    def angles(self, t):
        return torch.arange(t)

    def products(self, q, k):
        places = self.angles(q.shape[2])
        return super().products(turned(q, places), turned(k, places))
