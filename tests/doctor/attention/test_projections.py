"""The layers by which queries, keys and values come in: found under many names, in one or apart, of any width."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, label, verdicts
from tests.doctor.attention.patients import (
    DIM,
    HEADS,
    WIDTH,
    Encoder,
    Grouped,
    Rotated,
    SelfAttention,
    is_opened,
)
from tests.doctor.blocks import frequencies, join_heads, rotate, rotate_by, split_heads

KEYS = Grouped.kv_heads

# Layers for several at once


class Fused(Grouped):
    """One layer for queries, keys and values of a group, as in InternLM2."""

    def __init__(self):
        super().__init__()
        del self.q_proj, self.k_proj, self.v_proj
        self.wqkv = nn.Linear(DIM, DIM + 2 * KEYS * WIDTH)

    def project(self, x):
        groups = self.wqkv(x).unflatten(-1, (KEYS, -1, WIDTH))
        parts = groups[..., :-2, :].flatten(2, 3), groups[..., -2, :], groups[..., -1, :]
        return [part.transpose(1, 2) for part in parts]


class FusedUnscaled(Fused):
    """Do not divide products by sqrt(d)."""

    def scores(self, q, k):
        return q @ k.mT


class Paired(Grouped):
    """One layer for keys and values."""

    def __init__(self):
        super().__init__()
        del self.k_proj, self.v_proj
        self.to_kv = nn.Linear(DIM, 2 * KEYS * WIDTH)

    def project(self, x):
        parts = (self.q_proj(x), *self.to_kv(x).chunk(2, -1))
        return [part.unflatten(-1, (-1, WIDTH)).transpose(1, 2) for part in parts]


class PairedScaledByModel(Paired):
    """Divide products by the root of the width of all heads."""

    def scores(self, q, k):
        return q @ k.mT / math.sqrt(DIM)


class ByChannel(SelfAttention):
    """One layer, of which each channel has its query, key and value side by side."""

    def __init__(self):
        super().__init__()
        del self.q_proj, self.k_proj, self.v_proj
        self.qkv = nn.Linear(DIM, 3 * DIM)

    def project(self, x):
        return self.qkv(x).unflatten(-1, (WIDTH, 3, HEADS)).permute(3, 0, 4, 1, 2).unbind()


class ByHead(ByChannel):
    """One layer, of which each head has its query, key and value side by side."""

    def project(self, x):
        return self.qkv(x).unflatten(-1, (HEADS, 3, WIDTH)).transpose(1, 2).unbind(-2)


class ByHeadScaledTwice(ByHead):
    """Divide products by d."""

    def scores(self, q, k):
        return q @ k.mT / WIDTH


class Lazy(Grouped):
    """Layers that take their width from the first call."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = nn.LazyLinear(DIM), nn.LazyLinear(DIM)
        self.k_proj, self.v_proj = (nn.LazyLinear(KEYS * WIDTH) for _ in range(2))


class Latent(nn.Module):
    """A latent attention: all heads share the keys of a part, which is not rotated here."""

    def __init__(self, scaled=2 * WIDTH):
        super().__init__()
        self.num_heads, self.scaled = HEADS, scaled
        self.q_proj = nn.Linear(DIM, HEADS * 2 * WIDTH)
        self.kv_a_proj_with_mqa, self.kv_b_proj = nn.Linear(DIM, 48 + WIDTH), nn.Linear(48, HEADS * 2 * WIDTH)
        self.o_proj = nn.Linear(HEADS * WIDTH, DIM)

    def forward(self, x):
        q = split_heads(self.q_proj(x), HEADS)
        narrow, shared = self.kv_a_proj_with_mqa(x).split((48, WIDTH), -1)
        k, v = split_heads(self.kv_b_proj(narrow), HEADS).chunk(2, -1)
        k = torch.cat((k, shared[:, None].expand_as(k)), -1)
        return self.o_proj(join_heads((q @ k.mT / math.sqrt(self.scaled)).softmax(-1) @ v))


