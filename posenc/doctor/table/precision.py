"""Check what a table loses to half precision: rows kept in it, embeddings in it, a module that was cast to it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.call.code import Code
from posenc.doctor.numerics import HALF_PRECISION, not_finite, relative_difference, worst
from posenc.doctor.report import Finding, not_checked, passed, wrong
from posenc.doctor.safe_call import attempt
from posenc.doctor.table.measure import LENGTHS, TableRecord

ROUNDED_ONCE = 0.03  # one rounding to bfloat16 stays below, and several do not
FAR, FAR_ROWS = 4_000, 2  # positions that float16 cannot tell apart


class HalfCall(NamedTuple):
    """A call of code in a dtype, the position of its first row, and the rows of float32."""

    call: Callable[[Code, torch.dtype], Tensor]
    expected: Tensor
    position: int = 0


def held(record: TableRecord) -> Finding | None:
    """Check that the rows are not all numbers of bfloat16 or float16."""
    rows = record.rows  # (t, d)
    # Tables of digits or of whole angles lose nothing.
    if torch.equal(rows, rows.round()):
        return None
    for name, dtype in HALF_PRECISION.items():
        if torch.equal(rows.to(dtype).double(), rows):
            error = torch.finfo(dtype).eps / 4  # of numbers from 1/2 to 1
            message = f"every number of the table is one of {name}, with errors up to {error:.2g}"
            return wrong("angles-rounded", f"{message}. Compute it in float32 and round in the call")
    return None


def half_input(record: TableRecord) -> Finding | None:
    """Check that embeddings in half precision get the rows of float32: code may compute positions in their dtype."""
    if not record.table.takes_input or record.table.takes_ids:
        return None
    return check_half(record.code, _half_calls(record), is_cast=False)


def rounding(record: TableRecord) -> Finding:
    """Check the rows of a module that was cast to half precision."""
    if record.code.module is None:
        return not_checked("no torch module, so there is nothing to cast")
    return check_half(record.code, _half_calls(record), is_cast=True)


def _half_calls(record: TableRecord) -> list[HalfCall]:
    """Return the calls for the first rows, and for two far ones."""
    table = record.table
    t = len(record.rows)
    calls = [HalfCall(lambda code, dtype: table.of(code)(t, dtype=dtype), record.rows)]
    # A shorter table ends before the far rows, or takes long.
    if t == LENGTHS[0]:
        far, _ = attempt(table, FAR_ROWS, FAR)
        if far is not None and len(far) == FAR_ROWS:
            calls.append(HalfCall(lambda code, dtype: table.of(code)(FAR_ROWS, FAR, dtype), far, FAR))
    return calls


def check_half(code: Code, calls: list[HalfCall], is_cast: bool) -> Finding:
    """Compare the rows in half precision with float32, of the cast module or for embeddings of another dtype."""
    differences = []
    for name, dtype in HALF_PRECISION.items():
        # One copy for all calls, as in use: a table that is cached in the first of them serves the others.
        copied = code.cast(dtype) if is_cast else code.fresh()
        for call in calls:
            rows, failed = attempt(call.call, copied, dtype)
            if failed and dtype == torch.bfloat16:
                return not_checked(f"in bfloat16 it raises {failed}")
            # Some operations have no float16 version on the CPU.
            if failed:
                continue
            difference = relative_difference(rows, call.expected)
            differences.append(difference)
            if difference > ROUNDED_ONCE:
                subject = f"{'cast to' if is_cast else 'for embeddings in'} {name}, rows from position"
                cast = code.cast(dtype) if is_cast else None
                return _rounded(f"{subject} {call.position:,} on", call, rows, difference, cast)
    largest = worst(*differences)
    return passed(f"in half precision rows are within {largest:.1g} of float32: rounded once", largest)


def _rounded(subject: str, call: HalfCall, rows: Tensor, difference: float, cast: Code | None) -> Finding:
    """Tell positions from angles and from buffers: what is rounded in rows (t, d) that are off by a difference."""
    if finding := not_finite(rows, subject):
        return finding
    equal = _equal_neighbors(rows, call.position)
    message = f"{subject} are off by {difference:.2g}{equal}: positions, frequencies or angles are rounded"
    # Rounded positions come in groups that share one; rounded angles differ from row to row.
    cause = "positions-rounded" if equal else "angles-rounded"
    if cast is not None:
        cause = _cause_of_cast(cast, call)
    return wrong(cause, f"{message} before the sine. Compute the table in float32, round once", difference)


def _cause_of_cast(cast: Code, call: HalfCall) -> str:
    # For embeddings in float32 positions are counted in float32, and buffers stay as the cast left them.
    rows, _ = attempt(call.call, cast, torch.float32)
    only_positions = relative_difference(rows, call.expected) <= ROUNDED_ONCE
    return "positions-rounded" if only_positions else "buffers-rounded"


def _equal_neighbors(rows: Tensor, position: int) -> str:
    """Return the first two neighbors of rows (t, d) that are equal, in words; "" where none are, or for pictures."""
    if rows.ndim > 2:
        return ""
    equal = (rows[1:] == rows[:-1]).all(-1)  # (t-1,)
    if not equal.any():
        return ""
    first = position + int(equal.int().argmax())
    return f"; positions {first:,} and {first + 1:,} get the same row"


CHECKS = (half_input, rounding)
