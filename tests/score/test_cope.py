"""CoPE: counts worked by hand, relative positions where every gate is open, hidden tokens, and the peers."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.score.cope import CoPE, cope
from tests.peers import peer
from tests.score.alike import (
    assert_half_precision_is_rounded_once,
    assert_hidden_tokens_count_for_nothing,
    assert_numpy_wants_one_position_a_token,
    causal,
    content,
    randomized,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"length": 4}]
LEARNED = {"weight"}


def oracle(q, k, positions, key_positions, weight, mask=None):
    """Work out the definition with 60 digits, one pair and one token between at a time."""

    def dot(a, b):
        return mpmath.fsum(mpmath.mpf(float(x)) * mpmath.mpf(float(y)) for x, y in zip(a, b, strict=True))

    with mpmath.workdps(60):
        root, last = mpmath.sqrt(q.shape[-1]), len(weight) - 1
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h, t, s in np.ndindex(scores.shape):
            m, n, keys = positions[t], key_positions[s], k[h * len(k) // len(q)]
            between = [key for key, at in zip(keys, key_positions, strict=True) if n <= at <= m]
            if n <= m:
                count = min(mpmath.fsum(1 / (1 + mpmath.exp(-dot(q[h, t], key) / root)) for key in between), last)
                low = int(count)
                below, above = dot(q[h, t], weight[low]), dot(q[h, t], weight[min(low + 1, last)])
                scores[h, t, s] = below + (above - below) * (count - low)
    return scores


def exercise(module):
    mask = torch.ones(1, 5, dtype=torch.bool)
    module.CoPE(2)(torch.ones(1, 2, 3, 2), torch.ones(1, 1, 5, 2), torch.arange(3), torch.arange(5), mask=mask)


def build(length=5):
    return randomized(CoPE(3, length))


def scores_of(gates, *places, table=range(64)):
    """Return the scores (t, s) of queries of 1 for keys with such gates; by default, a row of the table is its number.

    So the score is the count. Without places there are as many queries as keys.
    """
    module = CoPE(1, len(table)).double()
    module.weight.data[:, 0] = torch.tensor(table)
    k = torch.tensor(gates, dtype=torch.float64).logit().view(1, 1, -1, 1)
    positions = [torch.tensor(place) for place in places]
    t = len(places[0]) if places else len(gates)
    return module(k.new_ones(1, 1, t, 1), k, *positions)[0, 0].detach()


OPEN, SHUT = 1 - 1e-16, 1e-30

# Values worked by hand


def test_the_count_of_a_key_sums_the_gates_from_it_to_the_query():
    scores = scores_of([0.5, 0.25, 0.75])
    np.testing.assert_allclose(scores, [[0.5, 0, 0], [0.75, 0.25, 0], [1.5, 1.0, 0.75]])


def test_a_fraction_of_a_count_interpolates_between_two_rows():
    scores = scores_of([0.5, 0.75], table=[7.0, 1.0, 5.0])
    # the query at 1 counts 1.25 back to key 0 and 0.75 back to key 1
    np.testing.assert_allclose(scores[1], [1 + 0.25 * (5 - 1), 7 + 0.75 * (1 - 7)])


def test_the_same_in_numpy():
    # the key's gate is sigmoid(1 * 0) = 1/2, half way from row 0 to row 1
    np.testing.assert_allclose(cope([[[1.0]]], [[[0.0]]], [0], [0], [[0.0], [2.0]]), [[[1.0]]])


def test_counts_end_at_the_last_row():
    np.testing.assert_allclose(scores_of([OPEN] * 5, table=range(3))[4], [2, 2, 2, 2, 1])


def test_sentences_are_counted_where_only_full_stops_are_relevant():
    scores = scores_of([SHUT, SHUT, OPEN, SHUT, OPEN, SHUT])
    np.testing.assert_allclose(scores[5], [2, 2, 2, 1, 1, 0], atol=1e-15)


def test_with_every_gate_open_it_is_a_table_of_relative_positions_that_counts_from_one():
    q, k = content(t=4, s=7)
    q[..., 0], k[..., 0] = 1.0, 1e4  # every query finds every key relevant
    module, positions = build(length=6), torch.arange(7)
    offset = positions[3:, None] - positions
    table = module.weight[(offset + 1).clamp(0, 5)]  # (t, s, d)
    relative = torch.einsum("bhtd,tsd->bhts", q, table)
    scores = module(q, k, positions[3:], positions)
    torch.testing.assert_close(scores, relative.masked_fill(offset < 0, 0))


def test_keys_at_one_position_count_one_another():
    scores = scores_of([0.5, 0.25, 0.125], [8], [7, 8, 7])
    np.testing.assert_allclose(scores, [[0.875, 0.25, 0.875]])


def test_keys_ahead_of_the_query_score_0_and_are_not_counted():
    scores = scores_of([0.5, 0.5, 0.5], [1], [2, 0, 1])
    np.testing.assert_allclose(scores, [[0.0, 1.0, 0.5]])


def test_positions_order_the_tokens_and_their_gaps_do_not_matter():
    q, k = content()
    near, far = torch.arange(6), torch.tensor([-3.5, 0.25, 7, 8, 10_000, 10**7], dtype=torch.float64)
    assert torch.equal(build()(q, k, near, near), build()(q, k, far, far))


def test_the_table_has_64_rows_and_starts_at_zero():
    weight = CoPE(8).weight
    assert weight.shape == (64, 8)
    assert not weight.any()


# Hidden tokens


def test_hidden_tokens_count_as_if_they_were_not_there():
    assert_hidden_tokens_count_for_nothing(build())


def test_documents_whose_positions_restart_need_a_mask():
    q, k = content()
    module, positions = build(), torch.tensor([0, 1, 2, 0, 1, 2])
    document = torch.tensor([0, 0, 0, 1, 1, 1])
    alone = module(q[:, :, 3:], k[:, :, 3:])
    masked = module(q, k, positions, positions, mask=document[:, None] == document)
    torch.testing.assert_close(causal(masked[..., 3:, 3:]), causal(alone))
    assert not torch.allclose(causal(module(q, k, positions, positions)[..., 3:, 3:]), causal(alone))


@pytest.mark.parametrize("shape", [(6,), (4, 1, 6), (2, 4, 6, 6), ()], ids=str)
def test_a_mask_of_any_broadcastable_shape_is_that_of_the_numpy_function(shape):
    q, k = content()
    module = build()
    mask = np.asarray(np.random.default_rng(1).random(shape) < 0.6)
    scores = module(q, k, mask=torch.tensor(mask)).detach()
    masks = np.broadcast_to(mask, (2, 4, 6, 6))
    for row in range(2):
        expected = cope(q[row], k[row], range(6), range(6), module.weight.detach(), mask=masks[row])
        np.testing.assert_allclose(scores[row], expected, atol=1e-12)


# Edges


@pytest.mark.parametrize(("t", "s"), [(0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build())


def test_counts_of_ten_thousand_tokens_stay_exact_in_float32():
    gates = np.random.default_rng(0).uniform(0, 0.01, 10_000)
    module = CoPE(1, 100)
    module.weight.data[:, 0] = torch.arange(100)
    k = torch.tensor(gates).logit().float().view(1, 1, -1, 1)
    scores = module(torch.ones(1, 1, 1, 1), k, torch.tensor([9_999]), torch.arange(10_000)).flatten()
    np.testing.assert_allclose(scores.detach(), np.cumsum(gates[::-1])[::-1], rtol=3e-6)


def test_content_that_is_not_a_number_stays_so_and_breaks_nothing_else():
    q, k = content()
    q[0, 0, 2] = math.nan
    scores = build()(q, k)
    assert scores[0, 0, 2, :3].isnan().all()
    assert scores.isnan().sum() == 3


# Peers


@vectors("cope")
def test_vectors(vector):
    inputs = {name: np.array(value) for name, value in vector["inputs"].items()}
    q, logits = inputs["q"][0, 0], inputs["scaled_logits_masked"][0, 0]
    # the vector holds the logits of a key, not the key: find one that has them where they are not masked
    k = [np.linalg.lstsq(q[s:] / 2, logits[s:, s], rcond=None)[0] for s in range(5)]
    scores = cope([q], [k], range(5), range(5), inputs["pos_emb"])
    assert_agrees(vector, scores[None], vector["expected"]["cope_bias_lower_triangle_valid"])


def x_transformers_scores(module, q, k, hidden):
    theirs = peer("x_transformers.x_transformers").CoPE(dim=3, heads=4, max_pos=len(module.weight)).double()
    theirs.pos_emb.data = module.weight.data
    logits = q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(3)
    return theirs(q, logits.masked_fill(hidden, -torch.finfo(logits.dtype).max))


@pytest.mark.parametrize("t", [7, 3])
def test_equals_x_transformers_on_the_pairs_that_causal_attention_keeps(t):
    q, k = content(t=t, s=7)
    module = build()
    ahead = torch.ones(t, 7, dtype=torch.bool).triu(8 - t)
    scores = module(q, k, torch.arange(7 - t, 7), torch.arange(7))
    torch.testing.assert_close(causal(scores), causal(x_transformers_scores(module, q, k, ahead)))


def test_equals_x_transformers_where_padding_is_masked():
    q, k = content()
    module = build()
    padding = torch.tensor([[True, True, False, False, False, False], [False] * 6])[:, None, None]
    hidden = padding | torch.ones(6, 6, dtype=torch.bool).triu(1)
    theirs = x_transformers_scores(module, q, k, hidden)
    kept = ~hidden.expand_as(theirs)
    torch.testing.assert_close(module(q, k, mask=~padding)[kept], theirs[kept])


# What is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.ones(2, 4, 6, 3).long()}, r"q must be floating point, got torch\.int64"),
        ({"k": torch.ones(2, 2, 3, 3)}, "positions must be given for 6 queries and 3 keys, got None"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(changes, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"cope: {message}"):
        build()(**{"q": q, "k": k} | changes)


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(cope, np.ones((5, 4)))
