"""What doublings of the distance get, and FIRE as KERPLE, against NumPy and the package."""

import numpy as np
import pytest

from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
FAMILIES = Script("math/families.js")


@pytest.mark.parametrize("length", [1, 2, 7, 64, 65, 1000])
def test_shares_of_doublings(length):
    weights = np.random.default_rng(length).dirichlet(np.ones(length))
    marks = np.array([0, *(2**i for i in range(12) if 2**i < length)])
    ours = FAMILIES("octaves(weights)", weights=weights.tolist())
    np.testing.assert_allclose(ours, np.add.reduceat(weights, marks), **CLOSE)


@pytest.mark.parametrize("seed", range(6))
def test_a_single_unit_of_fire_is_kerple(seed):
    draw = np.random.default_rng(seed)
    r1, r2, threshold = draw.uniform(0.1, 3), draw.uniform(0.1, 3), float(draw.integers(16, 300))
    head = FAMILIES("fireAsKerple(r1, r2, threshold)", r1=r1, r2=r2, threshold=threshold)
    network = [np.array(head[name]) for name in ("hidden", "hiddenBias", "out")]
    m, n = np.array([int(threshold)]), np.arange(int(threshold))
    settings = {
        "c": head["c"],
        "multiplier": head["multiplier"],
        "threshold": head["threshold"],
        "eps": head["eps"] + 1e-15,
    }
    bias = fire(
        m,
        n,
        hidden_weight=network[0][:, None],
        hidden_bias=network[1],
        out_weight=network[2][None],
        out_bias=np.array([head["outBias"]]),
        **settings,
    )
    np.testing.assert_allclose(bias, kerple(m, n, [r1], [r2]), **CLOSE)


def drawn(seed):
    """A random network of FIRE, for JavaScript and as arguments of the package's function."""
    draw = np.random.default_rng(seed)
    hidden, bias, out = draw.normal(size=(3, 8))
    c, threshold = float(draw.uniform(0.05, 1)), float(draw.integers(20, 60))
    head = {"c": c, "multiplier": 1, "threshold": threshold, "eps": 1e-6, "outBias": 0.2}
    return draw, head | {"hidden": hidden.tolist(), "hiddenBias": bias.tolist(), "out": out.tolist()}


def of_package(head, m, n):
    """Return the package's bias of one query, for keys n."""
    network = {"hidden_weight": np.array(head["hidden"])[:, None], "hidden_bias": np.array(head["hiddenBias"])}
    network |= {"out_weight": np.array(head["out"])[None], "out_bias": np.array([head["outBias"]])}
    same = {name: head[name] for name in ("c", "multiplier", "threshold", "eps")}
    return fire(np.array([m]), np.asarray(n), **same, **network)[0, 0]


@pytest.mark.parametrize("seed", range(6))
def test_distances_of_the_same_share(seed):
    draw, head = drawn(seed)
    distance, start = float(draw.integers(1, 20)), int(draw.integers(20, 300))
    end = int(draw.integers(20, 300)) if seed % 2 else 0  # at 0 the ruler is as long as its threshold
    there = FAMILIES("sameShare(distance, a, b, head)", distance=distance, a=start, b=end, head=head)
    here = of_package(head, start, [start - distance])
    np.testing.assert_allclose(of_package(head, end, [end - there]), here, rtol=1e-6, atol=1e-6)  # eps of the ruler


@pytest.mark.parametrize("seed", range(6))
def test_a_ruler_that_is_nailed_down(seed):
    draw, head = drawn(seed)
    longer = FAMILIES("nailed(head, threshold)", head=head, threshold=float(draw.integers(100, 300)))
    assert longer["threshold"] >= 100
    m = int(head["threshold"])
    np.testing.assert_allclose(of_package(longer, m, np.arange(m)), of_package(head, m, np.arange(m)), **CLOSE)
    steady = of_package(longer, 100, 100 - np.arange(m))
    np.testing.assert_allclose(steady, of_package(head, m, m - np.arange(m)), **CLOSE)
