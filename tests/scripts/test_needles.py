"""Needles of the plane and their kernel, against the scores of `axial` turned by them."""

import numpy as np
import pytest

from posenc.rotate.axial import axial
from tests.scripts.javascript import Script

NEEDLES = Script("math/needles.js")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def drawn(seed):
    draw = np.random.default_rng(seed)
    count, base = int(draw.integers(1, 40)), float(draw.uniform(2, 20_000))
    given = {"count": count, "base": base, "turn": float(draw.uniform(0, np.pi))}
    angle = given["turn"] * np.arange(count)
    theta = base ** (-np.arange(count) / count) * np.stack([np.sin(angle), np.cos(angle)])
    return draw, given, theta


def scores(theta, offsets):
    """Return what a query of ones gives for keys of ones at these offsets, over what it gives for itself."""
    ones = np.ones((len(offsets), 2 * theta.shape[1]))
    keys, query = axial(ones, offsets, theta=theta), axial(ones[:1], np.zeros((1, 2)), theta=theta)
    return (keys @ query[0]) / (2 * theta.shape[1])


@pytest.mark.parametrize("seed", range(8))
def test_needles_and_their_kernel(seed):
    draw, given, theta = drawn(seed)
    ours = NEEDLES("needles(count, base, turn)", **given)
    np.testing.assert_allclose([ours["y"], ours["x"]], theta, **CLOSE)
    y, x = draw.uniform(-20, 20, 2).tolist()
    kernel = NEEDLES("planeKernel(needles(count, base, turn), y, x)", y=y, x=x, **given)
    np.testing.assert_allclose(kernel, scores(theta, np.array([[y, x]]))[0], **CLOSE)
    steps = np.sort(draw.uniform(-14, 14, 5))
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1).reshape(-1, 2)
    square = NEEDLES("planeMap(needles(count, base, turn), steps)", steps=steps.tolist(), **given)
    np.testing.assert_allclose(square, scores(theta, grid), **CLOSE)


@pytest.mark.parametrize("seed", range(4))
def test_spread_on_a_ring(seed):
    draw, given, theta = drawn(seed)
    radius, way = float(draw.uniform(1, 14)), 2 * np.pi * np.arange(90) / 90
    expected = scores(theta, radius * np.stack([np.sin(way), np.cos(way)], axis=-1))
    ring = NEEDLES("onRing(needles(count, base, turn), r, 90)", r=radius, **given)
    np.testing.assert_allclose(ring, expected, **CLOSE)
    np.testing.assert_allclose(NEEDLES("spread(ring)", ring=ring), expected.std(), **CLOSE)
