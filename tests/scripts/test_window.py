"""How far a head looks and what a far token must say, against softmax over the package's biases."""

import numpy as np
import pytest

from posenc.bias.alibi import alibi
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
WINDOW = Script("math/window.js")


def setting(seed):
    """A slope, a text and one head's bias and weights over it, the nearest token first."""
    draw = np.random.default_rng(seed)
    slope, length = float(2 ** draw.uniform(-8, 1)), int(draw.integers(3, 400))
    bias = alibi([length - 1], np.arange(length), 1, slopes=slope)[0, 0, ::-1]
    return draw, slope, bias, np.exp(bias) / np.exp(bias).sum()


@pytest.mark.parametrize("seed", range(8))
def test_where_a_head_looks(seed):
    draw, slope, bias, weights = setting(seed)
    share = float(draw.uniform(0.05, 0.99))
    given = {"weights": weights.tolist(), "slope": slope, "share": share}
    np.testing.assert_allclose(WINDOW("meanDistance(weights)", **given), weights @ np.arange(len(bias)), **CLOSE)
    assert WINDOW("holding(weights, share)", **given) == np.argmax(weights.cumsum() >= share) + 1
    half = WINDOW("halfLife(slope)", **given)
    np.testing.assert_allclose(np.diff(alibi([half], [0.0, half], 1, slopes=slope)), np.log(2), **CLOSE)


@pytest.mark.parametrize("slope", [0.7071, 0.25, 2**-6])
def test_an_endless_text(slope):
    weights = np.exp(alibi([0], np.arange(9000), 1, slopes=slope)[0, 0])
    weights /= weights.sum()
    for share in (0.5, 0.9, 0.99):
        found = WINDOW("endless(slope, share)", slope=slope, share=share)
        np.testing.assert_allclose(found["mean"], weights @ np.arange(9000), **CLOSE)
        assert found["count"] == np.argmax(weights.cumsum() >= share) + 1


@pytest.mark.parametrize("seed", range(8))
def test_a_lead_that_wins_gets_half(seed):
    draw, _, bias, _ = setting(seed)
    match = int(draw.integers(len(bias)))
    lead = WINDOW("leadToWin(bias, match)", bias=bias.tolist(), match=match)
    logits = bias + lead * (np.arange(len(bias)) == match)
    weights = np.exp(logits - logits.max())
    np.testing.assert_allclose(weights[match] / weights.sum(), 0.5, **CLOSE)
