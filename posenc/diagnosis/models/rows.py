"""Examine what is in a batch beside a text: other texts, padding on the left and on the right, packed documents."""

import torch
from torch import Tensor

from posenc.diagnosis.calling.attempt import attempt
from posenc.diagnosis.compare import far
from posenc.diagnosis.models.text import SAME, Text
from posenc.diagnosis.report import Finding, note, ok, unchecked, wrong

PAD = 4


def batch(text: Text) -> Finding:
    """Compare a text alone with the same text beside another."""
    off = far(text.model(text.ids[:1]), text.logits[:1])
    if off < SAME:
        return ok("a text does not depend on its neighbors in the batch", off)
    return wrong("batch-mixed", f"a text alone differs by {off:.2g} from the same text beside another", off)


def _padded(text: Text, word: int, left: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, mask and positions of the text with padding."""
    pads, seen = torch.full((2, PAD), word), torch.ones_like(text.ids)
    parts = [(pads, torch.zeros_like(pads)), (text.ids, seen)]
    ids, mask = (torch.cat(side, 1) for side in zip(*(parts if left else parts[::-1]), strict=True))
    return ids, mask, (mask.cumsum(1) - 1).clamp(min=0)


def right_padding(text: Text) -> Finding:
    """Pad on the right, hidden by the mask."""
    if not text.model.takes("mask"):
        return unchecked("needs a parameter for an attention mask")
    ids, mask, _ = _padded(text, 1, False)
    off = far(text.model(ids, mask=mask)[:, :-PAD], text.logits)
    if off < 10 * SAME:
        return ok("hidden padding on the right leaves the real tokens alone", off)
    return wrong("mask-ignored", f"padding on the right, hidden by the mask, changes the real tokens by {off:.2g}", off)


def left_padding(text: Text) -> Finding:
    """Pad on the left, hidden by the mask: with positions that are given, and without."""
    if not text.model.takes("mask"):
        return unchecked("needs a parameter for an attention mask")
    ids, mask, places = _padded(text, 1, True)
    one = text.model(ids, mask=mask)[:, PAD:]
    other = text.model(_padded(text, 3, True)[0], mask=mask)[:, PAD:]
    if (leak := far(one, other)) > 10 * SAME:
        return wrong("mask-ignored", f"words that the mask hides change the real tokens by {leak:.2g}", leak)
    off = far(one, text.logits)
    if off < 10 * SAME:
        return ok("hidden padding on the left leaves the real tokens alone", off)
    if text.model.takes("positions"):
        off = far(text.model(ids, mask=mask, positions=places)[:, PAD:], text.logits)
        if off < 10 * SAME:
            return note(
                "hidden padding on the left moves the real tokens unless position_ids are given: mask.cumsum(-1) - 1"
            )
    return wrong(
        "padding-counted",
        f"hidden padding on the left changes the real tokens by {off:.2g}: positions count the padding. "
        "Count real tokens, mask.cumsum(-1) - 1",
        off,
    )


def packed(text: Text) -> Finding:
    """Put two documents into one row, with positions that start again and a mask of two blocks."""
    if not text.model.takes("positions"):
        return unchecked("needs a parameter for position_ids")
    t = text.ids.shape[1]
    row, alone = text.ids.reshape(1, -1), text.logits.flatten(0, 1)[None]
    places = torch.arange(t).repeat(2)[None]
    made, failed = attempt(text.model, row, positions=places)
    if failed:
        return note(f"positions that start again raise {failed}")
    if far(made, alone) < 10 * SAME:
        return ok("documents packed in one row, with positions that start again, do not see each other")
    if not text.model.takes("mask"):
        return note("documents packed in one row see each other, and no mask can be given")
    block = torch.block_diag(*[torch.ones(t, t).tril()] * 2).bool()[None, None]
    for mask in (block, torch.where(block, 0.0, torch.finfo(torch.float32).min)):
        made, failed = attempt(text.model, row, positions=places, mask=mask)
        if not failed and far(made, alone) < 10 * SAME:
            return ok("documents packed in one row do not see each other under a mask of blocks (b, 1, t, t)")
    return note("documents packed in one row see each other, and a mask of blocks (b, 1, t, t) does not part them")


CHECKS = (right_padding, left_padding, packed)
