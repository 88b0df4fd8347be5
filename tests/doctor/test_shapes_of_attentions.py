"""Patients of the doctor of many shapes: masks, layers and sizes, each with one fault beside a sound version."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation
from tests.doctor.test_future_patients import attention, below, everything
from tests.doctor.test_opened_patients import joined


def masked(of_places):
    """Return an attention that sees what a function of places (t, 1) and (s,) says."""

    def fn(q, k, v):
        s = torch.arange(k.shape[2])
        return attention(q, k, v, of_places(s[-q.shape[2] :, None], s))

    return fn


@pytest.mark.parametrize(
    ("of_places", "cause", "words"),
    [
        (lambda t, s: s // 2 <= t // 2, None, "every key"),
        (lambda t, s: (s <= t) & ((t - s) % 2 == 0), None, "causal"),
        (lambda t, s: (s <= t) & (s > t - 3), None, "a window of 3 keys"),
        (lambda t, s: (s >= t) | (t == t.max()), "mask-inverted", "none behind"),
        (lambda t, s: s >= t - 1, "future-seen", "1 keys behind and all ahead"),
        (lambda t, s: (s > t - 4) & (s <= t + 2), "future-seen", "2 ahead"),
        (lambda t, s: (s > t - 4) & (s <= t + 3), None, "every key"),
    ],
)
def test_masks_of_many_forms(of_places, cause, words):
    future = diagnose(masked(of_places), dim=24, heads=3).finding("future")
    assert (future.id if future.verdict == "wrong" else None) == cause, future
    assert words in future.words
    assert ("window" in words) == ("a window of" in future.words) or cause


def test_several_queries_after_keys():
    """One query is placed right, several are not, as where is_causal is left out for one alone."""

    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)

    assert ids(diagnose(fn, dim=16, heads=3)) == {"offset-ignored"}


@pytest.mark.parametrize(("heads", "batch"), [(16, False), (16, True), (3, True)])
def test_rows_of_positions_and_as_many_heads_as_tokens(heads, batch):
    def fn(q, k, v, positions):
        q, k = (rotation(x, positions if batch else positions.flatten()) for x in (q, k))
        return attention(q, k, v, everything(q, k))

    assert diagnose(fn, dim=16, heads=heads).healthy


def test_what_hangs_on_no_other_token_is_no_attention():
    with pytest.raises(ValueError, match="fits"):
        diagnose(lambda q, k, v: q * k + v, dim=16)


@pytest.mark.parametrize(("size", "causes"), [(0.0, set()), (0.1, {"absolute"})])
def test_a_faint_table_is_found(size, causes):
    def fn(q, k, v, positions, key_positions):
        q, k = (
            rotation(x, at) + size * torch.sin(at[:, None] * torch.linspace(0, 1, 16))
            for x, at in ((q, positions), (k, key_positions))
        )
        return attention(q, k, v, below(q, k))

    assert causes <= ids(diagnose(fn, dim=16, heads=3))
    assert causes or diagnose(fn, dim=16, heads=3).healthy


# Layers


class Layers(nn.Module):
    """Six heads of queries and three of keys, of embeddings that are narrower or wider than all heads together."""

    wide = 16

    def __init__(self, dim, scale=None):
        super().__init__()
        self.num_heads, self.scale = 6, scale
        self.made(dim, 6 * self.wide, 3 * self.wide)

    def made(self, dim, of_queries, of_keys):
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, width) for width in (of_queries, of_keys, of_keys))
        self.to_out = nn.Linear(of_queries, dim)

    def brought(self, x):
        return self.to_q(x), self.to_k(x), self.to_v(x)

    def values(self, v):
        return v

    def out(self, x):
        return self.to_out(x)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, self.wide)).transpose(1, 2) for part in self.brought(x))
        k, v = k.repeat_interleave(2, 1), self.values(v).repeat_interleave(2, 1)
        return self.out(joined(F.scaled_dot_product_attention(q, k, v, scale=self.scale)))


class CrossedOnTheWayIn(Layers):
    def values(self, v):
        return v.transpose(1, 2).reshape(v.shape)


class WithoutOut(Layers):
    def out(self, x):
        return x

    def made(self, dim, of_queries, of_keys):
        super().made(dim, of_queries, of_keys)
        del self.to_out


class FusedWithoutOut(WithoutOut):
    def made(self, dim, of_queries, of_keys):
        self.qkv = nn.Linear(dim, 3 * of_queries)

    def brought(self, x):
        return self.qkv(x).chunk(3, -1)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, self.wide)).transpose(1, 2) for part in self.brought(x))
        return joined(F.scaled_dot_product_attention(q, k, v, scale=self.scale))


class Fused(Layers):
    """Queries, keys and values side by side."""

    def made(self, dim, of_queries, of_keys):
        self.qkv, self.to_out = nn.Linear(dim, of_queries + 2 * of_keys), nn.Linear(of_queries, dim)
        self.widths = of_queries, of_keys, of_keys

    def brought(self, x):
        return self.qkv(x).split(self.widths, -1)


class Inner(Layers):
    """Layers lie inside of others, a norm with a name like theirs before them."""

    def made(self, dim, of_queries, of_keys):
        widths = {"to_q": of_queries, "to_k": of_keys, "to_v": of_keys}
        self.layer = nn.LayerNorm(dim)
        self.attn = nn.ModuleDict({name: nn.Linear(dim, width) for name, width in widths.items()})
        self.attn["to_out"] = nn.Linear(of_queries, dim)

    def brought(self, x):
        return [self.attn[name](self.layer(x)) for name in ("to_q", "to_k", "to_v")]

    def out(self, x):
        return self.attn["to_out"](x)


class Narrower(Layers):
    """Heads are wider than what comes out of each."""

    wide = 32


@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize(
    ("cls", "dim"),
    [(Layers, 100), (WithoutOut, 80), (FusedWithoutOut, 96), (Fused, 120), (Inner, 108), (Narrower, 96)],
)
def test_layers_of_many_shapes(cls, dim, scale):
    report = diagnose(cls(dim, scale), dim=dim, heads=6)
    assert ids(report) == (set() if scale is None else {"scale-missing"}), str(report)
    assert "brought in by the projections" in " ".join(str(report).split())


def test_what_comes_out_may_be_too_narrow_to_name_keys():
    report = diagnose(Layers(80), dim=80, heads=6)
    assert report.finding("values").verdict == "ok"
    assert report.finding("scale").verdict == "not checked"


def test_values_that_are_crossed_before_heads_share_them():
    assert ids(diagnose(CrossedOnTheWayIn(80), dim=80, heads=6)) == {"heads-mixed"}
