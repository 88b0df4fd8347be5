"""Make the labels of a figure fit on a phone: wrap them, thin or turn them, move them apart, or put them above bars."""

import itertools
import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

LINE = 0.16  # inches, of a title's second line
ROW = 0.33  # inches, of a bar with its label above it
MOST_ROWS = 12  # with labels above them; more would be higher than a screen
APART = 3  # pixels between two labels at least
TURNED = 50  # degrees, of labels that are words and do not fit beside each other
ROUNDS = 40  # of pushing labels apart, each by half of what they overlap


def wrap(axes: Axes) -> float:
    """Break titles and labels that are longer than their panel, and return how many inches they are higher."""
    room = axes.get_window_extent()
    above = [axes.title, axes._left_title, axes._right_title]  # type: ignore[attr-defined]
    lines = max(_break(text, room.width, text.get_window_extent().width) for text in above)
    lines += _break(axes.xaxis.label, room.width, axes.xaxis.label.get_window_extent().width)
    _break(axes.yaxis.label, room.height, axes.yaxis.label.get_window_extent().height)
    return LINE * lines


def wrap_second(axes: Axes, room: float) -> float:
    """Break the labels of second axes above a panel; a long one would push the panel together, more at each drawing."""
    labels = [child.xaxis.label for child in axes.child_axes]
    return LINE * sum(_break(label, room, label.get_window_extent().width) for label in labels)


def _break(text: Text, room: float, length: float) -> int:
    """Break a text into as few lines as fit, all about as long, and return how many lines are more."""
    words = text.get_text()
    if not words or length <= room or "\n" in words or "$" in words:
        return 0
    most = max(8, int(len(words) * room / length))
    broken = [textwrap.wrap(words, width, break_long_words=False) for width in range(8, most + 1)]
    parts = next(parts for parts in broken if len(parts) == len(broken[-1]))
    text.set_text("\n".join(parts))
    return len(parts) - 1


def above_bars(figure: Figure, axes: Axes, columns: int) -> float:
    """Put labels that take more than half of a column above their bars; return how many inches the panel is higher."""
    ticks = np.asarray(axes.get_yticks(), float)
    labels = [(tick, label) for tick, label in zip(ticks, axes.get_yticklabels(), strict=False) if label.get_text()]
    wide = max((label.get_window_extent().width for _, label in labels), default=0)
    if wide < figure.bbox.width / columns / 2 or not 1 < len(labels) <= MOST_ROWS:
        return 0
    up = -1 if axes.yaxis_inverted() else 1
    _halve(axes, ticks)
    for tick, label in labels:
        look = {"fontsize": label.get_fontsize(), "color": label.get_color()}
        axes.text(0.01, tick + 0.22 * up, label.get_text(), va="bottom", transform=axes.get_yaxis_transform(), **look)
    axes.tick_params(axis="y", left=False, labelleft=False)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * up)
    return max(0, ROW * len(labels) - axes.get_window_extent().height / figure.dpi)


def _halve(axes: Axes, ticks: np.ndarray) -> None:
    """Make bars half as high, and cut lines that go from bar to bar, so that neither meets a label above a bar."""
    for bar in itertools.chain.from_iterable(axes.containers):
        if isinstance(bar, Rectangle):
            tick = ticks[np.abs(ticks - bar.get_y() - bar.get_height() / 2).argmin()]
            bar.set(y=tick + (bar.get_y() - tick) / 2, height=bar.get_height() / 2)
    for line in list(axes.lines):
        if line.get_transform() == axes.get_xaxis_transform():
            look = {"color": line.get_color(), "linestyle": line.get_linestyle(), "linewidth": line.get_linewidth()}
            axes.vlines(np.full(len(ticks), np.asarray(line.get_xdata())[0]), ticks - 0.25, ticks + 0.25, **look)
            line.remove()


def thin(axes: Axes) -> None:
    """Turn words under a panel that meet; of numbers leave out every second until no two meet."""
    texts = axes.get_xticklabels()
    labels = {n: label for n, label in enumerate(texts) if label.get_text() and label.get_visible()}
    kept = list(labels)
    if _meet(list(labels.values())) and not any(letter.isdigit() for n in kept for letter in labels[n].get_text()):
        _turn(list(labels.values()))
        return
    while _meet([labels[n] for n in kept]):
        kept = kept[::2] if len(kept) > 2 else kept[1:]
    if len(kept) < len(labels):
        axes.xaxis.set_major_locator(FixedLocator(list(axes.get_xticks())))
        axes.set_xticklabels([text.get_text() if n in kept else "" for n, text in enumerate(texts)])


def _turn(labels: list[Text]) -> None:
    """Let labels stand aslant, each with its end at its tick: below a panel the last letter, above it the first."""
    for label in labels:
        above = label.get_verticalalignment() == "bottom"
        label.set(rotation=TURNED, rotation_mode="anchor", ha="left" if above else "right", va="center_baseline")


def _meet(labels: list[Text]) -> bool:
    """Whether two neighbors lie too close to be read apart."""
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
    return any(b.x0 - a.x1 < APART for a, b in itertools.pairwise(boxes))


def spread(axes: Axes) -> None:
    """Move labels apart that stand in a column and overlap, as those at the right ends of curves do."""
    columns: dict[int, list[Text]] = {}
    for text in axes.texts:
        if text.get_horizontalalignment() == "left" and text.get_text():
            columns.setdefault(round(text.get_window_extent().x0), []).append(text)
    for column in columns.values():
        for text in column if len(column) > 1 else []:
            _move(text, APART, 0)  # off the curves, which have come nearer
        for _ in range(ROUNDS):
            column.sort(key=lambda text: text.get_window_extent().y0)
            for low, high in itertools.pairwise(column):
                overlap = low.get_window_extent().y1 + APART - high.get_window_extent().y0
                if overlap > 0:
                    _move(low, 0, -overlap / 2)
                    _move(high, 0, overlap / 2)


def _move(text: Text, right: float, up: float) -> None:
    """Move a text by pixels, whatever its place is measured in."""
    place = text.get_transform()
    x, y = place.transform(text.get_position())
    x, y = place.inverted().transform((x + right, y + up))
    text.set_position((x, y))
