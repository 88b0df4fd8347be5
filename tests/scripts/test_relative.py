"""The mathematics of the figures on relative encodings, against the package and by counting."""

from fractions import Fraction
from itertools import product
from math import factorial

import numpy as np
import pytest

from posenc.add.sinusoidal import sinusoidal
from posenc.bias.t5 import t5, t5_bucket
from posenc.rotate.frequencies import rope_frequencies
from posenc.rotate.rope import rope
from posenc.score.deberta import deberta, deberta_bucket
from posenc.score.shaw import shaw
from posenc.score.transformer_xl import transformer_xl
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
BAGS, CONVERSATIONS = Script("math/bags.js"), Script("math/conversations.js")
ASK = "conversations(name, q, k, m, n, { ...given, row: (offset) => given.rows?.[offset + 90] })"
OFFSETS = np.arange(-90, 91)  # query minus key, as in the rows


@pytest.mark.parametrize(("n", "kinds"), [(1, 16), (1, 1), (5, 1), (4, 2), (6, 3), (5, 5), (3, 9)])
def test_the_commonest_of_every_bag(n, kinds):
    largest = [max(map(bag.count, bag)) for bag in product(range(kinds), repeat=n)]
    np.testing.assert_allclose(BAGS("largestShare(n, kinds)", n=n, kinds=kinds), np.mean(largest) / n, **CLOSE)


@pytest.mark.parametrize("seed", range(6))
def test_the_commonest_in_exact_fractions(seed):
    draw = np.random.default_rng(seed)
    n, kinds = int(draw.integers(2, 40)), int(draw.integers(2, 17))

    def bags_of_at_most(c):
        ways = [Fraction(1)] + n * [Fraction(0)]  # of filling i seats with the kinds so far, over i!
        for _ in range(kinds):
            ways = [sum(ways[i - j] / factorial(j) for j in range(min(i, c) + 1)) for i in range(n + 1)]
        return ways[n] * factorial(n) / kinds**n

    exact = sum(1 - bags_of_at_most(c) for c in range(n)) / n
    np.testing.assert_allclose(BAGS("largestShare(n, kinds)", n=n, kinds=kinds), float(exact), **CLOSE)


def test_the_commonest_of_large_bags_by_drawing():
    counts = np.random.default_rng(0).multinomial(255, [1 / 16] * 16, size=100_000)
    assert abs(BAGS("largestShare(255, 16)") - counts.max(axis=1).mean() / 255) < 2e-4


def _logits(name, q, k, m, n, given):
    """Return the logits of queries q (t, d) at m and keys k (s, d) at n, from the package."""
    dim, plain = q.shape[1], q @ k.T / q.shape[1] ** 0.5
    if name == "added":
        q, k = q + sinusoidal(m, dim) @ given["toQuery"].T, k + sinusoidal(n, dim) @ given["toKey"].T
        return q @ k.T / dim**0.5
    if name == "RoPE":
        return rope(q, m) @ rope(k, n).T / dim**0.5
    if name == "T5":
        return plain + t5(m, n, given["weight"][:, None], max_distance=60)[0]
    if name == "Shaw":
        return plain + shaw(q[None], k[None], m, n, given["key_table"])[0]
    if name == "Transformer-XL":
        learned = (given[part][None] for part in ("u", "v", "weight"))
        return plain + transformer_xl(q[None], k[None], m, n, *learned)[0]
    return plain + deberta(q[None], k[None], m, n, given["key_table"][None], given["query_table"][None], 40)[0]


def _rows(name):
    if name == "Shaw":
        return -OFFSETS.clip(-7, 7) + 7
    if name == "DeBERTa":
        return (deberta_bucket(OFFSETS, 16, 40) + 16).clip(0, 31)
    return t5_bucket(-OFFSETS, 32, 60)


@pytest.mark.parametrize("name", ["added", "Shaw", "Transformer-XL", "DeBERTa", "T5", "RoPE"])
@pytest.mark.parametrize("seed", range(4))
def test_four_conversations(seed, name):
    draw, dim = np.random.default_rng(seed), 12
    q, k = draw.normal(size=(2, 5, dim))
    m, n = draw.integers(0, 90, size=(2, 5))
    shapes = {
        "toQuery": (dim, dim),
        "toKey": (dim, dim),
        "weight": 32 if name == "T5" else (dim, dim),
        "u": dim,
        "v": dim,
    }
    shapes |= {"key_table": (15 if name == "Shaw" else 32, dim), "query_table": (32, dim)}
    given = {part: draw.normal(size=shape) for part, shape in shapes.items()}
    sent = {part: value.tolist() for part, value in given.items()}
    sent |= {"theta": rope_frequencies(dim)[0].tolist(), "rows": _rows(name).tolist()}
    ours = np.empty((4, 5, 5))
    for i, j in np.ndindex(5, 5):
        seats = {"q": q[i].tolist(), "k": k[j].tolist(), "m": int(m[i]), "n": int(n[j])}
        ours[:, i, j] = CONVERSATIONS(ASK, name=name, given=sent, **seats)
    mute = np.zeros_like(q)
    whole, asked, offered, places = (
        _logits(name, *content, m, n, given) for content in ((q, k), (q, mute), (mute, k), (mute, mute))
    )
    theirs = whole - asked - offered + places, asked - places, offered - places, places
    np.testing.assert_allclose(ours, theirs, **CLOSE)
