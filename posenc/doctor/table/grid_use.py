"""Examine how the table of a grid bears use: what it does to a picture, padding that a mask tells."""

from typing import Any

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.numerics import random, relative_difference
from posenc.doctor.report import Finding, not_checked, passed, wrong
from posenc.doctor.table.cells import BATCH, Cells, masks

LONG = 300  # rows, of which bfloat16 cannot tell the last ones apart
PADDED = ((2, 3), (3, 2))  # how many rows and columns two masks leave


def handed_in(cells: Cells) -> Finding | None:
    """Check that what is handed in stays as it is, and say whether it comes back in the result."""
    given = cells.given(cells.sides) or {}
    role = next((role for role in ("x", "positions") if role in given), None)
    if role is None:
        return None
    x = given[role] if given[role].any() else random(*given[role].shape)  # a picture of nothing is filled
    kept = x.clone()
    made = cells.code.fresh()(**given | {role: x})
    if not torch.equal(x, kept):
        words = "what is handed in is written to (x += ..., x[...] /= ...): whoever holds it sees other numbers"
        return wrong("in-place", f"{words}. Work on a copy", relative_difference(x, kept))
    same = relative_difference(made, cells.code.fresh()(**given)) < 1e-6
    return passed("the result is the table alone" if same else "the picture comes back with the table added")


def padding(cells: Cells) -> Finding | None:
    """Pad a picture on its right and below, as the mask tells."""
    found = []
    for rows, columns in PADDED if len(cells.sides) == 2 else ():
        seen = torch.zeros(BATCH, *cells.sides, dtype=torch.bool)
        seen[:, :rows, :columns] = True
        found += [given for asked, given in masks(cells.code, seen) if asked == cells.asked]
    if not found:
        return None
    every, used = [cells.given(cells.sides) or {}, *found], cells.code.fresh()
    made, alone = [used(**given) for given in every], [cells.code.fresh()(**given) for given in every]
    if relative_difference(alone[1], alone[0]) < 1e-6 and cells.code.learned_parameters:
        return passed("learned rows and columns, which no mask changes")
    if relative_difference(alone[1], alone[0]) < 1e-6:
        words = "the mask changes nothing: rows and columns of padding are counted"
        return wrong("padding-counted", f"{words}. Count with cumsum over what is seen")
    off = max(relative_difference(one, two) for one, two in zip(made, alone, strict=True))
    if off > 1e-6:
        words = f"after another mask of the same shape numbers differ by {off:.2g}: a cached table stays"
        return wrong("cache-stale", words, off)
    return passed("padding that the mask tells is not counted")


def half_precision(cells: Cells) -> list[Finding]:
    """Cast the module to bfloat16, and hand in a picture in bfloat16 before one in float32."""
    code, sides = cells.code, tuple(side + LONG * (axis == 0) for axis, side in enumerate(cells.sides))
    given = cells.given(sides)
    if given is None or code.module is None or given.get("x", cells.numbers).dtype == torch.bool:
        return []
    coarse = {role: one.bfloat16() if role == "x" else one for role, one in given.items()}
    due = code.fresh()(**given)
    return [*_cast(cells, given, coarse, due), *(_stale(cells, given, coarse, due) if "x" in given else [])]


def _cast(cells: Cells, given: dict[str, Any], coarse: dict[str, Any], due: Tensor) -> list[Finding]:
    made, failed = attempt(lambda: [cells.code.cast(torch.bfloat16)(**one) for one in (coarse, given)])
    if failed:
        return [not_checked(f"in bfloat16 it raises {failed}")]
    whole, of_buffers = (relative_difference(one.float(), due) for one in made)
    if whole <= 0.03:
        return [passed(f"in bfloat16 within {whole:.1g} of float32: rounded once", whole)]
    words = f"in bfloat16 numbers are off by {whole:.2g}: positions or speeds are rounded before the sine"
    cause = "buffers-rounded" if of_buffers > 0.03 else "positions-rounded"
    return [wrong(cause, f"{words}. Compute the table in float32 and round it once", whole)]


def _stale(cells: Cells, given: dict[str, Any], coarse: dict[str, Any], due: Tensor) -> list[Finding]:
    used = cells.code.fresh()
    attempt(used, **coarse)
    made, failed = attempt(used, **given)
    off = 0.0 if failed else relative_difference(made, due)
    if off < 1e-3:
        return [passed("a call does not depend on one in bfloat16 before it", off)]
    words = f"after one call in bfloat16, numbers differ by {off:.2g}: a cached table stays"
    return [wrong("cache-stale", words, off)]


CHECKS = (handed_in, padding, half_precision)
