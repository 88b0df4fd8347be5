"""Examine whether the mask of an attention hides padding on the left, and whether positions count that padding.

A hidden key is one whose content does not matter. So first two kinds of padding are compared under one mask: where the
real tokens differ, it does not hide. Only where they agree can what padding still changes be laid to positions.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from posenc.doctor.attempt import attempt
from posenc.doctor.attention.measure import SAME, Case, T
from posenc.doctor.numerics import relative_difference, repeated_random
from posenc.doctor.report import Finding, not_checked, note, passed, wrong

PAD = 8  # so that windows stay whole
SHORT, LONG = 7, 11  # told lengths of two texts of T
SHAPES = {
    "(b, 1, 1, s)": lambda seen: seen[:, None, None],
    "(b, 1, t, s)": lambda seen: seen[:, None, None] & torch.ones_like(seen)[:, None, :, None],
    "(b, s)": lambda seen: seen,
    "(b, 1, s)": lambda seen: seen[:, None],
}
MEANINGS = {
    "booleans": lambda seen: seen,
    "1 and 0": lambda seen: seen.long(),
    "numbers to add": lambda seen: seen.logical_not() * torch.finfo().min,
}


class Form(NamedTuple):
    """How a mask is told: its shape and what its entries mean."""

    shape: str
    meaning: str

    def __call__(self, seen: Tensor) -> Tensor:
        """Return the mask for keys (b, s) that are seen or not."""
        return MEANINGS[self.meaning](SHAPES[self.shape](seen))


FORMS = tuple(Form(shape, meaning) for meaning in MEANINGS for shape in SHAPES)


class Padded:
    """An attention on the same real tokens after padding of either content, 0 or 1."""

    def __init__(self, case: Case) -> None:
        self.case, self.real = case, case.inputs(7)
        places = torch.arange(-PAD, T).expand(len(self.real[0]), -1)
        self.seen, self.places = places >= 0, places.relu()

    def __call__(self, mask: Tensor, seed: int = 80) -> Tensor:
        """Return what the real tokens get."""
        q, k, v = (torch.cat((repeated_random(part[:, :, :PAD], seed), part), 2) for part in self.real)
        made = self.case.attend(q, k, v, positions=self.places, key_positions=self.places, mask=mask)
        if made.shape[2] != q.shape[2]:
            raise ValueError(f"doctor: the result must be of {q.shape[2]} tokens, got {tuple(made.shape)}")
        return made[:, :, PAD:]

    def leak(self, mask: Tensor) -> float:
        """Return how much the content of the padding matters to the real tokens."""
        one, other = self(mask), self(mask, seed=90)
        return relative_difference(one, other) if one.isfinite().all() else float("inf")

    def effect(self, form: Form) -> float:
        """Return how much hiding the padding changes the real tokens."""
        return relative_difference(self(form(self.seen)), self(form(torch.ones_like(self.seen))))

    def moved(self, form: Form) -> float:
        """Return how far the real tokens are from what they get without padding, under a mask that hides nothing."""
        alone = self.case.attend.at(*self.real, mask=form(torch.ones_like(self.seen)[:, PAD:]))
        return relative_difference(self(form(self.seen)), alone)

    def read_as_booleans(self, form: Form) -> bool:
        """Tell whether the size of numbers to add does not matter."""
        mask = form(self.seen)
        return form.meaning == "numbers to add" and relative_difference(self(mask.sign()), self(mask)) < SAME


def check_padding(case: Case) -> Finding:
    """Check that padding on the left, hidden by the mask, leaves the real tokens alone."""
    if not case.code.takes("mask"):
        return not_checked("needs a parameter for a mask")
    padded = Padded(case)
    tried = {form: attempt(padded.leak, form(padded.seen)) for form in FORMS}
    leaks = {form: leak for form, (leak, failed) in tried.items() if not failed}
    if not leaks:
        (_, failed), *_ = tried.values()
        return not_checked(f"no mask of booleans or numbers is taken: {failed}")
    hiding = [form for form, leak in leaks.items() if leak < SAME]
    if hiding and not (all(map(padded.read_as_booleans, hiding)) and _inverted(padded, leaks)):
        return _counted(padded, hiding, leaks)
    return _unhidden(padded, leaks)


def lengths_of_texts(case: Case) -> Finding | None:
    """Check that tokens beyond the length that is told of a text leave the others alone."""
    if not case.code.takes("lengths") or case.code.takes("mask"):
        return None
    by_the_other, by_none = (_beyond(case, *span) for span in ((SHORT, LONG), (LONG, T)))
    if by_none:
        words = "lengths are taken, and tokens beyond them change the others: fill their scores with -inf"
        return wrong("mask-ignored", words)
    if by_the_other:
        words = "a text is masked by another's length, in some heads: repeat_interleave, not repeat"
        return wrong("rows-mixed", words)
    return passed("tokens beyond the length of a text leave the others alone")


def _beyond(case: Case, start: int, end: int) -> bool:
    """Tell whether some tokens beyond the length of the first text change its result."""
    parts, told = case.inputs(7), torch.tensor([SHORT, LONG])
    others = [part.index_fill(2, torch.arange(start, end), 9) for part in parts]
    before, after = (case.attend(*each, lengths=told)[0, :, :SHORT] for each in (parts, others))
    return relative_difference(after, before) > SAME


def _inverted(padded: Padded, leaks: dict[Form, float]) -> bool:
    """Tell whether the mask hides the padding when it says that all else is hidden."""
    plain = [form for form in leaks if form.meaning != "numbers to add"]
    tried = [attempt(padded.leak, form(~padded.seen)) for form in plain]
    return any(not failed and leak < SAME for leak, failed in tried)


def _counted(padded: Padded, hiding: list[Form], leaks: dict[Form, float]) -> Finding:
    """Say whether padding that is hidden still moves the real tokens."""
    tried = [attempt(padded.moved, form) for form in hiding]
    worked = [off for off, failed in tried if not failed]
    if not worked:
        return not_checked(f"a mask that hides nothing raises {tried[0][1]}")
    off = min(worked)
    if off >= SAME:
        return wrong(
            "padding-counted",
            f"padding on the left, though hidden by the mask, changes the real tokens by {off:.2g}: positions count "
            "the padding. Count real tokens, mask.cumsum(-1) - 1",
            off,
        )
    added = {form.meaning for form in hiding} == {"numbers to add"} and len(leaks) > len(hiding)
    but = "; its mask is added, so booleans run too and hide nothing: give 0 and -inf" if added else ""
    return passed(f"hidden padding on the left leaves the real tokens alone{but}", off)


def _unhidden(padded: Padded, leaks: dict[Form, float]) -> Finding:
    """Say why the content of masked keys matters."""
    leak = max(leaks.values())
    effects = [attempt(padded.effect, form) for form in leaks]
    if all(failed or effect < SAME for effect, failed in effects):
        return wrong(
            "mask-ignored",
            f"the mask is ignored: with and without it the same, and masked keys change the real tokens by {leak:.2g}. "
            "Fill the scores of masked keys with -inf before the softmax",
            leak,
        )
    if _inverted(padded, leaks):
        return _hides_what_is_true(padded, leak)
    return wrong(
        "mask-ignored",
        f"the mask changes the result and hides nothing: masked keys change the real tokens by {leak:.2g}. "
        "Is it added as 1 and 0, or put on another axis than that of keys?",
        leak,
    )


def _hides_what_is_true(padded: Padded, leak: float) -> Finding:
    """Say that True hides: against the meaning of the name attention_mask, or a convention under another name."""
    name = padded.case.code.roles["mask"].lower()
    if padded.case.code.call.mask_form == "hidden" or "pad" in name:
        return passed("hidden padding leaves the real tokens alone; True hides, as in nn.MultiheadAttention")
    words = "keys where the mask is True are hidden and those where it is False are seen"
    if name != "attention_mask":
        return note(f"{words}, as in nn.MultiheadAttention; to scaled_dot_product_attention True means seen", leak)
    return wrong(
        "mask-inverted",
        f"the mask is inverted: {words}, while 1 means seen in an attention_mask of transformers. Fill where ~mask; "
        "if True is meant to hide, say so in its name",
        leak,
    )
