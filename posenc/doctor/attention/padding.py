"""Examine whether the mask of an attention hides padding on the left, and whether positions count that padding.

A hidden key is one whose content does not matter. So first two contents of the padding are compared under one mask:
where the real tokens differ, the mask does not hide. Only where they agree is what padding changes laid to positions.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attention.causality import promised_encoding
from posenc.doctor.attention.measure import TOLERANCE, Attention, AttentionRecord, T
from posenc.doctor.numerics import is_finite, relative_difference, repeated_random, worst
from posenc.doctor.report import Finding, not_checked, note, passed, with_check_name, wrong
from posenc.doctor.safe_call import attempt

PAD = 8  # tokens, so that windows stay whole
SHORT, LONG = 7, 11  # lengths of two texts of T tokens
# A mask that does not broadcast by itself has an axis for heads, and may have one for queries.
SHAPES = {
    "(b, 1, 1, s)": lambda visible: visible[:, None, None],
    "(b, 1, t, s)": lambda visible: visible[:, None, None] & torch.ones_like(visible)[:, None, :, None],
    "(b, s)": lambda visible: visible,
    "(b, 1, s)": lambda visible: visible[:, None],
}
MEANINGS = {
    "booleans": lambda visible: visible,
    "1 and 0": lambda visible: visible.long(),
    "numbers to add": lambda visible: visible.logical_not() * torch.finfo().min,
}


class MaskForm(NamedTuple):
    """How a mask is passed: its shape and what its entries mean."""

    shape: str
    meaning: str

    def __call__(self, visible: Tensor) -> Tensor:
        """Return the mask for keys (b, s) that are visible or not."""
        return MEANINGS[self.meaning](SHAPES[self.shape](visible))


FORMS = tuple(MaskForm(shape, meaning) for meaning in MEANINGS for shape in SHAPES)


class PaddedAttention:
    """An attention on the same real tokens after padding of one content or another."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention
        self.inputs = attention.inputs()
        positions = torch.arange(-PAD, T).expand(len(self.inputs[0]), -1)  # (b, s)
        self.visible = positions >= 0  # (b, s)
        # Real tokens count from 0, whatever is before them.
        self.positions = positions.relu()  # (b, s)

    def __call__(self, mask: Tensor, seed: int = 80) -> Tensor:
        """Return the result of the real tokens (b, h, t, d)."""
        q, k, v = (torch.cat((repeated_random(part[:, :, :PAD], seed), part), 2) for part in self.inputs)
        result = self.attention(q, k, v, positions=self.positions, key_positions=self.positions, mask=mask)
        if result.shape[2] != q.shape[2]:
            raise ValueError(f"doctor: the result must be of {q.shape[2]} tokens, got {tuple(result.shape)}")
        return result[:, :, PAD:]  # (b, h, t, d)

    def leak(self, mask: Tensor) -> float:
        """Return how much the content of the padding changes the real tokens."""
        result = self(mask)
        return relative_difference(self(mask, seed=90), result) if is_finite(result) else math.inf

    def moved(self, form: MaskForm) -> float:
        """Return how far the real tokens are from what they are without padding, under a mask that hides nothing."""
        # Both calls have a mask, for code may take another path without one.
        all_visible = torch.ones_like(self.visible)[:, PAD:]  # (b, t)
        return relative_difference(self(form(self.visible)), self.attention.at(*self.inputs, mask=form(all_visible)))

    def hides_where_true(self, forms: list[MaskForm]) -> bool:
        """Return whether a mask hides the padding when it says that the real tokens are hidden."""
        leaks = [attempt(self.leak, form(~self.visible)) for form in forms if form.meaning != "numbers to add"]
        return any(not failed and leak < TOLERANCE for leak, failed in leaks)

    def reads_as_booleans(self, form: MaskForm) -> bool:
        """Return whether the size of numbers to add does not matter."""
        # Where a mask is added to the logits, -1 hides nothing; as a boolean it is as true as the least number.
        mask = form(self.visible)
        return form.meaning == "numbers to add" and relative_difference(self(mask.sign()), self(mask)) < TOLERANCE


