"""Sinks, windows, moved and rounded caches: what a model makes of keys that are dropped, moved or stored in few bits.

Key:   b batch, h heads, g key/value heads, t tokens, s the same tokens as keys, d head dim, n pairs
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attention, attention_weights
from posenc.rotate.rope import RoPE
from posenc_book.real.decoder import Attend
from posenc_book.real.language_model import LanguageModel, losses
from posenc_book.real.mistakes import rounded_angles, unrotated
from posenc_book.real.texts import passages
from posenc_book.real.where import of_needles, with_needles

# Sinks


SINK_LENGTH, FENCE = 256, 128  # a text, and the token in its middle that may be fenced off


def past(length: int) -> Tensor:
    """Return true where a query sees a key: the causal mask (t, t)."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def fenced(length: int) -> Tensor:
    """Return the causal mask (t, t) in which the token FENCE sees itself alone, and all later ones see everything."""
    mask = past(length)
    mask[FENCE, :FENCE] = False
    return mask


def two_documents(length: int) -> Tensor:
    """Return the causal mask (t, t) in which nothing from FENCE on sees what stands before."""
    mask = past(length)
    mask[FENCE:, :FENCE] = False
    return mask


def first_hidden(length: int) -> Tensor:
    """Return the causal mask (t, t) in which nobody but the first token itself sees the first token."""
    mask = past(length)
    mask[1:, 0] = False
    return mask


def _plain(positions: Tensor) -> Tensor:
    return positions


def _first_at(where: int) -> Callable[[Tensor], Tensor]:
    return lambda positions: torch.where(positions == 0, where, positions)


SINKS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "positions from 1,000": {"count": lambda p: p + 1000},
    "first token 100 earlier": {"count": _first_at(-100)},
    "first token at 128": {"count": _first_at(128)},
    "nothing turned": {"rotate": unrotated},
    "another first token": {"first": 1000},
    "positions restart at 128": {"count": lambda p: p % FENCE},
    "token 128 sees itself alone": {"mask": fenced},
    "two documents, hidden from each other": {"mask": two_documents},
    "first token hidden": {"mask": first_hidden},
}


