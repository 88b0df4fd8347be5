"""Heads and masks of the first chapters, against torch's layer and the package's attention."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
import torch
from torch import nn

from posenc.attention import attention, attention_weights
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
DRAWS = range(8)
HEADS, MASKS = Script("math/heads.js"), Script("math/masks.js")


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("seed", DRAWS)
def test_heads_are_those_of_torch(seed, heads):
    torch.manual_seed(seed)
    layer = nn.MultiheadAttention(8, heads, batch_first=True).double()
    nn.init.normal_(layer.in_proj_bias)
    nn.init.normal_(layer.out_proj.bias)
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    with torch.no_grad():
        outputs, weights = (found[0].numpy() for found in layer(x, x, x))
        parts = nn.functional.linear(x[0], layer.in_proj_weight, layer.in_proj_bias).unflatten(1, (3, 8))
    given = {name: parts[:, i].tolist() for i, name in enumerate("qkv")}
    given |= {"matrix": layer.out_proj.weight.tolist(), "bias": layer.out_proj.bias.tolist(), "heads": heads}
    np.testing.assert_allclose(HEADS("multihead(q, k, v, heads).weights", **given), weights, **CLOSE)
    code = "multihead(q, k, v, heads).mixed.map((row) => linear(row, matrix, bias))"
    np.testing.assert_allclose(HEADS(code, **given), outputs, **CLOSE)
    rows = outputs.tolist()
    np.testing.assert_allclose(HEADS("average(rows)", rows=rows), outputs.mean(axis=0), **CLOSE)
    apart = np.linalg.norm(outputs[0] - outputs[1])
    np.testing.assert_allclose(HEADS("distance(rows[0], rows[1])", rows=rows), apart, **CLOSE)


@pytest.mark.parametrize("length", [1, 5, 8])
def test_masks(length):
    zero = torch.zeros(1, 1, length, 2)
    causal = (attention_weights(zero, zero, causal=True)[0, 0] > 0).numpy()
    m, n = np.indices((length, length))
    expected = {"full": m >= 0, "causal": causal, "sliding": causal & (m - n < 3), "prefix": causal | (n < 3)}
    for kind, sight in expected.items():
        assert MASKS("mask(kind, length, 3)", kind=kind, length=length) == sight.ravel().tolist(), kind


def drawn(seed, length):
    """A mask in which each token sees itself and some others."""
    draw = np.random.default_rng(seed)
    return (draw.random((length, length)) < draw.uniform(0.15, 0.9)) | np.eye(length, dtype=bool)


@pytest.mark.parametrize("seed", DRAWS)
def test_layers_to_a_token(seed):
    sight = drawn(seed, 7)
    steps = [np.linalg.matrix_power(sight.astype(float), k) > 0 for k in range(7)]
    expected = [[next((k for k in range(7) if steps[k][m, n]), np.inf) for n in range(7)] for m in range(7)]
    code = "Array.from({ length: 7 }, (_, m) => hops(seen, 7, m))"
    assert MASKS(code, seen=sight.ravel().tolist()) == expected


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
@pytest.mark.parametrize("name", [*REGULAR, *DRAWS])
def test_what_an_output_can_tell_is_what_a_network_tells(name, depth):
    """Seat the tokens of each output in all orders, and look which orders change it."""
    sight = REGULAR[name] if name in REGULAR else drawn(name, 5)
    tokens = torch.randn(5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    orders = np.array(list(permutations(range(5))))
    outputs = network(sight, depth, tokens[orders]).numpy()
    heard = np.linalg.matrix_power(sight.astype(float), depth) > 0
    for seat in range(5):
        ours = MASKS("view(seen, 5, seat, depth)", seen=sight.ravel().tolist(), seat=seat, depth=depth)
        others = [n for n in range(5) if heard[seat, n] and n != seat]
        assert ours["others"] == others
        assert ours["orders"] == factorial(len(others))
        fixed = [n for n in range(5) if n not in others]
        mine = (orders[:, fixed] == fixed).all(axis=1)
        unnoticed = orders[mine][np.abs(outputs[mine, seat] - outputs[0, seat]).max(axis=1) < 1e-11]
        assert ours["told"] == ours["orders"] / len(unnoticed)
        assert ours["bags"] == unnoticed.min(axis=0).tolist()
