"""Small drawings for social cards, each from the mathematics of an encoding, in a square from -1 to 1."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle, Wedge

BLUE, ORANGE, GREEN, VIOLET, GREY = "#3a7cc2", "#d9762b", "#2b9a74", "#9a63c9", "#b9b3a4"
DARK = "#1c3a63"


def waves(axes: Axes) -> None:
    """Draw the clocks of the sinusoidal encoding: each wave is slower than the one above it."""
    places = np.linspace(0, 24, 600)
    for row in range(5):
        y, speed = 0.8 - 0.4 * row, 1.25 * 0.47**row
        axes.plot(places / 15 - 1, y + 0.14 * np.cos(speed * places), color=BLUE, lw=3.2)
        axes.add_patch(Circle((0.85, y), 0.15, fill=False, ec=ORANGE, lw=2.4))
        turn = speed * 15.0
        axes.plot([0.85, 0.85 + 0.15 * np.sin(turn)], [y, y + 0.15 * np.cos(turn)], color=ORANGE, lw=3.6)
        axes.plot(0, y + 0.14 * np.cos(turn), "o", color=ORANGE, ms=11)
    axes.plot([0, 0], [-1, 1], color=GREY, lw=1.6)


def table(axes: Axes) -> None:
    """Draw the table of the sinusoidal encoding, a column for each position."""
    speed = 0.62 ** np.arange(10)
    values = np.cos(np.repeat(speed, 2)[:, None] * np.arange(20) - np.tile([np.pi / 2, 0], 10)[:, None])
    axes.imshow(values, cmap="RdBu_r", extent=(-1, 1, -1, 1), vmin=-1.5, vmax=1.5, interpolation="nearest")


def likeness(axes: Axes) -> None:
    """Draw how alike the rows of a learned table are: neighbors most."""
    rows = 12
    for m in range(rows):
        for n in range(rows):
            size = 0.155 * np.exp(-abs(m - n) / 3.2) + 0.012
            x, y = (2 * n + 1) / rows - 1, 1 - (2 * m + 1) / rows
            color = ORANGE if m == n else BLUE
            axes.add_patch(Rectangle((x - size / 2, y - size / 2), size, size, color=color, lw=0))


def hands(axes: Axes) -> None:
    """Draw what RoPE turns: in each pair a query's hand, a key's hand, and the wedge between them."""
    for n in range(9):
        x, y, speed = 0.7 * (n % 3 - 1), 0.7 * (1 - n // 3), 0.66**n
        query, key = np.pi / 2 - speed * 5, np.pi / 2 - speed * 2
        axes.add_patch(Circle((x, y), 0.3, fill=False, ec=GREY, lw=1.8))
        axes.add_patch(Wedge((x, y), 0.2, *np.degrees((query, key)), color=VIOLET, alpha=0.35, lw=0))
        for angle, color in ((query, BLUE), (key, ORANGE)):
            axes.plot([x, x + 0.27 * np.cos(angle)], [y, y + 0.27 * np.sin(angle)], color=color, lw=4.2)


def ramps(axes: Axes) -> None:
    """Draw the slopes of ALiBi's eight heads."""
    distance = np.linspace(0, 1, 50)
    for head in range(8):
        slope = 2.0**-head
        color = ORANGE if head == 0 else BLUE
        axes.plot(0.9 - 1.8 * distance, 0.85 - 1.75 * slope * distance, color=color, lw=3.4, alpha=1 - 0.09 * head)
    axes.plot([0.9, 0.9], [-0.9, 0.85], color=GREY, lw=1.8)
    axes.plot(0.9, 0.85, "o", color=ORANGE, ms=13)


def polar(axes: Axes) -> None:
    """Draw PoPE's keys: content is the length of an arrow, position alone its angle."""
    for radius in (0.3, 0.6, 0.9):
        axes.add_patch(Circle((0, 0), radius, fill=False, ec=GREY, lw=1.5))
    for place, length in enumerate((0.9, 0.45, 0.7, 0.3, 0.82, 0.55, 0.9, 0.38, 0.66)):
        angle = np.pi / 2 - 2 * np.pi * place / 9
        color = ORANGE if place == 0 else BLUE
        x, y = length * np.cos(angle), length * np.sin(angle)
        axes.plot([0, x], [0, y], color=color, lw=3.4)
        axes.plot(x, y, "o", color=color, ms=12)


def packed(axes: Axes) -> None:
    """Draw which keys each query of a packed row sees: those of its own text, up to itself."""
    texts, rows = np.repeat([0, 1, 2], [5, 4, 3]), 12
    for m in range(rows):
        for n in range(rows):
            seen = texts[m] == texts[n] and n <= m
            color = (ORANGE if m == n else (BLUE, GREEN, VIOLET)[texts[m]]) if seen else "#ece7dc"
            axes.add_patch(Rectangle((n / 6 - 1 + 0.012, 5 / 6 - m / 6 + 0.012), 0.142, 0.142, color=color, lw=0))


def aliases(axes: Axes) -> None:
    """Draw two waves that whole positions cannot tell apart."""
    places, x = np.linspace(0, 8, 500), np.arange(9)
    axes.plot(places / 4 - 1, 0.75 * np.cos(2 * np.pi * 0.15 * places), color=BLUE, lw=3.6)
    axes.plot(places / 4 - 1, 0.75 * np.cos(2 * np.pi * 0.85 * places), color=ORANGE, lw=2.2, alpha=0.75)
    axes.plot(x / 4 - 1, 0.75 * np.cos(2 * np.pi * 0.15 * x), "o", color=BLUE, ms=15)


def logo(axes: Axes, x: float, y: float) -> None:
    """Draw the wave and the dot of the site's logo, 40 pixels wide, on an axis that runs down."""
    along = np.linspace(0, 1, 60)
    axes.plot(x + 40 * along, y - 12 * np.sin(2 * np.pi * along), color=DARK, lw=4)
    axes.plot(x + 30, y + 12, "o", color=ORANGE, ms=11)
