"""Examine a rotation of several axes: the rows and columns of a picture, or time, height and width."""

import torch

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import POSITION_AXES
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, passed, wrong
from posenc.doctor.rotation.measure_angles import ROWS, SLIGHT, Case, Rotation, matrices_of, read
from posenc.doctor.rotation.pairs import angles_of, rows_of


def grid(case: Case) -> Finding | None:
    """Say which pairs turn along rows of a grid and which from row to row."""
    reading = case.reading
    told = case.code.call.tokens // ROWS if case.code.takes("rows", "columns") else 0
    if told and (swapped := _swapped(case, told)):
        return swapped
    if not reading.columns:
        return None
    along, down = (int(theta.round(decimals=6).count_nonzero()) for theta in (reading.theta, reading.down))
    words = f"rows of {reading.columns}: {along} pairs turn along a row, {down} from row to row"
    return passed(words, along) if along and down else wrong("axis-lost", f"{words}. Give each axis pairs of its own")


def _swapped(case: Case, columns: int) -> Finding | None:
    """See how many pairs count along rows as long as there are rows."""
    pairs = case.reading.pairs
    angle = angles_of(matrices_of(case.rotate, torch.arange(case.reach)), pairs)
    lengths = [found.columns for of_pair in angle.T if (found := rows_of(of_pair[:, None]))]
    if ROWS not in lengths or columns == ROWS:
        return None
    count = lengths.count(ROWS)
    words = f"asked for {ROWS} rows of {columns} tokens, {count} of {len(pairs)} pairs count along rows of {ROWS}"
    return wrong("axes-swapped", f"{words}: rows are taken for columns. Divide by the number of columns", count)


def _along(case: Case, form: str, axis: int | None = None) -> Rotation:
    """Return the rotation by positions of several numbers: as one axis moves alone, or all alike."""
    code = case.code.fresh()
    code.axis, code.call = axis, code.call._replace(positions_form=form)
    return Rotation(code)


def each_axis(case: Case) -> Finding | None:
    """Move along one axis at a time: each has pairs of its own."""
    if case.rotate.told_by != "positions" or case.given_angles:
        return None
    form = case.code.call.positions_form if case.code.call.positions_form in POSITION_AXES else "3bt"
    x, places = random(2, case.heads, 6, case.dim, seed=19), torch.arange(6)
    y, failed = attempt(_along(case, form), x, places)
    if failed or relative_difference(y, case.rotate(x, places)) > SLIGHT:  # it takes one number, or counts all into one
        return None
    shares = [len(read(_along(case, form, axis), case.reach).pairs) for axis in range(POSITION_AXES[form])]
    words = f"along {len(shares)} axes {', '.join(map(str, shares))} pairs turn"
    return passed(words) if all(shares) else wrong("axis-lost", f"{words}: give each axis pairs of its own")


def shift(case: Case) -> Finding:
    """Move queries and keys together along a row, and from row to row."""
    columns = case.reading.columns
    square = case.reading.cells[[0, 1, columns, columns + 1]].view(2, 2)
    q, k = random(2, 1, case.heads, 2, case.dim, seed=2).unbind()
    off = 0.0
    for two in (square, square.T):
        before, after = (case.rotate(q, places) @ case.rotate(k, places, of_keys=True).mT for places in two)
        off = max(off, relative_difference(after, before))
    if off < 2 * case.reading.slack:
        return passed("logits see offsets only: moving queries and keys together along the grid changes nothing", off)
    return wrong("absolute", f"moving queries and keys together along the grid changes the logits by {off:.2g}", off)