def padding(record: AttentionRecord) -> Finding:
    """Check that padding on the left that the mask hides, or beyond the length of a text, changes no real token."""
    if not record.code.takes("mask"):
        if record.code.takes("lengths"):
            return _lengths_of_texts(record.attention)
        return not_checked("needs a parameter for a mask")
    padded = PaddedAttention(record.attention)
    # Which form a mask has is nowhere declared: those that the code runs with are compared.
    tried = {form: attempt(padded.leak, form(padded.visible)) for form in FORMS}
    leaks = {form: leak for form, (leak, failed) in tried.items() if not failed}
    if not leaks:
        return not_checked(f"no mask of booleans or numbers can be passed: {tried[FORMS[0]][1]}")
    if math.isinf(min(leaks.values())):
        return wrong("not-finite", "with a mask that hides padding the result holds NaN or infinity")
    hiding = [form for form, leak in leaks.items() if leak < TOLERANCE]
    # Numbers to add that are read as booleans are true where they should hide.
    if all(padded.reads_as_booleans(form) for form in hiding) and padded.hides_where_true([*leaks]):
        return _true_hides(record, max(leaks.values()))
    if hiding:
        return _positions_of_padded(padded, hiding, leaks)
    leak = worst(*leaks.values())
    message = f"the mask is ignored, added as 1 and 0, or on another axis: masked keys change others by {leak:.2g}"
    return wrong("mask-ignored", f"{message}. Fill the logits of masked keys with -inf before the softmax", leak)


def _positions_of_padded(padded: PaddedAttention, hiding: list[MaskForm], leaks: dict[MaskForm, float]) -> Finding:
    """Say whether padding that is hidden still moves the real tokens."""
    tried = [attempt(padded.moved, form) for form in hiding]
    differences = [difference for difference, failed in tried if not failed]
    if not differences:
        return not_checked(f"a mask that hides nothing raises {tried[0][1]}")
    # One form that leaves them unchanged is enough: code may run with forms that it misreads.
    difference = min(differences)
    if difference < TOLERANCE:
        is_added = {form.meaning for form in hiding} == {"numbers to add"} and len(leaks) > len(hiding)
        warning = "; its mask is added, so booleans run too and hide nothing: pass 0 and -inf" if is_added else ""
        return passed(f"hidden padding on the left leaves the real tokens unchanged{warning}", difference)
    message = f"padding that the mask hides changes the real tokens by {difference:.2g}: positions count the padding"
    return wrong("padding-counted", f"{message}. Count real tokens, mask.cumsum(-1) - 1", difference)


def _true_hides(record: AttentionRecord, leak: float) -> Finding:
    """Judge a mask of which True hides by its name."""
    # PyTorch has both meanings: True hides in key_padding_mask and is visible in scaled_dot_product_attention.
    name = record.code.roles["mask"].lower()
    if record.code.call.mask_form == "hidden" or "pad" in name:
        return passed("hidden padding leaves the real tokens unchanged; True hides, as in nn.MultiheadAttention")
    message = "keys where the mask is True are hidden and those where it is False are visible"
    if name != "attention_mask":
        return note(f"{message}, as in nn.MultiheadAttention; in scaled_dot_product_attention True is visible", leak)
    message = f"the mask is inverted: {message}, while 1 is visible in an attention_mask of transformers"
    return wrong("mask-inverted", f"{message}. Fill where ~mask; if True is meant to hide, say so in its name", leak)


def _lengths_of_texts(attention: Attention) -> Finding:
    """Check that tokens beyond the length that is passed for a text leave its other tokens unchanged."""
    parts = attention.inputs()
    lengths = torch.tensor([SHORT, LONG])  # (b,)
    result = attention(*parts, lengths=lengths)[0, :, :SHORT]  # (h, t, d)
    differences = []
    # Only the text that is shorter can tell its own length from that of the other.
    for start, end in ((LONG, T), (SHORT, LONG)):
        others = [part.index_fill(2, torch.arange(start, end), 9) for part in parts]
        differences.append(relative_difference(attention(*others, lengths=lengths)[0, :, :SHORT], result))
    beyond_both, beyond_own = differences
    if beyond_both >= TOLERANCE:
        return wrong("mask-ignored", "tokens beyond the lengths change the others. Mask them with -inf", beyond_both)
    if beyond_own >= TOLERANCE:
        return wrong("rows-mixed", "some heads mask a text by the length of another: use repeat_interleave", beyond_own)
    return passed("tokens beyond the length of a text leave its other tokens unchanged")


def explain_padding(findings: list[Finding], record: AttentionRecord) -> list[Finding]:
    """Return the findings, where padding moves the real tokens with what else may be the cause.

    Absolute positions change the real tokens too. So beside another fault padding is not checked; and where names in
    the code promise an encoding by offsets, that does not depend on offsets only.
    """
    moved = [finding for finding in findings if finding.id == "padding-counted"]
    if not moved:
        return findings
    others = [finding for finding in findings if finding not in moved]
    if any(finding.is_wrong for finding in others):
        cause = not_checked("padding that is hidden changes the real tokens: repair the rest first, then run it again")
    elif promised_encoding(record):
        message = "padding that the mask hides changes the real tokens: the result depends on absolute positions"
        cause = wrong("absolute", f"{message}. Are queries and keys rotated alike?", moved[0].number)
    else:
        return findings
    return [*others, with_check_name(cause, "padding")]
