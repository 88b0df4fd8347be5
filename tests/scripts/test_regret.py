"""Regret over the questions that are asked, against NumPy."""

import numpy as np
import pytest

from tests.scripts.javascript import Script

REGRET = Script("math/regret.js")


@pytest.mark.parametrize("seed", range(8))
def test_regret_and_the_order_that_it_gives(seed):
    draw = np.random.default_rng(seed)
    shares = draw.random((9, 5)).round(4)
    asked = draw.random(5) < 0.6
    asked[seed % 5] = True
    open_ = draw.random(9) < 0.5
    behind = shares.max(axis=0) - shares
    ours = REGRET("behind(shares)", shares=shares.tolist())
    assert np.allclose(ours, behind, rtol=0, atol=1e-12)
    found = [REGRET("regret(row, asked)", row=row, asked=asked.tolist()) for row in ours]
    limited = np.where(asked, behind, -1)
    assert np.allclose([each["by"] for each in found], limited.max(axis=1), rtol=0, atol=1e-12)
    assert [each["q"] for each in found] == limited.argmax(axis=1).tolist()
    order = REGRET("ranked(regrets, open)", regrets=[each["by"] for each in found], open=open_.tolist())
    assert order == np.lexsort((limited.max(axis=1), ~open_)).tolist()


def test_nothing_asked_is_nothing_lost():
    assert REGRET("regret([0.5, 0.1], [false, false])") == {"by": 0, "q": -1}
