"""Which pairs a model uses: how long they are, which of its heads read them, and what stopping or removing them costs.

Key:   b batch, h heads, g key/value heads, t tokens, s keys, d head dim, r rotary dim, n pairs, L layers
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attention, attention_weights
from posenc.rotate.rope import RoPE
from posenc_book.real.decoder import Attend
from posenc_book.real.language_model import LanguageModel, losses
from posenc_book.real.mistakes import still
from posenc_book.real.texts import copying, passages

PASSAGES, LENGTH = 4, 256


def members(rope: RoPE, x: Tensor) -> Tensor:
    """Return the two members of each pair of `x` (b, h, t, d): (b, h, t, n, 2)."""
    turning = x[..., : 2 * len(rope.theta)]
    return turning.unflatten(-1, (-1, 2)) if rope.layout == "interleaved" else turning.unflatten(-1, (2, -1)).mT


# Lengths of queries and keys


def lengths(model: LanguageModel, text: str | None = None) -> dict[str, Any]:
    """Return the mean length of each pair, of q, k and by layer (L, n), the longest pair of each key head, and more."""
    seen: dict[str, list[Any]] = {"q": [], "k": [], "longest": [], "share": [], "largest k": [], "largest v": []}

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope = model.layers[layer].encoding
        of_q, of_k = (members(rope, x).norm(dim=-1).mean(dim=(0, 2)) for x in (q, k))  # (h, n), (g, n)
        seen["q"].append(of_q.mean(dim=0).tolist())
        seen["k"].append(of_k.mean(dim=0).tolist())
        seen["longest"].append(of_k.argmax(dim=-1).tolist())
        energy = members(rope, k).square().sum(dim=-1).mean(dim=(0, 2))  # (g, n)
        seen["share"].append((energy.max(dim=-1).values / energy.sum(dim=-1)).tolist())
        for name, x in (("k", k), ("v", v)):
            channels = x.abs().mean(dim=(0, 2))  # (g, d)
            seen[f"largest {name}"].append((channels.max(dim=-1).values / channels.mean(dim=-1)).tolist())
        return model.attend(layer, q, k, v)

    model.hidden(passages(model, LENGTH, PASSAGES, text), attend)
    return seen


# Stopping and removing pairs


def groups(count: int) -> dict[str, slice]:
    """Return what is stopped or removed of `count` pairs: each eighth, and each half."""
    width = count // 8
    eighths = {f"{n * width}-{(n + 1) * width - 1}": slice(n * width, (n + 1) * width) for n in range(8)}
    return eighths | {"fast half": slice(0, count // 2), "slow half": slice(count // 2, count)}


def stopped(rope: RoPE, q: Tensor, k: Tensor, v: Tensor, pairs: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Turn all pairs but these, which stay as they are."""
    return (*still(rope, q, k, torch.arange(q.shape[2], device=q.device), pairs), v)


