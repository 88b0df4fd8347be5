"""The live figure of chapter 5.4: its laboratories are NumPy's, and what it says of them is what they find."""

import re

import numpy as np
import pytest

from tests.browser.live import wake

pytestmark = pytest.mark.full


@pytest.fixture
def luck(site, visit):
    """Return the figure, its data, and what it says."""
    figure, data, said = wake(visit(site + "chapters/5-pope/evidence/").page, "seed-luck")
    return figure, data, lambda: said().replace("\u03c3", "SD")


def laboratories(data, stream: int, gap: float, runs: int) -> tuple[int, int, int, int]:
    """Return how many find the better one ahead, how many of them visibly, and the same of the worse one."""
    drawn = np.random.RandomState(stream).normal(size=(data["labs"], 2, 20))[:, :, :runs]
    middle = gap + drawn[:, 0].mean(axis=1) - drawn[:, 1].mean(axis=1)
    half = data["visible"][runs - 1] * np.sqrt(drawn.var(axis=2, ddof=1).mean(axis=1)) if runs > 1 else np.inf
    signs = (middle > 0, middle > half, middle < 0, middle < -half)
    return tuple(int(which.sum()) for which in signs)


def long_run(data, gap: float, runs: int) -> tuple[float, float, float]:
    """Return the shares of comparisons that the worse one leads and that show the gap, and how large it looks there."""
    drawn = np.random.default_rng(0).normal(size=(300_000, 2, runs))
    middle = gap + drawn[:, 0].mean(axis=1) - drawn[:, 1].mean(axis=1)
    half = data["visible"][runs - 1] * np.sqrt(drawn.var(axis=2, ddof=1).mean(axis=1))
    shows = middle > half
    return 100 * (middle < 0).mean(), 100 * shows.mean(), middle[shows].mean() / gap


def test_what_it_says_is_what_the_laboratories_find(luck):
    figure, data, said = luck
    seeds, gap = (figure.get_by_role("slider", name=name) for name in ("seeds each", "true gap"))
    for stream, (runs, size) in enumerate(((3, 0.3), (2, 1.2), (8, 1.2), (20, 0.3))):
        seeds.fill(str(runs))
        gap.fill(str(size))
        ahead, clear, behind, wrong = laboratories(data, stream, size, runs)
        assert f"Of 40 laboratories with {runs} seeds each and a true gap of {size} SD, {ahead} find" in said()
        counts = f"{ahead} find the better one ahead, {clear} of them visibly, and {behind} the worse one, {wrong} of"
        assert counts in said()
        worse, shows, large = long_run(data, size, runs)
        numbers = re.search(r"leads in ([\d.]+)%, the gap shows in ([\d.]+)%, where it looks ([\d.]+) times", said())
        assert [float(n) for n in numbers.groups()] == pytest.approx([worse, shows, large], abs=0.7, rel=0.03)
        figure.get_by_role("button", name="Other laboratories").click()


def test_without_a_gap_an_interval_finds_one_in_twenty(luck):
    figure, data, said = luck
    figure.get_by_role("slider", name="true gap").fill("0")
    assert "In the long run 5.0% see a gap that is not there." in said()
    figure.get_by_role("slider", name="seeds each").fill("1")
    ahead, _, behind, _ = laboratories(data, 0, 0, 1)
    assert f"{ahead} find the first one ahead, and {behind} the second one. One run has no interval" in said()
    assert said().endswith("In the long run each leads in half.")


def test_cases_of_the_page_set_the_gap_and_a_moved_gap_is_ones_own(luck):
    figure, data, said = luck
    which = figure.get_by_role("combobox")
    for i, (name, size) in enumerate(data["cases"]):
        which.select_option(name)
        assert f"a true gap of {size:g} SD" in said()
        assert which.input_value() == str(i)
    figure.get_by_role("slider", name="true gap").press("Home")
    said()
    assert which.input_value() == "own"
    figure.get_by_role("button", name="nearly always").click()
    worse, shows, large = long_run(data, 0.3, 20)
    reply = figure.locator(".stage-predict [role=status]").inner_text()
    assert 1 / 8 < shows / 100 < 1 / 6
    numbers = re.search(r"seven: (\d+)%, and .* looks ([\d.]+) times .* leads in (\d+)%", reply).groups()
    assert [float(n) for n in numbers] == pytest.approx([shows, large, worse], abs=0.7, rel=0.03)
    assert "with 20 seeds each and a true gap of 0.3 SD" in said()
    assert which.input_value() == "0"
