"""Positions for texts longer than those of training: offsets that are folded into its range.

Paper: An et al., 2024, "Training-Free Long-Context Scaling of Large Language Models",
       https://arxiv.org/abs/2402.17463, sec. 3; Jin et al., 2024, "LLM Maybe LongLM:
       Self-Extend LLM Context Window Without Tuning", https://arxiv.org/abs/2401.01325, sec. 3.
Used:  Qwen2.5-1M (dual chunks); llama.cpp's group attention (Self-Extend)
Cost:  a score map for each set of positions; keys are cached before rotation, or once for each set

Key:   t queries, s keys, n maps

    offset(m, n) = query[which] - key[which],   which = the map that this pair is taken from

For causal attention: keys ahead of the query are scored as if near. Turn queries and keys once for
each set, and take each pair from its map:

    maps = torch.stack([rope.turn(q, m) @ rope.turn(k, n).mT for m, n in zip(queries, keys)])
    scores = chosen_scores(maps, which)
"""

import torch
from torch import Tensor


def dual_chunk_positions(
    positions: Tensor, key_positions: Tensor, chunk: int, trained_length: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions of queries (3, t) and keys (3, s) for three score maps, and `which` (t, s).

    No offset reaches `trained_length`. Keys count within chunks. The first map, within a chunk, is
    the usual one. For the chunk before, queries go on counting past `chunk` up to the last trained
    position, where they stand for all chunks further back. `chosen_scores` joins the maps.
    Source: An et al., 2024 (dual chunk attention), https://arxiv.org/abs/2402.17463, sec. 3.

    Examples:
        >>> places = torch.arange(12)
        >>> queries, keys, which = dual_chunk_positions(places, places, 6, trained_length=10)
        >>> keys[0].tolist(), queries[1, 6:].tolist(), queries[2, 6:].tolist()
        ([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 9, 9], [9, 9, 9, 9, 9, 9])
    """
    if not 0 < chunk < trained_length:
        raise ValueError(f"longer: chunk must be 1 to {trained_length - 1}, got {chunk}")
    within = positions % chunk
    next_to = (within + chunk).clamp(max=trained_length - 1)
    far = torch.full_like(positions, trained_length - 1)
    keys = (key_positions % chunk).expand(3, -1)  # (3, s)
    back = (positions // chunk)[:, None] - key_positions // chunk  # (t, s)
    return torch.stack([within, next_to, far]), keys, back.clamp(0, 2)


def self_extend_positions(
    positions: Tensor, key_positions: Tensor, group: int, neighbors: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return positions of queries (2, t) and keys (2, s) for two score maps, and `which` (t, s).

    Keys less than `neighbors` back are seen where they are. Further ones share a position by groups
    of `group`, and queries stand so that the two maps meet: L trained positions serve
    neighbors + group (L - neighbors) tokens. `chosen_scores` joins the maps.
    Source: Jin et al., 2024 (Self-Extend), https://arxiv.org/abs/2401.01325, sec. 3.

    Examples:
        >>> queries, keys, which = self_extend_positions(torch.tensor([9]), torch.arange(10), 2, 4)
        >>> chosen_scores(queries[..., None] - keys[:, None], which).tolist()  # the offsets
        [[6, 6, 5, 5, 4, 4, 3, 2, 1, 0]]
    """
    if not 0 < group <= neighbors:
        raise ValueError(f"longer: group must be 1 to neighbors, {neighbors}, got {group}")
    grouped = positions // group + neighbors - neighbors // group
    queries = torch.stack([positions, grouped])  # (2, t)
    keys = torch.stack([key_positions, key_positions // group])  # (2, s)
    offset = positions[:, None] - key_positions  # (t, s)
    return queries, keys, (offset >= neighbors).long()


def chosen_scores(maps: Tensor, which: Tensor) -> Tensor:
    """Return the scores (..., t, s) that take each pair from the map of `maps` (n, ..., t, s).

    `which` (t, s) is the number of the map. One softmax goes over all that is chosen. Kernels that
    hold one map each join their outputs by the sums of exponentials that they return.

    Examples:
        >>> chosen_scores(torch.tensor([[[1, 2]], [[3, 4]]]), torch.tensor([[0, 1]]))
        tensor([[1, 4]])
    """
    return maps.gather(0, which.expand(maps[:1].shape))[0]
