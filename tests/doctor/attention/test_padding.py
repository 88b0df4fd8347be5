"""Masks of padding and lengths of texts: they hide what they should, and positions do not count padding."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, label, verdicts
from tests.doctor.attention.patients import DIM, HEADS, HIDDEN, Rotated, SelfAttention
from tests.doctor.blocks import attend, attend_behind, frequencies, interleave, rotate, rotate_at_end, rotate_by

# One form of masks alone

SHAPES = {
    "(b, 1, 1, s)": lambda mask, t: mask.ndim == 4 and mask.shape[1:3] == (1, 1),
    "(b, 1, t, s)": lambda mask, t: mask.ndim == 4 and mask.shape[1:3] == (1, t),
    "(b, s)": lambda mask, t: mask.ndim == 2,
    "(b, 1, s)": lambda mask, t: mask.ndim == 3 and mask.shape[1] == 1,
}
SPREAD = {
    "(b, 1, 1, s)": ...,
    "(b, 1, t, s)": ...,
    "(b, s)": (slice(None), None, None),
    "(b, 1, s)": (slice(None), None),
}
MEANINGS = {
    "bools": lambda mask: mask.dtype == torch.bool,
    "integers": lambda mask: not mask.dtype.is_floating_point and mask.dtype != torch.bool,
    "numbers to add": lambda mask: mask.dtype.is_floating_point,
}


def hides(mask, meaning):
    return mask < 0 if meaning == "numbers to add" else mask == 0


def hides_the_rest(mask, meaning):
    return ~hides(mask, meaning)


def hides_nothing(mask, meaning):
    return torch.zeros_like(mask).bool()


def hides_on_the_right(mask, meaning):
    """Take padding to stand on the right."""
    return hides(mask, meaning).flip(-1)


def hides_one_more(mask, meaning):
    """Hide the first real token, too."""
    return hides(mask, meaning) | hides(mask, meaning).roll(1, -1)


def in_one_form(shape, meaning, hidden=hides):
    """Return a rotated attention that takes one form of masks, and hides what `hidden` says."""

    def call(q, k, v, mask=None):
        seen = torch.ones(len(q), 1, 1, k.shape[2]).bool()
        if mask is not None:
            assert MEANINGS[meaning](mask), "another dtype"
            assert SHAPES[shape](mask, q.shape[2]), "another shape"
            assert len(mask) == len(q), "another number of texts"
            seen = ~hidden(mask, meaning)[SPREAD[shape]]
        q, k = rotate_at_end(q, k)
        scores = q @ k.mT / q.shape[3] ** 0.5
        return scores.masked_fill(~seen, HIDDEN).softmax(-1) @ v

    return call


@pytest.mark.parametrize("meaning", MEANINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_form_of_masks_is_enough(shape, meaning):
    report = diagnose(in_one_form(shape, meaning), dim=16, heads=3)
    assert_report(report)
    assert verdicts(report, "padding") == ["ok"]


@pytest.mark.parametrize(
    ("meaning", "wrong", "notes"),
    [("bools", "", "padding"), ("integers", "", "padding"), ("numbers to add", "mask-ignored", "")],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_mask_that_hides_what_is_seen(shape, meaning, wrong, notes):
    """True may as well mean that a key is hidden."""
    assert_report(diagnose(in_one_form(shape, meaning, hides_the_rest), dim=16, heads=3), wrong, notes)


@pytest.mark.parametrize(
    ("hidden", "wrong", "notes"),
    [
        (hides_nothing, "mask-ignored", ""),
        (hides_on_the_right, "", "padding"),
        (hides_one_more, "padding-counted", ""),
    ],
)
def test_a_mask_that_hides_too_little_or_too_much(hidden, wrong, notes):
    assert_report(diagnose(in_one_form("(b, s)", "bools", hidden), dim=16, heads=3), wrong, notes)


# A mask in place of causality


def causal_or_masked(q, k, v, mask):
    """Rotate, so that positions that count padding change nothing; be causal where no mask is given."""
    q, k = rotate_at_end(q, k)
    return attend_behind(q, k, v) if mask is None else attend(q, k, v, mask)


def heeds(q, k, v, mask=None):
    return causal_or_masked(q, k, v, mask)


def ignores(q, k, v, mask=None):
    """Take a mask and ignore it."""
    return causal_or_masked(q, k, v, None)


def inverts(q, k, v, attention_mask=None):
    """Hide what the mask shows."""
    return causal_or_masked(q, k, v, None if attention_mask is None else ~attention_mask)


def casts_and_inverts(q, k, v, attention_mask=None):
    """Cast the mask to booleans and hide what it shows."""
    return causal_or_masked(q, k, v, None if attention_mask is None else ~attention_mask.bool())


def adds(q, k, v, mask=None):
    """Add the mask to the scores, which is right for 0 and -inf."""
    return causal_or_masked(q, k, v, None if mask is None else mask.to(q.dtype))


def adds_bools(q, k, v, mask=None):
    """Add 1 to the scores of keys that are seen, 0 to those of others."""
    return causal_or_masked(q, k, v, None if mask is None else mask.bool().to(q.dtype))


def indexes(q, k, v, mask=None):
    """Look a mask of 1 and 0 up in two numbers to add, as BERT does."""
    seen = torch.ones(len(q), k.shape[2], dtype=torch.long) if mask is None else mask
    return adds(q, k, v, torch.tensor([HIDDEN, 0.0])[seen][:, None, None])


def hides_negative(q, k, v, mask=None):
    return heeds(q, k, v, None if mask is None else mask >= 0)


@pytest.mark.parametrize(
    ("patient", "wrong"),
    [
        (heeds, ""),
        (adds, ""),
        (indexes, ""),
        (hides_negative, ""),
        (ignores, "mask-ignored"),
        (inverts, "mask-inverted"),
        (casts_and_inverts, "mask-inverted"),
        (adds_bools, "mask-ignored"),
    ],
)
def test_a_mask_hides_padding(patient, wrong):
    report = diagnose(patient)
    assert_report(report, wrong)
    assert verdicts(report, "padding") == ["wrong" if wrong else "ok"]


def without_a_form(q, k, v, mask=None):
    return heeds(q, k, v) if mask is None else 1 / 0


def refuses_what_hides_nothing(q, k, v, mask=None):
    is_refused = mask is not None and (mask.dtype != torch.bool or bool(mask.all()))
    return 1 / 0 if is_refused else heeds(q, k, v, mask)


@pytest.mark.parametrize("patient", [without_a_form, refuses_what_hides_nothing])
def test_a_mask_that_raises_is_not_checked(patient):
    report = diagnose(patient)
    assert_report(report)
    assert verdicts(report, "padding") == ["not checked"]


# Positions that count padding


def with_table(q, k, v, mask, positions):
    added = interleave(positions[..., None] * frequencies(k.shape[-1])).to(q.dtype)
    return attend(q + added[..., k.shape[2] - q.shape[2] :, :], k + added, v, mask)


def counts_padding(q, k, v, mask=None):
    """Count every column, padding too (transformers#22161)."""
    return with_table(q, k, v, mask, torch.arange(k.shape[2]))


def counts_real_tokens(q, k, v, mask=None):
    real = torch.ones(len(k), k.shape[2]) if mask is None else mask[:, 0, 0].float()
    return with_table(q, k, v, mask, (real.cumsum(-1) - 1).clamp(min=0)[:, None])


@pytest.mark.parametrize(("patient", "wrong"), [(counts_real_tokens, ""), (counts_padding, "padding-counted")])
def test_positions_of_a_table_do_not_count_padding(patient, wrong):
    assert_report(diagnose(patient), wrong)


# A layer that takes embeddings and a mask


class Masked(Rotated):
    """Hide padding where the mask is 0."""

    def read(self, mask):
        return mask.bool()[:, None, None]

    def forward(self, x, mask=None):
        self.shown = None if mask is None else self.read(mask)
        return super().forward(x)

    def weights(self, scores):
        return super().weights(scores if self.shown is None else scores.masked_fill(~self.shown, HIDDEN))


class OfEncoder(Masked):
    hides_ahead = False


class OfPairs(Masked):
    """Take a mask for each query and key."""

    def read(self, mask):
        assert mask.shape[1:] == (1, mask.shape[-1], mask.shape[-1])
        return mask.bool()


class OfRows(Masked):
    """Take (b, 1, s)."""

    def read(self, mask):
        assert mask.ndim == 3
        return mask.bool()[:, None]


class OfNumbers(OfPairs):
    """Take 0 and -inf for each query and key."""

    def read(self, mask):
        assert mask.is_floating_point()
        return super().read(mask == 0)


class OfIntegers(Masked):
    def read(self, mask):
        assert mask.dtype == torch.long
        return super().read(mask)


class TrueHides(Masked):
    """Take True for padding, under a name that does not tell."""

    def read(self, mask):
        return ~super().read(mask)


class TruePads(TrueHides):
    """Take True for padding, as the name of the parameter says."""

    def forward(self, x, key_padding_mask=None):
        return super().forward(x, key_padding_mask)


class TrueAttends(TrueHides):
    """Take True for padding, against the name of the parameter."""

    def forward(self, x, attention_mask=None):
        return super().forward(x, attention_mask)


class OnQueries(Masked):
    """Hide queries, not keys."""

    def read(self, mask):
        return mask.bool()[:, None, :, None]


class Unmasked(Masked):
    """Hide nothing."""

    def read(self, mask):
        return torch.ones(1).bool()


class Added(Masked):
    """Add the mask to the scores, which is right for 0 and -inf."""

    def read(self, mask):
        return mask[:, None, None]

    def weights(self, scores):
        return SelfAttention.weights(self, scores if self.shown is None else scores + self.shown.float())


class AddedBools(Added):
    """Add 1 to the scores of keys that are seen."""

    def read(self, mask):
        return mask.bool()[:, None, None]


class QueriesOfRealTokens(Masked):
    """Count real tokens for queries and all for keys, which padding moves apart."""

    def turned(self, q, k):
        positions = torch.arange(q.shape[2])
        if self.shown is None:
            return rotate(q, positions), rotate(k, positions)
        real = (self.shown[:, 0].long().cumsum(-1) - 1).clamp(min=0)
        angles = real[..., None] * frequencies(q.shape[-1])
        return rotate_by(q, angles), rotate(k, positions)


class RotaryEmbedding(nn.Module):
    def forward(self, x):
        return x


class NamedQueriesOfRealTokens(QueriesOfRealTokens):
    """Hold a rotation by name, so that offsets are expected to count alone."""

    def __init__(self):
        super().__init__()
        self.rope = RotaryEmbedding()


@pytest.mark.parametrize(
    ("cls", "wrong", "notes"),
    [
        (Masked, "", ""),
        (OfEncoder, "", "future"),
        (OfPairs, "", ""),
        (OfRows, "", ""),
        (OfNumbers, "", ""),
        (OfIntegers, "", ""),
        (TrueHides, "", "padding"),
        (TruePads, "", ""),
        (TrueAttends, "mask-inverted", ""),
        (Added, "", ""),
        (AddedBools, "mask-ignored", ""),
        (OnQueries, "mask-ignored", ""),
        (Unmasked, "mask-ignored", ""),
        (QueriesOfRealTokens, "padding-counted", ""),
        (NamedQueriesOfRealTokens, "absolute", ""),
    ],
)
def test_a_mask_of_a_layer_hides_padding(cls, wrong, notes):
    assert_report(diagnose(cls(), dim=DIM, heads=HEADS), wrong, notes)


class NeedsMask(SelfAttention):
    """Refuse to go without a mask of booleans, which makes it causal, too."""

    def __init__(self, scale=None):
        super().__init__()
        self.scale = scale

    def forward(self, x, mask=None):
        assert mask is not None
        out = F.scaled_dot_product_attention(*self.project(x), attn_mask=mask, scale=self.scale)
        return self.o_proj(self.joined(out))


@pytest.mark.parametrize(("scale", "wrong"), [(None, ""), (1.0, "scale-missing")])
def test_a_mask_that_cannot_be_left_out(scale, wrong):
    assert_report(diagnose(NeedsMask(scale), dim=DIM), wrong)


# Lengths of texts


def of_lengths(in_turn=False, more=0):
    """Return an attention that hides what lies beyond the length of a text, more or less by some tokens."""

    def call(q, k, v, lengths=None):
        scores = q @ k.mT / q.shape[3] ** 0.5
        if lengths is not None:
            lengths = lengths + more
            each = lengths.repeat(q.shape[1]) if in_turn else lengths.repeat_interleave(q.shape[1])
            beyond = torch.arange(k.shape[2]) >= each.view(len(q), q.shape[1], 1, 1)
            scores = scores.masked_fill(beyond, HIDDEN)
        return scores.softmax(-1) @ v

    return call


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({}, ""),
        ({"in_turn": True}, "rows-mixed"),
        ({"more": 1}, "rows-mixed"),
        ({"more": 5}, "mask-ignored"),
        ({"more": -1}, ""),
    ],
    ids=label,
)
def test_lengths_hide_the_end_of_a_text(settings, wrong):
    assert_report(diagnose(of_lengths(**settings), dim=16, heads=3), wrong)


class OfLengths(SelfAttention):
    """Hide what lies beyond the length of a text, for texts and heads in one row."""

    hides_ahead = False

    def __init__(self, hidden=HIDDEN, in_turn=False):
        super().__init__()
        self.hidden, self.in_turn = hidden, in_turn

    def forward(self, x, valid_lens):
        self.lengths = valid_lens
        return super().forward(x)

    def weights(self, scores):
        if self.lengths is not None:
            each = self.lengths.repeat(HEADS) if self.in_turn else self.lengths.repeat_interleave(HEADS)
            beyond = torch.arange(scores.shape[-1]) >= each[:, None, None]
            scores = scores.flatten(0, 1).masked_fill(beyond, self.hidden).unflatten(0, (-1, HEADS))
        return super().weights(scores)


@pytest.mark.parametrize(
    ("settings", "wrong"), [({}, ""), ({"hidden": 0.0}, "mask-ignored"), ({"in_turn": True}, "rows-mixed")], ids=label
)
def test_each_head_has_the_length_of_its_own_text(settings, wrong):
    assert_report(diagnose(OfLengths(**settings), dim=DIM, heads=HEADS), wrong)
