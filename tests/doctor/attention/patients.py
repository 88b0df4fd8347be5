"""Sound attentions of which several files of this folder change one step."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.doctor import Report
from tests.doctor.blocks import below, join_heads, rotate, rotate_pair, split_heads

DIM, HEADS, WIDTH = 64, 4, 16
HIDDEN = -1e9


def every_key(q: Tensor, k: Tensor) -> Tensor:
    """Return the mask (t, s) that hides nothing."""
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)


def behind(q: Tensor, k: Tensor, ahead: int = 0) -> Tensor:
    """Return the causal mask (t, s), with so many keys ahead."""
    return below(q.shape[2], k.shape[2], ahead)


def masked(q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float = 1.0, axis: int = -1) -> Tensor:
    """Return softmax(scale * q k / sqrt(d)) v over the keys that are seen (t, s)."""
    scores = scale * q @ k.mT / math.sqrt(q.shape[-1])
    return scores.masked_fill(~seen, HIDDEN).softmax(axis) @ v


def masked_by(seen: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return an attention that sees what a function of query positions (t, 1) and key positions (s,) says."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys = torch.arange(k.shape[2])
        return masked(q, k, v, seen(keys[-q.shape[2] :, None], keys))

    return attend


class SelfAttention(nn.Module):
    """Causal attention of embeddings (b, t, d) with a layer each for queries, keys, values and the output."""

    hides_ahead, kv_heads = True, HEADS

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = HEADS
        self.q_proj, self.o_proj = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.k_proj, self.v_proj = (nn.Linear(DIM, self.kv_heads * WIDTH) for _ in range(2))

    def project(self, x: Tensor) -> list[Tensor]:
        layers = ((self.q_proj, HEADS), (self.k_proj, self.kv_heads), (self.v_proj, self.kv_heads))
        return [split_heads(layer(x), heads) for layer, heads in layers]

    def keys(self, k: Tensor) -> Tensor:
        return k.repeat_interleave(HEADS // self.kv_heads, 1)

    def values(self, v: Tensor) -> Tensor:
        return v.repeat_interleave(HEADS // self.kv_heads, 1)

    def turned(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT / math.sqrt(WIDTH)

    def seen(self, t: int, s: int) -> Tensor:
        return below(t, s) if self.hides_ahead else torch.ones(t, s, dtype=torch.bool)

    def weights(self, scores: Tensor) -> Tensor:
        return scores.masked_fill(~self.seen(*scores.shape[-2:]), -math.inf).softmax(-1)

    def summed(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def joined(self, x: Tensor) -> Tensor:
        return join_heads(x)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        weights = self.weights(self.scores(*self.turned(q, self.keys(k))))
        return self.o_proj(self.joined(self.summed(weights, self.values(v))))


class Encoder(SelfAttention):
    """Every query sees every key."""

    hides_ahead = False


class Grouped(SelfAttention):
    """Two heads of queries share one of keys."""

    kv_heads = 2


class GroupedEncoder(Grouped):
    hides_ahead = False


class Rotated(SelfAttention):
    """Queries and keys are rotated by their positions."""

    def turned(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        positions = torch.arange(q.shape[2])
        return rotate(q, positions), rotate(k, positions)


class Block(nn.Module):
    """One causal layer with RoPE on tokens already embedded, and a learned table that may be added before it."""

    has_table = False

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wqkv, self.wpe = nn.Linear(d_model, 3 * d_model), nn.Embedding(512, d_model)

    def project(self, x: Tensor, positions: Tensor) -> list[Tensor]:
        x = x + self.wpe(positions) if self.has_table else x
        return [split_heads(part, self.heads) for part in self.wqkv(x).chunk(3, dim=-1)]

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        q, k, v = self.project(x, positions)
        q, k = rotate_pair(q, k, positions)
        return join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def is_opened(report: Report) -> bool:
    """Tell whether queries, keys and values were read off the projections."""
    return "opened" in report.examined
