"""Patients of the doctor whose attention has to be opened: each with one fault, beside the sound version."""

import math
import types

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids

DIM, HEADS, WIDE = 64, 4, 16


class Relative(nn.Module):
    """Shaw's embeddings of offsets, added to keys."""

    def __init__(self):
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(DIM, DIM) for _ in range(4))
        self.rel_table = nn.Parameter(torch.randn(2 * 64 + 1, WIDE))

    def split(self, x):
        return x.unflatten(-1, (HEADS, WIDE)).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(layer(x)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        logits = (self.content(q, k) + self.bias(q)) / math.sqrt(WIDE)
        return self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def content(self, q, k):
        return q @ k.mT

    def offsets(self, t):
        return torch.arange(t) - torch.arange(t)[:, None]

    def bias(self, q):
        return torch.einsum("bhtd,tsd->bhts", q, self.rel_table[64 + self.offsets(q.shape[2])])


class OfTheQueryAbove(Relative):
    def bias(self, q):
        return super().bias(q.roll(1, 2))


class Dropped(Relative):
    def bias(self, q):
        return 0.0


class OfThePast(Relative):
    def offsets(self, t):
        return super().offsets(t).clamp(max=0)


class ByPlace(Relative):
    def offsets(self, t):
        return torch.arange(t).expand(t, t)


class KeysOfQueries(Relative):
    def content(self, q, k):
        return q @ (k + q).mT


SICK = {
    OfTheQueryAbove: "queries-mixed",
    Dropped: "bias-lost",
    OfThePast: "one-direction-lost",
    ByPlace: "absolute",
    KeysOfQueries: "one-for-both",
}


def test_relative_embeddings_are_sound():
    assert diagnose(Relative(), dim=DIM, heads=HEADS).healthy


@pytest.mark.parametrize("cls", SICK)
def test_what_is_wrong_with_a_relative_part_is_read_off_the_weights(cls):
    report = diagnose(cls(), dim=DIM, heads=HEADS)
    assert SICK[cls] in ids(report), str(report)


class Latent(nn.Module):
    """A latent attention, the keys of whose turning part are shared by all heads."""

    def __init__(self, scaled=2 * WIDE):
        super().__init__()
        self.num_heads, self.scaled = HEADS, scaled
        self.q_proj = nn.Linear(DIM, HEADS * 2 * WIDE)
        self.kv_a_proj_with_mqa, self.kv_b_proj = nn.Linear(DIM, 48 + WIDE), nn.Linear(48, HEADS * 2 * WIDE)
        self.o_proj = nn.Linear(HEADS * WIDE, DIM)

    def forward(self, x):
        q = self.q_proj(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        narrow, shared = self.kv_a_proj_with_mqa(x).split((48, WIDE), -1)
        k, v = self.kv_b_proj(narrow).unflatten(-1, (HEADS, -1)).transpose(1, 2).chunk(2, -1)
        k = torch.cat((k, shared[:, None].expand_as(k)), -1)
        logits = q @ k.mT / math.sqrt(self.scaled)
        return self.o_proj((logits.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_a_latent_attention_is_opened():
    assert diagnose(Latent(), dim=DIM, heads=HEADS).healthy
    assert ids(diagnose(Latent(WIDE), dim=DIM, heads=HEADS)) == {"scale-wrong"}


class Sliding(nn.Module):
    """Causal, with a window of `sliding_window` keys, `seen` in truth."""

    def __init__(self, seen=8, ahead=0):
        super().__init__()
        self.sliding_window, self.seen, self.ahead = 8, seen, ahead

    def forward(self, q, k, v):
        behind = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        hidden = (behind < -self.ahead) | (behind >= self.seen)
        logits = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, float("-inf"))
        return logits.softmax(-1) @ v


@pytest.mark.parametrize(("seen", "ahead", "cause"), [(9, 0, "mask-off-by-one"), (4, 99, "future-seen")])
def test_a_window_is_as_wide_as_it_says_and_closed_ahead(seen, ahead, cause):
    assert not ids(diagnose(Sliding())) & {"mask-off-by-one", "future-seen"}
    assert cause in ids(diagnose(Sliding(seen, ahead)))


# What a table of offsets is read for


class TimesZero(Relative):
    def bias(self, q):
        return 0.0 * super().bias(q)


class QueriesOfKeys(Relative):
    def content(self, q, k):
        return (q + k) @ k.mT


class Clipped(Relative):
    """Four offsets on each side, and what else a module may hold."""

    least, most = -4, 4

    def __init__(self):
        super().__init__()
        self.rel_table = nn.Parameter(torch.randn(9, WIDE))
        self.gate = nn.Parameter(torch.randn(5))

    def offsets(self, t):
        return super().offsets(t).clamp(self.least, self.most) - 60


class ClippedToThePast(Clipped):
    most = 0


class ClippedToTheFuture(Clipped):
    least = 0


class Behind(Relative):
    """Causal, so that offsets ahead are never met."""

    def bias(self, q):
        t = q.shape[2]
        return super().bias(q).masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))


class Inside(nn.Module):
    """A model with a table of its own, of which the attention is a part."""

    def __init__(self, cls=Relative):
        super().__init__()
        self.pos_table, self.pos_attention = nn.Parameter(torch.randn(31, DIM)), cls()
        self.num_heads = HEADS

    def forward(self, x):
        return self.pos_attention(x)


class Plain(Relative):
    """Without a table."""

    def __init__(self):
        super().__init__()
        del self.rel_table

    def bias(self, q):
        return 0.0


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (Clipped, None),
        (Behind, None),
        (Inside, None),
        (lambda: Inside(Plain), None),
        (TimesZero, "bias-lost"),
        (lambda: Inside(TimesZero), "bias-lost"),
        (QueriesOfKeys, "one-for-both"),
        (ClippedToThePast, "one-direction-lost"),
        (ClippedToTheFuture, "one-direction-lost"),
    ],
)
def test_a_table_of_offsets_is_read_on_both_sides(made, cause):
    report = diagnose(made(), dim=DIM, heads=HEADS)
    assert (cause in ids(report)) if cause else report.healthy, str(report)


@pytest.mark.parametrize(("seen", "heads", "dim"), [(2, 3, 20), (3, 1, 16), (99, 5, 24)])
def test_products_are_measured_in_a_narrow_window(seen, heads, dim):
    report = diagnose(Sliding(seen), dim=dim, heads=heads)
    assert report.finding("scale").verdict == "ok"


class Configured(Plain):
    """Multiplies products by what its configuration says, or otherwise."""

    def __init__(self, scale, **said):
        super().__init__()
        self.scale, self.config = scale * math.sqrt(WIDE), types.SimpleNamespace(**said)

    def content(self, q, k):
        return q @ k.mT * self.scale


@pytest.mark.parametrize(
    ("scale", "said", "verdict"),
    [
        (1 / 8, {"query_pre_attn_scalar": 64}, "ok"),
        (0.1, {"attention_multiplier": 0.1}, "ok"),
        (0.1, {"attention_multiplier": 0.2}, "note"),
        (1.0, {"attention_multiplier": 0.2}, "wrong"),
    ],
)
def test_a_configuration_says_the_scale(scale, said, verdict):
    assert diagnose(Configured(scale, **said), dim=DIM, heads=HEADS).finding("scale").verdict == verdict
