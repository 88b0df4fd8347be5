"""What the doctor is tried on: small pieces of code, each with one bug found in the wild, and the healthy version.

Each is written anew; the bug is that of the thread named. `CASES` pairs them with what the doctor has to say.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posenc.doctor.report import Report


def ids(report: Report) -> set[str]:
    """Return the causes of what is wrong."""
    return {finding.id for finding in report.findings if finding.verdict == "wrong"}


def told(report: Report) -> str:
    """Return all that a report says, in one line."""
    return " ".join(str(report).split())


def noise(*shape: int) -> Tensor:
    """Return normal random numbers, the same in each run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def thetas(dim: int, base: float = 10_000.0) -> Tensor:
    return base ** (-torch.arange(0, dim, 2).float() / dim)


def turned(x: Tensor, angle: Tensor, factor: float = 1.0) -> Tensor:
    """Turn the pairs (i, i + d/2) of x (b, h, t, d) by angle (t, d/2) or (b, 1, t, d/2)."""
    first, second = x.chunk(2, dim=-1)
    cosine, sine = factor * angle.cos(), factor * angle.sin()
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


def rotation(x: Tensor, positions: Tensor) -> Tensor:
    angle = positions[..., None].float() * thetas(x.shape[-1])
    return turned(x, angle[:, None] if angle.ndim == 3 else angle)


def sines_and_cosines(angle: Tensor) -> Tensor:
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


def table(length: int, dim: int) -> Tensor:
    return sines_and_cosines(torch.arange(length)[:, None] * thetas(dim))


# 1 harvardnlp/annotated-transformer#131


def inverted_table(length: int, dim: int) -> Tensor:
    return sines_and_cosines(torch.arange(length)[:, None] / thetas(dim))


def inverted_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return turned(x, positions[:, None] / thetas(x.shape[-1]))


# 2 zju3dv/LoFTR#41


def precedence_table(length: int, dim: int) -> Tensor:
    speeds = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10_000.0) / dim // 2))
    return sines_and_cosines(torch.arange(length)[:, None] * speeds)


# 3 SamLynnEvans/Transformer#7


def crossed_table(length: int, dim: int) -> Tensor:
    out = torch.zeros(length, dim)
    for place in range(length):
        for i in range(0, dim, 2):
            out[place, i] = math.sin(place / 10_000 ** (2 * i / dim))
            out[place, i + 1] = math.cos(place / 10_000 ** (2 * (i + 1) / dim))
    return out


# 4 Kyubyong/transformer#81


