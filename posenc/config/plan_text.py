"""The plan as printed: a row for each group of equal layers, and the warnings."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # it prints what these are, and they import it
    from posenc.config.layer import Layer, Plan

Row = tuple[str, ...]

COLUMNS = (
    "layers",
    "layer_type",
    "encoding",
    "base",
    "rotating",
    "layout",
    "window",
    "attention_factor",
    "scale",
    "queries",
    "max_wavelength",
    "rotations",
    "incomplete",
)


def table(plan: "Plan", name: str = "") -> str:
    """Return a plan as text: layers that are alike share a row.

    `rotating` are the channels that rotate, `attention_factor` multiplies them, `scale` is the
    softmax's times the root of the head's width, and `queries` names what else multiplies queries.
    `max_wavelength` is the longest wavelength in positions, `rotations` how many that pair
    completes within the window or the trained length, `incomplete` the share of pairs that complete
    none. Columns without a cell are left out.
    """
    title = f"{name}: {plan.model_type}" if name else plan.model_type
    if plan.trained:
        title += f", trained on {plan.trained:,} positions"
    lines = [title]
    if plan.added is not None:
        rows = f", {plan.added.length:,} rows" if hasattr(plan.added, "length") else ""
        lines.append(f"  added to the embeddings: {type(plan.added).__name__}{rows}")
    if plan.layers:
        lines += _aligned([COLUMNS, *_rows(plan)])
    for part_name, part in plan.parts.items():
        lines += ["", table(part, part_name)]
    lines += [f"! {warning}" for warning in plan.warnings]
    return "\n".join(lines)


def _aligned(rows: Sequence[Row]) -> list[str]:
    """Return a line for each row, without the columns that are empty but for their title."""
    # the first row are the titles
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def _rows(plan: "Plan") -> list[Row]:
    """Return a row for each group of layers with the same cells, by their first layer."""
    indices: dict[Row, list[int]] = {}
    for layer in plan.layers:
        indices.setdefault(_cells(layer, plan.trained), []).append(layer.index)
    # in the order of the model: by the first layer of each group
    groups = sorted(indices.items(), key=lambda group: group[1])
    return [(ranges(members), *cells) for cells, members in groups]


def ranges(indices: Sequence[int]) -> str:
    """Return numbers as steps and ranges.

    Examples:
        >>> ranges([0, 1, 2, 4]), ranges([5, 11, 17, 23])
        ('0-2 4', '5 11 … 23')
    """
    steps = {after - before for before, after in pairwise(indices)}
    if len(indices) > 3 and len(steps) == 1 and steps != {1}:
        return f"{indices[0]} {indices[1]} … {indices[-1]}"
    # consecutive numbers have one difference to their indices in the list
    runs = groupby(enumerate(indices), lambda item: item[1] - item[0])
    members = [[index for _, index in run] for _, run in runs]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in members)


def _cells(layer: "Layer", trained: int | None) -> Row:
    """Return the cells of a layer, which do not depend on its number."""
    name = "none" if layer.encoding is None else type(layer.encoding).__name__
    if layer.sections:
        name += f" {list(layer.sections)}"
    window = f"{layer.window:,}" if layer.window else "all"
    scales = _scales(layer)
    # a bias, or nothing: what a rotation has stays empty
    if layer.theta is None:
        return layer.layer_type, name, "", "", "", window, "", *scales, "", "", ""
    rotating = f"{2 * np.count_nonzero(layer.theta)} of {layer.head_dim}"
    if layer.slice.start:
        rotating += f", from {layer.slice.start}"
    return (
        layer.layer_type,
        name,
        f"{layer.base:,.0f}",
        rotating,
        layer.layout or "",
        window,
        f"{layer.attention_factor:.4g}",
        *scales,
        *_waves(layer.theta, trained, layer.window),
    )


def _scales(layer: "Layer") -> tuple[str, str]:
    """Return what the softmax is multiplied by beside 1/sqrt(d), and what queries are, if any."""
    relative = layer.softmax_scale * layer.head_dim**0.5
    softmax = "" if abs(relative - 1) < 1e-9 else f"{relative:.4g}"
    scale = layer.query_scale
    if scale is None:
        return softmax, ""
    # a factor for each head, which no configuration has
    if scale.kind == "head":
        return softmax, "head, learned"
    return softmax, f"{scale.kind}, {scale.original_length:,}"


def _waves(theta: np.ndarray, trained: int | None, window: int | None) -> tuple[str, str, str]:
    """Return the longest wavelength, its rotations within the window, and the share below one."""
    # a pair of frequency 0 has no wavelength, and counts as incomplete
    wavelengths = 2 * np.pi / np.abs(theta[theta != 0])
    longest = f"{wavelengths.max():,.0f}"
    reach = min(filter(None, (trained, window)), default=None)
    if not reach:
        return longest, "", ""
    incomplete = 1 - (wavelengths <= reach).sum() / len(theta)
    return longest, f"{reach / wavelengths.max():.2f}", f"{incomplete:.0%}"
