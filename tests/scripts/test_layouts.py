"""Channels, partners and speeds of the two layouts, against the rotation itself."""

import numpy as np
import pytest

from posenc.models.checkpoints import layout_order
from posenc.rotate.rope import rope
from tests.scripts.javascript import Script

LAYOUTS = Script("math/layouts.js")
BOTH = ("interleaved", "half")


@pytest.mark.parametrize("layout", BOTH)
@pytest.mark.parametrize("dim", [2, 4, 8, 10, 64])
def test_pairs_are_those_that_turn(dim, layout):
    given = {"dim": dim, "layout": layout}
    reached = rope(np.eye(dim), np.ones(dim), layout=layout)
    for place in range(dim):
        turned = np.flatnonzero(abs(reached[place]) > 1e-9).tolist()
        assert sorted([place, LAYOUTS("partner(place, dim, layout)", place=place, **given)]) == turned
        speed = np.arctan2(np.delete(reached[place, turned], turned.index(place))[0], reached[place, place])
        pair = LAYOUTS("pairAt(place, dim, layout)", place=place, **given)
        np.testing.assert_allclose(abs(speed), 10_000.0 ** (-2 * pair / dim), rtol=1e-9)


@pytest.mark.parametrize("dim", [2, 4, 8, 10, 64])
def test_rows_move_as_the_package_moves_them(dim):
    x = np.random.default_rng(dim).normal(size=dim)
    order = layout_order(dim, "half")
    np.testing.assert_array_equal(LAYOUTS("laidOut(x, 'half')", x=x.tolist()), x[order])
    np.testing.assert_array_equal(LAYOUTS("laidOut(x, 'interleaved')", x=x.tolist()), x)
    places = [LAYOUTS("placeOf(c, dim, 'half')", c=c, dim=dim) for c in order.tolist()]
    assert places == list(range(dim))


@pytest.mark.parametrize("dim", [2, 4, 8, 10, 64])
def test_who_keeps_its_speed(dim):
    pair = {"interleaved": np.arange(dim) // 2, "half": np.arange(dim) % (dim // 2)}
    order = {"interleaved": np.arange(dim), "half": layout_order(dim, "half")}
    for rows in BOTH:
        for code in BOTH:
            kept = np.sort(order[rows][pair[code] == pair["interleaved"][order[rows]]])
            assert LAYOUTS("keepers(dim, rows, code)", dim=dim, rows=rows, code=code) == kept.tolist()
    assert LAYOUTS("keepers(dim, 'interleaved', 'half').length", dim=dim) == (2 if dim > 2 else dim)
