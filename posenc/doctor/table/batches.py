"""Examine how a table treats the texts of a batch: padding, the words themselves, rows of positions that differ."""

from typing import Any

import torch
from torch import Tensor, nn

from posenc.doctor.attempt import attempt
from posenc.doctor.call.code import Code, first_result
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong
from posenc.doctor.table.rows import WORD

T, PADS = 5, 2


def padding(case: Any) -> Finding | None:
    """Pad a text on its left: with the padding's own id, or as the mask tells."""
    table, ids = case.table, torch.full((1, PADS + T), WORD)
    pad = getattr(case.code.module, "padding_idx", None)
    if table.form == "mask":
        padded, whole = torch.ones_like(ids), torch.ones(1, T, dtype=torch.long)
        padded[:, :PADS] = 0
    elif table.form == "ids" and type(pad) is int:
        padded, whole = ids.clone(), ids[:, :T]
        padded[:, :PADS] = pad
    else:
        return None
    made = [_rows(case.code.fresh(), table.role, given) for given in (padded, whole)]
    off = relative_difference(made[0][:, PADS:], made[1])
    if off < 1e-4:
        return passed("padding on the left is not counted", off)
    words = "padding on the left moves the tokens after it to other rows"
    if table.form == "ids" and relative_difference(made[0][:, 0], made[0][:, 1]) < 1e-6:
        return note(f"{words}, though it has a row of its own: right with padding on the right only", off)
    return wrong("padding-counted", f"{words}: positions count the padding. Count with cumsum over what is seen", off)


def _rows(code: Code, role: str, given: Tensor) -> Tensor:
    return first_result(code(**{role: given}))


def words(case: Any) -> Finding | None:
    """Check that a module that embeds words gives other rows for other words."""
    module = case.code.module
    if case.table.form != "ids" or module is None or not _embeds(module):
        return None
    ids = torch.full((1, T), WORD)
    off = relative_difference(_rows(case.code.fresh(), "x", ids + 1), _rows(case.code.fresh(), "x", ids))
    if off > 1e-6:
        return passed("other words get other rows", off)
    return wrong("embeddings-lost", "other words get the same rows: it embeds words, and they do not arrive", off)


def _embeds(module: nn.Module) -> bool:
    """Tell whether there is a part that embeds words, by its name."""
    names = [name.lower() for name, part in module.named_modules() if isinstance(part, nn.Embedding)]
    return any(("tok" in name or "word" in name) and "type" not in name for name in names)


def batch(case: Any) -> Finding | None:
    """Hand in a row of positions for each of two texts."""
    if case.table.adds or case.table.told_by != "positions" or case.code.needs("x"):
        return None
    places = torch.stack((torch.arange(T), torch.arange(2, T + 2)))
    made, _ = attempt(lambda: first_result(case.code(positions=places)))
    if not isinstance(made, Tensor) or made.ndim != 3:
        return not_checked("a row of positions for each text raises, or gives another form")
    due = case.first[places]
    if relative_difference(made.double(), due) < 1e-4:
        return passed("each text of a batch gets the rows of its own positions")
    if relative_difference(made.double().transpose(0, 1), due) < 1e-4:
        return wrong("batch-axis", "for positions (b, t) rows come back as (t, b, d): the axes are exchanged")
    return wrong("rows-mixed", "texts with positions of their own get the rows of other positions")


CHECKS = (padding, words, batch)
