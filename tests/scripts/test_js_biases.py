"""What is added to scores: biases by offset, scores by content, queries that lengthen, and where a head then looks."""

from fractions import Fraction
from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest

from posenc.add.sinusoidal import sinusoidal
from posenc.bias.alibi import alibi
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.bias.t5 import t5, t5_bucket
from posenc.rotate.frequencies import rope_frequencies
from posenc.rotate.rope import rope
from posenc.score.cope import cope
from posenc.score.deberta import deberta, deberta_bucket
from posenc.score.forget import forget
from posenc.score.path import path
from posenc.score.shaw import shaw
from posenc.score.transformer_xl import transformer_xl
from tests.scripts.javascript import Script, assert_close

FAMILIES = Script("math/families.js")
WINDOW = Script("math/window.js")
SHARE = Script("math/share.js")
CONTENT = Script("math/content.js")
PROFILES = Script("math/profiles.js")
BAGS, LOGIT_TERMS = Script("math/bags.js"), Script("math/logit-terms.js")


@pytest.mark.parametrize("length", [1, 2, 7, 64, 65, 1000])
def test_shares_of_doublings(length):
    weights = np.random.default_rng(length).dirichlet(np.ones(length))
    marks = np.array([0, *(2**i for i in range(12) if 2**i < length)])
    ours = FAMILIES("octaves(weights)", weights=weights)
    assert_close(ours, np.add.reduceat(weights, marks))


def test_a_single_unit_of_fire_is_kerple(draw):
    r1, r2, threshold = draw.uniform(0.1, 3), draw.uniform(0.1, 3), float(draw.integers(16, 300))
    head = FAMILIES("fireAsKerple(r1, r2, threshold)", r1=r1, r2=r2, threshold=threshold)
    m, n = int(threshold), np.arange(int(threshold))
    # FIRE of the package refuses an eps of 0
    assert_close(of_package(head | {"eps": 1e-15}, m, n), kerple([m], n, [r1], [r2])[0, 0])


def fire_network(draw):
    """A random network of FIRE, for JavaScript and as arguments of the package's function."""
    hidden, bias, out = draw.normal(size=(3, 8))
    c, threshold = float(draw.uniform(0.05, 1)), float(draw.integers(20, 60))
    head = {"c": c, "multiplier": 1, "threshold": threshold, "eps": 1e-6, "outBias": 0.2}
    return head | {"hidden": hidden, "hiddenBias": bias, "out": out}


def of_package(head, m, n):
    """Return the package's bias of one query, for keys n."""
    network: dict[str, Any] = {
        "hidden_weight": np.array(head["hidden"])[:, None],
        "hidden_bias": np.array(head["hiddenBias"]),
    }
    network |= {"out_weight": np.array(head["out"])[None], "out_bias": np.array([head["outBias"]])}
    same = {name: head[name] for name in ("c", "multiplier", "threshold", "eps")}
    return fire(np.array([m]), np.asarray(n), **same, **network)[0, 0]


@pytest.mark.parametrize("is_short", [False, True])  # then the ruler is as long as its threshold
def test_distances_of_the_same_share(is_short, draw):
    head = fire_network(draw)
    distance, start = float(draw.integers(1, 20)), int(draw.integers(20, 300))
    end = 0 if is_short else int(draw.integers(20, 300))
    there = FAMILIES("sameShare(distance, a, b, head)", distance=distance, a=start, b=end, head=head)
    here = of_package(head, start, [start - distance])
    np.testing.assert_allclose(of_package(head, end, [end - there]), here, rtol=1e-6, atol=1e-6)  # eps of the ruler


def test_a_ruler_that_is_nailed_down(draw):
    head = fire_network(draw)
    longer = FAMILIES("nailed(head, threshold)", head=head, threshold=float(draw.integers(100, 300)))
    assert longer["threshold"] >= 100
    m = int(head["threshold"])
    assert_close(of_package(longer, m, np.arange(m)), of_package(head, m, np.arange(m)))
    steady = of_package(longer, 100, 100 - np.arange(m))
    assert_close(steady, of_package(head, m, m - np.arange(m)))


def one_head(draw):
    """A slope, a text and one head's bias and weights over it, the nearest token first."""
    slope, length = float(2 ** draw.uniform(-8, 1)), int(draw.integers(3, 400))
    bias = alibi([length - 1], np.arange(length), 1, slopes=slope)[0, 0, ::-1]
    return slope, bias, np.exp(bias) / np.exp(bias).sum()