class LatentQueries(nn.Module):
    """A latent attention whose queries come through a narrow layer, too; the shared part is rotated."""

    def __init__(self, scaled=2 * WIDTH):
        super().__init__()
        self.num_heads, self.scaled = HEADS, scaled
        self.q_a_proj, self.q_a_layernorm = nn.Linear(DIM, 40), nn.LayerNorm(40)
        self.q_b_proj = nn.Linear(40, HEADS * 2 * WIDTH)
        self.kv_a_proj_with_mqa, self.kv_b_proj = nn.Linear(DIM, 48 + 8), nn.Linear(48, HEADS * (24 + WIDTH))
        self.o_proj = nn.Linear(HEADS * WIDTH, DIM)

    def forward(self, x):
        positions = torch.arange(x.shape[1])
        q = split_heads(self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))), HEADS)
        narrow, shared = self.kv_a_proj_with_mqa(x).split((48, 8), -1)
        k, v = split_heads(self.kv_b_proj(narrow), HEADS).split((24, WIDTH), -1)
        k = torch.cat((k, rotate(shared[:, None], positions).expand(-1, HEADS, -1, -1)), -1)
        q = torch.cat((q[..., :24], rotate(q[..., 24:], positions)), -1)
        return self.o_proj(join_heads((q @ k.mT / math.sqrt(self.scaled)).softmax(-1) @ v))


class Convolved(nn.Module):
    """Layers that are convolutions of single tokens, and texts (b, d, t)."""

    def __init__(self, scale=0.25, shuffled=False):
        super().__init__()
        self.num_heads, self.scale, self.shuffled = HEADS, scale, shuffled
        self.q_conv, self.k_conv, self.v_conv, self.o_conv = (nn.Conv1d(DIM, DIM, 1) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(1, (HEADS, -1)).mT for layer in (self.q_conv, self.k_conv, self.v_conv))
        out = (q @ k.mT * self.scale).softmax(-1) @ v
        return self.o_conv(out.reshape(x.shape) if self.shuffled else out.mT.flatten(1, 2))


OPENED = {
    "apart": (SelfAttention, ""),
    "fused": (Fused, ""),
    "fused, unscaled": (FusedUnscaled, "scale-missing"),
    "keys with values": (Paired, ""),
    "keys with values, scaled by the model": (PairedScaledByModel, "scale-wrong"),
    "by channel": (ByChannel, ""),
    "by head": (ByHead, ""),
    "by head, scaled twice": (ByHeadScaledTwice, "scale-wrong"),
    "lazy": (Lazy, ""),
    "latent": (Latent, ""),
    "latent, scaled by a part": (lambda: Latent(WIDTH), "scale-wrong"),
    "latent queries": (LatentQueries, ""),
    "latent queries, scaled by one part": (lambda: LatentQueries(24), "scale-wrong"),
    "latent queries, scaled by the other": (lambda: LatentQueries(8), "scale-wrong"),
    "convolutions": (Convolved, ""),
    "convolutions, unscaled": (lambda: Convolved(1.0), "scale-missing"),
}


@pytest.mark.parametrize("name", OPENED)
def test_the_layers_are_found(name):
    make, wrong = OPENED[name]
    report = diagnose(make(), dim=DIM, heads=HEADS)
    assert_report(report, wrong)
    assert is_opened(report)


def test_heads_and_channels_of_convolutions_that_are_shuffled():
    assert_report(diagnose(Convolved(shuffled=True), dim=DIM, heads=HEADS), "heads-mixed")


def test_the_part_that_turns_of_a_latent_attention_is_read():
    assert verdicts(diagnose(LatentQueries(), dim=DIM, heads=HEADS), "rotation inside, layout") == ["ok"]