def sink(model: LanguageModel, name: str, text: str | None = None) -> dict[str, Any]:
    """Return by layer what queries at least 32 later give to tokens 0, 1 and FENCE, and how large these tokens are.

    The size is the norm of the hidden state after two thirds of the layers, over the median of all tokens.
    """
    case = {"count": _plain, "rotate": None, "mask": past, "first": None} | SINKS[name]
    ids = passages(model, SINK_LENGTH, 4, text)
    if case["first"] is not None:
        ids[:, 0] = case["first"]
    positions, mask = case["count"](torch.arange(SINK_LENGTH)), case["mask"](SINK_LENGTH)
    weight: list[list[float]] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope = model.layers[layer].encoding
        q, k = (case["rotate"] or _turned)(rope, q, k, positions)
        weights = attention_weights(q, k, mask=mask)  # (b, h, t, s)
        weight.append([weights[:, :, token + 32 :, token].mean().item() for token in (0, 1, FENCE)])
        return weights @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)

    # The sizes are read after two thirds of the layers, where massive states stand out most.
    states = model.states(ids, attend)
    sizes = [state.norm(dim=-1).mean(dim=0) for state in states][2 * len(model.layers) // 3]  # (t,)
    return {"weight": weight, "size": (sizes / sizes.median())[[0, 1, FENCE]].tolist()}


def _turned(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    return rope(q, k, positions)


# Windows


WINDOW_LENGTH, WINDOW, FIRST = 1024, 256, 4


def window_mask(length: int, reach: int, first: int) -> Tensor:
    """Return true where a query sees one of the last `reach` keys, or of the `first` of the text: (t, t)."""
    mask = past(length).triu(1 - reach)
    mask[:, :first] |= past(length)[:, :first]
    return mask


def windowed(model: LanguageModel, reach: int, first: int, places: str, text: str | None = None) -> dict[str, Any]:
    """Return the loss of the second half of each passage with a window of keys.

    `places` says where the keys of a full cache stand: "text" where they stood in the text; "cache" at their place in
    the cache, queries and keys; "queries" as "cache", but keys keep the rotation of the text.
    """
    ids = passages(model, WINDOW_LENGTH, 3, text)
    mask = window_mask(WINDOW_LENGTH, reach, first)
    if places == "text":
        attend = model.with_rotation(lambda rope, q, k, v: (*rope(q, k), v), mask)
    else:
        attend = _in_the_cache(model, mask, first, places)
    loss = losses(model, ids, attend)[:, WINDOW_LENGTH // 2 - 1 :]
    return {"loss": loss.mean(dim=1).tolist()}


def _in_the_cache(model: LanguageModel, mask: Tensor, first: int, places: str) -> Attend:
    """Return attention as a cache of `first` and the last keys has it, whose places run from 0.

    A query at m of the text then stands at m - dropped, where that many keys were dropped before it. Keys that are
    turned anew stand as far from it as the cache says: the last ones as in the text, the first ones `dropped` nearer.
    """
    t = len(mask)
    dropped = torch.arange(1, t + 1) - mask.sum(dim=1)  # of each query, (t,)

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope, positions = model.layers[layer].encoding, torch.arange(t)
        if places == "queries":
            turned_q, turned_k = rope(q, k, positions - dropped, positions)
            return attention(turned_q, turned_k, v, mask=mask)
        # logits with the first keys are those of queries that stand nearer; the others are as in the text
        near_q, turned_k = rope(q, k, positions - dropped, positions)
        far_q, _ = rope(q, k, positions)
        expand = q.shape[1] // k.shape[1]
        keys, values = (x.repeat_interleave(expand, dim=1) for x in (turned_k, v))
        is_first = torch.arange(t) < first
        logits = torch.where(is_first, near_q @ keys.mT, far_q @ keys.mT) * q.shape[-1] ** -0.5
        return logits.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ values

    return attend


WINDOWS: dict[str, tuple[int, int, str]] = {
    "all keys": (WINDOW_LENGTH, 0, "text"),
    "last 256": (WINDOW, 0, "text"),
    "last 252 and 4 first": (WINDOW - FIRST, FIRST, "text"),
    "last 255 and 1 first": (WINDOW - 1, 1, "text"),
    "last 252 and 4 first, turned to their place in the cache": (WINDOW - FIRST, FIRST, "cache"),
    "last 252 and 4 first, queries at their place in the cache, keys not turned again": (
        WINDOW - FIRST,
        FIRST,
        "queries",
    ),
}


# Moved texts


def moved(model: LanguageModel, dtype: str, shift: int, text: str | None = None) -> dict[str, Any]:
    """Return the loss of passages whose positions begin at `shift`, and the largest change of a logit in any layer.

    Angles are computed in `dtype`: "exact" is `RoPE`'s float64, rounded once. The change is that against exact angles
    from position 0, of the same queries and keys.
    """
    largest = 0.0

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        nonlocal largest
        rope, positions = model.layers[layer].encoding, torch.arange(q.shape[2])
        if dtype == "exact":
            turned_q, turned_k = rope(q, k, positions + shift)
        else:
            turned_q, turned_k = rounded_angles(rope, q, k, positions + shift, getattr(torch, dtype))
        # Later layers see states that have moved already, so each is compared with its own queries and keys.
        change = (_logits(turned_q, turned_k) - _logits(*rope(q, k, positions))).tril()
        largest = max(largest, change.abs().max().item())
        return attention(turned_q, turned_k, v, causal=True)

    loss = losses(model, passages(model, 128, 3, text), attend)
    return {"loss": loss.mean().item(), "logit": largest}


def _logits(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * q.shape[-1] ** -0.5


MOVES = [
    *[("exact", 10**power) for power in (0, 3, 5, 6, 7)],
    *[("float32", 10**power) for power in (0, 3, 4, 5, 6, 7)],
    *[("float16", shift) for shift in (0, 256, 1024, 4096)],
    *[("bfloat16", shift) for shift in (0, 128, 256, 1024, 4096)],
]

# Chunks of a cache


CHUNK, CHUNKS = 192, 3


def reused(model: LanguageModel, name: str, text: str | None = None) -> dict[str, Any]:
    """Return the loss of a last chunk behind three whose keys and values were computed each by itself.

    "stale": keys keep the rotation of their own chunk, which began at 0. "turned": they are turned to where they stand.
    "again": some tokens of each chunk are computed anew, and see all that stands before; the others keep the keys and
    values that they have, which were made with the old ones.
    "recall" is the loss where the last chunk repeats 24 random tokens of each of the others, from the ninth on.
    """
    rows, visible = joined(*REUSED[name])
    places = torch.where(rows < CHUNKS * CHUNK, rows % CHUNK, rows) if name == "stale" else rows
    attend = model.with_rotation(lambda rope, q, k, v: (*rope(q, k, places), v), visible)
    ids = passages(model, (CHUNKS + 1) * CHUNK, 4, text)
    starts = [n * CHUNK + CHUNK // 2 for n in range(CHUNKS)]
    recalled = []
    for seed, row in enumerate(ids):
        asked, repeated = with_needles(row, starts, model.words, seed)
        loss = losses(model, asked[:, rows], attend)[0, 1 - CHUNK :]  # of the last chunk but its first token
        recalled += of_needles(loss, [begin - CHUNKS * CHUNK for begin in repeated])
    return {"loss": losses(model, ids[:, rows], attend)[:, 1 - CHUNK :].mean(dim=1).tolist(), "recall": recalled}


def joined(begin: int, end: int) -> tuple[Tensor, Tensor]:
    """Return which tokens are computed, (r,), and true where one sees another, (r, r).

    First come the chunks, each by itself; then tokens `begin` to `end` of each, which replace what was computed of
    them for all that come later in the text; then the last chunk.
    """
    tokens = torch.arange((CHUNKS + 1) * CHUNK)
    cached, last = tokens[: CHUNKS * CHUNK], tokens[CHUNKS * CHUNK :]
    anew = cached[(cached % CHUNK >= begin) & (cached % CHUNK < end)]
    rows = torch.cat([cached, anew, last])
    alone = torch.arange(len(rows)) < len(cached)
    before = rows[:, None] >= rows
    own_chunk = alone & (rows[:, None] // CHUNK == rows // CHUNK)
    replaced = alone & (rows % CHUNK >= begin) & (rows % CHUNK < end)
    return rows, before & torch.where(alone[:, None], own_chunk, ~replaced)


# Which tokens of each chunk are computed anew, from and to
REUSED = {
    "computed together": (0, CHUNK),
    "stale": (0, 0),
    "turned": (0, 0),
    "turned, first 1 again": (0, 1),
    "turned, first 4 again": (0, 4),
    "turned, first 16 again": (0, 16),
    "turned, first 64 again": (0, 64),
    "turned, 4 others again": (40, 44),
}

# Keys in few bits


WHERE = ("before", "after", "mixed")


def in_bits(x: Tensor, bits: int, block: int = 32) -> Tensor:
    """Return `x` (..., d) rounded to 2^bits steps, in blocks of channels that share a scale (as llama.cpp's Q4_0)."""
    parts = x.unflatten(-1, (-1, block))
    # As in llama.cpp, the largest number of a block, with its sign, is its lowest step.
    largest = parts.gather(-1, parts.abs().argmax(dim=-1, keepdim=True))  # with its sign
    scale = largest / -(2 ** (bits - 1))
    # A block of zeros has no scale; any will do for it.
    steps = (parts / scale.where(scale != 0, 1.0)).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return (steps * scale).flatten(-2)


def hadamard(size: int) -> Tensor:
    """Return Sylvester's matrix (size, size) of 1 and -1 over the root of its size, which is orthogonal."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return matrix / size**0.5


def rounded_keys(model: LanguageModel, bits: int, where: str, text: str | None = None) -> dict[str, Any]:
    """Return the loss of passages whose keys are rounded to `bits` "before" the rotation, "after" it, or "mixed".

    "mixed" rounds after it, and multiplies queries and keys by a Hadamard matrix first: no logit changes by that, but
    large channels are spread.
    """

    def rotates(rope: RoPE, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if where == "before":
            return (*rope(q, in_bits(k, bits)), v)
        turned_q, turned_k = rope(q, k)
        if where == "mixed":
            turned_q, turned_k = (x @ hadamard(rope.dim) for x in (turned_q, turned_k))
        return turned_q, in_bits(turned_k, bits), v

    loss = losses(model, passages(model, 256, 4, text), model.with_rotation(rotates))
    return {"loss": loss.mean(dim=1).tolist()}
