"""Examine how the table of a grid bears use: what it does to a picture, padding that a mask tells."""

import torch

from posenc.diagnosis.calling.call import attempt
from posenc.diagnosis.compare import far, random
from posenc.diagnosis.report import Finding, ok, unchecked, wrong
from posenc.diagnosis.tables.cells import Cells, calls, masks

PADDED = ((2, 3), (3, 2))  # how many rows and columns two masks leave


def handed_in(cells: Cells) -> Finding | None:
    """Check that what is handed in stays as it is, and say whether it comes back in the result."""
    given = next(given for asked, given in calls(cells.code, cells.sides) if asked == cells.asked)
    role = next((role for role in ("x", "positions") if role in given), None)
    if role is None:
        return None
    x = given[role] if role == "positions" or not given[role].is_floating_point() else random(*given[role].shape)
    kept = x.clone()
    made, failed = attempt(cells.code.fresh(), **given | {role: x})
    if failed:
        return unchecked(f"other numbers raise {failed}")
    if not torch.equal(x, kept):
        words = "what is handed in is written to (x += ..., x[...] /= ...): whoever holds it sees other numbers"
        return wrong("in-place", f"{words}. Work on a copy", far(x, kept))
    same = far(made, cells.code.fresh()(**given)) < 1e-6
    return ok("the result is the table alone" if same else "the picture comes back with the table added")


def padding(cells: Cells) -> Finding | None:
    """Pad a picture on its right and below, as the mask tells."""
    found = []
    for rows, columns in PADDED if len(cells.sides) == 2 and "mask" in cells.asked and cells.code.takes("mask") else ():
        seen = torch.zeros(2, *cells.sides, dtype=torch.bool)
        seen[:, :rows, :columns] = True
        given = next((given for asked, given in masks(cells.code, seen) if asked == cells.asked), None)
        if given is not None:
            found.append(given)
    if not found:
        return None
    plain = next(given for asked, given in calls(cells.code, cells.sides) if asked == cells.asked)
    used = cells.code.fresh()
    made, failed = attempt(lambda: [used(**given) for given in (plain, *found)])
    alone, other = attempt(lambda: [cells.code.fresh()(**given) for given in (plain, *found)])
    if failed or other:
        return unchecked(f"a mask of padding raises {failed or other}")
    if far(alone[1], alone[0]) < 1e-6:
        words = "the mask changes nothing: rows and columns of padding are counted"
        return wrong("padding-counted", f"{words}. Count with cumsum over what is seen")
    off = max(far(one, two) for one, two in zip(made, alone, strict=True))
    if off > 1e-6:
        words = f"after another mask of the same shape numbers differ by {off:.2g}: a cached table stays"
        return wrong("cache-stale", words, off)
    return ok("padding that the mask tells is not counted")


CHECKS = (handed_in, padding)
