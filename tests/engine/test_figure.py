"""A figure's SVG is the same at every build, though the layout's last bits are not."""

import math
import re

import matplotlib.pyplot as plt
import pytest

from galley.run.figure import HOUSE_STYLE, draw


def drawn(left, width=0.8):
    with plt.style.context(HOUSE_STYLE), plt.rc_context({"figure.constrained_layout.use": False}):
        figure = plt.figure()
        ax = figure.add_axes((left, 0.1, width, 0.8))
        ax.plot([0, 1], [0, 1], "o-")
        ax.scatter([0.2, 0.8], [0.5, 0.5])
        svg = draw(figure, "one")
        plt.close(figure)
    return svg


@pytest.mark.parametrize("ulps", range(1, 6))
def test_the_last_bits_of_a_position_do_not_show(ulps):
    assert drawn(0.1 + ulps * math.ulp(0.1)) == drawn(0.1)


def test_a_real_change_shows():
    assert drawn(0.1, width=0.7) != drawn(0.1)


def test_names_are_unique_and_each_reference_finds_its_name():
    svg = drawn(0.1)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    named = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
    assert named
    assert {first or second for first, second in named} <= set(ids)
