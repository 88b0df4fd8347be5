"""What the book's figures share: heat maps in two color maps, panels without a frame, ticks as plain numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike


def heat(axes: Axes, matrix: ArrayLike, top: float | None = None, **options: Any) -> AxesImage:
    """Draw `matrix` (rows, columns) as an image: from -top to top in red and blue, else from 0 as magnitudes.

    Returns:
        The image, for a color bar.
    """
    scale: dict[str, Any] = {"vmin": 0} if top is None else {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
    return axes.imshow(np.asarray(matrix, float), **scale | options)


def bare(*panels: Axes) -> None:
    """Take ticks and frame from panels that speak for themselves."""
    for axes in panels:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)


def ticks(axis: Axis, numbers: Iterable[float]) -> None:
    """Put ticks at `numbers`, each written as it is said: 10,000 and 0.01, not powers.

    Examples:
        >>> import matplotlib.pyplot as plt
        >>> _, axes = plt.subplots()
        >>> ticks(axes.xaxis, (0.01, 1, 10_000))
        >>> [label.get_text() for label in axes.get_xticklabels()]
        ['0.01', '1', '10,000']
    """
    numbers = list(numbers)
    axis.set_ticks(numbers, [f"{number:,}" for number in numbers])
    axis.set_ticks([], minor=True)
