"""A figure's SVG is the same at every build, though the layout's last bits are not, and small."""

import base64
import io
import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from galley.run.figure import HOUSE_STYLE, draw
from galley.run.smaller_svg import path, picture, smaller


def svg_of_axes(left, width=0.8):
    with plt.style.context(HOUSE_STYLE), plt.rc_context({"figure.constrained_layout.use": False}):
        figure = plt.figure()
        ax = figure.add_axes((left, 0.1, width, 0.8))
        ax.plot([0, 1], [0, 1], "o-")
        ax.scatter([0.2, 0.8], [0.5, 0.5])
        svg = draw(figure, "one")
        plt.close(figure)
    return svg


def test_a_real_change_of_a_position_shows_and_its_last_bits_do_not():
    svg = svg_of_axes(0.1)
    assert svg_of_axes(0.1, width=0.7) != svg
    assert all(svg_of_axes(0.1 + ulps * math.ulp(0.1)) == svg for ulps in range(1, 6))


def test_names_are_unique_and_each_reference_finds_its_name():
    svg = svg_of_axes(0.1)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    named = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg))
    assert named
    assert {first or second for first, second in named} <= set(ids)


def points(line):
    """Return the points of a path of lines, in hundredths."""
    here, start, vertices = (0, 0), (0, 0), []
    for command, numbers in re.findall(r"([MLmlz])([^MLmlz]*)", line):
        steps = [round(100 * float(number)) for number in re.findall(r"-?\d*\.?\d+", numbers)]
        for n in range(0, len(steps), 2):
            here = (here[0] + steps[n], here[1] + steps[n + 1]) if command.islower() else tuple(steps[n : n + 2])
            start = here if command in "Mm" and n == 0 else start
            vertices.append(here)
        here = start if command == "z" else here
    return vertices


def test_a_path_goes_through_the_same_points():
    line = "M 0.50 -3.25\nL 10.00 4.10\nL 10.07 4.00\nz\nM 7.68 39.85\nL -451.24 39.85\n"
    data = "m.5-3.25 9.5 7.35 .07-.1zm7.18 43.1-458.92 0"
    assert path(line) == data
    assert points(data) == points(line)
    assert len(points(data)) == 5
    assert path("M 1 1 C 2 2 3 1 4 1 C 5 1 6 2 7 2 z") == "m1 1c1 1 2 0 3 0 1 0 2 1 3 1z"  # each from where it begins


@pytest.mark.parametrize("colors", [2, 5000])
@pytest.mark.parametrize("clear", [False, True])
def test_a_picture_keeps_every_pixel(colors, clear):
    rng = np.random.default_rng(0)
    palette = rng.integers(0, 256, (colors, 4), dtype=np.uint8)
    palette[:, 3] = palette[:, 3] if clear else 255
    pixels = palette[rng.integers(0, colors, (70, 90))]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    png = base64.b64encode(file.getvalue()).decode()
    smaller_png = picture(png)
    image = Image.open(io.BytesIO(base64.b64decode(smaller_png))).convert("RGBA")
    assert (np.asarray(image) == pixels).all()
    assert len(smaller_png) <= len(png)


def test_a_drawing_loses_names_and_groups():
    svg = '<svg role="img" id="figure-1-1" xmlns="http://www.w3.org/2000/svg" version="1.1" viewBox="0 0 400 100">\n'
    svg += '<style type="text/css">#figure-1-1 *{stroke-linecap: butt}</style>\n<g id="figure-1-1-axes_1">\n'
    svg += '<g id="figure-1-1-empty"/>\n<path id="figure-1-1-m0" d="M 0 0 L 1 0" style="fill: none; stroke: #fff"/>\n'
    svg += '<use xlink:href="#figure-1-1-m0" x="9.90"/>\n<text><tspan>a</tspan>\n<tspan>b</tspan></text></g></svg>'
    assert smaller(svg) == (
        '<svg role="img" id="figure-1-1" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 100">'
        "<style>#figure-1-1 *{stroke-linecap: butt}</style>"
        '<path id="figure-1-1-m0" d="m0 0 1 0" style="fill:none;stroke:#fff"/>'
        '<use xlink:href="#figure-1-1-m0" x="9.9"/>'
        "<text><tspan>a</tspan>\n<tspan>b</tspan></text></svg>"
    )
