"""Seven patients: the figure names the bug that the page planted, and no other."""

import numpy as np
import pytest

from tests.browser.live import put
from tests.scripts.test_patients import chances

pytestmark = pytest.mark.full

PAGE = "chapters/6-guide/debugging/"
SIZES = {
    "bits": "significant bits",
    "rows": "rows",
    "chunks": "tokens of a chunk",
    "writing": "writes from",
    "pads": "one text in",
}


def computed(bug: str, size: int, data: dict) -> np.ndarray:
    """Property 2, in means of so many tokens."""
    given = {name: data[name] for name in ("length", "back", "window", "letters")}
    chance, width = chances(bug, size, **given), data["width"]
    return chance[: len(chance) // width * width].reshape(-1, width).mean(axis=1)


def test_ward_round(figure):
    round_, data, said = figure(PAGE, "ward-round")
    done = round_.get_by_role("button", name="That is it")
    suspect = round_.get_by_role("combobox")
    for number, case in enumerate(data["cases"], 1):
        bug, size, curve = case["bug"], case["size"], np.array(case["curve"]) / 100
        round_.get_by_role("radio", name=str(number), exact=True).check()
        wrong = "bits" if bug == "chunks" else "chunks"
        suspect.select_option(wrong)
        done.click()
        assert said().startswith("No")
        suspect.select_option(bug)
        assert said().startswith(f"Patient {number} writes: {curve.mean():.2f} right on average")
        if bug in SIZES:
            far = {"bits": 10, "pads": 8}.get(bug, 150)
            put(round_, **{SIZES[bug]: far})
            gap = np.abs(curve - computed(bug, far, data)).mean()
            assert f"the dashed line lies {gap:.2f} away" in said()
            done.click()
            assert said().startswith("The right kind.")
            put(round_, **{SIZES[bug]: size})
        gap = np.abs(curve - computed(bug, size, data)).mean()
        assert f"the dashed line lies {gap:.2f} away" in said()
        done.click()
        assert said().startswith("Yes: ")
        assert said().endswith(f"{number} of 7 healed.")


@pytest.mark.parametrize(("bug", "other"), [("rows", "writing"), ("writing", "rows")])
def test_reading_tells_two_cliffs_apart(figure, bug, other):
    round_, data, said = figure(PAGE, "ward-round")
    number = [case["bug"] for case in data["cases"]].index(bug) + 1
    round_.get_by_role("radio", name=str(number), exact=True).check()
    round_.get_by_role("combobox").select_option(other)
    round_.get_by_role("button", name="That is it").click()
    assert said().startswith("No. Both have a cliff.")
    before = np.mean(data["cases"][number - 1]["curve"]) / 100
    assert f"writes: {before:.2f} right on average" in said()
    round_.get_by_role("radio", name="reads").check()
    assert f"reads: {before if bug == 'rows' else 1:.2f} right on average" in said()
