"""Hands that are told to look elsewhere, against the package: RoPE's keys are told other places, PoPE other phases."""

import numpy as np
import pytest

from posenc.rotate.pope import pope
from posenc.rotate.rope import rope
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
RETARGET = Script("math/retarget.js")


def drawn(seed):
    """Return queries and keys (3, 8), frequencies of RoPE and PoPE, and how much further on the keys are told to be."""
    draw = np.random.default_rng(seed)
    q, k = draw.normal(size=(2, 3, 8))
    return q, k, draw.uniform(0.01, 1, 4), draw.uniform(0.01, 1, 8), int(draw.integers(-5, 20))


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_rope(seed):
    q, k, theta, _, nearer = drawn(seed)
    scores = [[_rope(a, b, theta, np.arange(40) - nearer) for b in k] for a in q]
    given = {"q": q.tolist(), "k": k.tolist(), "theta": theta.tolist(), "nearer": nearer}
    many = RETARGET("q.flatMap((a) => k.map((b) => ofPairs(a, b)))", **given)
    best = RETARGET("bestDistances(many, theta, nearer, 40)", many=many, **given)
    assert best == np.ravel(np.argmax(scores, 2)).tolist()
    shares = "many.map((each) => agreement(each, theta, 7 - nearer))"
    most = [np.sum(_lengths(a) * _lengths(b)) for a in q for b in k]
    np.testing.assert_allclose(RETARGET(shares, many=many, **given), np.array(scores)[:, :, 7].ravel() / most, **CLOSE)
    angles = RETARGET("turned({ start }, theta, 7)", start=many[0]["start"], **given)
    np.testing.assert_allclose(np.sum(many[0]["size"] * np.cos(angles)), _rope(q[0], k[0], theta, [7]).item(), **CLOSE)


@pytest.mark.parametrize("seed", range(6))
def test_channels_of_pope(seed):
    q, k, _, theta, nearer = drawn(seed)
    phase = np.random.default_rng(seed).uniform(-6, 6, 8) * (seed % 2)
    told = phase + nearer * theta
    far = -np.arange(40)
    scores = [[_pope(a, b, theta, told, far) for b in k] for a in q]
    given = {"q": q.tolist(), "k": k.tolist(), "theta": theta.tolist(), "phase": phase.tolist(), "nearer": nearer}
    many = RETARGET("q.flatMap((a) => k.map((b) => ofChannels(a, b, phase)))", **given)
    best = RETARGET("bestDistances(many, theta, nearer, 40)", many=many, **given)
    assert best == np.ravel(np.argmax(scores, 2)).tolist()
    if not seed % 2 and nearer >= 0:
        assert set(best) == {nearer}  # Property 2 of chapter 5.2
    most = [np.sum(np.logaddexp(0, a) * np.logaddexp(0, b)) for a in q for b in k]
    shares = RETARGET("many.map((each) => agreement(each, theta, 7 - nearer))", many=many, **given)
    np.testing.assert_allclose(shares, np.array(scores)[:, :, 7].ravel() / most, **CLOSE)


def _rope(q, k, theta, distance):
    return rope(np.tile(k, (len(distance), 1)), -np.asarray(distance), theta=theta) @ q


def _pope(q, k, theta, phase, places):
    keys = np.tile(k, (len(places), 1))[None]
    return pope(q[None, None], keys, [0], places, theta=theta, phase=phase[None], bound="free")[0, 0]


def _lengths(x):
    return np.hypot(*np.split(x, 2))