def test_where_a_head_looks(draw):
    slope, bias, weights = one_head(draw)
    share = float(draw.uniform(0.05, 0.99))
    inputs = {"weights": weights, "slope": slope, "share": share}
    assert_close(WINDOW("meanDistance(weights)", **inputs), weights @ np.arange(len(bias)))
    assert WINDOW("holding(weights, share)", **inputs) == np.argmax(weights.cumsum() >= share) + 1
    half = WINDOW("halfLife(slope)", **inputs)
    assert_close(np.diff(alibi([half], [0.0, half], 1, slopes=slope)), np.log(2))


@pytest.mark.parametrize("slope", [0.7071, 0.25, 2**-6])
def test_an_endless_text(slope):
    weights = np.exp(alibi([0], np.arange(9000), 1, slopes=slope)[0, 0])
    weights /= weights.sum()
    for share in (0.5, 0.9, 0.99):
        answer = WINDOW("endless(slope, share)", slope=slope, share=share)
        assert_close(answer["mean"], weights @ np.arange(9000))
        assert answer["count"] == np.argmax(weights.cumsum() >= share) + 1


def test_a_lead_that_wins_gets_half(draw):
    _, bias, _ = one_head(draw)
    match = int(draw.integers(len(bias)))
    lead = WINDOW("leadToWin(bias, match)", bias=bias, match=match)
    logits = bias + lead * (np.arange(len(bias)) == match)
    weights = np.exp(logits - logits.max())
    assert_close(weights[match] / weights.sum(), 0.5)


def test_without_a_formula_the_factor_is_1():
    assert SHARE("factor('none', 4096, 64, 0.3)") == 1


@pytest.mark.parametrize(("lead", "tokens"), [(0, 1), (0, 10), (7, 64), (7, 512), (12.5, 65_536)])
def test_a_share_is_that_of_softmax(lead, tokens):
    logits = np.zeros(tokens)
    logits[0] = lead
    expected = np.exp(lead) / np.exp(logits).sum()
    np.testing.assert_allclose(SHARE("share(lead, tokens)", lead=lead, tokens=tokens), expected, rtol=1e-12)


def test_what_words_do_to_what_passes(draw):
    length, gate = int(draw.integers(2, 12)), draw.uniform(0.1, 0.9)
    acts = draw.uniform(0.02, 0.98, length)
    p, ones = np.arange(length), np.ones((1, length, 1))
    keys = np.log(acts / (1 - acts)).reshape(1, -1, 1)  # gates of CoPE whose sigmoid is how much a token acts
    counts = cope(ones, keys, p, p, np.arange(length + 2.0)[:, None])[0]  # the score is the count
    decay = gate**acts
    fades = np.exp(forget(ones, ones, p, p, gates=np.log(decay / (1 - decay))[None])[0])
    turns = 1 + path(ones, ones, p, p, w=ones, beta=2 * acts[None])[0]
    for m in range(length):
        inputs = {"acts": acts, "gate": gate, "m": m, "to": list(range(m + 1))}
        assert CONTENT("to.map((n) => counted(acts, m, n))", **inputs) == pytest.approx(counts[m, : m + 1], abs=1e-9)
        assert CONTENT("to.map((n) => faded(acts, gate, m, n))", **inputs) == pytest.approx(fades[m, : m + 1], abs=1e-9)
        assert CONTENT("to.map((n) => turned(acts, m, n))", **inputs) == pytest.approx(turns[m, : m + 1], abs=1e-9)


def test_corners_are_what_no_triangle_of_others_holds(draw):
    points = draw.normal(size=(9, 2))
    corners = PROFILES("corners(bank, 36000)", bank=points.T)
    assert sorted(corners) == [n for n in range(9) if not is_among(points[n], np.delete(points, n, axis=0))]


def is_among(point, others):
    """Tell whether a point lies among others: seen from it they leave no half plane free."""
    angles = np.sort(np.arctan2(*(others - point).T))
    return np.diff(angles, append=angles[0] + 2 * np.pi).max() < np.pi


def test_points_on_a_circle_are_all_corners_and_one_pulled_inside_is_none():
    turn = 2 * np.pi * np.arange(12) / 12
    circle = np.stack([np.cos(turn), np.sin(turn)])
    assert len(PROFILES("corners(bank)", bank=circle)) == 12
    circle[:, 5] *= 0.6
    assert sorted(PROFILES("corners(bank)", bank=circle)) == [n for n in range(12) if n != 5]


