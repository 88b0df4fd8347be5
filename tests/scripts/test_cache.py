"""A cache that drops keys, against one that does it step by step, and where it looks, against the package."""

import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.rotate.rope import RoPE
from tests.scripts.javascript import Script

CACHE = Script("math/cache.js")
WAYS = ("true places", "places in the cache", "the clock stops")


def streamed(tokens: int, room: int, sinks: int, way: str) -> list[tuple[list[int], list[int]]]:
    """Return the tokens in the cache and the place of each, step by step."""
    cache, count, steps = [], 0, []  # pairs of a token and its place
    for token in range(tokens):
        if len(cache) == room:
            del cache[sinks]
        count = token if way == "true places" else len(cache)
        cache.append((token, count))
        if way == "places in the cache":
            cache = [(each, slot) for slot, (each, _) in enumerate(cache)]
        steps.append(([each for each, _ in cache], [place for _, place in cache]))
    return steps


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("room", "sinks"), [(8, 4), (6, 0), (11, 2), (28, 4), (5, 1)])
def test_what_is_held_and_what_it_is_told(way, room, sinks):
    for t, (tokens, places) in enumerate(streamed(60, room, sinks, way)):
        assert CACHE("held(t, room, sinks)", t=t, room=room, sinks=sinks) == tokens
        assert CACHE("told(tokens, room, way)", tokens=tokens, room=room, way=way) == places


@pytest.mark.parametrize("seed", range(4))
def test_where_a_query_looks(seed):
    draw = torch.Generator().manual_seed(seed)
    heads, rope = 3, RoPE(8)
    q, letter, first = torch.randn(3, heads, 8, generator=draw, dtype=torch.float64)
    tokens = [0, 1, *range(20 + seed, 30)]
    places = tokens if seed % 2 else list(range(len(tokens)))
    keys = torch.stack([first if token == 0 else letter for token in tokens], dim=1)[None]  # (1, h, s, c)
    here = torch.tensor([places[-1]])
    turned_q, turned_k = rope(q[None, :, None], keys, here, torch.tensor(places))
    weights = attention_weights(turned_q, turned_k)[0, :, 0].mean(dim=0)

    def pairs(key):
        q_pairs, k_pairs = (torch.complex(*x.chunk(2, dim=-1)) for x in (q, key))
        return torch.view_as_real(q_pairs * k_pairs.conj() / 8**0.5).tolist()

    given = [list(both) for both in zip(pairs(letter), pairs(first), strict=True)]
    theta = np.asarray(rope.theta).tolist()
    curves = [[CACHE("curve(pairs, theta, 30)", pairs=key, theta=theta) for key in both] for both in given]
    ours = CACHE("looks(heads, tokens, places)", heads=curves, tokens=tokens, places=places)
    assert np.allclose(ours, weights, rtol=0, atol=1e-9)
    expected = (turned_q[0, 0, 0] @ turned_k[0, 0, 0] / 8**0.5).item()
    assert curves[0][1][places[-1] - places[0]] == pytest.approx(expected, abs=1e-9)
