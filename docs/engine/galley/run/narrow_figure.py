"""Lay a drawn figure out anew for a phone: panels beside each other go below each other, labels that meet give way."""

import itertools
import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator
from matplotlib.transforms import Bbox

WIDTH = 3.75  # inches; at the size of a phone's column its letters are as large as those of the text
WIDEST = 4.5  # a figure that is not wider fits as it is
SMALL = 2.4  # inches, below which two panels are as wide as they were
LINE = 0.16  # inches, of a title's second line
APART = 3  # pixels between two labels at least


def is_wide(figure: Figure) -> bool:
    """Return whether a phone shows the figure too small to read."""
    return figure.get_figwidth() > WIDEST


def narrow(figure: Figure) -> None:
    """Change `figure` to the width of a phone, with as many panels beside each other as fit."""
    old_width, old_height = figure.get_size_inches()
    grid = _grid(figure)
    before = after = bands = 1
    if grid:
        before, after = grid.ncols, min(grid.ncols, _columns(grid, figure))
    if grid and after < before:
        bands = _regrid(figure, grid, after)
    wider = (WIDTH / after) / (old_width / before)  # how much wider a panel gets
    pictures = all(axes.get_aspect() != "auto" for axes in _panels(figure))
    height = old_height * bands * (wider if pictures else 1)
    figure.set_size_inches(WIDTH, height)
    figure.draw_without_rendering()
    lines = sum(_wrap(axes) for axes in figure.axes) / after
    figure.set_size_inches(WIDTH, height + LINE * lines)
    figure.draw_without_rendering()
    for axes in figure.axes:
        _thin(axes)


def _panels(figure: Figure) -> list[Axes]:
    """Return the axes of a figure without the scales of its colors."""
    return [axes for axes in figure.axes if not hasattr(axes, "_colorbar")]


def _grid(figure: Figure) -> GridSpec | None:
    """Return the grid of the panels, or None where they lie in none, or in several."""
    specs = [spec for axes in _panels(figure) if (spec := axes.get_subplotspec())]
    grids = {id(spec.get_gridspec()): spec.get_gridspec() for spec in specs}
    return next(iter(grids.values())) if len(grids) == 1 else None  # type: ignore[return-value]


def _columns(grid: GridSpec, figure: Figure) -> int:
    """Return how many panels fit beside each other: small ones and pictures two, curves one."""
    small = figure.get_figwidth() / grid.ncols < SMALL
    pictures = all(axes.images or not axes.axison for axes in _panels(figure))
    return 2 if small and (pictures or grid.ncols > 3) else 1


def _regrid(figure: Figure, grid: GridSpec, columns: int) -> int:
    """Put the panels into fewer columns, in the order in which they are read, and return how many times as high it is.

    Where the rows show different things of the same columns, a column stays together, below each other.
    """
    ratios = list(grid.get_height_ratios())
    bands = -(-grid.ncols // columns)
    scales = [axes for axes in figure.axes if hasattr(axes, "_colorbar")]
    together = grid.nrows > 1 and not scales and (len(set(ratios)) > 1 or _rows_differ(figure))
    heights = ratios * bands if together else [ratio for ratio in ratios for _ in range(bands)]
    new = figure.add_gridspec(grid.nrows * bands, columns, height_ratios=heights)
    for axes in _panels(figure):
        spec = axes.get_subplotspec()
        if spec is None:
            continue
        band, column = divmod(spec.colspan.start, columns)
        top = band * grid.nrows + spec.rowspan.start if together else spec.rowspan.start * bands + band
        high = len(spec.rowspan) if together or len(spec.rowspan) == 1 else len(spec.rowspan) * bands
        axes.set_subplotspec(new[top : top + high, column : min(column + len(spec.colspan), columns)])
        _label_outer(axes, spec.is_first_col(), column == 0)
    for axes in scales:
        _lay_down(figure, axes)
    return bands


def _rows_differ(figure: Figure) -> bool:
    """Whether each row has a label of its own at the left."""
    firsts = [axes for axes in _panels(figure) if (spec := axes.get_subplotspec()) and spec.is_first_col()]
    labels = [axes.get_ylabel() for axes in firsts]
    return all(labels) and len({*labels}) == len(labels)


def _label_outer(axes: Axes, was_first: bool, is_first: bool) -> None:
    """Let a panel that comes to stand at the left show the ticks and the label that it shared."""
    if was_first or not is_first:
        return
    siblings = [other for other in axes.get_shared_y_axes().get_siblings(axes) if other is not axes]
    if siblings and axes.axison:
        axes.tick_params(axis="y", labelleft=True)
        labels = [other.get_ylabel() for other in siblings if other.get_ylabel()]
        if not axes.get_ylabel() and labels:
            axes.set_ylabel(labels[0])


def _lay_down(figure: Figure, axes: Axes) -> None:
    """Put a scale of colors that stood beside its panels below them."""
    bar = axes._colorbar  # type: ignore[attr-defined]  Matplotlib has no other way from a scale to its colors
    parents = axes._colorbar_info["parents"]  # type: ignore[attr-defined]
    label, ticks = axes.get_ylabel(), axes.get_yticks()
    texts = [text.get_text() for text in axes.get_yticklabels()]
    limits = axes.get_ylim()
    bar.remove()
    new = figure.colorbar(bar.mappable, ax=parents, location="bottom", label=label, aspect=40)
    shown = [(tick, text) for tick, text in zip(ticks, texts, strict=True) if min(limits) <= tick <= max(limits)]
    new.set_ticks([tick for tick, _ in shown], labels=[text for _, text in shown])
    new.ax.set_xlim(limits)


def _wrap(axes: Axes) -> int:
    """Break titles and labels that are longer than their panel, and return how many lines are more."""
    room = axes.get_window_extent()
    above = [axes.title, axes._left_title, axes._right_title]  # type: ignore[attr-defined]
    lines = max(_break(text, room.width, text.get_window_extent().width) for text in above)
    lines += _break(axes.xaxis.label, room.width, axes.xaxis.label.get_window_extent().width)
    _break(axes.yaxis.label, room.height, axes.yaxis.label.get_window_extent().height)
    return lines


def _break(text: Text, room: float, length: float) -> int:
    words = text.get_text()
    if not words or length <= room or "\n" in words or "$" in words:
        return 0
    parts = textwrap.wrap(words, max(8, int(len(words) * room / length)), break_long_words=False)
    text.set_text("\n".join(parts))
    return len(parts) - 1


def _thin(axes: Axes) -> None:
    """Leave out every second label under a panel until no two meet."""
    texts = axes.get_xticklabels()
    labels = {n: label for n, label in enumerate(texts) if label.get_text() and label.get_visible()}
    kept = list(labels)
    while len(kept) > 2 and _meet([labels[n].get_window_extent() for n in kept]):
        kept = kept[::2]
    if len(kept) < len(labels):
        axes.xaxis.set_major_locator(FixedLocator(list(axes.get_xticks())))
        axes.set_xticklabels([text.get_text() if n in kept else "" for n, text in enumerate(texts)])


def _meet(boxes: list[Bbox]) -> bool:
    """Whether two neighbors lie too close to be read apart."""
    ordered = sorted(boxes, key=lambda box: box.x0)
    return any(b.x0 - a.x1 < APART for a, b in itertools.pairwise(ordered))
