"""Examine what is in a batch beside a text: other texts, padding on the left and on the right, packed documents."""

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc.doctor.attempt import attempt
from posenc.doctor.model.text import CLOSE, SAME, TOKENS, Text
from posenc.doctor.numerics import relative_difference
from posenc.doctor.report import Finding, not_checked, note, passed, wrong

PAD = 5


def batch(text: Text) -> Finding:
    """Compare a text alone with the same text beside another."""
    off = relative_difference(text.model(text.ids[:1]), text.logits[:1])
    if off < SAME:
        return passed("a text does not depend on its neighbors in the batch", off)
    return wrong("batch-mixed", f"a text alone differs by {off:.2g} from the same text beside another", off)


def _padded(text: Text, word: Tensor, before: int, after: int) -> tuple[Tensor, Tensor]:
    """Return the ids and the mask of the text with a word for padding."""
    pads = (before, after)
    return F.pad(text.ids, pads, value=int(word)), F.pad(torch.ones_like(text.ids), pads)


def right_padding(text: Text) -> Finding:
    """Pad on the right, hidden by the mask."""
    if not text.model.takes("mask"):
        return not_checked("needs a parameter for an attention mask")
    ids, mask = _padded(text, text.ids.min(), 0, PAD)
    off = relative_difference(text.model(ids, mask=mask)[:, :TOKENS], text.logits)
    if off < CLOSE:
        return passed("hidden padding on the right leaves the real tokens alone", off)
    return wrong("mask-ignored", f"padding on the right, hidden by the mask, changes the real tokens by {off:.2g}", off)


def left_padding(text: Text) -> Finding:
    """Pad on the left, hidden by the mask: with positions that are given, and without."""
    if not text.model.takes("mask"):
        return not_checked("needs a parameter for an attention mask")
    (ids, mask), (others, _) = (_padded(text, word, PAD, 0) for word in (text.ids.min(), text.ids.max()))
    real = text.model(ids, mask=mask)[:, PAD:]
    leak = relative_difference(text.model(others, mask=mask)[:, PAD:], real)
    if leak > CLOSE:
        return wrong("mask-ignored", f"words that the mask hides change the real tokens by {leak:.2g}", leak)
    off = relative_difference(real, text.logits)
    if off < CLOSE:
        return passed("hidden padding on the left leaves the real tokens alone", off)
    if text.model.takes("positions"):
        placed = text.model(ids, mask=mask, positions=(mask.cumsum(1) - 1).clamp(min=0))[:, PAD:]
        if relative_difference(placed, text.logits) < CLOSE:
            words = "unless position_ids are given: mask.cumsum(-1) - 1"
            return note(f"hidden padding on the left moves the real tokens {words}")
    return wrong(
        "padding-counted",
        f"hidden padding on the left changes the real tokens by {off:.2g}: positions count the padding. "
        "Count real tokens, mask.cumsum(-1) - 1",
        off,
    )


def packed(text: Text) -> Finding:
    """Put two documents into one row, with positions that start again and a mask of two blocks."""
    if not text.model.takes("positions"):
        return not_checked("needs a parameter for position_ids")
    row, places, alone = (torch.cat([*part])[None] for part in (text.ids, text.places, text.logits))
    if relative_difference(text.model(row, positions=places), alone) < CLOSE:
        return passed("documents packed in one row, with positions that start again, do not see each other")
    block = torch.block_diag(*torch.ones(len(text.ids), TOKENS, TOKENS).tril())[None, None]
    made = (attempt(text.model, row, positions=places, mask=mask)[0] for mask in (block.bool(), block.log()))
    if any(relative_difference(one, alone) < CLOSE for one in made):
        return passed("documents packed in one row do not see each other under a mask of blocks (b, 1, t, t)")
    return note("documents packed in one row see each other, and no mask of blocks (b, 1, t, t) parts them")


CHECKS = (right_padding, left_padding, packed)
