"""The printed plan: a row for each group of like layers, what follows from it, and the warnings."""

from itertools import groupby, pairwise
from typing import Any

import numpy as np

HEAD = (
    "layers",
    "kind",
    "encoding",
    "base",
    "turning",
    "layout",
    "window",
    "factor",
    "scale",
    "queries",
    "slowest",
    "turns",
    "still",
)


def table(plan: Any, name: str = "") -> str:
    """Return a plan as text: layers that are alike share a row.

    `factor` multiplies queries and keys that turn, `scale` is the softmax's times the root of the
    head's width, and `queries` names what else lengthens queries. `slowest` is the longest wave in
    positions, `turns` how often that pair turns within the window or the trained length, `still`
    the share of pairs that never turn once within it. Columns that say nothing are left out.
    """
    title = f"{name}: {plan.model_type}" if name else plan.model_type
    lines = [title + (f", trained on {plan.trained:,} positions" if plan.trained else "")]
    if plan.added is not None:
        rows = f", {plan.added.length:,} rows" if hasattr(plan.added, "length") else ""
        lines.append(f"  added to the embeddings: {type(plan.added).__name__}{rows}")
    if plan.layers:
        lines += _columns([HEAD, *_rows(plan)])
    for part_name, part in plan.parts.items():
        lines += ["", table(part, part_name)]
    lines += [f"! {warning}" for warning in plan.warnings]
    return "\n".join(lines)


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    padded = (zip(row, widths, strict=True) for row in zip(*columns, strict=True))
    return ["  " + "  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in padded]


def _rows(plan: Any) -> list[tuple[str, ...]]:
    ordered = sorted(plan.layers, key=lambda layer: (_shown(layer, plan.trained), layer.index))
    groups = [
        (shown, [layer.index for layer in group])
        for shown, group in groupby(ordered, lambda layer: _shown(layer, plan.trained))
    ]
    return [
        (ranges(indices), *shown) for shown, indices in sorted(groups, key=lambda group: group[1])
    ]


def ranges(indices: list[int]) -> str:
    """Return numbers as steps and ranges.

    Examples:
        >>> ranges([0, 1, 2, 4]), ranges([5, 11, 17, 23])
        ('0-2 4', '5 11 … 23')
    """
    steps = {b - a for a, b in pairwise(indices)}
    if len(indices) > 3 and len(steps) == 1 and steps != {1}:
        return f"{indices[0]} {indices[1]} … {indices[-1]}"
    runs = groupby(enumerate(indices), lambda item: item[1] - item[0])
    bounds = [[index for _, index in run] for _, run in runs]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in bounds)


def _shown(layer: Any, trained: int | None) -> tuple[str, ...]:
    """Return the cells of a layer, which do not depend on its number."""
    name = "none" if layer.encoding is None else type(layer.encoding).__name__
    name += f" {list(layer.sections)}" if layer.sections else ""
    window = f"{layer.window:,}" if layer.window else "all"
    scales = _scales(layer)
    if layer.theta is None:
        return layer.kind, name, "", "", "", window, "", *scales, "", "", ""
    where = f"{2 * np.count_nonzero(layer.theta)} of {layer.head_dim}"
    where += f", from {layer.slice.start}" if layer.slice.start else ""
    base, factor = f"{layer.base:,.0f}", f"{layer.factor:.4g}"
    return (
        layer.kind,
        name,
        base,
        where,
        layer.layout,
        window,
        factor,
        *scales,
        *_waves(layer, trained),
    )


def _scales(layer: Any) -> tuple[str, str]:
    """Return what the softmax is multiplied by beside 1/sqrt(d), and what queries are, if any."""
    softmax, queries = layer.softmax_scale * layer.head_dim**0.5, layer.query_scale
    scale = "" if abs(softmax - 1) < 1e-9 else f"{softmax:.4g}"
    if queries is None or queries.kind == "head":
        return scale, "" if queries is None else "head, learned"
    return scale, f"{queries.kind}, {queries.original_length:,}"


def _waves(layer: Any, trained: int | None) -> tuple[str, str, str]:
    """Return the slowest wave, its turns within what the layer sees, and the share below one."""
    waves = 2 * np.pi / np.abs(layer.theta[layer.theta != 0])
    seen = min(filter(None, (trained, layer.window)), default=None)
    if not seen:
        return f"{waves.max():,.0f}", "", ""
    still = 1 - (waves <= seen).sum() / len(layer.theta)
    return f"{waves.max():,.0f}", f"{seen / waves.max():.2f}", f"{still:.0%}"
