"""Who sees whom, with what weight, and what a cache keeps: heads, masks, tiles, rows, rings, caches."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
import torch
from torch import nn

from posenc.add.sinusoidal import sinusoidal
from posenc.attention import attention, attention_weights
from posenc.positions import document_mask, packed_documents, packed_positions, padded_positions, shard_positions
from posenc.rotate.latent import Latent
from posenc.rotate.rope import RoPE
from tests.scripts.javascript import Script, assert_close

ATTENTION = Script("math/attention.js")
HEADS, MASKS = Script("math/heads.js"), Script("math/masks.js")
TILES = Script("math/tiles.js")
ROWS = Script("math/rows.js")
RING = Script("math/ring.js")
CACHE = Script("math/cache.js")
LATENTS = Script("math/latents.js")


def test_softmax_leaves_nothing_to_what_is_hidden():
    ours = ATTENTION("softmax([1, 2, -Infinity, 800])")
    assert_close(ours, torch.tensor([1.0, 2.0, -np.inf, 800.0]).double().softmax(0))


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("seed", range(8))
def test_heads_are_those_of_torch(seed, heads):
    torch.manual_seed(seed)
    layer = nn.MultiheadAttention(8, heads, batch_first=True).double()
    nn.init.normal_(layer.in_proj_bias)
    nn.init.normal_(layer.out_proj.bias)
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    with torch.no_grad():
        outputs, weights = (tensor[0].numpy() for tensor in layer(x, x, x))
        parts = nn.functional.linear(x[0], layer.in_proj_weight, layer.in_proj_bias).unflatten(1, (3, 8))
    projections = {name: parts[:, i].tolist() for i, name in enumerate("qkv")}
    projections |= {"matrix": layer.out_proj.weight, "bias": layer.out_proj.bias, "heads": heads}
    assert_close(HEADS("multihead(q, k, v, heads).weights", **projections), weights)
    code = "multihead(q, k, v, heads).mixed.map((row) => linear(row, matrix, bias))"
    assert_close(HEADS(code, **projections), outputs)
    rows = outputs.tolist()
    assert_close(HEADS("average(rows)", rows=rows), outputs.mean(axis=0))
    apart = np.linalg.norm(outputs[0] - outputs[1])
    assert_close(HEADS("distance(rows[0], rows[1])", rows=rows), apart)


@pytest.mark.parametrize("length", [1, 5, 8])
def test_masks(length):
    zero = torch.zeros(1, 1, length, 2)
    causal = (attention_weights(zero, zero, causal=True)[0, 0] > 0).numpy()
    m, n = np.indices((length, length))
    expected = {"full": m >= 0, "causal": causal, "sliding": causal & (m - n < 3), "prefix": causal | (n < 3)}
    for kind, sight in expected.items():
        assert MASKS("mask(kind, length, 3)", kind=kind, length=length) == sight.ravel().tolist(), kind


def random_mask(draw, length):
    """A mask in which each token sees itself and some others."""
    return (draw.random((length, length)) < draw.uniform(0.15, 0.9)) | np.eye(length, dtype=bool)


def test_layers_to_a_token(draw):
    sight = random_mask(draw, 7)
    steps = [np.linalg.matrix_power(sight.astype(float), k) > 0 for k in range(7)]
    expected = [[next((k for k in range(7) if steps[k][m, n]), np.inf) for n in range(7)] for m in range(7)]
    code = "Array.from({ length: 7 }, (_, m) => hops(allowed, 7, m))"
    assert MASKS(code, allowed=sight.ravel()) == expected


def network(sight, depth, x):
    """The states of tokens x (b, t, 8) after layers of attention with random weights."""
    generator = torch.Generator().manual_seed(5)
    for _ in range(depth):
        q, k, v = (x @ torch.randn(3, 1, 8, 8, generator=generator, dtype=torch.float64) / 2)[:, :, None]
        x = torch.tanh(x + attention(q, k, v, mask=torch.tensor(sight))[:, 0])
    return x


REGULAR = {
    "full": np.ones((5, 5), bool),
    "causal": np.tri(5, dtype=bool),
    "prefix": np.tri(5, dtype=bool) | (np.arange(5) < 3),
    "sliding": np.tri(5, dtype=bool) & ~np.tri(5, k=-2, dtype=bool),
    "both sides": abs(np.subtract.outer(np.arange(5), np.arange(5))) <= 1,
    "ring": np.eye(5, dtype=bool) | np.roll(np.eye(5, dtype=bool), 1, axis=1),
    "documents": np.equal.outer(np.arange(5) // 3, np.arange(5) // 3),
}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("name", [*REGULAR, *range(8)])
def test_what_an_output_can_tell_is_what_a_network_tells(name, depth):
    """Seat the tokens of each output in all orders, and look which orders change it."""
    sight = REGULAR[name] if name in REGULAR else random_mask(np.random.default_rng(name), 5)
    tokens = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    orders = np.array(list(permutations(range(5))))
    outputs = network(sight, depth, tokens[orders]).numpy()
    reachable = np.linalg.matrix_power(sight.astype(float), depth) > 0
    for seat in range(5):
        ours = MASKS("view(allowed, 5, seat, depth)", allowed=sight.ravel(), seat=seat, depth=depth)
        others = [n for n in range(5) if reachable[seat, n] and n != seat]
        assert ours["others"] == others
        assert ours["orders"] == factorial(len(others))
        fixed = [n for n in range(5) if n not in others]
        in_place = (orders[:, fixed] == fixed).all(axis=1)
        unnoticed = orders[in_place][np.abs(outputs[in_place, seat] - outputs[0, seat]).max(axis=1) < 1e-11]
        assert ours["distinct"] == ours["orders"] / len(unnoticed)
        assert ours["bags"] == unnoticed.min(axis=0).tolist()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("documents", range(4))
def test_pairs_that_tiles_show(documents, causal, draw):
    tokens, tile = 48, int(draw.choice([4, 6, 12]))
    window, starts = int(draw.integers(1, 60)), sorted(draw.integers(1, 48, documents).tolist())
    i, j = np.arange(tokens)[:, None], np.arange(tokens)
    document = np.searchsorted(starts, np.arange(tokens), side="right")
    visible = (abs(i - j) < window) & (document[:, None] == document) & ((j <= i) | (not causal))
    mask = {"causal": causal, "width": window, "starts": starts}
    ours = TILES("shownInTiles(tokens, tile, mask)", tokens=tokens, tile=tile, mask=mask)
    across = tokens // tile
    assert ours == visible.reshape(across, tile, across, tile).sum(axis=(1, 3)).ravel().tolist()
    half = TILES("pooled(Uint32Array.from(counts))", counts=ours)
    assert half == visible.reshape(across // 2, 2 * tile, across // 2, 2 * tile).sum(axis=(1, 3)).ravel().tolist()
    m, n = draw.integers(0, tokens, 2).tolist()
    assert TILES("shows(mask, m, n)", mask=mask, m=m, n=n) == visible[m, n]


@pytest.mark.parametrize("encoding", ["rope", "sinusoid"])
@pytest.mark.parametrize("kind", ["packed", "before", "inside"])
def test_rows(draw, kind, encoding):
    length = int(draw.integers(5, 11))
    cuts = sorted(draw.choice(np.arange(1, length), 2, replace=False).tolist())
    q, k = torch.tensor(draw.normal(size=(2, length, 8)))
    whose = packed_documents(torch.tensor([0, *cuts, length]))
    real = torch.ones(length, dtype=torch.bool) if kind == "packed" else whose != int(kind == "inside")
    owner = whose if kind == "packed" else torch.where(real, 0, ROWS("PAD"))
    restart = packed_positions(torch.tensor([0, *cuts, length])) if kind == "packed" else padded_positions(real)
    inputs = {"length": length, "cuts": cuts, "kind": kind}
    assert ROWS("owners(length, cuts, kind)", **inputs) == owner.tolist()
    assert ROWS("counted(owners(length, cuts, kind))", **inputs) == restart.tolist()
    for places in (restart, torch.arange(length)):
        for masked in (False, True):
            options = {"mask": document_mask(whose) if kind == "packed" else real}
            expected = package_weights(q, k, places, encoding, **options if masked else {})
            inputs = {"q": q, "k": k, "places": places, "owner": owner}
            inputs |= {"masked": masked, "encoding": encoding}
            ours = np.array(ROWS("weights(q, k, places, owner, masked, encoding)", **inputs))
            assert ours == pytest.approx(expected, abs=1e-9)
            moved = ROWS("changes(q, k, places, owner, masked, encoding)", **inputs)
            for document in set(owner[real].tolist()):
                inside = (owner == document).numpy()
                alone = package_weights(q[inside], k[inside], torch.arange(int(inside.sum())), encoding)
                rows = expected[inside]
                leak = rows[:, ~inside].sum(axis=1)
                far = (abs(rows[:, inside] - alone).sum(axis=1) + leak) / 2
                document_changes = [change for change, of in zip(moved, inside, strict=True) if of]
                assert [change["leak"] for change in document_changes] == pytest.approx(leak, abs=1e-9)
                assert [change["moved"] for change in document_changes] == pytest.approx(far, abs=1e-9)


def package_weights(q, k, places, encoding, **mask):
    """Return causal weights (t, s) of the package, with RoPE or with sinusoids added."""
    options = {"positions": places, "key_positions": places, "causal": True, **mask}
    if encoding == "rope":
        return attention_weights(q[None, None], k[None, None], RoPE(8), **options)[0, 0].numpy()
    table = torch.tensor(sinusoidal(places.numpy(), 8))
    q, k = ((x + table)[None, None] for x in (q, k))
    return attention_weights(q, k, RoPE(8, theta=np.zeros(4)), **options)[0, 0].numpy()


def shards_of(order: str, tokens: int, ranks: int) -> list[np.ndarray]:
    """Return the positions of each rank."""
    if order == "striped":
        return [np.arange(rank, tokens, ranks) for rank in range(ranks)]
    return [shard_positions(tokens, rank, ranks, order).numpy() for rank in range(ranks)]


@pytest.mark.parametrize("order", ["contiguous", "zigzag", "striped"])
def test_a_ring_of_ranks(order, draw):
    ranks = int(draw.integers(1, 7))
    tokens = 2 * ranks * int(draw.integers(1, 9))
    window = int(draw.integers(1, tokens + 1))
    shards = shards_of(order, tokens, ranks)
    owner = RING("owners(order, tokens, ranks)", order=order, tokens=tokens, ranks=ranks)
    assert [np.flatnonzero(np.array(owner) == rank).tolist() for rank in range(ranks)] == [s.tolist() for s in shards]

    visible = (np.tri(tokens) - np.tri(tokens, k=-window)).astype(bool)
    inputs = {"owner": owner, "ranks": ranks, "window": window}
    counts = np.array(RING("pairs(owner, ranks, window)", **inputs)).reshape(ranks, ranks)
    for rank in range(ranks):
        for step in range(ranks):
            assert counts[rank, step] == visible[shards[rank]][:, shards[(rank - step) % ranks]].sum()
    flat = {"counts": counts.ravel(), "ranks": ranks}
    assert RING("slowest(Int32Array.from(counts), ranks)", **flat) == counts.max(axis=0).tolist()
    assert RING("totals(Int32Array.from(counts), ranks)", **flat) == counts.sum(axis=1).tolist()
    others = [(visible[rows].any(axis=0) & ~np.isin(np.arange(tokens), rows)).sum() for rows in shards]
    assert RING("fetched(owner, ranks, window)", **inputs) == others


@pytest.mark.parametrize("ranks", [1, 4, 5])
def test_steps_of_a_ring(ranks):
    for rank in range(ranks):
        for step in range(ranks):
            assert RING("stepOf(a, b, c)", a=rank, b=(rank - step) % ranks, c=ranks) == step


WAYS = ("true positions", "positions in the cache", "keys counted")


def streamed(tokens: int, capacity: int, sinks: int, way: str) -> list[tuple[list[int], list[int]]]:
    """Return the tokens in the cache and the position of each, step by step."""
    cache, count, steps = [], 0, []  # pairs of a token and its position
    for token in range(tokens):
        if len(cache) == capacity:
            del cache[sinks]
        count = token if way == "true positions" else len(cache)
        cache.append((token, count))
        if way == "positions in the cache":
            cache = [(old_token, slot) for slot, (old_token, _) in enumerate(cache)]
        steps.append(([old_token for old_token, _ in cache], [position for _, position in cache]))
    return steps


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("capacity", "sinks"), [(8, 4), (6, 0), (11, 2), (28, 4), (5, 1)])
def test_the_tokens_in_the_cache_and_their_positions(way, capacity, sinks):
    for t, (tokens, positions) in enumerate(streamed(60, capacity, sinks, way)):
        assert CACHE("cachedTokens(t, capacity, sinks)", t=t, capacity=capacity, sinks=sinks) == tokens
        assert CACHE("cachedPositions(tokens, capacity, way)", tokens=tokens, capacity=capacity, way=way) == positions


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

    key_pairs = [list(keys) for keys in zip(pairs(letter), pairs(first), strict=True)]
    theta = np.asarray(rope.theta).tolist()
    curves = [[CACHE("curve(pairs, theta, 30)", pairs=key, theta=theta) for key in keys] for keys in key_pairs]
    ours = CACHE("attentionWeights(heads, tokens, places)", heads=curves, tokens=tokens, places=places)
    assert np.allclose(ours, weights, rtol=0, atol=1e-9)
    expected = (turned_q[0, 0, 0] @ turned_k[0, 0, 0] / 8**0.5).item()
    assert curves[0][1][places[-1] - places[0]] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("heads", "groups", "width", "latent", "rotary"), [(128, 8, 128, 512, 64), (4, 2, 16, 12, 6)])
def test_sizes_are_those_of_the_tensors(heads, groups, width, latent, rotary):
    sizes = {"heads": heads, "groups": groups, "width": width, "latent": latent, "rotary": rotary}
    sizes_of_script = LATENTS("perToken(sizes)", sizes=sizes)
    for kind, count in (("each head", heads), ("groups", groups), ("one key", 1)):
        assert sizes_of_script[kind] == 2 * torch.zeros(count, width).numel()
    x = torch.zeros(1, 1, 1, rotary)
    turned, _ = Latent(rotary, rotary)(x, x, torch.tensor([5]))
    assert sizes_of_script["latent"] == torch.zeros(latent).numel() + turned.numel()
