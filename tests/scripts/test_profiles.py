"""Curves mixed by a query, and the distances at which one can point, against the package and half planes."""

import numpy as np
import pytest

from posenc.score.profiles import profiles
from tests.scripts.javascript import Script

PROFILES = Script("math/profiles.js")


@pytest.mark.parametrize(("rank", "extent"), [(1, 1), (2, 12), (5, 7)])
def test_a_mix_is_the_score_of_the_package(rank, extent):
    draw = np.random.default_rng(rank)
    states, bank = draw.normal(size=rank), draw.normal(size=(rank, extent))
    keys = np.arange(extent)[::-1]
    expected = profiles(np.zeros((1, 1, 1)), np.zeros((1, extent, 1)), [extent - 1], keys, bank=bank, states=[[states]])
    ours = PROFILES("mix(states, bank)", states=states.tolist(), bank=bank.tolist())
    np.testing.assert_allclose(ours, expected[0, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_corners_are_what_no_triangle_of_others_holds(seed):
    points = np.random.default_rng(seed).normal(size=(9, 2))
    found = PROFILES("corners(bank, 36000)", bank=points.T.tolist())
    assert sorted(found) == [n for n in range(9) if not held(points[n], np.delete(points, n, axis=0))]


def held(point, others):
    """Tell whether a point lies among others: seen from it they leave no half plane free."""
    angles = np.sort(np.arctan2(*(others - point).T))
    return np.diff(angles, append=angles[0] + 2 * np.pi).max() < np.pi


def test_points_on_a_circle_are_all_corners_and_one_pulled_inside_is_none():
    turn = 2 * np.pi * np.arange(12) / 12
    circle = np.stack([np.cos(turn), np.sin(turn)])
    assert len(PROFILES("corners(bank)", bank=circle.tolist())) == 12
    circle[:, 5] *= 0.6
    assert sorted(PROFILES("corners(bank)", bank=circle.tolist())) == [n for n in range(12) if n != 5]