def whole_table(length: int, dim: int) -> Tensor:
    return sines_and_cosines((torch.arange(length)[:, None] // length) * thetas(dim))


def whole_speeds_table(length: int, dim: int) -> Tensor:
    return sines_and_cosines(torch.arange(length)[:, None] * (1 // (1 / thetas(dim))))


# 5 pyaptamer#607


def even_table(length: int, dim: int) -> Tensor:
    out = torch.zeros(length, dim)
    angle = torch.arange(length)[:, None] * thetas(dim)
    out[:, 0::2], out[:, 1::2] = angle.sin(), angle.cos()
    return out


def any_table(length: int, dim: int) -> Tensor:
    out = torch.zeros(length, dim)
    angle = torch.arange(length)[:, None] * thetas(dim)
    out[:, 0::2], out[:, 1::2] = angle.sin(), angle[:, : dim // 2].cos()
    return out


# 6 pytorch/tutorials#1547


class AlongBatch(nn.Module):
    def __init__(self, d_model: int, max_len: int = 512) -> None:
        super().__init__()
        self.register_buffer("pe", table(max_len, d_model)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(0)]


class AlongTokens(AlongBatch):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[: x.size(1), 0]


# 7 karpathy/nanoGPT#450


class Block(nn.Module):
    """One causal layer with RoPE on tokens already embedded."""

    left_in = False

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wqkv, self.wpe = nn.Linear(d_model, 3 * d_model), nn.Embedding(512, d_model)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.left_in:
            x = x + self.wpe(positions)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.wqkv(x).chunk(3, dim=-1))
        q, k = rotation(q, positions), rotation(k, positions)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class BlockWithTable(Block):
    left_in = True


# 8 transformers#25199


def tiled_rotation(x: Tensor, positions: Tensor) -> Tensor:
    """Interleaved pairs with a table made for halves."""
    angle = positions[:, None] * thetas(x.shape[-1])
    angle = torch.cat((angle, angle), dim=-1)
    crossed = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * angle.cos() + crossed * angle.sin()


def repeated_rotation(x: Tensor, positions: Tensor) -> Tensor:
    angle = (positions[:, None] * thetas(x.shape[-1])).repeat_interleave(2, dim=-1)
    crossed = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * angle.cos() + crossed * angle.sin()


# 9 transformers#25681, gpt-neox#1003


class Buffered(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("inv_freq", thetas(dim))

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return turned(x, positions[:, None] * self.inv_freq)


class Unbuffered(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotation(x, positions)


def coarse_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return turned(x, positions.to(x.dtype)[:, None] * thetas(x.shape[-1]).to(x.dtype))


# 10 rotary-embedding-torch#11


class Cached:
    def __init__(self, dim: int) -> None:
        self.dim, self.tables = dim, {}

    def key(self, length: int, offset: int) -> object:
        return length

    def __call__(self, x: Tensor, offset: int = 0) -> Tensor:
        key = self.key(x.shape[-2], offset)
        if key not in self.tables:
            self.tables[key] = (offset + torch.arange(x.shape[-2]))[:, None] * thetas(self.dim)
        return turned(x, self.tables[key])


class CachedByOffset(Cached):
    def key(self, length: int, offset: int) -> object:
        return length, offset


class CachedInFirstDtype(Cached):
    def __call__(self, x: Tensor, offset: int = 0) -> Tensor:
        if self.tables.get("length", 0) < offset + x.shape[-2]:
            self.tables["length"] = offset + x.shape[-2]
            self.tables["angle"] = (torch.arange(offset + x.shape[-2])[:, None] * thetas(self.dim)).to(x.dtype)
        return turned(x, self.tables["angle"][offset : offset + x.shape[-2]])


# 11 transformers#25104


def dynamic_rotation(x: Tensor, positions: Tensor) -> Tensor:
    dim, length = x.shape[-1], int(positions.max()) + 1
    grown = max(1.0, 2 * length / 2048 - 1)
    return turned(x, positions[:, None] * thetas(dim, 10_000.0 * grown ** (dim / (dim - 2))))


# 12 sglang#33558, vllm#46280


def yarn_thetas(dim: int, factor: float = 32.0) -> Tensor:
    plain = thetas(dim)
    turns = 4096 * plain / (2 * math.pi)
    keep = ((turns - 1) / (32 - 1)).clamp(0, 1)
    return plain * keep + plain / factor * (1 - keep)


def yarn_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return turned(x, positions[:, None] * yarn_thetas(x.shape[-1]), 0.1 * math.log(32) + 1)


def yarn_twice(x: Tensor, positions: Tensor) -> Tensor:
    return (0.1 * math.log(32) + 1) * yarn_rotation(x, positions)


def yarn_without(x: Tensor, positions: Tensor) -> Tensor:
    return turned(x, positions[:, None] * yarn_thetas(x.shape[-1]))


# 13 mlx#343, TensorRT-LLM#1611, pytorch.github.io 67fc54c


def slopes(heads: int) -> Tensor:
    power = 2 ** int(math.log2(heads))
    plain = [2 ** (-8 * (k + 1) / power) for k in range(power)]
    double = [2 ** (-4 * (k + 1) / power) for k in range(0, 2 * (heads - power), 2)]
    return torch.tensor(plain + double)


def slopes_of_any_heads(heads: int) -> Tensor:
    return torch.tensor([2 ** (-8 * (k + 1) / heads) for k in range(heads)])


def slopes_from_one(heads: int) -> Tensor:
    return slopes(heads) * 2 ** (8 / heads) if heads in (4, 8) else slopes(heads)


def slopes_sorted(heads: int) -> Tensor:
    return slopes(heads).sort(descending=True).values


def reversed_bias(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    return score + torch.exp2(-(h + 1) * 8.0 / 4) * (q_idx - kv_idx)


def forward_bias(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    return score + torch.exp2(-(h + 1) * 8.0 / 4) * (kv_idx - q_idx)


def bias(heads: int, t: int, s: int) -> Tensor:
    offset = torch.arange(s) - (torch.arange(t) + s - t)[:, None]
    return slopes(heads)[:, None, None] * offset


def bias_of_any_heads(heads: int, t: int, s: int) -> Tensor:
    return bias(4, t, s)[:1] * 4 * slopes_of_any_heads(heads)[:, None, None]


def bias_from_the_first(heads: int, t: int, s: int) -> Tensor:
    offset = torch.arange(s) - torch.arange(t)[:, None]
    return -slopes(heads)[:, None, None] * offset.abs()


def bias_of_rounded_places(heads: int, t: int, s: int, dtype: torch.dtype = torch.float32) -> Tensor:
    places = slopes(heads).to(dtype)[:, None] * torch.arange(s, dtype=dtype)
    return places[:, None, :] - places[:, s - t :, None]


def bias_rounded_once(heads: int, t: int, s: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return bias(heads, t, s).to(dtype)


# 14 transformers#22161


def attention_with_table(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Positions count every column, padding too."""
    places = torch.arange(k.shape[2])
    return _with_table(q, k, v, mask, places)


def attention_with_counted_table(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    real = torch.ones(len(k), k.shape[2]) if mask is None else mask[:, 0, 0].float()
    return _with_table(q, k, v, mask, (real.cumsum(-1) - 1).clamp(min=0)[:, None])


def _with_table(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, places: Tensor) -> Tensor:
    added = sines_and_cosines(places[..., None] * thetas(k.shape[-1]))
    added = added.to(q.dtype)
    q, k = q + added[..., k.shape[2] - q.shape[2] :, :], k + added
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def batch_rotation(x: Tensor, positions: Tensor) -> Tensor:
    """Broadcasts the batch of positions against heads."""
    angle = positions[..., None].float() * thetas(x.shape[-1])
    return turned(x, angle[:1] if angle.ndim == 3 else angle)


def row_rotation(q: Tensor, k: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """A row of positions for each text, (b, t), and no other form, as in transformers."""
    angle = (position_ids[..., None].float() * thetas(q.shape[-1])).unsqueeze(1)
    return turned(q, angle), turned(k, angle)


def first_row_rotation(q: Tensor, k: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
    """The first row for all texts."""
    return row_rotation(q, k, position_ids[:1].expand(position_ids.shape))


def row_attention(q: Tensor, k: Tensor, v: Tensor, attention_mask=None, position_ids=None, base_too: bool = False):
    """Causal, with the positions of all keys as rows; queries are the last of them."""
    t, s = q.shape[2], k.shape[2]
    places = torch.arange(s)[None] if position_ids is None else position_ids
    if base_too:
        k = k + sines_and_cosines(places[..., None] * thetas(k.shape[-1])).unsqueeze(1).to(k.dtype)
    q, k = row_rotation(q, q, places[:, -t:])[0], row_rotation(k, k, places)[1]
    seen = torch.ones(t, s, dtype=torch.bool).tril(s - t)[None, None]
    if attention_mask is not None:
        seen = seen & attention_mask.bool()[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def row_attention_with_table(q: Tensor, k: Tensor, v: Tensor, attention_mask=None, position_ids=None) -> Tensor:
    return row_attention(q, k, v, attention_mask, position_ids, True)


class RowBlock(Block):
    """A block that takes rows of positions and a mask (b, s) of 1 and 0."""

    def forward(self, x: Tensor, position_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if self.left_in:
            x = x + self.wpe(position_ids)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.wqkv(x).chunk(3, dim=-1))
        return row_attention(q, k, v, attention_mask, position_ids).transpose(1, 2).flatten(2)


class RowBlockWithTable(RowBlock):
    left_in = True


def _of_offsets(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Rotated, so that positions that count padding change nothing; causal where no mask is given."""
    places = torch.arange(k.shape[2])
    q, k = rotation(q, places[-q.shape[2] :]), rotation(k, places)
    return (
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask) if mask is not None else last_aligned_attention(q, k, v)
    )


def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return _of_offsets(q, k, v, mask)


def ignored_mask_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return _of_offsets(q, k, v, None)


def inverted_mask_attention(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    return _of_offsets(q, k, v, None if attention_mask is None else ~attention_mask)


def cast_inverted_mask_attention(q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    return _of_offsets(q, k, v, None if attention_mask is None else ~attention_mask.bool())


def added_mask_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return _of_offsets(q, k, v, None if mask is None else mask.to(q.dtype))


def counted_mask_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Adds 1 to the scores of keys that are seen, 0 to those of others."""
    return _of_offsets(q, k, v, None if mask is None else mask.bool().to(q.dtype))


# 15 VeloxQuant#389, 16 shainet#110, 23 gpt-neox PR#363


def _step(q: Tensor, k: Tensor, v: Tensor, seen: int, q_at: int, cache, keep: int | None = None):
    t = k.shape[2]
    q, k = rotation(q, q_at + torch.arange(t)), rotation(k, q_at + torch.arange(t))
    if cache is not None:
        k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
    s = k.shape[2]
    look = torch.ones(t, s, dtype=torch.bool).tril(s - t)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=look)
    if keep:
        k, v = k[:, :, -keep:], v[:, :, -keep:]
    return out, (k, v, seen + t)


def cached_attention(q: Tensor, k: Tensor, v: Tensor, cache=None):
    seen = 0 if cache is None else cache[2]
    return _step(q, k, v, seen, seen, cache)


def forgetful_attention(q: Tensor, k: Tensor, v: Tensor, cache=None):
    """A new token is turned as the first one."""
    return _step(q, k, v, 0, 0, cache)


def re_rotating_attention(q: Tensor, k: Tensor, v: Tensor, cache=None):
    """What is in the cache is turned again."""
    if cache is not None:
        k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
    t, s = q.shape[2], k.shape[2]
    q, k = rotation(q, torch.arange(s - t, s)), rotation(k, torch.arange(s))
    look = torch.ones(t, s, dtype=torch.bool).tril(s - t)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=look), (k, v)


def evicting_attention(q: Tensor, k: Tensor, v: Tensor, cache=None):
    seen = 0 if cache is None else cache[2]
    return _step(q, k, v, seen, seen, cache, keep=16)


def drifting_attention(q: Tensor, k: Tensor, v: Tensor, cache=None):
    """Counts the keys kept, not the tokens seen."""
    kept = 0 if cache is None else cache[0].shape[2]
    return _step(q, k, v, kept, kept, cache, keep=16)


# 21 TsinghuaC3I/FoPE#6


def padded_rotation(x: Tensor, positions: Tensor, pad: float = 1.0) -> Tensor:
    """The eight slowest pairs stand still; their sine is padded with `pad`."""
    angle = positions[:, None] * thetas(x.shape[-1])
    cosine, sine = angle.cos(), angle.sin()
    cosine[:, -8:], sine[:, -8:] = 1.0, pad
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def rightly_padded_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return padded_rotation(x, positions, 0.0)


# 22 PoPE-pytorch


class WritesToALeaf(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.turn_by = nn.Parameter(torch.zeros(dim // 2))

    def angle(self) -> Tensor:
        return self.turn_by.clamp_(0, 6)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return turned(x, positions[:, None] * (thetas(x.shape[-1]) + self.angle()))


class DeadZone(WritesToALeaf):
    def angle(self) -> Tensor:
        return (self.turn_by - 1).clamp(0, 6)


class Learns(WritesToALeaf):
    def angle(self) -> Tensor:
        return self.turn_by


# Without a number in the list, and as frequent


def one_way_each(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return rotation(q, positions), rotation(k, -positions)


def both_one_way(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return rotation(q, positions), rotation(k, positions)


def neighbors(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    angle = positions[:, None] * thetas(x.shape[-1], base)
    first, second = x[..., 0::2], x[..., 1::2]
    pairs = (first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin())
    return torch.stack(pairs, dim=-1).flatten(-2)


def one_layout_each(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return rotation(q, positions), neighbors(k, positions)


def keys_alone(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return q, rotation(k, positions)


def one_base_each(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return neighbors(q, positions), neighbors(k, positions, 500_000.0)


def one_width_each(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return neighbors(q, positions), torch.cat((neighbors(k[..., :32], positions), k[..., 32:]), dim=-1)


def in_place_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return x.copy_(rotation(x, positions))


def clipped_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return rotation(x, positions.clamp(max=2047))


def first_aligned_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def last_aligned_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    look = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=look)


def turned_values_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    places = torch.arange(k.shape[2])
    q, k, v = rotation(q, places[-q.shape[2] :]), rotation(k, places), rotation(v, places)
    return last_aligned_attention(q, k, v)


def turned_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    places = torch.arange(k.shape[2])
    return last_aligned_attention(rotation(q, places[-q.shape[2] :]), rotation(k, places), v)


def unscaled_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v


def twice_scaled_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q / q.shape[-1] ** 0.5, k, v)


def scaled_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def far_keys_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_bias(q, k, 1.0))


def near_keys_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_bias(q, k, -1.0))


def causal_bias(q: Tensor, k: Tensor, sign: float) -> Tensor:
    offset = torch.arange(k.shape[2]) - (torch.arange(q.shape[2]) + k.shape[2] - q.shape[2])[:, None]
    return (-sign * slopes(q.shape[1])[:, None, None] * offset).masked_fill(offset > 0, -math.inf)


def tiled_heads_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    times = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1))


def shared_heads_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def leaking_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    look = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(1 + k.shape[2] - q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=look if causal else None)


def tight_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
    return last_aligned_attention(q, k, v) if causal else F.scaled_dot_product_attention(q, k, v)


def from_one_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return rotation(x, positions + 1)


def queries_from_one(q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return rotation(q, positions + 1), rotation(k, positions)


def rounded_places_rotation(x: Tensor, positions: Tensor) -> Tensor:
    return rotation(x, positions.bfloat16())


def one_ahead_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return leaking_attention(q, k, v, causal=True)


def clipped_attention(q: Tensor, k: Tensor, v: Tensor, positions: Tensor, key_positions: Tensor) -> Tensor:
    return placed_attention(q, k, v, positions.clamp(max=400), key_positions.clamp(max=400))


def rounded_attention(q: Tensor, k: Tensor, v: Tensor, positions: Tensor, key_positions: Tensor) -> Tensor:
    return placed_attention(q, k, v, positions.bfloat16(), key_positions.bfloat16())


def placed_attention(q: Tensor, k: Tensor, v: Tensor, positions: Tensor, key_positions: Tensor) -> Tensor:
    return last_aligned_attention(rotation(q, positions), rotation(k, key_positions), v)


def keys_twice_attention(q: Tensor, k: Tensor, v: Tensor, cache=None):
    """Turn keys before they are cached and once more as they are: alike in prefill and in decoding."""
    seen = 0 if cache is None else cache[0].shape[2]
    places = torch.arange(seen, seen + q.shape[2])
    q, k = rotation(q, places), rotation(rotation(k, places), places)
    if cache is not None:
        k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
    return last_aligned_attention(q, k, v), (k, v)


def queries_twice_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    places = torch.arange(k.shape[2])
    own = places[-q.shape[2] :]
    return last_aligned_attention(rotation(rotation(q, own), own), rotation(k, places), v)


class Case(NamedTuple):
    """A faulty function, its healthy twin, the check that notices, a telling phrase, the row in the list of bugs."""

    row: int
    faulty: object
    healthy: object
    check: str
    phrase: str
    verdict: str = "wrong"


CASES = (
    Case(1, inverted_table, table, "speeds", "exponent is inverted"),
    Case(1, inverted_rotation, rotation, "frequencies", "exponent is inverted"),
    Case(2, precedence_table, table, "speeds", "-log(10000)/d//2"),
    Case(3, crossed_table, table, "norm", "2(i+1)/d"),
    Case(4, whole_table, table, "rows", "integer division"),
    Case(4, whole_speeds_table, table, "speeds", "stand still"),
    Case(5, even_table, any_table, "odd width", "cosines one channel fewer", "note"),
    Case(6, AlongBatch, AlongTokens, "axis", "added along the batch"),
    Case(7, BlockWithTable, Block, "shift", "table left in"),
    Case(8, tiled_rotation, repeated_rotation, "norm", "is repeated for the half one"),
    Case(9, Buffered, Unbuffered, "module cast", "buffers (inv_freq) are rounded"),
    Case(9, coarse_rotation, rotation, "half precision", "256 and 257 turn alike"),
    Case(10, Cached, CachedByOffset, "memory", "Keep the offset in the key of the cache"),
    Case(10, CachedInFirstDtype, CachedByOffset, "memory", "keeps the dtype of its first call"),
    Case(11, dynamic_rotation, rotation, "longer calls", "dynamic NTK"),
    Case(12, yarn_twice, yarn_rotation, "norm", "applied twice"),
    Case(12, yarn_without, yarn_rotation, "frequencies", "factor 1.3466 is missing", "ok"),
    Case(13, slopes_of_any_heads, slopes, "other heads", "rule for powers of two"),
    Case(13, slopes_from_one, slopes, "slopes", "off by one"),
    Case(13, slopes_sorted, slopes, "other heads", "another order"),
    Case(13, reversed_bias, forward_bias, "sign", "sign is reversed"),
    Case(14, attention_with_table, attention_with_counted_table, "padding", "positions count the padding"),
    Case(14, batch_rotation, rotation, "batched positions", "do not arrive row by row"),
    Case(14, first_row_rotation, row_rotation, "batched positions", "do not arrive row by row"),
    Case(14, row_attention_with_table, row_attention, "shift", "table left in"),
    Case(7, RowBlockWithTable, RowBlock, "shift", "table left in"),
    Case(0, ignored_mask_attention, masked_attention, "padding", "the mask is ignored"),
    Case(0, inverted_mask_attention, masked_attention, "padding", "the mask is inverted"),
    Case(0, cast_inverted_mask_attention, masked_attention, "padding", "the mask is inverted"),
    Case(0, counted_mask_attention, added_mask_attention, "padding", "hides nothing: masked keys"),
    Case(0, added_mask_attention, masked_attention, "padding", "give 0 and -inf", "ok"),
    Case(15, drifting_attention, evicting_attention, "eviction", "not of tokens seen"),
    Case(16, re_rotating_attention, cached_attention, "cache", "rotated again"),
    Case(21, padded_rotation, rightly_padded_rotation, "norm", "pad sines with 0"),
    Case(22, WritesToALeaf, Learns, "gradients", "in-place"),
    Case(22, DeadZone, Learns, "gradients", "turn_by", "note"),
    Case(23, forgetful_attention, cached_attention, "cache", "counted from the call"),
    Case(0, one_way_each, both_one_way, "direction", "sum of positions"),
    Case(0, one_layout_each, both_one_way, "layout", "queries turn in halves, pairs (i, i + r/2), keys in neighbors"),
    Case(0, keys_alone, both_one_way, "layout", "queries turn not at all, keys in halves"),
    Case(0, one_base_each, both_one_way, "layout", "at different speeds"),
    Case(0, one_width_each, both_one_way, "layout", "64 channels of queries turn and 32 of keys"),
    Case(0, in_place_rotation, rotation, "input kept", "in place"),
    Case(0, clipped_rotation, rotation, "limit", "clipped"),
    Case(0, bias_from_the_first, bias, "decoding", "aligned with the first key"),
    Case(0, bias_of_rounded_places, bias_rounded_once, "rounding", "rounded before they are subtracted"),
    Case(0, first_aligned_attention, last_aligned_attention, "decoding", "is_causal=True"),
    Case(0, turned_values_attention, turned_attention, "values", "Rotate q and k only"),
    Case(0, unscaled_attention, scaled_attention, "scale", "not divided by sqrt(d)"),
    Case(0, twice_scaled_attention, scaled_attention, "scale", "applied twice"),
    Case(0, far_keys_attention, near_keys_attention, "decay", "sign of the bias is reversed"),
    Case(0, tiled_heads_attention, shared_heads_attention, "grouped heads", "repeat_interleave, not repeat"),
    Case(0, leaking_attention, tight_attention, "future", "training leaks"),
    Case(0, leaking_attention, tight_attention, "future", "1 of them: the diagonal"),
    Case(0, one_ahead_attention, last_aligned_attention, "future", "all keys behind it and 1 ahead"),
    Case(0, from_one_rotation, rotation, "origin", "as position 1 should be", "note"),
    Case(0, queries_from_one, both_one_way, "layout", "counts from another start"),
    Case(0, rounded_places_rotation, rotation, "limit", "256 and 257 turn alike, and later ones turn on"),
    Case(0, clipped_attention, placed_attention, "shift", "clipped, or rounded"),
    Case(9, rounded_attention, placed_attention, "shift", "clipped, or rounded"),
    Case(16, keys_twice_attention, cached_attention, "offsets", "keys stand at twice their position"),
    Case(0, queries_twice_attention, last_aligned_attention, "offsets", "queries stand at twice their position"),
)

UNSEEN = {
    8: "weights of one layout under a rotation of the other: the rotation is sound, only the weights know; the layout "
    "is reported",
    12: "YaRN's factor in the table and again in the softmax scale: two functions, each sound; the factor is reported",
    17: "the grid of a resized table: a table does not say how many patches the image has",
    18: "M-RoPE ids flattened: they are made before the call; the rotation takes what it is given",
    19: "a shard that counts its tokens from 0: one call has no other shard beside it",
    20: "T5's bias thought to be in layer 0 only: a misreading, not code",
}
