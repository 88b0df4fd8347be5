"""Lighter pages: what goes is neither seen nor read nor copied, and all else stays."""

import base64
import io
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from galley.around import drawings, early, lighter
from galley.around.site import Shown, Site
from galley.katex import Typesetter

PAGE: Any = None  # neither part asks which page it is


def text(html):
    return re.sub(r"<[^>]*>", "", html)


def test_code_keeps_its_letters_and_the_spans_that_have_a_color():
    source = '<span class="n">x</span> <span class="o">=</span> <span class="n">f</span><span class="p">(</span>'
    source += '<span class="p">[</span><span class="mi">1</span><span class="p">])</span>\n<span class="w">  </span>'
    source += '<span class="c1"># 1 &lt; 2</span>'
    found = lighter.code(f"<pre><span></span><code>{source}</code></pre>")
    assert text(found) == text(source)
    assert found == (
        '<pre><code style="--lines:2">x <span class="o">=</span> f<span class="p">([</span><span class="mi">1</span>'
        '<span class="p">])</span>\n  <span class="c1"># 1 &lt; 2</span></code></pre>'
    )


def test_what_needs_no_tooltip_has_its_name_in_another_way():
    link = '<a href="#x" class="headerlink" {}="Link to this section">&para;</a>'
    assert lighter.named(link.format("title")) == link.format("aria-label")
    assert lighter.named('<span title="torch.Tensor">Tensor</span>') == "Tensor"
    kept = '<abbr title="Rotary">RoPE</abbr><span class="x" title="y">z</span><a href="#x" title="y">z</a>'
    assert lighter.named(kept) == kept


def test_the_link_in_a_signature_stays():
    code = '<code><span class="n"><a href="#x">f</a></span></code>'
    assert lighter.code(code) == code


@pytest.mark.parametrize("tex", [r"\sum_{i=1}^n x_i^2", r"\frac{a+b}{\sqrt{c}}", "a = b", r"\mathbf R_{m-n}"])
def test_a_formula_keeps_what_is_seen_and_what_is_heard(tmp_path, tex):
    whole = Typesetter(tmp_path / "formulas.json").html(tex, display=True)
    found = lighter.formulas(whole)
    heard, seen = found.split('<span class="katex-html"')
    assert text(seen) == text(whole.split('<span class="katex-html"')[1])
    assert re.findall(r"<m[ion]>[^<]*", heard) == re.findall(r"<m[ion]>[^<]*", whole)
    assert "annotation" not in found
    assert found.count("<span") == found.count("</span>") < whole.count("<span")
    kept = [name for name in re.findall(r'class="([^"]+)"', whole) if not lighter.BARE.fullmatch(name)]
    assert [name for name in re.findall(r'class="([^"]+)"', found) if not lighter.BARE.fullmatch(name)] == kept


def points(line):
    """Return the points of a path of lines, in hundredths."""
    here, start, found = (0, 0), (0, 0), []
    for command, numbers in re.findall(r"([MLmlz])([^MLmlz]*)", line):
        steps = [round(100 * float(number)) for number in re.findall(r"-?\d*\.?\d+", numbers)]
        for n in range(0, len(steps), 2):
            here = (here[0] + steps[n], here[1] + steps[n + 1]) if command.islower() else tuple(steps[n : n + 2])
            start = here if command in "Mm" and n == 0 else start
            found.append(here)
        here = start if command == "z" else here
    return found


def test_a_path_goes_through_the_same_points():
    line = "M 0.50 -3.25\nL 10.00 4.10\nL 10.07 4.00\nz\nM 7.68 39.85\nL -451.24 39.85\n"
    found = drawings.path(line)
    assert points(found) == points(line)
    assert len(points(found)) == 5
    assert found == "m.5-3.25 9.5 7.35 .07-.1zm7.18 43.1-458.92 0"


def test_a_curve_is_told_from_where_it_begins():
    assert drawings.path("M 1 1 C 2 2 3 1 4 1 C 5 1 6 2 7 2 z") == "m1 1c1 1 2 0 3 0 1 0 2 1 3 1z"


