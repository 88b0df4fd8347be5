"""Where scores are highest, against the package's RoPE and PoPE on a fine grid of distances."""

import numpy as np
import pytest

from posenc.rotate.pope import pope
from posenc.rotate.rope import rope
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
PEAKS = Script("math/peaks.js")
POPE = Script("math/pope.js")


@pytest.mark.parametrize("seed", range(8))
def test_content_moves_the_peak_of_a_pair_of_rope(seed):
    draw = np.random.default_rng(seed)
    q, k = draw.normal(size=(2, 1, 2))
    theta = draw.uniform(0.01, 1, 1)
    given = {"q": q[0].tolist(), "k": k[0].tolist(), "theta": theta.item()}
    angle = PEAKS("contentAngle(q, k)", **given)
    crossed = complex(*q[0]) * complex(*k[0]).conjugate()
    np.testing.assert_allclose(angle, np.angle(crossed), **CLOSE)
    peak = PEAKS("crest(theta, contentAngle(q, k))", **given)
    assert abs(peak) <= np.pi / theta
    at_peak = rope(q, np.array([peak]), theta=theta) @ k[0]
    np.testing.assert_allclose(at_peak, np.linalg.norm(q) * np.linalg.norm(k), **CLOSE)


@pytest.mark.parametrize("seed", range(8))
def test_content_does_not_move_the_peak_of_pope(seed):
    draw = np.random.default_rng(seed)
    theta, places = draw.uniform(0.05, 0.2, 2), np.linspace(-15, 15, 2001)
    phase = draw.uniform(-1, 0, (1, 2)) if seed % 2 else np.zeros((1, 2))
    q, k = draw.normal(size=(2, 1, 1, 2))
    given = {"q": q.ravel().tolist(), "k": k.ravel().tolist(), "theta": theta.tolist(), "phase": phase[0].tolist()}
    score = pope(q.repeat(2001, 1), k, places, np.array([0]), theta=theta, phase=phase)[0, :, 0]
    ours = POPE("places.map(scorer(q, k, theta, phase))", places=places.tolist(), **given)
    np.testing.assert_allclose(ours, score, **CLOSE)
    heights = (np.logaddexp(0, q) * np.logaddexp(0, k)).ravel().tolist()
    wave = "(x) => heights[0] * Math.cos(phase[0] - x * theta[0]) + heights[1] * Math.cos(phase[1] - x * theta[1])"
    found = PEAKS(f"summit({wave}, -15, 15)", heights=heights, **given)
    assert abs(found - places[score.argmax()]) < 0.016
    best = pope(q, k, np.array([found]), np.array([0]), theta=theta, phase=phase).item()
    assert best >= score.max() - 1e-9
    if not phase.any():
        assert abs(found) < 1e-5


@pytest.mark.parametrize("seed", range(8))
def test_one_direction_has_one_angle(seed):
    angle = float(np.random.default_rng(seed).uniform(-60, 60))
    found = PEAKS("wrap(angle)", angle=angle)
    assert -np.pi <= found < np.pi
    np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * angle), **CLOSE)
    assert PEAKS("crest(0.1, 0)") == 0