def removed(rope: RoPE, q: Tensor, k: Tensor, v: Tensor, pairs: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Turn all pairs, and set these of the queries to 0, so that logits have no part of them."""
    turned_q, turned_k = rope(q, k)
    kept = torch.ones(len(rope.theta), device=q.device)
    kept[pairs] = 0
    # From pairs to channels, in the layout of the file; channels that do not turn are kept.
    kept = kept.repeat_interleave(2) if rope.layout == "interleaved" else kept.repeat(2)  # (r,)
    kept = torch.cat([kept, torch.ones(rope.dim - len(kept), device=q.device)])  # (d,)
    return turned_q * kept, turned_k, v


ABLATIONS = {"stopped": stopped, "removed": removed}


def as_it_is(model: LanguageModel, text: str | None = None) -> dict[str, Any]:
    """Return the loss of each passage with all pairs as they were trained."""
    return {"loss": losses(model, passages(model, LENGTH, PASSAGES, text)).mean(dim=1).tolist()}


def ablation(model: LanguageModel, how: str, which: str, text: str | None = None) -> dict[str, Any]:
    """Return the loss of each passage where a group of pairs is stopped or removed in all layers."""
    ids = passages(model, LENGTH, PASSAGES, text)
    return {"loss": losses(model, ids, ablated(model, how, which)).mean(dim=1).tolist()}


def ablated(model: LanguageModel, how: str, which: str) -> Attend:
    """Return attention in which a group of pairs is stopped or removed."""
    pairs = groups(len(model.layers[0].encoding.theta))
    return model.with_rotation(partial(ABLATIONS[how], pairs=pairs[which]))


def layer_unrotated(model: LanguageModel, number: int, text: str | None = None) -> dict[str, Any]:
    """Return the loss of each passage where one layer turns nothing."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, causal=True) if layer == number else model.attend(layer, q, k, v)

    return {"loss": losses(model, passages(model, LENGTH, PASSAGES, text), attend).mean(dim=1).tolist()}


# Copying


def copied(model: LanguageModel, gap: int, how: str | None = None, which: str | None = None) -> dict[str, Any]:
    """Return the loss of random tokens that stood `gap` before, from the ninth of them on, for each of four seeds."""
    return of_copies(model, gap, ablated(model, how, which) if how and which else None)


def of_copies(model: LanguageModel, gap: int, attend: Attend | None) -> dict[str, Any]:
    """Return the same with attention of any kind."""
    opening = torch.tensor(model.opening, dtype=torch.long).expand(4, -1)
    copies = torch.cat([copying(model.words, gap, seed) for seed in range(4)])
    loss = losses(model, torch.cat([opening, copies], dim=1), attend)
    return {"loss": loss[:, opening.shape[1] + gap + 7 :].mean(dim=1).tolist()}


# Heads


def heads(model: LanguageModel, seed: int = 0, gap: int = 128) -> dict[str, Any]:
    """Return how much each head (L, h) gives to the token before, and to what followed the same token earlier.

    The text is random and repeats itself after `gap` tokens, so content tells nothing else. Of the four heads of each
    kind that give most, the parts of each pair (n,) in the logit are returned: of the key that they look for, less the
    mean of the keys 8 to 64 before.
    """
    # The whole text is repeated, so that each head is asked at many places.
    ids = copying(model.words, gap, seed, length=gap)
    weights: list[Tensor] = []
    turned: list[tuple[Tensor, Tensor]] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope = model.layers[layer].encoding
        turned_q, turned_k = rope(q, k)
        turned.append((turned_q, turned_k))
        weights.append(attention_weights(turned_q, turned_k, causal=True)[0])
        return model.attend(layer, q, k, v)

    model.hidden(ids, attend)
    result: dict[str, Any] = {}
    for kind, back in {"previous": 1, "induction": gap - 1}.items():
        # A diagonal holds the weights of keys at one distance; the first half has nothing to be repeated.
        share = torch.stack([w.diagonal(-back, -2, -1)[:, gap // 2 :].mean(dim=-1) for w in weights])  # (L, h)
        best = share.flatten().argsort(descending=True)[:4].tolist()
        named = [divmod(place, share.shape[1]) for place in best]
        parts = [_parts(model.layers[layer].encoding, turned[layer], head, back) for layer, head in named]
        result[kind] = {"share": share.tolist(), "heads": named, "parts": parts}
    return result


def _parts(rope: RoPE, turned: tuple[Tensor, Tensor], head: int, back: int) -> list[float]:
    """Return the part of each pair (n,) in the logit of the key `back` before, less that of keys 8 to 64 before."""
    q, k = turned
    group = q.shape[1] // k.shape[1]
    queries, keys = members(rope, q)[0, head], members(rope, k)[0, head // group]  # (t, n, 2)
    at = lambda offset: (queries[128:] * keys[128 - offset : len(keys) - offset]).sum(dim=-1).mean(dim=0)  # noqa: E731
    others = torch.stack([at(offset) for offset in range(8, 65)]).mean(dim=0)  # (n,)
    return ((at(back) - others) * rope.dim**-0.5).tolist()
