"""Mistakes with rotary position embeddings, as they are made in code, to be put into a model that works.

Each is a function of the right rotation, a `RoPE`, and of queries (b, h, t, d), keys (b, g, t, d) and positions (t,) or
(b, t), and returns queries and keys as the mistaken code turns them.

Key:   b batch, h heads, g key/value heads, t tokens, d head dim, r rotary dim, c width of all heads
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from posenc.models.checkpoints import layout_order
from posenc.rotate.frequencies import yarn
from posenc.rotate.rope import RoPE

QK = tuple[Tensor, Tensor]
Rotate = Callable[[RoPE, Tensor, Tensor, Tensor], QK]
FAR = 4096  # where a text begins whose angles are rounded
SEAM = 256  # the first token that is written one at a time, after a prompt


def right(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn both as the model was trained."""
    return rope(q, k, positions)


# Pairs


def as_halves(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn (i, i + r/2), where pairs stand as (2i, 2i + 1): a GGUF of a Llama in code for transformers."""
    return _like(rope, layout="half")(_in(rope, q, "interleaved"), _in(rope, k, "interleaved"), positions)


def as_interleaved(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn (2i, 2i + 1), where pairs stand as (i, i + r/2): weights of transformers in code for Meta's."""
    return _like(rope, layout="interleaved")(_in(rope, q, "half"), _in(rope, k, "half"), positions)


def queries_in_halves(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Reorder the rows of queries for halves, forget those of keys, and turn both as halves."""
    return _like(rope, layout="half")(_in(rope, q, "half"), _in(rope, k, "interleaved"), positions)


def reordered(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Reorder the rows of both for the other layout, and turn them in it: the same model."""
    other = "half" if rope.layout == "interleaved" else "interleaved"
    return _like(rope, layout=other)(_in(rope, q, other), _in(rope, k, other), positions)


# What is turned, and which way


def unrotated(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn nothing."""
    return q, k


def only_queries(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Forget the keys."""
    return rope(q, k, positions)[0], k


def only_keys(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Forget the queries."""
    return q, rope(q, k, positions)[1]


def twice(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn both twice."""
    return rope(*rope(q, k, positions), positions)


def keys_twice(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn keys that come turned from a cache once more."""
    return rope(q, rope(q, k, positions)[1], positions)


def reversed_both(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn both the other way."""
    return rope(q, k, -positions)


def reversed_keys(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn keys the other way than queries."""
    return rope(q, k, positions, -positions)


def over_heads(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn by the number of the head, as code for (b, t, h, d) does with (b, h, t, d)."""
    turned = [_by_head(rope, x) for x in (q, k)]
    return turned[0], turned[1]


def over_the_width(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn the whole width h d before it is cut into heads, so that each head has other frequencies."""
    turned = [_whole(rope, x, positions) for x in (q, k)]
    return turned[0], turned[1]


# Frequencies


def with_base(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, base: float) -> QK:
    """Turn with the frequencies of another base."""
    r = 2 * len(rope.theta)
    return _like(rope, theta=base ** (-np.arange(0, r, 2) / r))(q, k, positions)


def with_power(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, power: float) -> QK:
    """Turn with theta_i ** power: 1/2 is the exponent -i/d in place of -2i/d."""
    return _like(rope, theta=np.asarray(rope.theta) ** power)(q, k, positions)


def divided(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, factor: float) -> QK:
    """Divide all frequencies, as linear interpolation does, in a model that was not trained so."""
    return _like(rope, theta=np.asarray(rope.theta) / factor)(q, k, positions)


def in_reverse(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Give the first pair the frequency of the last, and so on."""
    return _like(rope, theta=rope.theta[::-1])(q, k, positions)


def half_head(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Turn the first half of the channels, as if the head were that narrow."""
    r = len(rope.theta)
    theta = np.asarray(rope.theta[::2])  # base ** (-2i / r) of the narrower head
    return RoPE(rope.dim, layout=rope.layout, rotary_dim=r, theta=theta)(q, k, positions)


def still(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, pairs: slice) -> QK:
    """Turn all pairs but these."""
    theta = np.array(rope.theta)
    theta[pairs] = 0
    return _like(rope, theta=theta)(q, k, positions)


def still_half(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, fast: bool) -> QK:
    """Turn only the slow half of the pairs, or only the fast half."""
    half = len(rope.theta) // 2
    return still(rope, q, k, positions, slice(0, half) if fast else slice(half, None))


def yarn_factor(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, length: int, power: int) -> QK:
    """Stretch by YaRN to 4 times a trained `length`; its attention factor is forgotten (0), right (1) or twice (2)."""
    r = 2 * len(rope.theta)
    theta, factor = yarn(r, 4.0, length, base_of(rope))
    return _like(rope, theta=theta, attention_factor=factor**power)(q, k, positions)


def factor_on_both(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, factor: float) -> QK:
    """Multiply queries and keys by an attention factor that the model was not trained with."""
    return _like(rope, attention_factor=factor)(q, k, positions)


# Positions


def shifted_queries(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, shift: int) -> QK:
    """Place queries `shift` ahead of where their keys stand."""
    return rope(q, k, positions + shift, positions)


def queries_at_zero(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    """Place each query that is written one at a time at 0, keys rightly."""
    written = torch.arange(q.shape[2], device=q.device) >= SEAM
    return rope(q, k, positions.masked_fill(written, 0), positions)


# Precision


def rounded_angles(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, dtype: torch.dtype) -> QK:
    """Compute angles, cosines and sines in `dtype`."""
    theta = torch.tensor(rope.theta, device=positions.device).to(dtype)
    angle = positions.to(dtype)[..., None, :, None] * theta  # (..., 1, t, r/2)
    return _turned(rope, q, k, angle.cos(), angle.sin())


def rounded_table(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, dtype: torch.dtype) -> QK:
    """Round cosines and sines to `dtype`, of angles that are exact."""
    theta = torch.tensor(rope.theta, dtype=torch.float64, device=positions.device)
    angle = positions.double()[..., None, :, None] * theta  # (..., 1, t, r/2)
    return _turned(rope, q, k, angle.cos().to(dtype), angle.sin().to(dtype))


def rounded_frequencies(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor, dtype: torch.dtype) -> QK:
    """Round the frequencies, as `model.to(dtype)` rounds a buffer `inv_freq`; all else in float32."""
    theta = torch.tensor(rope.theta).to(dtype).double().numpy()
    return _like(rope, theta=theta)(q, k, positions)


# How they are made


def _like(rope: RoPE, **changes: object) -> RoPE:
    settings = {"layout": rope.layout, "theta": rope.theta, "attention_factor": rope.attention_factor} | changes
    return RoPE(rope.dim, rotary_dim=2 * len(rope.theta), **settings)  # type: ignore[arg-type]


def base_of(rope: RoPE) -> float:
    """Return the base of a rotation that was not stretched."""
    return rope.theta[1] ** -len(rope.theta)


def _in(rope: RoPE, x: Tensor, layout: str) -> Tensor:
    """Return the channels of `x` (b, h, t, d), which stand in the layout of `rope`, in the order of a layout."""
    return x if rope.layout == layout else x[..., layout_order(rope.dim, layout, 2 * len(rope.theta))]


def _by_head(rope: RoPE, x: Tensor) -> Tensor:
    # With heads and tokens exchanged, the axis that `turn` takes for tokens is that of heads.
    numbers = torch.arange(x.shape[1], device=x.device)
    return rope.turn(x.transpose(1, 2), rope.table(numbers)).transpose(1, 2)


def _whole(rope: RoPE, x: Tensor, positions: Tensor) -> Tensor:
    # The pairs of a whole row lie across heads, and each head gets a stretch of the frequencies.
    wide = RoPE(x.shape[1] * x.shape[3], base=base_of(rope), layout=rope.layout)
    rows = x.transpose(1, 2).flatten(2)[:, None]  # (b, 1, t, c)
    turned = wide.turn(rows, wide.table(positions))
    return turned[:, 0].unflatten(-1, (x.shape[1], -1)).transpose(1, 2)  # (b, h, t, d)


def _turned(rope: RoPE, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> QK:
    """Return both turned by cosines and sines (..., 1, t, r/2), as `rope.table` would lay them out."""
    cos, sin = cos.float(), sin.float()
    if rope.layout == "half":
        cos, sin = torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)  # (..., 1, t, r)
    return rope.turn(q, (cos, sin)), rope.turn(k, (cos, sin))


# The list


@dataclass(frozen=True)
class Mistake:
    """A mistake: its name, its kind, and what it does.

    `rotate` turns queries and keys. A text begins at position `begins`, and `count` makes of 0 .. t-1 the positions
    that the mistaken code counts. With `turns_values` values are turned too.
    """

    name: str
    kind: str
    rotate: Rotate
    begins: int = 0
    count: Callable[[Tensor], Tensor] | None = None
    turns_values: bool = False

    def __call__(self, rope: RoPE, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the mistaken code hands to attention of q (b, h, t, d), k and v (b, g, t, d)."""
        positions = torch.arange(q.shape[2], device=q.device)
        if self.count is not None:
            positions = self.count(positions)
        positions = positions + self.begins
        turned_q, turned_k = self.rotate(rope, q, k, positions)
        if self.turns_values:
            _, v = rope(q, v, positions)
        return turned_q, turned_k, v


def written_moved(positions: Tensor, by: int) -> Tensor:
    """Move tokens that are written one at a time on by so many places."""
    return positions + by * (positions >= SEAM)


def written_at_zero(positions: Tensor) -> Tensor:
    """Place tokens that are written one at a time at 0."""
    return positions.masked_fill(positions >= SEAM, 0)


def by_chunks(positions: Tensor, width: int) -> Tensor:
    """Begin each chunk of a prompt at 0."""
    return positions % width


BF16, FP16 = torch.bfloat16, torch.float16


LISTED = [
    Mistake("as it was trained", "right", right),
    Mistake("rows reordered and turned in their new layout", "right", reordered),
    Mistake(f"a text that begins at {FAR:,}", "right", right, begins=FAR),
    Mistake("a text that begins at 1,000,000", "right", right, begins=1_000_000),
    Mistake("interleaved rows turned as halves", "pairs", as_halves),
    Mistake("rows in halves turned as interleaved", "pairs", as_interleaved),
    Mistake("rows of queries in halves, of keys interleaved", "pairs", queries_in_halves),
    Mistake("frequencies from slow to fast", "pairs", in_reverse),
    Mistake("turned before the heads are cut", "pairs", over_the_width),
    Mistake("nothing turned", "rotation", unrotated),
    Mistake("only queries turned", "rotation", only_queries),
    Mistake("only keys turned", "rotation", only_keys),
    Mistake("both turned twice", "rotation", twice),
    Mistake("cached keys turned again", "rotation", keys_twice),
    Mistake("both turned the other way", "rotation", reversed_both),
    Mistake("keys turned the other way", "rotation", reversed_keys),
    Mistake("turned by head, not by token", "rotation", over_heads),
    Mistake("values turned too", "rotation", right, turns_values=True),
    Mistake("half of the head turned", "rotation", half_head),
    Mistake("fast half of the pairs still", "rotation", partial(still_half, fast=True)),
    Mistake("slow half of the pairs still", "rotation", partial(still_half, fast=False)),
    Mistake("base 10,000", "frequencies", partial(with_base, base=10_000.0)),
    Mistake("base 500,000", "frequencies", partial(with_base, base=500_000.0)),
    Mistake("base 1,000,000", "frequencies", partial(with_base, base=1_000_000.0)),
    Mistake("exponent -i/d for -2i/d", "frequencies", partial(with_power, power=0.5)),
    Mistake("interpolated by 2 though not trained so", "frequencies", partial(divided, factor=2.0)),
    Mistake("interpolated by 8 though not trained so", "frequencies", partial(divided, factor=8.0)),
    Mistake("attention factor 1.07 that was not trained", "factors", partial(factor_on_both, factor=1.0693)),
    Mistake("attention factor 1.21 that was not trained", "factors", partial(factor_on_both, factor=1.2079)),
    Mistake("queries one ahead of their keys", "positions", partial(shifted_queries, shift=1)),
    Mistake("queries one behind their keys", "positions", partial(shifted_queries, shift=-1)),
    Mistake("writing starts one late", "positions", right, count=partial(written_moved, by=1)),
    Mistake("writing starts one early", "positions", right, count=partial(written_moved, by=-1)),
    Mistake("written tokens all at 0", "positions", right, count=written_at_zero),
    Mistake("written queries at 0, keys right", "positions", queries_at_zero),
    Mistake("each chunk of 128 counts from 0", "positions", right, count=partial(by_chunks, width=128)),
    Mistake("cosines and sines kept in bfloat16", "precision", partial(rounded_table, dtype=BF16)),
    Mistake("frequencies cast to bfloat16", "precision", partial(rounded_frequencies, dtype=BF16)),
    Mistake(
        f"frequencies cast to bfloat16, from {FAR:,}",
        "precision",
        partial(rounded_frequencies, dtype=BF16),
        begins=FAR,
    ),
    Mistake("angles in bfloat16", "precision", partial(rounded_angles, dtype=BF16)),
    Mistake(f"angles in bfloat16, from {FAR:,}", "precision", partial(rounded_angles, dtype=BF16), begins=FAR),
    Mistake(f"angles in float16, from {FAR:,}", "precision", partial(rounded_angles, dtype=FP16), begins=FAR),
    Mistake(
        "angles in float32, from 1,000,000",
        "precision",
        partial(rounded_angles, dtype=torch.float32),
        begins=1_000_000,
    ),
]


def mistakes(base: float, length: int) -> dict[str, Mistake]:
    """Return all mistakes by name, for a model of that base and trained length."""
    name = "YaRN to 4 times the length"
    stretched = [
        Mistake(name + ending, "factors", partial(yarn_factor, length=length, power=power))
        for ending, power in (("", 1), (", its factor forgotten", 0), (", its factor twice", 2))
    ]
    return {mistake.name: mistake for mistake in [*LISTED, *stretched] if mistake.name != f"base {base:,.0f}"}
