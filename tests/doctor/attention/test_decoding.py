"""A lone query after all keys gets what it gets among all queries: at the end of the keys, and rotated so."""

import pytest
import torch
from torch.nn import functional as F

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.attention.patients import DIM, SelfAttention, behind, every_key, masked
from tests.doctor.blocks import attend, attend_behind, rotate


def first_aligned(q, k, v):
    """Align queries with the first keys, as is_causal=True does."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def causal_if_many(q, k, v):
    """Leave is_causal out for one query alone: several are placed wrong."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)


def rotated_from_zero(q, k, v):
    """Rotate queries as the first tokens, and see the keys behind."""
    q, k = (rotate(part, torch.arange(part.shape[2])) for part in (q, k))
    return attend_behind(q, k, v)


def encoder_from_zero(q, k, v):
    """Rotate queries as the first tokens, which is right where they come together."""
    return attend(*(rotate(part, torch.arange(part.shape[2])) for part in (q, k)), v)


def encoder_from_zero_with_offset(q, k, v, offset=0):
    """Take an offset and ignore it."""
    return encoder_from_zero(q, k, v)


def from_zero_if_causal(q, k, v, causal=False):
    """Rotate queries as the first tokens, causal or not."""
    q, k = (rotate(part, torch.arange(part.shape[2])) for part in (q, k))
    return masked(q, k, v, behind(q, k) if causal else every_key(q, k))


@pytest.mark.parametrize(
    ("patient", "settings", "wrong"),
    [
        (attend_behind, {}, ""),
        (first_aligned, {}, "decode-aligned-first"),
        (causal_if_many, {"dim": 16, "heads": 3}, "offset-ignored"),
        (rotated_from_zero, {}, "offset-ignored"),
        (from_zero_if_causal, {"dim": 16, "heads": 3}, "offset-ignored"),
        (encoder_from_zero_with_offset, {"dim": 16, "heads": 3}, "offset-ignored"),
    ],
)
def test_a_lone_query_stands_at_the_end_of_the_keys(patient, settings, wrong):
    report = diagnose(patient, **settings)
    assert_report(report, wrong)
    assert verdicts(report, "decoding") == ["wrong" if wrong else "ok"]


def test_in_an_encoder_a_lone_query_may_count_from_zero():
    assert_report(diagnose(encoder_from_zero, dim=16, heads=3), notes="decoding")


def test_what_depends_on_no_other_token_is_no_attention():
    with pytest.raises(ValueError, match=r"doctor: function must be .*got"):
        diagnose(lambda q, k, v: q * k + v, dim=16)


class Dropping(SelfAttention):
    """Keep dropout of the weights in eval mode."""

    def weights(self, scores):
        return F.dropout(super().weights(scores), 0.1)


def test_dropout_that_stays_on_is_not_taken_for_mixed_texts():
    assert_report(diagnose(Dropping(), dim=DIM), "dropout-on")
