"""Forget: products of gates by hand, ALiBi and a recurrence as special cases, hidden tokens, long texts, the peers."""

import math

import mpmath
import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from posenc.score.forget import Forget, forget
from tests.peers import peer
from tests.score.alike import (
    WRONG_CONTENT,
    assert_hidden_tokens_count_for_nothing,
    assert_numpy_wants_one_position_a_token,
    assert_the_score_mod_takes_rows_as_they_lie,
    causal,
    content,
    randomized,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"initial": 5.0}]
LEARNED = {"weight", "bias"}


def oracle(q, k, positions, key_positions, weight=None, bias=None, gates=None, mask=None):
    """Sum the definition with 60 digits, one pair and one token between at a time."""
    with mpmath.workdps(60):
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h in range(len(q)):
            fades = []
            for key in k[h * len(k) // len(q)]:
                logit = mpmath.fsum(mpmath.mpf(float(a)) * float(w) for a, w in zip(key, weight[h], strict=True))
                fades.append(-mpmath.log(1 + mpmath.exp(-logit - float(bias[h]))))
            for t, s in np.ndindex(scores.shape[1:]):
                m, n = positions[t], key_positions[s]
                scores[h, t, s] = mpmath.fsum(f for f, at in zip(fades, key_positions, strict=True) if n < at <= m)
    return scores


def exercise(module):
    q, k = torch.ones(2, 2, 3, 2), torch.ones(2, 1, 5, 2)
    encoding = module.Forget(2, 2)
    encoding(q, k, torch.arange(3), torch.arange(5), mask=torch.ones(2, 1, 3, 5, dtype=torch.bool))
    encoding.score_mod(q, k, torch.arange(3), torch.arange(5))
    module.forget(*np.ones((2, 1, 2, 2)), range(2), range(2), gates=np.ones((1, 2)), mask=np.ones((2, 2), dtype=bool))


def build():
    return randomized(Forget(3, 4))


def random_gates(h=4, s=6):
    """Return logits of gates (2, h, s)."""
    return torch.tensor(np.random.default_rng(1).normal(size=(2, h, s)))


def remainder(gates, positions=None, key_positions=None):
    """Return exp(score) (t, s), what is left of each key, for one head with these gates between 0 and 1."""
    m = range(len(gates)) if positions is None else positions
    n = range(len(gates)) if key_positions is None else key_positions
    q, k = (torch.zeros(1, 1, len(p), 1, dtype=torch.float64) for p in (m, n))
    logits = torch.tensor([[gates]], dtype=torch.float64).logit()
    return Forget(1, heads=1)(q, k, torch.tensor(m), torch.tensor(n), gates=logits)[0, 0].exp()


# Values worked by hand


def test_what_is_left_of_a_key_is_the_product_of_the_gates_after_it():
    # the gate of the first token, 0.9, counts for no pair
    np.testing.assert_allclose(remainder([0.9, 0.5, 0.25]), [[1, 1, 1], [0.5, 1, 1], [0.5 * 0.25, 0.25, 1]])


def test_a_token_that_shuts_its_gate_hides_all_before_it():
    np.testing.assert_allclose(remainder([0.5, 0.5, 1e-300, 0.5])[3], [0, 0, 0.5, 1], atol=1e-200)


def test_each_head_reads_its_gates_from_the_key_that_heads_share():
    # the second key has logits 1 * 0.25 + 0.5 = 0.75 of the first head and 2 * 0.5 - 1 = 0 of the second
    k = [[[7.0, 7.0], [0.25, 0.5]]]
    scores = forget(np.zeros((2, 2, 2)), k, [0, 1], [0, 1], weight=[[1, 0], [0, 2]], bias=[0.5, -1])
    np.testing.assert_allclose(scores[:, 1, 0], [-math.log(1 + math.exp(-0.75)), -math.log(2)])


def test_keys_at_one_position_forget_nothing_of_one_another():
    np.testing.assert_allclose(remainder([0.5, 0.25, 0.125], [8], [7, 8, 7]), [[0.25, 1, 0.25]])


def test_keys_ahead_of_the_query_score_0_and_forget_nothing():
    expected = [[1, 0.125, 1], [1, 1, 1]]  # the second query stands before all keys
    np.testing.assert_allclose(remainder([0.5, 0.25, 0.125], [1, -1], [2, 0, 1]), expected)


def test_positions_order_the_tokens_and_their_gaps_do_not_matter():
    q, k = content()
    near, far = torch.arange(6), torch.tensor([-3.5, 0.25, 7, 8, 10_000, 10**7], dtype=torch.float64)
    assert torch.equal(build()(q, k, near, near), build()(q, k, far, far))


def test_weights_start_small_and_gates_at_their_initial_logit():
    torch.manual_seed(0)
    encoding = Forget(64, heads=32)
    assert 0.018 < encoding.weight.std() < 0.022
    assert not encoding.bias.any()
    assert Forget(2, heads=3, initial=5.0).bias.tolist() == [5, 5, 5]


# What it equals


def test_one_gate_for_all_tokens_is_causal_alibi():
    slopes = 0.5 ** torch.arange(1, 9, dtype=torch.float64)
    gates = (-slopes).exp().logit()[None, :, None].expand(1, 8, 6)
    q, k = content(b=1, h=8)
    distance = (torch.arange(6)[:, None] - torch.arange(6)).clamp(min=0)
    torch.testing.assert_close(Forget(3, 8)(q, k, gates=gates)[0], -slopes[:, None, None] * distance)


def test_linear_attention_with_these_scores_is_a_recurrence_with_a_forget_gate():
    q, k = content(b=1, h=1, g=1)
    gates, v = random_gates(h=1)[:1], torch.randn(6, 2, dtype=torch.float64)
    decay = Forget(3, 1)(q, k, gates=gates)[0, 0].exp()
    output = (q[0, 0] @ k[0, 0].T * decay).tril() @ v
    state = torch.zeros(3, 2, dtype=torch.float64)
    for p in range(6):
        state = gates[0, 0, p].sigmoid() * state + torch.outer(k[0, 0, p], v[p])
        torch.testing.assert_close(q[0, 0, p] @ state, output[p])


# Gates from elsewhere


def test_gates_replace_the_parameters():
    q, k = content()
    reading, bare = build(), Forget(3, 4)
    del bare.weight, bare.bias
    gates = reading.gates(k)
    torch.testing.assert_close(bare(q, k, gates=gates), reading(q, k))
    torch.testing.assert_close(build()(q, k, gates=gates + 1), bare(q, k, gates=gates + 1))
    with pytest.raises(AttributeError, match="weight"):
        bare(q, k)


def test_gradients_reach_gates_but_that_of_the_first_token():
    gates = random_gates().requires_grad_()
    q, k = content()
    assert torch.autograd.gradcheck(lambda gates: Forget(3, 4)(q, k, gates=gates), (gates,), fast_mode=True)
    Forget(3, 4)(q, k, gates=gates).sum().backward()
    assert not gates.grad[..., 0].any()
    assert gates.grad[..., 1:].all()


# Hidden tokens


def test_hidden_tokens_forget_as_if_they_were_not_there():
    assert_hidden_tokens_count_for_nothing(build())


def test_documents_whose_positions_go_on_need_no_mask():
    q, k = content()
    packed = build()(q, k)
    for document in (slice(0, 2), slice(2, 6)):
        alone = build()(q[:, :, document], k[:, :, document])
        torch.testing.assert_close(packed[..., document, document], alone)


def test_documents_whose_positions_restart_need_a_mask():
    q, k = content()
    encoding, positions = build(), torch.tensor([0, 1, 2, 0, 1, 2])
    document = torch.tensor([0, 0, 0, 1, 1, 1])
    alone = encoding(q[:, :, 3:], k[:, :, 3:])
    masked = encoding(q, k, positions, positions, mask=document[:, None] == document)
    torch.testing.assert_close(causal(masked[..., 3:, 3:]), causal(alone))
    assert not torch.allclose(causal(encoding(q, k, positions, positions)[..., 3:, 3:]), causal(alone))


@pytest.mark.parametrize("shape", [(6,), (4, 1, 6), (2, 4, 6, 6), (6, 1), ()], ids=str)
def test_a_mask_of_any_broadcastable_shape_is_that_of_the_numpy_function(shape):
    q, k = content()
    gates, order = random_gates(), [3, 0, 5, 1, 4, 1]
    mask = np.asarray(np.random.default_rng(1).random(shape) < 0.6)
    scores = Forget(3, 4)(q, k, torch.tensor(order), gates=gates, mask=torch.tensor(mask))
    masks = np.broadcast_to(mask, (2, 4, 6, 6))
    for row in range(2):
        expected = forget(q[row], k[row], order, order, gates=gates[row], mask=masks[row])
        np.testing.assert_allclose(scores[row], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [("b", "h", "t", "s"), ("b", 1, 1, "s"), ("t", "s")], ids=str)
def test_a_mask_compiles_once_for_all_sizes(shape):
    encoding, graphs = build(), []
    compiled = torch.compile(encoding, dynamic=True, fullgraph=True, backend=lambda g, _: graphs.append(g) or g)
    for b, t, s in ((5, 7, 9), (8, 11, 13)):  # no two sizes alike: torch would tie them
        q, k = content(b=b, t=t, s=s)
        mask = torch.rand([{"b": b, "h": 4, "t": t, "s": s}.get(size, size) for size in shape]) > 0.3
        positions = torch.arange(s - t, s), torch.arange(s)
        assert torch.equal(compiled(q, k, *positions, mask=mask), encoding(q, k, *positions, mask=mask))
    assert len(graphs) == 1


# FlexAttention


def test_the_score_mod_takes_gates_and_a_mask_of_keys():
    q, k = content()
    gates, mask = random_gates(), torch.tensor([True, True, False, True, True, False])
    logits = torch.zeros(2, 4, 6, 6, dtype=torch.float64)
    pairs = torch.meshgrid([torch.arange(size) for size in logits.shape], indexing="ij")
    modify = Forget(3, 4).score_mod(q, k, gates=gates, mask=mask)
    torch.testing.assert_close(modify(logits, *pairs), Forget(3, 4)(q, k, gates=gates, mask=mask))


def test_a_score_mod_refuses_a_mask_that_differs_from_query_to_query():
    with pytest.raises(ValueError, match="forget: mask must be one row for all queries, got 6 rows"):
        build().score_mod(*content(), mask=torch.ones(6, 6, dtype=torch.bool))


def test_the_score_mod_takes_rows_as_they_lie():
    q, k = content()
    assert_the_score_mod_takes_rows_as_they_lie(build(), q.float(), k.float())  # as the kernels, in float32


# Edges and precision


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_neighbors_that_float32_cannot_tell_apart_are_no_tie():
    far = [2**24, 2**24 + 1]
    np.testing.assert_allclose(remainder([0.5, 0.25], far, far), [[1, 1], [0.25, 1]])


def test_neighbors_at_the_end_of_a_hundred_thousand_tokens_lose_nothing():
    s, zero = 100_000, torch.tensor(0)
    gates = torch.tensor(np.random.default_rng(0).normal(size=(1, 1, s)), dtype=torch.float32)
    k = torch.zeros(1, 1, s, 1)
    q, positions = k[:, :, :1], (torch.tensor([s - 1]), torch.arange(s))
    expected = logsigmoid(gates[0, 0, -3:].double()).flip(0).cumsum(0).flip(0)
    scores = Forget(1, 1)(q, k, *positions, gates)[0, 0, 0, -4:-1]
    torch.testing.assert_close(scores.double(), expected, rtol=1e-7, atol=0)
    modify = Forget(1, 1).score_mod(q, k, *positions, gates)
    score = modify(torch.zeros(()), zero, zero, zero, torch.tensor(s - 2))
    torch.testing.assert_close(score.double(), expected[-1], rtol=1e-6, atol=0)


# Peers


def test_equals_data_dependent_alibi_of_x_transformers_on_the_pairs_that_causal_attention_keeps():
    theirs = peer("x_transformers.x_transformers").DataDependentAlibi(dim=12, heads=4).double()
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    gates = theirs.to_forget_gates[0](x).mT  # the paper's: read from the tokens, not from the keys
    torch.testing.assert_close(causal(Forget(3, 4)(*content(), gates=gates)), causal(theirs(x)))


def test_x_transformers_starts_its_gates_at_an_initial_bias_of_5():
    theirs = peer("x_transformers.x_transformers").DataDependentAlibi(dim=12, heads=4)
    assert theirs.to_forget_gates[0].bias.tolist() == Forget(12, 4, initial=5.0).bias.tolist()


# What is refused


@pytest.mark.parametrize(("changes", "message"), WRONG_CONTENT)
def test_content_of_two_widths_or_of_integers_is_refused(changes, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"forget: {message}"):
        build()(**{"q": q, "k": k} | changes)


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(forget, gates=np.ones((2, 3)))
