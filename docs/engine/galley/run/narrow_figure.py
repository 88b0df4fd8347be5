"""Lay a drawn figure out anew for a phone: panels beside each other go below each other, legends above them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.legend import Legend

from galley.run import narrow_labels

WIDTH = 3.75  # inches; at the size of a phone's column its letters are as large as those of the text
WIDEST = 4.5  # a figure that is not wider fits as it is
SMALL = 2.4  # inches of a column, below which two panels are as wide as they were
TINY = 1.9  # inches of a panel, whatever is left of its column
MANY = 6  # panels; one below the other they would be higher than two screens
MOST_LARGER = 1.25  # how much larger a picture may become
SCALE = 0.6  # inches, of a scale of colors below its panels
MUCH = 0.6  # of a width: a legend that takes more leaves no room for curves


def is_wide(figure: Figure) -> bool:
    """Return whether a phone shows the figure too small to read."""
    return figure.get_figwidth() > WIDEST


def narrow(figure: Figure) -> None:
    """Change `figure` to the width of a phone, with as many panels beside each other as fit."""
    height, columns = _arrange(figure)
    room = MUCH * WIDTH / columns * figure.dpi
    higher = sum(narrow_labels.wrap_second(axes, room) for axes in _panels(figure))
    figure.set_size_inches(WIDTH, height)
    figure.draw_without_rendering()
    height += _legend_above(figure)
    higher += sum(narrow_labels.above_bars(figure, axes, columns) for axes in _panels(figure))
    figure.draw_without_rendering()
    higher += sum(narrow_labels.wrap(axes) for axes in figure.axes)
    figure.set_size_inches(WIDTH, height + higher / columns)
    figure.draw_without_rendering()
    for axes in [*figure.axes, *(second for first in figure.axes for second in first.child_axes)]:
        narrow_labels.thin(axes)
        narrow_labels.spread(axes)


def _arrange(figure: Figure) -> tuple[float, int]:
    """Put the panels into as many columns as fit; return the height that the figure needs, and the columns."""
    figure.draw_without_rendering()
    height = figure.get_figheight()
    pictures = all(axes.get_aspect() != "auto" for axes in _panels(figure))
    # Pictures keep their shape, so that they are as much higher as they are wider.
    widest = max(box.width for axes in _panels(figure) if (box := axes.get_tightbbox())) / figure.dpi
    grid = _grid(figure)
    columns = _columns(grid, figure) if grid else 1
    if grid and columns < grid.ncols:
        height *= _regrid(figure, grid, columns)
    if pictures:
        height *= min(WIDTH / columns / widest, MOST_LARGER)
    for axes in _scales(figure):
        _lay_down(figure, axes)
        height += SCALE
    return height, columns


def _panels(figure: Figure) -> list[Axes]:
    """Return the axes of a figure without the scales of its colors."""
    return [axes for axes in figure.axes if not hasattr(axes, "_colorbar")]


def _scales(figure: Figure) -> list[Axes]:
    """Return the scales of colors that took their room from panels beside them."""
    beside = [axes for axes in figure.axes if hasattr(axes, "_colorbar_info")]
    return [axes for axes in beside if axes._colorbar.orientation == "vertical"]  # type: ignore[attr-defined]


def _grid(figure: Figure) -> GridSpec | None:
    """Return the grid of the panels, or None where they lie in none, or in several."""
    specs = [spec for axes in _panels(figure) if (spec := axes.get_subplotspec())]
    grids = {id(spec.get_gridspec()): spec.get_gridspec() for spec in specs}
    return next(iter(grids.values())) if len(grids) == 1 else None  # type: ignore[return-value]


def _columns(grid: GridSpec, figure: Figure) -> int:
    """Return how many panels fit beside each other: small ones two if they are pictures or many, else one."""
    panels = _panels(figure)
    widest = max(axes.get_window_extent().width for axes in panels) / figure.dpi
    small = figure.get_figwidth() / grid.ncols < SMALL or widest < TINY
    pictures = all(axes.images or not axes.axison for axes in panels)
    return min(grid.ncols, 2 if small and (pictures or grid.ncols > 3 or len(panels) > MANY) else 1)


def _regrid(figure: Figure, grid: GridSpec, columns: int) -> float:
    """Put the panels into fewer columns, in the order in which they are read; return how many times as high it is."""
    bands = -(-grid.ncols // columns)
    ratios = np.atleast_1d(grid.get_height_ratios()).tolist()
    if len(_panels(figure)) > MANY and not _rows_differ(figure, ratios):
        return _flow(figure, grid, columns)
    together = _rows_differ(figure, ratios)
    heights = ratios * bands if together else [ratio for ratio in ratios for _ in range(bands)]
    new = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for axes in _panels(figure):
        if not (spec := axes.get_subplotspec()):
            continue
        band, column = divmod(spec.colspan.start, columns)
        top = band * grid.nrows + spec.rowspan.start if together else spec.rowspan.start * bands + band
        high = len(spec.rowspan) if together or len(spec.rowspan) == 1 else len(spec.rowspan) * bands
        axes.set_subplotspec(new[top : top + high, column : min(column + len(spec.colspan), columns)])
        _label_outer(axes, spec.is_first_col(), column == 0)
    return bands


def _flow(figure: Figure, grid: GridSpec, columns: int) -> float:
    """Put many panels one after the other, whatever row they stood in."""
    panels = [(axes, spec) for axes in _panels(figure) if (spec := axes.get_subplotspec())]
    new = figure.add_gridspec(-(-len(panels) // columns), columns)
    for n, (axes, spec) in enumerate(panels):
        axes.set_subplotspec(new[divmod(n, columns)])
        _label_outer(axes, spec.is_first_col(), n % columns == 0)
    return new.nrows / grid.nrows


def _rows_differ(figure: Figure, ratios: list[float]) -> bool:
    """Whether rows show different things of the same columns, so that a column stays together, below each other."""
    if len(ratios) == 1 or any(hasattr(axes, "_colorbar") for axes in figure.axes):
        return False
    firsts = [axes for axes in _panels(figure) if (spec := axes.get_subplotspec()) and spec.is_first_col()]
    labels = [axes.get_ylabel() for axes in firsts]
    return len(set(ratios)) > 1 or (all(labels) and len({*labels}) == len(labels))


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


def _legend_above(figure: Figure) -> float:
    """Put the legend above the panels where it stands beside them, or covers much of its own; return its height."""
    legends = [*figure.legends, *(legend for axes in figure.axes if (legend := axes.get_legend()))]
    if len(legends) != 1 or not _is_in_the_way(figure, legends[0]):
        return 0
    old = legends[0]
    names = [text.get_text() for text in old.get_texts()]
    lines = [line for line in old.legend_handles if line]
    old.remove()
    for columns in range(len(names), 0, -1):
        new = figure.legend(lines, names, loc="outside upper left", ncols=columns, columnspacing=1.2)
        box = new.get_window_extent()
        if columns == 1 or box.width < figure.bbox.width:
            return box.height / figure.dpi
        new.remove()
    return 0


def _is_in_the_way(figure: Figure, legend: Legend) -> bool:
    """Whether a legend stands beside the panels, or is nearly as wide as the one that it lies in."""
    box, axes = legend.get_window_extent(), legend.axes
    rooms = [axes.get_window_extent()] if axes else [each.get_window_extent() for each in _panels(figure)]
    return box.width > MUCH * rooms[0].width or all(box.x0 >= room.x1 for room in rooms)
