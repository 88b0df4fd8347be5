"""Examine a rotation of several axes: the rows and columns of a picture, or time, height and width."""

import torch

from posenc.diagnosis.calling.call import AXES
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, ok, wrong
from posenc.diagnosis.rotations.read import Case, read

NAMES = {2: ("the first axis", "the second axis"), 3: ("the first axis", "the second axis", "the third axis")}


def grid(case: Case) -> Finding | None:
    """Say which pairs turn along rows of a grid and which from row to row."""
    reading = case.reading
    if not reading.columns:
        return None
    along, down = (int((theta.abs() > 1e-6).sum()) for theta in (reading.theta, reading.down))
    if not along or not down:
        lost = "columns" if not along else "rows"
        words = f"no pair sees {lost}: tokens of one {'row' if not along else 'column'} all turn alike"
        return wrong("axis-lost", f"{words}. Give each axis pairs of its own", 0)
    return ok(f"rows of {reading.columns}: {along} pairs turn along a row, {down} from row to row", along)


def each_axis(case: Case) -> Finding | None:
    """Move along one axis at a time: each has pairs of its own."""
    axes = AXES.get(case.code.way.form, 0)
    if not axes:
        return None
    shares = []
    for axis in range(axes):
        code = case.code.fresh()
        code.axis = axis
        moved = read(type(case.rotate)(code), reach=case.reach)
        shares.append(len(moved.pairs) if moved.layout != "none" else 0)
    for axis, share in enumerate(shares):
        if not share:
            return wrong("axis-lost", f"nothing turns along {NAMES[axes][axis]}: give each axis pairs of its own", 0)
    return ok(f"{axes} axes, of {', '.join(map(str, shares))} pairs")


def shift(case: Case) -> Finding:
    """Move queries and keys together along a row, and from row to row."""
    columns, off = case.reading.columns, 0.0
    places = case.reading.corner + torch.tensor([0, 1, columns, columns + 1])
    q, k = random(1, case.heads, 4, case.dim, seed=2), random(1, case.heads, 4, case.dim, seed=3)
    before = case.rotate(q, places) @ case.rotate(k, places, of_keys=True).mT
    for step in (1, columns) if columns > 2 else (columns,):
        if int(places.max()) + step < case.reach - (case.reach % columns != 0 and not case.reading.corner):
            moved = places + step
            after = case.rotate(q, moved) @ case.rotate(k, moved, of_keys=True).mT
            off = max(off, far(after, before))
    if off < 2e-3:
        return ok("logits see offsets only: moving queries and keys together along the grid changes nothing", off)
    return wrong("absolute", f"moving queries and keys together along the grid changes the logits by {off:.2g}", off)
