"""CoPE: counts worked by hand, relative positions where every gate is open, hidden tokens, ties, and the peers."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.score.cope import CoPE, cope
from tests.peers import peer
from tests.score.alike import assert_numpy_wants_one_position_a_token
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"length": 4}]
LEARNED = {"weight"}


def oracle(q, k, positions, key_positions, weight, mask=None):
    """Work out the definition with 60 digits, one pair and one token between at a time."""

    def dot(one, other):
        return mpmath.fsum(mpmath.mpf(float(a)) * mpmath.mpf(float(b)) for a, b in zip(one, other, strict=True))

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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=3, length=5, seed=0):
    """Return a module in float64 whose table has left zero."""
    module = CoPE(dim, length).double()
    module.weight.data = torch.tensor(np.random.default_rng(seed).normal(size=(length, dim)))
    return module


def counter(length=64):
    """Return a module of one channel whose score at a query of 1 is the count itself."""
    module = CoPE(1, length).double()
    module.weight.data[:, 0] = torch.arange(length)
    return module


def gated(*gates):
    """Return keys (1, 1, s, 1) whose gates at a query of 1 are the given ones."""
    return torch.tensor(gates, dtype=torch.float64).logit().view(1, 1, -1, 1)


def ones(t):
    return torch.ones(1, 1, t, 1, dtype=torch.float64)


def causal(scores):
    """Return the scores of the pairs that causal attention keeps."""
    return scores[..., torch.ones(scores.shape[-2:]).tril(scores.shape[-1] - scores.shape[-2]).bool()]


# Values worked by hand


def test_the_count_of_a_key_sums_the_gates_from_it_to_the_query():
    scores = counter()(ones(3), gated(0.5, 0.25, 0.75))[0, 0]
    torch.testing.assert_close(scores, torch.tensor([[0.5, 0, 0], [0.75, 0.25, 0], [1.5, 1.0, 0.75]]).double())


def test_a_fraction_of_a_count_interpolates_between_two_rows():
    module = CoPE(1, 3).double()
    module.weight.data[:, 0] = torch.tensor([7.0, 1.0, 5.0])
    scores = module(ones(2), gated(0.5, 0.75))[0, 0, 1]
    # the query at 1 counts 1.25 back to key 0 and 0.75 back to key 1
    torch.testing.assert_close(scores, torch.tensor([1 + 0.25 * 4, 7 - 0.75 * 6]).double())


def test_counts_end_at_the_last_row():
    scores = counter(length=3)(ones(5), gated(*[1 - 1e-16] * 5))[0, 0, 4]
    torch.testing.assert_close(scores, torch.tensor([2.0, 2, 2, 2, 1]).double())


def test_a_closed_gate_does_not_count():
    gates = [1e-30, 0.5, 1e-30, 1e-30, 0.5]
    scores = counter()(ones(5), gated(*gates))[0, 0, 4]
    torch.testing.assert_close(scores, torch.tensor([1.0, 1.0, 0.5, 0.5, 0.5]).double())


def test_keys_that_are_never_relevant_all_score_row_0():
    (q, k), module = content(), build()
    q[..., 0], k[..., 0] = 1.0, -1e4
    row = (q @ module.weight[0])[..., None].expand(-1, -1, -1, 6)
    torch.testing.assert_close(causal(module(q, k)), causal(row))


def test_one_row_scores_the_query_alone():
    q, k = content()
    expected = (q @ build(length=1).weight.T).expand(-1, -1, -1, 6)
    torch.testing.assert_close(causal(build(length=1)(q, k)), causal(expected))


def test_the_scores_start_at_zero():
    assert not CoPE(3)(*(x.float() for x in content())).any()


# What it equals


def test_with_every_gate_open_it_is_a_table_of_relative_positions_that_counts_from_one():
    q, k = content(t=4, s=7)
    q[..., 0], k[..., 0] = 1.0, 1e4  # every query finds every key relevant
    module, where = build(length=6), torch.arange(7)
    offset = where[3:, None] - where[None, :]
    table = module.weight[(offset + 1).clamp(0, 5)]  # (t, s, d)
    relative = torch.einsum("bhtd,tsd->bhts", q, table)
    scores = module(q, k, where[3:], where)
    torch.testing.assert_close(scores, relative.masked_fill(offset < 0, 0))


def test_sentences_are_counted_where_only_full_stops_are_relevant():
    stops = [1e-30, 1e-30, 1 - 1e-16, 1e-30, 1 - 1e-16, 1e-30]
    scores = counter()(ones(6), gated(*stops))[0, 0, -1]
    torch.testing.assert_close(scores, torch.tensor([2.0, 2, 2, 1, 1, 0]).double())


def test_a_token_more_between_two_moves_them_apart_only_if_it_is_relevant():
    near = counter()(ones(3), gated(0.5, 0.5, 0.5))[0, 0, -1, 0]
    irrelevant = counter()(ones(4), gated(0.5, 1e-30, 0.5, 0.5))[0, 0, -1, 0]
    relevant = counter()(ones(4), gated(0.5, 0.9, 0.5, 0.5))[0, 0, -1, 0]
    torch.testing.assert_close(irrelevant, near)
    torch.testing.assert_close(relevant, near + 0.9)


def test_the_score_does_not_depend_on_the_offset_alone():
    scores = build()(*content())
    assert (scores[0, 0, 3, 1] - scores[0, 0, 4, 2]).abs() > 1e-3


# Positions: any order, ties, keys ahead


@given(seed=seeds, shift=st.integers(-1000, 1000))
@exactly
def test_shifting_all_positions_changes_nothing(seed, shift):
    (q, k), where = content(seed), torch.tensor([3, 1, 4, 1, 5, 9])
    assert torch.equal(build()(q, k, where, where), build()(q, k, where + shift, where + shift))


@given(seed=seeds, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, order):
    (q, k), where = content(seed), torch.tensor([3, 1, 4, 1, 5, 9])
    scores = build()(q, k, where, where)
    torch.testing.assert_close(build()(q, k[:, :, order], where, where[list(order)]), scores[..., order])


@given(seed=seeds, places=st.lists(st.integers(0, 4), min_size=6, max_size=6))
@exactly
def test_ties_and_any_order_follow_the_definition(seed, places):
    q, k = content(seed, b=1, t=3)
    where, module = np.array(places), build()
    scores = module(q, k, torch.tensor([4, 0, 2]), torch.tensor(places))[0]
    expected = oracle(*(x[0].numpy() for x in (q, k)), np.array([4, 0, 2]), where, module.weight.detach().numpy())
    np.testing.assert_allclose(scores.detach(), expected, rtol=1e-9, atol=1e-9)


def test_keys_at_one_position_count_one_another():
    scores = counter()(ones(1), gated(0.5, 0.25, 0.125), torch.tensor([8]), torch.tensor([7, 8, 7]))
    torch.testing.assert_close(scores.flatten(), torch.tensor([0.875, 0.25, 0.875]).double())


def test_keys_ahead_of_the_query_score_0_and_are_not_counted():
    gates, where = gated(0.5, 0.5, 0.5), torch.tensor([2, 0, 1])
    scores = counter()(ones(1), gates, torch.tensor([1]), where).flatten()
    torch.testing.assert_close(scores, torch.tensor([0.0, 1.0, 0.5]).double())


def test_positions_order_the_tokens_and_their_gaps_do_not_matter():
    q, k = content()
    near, far = torch.arange(6), torch.tensor([-3.5, 0.25, 7, 8, 10_000, 10**7])
    assert torch.equal(build()(q, k, near, near), build()(q, k, far.double(), far.double()))


def test_given_places_equal_the_default_ones():
    (q, k), where = content(), torch.arange(6)
    torch.testing.assert_close(build()(q, k, where, where), build()(q, k))
    last = build()(q[:, :, 2:], k, where[2:], where)
    torch.testing.assert_close(last, build()(q, k)[:, :, 2:])


# Hidden tokens


@given(seed=seeds, hidden=st.sets(st.integers(0, 4), max_size=4))
@exactly
def test_hidden_tokens_count_as_if_they_were_not_there(seed, hidden):
    q, k = content(seed)
    kept = [place for place in range(6) if place not in hidden]
    mask = torch.tensor([place in kept for place in range(6)])
    without = build()(q[:, :, kept], k[:, :, kept])
    torch.testing.assert_close(build()(q, k, mask=mask)[:, :, kept][..., kept], without)


def test_documents_packed_one_after_another_need_no_mask():
    (q, k), module = content(), build()
    packed = module(q, k)
    torch.testing.assert_close(packed[..., :2, :2], module(q[:, :, :2], k[:, :, :2]))
    torch.testing.assert_close(packed[..., 2:, 2:], module(q[:, :, 2:], k[:, :, 2:]))


def test_documents_whose_positions_restart_need_one():
    (q, k), module, where = content(), build(), torch.tensor([0, 1, 2, 0, 1, 2])
    document = torch.tensor([0, 0, 0, 1, 1, 1])
    alone = module(q[:, :, 3:], k[:, :, 3:])
    seen = module(q, k, where, where, mask=document[:, None] == document)
    torch.testing.assert_close(causal(seen[..., 3:, 3:]), causal(alone))
    assert not torch.allclose(causal(module(q, k, where, where)[..., 3:, 3:]), causal(alone))


@pytest.mark.parametrize("shape", [(6,), (6, 6), (1, 6, 6), (4, 1, 6), (2, 4, 6, 6), (2, 1, 1, 6), ()], ids=str)
def test_a_mask_of_any_broadcastable_shape_is_that_of_the_numpy_function(shape):
    (q, k), module = content(), build()
    mask = np.asarray(np.random.default_rng(1).random(shape) < 0.6)
    scores, where = module(q, k, mask=torch.tensor(mask)), np.arange(6)
    for row in range(2):
        here = np.broadcast_to(mask, (2, 4, 6, 6))[row]
        expected = cope(q[row], k[row], where, where, module.weight.detach(), mask=here)
        np.testing.assert_allclose(scores[row].detach(), expected, atol=1e-12)


def test_padding_on_the_left_changes_no_score_of_the_text():
    (q, k), (pads, more) = content(), content(seed=1)
    padded = build()(torch.cat([pads, q], dim=2), torch.cat([more, k], dim=2))
    torch.testing.assert_close(padded[..., 6:, 6:], build()(q, k))


def test_padding_at_position_0_counts_for_the_token_there_unless_hidden():
    (q, k), module = content(), build()
    real, where = torch.tensor([0, 0, 1, 1, 1, 1]).bool(), torch.tensor([0, 0, 0, 1, 2, 3])
    alone = module(q[:, :, 2:], k[:, :, 2:])
    torch.testing.assert_close(module(q, k, where, where, mask=real)[..., 2:, 2:], alone)
    counted = module(q, k, where, where)[..., 2:, 2:]
    torch.testing.assert_close(counted[..., 1:], alone[..., 1:])
    assert not torch.allclose(counted[..., 0], alone[..., 0])


# Decoding, grouped heads, edges


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


def test_grouped_heads_equal_repeated_keys():
    q, k = content()
    torch.testing.assert_close(build()(q, k), build()(q, k.repeat_interleave(2, dim=1)))


def test_one_token_counts_itself():
    assert counter()(ones(1), gated(0.25), torch.tensor([7])).item() == pytest.approx(0.25)


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    q, k = content(t=t, s=s)
    assert build()(q, k, torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_no_tokens_have_no_scores_by_default():
    assert build()(*content(t=0, s=0)).shape == (2, 4, 0, 0)


def test_queries_before_all_keys_score_nothing():
    (q, k), places = content(t=8, s=6), (torch.arange(-2, 6), torch.arange(6))
    assert not build()(q, k, *places)[:, :, :2].any()
    torch.testing.assert_close(build()(q, k, *places)[:, :, 2:], build()(q[:, :, 2:], k))


def test_gradients_reach_the_gates_through_the_fractions():
    q, k = content()
    k.requires_grad_()
    build()(q, k).sum().backward()
    assert k.grad.abs().min() > 0


def test_counts_of_ten_thousand_tokens_stay_exact_in_float32():
    gates = np.random.default_rng(0).uniform(0, 0.01, 10_000)
    module = counter(length=100).float()
    places = torch.tensor([9_999]), torch.arange(10_000)
    scores = module(torch.ones(1, 1, 1, 1), gated(*gates).float(), *places).flatten()
    expected = np.cumsum(gates[::-1])[::-1]
    np.testing.assert_allclose(scores.detach(), expected, rtol=3e-6)


def test_content_that_is_not_a_number_stays_so_and_breaks_nothing_else():
    (q, k), module = content(), build()
    q[0, 0, 2] = math.nan
    scores = module(q, k)
    assert scores[0, 0, 2, :3].isnan().all()
    assert scores.isnan().sum() == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_content_is_scored_in_float32_and_rounded_once(dtype):
    q, k = (x.to(dtype) for x in content())
    module = build().float()
    assert torch.equal(module(q, k), module(q.float(), k.float()).to(dtype))


def test_neighbors_that_float32_cannot_tell_apart_are_no_tie():
    where = torch.tensor([2**24, 2**24 + 1])
    scores = counter()(ones(2), gated(0.5, 0.25), where, where)[0, 0]
    torch.testing.assert_close(scores, torch.tensor([[0.5, 0], [0.75, 0.25]]).double())


# Peers


@vectors("cope")
def test_vectors(vector):
    given = {name: np.array(value) for name, value in vector["inputs"].items()}
    q, logits = given["q"][0, 0], given["scaled_logits_masked"][0, 0]
    # the vector holds the logits of a key, not the key: find one that has them where they are not masked
    k = [np.linalg.lstsq(q[s:] / 2, logits[s:, s], rcond=None)[0] for s in range(5)]
    where = np.arange(5)
    scores = cope(q[None], np.array(k)[None], where, where, given["pos_emb"])
    assert_agrees(vector, scores[None], vector["expected"]["cope_bias_lower_triangle_valid"])


def x_transformers_scores(module, q, k, hidden):
    theirs = peer("x_transformers.x_transformers").CoPE(dim=3, heads=4, max_pos=len(module.weight)).double()
    theirs.pos_emb.data = module.weight.data
    logits = q @ k.repeat_interleave(2, dim=1).mT / math.sqrt(3)
    return theirs(q, logits.masked_fill(hidden, -torch.finfo(logits.dtype).max))


@pytest.mark.parametrize("t", [7, 3, 1])
def test_equals_x_transformers_on_the_pairs_that_are_seen(t):
    (q, k), module = content(t=t, s=7), build()
    ahead = torch.ones(t, 7, dtype=torch.bool).triu(8 - t)
    scores = module(q, k, torch.arange(7 - t, 7), torch.arange(7))
    torch.testing.assert_close(causal(scores), causal(x_transformers_scores(module, q, k, ahead)))


def test_equals_x_transformers_where_padding_is_masked():
    (q, k), module = content(), build()
    padding = torch.tensor([[True, True, False, False, False, False], [False] * 6])[:, None, None]
    hidden = padding | torch.ones(6, 6, dtype=torch.bool).triu(1)
    theirs = x_transformers_scores(module, q, k, hidden)
    assert torch.allclose(module(q, k, mask=~padding)[~hidden.expand_as(theirs)], theirs[~hidden.expand_as(theirs)])


# What is refused: what would give a wrong result without an error


def test_content_of_integers_and_queries_without_a_place_are_refused():
    (q, k), module = content(), build()
    with pytest.raises(ValueError, match=r"cope: q must be floats \(b, h, t, d\), got torch\.int64"):
        module(q.long(), k)
    with pytest.raises(ValueError, match="cope: positions must be given for 6 queries and 3 keys, got None"):
        module(q, k[:, :, :3])
    with pytest.raises(ValueError, match="cope: key_positions must be given for 6 queries and 3 keys, got None"):
        module(q, k[:, :, :3], torch.arange(6))


@pytest.mark.parametrize("where", [torch.arange(4096), torch.tensor([3]), torch.zeros(2, 1)], ids=str)
def test_another_number_of_positions_is_refused_by_torch_in_numbers(where):
    (q, k), module = content(), build()
    for places in ({"positions": where}, {"key_positions": where, "positions": torch.arange(6)}):
        with pytest.raises(RuntimeError, match=rf"sizes .* don't multiply up to .*\({where.shape[-1]}\)"):
            module(q, k, **places)


def test_one_row_of_positions_serves_a_batch():
    (q, k), module, one = content(), build(), torch.tensor([[3, 0, 9, 7, 7, 1]])
    rows = torch.tensor([[5, 0, 1, 2, 9, 3], [4, 4, 0, 8, 1, 2]])
    for m, n in ((one, one), (one, rows), (rows, one), (one[0], rows)):
        assert torch.equal(module(q, k, m, n), module(q, k, m.expand(2, 6), n.expand(2, 6)))


@pytest.mark.parametrize("mask", [torch.ones(6), torch.ones(6, dtype=torch.long)], ids=["floats", "integers"])
def test_a_mask_that_is_not_boolean_is_refused_by_torch(mask):
    with pytest.raises((TypeError, RuntimeError), match=r"bitwise_and|boolean"):
        build()(*content(), mask=mask)


def test_the_numpy_function_takes_one_position_a_token_and_lists():
    assert_numpy_wants_one_position_a_token(cope, np.ones((5, 4)))
    scores = cope([[[1.0]]], [[[0.0]]], [0], [0], [[0.0], [2.0]])
    np.testing.assert_allclose(scores, [[[1.0]]])


def test_the_table_has_64_rows_by_default():
    assert CoPE(8).weight.shape == (64, 8)
