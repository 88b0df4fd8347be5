"""Examine what a table loses to coarse numbers: rows that are held in half precision, a module that was cast."""

from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, passed, wrong

ONCE = 0.03  # how far one rounding to bfloat16 takes numbers, and several roundings do not stay


def held(case: Any) -> Finding | None:
    """Look whether every number of the rows is one of bfloat16 or float16."""
    rows = case.first
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        if torch.equal(rows.to(dtype).double(), rows) and (rows != rows.round()).any():
            return wrong(
                "angles-rounded",
                f"every number of the table is one of {name}: it is held in half precision, off by up to "
                f"{float(2.0 ** (-9 if name == 'bfloat16' else -12)):.2g}. Compute it in float32 and round in the call",
            )
    return None


def half_input(case: Any) -> Finding | None:
    """Hand in embeddings in bfloat16: the code may compute positions in their dtype."""
    if not case.table.adds or case.table.of_ids:
        return None
    made = case.table.of(case.code.fresh())(len(case.first), dtype=torch.bfloat16)
    off = relative_difference(made, case.first)
    if off <= ONCE:
        return passed(f"with embeddings in bfloat16 within {off:.1g} of float32", off)
    same = _same_rows(made)
    words = f"with embeddings in bfloat16 rows are off by {off:.2g}{same}: angles are computed in their dtype"
    return wrong("positions-rounded" if same else "angles-rounded", f"{words}. Use float32, and round once", off)


def check_rounding(case: Any) -> Finding:
    """Look at the rows of a module in bfloat16."""
    if case.code.module is None:
        return not_checked("no torch module, so there is nothing to cast")
    coarse = case.table.of(case.code.cast(torch.bfloat16))(len(case.first), dtype=torch.bfloat16)
    off = relative_difference(coarse, case.first)
    if off <= ONCE:
        return passed(f"in bfloat16 within {off:.1g} of float32: rounded once", off)
    alone, _ = attempt(case.table.of(case.code.cast(torch.bfloat16)), len(case.first))
    words = f"in bfloat16 rows are off by {off:.2g}{_same_rows(coarse)}: positions or frequencies are rounded before"
    cause = "buffers-rounded" if relative_difference(alone, case.first) > ONCE else "positions-rounded"
    return wrong(cause, f"{words} the sine. Compute the table in float32 and round it once", off)


def _same_rows(made: Tensor) -> str:
    """Return in words which neighbors share a row first, "" where none do."""
    twins = (made[1:] == made[:-1]).all(-1).nonzero().flatten().tolist()
    return f"; positions {twins[0]} and {twins[0] + 1} get the same row" if twins else ""
