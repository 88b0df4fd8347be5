"""What the local and the global layers of Gemma 3 270M need of their rotations.

Key:   b batch, h heads, g key/value heads, t tokens, d head dim, n pairs
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from posenc.attention import attention
from posenc.rotate.rope import RoPE
from posenc_book.real.decoder import Attend, window
from posenc_book.real.language_model import LanguageModel, losses
from posenc_book.real.mistakes import QK, as_interleaved, base_of, right, still_half, unrotated, with_base
from posenc_book.real.pairs import members, of_copies
from posenc_book.real.texts import passages

LOCAL, GLOBAL = 10_000.0, 1_000_000.0
Change = Callable[[RoPE, Tensor, Tensor, Tensor], QK]


def _exchanged(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    return with_base(rope, q, k, positions, GLOBAL if base_of(rope) < 100_000 else LOCAL)


def _based(base: float) -> Change:
    return lambda rope, q, k, positions: with_base(rope, q, k, positions, base)


def _slow_still(rope: RoPE, q: Tensor, k: Tensor, positions: Tensor) -> QK:
    return still_half(rope, q, k, positions, fast=False)


# What is done to layers of both kinds: to the local ones, and to the global ones
CASES: dict[str, tuple[Change, Change]] = {
    "as it was trained": (right, right),
    "nothing turned in global layers": (right, unrotated),
    "nothing turned in local layers": (unrotated, right),
    "nothing turned": (unrotated, unrotated),
    "base 1,000,000 in all layers": (_based(GLOBAL), _based(GLOBAL)),
    "base 10,000 in all layers": (_based(LOCAL), _based(LOCAL)),
    "the two bases exchanged": (_exchanged, _exchanged),
    "rows in halves turned as interleaved": (as_interleaved, as_interleaved),
    "slow half of the pairs still in local layers": (_slow_still, right),
    "slow half of the pairs still in global layers": (right, _slow_still),
}


COPIED = (
    "as it was trained",
    "nothing turned in global layers",
    "nothing turned in local layers",
    "slow half of the pairs still in global layers",
)
GAP = 256  # within the window of the local layers


def case(model: LanguageModel, name: str) -> dict[str, Any]:
    """Return the loss of four passages of 256 tokens."""
    return {"loss": losses(model, passages(model, 256, 4), _changed(model, name)).mean(dim=1).tolist()}


def copied(model: LanguageModel, name: str) -> dict[str, Any]:
    """Return the loss of random tokens that stood GAP before, from the ninth of them on, for each of four seeds."""
    return of_copies(model, GAP, _changed(model, name))


def _changed(model: LanguageModel, name: str) -> Attend:
    local, full = CASES[name]

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        planned = model.layers[layer]
        change = full if planned.window is None else local
        turned_q, turned_k = change(planned.encoding, q, k, torch.arange(q.shape[2]))
        return attention(turned_q, turned_k, v, causal=True, mask=window(q.shape[2], planned.window, q.device))

    return attend


def energy(model: LanguageModel) -> dict[str, Any]:
    """Return for each layer its window, and the share of its keys' energy in the fast half of the pairs."""
    shares: list[float] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        of_pair = members(model.layers[layer].encoding, k).square().sum(dim=(0, 1, 2, 4))  # (n,)
        shares.append((of_pair[: len(of_pair) // 2].sum() / of_pair.sum()).item())
        return model.attend(layer, q, k, v)

    model.hidden(passages(model, 256, 4), attend)
    return {"window": [layer.window for layer in model.layers], "fast": shares}