class Unnamed(nn.Module):
    """Layers without names that tell their part."""

    def __init__(self, d_model=64, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second, self.third, self.last = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (split_heads(layer(x), self.heads) for layer in (self.first, self.second, self.third))
        return self.last(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def test_layers_that_are_not_found_leave_weights_unchecked():
    report = diagnose(Unnamed())
    assert not is_opened(report)
    assert verdicts(report, "weights", "heads") == ["not checked", "not checked"]


# Layers of any width


class Layers(nn.Module):
    """Six heads of queries and three of keys, of embeddings narrower or wider than all heads together."""

    width = 16

    def __init__(self, dim, scale=None):
        super().__init__()
        self.num_heads, self.scale = 6, scale
        self.build(dim, 6 * self.width, 3 * self.width)

    def build(self, dim, of_queries, of_keys):
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, width) for width in (of_queries, of_keys, of_keys))
        self.to_out = nn.Linear(of_queries, dim)

    def project(self, x):
        return self.to_q(x), self.to_k(x), self.to_v(x)

    def values(self, v):
        return v

    def out(self, x):
        return self.to_out(x)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, self.width)).transpose(1, 2) for part in self.project(x))
        share = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(share, 1), self.values(v).repeat_interleave(share, 1)
        return self.out(join_heads(F.scaled_dot_product_attention(q, k, v, scale=self.scale)))


class ValuesShuffled(Layers):
    """Mix tokens and heads of the values."""

    def values(self, v):
        return v.transpose(1, 2).reshape(v.shape)


class WithoutOut(Layers):
    def out(self, x):
        return x

    def build(self, dim, of_queries, of_keys):
        super().build(dim, of_queries, of_keys)
        del self.to_out


class OneForAllWithoutOut(WithoutOut):
    def build(self, dim, of_queries, of_keys):
        self.qkv = nn.Linear(dim, 3 * of_queries)

    def project(self, x):
        return self.qkv(x).chunk(3, -1)


class OneForAll(Layers):
    """Queries, keys and values side by side."""

    def build(self, dim, of_queries, of_keys):
        self.qkv, self.to_out = nn.Linear(dim, of_queries + 2 * of_keys), nn.Linear(of_queries, dim)
        self.widths = of_queries, of_keys, of_keys

    def project(self, x):
        return self.qkv(x).split(self.widths, -1)


class Inner(Layers):
    """Layers inside of another, and a norm with a name like theirs before them."""

    def build(self, dim, of_queries, of_keys):
        widths = {"to_q": of_queries, "to_k": of_keys, "to_v": of_keys}
        self.layer = nn.LayerNorm(dim)
        self.attn = nn.ModuleDict({name: nn.Linear(dim, width) for name, width in widths.items()})
        self.attn["to_out"] = nn.Linear(of_queries, dim)

    def project(self, x):
        return [self.attn[name](self.layer(x)) for name in ("to_q", "to_k", "to_v")]

    def out(self, x):
        return self.attn["to_out"](x)


class WideHeads(Layers):
    width = 32


@pytest.mark.parametrize(("scale", "wrong"), [(None, ""), (1.0, "scale-missing")])
@pytest.mark.parametrize(
    ("cls", "dim"),
    [(Layers, 100), (WithoutOut, 80), (OneForAllWithoutOut, 96), (OneForAll, 120), (Inner, 108), (WideHeads, 96)],
)
def test_layers_of_many_widths_are_found(cls, dim, scale, wrong):
    report = diagnose(cls(dim, scale), dim=dim, heads=6)
    assert_report(report, wrong)
    assert is_opened(report)


def test_what_comes_out_may_be_too_narrow_to_read_products():
    report = diagnose(Layers(80), dim=80, heads=6)
    assert_report(report)
    assert verdicts(report, "values", "scale") == ["ok", "not checked"]


def test_values_that_are_shuffled_before_heads_share_them():
    assert_report(diagnose(ValuesShuffled(80), dim=80, heads=6), "heads-mixed")


class Narrow(nn.Module):
    """As narrow as can be opened."""

    def __init__(self):
        super().__init__()
        self.num_heads = 4
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.proj(join_heads((q @ k.mT * 8**-0.5).softmax(-1) @ v))


def test_a_narrow_layer_is_opened():
    report = diagnose(Narrow(), dim=32, heads=4)
    assert_report(report)
    assert verdicts(report, "values") == ["ok"]


# Queries, keys and values that come in apart


