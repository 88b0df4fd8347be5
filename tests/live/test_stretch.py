"""Reach, squeeze and arcs of stretched frequencies, as chapter 3.4 defines them."""

import numpy as np
import pytest

from posenc.rotate import frequencies
from tests.live.javascript import Script

STRETCH = Script("math/stretch.js")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def stretched(seed):
    """Frequencies as trained and after a recipe, with both lengths; some hands go round and some do not."""
    draw = np.random.default_rng(seed)
    dim, base = int(draw.integers(4, 65)) * 2, float(np.exp(draw.uniform(np.log(5e3), np.log(1e6))))
    trained, factor = int(draw.integers(64, 4_000)), float(draw.uniform(1, 40))
    recipe = (frequencies.linear, frequencies.ntk, frequencies.yarn, frequencies.llama3)[seed % 4]
    length = {"original_length": trained} if recipe in (frequencies.yarn, frequencies.llama3) else {}
    theta, plain = recipe(dim, factor, base=base, **length)[0], frequencies.rope_frequencies(dim, base)[0]
    return theta, plain, trained, int(draw.integers(64, 90_000))


@pytest.mark.parametrize("seed", range(12))
def test_two_prices(seed):
    theta, plain, trained, length = stretched(seed)
    given = {"theta": theta.tolist(), "old": plain.tolist(), "trained": trained, "length": length}
    went, g = trained * plain / (2 * np.pi), theta / plain
    np.testing.assert_allclose(STRETCH("turns(old, trained)", **given), went, **CLOSE)
    np.testing.assert_allclose(STRETCH("wavelengths(old)", **given), 2 * np.pi / plain, **CLOSE)
    found, slow = STRETCH("reach(theta, old, trained)", **given), np.flatnonzero(went < 1)
    overreach = (theta * length / (plain * trained))[slow].max()
    np.testing.assert_allclose(length / found["length"], overreach, **CLOSE)
    np.testing.assert_allclose(g[int(found["pair"])], g[slow].max(), **CLOSE)
    assert found["pair"] in slow
    np.testing.assert_allclose(STRETCH("squeeze(theta, old, trained)", **given), np.log2(1 / g[went >= 1]).mean())
    arcs = STRETCH("arcs(theta, length, old, trained)", **given)
    np.testing.assert_allclose(arcs["met"], went.clip(max=1), **CLOSE)
    asked = np.maximum(arcs["met"], (length * theta / (2 * np.pi)).clip(max=1))
    np.testing.assert_allclose(arcs["asked"], asked, **CLOSE)


def test_where_every_hand_went_round_nothing_is_new():
    found = STRETCH("reach([0.5], [1], 100)")
    assert found == {"pair": -1, "length": np.inf}
    assert STRETCH("squeeze([1], [1], 1)") == 0
