"""Strips of wavelengths and the rules for a base, against the package."""

import numpy as np
import pytest

from posenc.rotate.frequencies import ntk, proportional, rope_frequencies
from tests.scripts.javascript import Script

ZOO = Script("math/zoo.js")


@pytest.mark.parametrize("seed", range(8))
def test_strips_of_wavelengths(seed):
    draw = np.random.default_rng(seed)
    head = 4 * int(draw.integers(2, 60))
    turning = 2 * int(draw.integers(1, head // 2 + 1))
    base, length = 10 ** draw.uniform(2, 8), float(10 ** draw.uniform(1, 5))
    given = {"head": head, "turning": turning, "base": base, "length": length}

    narrow = 2 * np.pi / rope_frequencies(turning, base)[0]
    np.testing.assert_allclose(ZOO("waves(head, turning, base, false)", **given), narrow, rtol=1e-9)
    stopped = proportional(head, turning / head, base=base)[0]
    fastest = 2 * np.pi / stopped[stopped > 0]
    ours = ZOO("waves(head, turning, base, true)", **given)
    np.testing.assert_allclose(ours, fastest[: len(ours)], rtol=1e-9)
    assert len(ours) == turning // 2

    assert ZOO("unfinished(found, length)", found=narrow.tolist(), length=length) == (narrow > length).sum()
    turned = ZOO("circle(Float64Array.from(found), length)", found=narrow.tolist(), length=length)
    np.testing.assert_allclose(turned, np.clip(length / narrow, 0, 1), rtol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_rules_for_a_base(seed):
    draw = np.random.default_rng(seed)
    base, length = 10 ** draw.uniform(3, 8), 10 ** draw.uniform(2, 5)
    part = ZOO("share(length, base)", length=length, base=base)
    counted = (2 * np.pi / rope_frequencies(20_000, base)[0] > length).mean()
    assert part == pytest.approx(counted, abs=2e-4)
    assert ZOO("keeping(length, part)", length=length, part=part) == pytest.approx(base, rel=1e-9)
    longer = ZOO("keeping(length, part)", length=8 * length, part=part)
    assert ZOO("share(length, base)", length=8 * length, base=longer) == pytest.approx(part, abs=1e-9)

    dim, factor = 2 * int(draw.integers(4, 100)), draw.uniform(1.5, 40)
    raised = ZOO("ntkBase(base, factor, dim)", base=base, factor=factor, dim=dim)
    np.testing.assert_allclose(rope_frequencies(dim, raised)[0], ntk(dim, factor, base)[0], rtol=1e-9)
