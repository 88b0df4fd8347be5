"""What the live figure of chapter 5.2 says, against the package."""

import numpy as np
import pytest

from posenc.rotate.pope import pope
from posenc.rotate.rope import rope
from tests.browser.live import put, wake

pytestmark = pytest.mark.full


@pytest.fixture
def retarget(site, visit):
    """Return the figure, its data, and what it says."""
    return wake(visit(site + "chapters/5-pope/pope/").page, "retarget")


def scores(data, back, reach, learned=False):
    """Return the scores (asks, key, distance) of both heads, told to look `back`."""
    steps = np.arange(reach)
    theta, q, k = (np.array(data["rope"][name]) for name in ("theta", "q", "k"))
    keys = [rope(np.tile(key, (reach, 1)), back - data["taught"] - steps, theta=theta) for key in k]
    of_rope = np.einsum("ad,btd->abt", q, keys)
    theta, q, k, phase = (np.array(data["pope"][name]) for name in ("theta", "q", "k", "phase"))
    told = phase + (back - data["taught"]) * theta if learned else back * theta
    keys = [np.tile(key, (1, reach, 1)) for key in k]
    given = {"theta": theta, "phase": told[None], "bound": "free"}
    of_pope = [pope(q[None], key, np.zeros(16), -steps, **given)[0] for key in keys]
    return of_rope, np.stack(of_pope, axis=1)


def check(said, data, back, reach, pair, learned=False) -> None:
    of_rope, of_pope = scores(data, back, reach, learned)
    tops = [each.argmax(axis=2) for each in (of_rope, of_pope)]
    assert f"RoPE scores highest at {tops[0][pair]} and PoPE" in said
    assert f" at {tops[1][pair]}. {(tops[0] == back).sum()} of 256 pairs score highest at {back} in RoPE" in said
    assert f"{(tops[1] == back).sum()} in PoPE." in said


def test_retarget(retarget):
    figure, data, said = retarget
    check(said(), data, data["taught"], 32, tuple(data["pair"]))
    figure.get_by_role("button", name="all in PoPE").click()
    check(said(), data, data["told"], 32, tuple(data["pair"]))
    assert f"Told to look {data['told']} back" in said()
    assert "256 in PoPE." in said()
    put(figure, asks=8, key=0)
    assert "when I asks for A" in said()
    check(said(), data, data["told"], 32, (8, 0))
    q, k = (np.array(data["rope"][name]) for name in ("q", "k"))
    most = np.sum(np.hypot(*np.split(q[8], 2)) * np.hypot(*np.split(k[0], 2)))
    share = scores(data, data["told"], 32)[0][8, 0, 3] / most
    put(figure, it_stands_Δ_back=3)
    assert f"At distance 3 this pair's hands reach {share:.2f} and " in said()
    figure.get_by_role("checkbox").check()
    check(said(), data, data["told"], 32, (8, 0), learned=True)
    figure.get_by_role("radio", name="256").check()
    put(figure, look_r_back=100)
    check(said(), data, 100, 256, (8, 0), learned=True)
    figure.get_by_role("checkbox").uncheck()
    check(said(), data, 100, 256, (8, 0))
    figure.get_by_role("radio", name="32").check()
    assert "Told to look 31 back" in said()
