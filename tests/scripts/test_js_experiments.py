"""Draws of random numbers, and what is concluded from a few runs: seeds, intervals, regret."""

import math

import numpy as np
import pytest

from tests.scripts.javascript import Script

RANDOM = Script("math/random.js")
SEED_SCRIPT = Script("math/seeds.js")
REGRET = Script("math/regret.js")


@pytest.mark.parametrize("seed", [0, 1, 17, 4_294_967_295])
def test_random_numbers_are_those_of_numpy(seed):
    for kind, name in (("uniform", "random_sample"), ("normal", "standard_normal")):
        ours = RANDOM("Array.from({ length: 700 }, randomState(seed)[kind])", seed=seed, kind=kind)
        np.testing.assert_allclose(ours, getattr(np.random.RandomState(seed), name)(700), rtol=1e-12)


QUANTILES = {2: 4.302652730, 3: 2.776445105, 5: 2.306004135, 20: 2.024394164}  # of Student's t, 0.975, by runs each


@pytest.mark.parametrize("x", [-9, -7.9, -3.3, -1e-9, 0, 0.4, 1.96, 5, 7.99, 8.5])
def test_the_normal_distribution(x):
    assert SEED_SCRIPT("below(x)", x=x) == pytest.approx(math.erfc(-x / math.sqrt(2)) / 2, abs=1e-12)


@pytest.mark.parametrize("runs", [2, 3, 7, 20])
def test_an_interval(runs):
    first, second = np.random.default_rng(runs).normal(size=(2, runs))
    spread = math.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    ours = SEED_SCRIPT("interval(a, b, 1.7)", a=first, b=second)
    assert ours["middle"] == pytest.approx(first.mean() - second.mean(), abs=1e-9)
    assert ours["half"] == pytest.approx(1.7 * spread, abs=1e-9)


@pytest.mark.parametrize("runs", [2, 3, 7, 20])
def test_how_a_spread_of_few_runs_is_distributed(runs):
    s = np.linspace(0.01, 3, 50)
    half = runs - 1
    log = math.log(2) + half * math.log(half) - math.lgamma(half) + (2 * half - 1) * np.log(s) - half * s**2
    ours = SEED_SCRIPT("s.map((x) => ofSpread(x, runs))", s=s, runs=runs)
    np.testing.assert_allclose(ours, np.exp(log), rtol=0, atol=1e-9)


@pytest.mark.parametrize("runs", QUANTILES)
@pytest.mark.parametrize("gap", [0, 0.3, 1.7])
def test_what_becomes_of_a_gap(runs, gap):
    error = math.sqrt(2 / runs)
    visible = QUANTILES[runs] * error
    ours = SEED_SCRIPT("chances(gap, runs, visible)", gap=gap, runs=runs, visible=visible)
    assert ours["behind"] == pytest.approx(math.erfc(gap / error / math.sqrt(2)) / 2, abs=1e-9)
    draw = np.random.default_rng(runs)
    measured = gap + error * draw.normal(size=1_000_000)
    half = visible * np.sqrt(draw.chisquare(2 * runs - 2, size=measured.size) / (2 * runs - 2))
    assert ours["clear"] == pytest.approx((measured > half).mean(), abs=2e-3)
    assert ours["wrong"] == pytest.approx((measured < -half).mean(), abs=1e-3)
    assert ours["found"] == pytest.approx(measured[measured > half].mean(), rel=0.02)
    if gap == 0:  # what a 95% interval promises
        assert [ours["clear"], ours["wrong"]] == pytest.approx([0.025, 0.025], abs=1e-9)


def test_one_run_has_no_interval():
    ours = SEED_SCRIPT("chances(0.3, 1, null)")
    assert ours["behind"] == pytest.approx(math.erfc(0.15) / 2, abs=1e-12)
    assert (ours["clear"], ours["wrong"]) == (0, 0)
    assert math.isnan(ours["found"])


@pytest.mark.parametrize("seed", range(8))
def test_regret_and_the_order_that_it_gives(seed):
    draw = np.random.default_rng(seed)
    shares = draw.random((9, 5)).round(4)
    selected = draw.random(5) < 0.6
    selected[seed % 5] = True
    open_ = draw.random(9) < 0.5
    gaps = shares.max(axis=0) - shares
    ours = REGRET("behind(shares)", shares=shares)
    assert np.allclose(ours, gaps, rtol=0, atol=1e-12)
    regrets = [REGRET("regret(row, selected)", row=row, selected=selected) for row in ours]
    limited = np.where(selected, gaps, -1)
    assert np.allclose([regret["by"] for regret in regrets], limited.max(axis=1), rtol=0, atol=1e-12)
    assert [regret["q"] for regret in regrets] == limited.argmax(axis=1).tolist()
    order = REGRET("ranked(regrets, open)", regrets=[regret["by"] for regret in regrets], open=open_)
    assert order == np.lexsort((limited.max(axis=1), ~open_)).tolist()


def test_nothing_asked_is_nothing_lost():
    assert REGRET("regret([0.5, 0.1], [false, false])") == {"by": 0, "q": -1}
