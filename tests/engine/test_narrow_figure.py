"""What a figure is like on a phone: its panels below each other, its labels apart, its letters of their size."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

from galley.run.figure import HOUSE_STYLE
from galley.run.narrow_figure import WIDTH, narrow
from tests.engine.conftest import block

CELLS = np.arange(16).reshape(4, 4)
LONG = ("all positions moved by one million", "decoding starts one position late", "values rotated too, by their keys")
CURVES = """\
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(7, 2))
for panel in axes:
    panel.plot([1, 2], [1, 2])
"""
SLIM = """\
import matplotlib.pyplot as plt
import numpy as np

figure, panel = plt.subplots(figsize=(7, 2))
panel.imshow(np.zeros((40, 4)), aspect="equal")
"""
SHAPE = """\
class Drawing:
    def __init__(self, columns):
        self.columns = columns

    def _repr_svg_(self):
        shape = '<clipPath id="a"><path d="M0,0h1v1z"/></clipPath><rect clip-path="url(#a)"/>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.columns} 9">{shape}</svg>'


Drawing(7)
"""


@pytest.fixture(autouse=True)
def style():
    with plt.style.context(HOUSE_STYLE):
        yield
    plt.close("all")


def panels(rows, columns, width=7, height=2.5, **options):
    """Return a figure and its panels, in the order in which they are read."""
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False, **options)
    return figure, list(axes.flat)


def places(figure, axes):
    """Narrow a figure, and return the row and the column at which each panel comes to stand."""
    narrow(figure)
    return [(panel.get_subplotspec().rowspan.start, panel.get_subplotspec().colspan.start) for panel in axes]


def boxes(texts):
    """Return where texts stand in the figure as it is drawn, from left to right."""
    return sorted((text.get_window_extent() for text in texts if text.get_text()), key=lambda box: box.x0)


def overlap(a, b):
    """Return whether two boxes share more than a line of pixels."""
    return min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1


def test_curves_beside_each_other_come_below_each_other_with_the_labels_that_they_shared():
    figure, axes = panels(1, 3, sharey=True)
    axes[0].set_ylabel("logit")
    assert places(figure, axes) == [(0, 0), (1, 0), (2, 0)]
    assert figure.get_size_inches() == pytest.approx((WIDTH, 7.5))
    for panel in axes:
        assert panel.get_ylabel() == "logit"
        assert any(label.get_text() and label.get_visible() for label in panel.get_yticklabels())


def test_columns_whose_rows_show_different_things_stay_together():
    figure, axes = panels(2, 4)
    axes[0].set_ylabel("turns")
    axes[4].set_ylabel("step")
    assert places(figure, axes) == [(0, 0), (0, 1), (2, 0), (2, 1), (1, 0), (1, 1), (3, 0), (3, 1)]


def test_what_began_a_row_begins_one():
    figure, axes = panels(2, 3)
    for panel in axes:
        panel.imshow(CELLS)
    assert places(figure, axes) == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (3, 0)]


def test_many_small_panels_leave_no_gap():
    figure, axes = panels(3, 3)
    assert places(figure, axes) == [divmod(n, 2) for n in range(9)]


@pytest.mark.parametrize("columns", [3, 4])
def test_small_pictures_stand_two_in_a_row(columns):
    figure, axes = panels(1, columns)
    for panel in axes:
        panel.imshow(CELLS, aspect="equal")
    assert places(figure, axes) == [divmod(n, 2) for n in range(columns)]


def test_a_lone_picture_keeps_its_size():
    figure, [panel] = panels(1, 1)
    panel.imshow(CELLS, aspect="equal")
    figure.draw_without_rendering()
    before = panel.get_window_extent().width
    narrow(figure)
    assert panel.get_window_extent().width == pytest.approx(1.25 * before, rel=0.2)


def test_a_long_title_is_broken_into_lines_of_about_one_length():
    figure, [panel] = panels(1, 1)
    panel.set_title("nats per token within 8,192 tokens, over the model as it is")
    narrow(figure)
    [title] = [text for text in (panel._left_title, panel.title) if text.get_text()]
    first, second = title.get_text().split("\n")
    assert abs(len(first) - len(second)) < 6
    assert title.get_window_extent().width <= panel.get_window_extent().width


def test_a_second_axis_with_a_long_label_leaves_its_panel_as_wide_as_it_is():
    figure, [panel] = panels(1, 1)
    top = panel.secondary_xaxis("top")
    top.set_xlabel("high frequency, wavelength in positions, low frequency")
    top.set_xticks(np.linspace(0, 1, 8), [f"{10**n:,}" for n in range(8)])
    narrow(figure)
    widths = []
    for _ in range(2):
        figure.draw_without_rendering()
        widths.append(panel.get_window_extent().width)
    assert widths[1] == pytest.approx(widths[0], abs=1)
    assert widths[1] > 0.75 * figure.bbox.width
    shown = boxes(top.get_xticklabels())
    assert all(b.x0 - a.x1 >= 3 for a, b in itertools.pairwise(shown))


def test_numbers_that_meet_under_a_panel_are_thinned():
    figure, [panel] = panels(1, 1)
    panel.set(xlim=(0, 24), xticks=range(0, 25, 2), xticklabels=[f"{n},000" for n in range(0, 25, 2)])
    narrow(figure)
    shown = boxes(panel.get_xticklabels())
    assert 3 < len(shown) < 13
    assert all(b.x0 - a.x1 >= 3 for a, b in itertools.pairwise(shown))


def test_of_two_numbers_that_meet_the_last_stays():
    figure, [panel] = panels(1, 1)
    panel.set(xlim=(0, 500), xticks=[0, 12])
    narrow(figure)
    assert [label.get_text() for label in panel.get_xticklabels()] == ["", "12"]


@pytest.mark.parametrize("top", [False, True])
def test_words_that_meet_are_turned_and_all_stay(top):
    words = ["unique", "continuous", "open-ended", "relative", "equal steps", "one size"]
    figure, [panel] = panels(1, 1)
    panel.set_xticks(range(6), words)
    panel.tick_params(top=top, labeltop=top, bottom=not top, labelbottom=not top)
    narrow(figure)
    labels = [label for label in panel.get_xticklabels() if label.get_text()]
    assert [label.get_text() for label in labels] == words
    for tick, label in enumerate(labels):
        near = panel.transData.transform((tick, 0))[0]
        box = label.get_window_extent()
        assert abs((box.x0 if top else box.x1) - near) < 8


def test_a_scale_of_colors_goes_below_its_panels():
    figure, axes = panels(2, 1)
    images = [panel.imshow(CELLS) for panel in axes]
    figure.colorbar(images[0], ax=axes, label="height", ticks=[0, 5, 15])
    narrow(figure)
    [scale] = [each for each in figure.axes if each not in axes]
    assert scale.get_xlabel() == "height"
    assert [label.get_text() for label in scale.get_xticklabels()] == ["0", "5", "15"]
    assert scale.get_window_extent().y1 < min(panel.get_window_extent().y0 for panel in axes)
    assert min(panel.get_window_extent().width for panel in axes) > 0.75 * figure.bbox.width


@pytest.mark.parametrize("where", ["beside", "outside", "within"])
def test_a_legend_that_takes_the_room_goes_above_the_panel(where):
    figure, [panel] = panels(1, 1)
    for n in range(3):
        panel.plot([0, 1], [0, n], label=f"the curve that has the number {n}" if where == "within" else f"curve {n}")
    if where == "outside":
        figure.legend(loc="outside right upper")
    else:
        panel.legend(**{"beside": {"loc": "upper left", "bbox_to_anchor": (1, 1)}, "within": {"ncols": 2}}[where])
    narrow(figure)
    [legend] = figure.legends
    assert panel.get_legend() is None
    assert len(legend.get_texts()) == 3
    box = legend.get_window_extent()
    assert box.y0 >= panel.get_window_extent().y1
    assert box.width <= figure.bbox.width
    assert panel.get_window_extent().width > 0.75 * figure.bbox.width


def test_a_small_legend_stays_in_its_panel():
    figure, [panel] = panels(1, 1)
    panel.plot([0, 1], label="one")
    panel.legend()
    narrow(figure)
    assert panel.get_legend()
    assert figure.legends == []


@pytest.mark.parametrize("inverted", [False, True])
def test_long_names_of_bars_stand_above_them(inverted):
    figure, [panel] = panels(1, 1, height=0.9)
    bars = panel.barh(LONG, [1, 2, 3])
    panel.axvline(1.5)
    if inverted:
        panel.invert_yaxis()
    narrow(figure)
    assert panel.get_window_extent().width > 0.75 * figure.bbox.width
    names = {text.get_text(): text.get_window_extent() for text in panel.texts}
    assert [*names] == [*LONG]
    for name, bar in zip(LONG, bars, strict=True):
        assert names[name].y0 >= bar.get_window_extent().y1 - 1
        assert not any(overlap(names[name], other.get_window_extent()) for other in bars)
    assert list(panel.lines) == []
    [cut] = panel.collections
    segments = [panel.transData.transform(segment) for segment in cut.get_segments()]
    assert len(segments) == 3
    for name in names.values():
        assert not any(low < name.y1 - 2 and high > name.y0 + 2 for low, high in (sorted(s[:, 1]) for s in segments))


def test_short_names_of_bars_stay_beside_them():
    figure, [panel] = panels(1, 1)
    panel.barh(["PI", "NTK", "YaRN"], [1, 2, 3])
    narrow(figure)
    assert [label.get_text() for label in panel.get_yticklabels()] == ["PI", "NTK", "YaRN"]
    assert list(panel.texts) == []


@pytest.mark.parametrize("kind", ["text", "annotation"])
def test_names_at_the_ends_of_curves_are_moved_apart(kind):
    figure, [panel] = panels(1, 1)
    ends = {"RoPE": 5.0, "learned": 5.02, "sinusoidal": 4.98, "ALiBi": 2.0}
    for name, end in ends.items():
        panel.plot([0, 1], [1, end])
        if kind == "text":
            panel.text(1.02, end, name, va="center")
        else:
            panel.annotate(name, (1, end), (4, 0), textcoords="offset points", va="center")
    narrow(figure)
    figure.draw_without_rendering()
    texts = sorted(panel.texts, key=lambda text: text.get_window_extent().y0)
    assert [text.get_text() for text in texts] == sorted(ends, key=lambda name: ends[name])
    stand = [text.get_window_extent() for text in texts]
    assert not any(overlap(a, b) for a, b in itertools.pairwise(stand))
    if kind == "text":
        assert stand[0].x0 - panel.transData.transform((1.02, 0))[0] == pytest.approx(3, abs=1.5)  # off its curve
    # One that met no other is at its height, and the others are around their ends.
    heights = [panel.transData.inverted().transform(box.get_points()).mean(axis=0)[1] for box in stand]
    assert heights[0] == pytest.approx(2, abs=0.1)
    assert np.mean(heights[1:]) == pytest.approx(5, abs=0.1)


def narrow_of(project, code, options):
    """Return the figures of a page of one block, and their narrow forms."""
    [step] = project.run_page("# Page\n\n" + block(code, options)).steps
    return step["figures"], step["narrow"]


def test_a_narrow_figure_is_as_wide_as_a_phone_whatever_it_shows(project):
    svgs = [svg for [svg] in narrow_of(project, SLIM, "")]
    wide, slim = (float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1]) for svg in svgs)
    assert wide < 150
    assert slim == pytest.approx(72 * WIDTH, abs=1)


def test_an_option_changes_the_narrow_figure_alone(project):
    [wide], [slim] = narrow_of(project, CURVES, "narrow=\"axes[1].set_title('on a phone')\"")
    assert "on a phone" in slim
    assert "on a phone" not in wide


def test_an_option_gives_a_drawing_of_fewer_columns(project):
    [wide], [slim] = narrow_of(project, SHAPE, 'narrow="Drawing(3)"')
    assert 'viewBox="0 0 7 9"' in wide
    assert 'viewBox="0 0 3 9"' in slim
    # Both stand on one page, and share no name.
    names = [re.findall(r"url\(#([^)]+)", svg) for svg in (wide, slim)]
    assert names[0]
    assert names[0] != names[1]


def test_a_figure_that_fits_has_no_narrow_form(project):
    assert narrow_of(project, CURVES.replace("(7, 2)", "(4.5, 2)"), "")[1] == [""]
