"""How phases are held, against the package's PoPE and NumPy."""

import numpy as np
import pytest

from posenc.rotate.pope import pope
from tests.scripts.javascript import Script

PHASES = Script("math/phases.js")
TURN = 2 * np.pi
STORED = np.concatenate([np.random.default_rng(0).uniform(-9, 4, 40), [0, -TURN]])


@pytest.mark.parametrize("held", ["clamp", "free"])
def test_the_phase_that_is_used(held):
    ours = PHASES("stored.map((x) => used(x, held))", stored=STORED.tolist(), held=held)
    assert PHASES("TURN") == TURN
    np.testing.assert_allclose(ours, np.clip(STORED, -TURN, 0) if held == "clamp" else STORED, rtol=0, atol=1e-12)


@pytest.mark.parametrize("held", ["clamp", "free"])
@pytest.mark.parametrize("k", [1, 2, 4, 12])
def test_what_a_channel_gives_is_its_share_of_the_score(k, held):
    ones, theta = np.ones((1, 1, 1)), 0.37
    top = pope(ones, ones, [0], [0], theta=[theta]).item()  # the lengths of query and key
    for stored in STORED:
        phase = np.array([[stored]])
        score = pope(ones, ones, [k], [0], theta=[theta], phase=phase, bound=held).item()
        ours = PHASES("gives(k, theta, stored, held)", k=k, theta=theta, stored=float(stored), held=held)
        assert ours == pytest.approx(score / top, abs=1e-9)


def test_which_phases_lie_outside():
    ours = PHASES("outside(stored)", stored=STORED.tolist())
    assert ours == ((STORED > 0) | (STORED < -TURN)).tolist()


@pytest.mark.parametrize("k", [1, 2, 4, 12])
def test_where_a_channel_is_loudest(k):
    for theta in (1.0, 0.56, 0.01):
        ahead = (k * theta) % TURN
        assert PHASES("tops(k, theta)", k=k, theta=theta) == pytest.approx([ahead - TURN, ahead], abs=1e-12)
        assert [PHASES("gives(k, theta, x, 'free')", k=k, theta=theta, x=x) for x in (ahead - TURN, ahead)] == [1, 1]


def test_packed_numbers():
    whole = np.random.default_rng(1).integers(0, 36**2, 50)
    text = "".join(np.base_repr(n, 36).lower().rjust(2, "0") for n in whole)
    np.testing.assert_allclose(PHASES("unpacked(text, 800, 0.01)", text=text), (whole - 800) * 0.01, rtol=0, atol=1e-12)
    assert PHASES("unpacked('m8', 800, 0.01)") == [0]
