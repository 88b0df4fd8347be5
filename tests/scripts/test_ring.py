"""The ring of ranks, against the package's shards and NumPy's masks."""

import numpy as np
import pytest

from posenc.positions import shard_positions
from tests.scripts.javascript import Script

RING = Script("math/ring.js")


def held(order: str, tokens: int, ranks: int) -> list[np.ndarray]:
    """Return the positions of each rank."""
    if order == "striped":
        return [np.arange(rank, tokens, ranks) for rank in range(ranks)]
    return [shard_positions(tokens, rank, ranks, order).numpy() for rank in range(ranks)]


@pytest.mark.parametrize("order", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("seed", range(6))
def test_a_ring_of_ranks(order, seed):
    draw = np.random.default_rng(seed)
    ranks = int(draw.integers(1, 7))
    tokens = 2 * ranks * int(draw.integers(1, 9))
    window = int(draw.integers(1, tokens + 1))
    shards = held(order, tokens, ranks)
    owner = RING("owners(order, tokens, ranks)", order=order, tokens=tokens, ranks=ranks)
    assert [np.flatnonzero(np.array(owner) == rank).tolist() for rank in range(ranks)] == [s.tolist() for s in shards]

    back = np.arange(tokens)[:, None] - np.arange(tokens)
    seen = (back >= 0) & (back < window)
    given = {"owner": owner, "ranks": ranks, "window": window}
    counts = np.array(RING("pairs(owner, ranks, window)", **given)).reshape(ranks, ranks)
    for rank in range(ranks):
        for step in range(ranks):
            assert counts[rank, step] == seen[shards[rank]][:, shards[(rank - step) % ranks]].sum()
    flat = {"counts": counts.ravel().tolist(), "ranks": ranks}
    assert RING("slowest(Int32Array.from(counts), ranks)", **flat) == counts.max(axis=0).tolist()
    assert RING("totals(Int32Array.from(counts), ranks)", **flat) == counts.sum(axis=1).tolist()
    used = [seen[rows].any(axis=0) for rows in shards]
    others = [int(each.sum() - each[rows].sum()) for each, rows in zip(used, shards, strict=True)]
    assert RING("fetched(owner, ranks, window)", **given) == others


@pytest.mark.parametrize("ranks", [1, 4, 5])
def test_steps_of_a_ring(ranks):
    for rank in range(ranks):
        for step in range(ranks):
            assert RING("stepOf(a, b, c)", a=rank, b=(rank - step) % ranks, c=ranks) == step
