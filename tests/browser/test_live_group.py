"""What the live figure of chapter 5.6 says, against the exponential of its generator."""

import math

import numpy as np
import pytest
import torch

from tests.browser.live import put

pytestmark = pytest.mark.full


def scores(theta, c, angle, reach):
    """Return the scores of a key at `angle`, many to a token."""
    generator = theta * torch.tensor([[0, 1.0], [-c, 0]], dtype=torch.float64)
    key = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
    return [(torch.linalg.matrix_exp(steps * generator).numpy() @ key)[0] for steps in np.arange(0, reach, 0.05)]


def test_turn_to_shear(figure):
    found, data, said = figure("chapters/5-pope/four-doors-one-group/", "turn-to-shear")
    theta = data["theta"]
    assert said() == f"A turn as in RoPE: once round in {2 * math.pi / theta:.1f} tokens with scores up to 1.00."
    found.get_by_role("button", name="higher", exact=True).click()
    period, top = 2 * math.pi / theta / math.sqrt(data["shares"][2]), max(scores(theta, data["shares"][2], -90, 200))
    assert said() == f"A flattened turn: once round in {period:.1f} tokens with scores up to {top:.2f}."
    put(found, angle_of_the_key=30, c=0.16)
    assert f"with scores up to {max(scores(theta, 0.16, 30, 200)):.2f}." in said()
    put(found, c=0)
    slope = np.diff(scores(theta, 0, 30, 2))[0] / 0.05
    assert said() == f"A shear: a straight line that rises by {slope:.2f} a token."
    put(found, angle_of_the_key=-90)
    assert said() == f"A shear: a straight line that falls by {theta:.2f} a token which is ALiBi."
    put(found, angle_of_the_key=180)
    assert "here the score stays" in said()
    put(found, angle_of_the_key=-90, c=-0.04)
    far = scores(theta, -0.04, -90, 200)
    assert f"grows up or down by {100 * (far[-1] / far[-21] - 1):.1f}% a token." in said()