@pytest.mark.parametrize("colors", [2, 5000])
@pytest.mark.parametrize("clear", [False, True])
def test_a_picture_keeps_every_pixel(colors, clear):
    rng = np.random.default_rng(0)
    palette = rng.integers(0, 256, (colors, 4), dtype=np.uint8)
    palette[:, 3] = palette[:, 3] if clear else 255
    pixels = palette[rng.integers(0, colors, (70, 90))]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=0)
    found = drawings.picture(base64.b64encode(file.getvalue()).decode())
    again = Image.open(io.BytesIO(base64.b64decode(found))).convert("RGBA")
    assert (np.asarray(again) == pixels).all()
    assert len(found) <= len(base64.b64encode(file.getvalue()))


def test_a_drawing_loses_names_and_groups_and_tells_its_shape():
    svg = '<svg role="img" id="figure-1-1" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 100">\n'
    svg += '<style type="text/css">#figure-1-1 *{stroke-linecap: butt}</style>\n<g id="figure-1-1-axes_1">\n'
    svg += '<g id="figure-1-1-empty"/>\n<path id="figure-1-1-m0" d="M 0 0 L 1 0" style="fill: none; stroke: #fff"/>\n'
    svg += '<use xlink:href="#figure-1-1-m0" x="9.90"/>\n<text><tspan>a</tspan>\n<tspan>b</tspan></text></g></svg>'
    assert drawings.smaller(f'<div class="drawn-svg" data-search-exclude="">{svg}</div>') == (
        '<div class="drawn-svg" style="--shape:.25" data-search-exclude=""><svg role="img" id="figure-1-1" '
        'viewBox="0 0 400 100"><style>#figure-1-1 *{stroke-linecap: butt}</style>'
        '<path id="figure-1-1-m0" d="m0 0 1 0" style="fill:none;stroke:#fff"/>'
        '<use xlink:href="#figure-1-1-m0" x="9.9"/>'
        "<text><tspan>a</tspan>\n<tspan>b</tspan></text></svg></div>"
    )


def test_white_space_stays_where_it_is_text():
    assert lighter.spaced("<p>\n\n  a\n</p>\n <pre> a\n\n b</pre>\n\n<i>") == "<p>\na\n</p>\n<pre> a\n\n b</pre>\n<i>"


def test_a_served_page_stays_as_it_is():
    page = '<link rel="stylesheet" href="a.css"><article>\n\n<code></code></article>'
    served: Any = SimpleNamespace(served=True)
    assert lighter.lighter(page, PAGE, served) == early.early(page, PAGE, served) == page


def test_the_stylesheets_are_one_and_their_addresses_lead_where_they_led(tmp_path):
    (tmp_path / "css").mkdir()
    (tmp_path / "css/a.css").write_text('a {\n  b: url(../fonts/x.woff2) url("data:,/*");\n}\n/* c */')
    (tmp_path / "b.css").write_text("/*! whose it is */\nd {}\n")
    site: Any = SimpleNamespace(
        served=False, folder=tmp_path, write=lambda place, text: written(tmp_path / place, text)
    )
    links = '<link rel="stylesheet" href="../css/a.css">\n<i><link rel="stylesheet" href="../b.css"></i>'
    found = early.early(f"<head>{links}</head>", PAGE, site)
    (sheet,) = re.findall(r'<link rel="stylesheet" href="\.\./(assets/stylesheets/[^"]+)">', found)
    style = 'a {\nb: url(../../fonts/x.woff2) url("data:,/*");\n}\n/*! whose it is */\nd {}'
    assert (tmp_path / sheet).read_text() == style
    assert found.index("preload") < found.index("stylesheet")
    assert re.findall(r'href="([^"]+)" as="font"', found) == [f"../assets/fonts/{font}" for font in early.FIRST]


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_large_picture_lies_beside_its_page(tmp_path):
    large, small = (base64.b64encode(bytes(size)).decode() for size in (6000, 300))
    page = '<image href="data:image/png;base64,{}"/>'
    site = Site(tmp_path, PAGE, {}, served=False, settings={})
    shown = Shown("rope/a.md", PAGE)
    kept = page.format(small)
    found = drawings.beside(page.format(large) + kept, shown, site)
    place = re.fullmatch(r'<image href="\.\./\.\./(assets/drawn/\w+\.png)"/>' + re.escape(kept), found)
    assert place
    assert (tmp_path / place[1]).read_bytes() == bytes(6000)
