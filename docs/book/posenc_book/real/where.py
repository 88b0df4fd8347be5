"""Where in the text a model looks: what is repeated, by depth and distance, and attention by distance.

Key:   b batch, h heads, t tokens, s the same tokens as keys, d head dim, L layers
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Generator, Tensor

from posenc.attention import attention_weights
from posenc_book.real.language_model import LanguageModel, losses
from posenc_book.real.pairs import ablated
from posenc_book.real.texts import ORDINARY, passages

NEEDLE, CUE = 24, 8  # tokens of a passage, and how many of them tell which one is being repeated
HOW = ("as it is", "slow half stopped", "0-3 stopped")


def with_needles(haystack: Tensor, starts: Sequence[int], words: int, seed: int) -> tuple[Tensor, list[int]]:
    """Return the text (1, t) with random passages at `starts`, repeated at its end, and where each repetition begins.

    The order of the repetitions is drawn by `seed`, so that the distance does not follow from the depth alone.
    """
    generator = Generator("cpu").manual_seed(seed)
    needles = torch.randint(ORDINARY, words, (len(starts), NEEDLE), generator=generator, device="cpu")
    # What is repeated replaces the end of the text, so that its length stays the same.
    text, end = haystack.clone(), len(haystack) - NEEDLE * len(starts)
    repeated = [0] * len(starts)
    for place, number in enumerate(torch.randperm(len(starts), generator=generator, device="cpu").tolist()):
        repeated[number] = end + place * NEEDLE
        text[repeated[number] : repeated[number] + NEEDLE] = needles[number]
        text[starts[number] : starts[number] + NEEDLE] = needles[number]
    return text[None], repeated


def recall(model: LanguageModel, length: int, count: int, seeds: int, how: str) -> dict[str, Any]:
    """Return where `count` passages begin, and by seed how far back each is and the loss of its repetition.

    The text has `length` tokens; another one for each seed. "first" is the loss of a passage where it first stands and
    nothing tells what it is, the mean of all.
    """
    starts = torch.linspace(NEEDLE, length - NEEDLE * (count + 2), count, device="cpu").long().tolist()
    haystacks = passages(model, length, seeds)
    attend = None if how == "as it is" else ablated(model, "stopped", how.removesuffix(" stopped"))
    distances, scored, unknown = [], [], []
    for seed in range(seeds):
        ids, repeated = with_needles(haystacks[seed], starts, model.words, seed)
        loss = losses(model, ids, attend)[0]
        distances.append([r - s for r, s in zip(repeated, starts, strict=True)])
        scored.append(of_needles(loss, repeated))
        unknown += of_needles(loss, starts)
    return {"start": starts, "distance": distances, "loss": scored, "first": sum(unknown) / len(unknown)}


def of_needles(loss: Tensor, begins: Sequence[int]) -> list[float]:
    """Return the mean loss of each passage of the text after its cue, of `loss` (t - 1,)."""
    return [loss[begin + CUE - 1 : begin + NEEDLE - 1].mean().item() for begin in begins]


def attention_by_distance(model: LanguageModel, how: str, length: int = 1024) -> dict[str, Any]:
    """Return the weight by layer of keys at each distance but of the first token, in bins that double, (L, bins).

    `how` is "as it is" or "nothing turned"; "mask alone" is what each query would give if it gave all keys the same.
    Only queries of the second half count, which can see each distance of the bins but the last.
    """
    ids = passages(model, length, 2)
    edges = [0, 1, *[2**power for power in range(1, 10)], length]
    offset = torch.arange(length)[:, None] - torch.arange(length)
    rows: list[list[float]] = []
    first: list[float] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rope = None if how == "nothing turned" else model.layers[layer].encoding
        # With no rotation the mask stays, and is what remains to be seen.
        weights = attention_weights(q, k, rope, causal=True)  # (b, h, t, s)
        mean = weights[:, :, length // 2 :].mean(dim=(0, 1))  # (t / 2, s)
        first.append(mean[:, 0].mean().item())
        mean[:, 0] = 0
        near = offset[length // 2 :]
        rows.append([mean[(near >= low) & (near < high)].sum().item() / len(mean) for low, high in pairwise(edges)])
        return weights @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)

    model.hidden(ids, attend)
    return {"edges": edges, "weight": rows, "first": first}