class Joined(nn.Module):
    """Take queries, keys and values (b, t, d), and project them."""

    def __init__(self, dim, inner=None, scale=None):
        super().__init__()
        self.num_heads = HEADS
        self.scale = scale or (dim // HEADS) ** -0.5
        self.to_a, self.to_b, self.to_c = (nn.Linear(dim, inner or dim) for _ in range(3))
        self.mixing = nn.Linear(inner or dim, dim)

    def forward(self, query, key, value):
        layers = ((self.to_a, query), (self.to_b, key), (self.to_c, value))
        q, k, v = (split_heads(layer(x), HEADS) for layer, x in layers)
        return self.mixing(join_heads((q @ k.mT * self.scale).softmax(-1) @ v))


class OfTwo(SelfAttention):
    """Take what keys and values are made of apart, and refuse to go without."""

    def forward(self, x, y=None):
        if y is None:
            raise ValueError("must have y, or a cache")
        layers = ((self.q_proj, x), (self.k_proj, y), (self.v_proj, y))
        q, k, v = (split_heads(layer(z), HEADS) for layer, z in layers)
        return self.o_proj(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


APART = {
    "projected": (lambda: Joined(64), 64, ""),
    "projected, unscaled": (lambda: Joined(64, scale=1.0), 64, "scale-missing"),
    "projected to another width": (lambda: Joined(64, inner=128), 64, ""),
    "by torch": (lambda: nn.MultiheadAttention(16, 4, batch_first=True), 16, ""),
    "of two": (OfTwo, 64, ""),
}


@pytest.mark.parametrize("name", APART)
def test_queries_keys_and_values_that_come_in_apart(name):
    make, dim, wrong = APART[name]
    assert_report(diagnose(make(), dim=dim, heads=4), wrong)


# Pictures


class OnGrid(Encoder):
    """Take (b, rows, columns, d) and rotate by rows and columns."""

    def __init__(self, scale=None):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        b, rows, columns, _ = x.shape
        cell, speeds = torch.arange(rows * columns)[:, None], frequencies(WIDTH // 2)
        angles = torch.cat((cell // columns * speeds, cell % columns * speeds), -1)
        q, k, v = self.project(x.flatten(1, 2))
        out = F.scaled_dot_product_attention(rotate_by(q, angles), rotate_by(k, angles), v, scale=self.scale)
        return self.o_proj(join_heads(out)).view(b, rows, columns, -1)


class OfPicture(nn.Module):
    """Take (b, d, rows, columns)."""

    def __init__(self, scale=None):
        super().__init__()
        self.heads, self.scale = HEADS, scale
        self.to_qkv, self.to_out = nn.Conv2d(DIM, 3 * DIM, 1), nn.Conv2d(DIM, DIM, 1)

    def forward(self, x):
        q, k, v = (part.flatten(2).unflatten(1, (HEADS, -1)).mT for part in self.to_qkv(x).chunk(3, 1))
        out = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.to_out(out.mT.reshape(x.shape))


class OfLength(OfPicture):
    """Take how many cells there are, too."""

    def forward(self, x, length):
        assert x[0, 0].numel() == length
        return super().forward(x)


@pytest.mark.parametrize(
    ("cls", "settings", "wrong"),
    [
        (OnGrid, {}, ""),
        (OnGrid, {"scale": 1.0}, "scale-missing"),
        (OfPicture, {}, ""),
        (OfPicture, {"scale": 1 / 8}, "scale-wrong"),
        (OfLength, {}, ""),
    ],
    ids=label,
)
def test_tokens_on_a_grid(cls, settings, wrong):
    report = diagnose(cls(**settings), dim=DIM)
    assert report.kind == "attention"
    assert_report(report, wrong)


def test_a_rotation_by_rows_and_columns_is_noted():
    assert verdicts(diagnose(OnGrid(), dim=DIM), "rotation inside, layout") == ["note"]


def test_a_rotated_layer_tells_what_turns():
    report = diagnose(Rotated(), dim=DIM)
    assert_report(report)
    assert is_opened(report)
    assert verdicts(report, "heads", "scale", "rotation inside, layout") == ["ok"] * 3
    assert "16 of 16" in report.examined["layout"]
