"""Check a rotation of several axes: the rows and columns of a picture, or time, height and width."""

import torch

from posenc.doctor.call.code import POSITION_AXES
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, passed, wrong
from posenc.doctor.rotation import measure
from posenc.doctor.rotation.measure import ROWS, Rotation, RotationRecord
from posenc.doctor.safe_call import attempt

REMEDY = "Give each axis pairs of its own"


def grid(record: RotationRecord) -> Finding | None:
    """Check that some pairs rotate along the rows of a grid and some from row to row."""
    reading, code = record.reading, record.code
    columns = code.call.tokens // ROWS
    if columns not in (0, ROWS) and code.takes("rows", "columns"):
        # Pairs that count along rows as long as there are rows take one number for the other.
        angle = measure.angles_of(
            measure.matrices_of(record.rotate, torch.arange(record.rotate.max_length)), reading.pairs
        )
        count = [measure.row_length(of_pair[:, None]) for of_pair in angle.T].count(ROWS)
        if count:
            sentence = (
                f"called with {ROWS} rows of {columns} tokens, {count} of {len(reading.pairs)} pairs count in rows"
            )
            return wrong("axes-swapped", f"{sentence} of {ROWS}: divide by the number of columns, not of rows", count)
    if not reading.columns:
        return None
    along, down = (int(theta.round(decimals=6).count_nonzero()) for theta in (reading.theta, reading.theta_down))
    sentence = f"rows of {reading.columns}: {along} pairs rotate along a row, {down} from row to row"
    return passed(sentence, along) if along and down else wrong("axis-lost", f"{sentence}. {REMEDY}")


def each_axis(record: RotationRecord) -> Finding | None:
    """Check that each axis of positions has pairs that rotate when it alone moves."""
    if record.rotate.position_argument != "positions" or record.angles_by_doctor:
        return None
    form = record.code.call.positions_form
    form = form if form in POSITION_AXES else "3bt"
    x, positions = random(2, record.heads, 6, record.dim, seed=19), torch.arange(6)
    result, failed = attempt(_along(record, form), x, positions)
    # Code of one axis raises, or adds all three up.
    if failed or relative_difference(result, record.rotate(x, positions)) > measure.TOLERANCE:
        return None
    rotations = [_along(record, form, axis) for axis in range(POSITION_AXES[form])]
    counts = [len(measure.measure_pairs(rotate, record.rotate.max_length).pairs) for rotate in rotations]
    sentence = f"along {len(counts)} axes {', '.join(map(str, counts))} pairs rotate"
    return passed(sentence) if all(counts) else wrong("axis-lost", f"{sentence}. {REMEDY}")


def _along(record: RotationRecord, form: str, axis: int | None = None) -> Rotation:
    """Return the rotation by positions of several axes, of which one moves alone or all move alike."""
    code = record.code.fresh()
    code.axis = axis
    code.call = code.call._replace(positions_form=form)
    return Rotation(code)
