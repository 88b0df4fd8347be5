"""How a bias is called: by lengths, offsets, embeddings, contents, masks or scores; and what is no bias."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report
from tests.doctor.bias.patients import bucket
from tests.doctor.blocks import noise, offsets, penalty, slopes


def of_scores(attention_scores):
    h, t, s = attention_scores.shape[1:]
    return attention_scores + penalty(h, t, s)


def of_queries_and_keys(query, key):
    return penalty(query.shape[1], query.shape[2], key.shape[2])


def of_queries_keys_and_mask(q, k, mask=None):
    return penalty(q.shape[1], q.shape[2], k.shape[2])


def of_a_mask(n_heads, mask):
    return (mask.cumsum(-1) * slopes(n_heads)[:, None])[:, None]


def of_a_mask_heads_last(n_heads, mask):
    return mask.cumsum(-1)[..., None] * slopes(n_heads)


def compute_position_bias(x, num_buckets=32):
    return noise(num_buckets, 4)[bucket(offsets(x.shape[1], x.shape[1]))].permute(2, 0, 1)[None]


def of_its_own_length(heads, length=9):
    return penalty(heads, length, length)


def of_embeddings(x, mask=None):
    return penalty(4, x.shape[1], x.shape[1])


def bias_of_batch(batch_size, heads, t):
    assert batch_size == 1
    return -(torch.arange(1, heads + 1) / heads)[:, None, None] * offsets(t, t).abs()


@pytest.mark.parametrize(
    ("patient", "kind"),
    [
        (of_scores, None),
        (of_queries_and_keys, None),
        (of_queries_keys_and_mask, "bias"),
        (of_a_mask, None),
        (of_a_mask_heads_last, None),
        (compute_position_bias, None),
        (of_its_own_length, "bias"),
        (of_embeddings, "bias"),
        (bias_of_batch, None),
    ],
)
def test_a_bias_is_called_by_what_its_layer_has(patient, kind):
    report = diagnose(patient, kind=kind)
    assert report.kind == "bias"
    assert_report(report)


NO_BIAS = {
    "nothing": lambda: None,
    "a text": lambda: "",
    "one place": lambda: torch.zeros(1, 1),
    "no square": lambda: torch.zeros(4, 3),
    "no squares": lambda: torch.zeros(5, 3, 2),
    "one column": lambda: torch.zeros(3, 1),
    "slopes with an axis too many": lambda heads: torch.zeros(heads, 3),
    "scores doubled": lambda logits: 2 * logits + 1,
    "scores as they are": lambda attention_scores: attention_scores,
    "weights": lambda attention_scores: attention_scores.softmax(-1),
    "zeros": lambda attention_scores: 0 * attention_scores,
    "products of queries and keys": lambda q, k: q @ k.mT + penalty(q.shape[1], q.shape[2], k.shape[2]),
}


@pytest.mark.parametrize("name", NO_BIAS)
def test_what_is_no_bias_is_refused(name):
    with pytest.raises(ValueError, match=r"doctor: function must be .*got"):
        diagnose(NO_BIAS[name], kind="bias")
