"""Patients of the doctor: attentions as public code calls them, each with one fault, beside the sound version."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose
from tests.doctor.cases import ids, thetas, turned
from tests.peers import peer

HEADS, WIDTH = 4, 16


def split(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(-2, -3)


def joined(x):
    return x.transpose(-2, -3).flatten(-2)


class Attention(nn.Module):
    """One head beside the other, with what a subclass changes."""

    def __init__(self):
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(HEADS * WIDTH, HEADS * WIDTH) for _ in range(4))

    def parts(self, x):
        return (split(layer(x)) for layer in (self.q_proj, self.k_proj, self.v_proj))

    def forward(self, x):
        return self.o_proj(joined(F.scaled_dot_product_attention(*self.parts(x), is_causal=True)))


class Dropping(Attention):
    def forward(self, x):
        q, k, v = self.parts(x)
        return self.o_proj(joined(F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)))


def test_dropout_that_stays_on_is_not_taken_for_mixed_texts():
    report = diagnose(Dropping(), dim=64)
    assert ids(report) == {"dropout-on"}, str(report)
    assert diagnose(Attention(), dim=64).healthy


class Grid(Attention):
    """Takes (b, rows, columns, d) and turns by rows and columns."""

    def __init__(self, scale=None):
        super().__init__()
        self.scale = scale

    def turned(self, x, rows, columns):
        row, column = (torch.arange(n).float() for n in (rows, columns))
        speeds = thetas(WIDTH // 2)
        angle = torch.cat((row.repeat_interleave(columns)[:, None] * speeds, column.repeat(rows)[:, None] * speeds), -1)
        return turned(x, angle)

    def forward(self, x):
        b, rows, columns, _ = x.shape
        q, k, v = self.parts(x.flatten(1, 2))
        q, k = self.turned(q, rows, columns), self.turned(k, rows, columns)
        out = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.o_proj(joined(out)).view(b, rows, columns, -1)


class Picture(nn.Module):
    """Takes (b, d, rows, columns)."""

    def __init__(self, scale=None):
        super().__init__()
        self.heads, self.scale = HEADS, scale
        self.to_qkv = nn.Conv2d(HEADS * WIDTH, 3 * HEADS * WIDTH, 1)
        self.to_out = nn.Conv2d(HEADS * WIDTH, HEADS * WIDTH, 1)

    def forward(self, x):
        q, k, v = (part.flatten(2).unflatten(1, (HEADS, -1)).mT for part in self.to_qkv(x).chunk(3, 1))
        out = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.to_out(out.mT.reshape(x.shape))


def test_tokens_on_a_grid():
    report = diagnose(Grid(), dim=64)
    assert report.healthy, str(report)
    assert report.kind == "attention"
    assert "evenly" in report.finding("rotation inside, layout").words
    assert ids(diagnose(Grid(scale=1.0), dim=64)) == {"scale-missing"}
    assert diagnose(Picture(), dim=64).healthy
    assert ids(diagnose(Picture(1 / 8), dim=64)) == {"scale-wrong"}


class Sized(Picture):
    """Is told how many patches there are."""

    def forward(self, x, length):
        assert x[0, 0].numel() == length
        return super().forward(x)


def test_a_picture_that_is_told_its_length():
    assert diagnose(Sized(), dim=64).healthy


class Apart(nn.Module):
    """Each head has layers of its own."""

    def __init__(self, scale=None):
        super().__init__()
        self.num_heads, self.scale = HEADS, scale
        self.heads = nn.ModuleList(
            nn.ModuleDict({role: nn.Linear(64, WIDTH) for role in ("query", "key", "value")}) for _ in range(HEADS)
        )
        self.proj = nn.Linear(64, 64)

    def forward(self, x):
        parts = [[head[role](x) for role in ("query", "key", "value")] for head in self.heads]
        outs = [F.scaled_dot_product_attention(*part, is_causal=True, scale=self.scale) for part in parts]
        return self.proj(torch.cat(outs, -1))


def test_heads_in_layers_apart():
    report = diagnose(Apart(), dim=64)
    assert report.healthy, str(report)
    assert report.finding("scale").verdict == "ok"
    assert ids(diagnose(Apart(1 / 8), dim=64)) == {"scale-wrong"}


class Windowed(nn.Module):
    """No layers, and lengths that are whole windows only."""

    def __init__(self, ahead=0):
        super().__init__()
        self.ahead = ahead

    def forward(self, q, k, v):
        assert q.shape[1] % 8 == 0, "whole windows only"
        seen = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril(self.ahead).triu(-7)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def test_whole_windows_without_layers():
    report = diagnose(Windowed(), dim=16, order="btd")
    assert report.healthy, str(report)
    assert "a window of 8 keys" in report.finding("future").words
    assert ids(diagnose(Windowed(1), dim=16, order="btd")) == {"future-seen"}


class Beside(Attention):
    """Returns its weights, or nothing, beside the result."""

    def __init__(self, weights=True):
        super().__init__()
        self.weights = weights

    def forward(self, x, mask=None, kv_cache=None):
        q, k, v = self.parts(x)
        scores = q @ k.mT / WIDTH**0.5
        scores = scores if mask is None else scores.masked_fill(mask[:, None] == 0, -1e9)
        return self.o_proj(joined(scores.softmax(-1) @ v)), scores if self.weights else None


@pytest.mark.parametrize("weights", [True, False])
def test_what_comes_beside_the_result_is_no_cache(weights):
    report = diagnose(Beside(weights), dim=64)
    assert report.healthy, str(report)
    assert report.finding("cache").verdict == "not checked"
    assert report.finding("padding").verdict == "ok"


class OfOffsets(Attention):
    """Transformer-XL: encodings of offsets, from the farthest key behind to the farthest ahead."""

    def __init__(self, scale=WIDTH**-0.5):
        super().__init__()
        self.scale = scale
        self.linear_pos = nn.Linear(64, 64, bias=False)

    def forward(self, query, key, value, pos_emb):
        q, k, v = (split(layer(x)) for layer, x in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value)))
        t = q.shape[2]
        by_offset = q @ split(self.linear_pos(pos_emb)).mT
        columns = t - 1 - torch.arange(t)[:, None] + torch.arange(t)
        scores = q @ k.mT + by_offset.gather(-1, columns.expand(len(q), HEADS, t, t))
        return self.o_proj(joined((scores * self.scale).softmax(-1) @ v))


def test_encodings_of_offsets():
    report = diagnose(OfOffsets(), dim=64)
    assert report.healthy, str(report)
    assert ids(diagnose(OfOffsets(1 / 8), dim=64)) == {"scale-wrong"}


class MaskedAlways(Attention):
    def __init__(self, scale=None):
        super().__init__()
        self.scale = scale

    def forward(self, x, mask=None):
        assert mask is not None
        out = F.scaled_dot_product_attention(*self.parts(x), attn_mask=mask, scale=self.scale)
        return self.o_proj(joined(out))


class OfTwo(Attention):
    def forward(self, x, y=None):
        if y is None:
            raise ValueError("must have y, or a cache")
        q, k, v = (split(layer(z)) for layer, z in ((self.q_proj, x), (self.k_proj, y), (self.v_proj, y)))
        return self.o_proj(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def grouped(query, key, value, n_heads, kv_n_heads, tiled=False):
    q = query.unflatten(-1, (n_heads, -1)).transpose(1, 2)
    k, v = (x.unflatten(-1, (kv_n_heads, -1)).transpose(1, 2) for x in (key, value))
    share = n_heads // kv_n_heads
    k, v = (x.repeat(1, share, 1, 1) if tiled else x.repeat_interleave(share, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def tiled(query, key, value, n_heads, kv_n_heads):
    return grouped(query, key, value, n_heads, kv_n_heads, tiled=True)


def test_masks_second_inputs_and_heads_of_keys_that_cannot_be_left_out():
    assert diagnose(MaskedAlways(), dim=64).healthy
    assert ids(diagnose(MaskedAlways(1.0), dim=64)) == {"scale-missing"}
    assert diagnose(OfTwo(), dim=64).healthy
    assert diagnose(grouped, heads=4, order="btd").finding("grouped heads").verdict == "ok"
    assert ids(diagnose(tiled, heads=4, order="btd")) == {"groups-tiled"}


class InBuckets(Attention):
    """T5 has a bias by buckets of distances, and no scale."""

    def __init__(self, buckets=True):
        super().__init__()
        self.bias = nn.Embedding(4, HEADS)
        if buckets:
            self.num_buckets = 4

    def forward(self, x):
        q, k, v = self.parts(x)
        t = x.shape[1]
        distance = (torch.arange(t)[:, None] - torch.arange(t)).clamp(0, 3)
        return self.o_proj(joined((q @ k.mT + self.bias(distance).permute(2, 0, 1)).softmax(-1) @ v))


def test_a_bias_in_buckets_goes_without_a_scale():
    report = diagnose(InBuckets(), dim=64)
    assert report.healthy, str(report)
    assert report.finding("scale").verdict == "note"
    assert ids(diagnose(InBuckets(False), dim=64)) == {"scale-missing"}


@pytest.mark.parametrize("name", ["BloomAttention", "MptAttention", "T5Attention", "ModernBertAttention"])
def test_layers_of_transformers_with_a_bias_or_without_a_cache(name):
    peer("transformers")
    report = diagnose(f"transformers:{name}")
    assert report.healthy, str(report)
    assert "brought in by the projections" in " ".join(str(report).split())


class InPart(Attention):
    """Turns the first channels of a head, by tables of their width."""

    def __init__(self, width, lost=False):
        super().__init__()
        self.turning, self.lost = width, lost

    def forward(self, x, cos, sin):
        assert cos.shape[-1] == self.turning
        q, k, v = self.parts(x)
        q = self.turned(q, cos, sin)
        k = k if self.lost else self.turned(k, cos, sin)
        return self.o_proj(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def turned(self, x, cos, sin):
        part, rest = x[..., : self.turning], x[..., self.turning :]
        first, second = part.chunk(2, -1)
        part = part * cos[:, None] + torch.cat((-second, first), -1) * sin[:, None]
        return torch.cat((part, rest), -1)


@pytest.mark.parametrize("width", [16, 8, 4])
def test_tables_as_wide_as_the_part_of_a_head_that_turns(width):
    report = diagnose(InPart(width), dim=64, heads=HEADS)
    assert report.healthy, str(report)
    assert "one-side" in ids(diagnose(InPart(width, lost=True), dim=64, heads=HEADS))


class Normed(Attention):
    """Gives queries and keys one length before they meet."""

    def forward(self, x):
        q, k, v = self.parts(x)
        q, k = (F.rms_norm(part, (WIDTH,)) for part in (q, k))
        return self.o_proj(joined(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


def test_a_norm_of_keys_is_not_taken_for_a_missing_scale():
    report = diagnose(Normed(), dim=64)
    assert report.healthy, str(report)
    assert report.finding("scale").verdict == "note"
