"""Words that act on what passes them, against CoPE, forget gates and PaTH of the package."""

import numpy as np
import pytest

from posenc.score.cope import cope
from posenc.score.forget import forget
from posenc.score.path import path
from tests.scripts.javascript import Script

CONTENT = Script("math/content.js")


@pytest.mark.parametrize("seed", range(6))
def test_what_words_do_to_what_passes(seed):
    draw = np.random.default_rng(seed)
    length, gate = int(draw.integers(2, 12)), draw.uniform(0.1, 0.9)
    acts = draw.uniform(0.02, 0.98, length)
    p, ones = np.arange(length), np.ones((1, length, 1))
    keys = np.log(acts / (1 - acts)).reshape(1, -1, 1)  # gates of CoPE whose sigmoid is how much a token acts
    counts = cope(ones, keys, p, p, np.arange(length + 2.0)[:, None])[0]  # the score is the count
    kept = gate**acts
    fades = np.exp(forget(ones, ones, p, p, gates=np.log(kept / (1 - kept))[None])[0])
    turns = 1 + path(ones, ones, p, p, w=ones, beta=2 * acts[None])[0]
    for m in range(length):
        given = {"acts": acts.tolist(), "gate": gate, "m": m, "to": list(range(m + 1))}
        assert CONTENT("to.map((n) => counted(acts, m, n))", **given) == pytest.approx(counts[m, : m + 1], abs=1e-9)
        assert CONTENT("to.map((n) => faded(acts, gate, m, n))", **given) == pytest.approx(fades[m, : m + 1], abs=1e-9)
        assert CONTENT("to.map((n) => turned(acts, m, n))", **given) == pytest.approx(turns[m, : m + 1], abs=1e-9)