TERMS = "logitTerms(name, q, k, m, n, { ...parameters, row: (offset) => parameters.rows?.[offset + 90] })"
OFFSETS = np.arange(-90, 91)  # query minus key, as in the rows


@pytest.mark.parametrize(("n", "kinds"), [(1, 16), (1, 1), (5, 1), (4, 2), (6, 3), (5, 5), (3, 9)])
def test_the_commonest_of_every_bag(n, kinds):
    largest = [max(map(bag.count, bag)) for bag in product(range(kinds), repeat=n)]
    assert_close(BAGS("largestShare(n, kinds)", n=n, kinds=kinds), np.mean(largest) / n)


def test_the_commonest_in_exact_fractions(draw):
    n, kinds = int(draw.integers(2, 40)), int(draw.integers(2, 17))

    def bags_of_at_most(c):
        ways = [Fraction(1)] + n * [Fraction(0)]  # of filling i seats with the kinds so far, over i!
        for _ in range(kinds):
            ways = [sum(ways[i - j] / factorial(j) for j in range(min(i, c) + 1)) for i in range(n + 1)]
        return ways[n] * factorial(n) / kinds**n

    exact = sum(1 - bags_of_at_most(c) for c in range(n)) / n
    assert_close(BAGS("largestShare(n, kinds)", n=n, kinds=kinds), float(exact))


def test_the_commonest_of_large_bags_by_drawing():
    counts = np.random.default_rng(0).multinomial(255, [1 / 16] * 16, size=100_000)
    assert abs(BAGS("largestShare(255, 16)") - counts.max(axis=1).mean() / 255) < 2e-4


def _logits(name, q, k, m, n, parameters):
    """Return the logits of queries q (t, d) at m and keys k (s, d) at n, from the package."""
    dim, plain = q.shape[1], q @ k.T / q.shape[1] ** 0.5
    if name == "added":
        q, k = q + sinusoidal(m, dim) @ parameters["toQuery"].T, k + sinusoidal(n, dim) @ parameters["toKey"].T
        return q @ k.T / dim**0.5
    if name == "RoPE":
        return rope(q, m) @ rope(k, n).T / dim**0.5
    if name == "T5":
        return plain + t5(m, n, parameters["weight"][:, None], max_distance=60)[0]
    if name == "Shaw":
        return plain + shaw(q[None], k[None], m, n, parameters["key_table"])[0]
    if name == "Transformer-XL":
        learned = (parameters[part][None] for part in ("u", "v", "weight"))
        return plain + transformer_xl(q[None], k[None], m, n, *learned)[0]
    return (
        plain + deberta(q[None], k[None], m, n, parameters["key_table"][None], parameters["query_table"][None], 40)[0]
    )


def _rows(name):
    if name == "Shaw":
        return -OFFSETS.clip(-7, 7) + 7
    if name == "DeBERTa":
        return (deberta_bucket(OFFSETS, 16, 40) + 16).clip(0, 31)
    return t5_bucket(-OFFSETS, 32, 60)


@pytest.mark.parametrize("name", ["added", "Shaw", "Transformer-XL", "DeBERTa", "T5", "RoPE"])
def test_four_terms_of_a_logit(draw, name):
    dim = 12
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
    parameters = {part: draw.normal(size=shape) for part, shape in shapes.items()}
    script_parameters = {part: value.tolist() for part, value in parameters.items()}
    script_parameters |= {"theta": rope_frequencies(dim)[0], "rows": _rows(name)}
    ours = np.empty((4, 5, 5))
    for i, j in np.ndindex(5, 5):
        tokens = {"q": q[i], "k": k[j], "m": int(m[i]), "n": int(n[j])}
        ours[:, i, j] = LOGIT_TERMS(TERMS, name=name, parameters=script_parameters, **tokens)
    zero = np.zeros_like(q)
    whole, of_queries, of_keys, of_positions = (
        _logits(name, *content, m, n, parameters) for content in ((q, k), (q, zero), (zero, k), (zero, zero))
    )
    expected = (
        whole - of_queries - of_keys + of_positions,
        of_queries - of_positions,
        of_keys - of_positions,
        of_positions,
    )
    assert_close(ours, expected)
