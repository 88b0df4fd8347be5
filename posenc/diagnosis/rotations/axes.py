"""Examine a rotation of several axes: the rows and columns of a picture, or time, height and width."""

import torch

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.calling.call import AXES
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, ok, wrong
from posenc.diagnosis.rotations.pairs import angles_of, pairs_of
from posenc.diagnosis.rotations.read import ROWS, Case, Rotation, matrices_of, read, steps_of

NAMES = {2: ("the first axis", "the second axis"), 3: ("the first axis", "the second axis", "the third axis")}


def grid(case: Case) -> Finding | None:
    """Say which pairs turn along rows of a grid and which from row to row."""
    reading = case.reading
    told = case.reach // ROWS if case.code.way.exact and case.code.takes("rows", "columns") else 0
    if told and reading.columns not in (0, told):
        words = f"asked for rows of {told} tokens, it turns as if they were of {reading.columns}"
        return wrong("axes-swapped", f"{words}: rows are taken for columns", reading.columns)
    if told and not reading.columns and (halves := _of_halves(case, told)):
        return halves
    if not reading.columns:
        return None
    along, down = (int((theta.abs() > 1e-6).sum()) for theta in (reading.theta, reading.down))
    if not along or not down:
        lost = "columns" if not along else "rows"
        words = f"no pair sees {lost}: tokens of one {'row' if not along else 'column'} all turn alike"
        return wrong("axis-lost", f"{words}. Give each axis pairs of its own", 0)
    return ok(f"rows of {reading.columns}: {along} pairs turn along a row, {down} from row to row", along)


def _of_halves(case: Case, columns: int) -> Finding | None:
    """See whether pairs that fit no grid together count along rows of different lengths."""
    places = torch.arange(case.reach)
    y = matrices_of(case.rotate, places, False, torch.float32)
    pairs, _ = pairs_of(y)
    if not pairs:
        return None
    each = angles_of(y, pairs).T[..., None]
    fits = {n: sum(steps_of(angle, n) is not None for angle in each) for n in (columns, ROWS)}
    if not 0 < fits[columns] < len(pairs):
        return None
    words = f"asked for rows of {columns} tokens, {fits[columns]} of {len(pairs)} pairs count along these"
    words += f" and {fits[ROWS]} along rows of {ROWS}, the number of rows: divide by the number of columns in both"
    return wrong("axes-swapped", words, fits[columns])


def _along_axes(case: Case) -> str:
    """Return the form of positions with a number for each axis, which code may take besides one for all; or ""."""
    if case.code.way.form in AXES or case.rotate.told_by != "positions" or case.given_angles:
        return case.code.way.form if case.code.way.form in AXES else ""
    code = case.code.fresh()
    code.way = code.way._replace(form="3bt")
    x, places = random(2, case.heads, 6, case.dim, seed=19), torch.arange(6)
    y, failed = attempt(Rotation(code), x, places)
    return "" if failed or far(y, case.rotate(x, places)) > 1e-4 else "3bt"


def each_axis(case: Case) -> Finding | None:
    """Move along one axis at a time: each has pairs of its own."""
    form = _along_axes(case)
    axes = AXES.get(form, 0)
    if not axes:
        return None
    shares = []
    for axis in range(axes):
        code = case.code.fresh()
        code.axis, code.way = axis, code.way._replace(form=form)
        moved = read(Rotation(code), reach=case.reach)
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
        moved = places + step
        if int(moved.max()) < case.reach:  # of two rows, none can be moved to the next
            after = case.rotate(q, moved) @ case.rotate(k, moved, of_keys=True).mT
            off = max(off, far(after, before))
    if off < 2e-3:
        return ok("logits see offsets only: moving queries and keys together along the grid changes nothing", off)
    return wrong("absolute", f"moving queries and keys together along the grid changes the logits by {off:.2g}", off)
