"""What one loud token gets, and the factors of queries, against softmax and the package's formulas."""

import numpy as np
import pytest

from posenc.rotate.query_scale import KINDS, position_scale
from tests.scripts.javascript import Script

SHARE = Script("math/share.js")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "head"])
@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65, 127, 128, 513, 65_536])
def test_a_factor_is_that_of_the_package(kind, tokens):
    made = SHARE("factor(kind, tokens, 64, 0.3)", kind=kind, tokens=tokens)
    np.testing.assert_allclose(made, position_scale(tokens - 1, kind, 64, 0.3), rtol=1e-12)


def test_without_a_formula_the_factor_is_1():
    assert SHARE("factor('none', 4096, 64, 0.3)") == 1


@pytest.mark.parametrize(("lead", "tokens"), [(0, 1), (0, 10), (7, 64), (7, 512), (12.5, 65_536)])
def test_a_share_is_that_of_softmax(lead, tokens):
    logits = np.zeros(tokens)
    logits[0] = lead
    expected = np.exp(lead) / np.exp(logits).sum()
    np.testing.assert_allclose(SHARE("share(lead, tokens)", lead=lead, tokens=tokens), expected, rtol=1e-12)
