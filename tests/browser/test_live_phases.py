"""The live figure of chapter 5.3: it shows the phases that the page has trained, and says which are stuck."""

import numpy as np
import pytest

from tests.browser.live import wake

pytestmark = pytest.mark.full


@pytest.fixture
def wall(site, visit):
    """Return the figure, its data, and what it says."""
    return wake(visit(site + "chapters/5-pope/phase-bias/").page, "phase-wall")


def phases(data, run) -> np.ndarray:
    """Return the stored phases of a run, (snapshot, head and channel)."""
    text = run["phases"]
    whole = [int(text[i : i + 2], 36) for i in range(0, len(text), 2)]
    return ((np.array(whole) - data["zero"]) * data["step"]).reshape(len(data["steps"]), -1)


def test_it_says_what_the_page_has_trained(wall):
    figure, data, said = wall
    film = figure.get_by_role("slider", name="training step")
    for run in data["runs"]:
        figure.get_by_role("radio", name=str(run["back"])).check()
        figure.get_by_role("radio", name=run["held"]).check()
        stored = phases(data, run)
        for at in (0, 1, 6, 13):
            film.fill(str(at))
            out = int(((stored[at] > 0) | (stored[at] < -2 * np.pi)).sum())
            steps = f"{data['steps'][at]} step{'s' * (at != 1)}"
            assert f"After {steps} {out} of 64 phases lie outside -2π to 0" in said()
            assert f"The loss is {run['loss'][at]:.2f} nats." in said()
            assert ("no gradient comes back" in said()) == (run["held"] == "clamp" and out > 0)
        assert said().endswith(f"the layer is right in {100 * run['right']:.1f}% of the cases.")


def test_the_clamp_stops_half_at_once_and_frees_none(wall):
    _, data, _ = wall
    for run in data["runs"]:
        stored = phases(data, run)
        assert not stored[0].any()
        if run["held"] == "clamp":
            first, last = stored[1] > 0, stored[-1] > 0
            assert last[first].all(), "a phase behind the wall stays there"
    ends = {(run["held"], run["back"]): run["right"] for run in data["runs"]}
    assert ends["clamp", 2] < 0.5 < 0.9 < min(ends["clamp", 4], ends["free", 2], ends["free", 4])


def test_a_prediction_is_answered(wall):
    figure, _, said = wall
    figure.get_by_role("button", name="worse").click()
    assert figure.locator(".stage-predict [role=status]").inner_text().startswith("No, well: 9")
    assert figure.get_by_role("radio", name="4").is_checked()
    assert "After 160 steps" in said()
