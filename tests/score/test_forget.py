"""Forget: sums worked by hand, ALiBi where all gates are one, hidden tokens, ties, FlexAttention, and the peers."""

import inspect
import math
import warnings

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.score.forget import Forget, forget
from tests.peers import peer
from tests.score.alike import (
    assert_numpy_wants_one_position_a_token,
    assert_one_row_serves_a_batch,
    assert_refused_with_numbers,
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries, keys and logits of gates in float64."""
    rng = np.random.default_rng(seed)
    return tuple(torch.tensor(rng.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d), (b, h, s)))


def build(dim=3, heads=4, seed=0):
    """Return a module in float64 with random weights."""
    module = Forget(dim, heads).double()
    rng = np.random.default_rng(seed)
    module.weight.data, module.bias.data = (torch.tensor(rng.normal(size=size)) for size in ((heads, dim), heads))
    return module


given_gates = Forget(3, 4)


def of_gates(*gates, positions=None, key_positions=None, mask=None):
    """Return what is left of each key (t, s) for one head whose gates are the given ones."""
    logits = torch.tensor(gates, dtype=torch.float64).logit().view(1, 1, -1)
    t, x = len(gates) if positions is None else len(positions), torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    module = Forget(1, 1)
    made = module(x.expand(1, 1, t, 1), x.expand(1, 1, len(gates), 1), positions, key_positions, logits, mask)
    return made[0, 0].exp()


def causal(scores):
    """Return the scores of the pairs that causal attention keeps."""
    return scores[..., torch.ones(scores.shape[-2:]).tril(scores.shape[-1] - scores.shape[-2]).bool()]


# Values worked by hand


def test_what_is_left_of_a_key_is_the_product_of_the_gates_after_it():
    left = of_gates(0.9, 0.5, 0.25)
    torch.testing.assert_close(left, torch.tensor([[1, 1, 1], [0.5, 1, 1], [0.125, 0.25, 1]]).double())


def test_the_gate_of_the_first_token_touches_nothing():
    torch.testing.assert_close(of_gates(0.9, 0.5, 0.25), of_gates(0.1, 0.5, 0.25), rtol=1e-14, atol=0)


def test_a_token_that_shuts_its_gate_hides_all_before_it():
    left = of_gates(0.5, 0.5, 1e-300, 0.5)
    torch.testing.assert_close(left[3], torch.tensor([0, 0, 0.5, 1]).double())


def test_gates_are_read_from_the_keys_of_each_head():
    module = Forget(2, heads=2).double()
    module.weight.data, module.bias.data = torch.tensor([[1.0, 0], [0, 2]]).double(), torch.tensor([0.5, -1]).double()
    k = torch.tensor([[7.0, 7.0], [0.25, 0.5]]).double().expand(1, 2, 2, 2)
    scores = module(torch.zeros(1, 2, 2, 2).double(), k)
    expected = [[math.log(1 / (1 + math.exp(-0.75)))], [math.log(1 / (1 + math.exp(-0.0)))]]
    torch.testing.assert_close(scores[0, :, 1, :1], torch.tensor(expected).double())


def test_the_bias_starts_at_its_initial_value_and_the_weight_is_small():
    torch.manual_seed(0)
    module = Forget(64, heads=32, initial=5.0)
    assert module.bias.unique().tolist() == [5.0]
    assert 0.018 < module.weight.std() < 0.022


def test_the_scores_are_at_most_0():
    assert (build()(*content()[:2]) <= 0).all()


# What it equals


@given(logit=st.floats(-20, 20))
@exactly
def test_with_one_gate_for_all_it_is_causal_alibi(logit):
    where, x = torch.arange(6), torch.zeros(1, 2, 6, 1).double()
    scores = Forget(1, 2)(x, x, gates=torch.full((1, 2, 6), logit, dtype=torch.float64))
    slope = float(np.logaddexp(0, -logit))  # -ln sigmoid
    alibi = -slope * (where[:, None] - where).clamp(min=0).double()
    torch.testing.assert_close(scores[0, 1], alibi, rtol=1e-10, atol=1e-10)


def test_the_slopes_of_alibi_are_gates():
    slopes = 0.5 ** torch.arange(1, 9).double()  # 8 heads
    gates = -torch.expm1(slopes).log()[None, :, None].expand(1, 8, 5)  # sigmoid of it is exp(-slope)
    x = torch.zeros(1, 8, 5, 1).double()
    scores = Forget(1, 8)(x, x, gates=gates)
    torch.testing.assert_close(scores[0, :, 4, 1], -3 * slopes)


def test_open_gates_leave_attention_as_it_is():
    q, k, gates = content()
    assert not given_gates(q, k, gates=torch.full_like(gates, math.inf)).any()


def test_the_gates_of_attention_decay_as_those_of_a_recurrence_do():
    q, k, gates = content(b=1, h=1, g=1, t=6)
    fade, v = gates[0, 0].sigmoid(), torch.tensor(np.random.default_rng(9).normal(size=(6, 2)))
    linear = (q[0, 0] @ k[0, 0].T * Forget(3, 1)(q, k, gates=gates)[0, 0].exp()).tril() @ v
    state = torch.zeros(3, 2).double()
    for p in range(6):
        state = fade[p] * state + torch.outer(k[0, 0, p], v[p])
        torch.testing.assert_close(q[0, 0, p] @ state, linear[p])


# Positions: any order, ties, keys ahead


@given(seed=seeds, shift=st.integers(-1000, 1000))
@exactly
def test_shifting_all_positions_changes_nothing(seed, shift):
    (q, k, _), where = content(seed), torch.tensor([3, 1, 4, 1, 5, 9])
    assert torch.equal(build()(q, k, where, where), build()(q, k, where + shift, where + shift))


@given(seed=seeds, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, order):
    (q, k, gates), where = content(seed), torch.tensor([3, 1, 4, 1, 5, 9])
    scores = given_gates(q, k, where, where, gates)
    moved = given_gates(q, k[:, :, order], where, where[list(order)], gates[..., order])
    torch.testing.assert_close(moved, scores[..., order])


@given(seed=seeds, places=st.lists(st.integers(0, 4), min_size=6, max_size=6))
@exactly
def test_ties_and_any_order_follow_the_definition(seed, places):
    q, k, _ = content(seed, b=1, t=3)
    module, where = build(), np.array([4, 0, 2])
    scores = module(q, k, torch.tensor(where), torch.tensor(places))[0]
    weights = (parameter.detach().numpy() for parameter in (module.weight, module.bias))
    expected = oracle(q[0].numpy(), k[0].numpy(), where, np.array(places), *weights)
    np.testing.assert_allclose(scores.detach(), expected, rtol=1e-9, atol=1e-9)


@given(seed=seeds)
@exactly
def test_what_is_forgotten_adds_up_along_the_way(seed):
    q, k, gates = content(seed)
    scores = given_gates(q, k, gates=gates)
    torch.testing.assert_close(scores[..., 5, 1], scores[..., 5, 3] + scores[..., 3, 1])


def test_keys_at_one_position_forget_nothing_of_one_another():
    left = of_gates(0.5, 0.25, 0.125, positions=torch.tensor([8]), key_positions=torch.tensor([7, 8, 7]))
    torch.testing.assert_close(left, torch.tensor([[0.25, 1, 0.25]]).double())


def test_keys_ahead_of_the_query_score_0_and_forget_nothing():
    left = of_gates(0.5, 0.25, 0.125, positions=torch.tensor([1]), key_positions=torch.tensor([2, 0, 1]))
    torch.testing.assert_close(left, torch.tensor([[1, 0.125, 1]]).double())


def test_positions_order_the_tokens_and_their_gaps_do_not_matter():
    q, k, _ = content()
    near, far = torch.arange(6), torch.tensor([-3.5, 0.25, 7, 8, 10_000, 10**7]).double()
    assert torch.equal(build()(q, k, near, near), build()(q, k, far, far))


def test_neighbors_that_float32_cannot_tell_apart_are_no_tie():
    where = torch.tensor([2**24, 2**24 + 1])
    left = of_gates(0.5, 0.25, positions=where, key_positions=where)
    torch.testing.assert_close(left, torch.tensor([[1, 1], [0.25, 1]]).double())


@pytest.mark.parametrize(("m", "n"), [((6,), (2, 6)), ((2, 6), (6,)), ((2, 6), (2, 6))], ids=str)
def test_positions_may_have_a_batch_on_either_side(m, n):
    (q, k, _), rng, module = content(), np.random.default_rng(0), build()
    m, n = (torch.tensor(rng.integers(0, 9, shape)) for shape in (m, n))
    for row in range(2):
        ours = module(q, k, m, n)[row]
        alone = module(q[row : row + 1], k[row : row + 1], m.expand(2, 6)[row], n.expand(2, 6)[row])
        torch.testing.assert_close(ours, alone[0])


def test_one_row_of_positions_serves_a_batch():
    q, k, _ = content()
    assert_one_row_serves_a_batch(build(), q, k, torch.zeros(()))


@pytest.mark.parametrize("shape", [("b", "h", "t", "s"), (1, "h", "t", "s"), ("b", 1, 1, "s"), ("t", "s")], ids=str)
def test_a_mask_compiles_once_where_even_the_heads_are_a_symbol(shape):
    module, made = build(), []
    compiled = torch.compile(module, dynamic=True, fullgraph=True, backend=lambda g, _: made.append(g) or g)
    for b, t, s in ((5, 7, 9), (8, 11, 13)):  # no two sizes alike: torch would tie them
        q, k, gates = content(b=b, t=t, s=s)
        mask = torch.rand([{"b": b, "h": 4, "t": t, "s": s}.get(size, size) for size in shape]) > 0.3
        places = torch.arange(s - t, s), torch.arange(s)
        assert torch.equal(compiled(q, k, *places, gates, mask), module(q, k, *places, gates, mask))
    assert len(made) == 1


def test_given_places_equal_the_default_ones():
    (q, k, _), where = content(), torch.arange(6)
    assert torch.equal(build()(q, k, where, where), build()(q, k))
    assert torch.equal(build()(q[:, :, 2:], k, where[2:], where), build()(q, k)[:, :, 2:])


# Hidden tokens


@given(seed=seeds, hidden=st.sets(st.integers(0, 4), max_size=4))
@exactly
def test_hidden_tokens_forget_as_if_they_were_not_there(seed, hidden):
    q, k, _ = content(seed)
    kept = [place for place in range(6) if place not in hidden]
    mask = torch.tensor([place in kept for place in range(6)])
    without = build()(q[:, :, kept], k[:, :, kept])
    torch.testing.assert_close(build()(q, k, mask=mask)[:, :, kept][..., kept], without)


def test_documents_packed_one_after_another_need_no_mask():
    (q, k, _), module = content(), build()
    packed = module(q, k)
    torch.testing.assert_close(packed[..., :2, :2], module(q[:, :, :2], k[:, :, :2]))
    torch.testing.assert_close(packed[..., 2:, 2:], module(q[:, :, 2:], k[:, :, 2:]))


def test_documents_whose_positions_restart_need_one():
    (q, k, _), module, where = content(), build(), torch.tensor([0, 1, 2, 0, 1, 2])
    document = torch.tensor([0, 0, 0, 1, 1, 1])
    alone = module(q[:, :, 3:], k[:, :, 3:])
    seen = module(q, k, where, where, mask=document[:, None] == document)
    torch.testing.assert_close(causal(seen[..., 3:, 3:]), causal(alone))
    assert not torch.allclose(causal(module(q, k, where, where)[..., 3:, 3:]), causal(alone))


@pytest.mark.parametrize("shape", [(6,), (6, 6), (1, 6, 6), (4, 1, 6), (2, 4, 6, 6), (2, 1, 1, 6), (6, 1), ()], ids=str)
def test_a_mask_of_any_broadcastable_shape_is_that_of_the_numpy_function(shape):
    q, k, gates = content()
    mask = np.asarray(np.random.default_rng(1).random(shape) < 0.6)
    scores, where = given_gates(q, k, gates=gates, mask=torch.tensor(mask)), np.array([0, 1, 2, 3, 4, 5])
    for row in range(2):
        here = np.broadcast_to(mask, (2, 4, 6, 6))[row]
        x, y, logits = (given_ones[row].numpy() for given_ones in (q, k, gates))
        np.testing.assert_allclose(scores[row], forget(x, y, where, where, gates=logits, mask=here))


def test_a_mask_counts_in_the_order_of_positions():
    (q, k, gates), where = content(b=1), torch.tensor([3, 0, 5, 1, 4, 2])
    mask = np.random.default_rng(1).random((6, 6)) < 0.6
    scores = given_gates(q, k, where, where, gates, torch.tensor(mask))
    x, y, where, logits = q[0].numpy(), k[0].numpy(), where.numpy(), gates[0].numpy()
    np.testing.assert_allclose(scores[0], forget(x, y, where, where, gates=logits, mask=mask), atol=1e-12)


@pytest.mark.parametrize("where", [[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]], ids=["counted", "at 0"])
def test_padding_on_the_left_changes_no_score_of_the_text(where):
    (q, k, _), module, where = content(), build(), torch.tensor(where)
    torch.testing.assert_close(module(q, k, where, where)[..., 2:, 2:], module(q[:, :, 2:], k[:, :, 2:]))


# Decoding, grouped heads, edges, precision


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k, _), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


def test_grouped_heads_read_their_own_gates_from_the_key_they_share():
    (q, k, _), module = content(), build()
    torch.testing.assert_close(module(q, k), module(q, k.repeat_interleave(2, dim=1)))
    assert not torch.allclose(module(q, k)[:, 0], module(q, k)[:, 1])


def test_gates_given_are_those_that_would_be_read():
    (q, k, _), module = content(), build()
    logits = torch.einsum("bhsd,hd->bhs", k.repeat_interleave(2, dim=1), module.weight) + module.bias[:, None]
    torch.testing.assert_close(given_gates(q, k, gates=logits), module(q, k))
    torch.testing.assert_close(build(seed=1)(q, k, gates=logits), module(q, k))


def test_what_is_read_can_be_looked_at():
    (_, k, _), module = content(), build()
    logits = torch.einsum("bhsd,hd->bhs", k.repeat_interleave(2, dim=1), module.weight) + module.bias[:, None]
    torch.testing.assert_close(module.gates(k), logits)


def test_without_parameters_gates_must_be_given():
    (q, k, gates), module = content(), Forget(3, 4)
    del module.weight, module.bias
    assert not module.state_dict()
    torch.testing.assert_close(module(q, k, gates=gates), given_gates(q, k, gates=gates))
    with pytest.raises(AttributeError, match="weight"):
        module(q, k)


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_few_tokens_or_none(t, s):
    q, k, _ = content(t=t, s=s)
    scores = build()(q, k, torch.arange(t), torch.arange(s))
    assert scores.shape == (2, 4, t, s)
    assert not scores.any()


def test_no_tokens_have_no_scores_by_default():
    assert build()(*content(t=0, s=0)[:2]).shape == (2, 4, 0, 0)


def test_queries_before_all_keys_score_nothing():
    (q, k, _), places = content(t=8, s=6), (torch.arange(-2, 6), torch.arange(6))
    assert not build()(q, k, *places)[:, :, :2].any()
    torch.testing.assert_close(build()(q, k, *places)[:, :, 2:], build()(q[:, :, 2:], k))


def test_neighbors_at_the_end_of_a_hundred_thousand_tokens_lose_nothing():
    gates = torch.tensor(np.random.default_rng(0).normal(size=(1, 1, 100_000)), dtype=torch.float32)
    x, where = torch.zeros(1, 1, 100_000, 1), torch.arange(100_000)
    scores = Forget(1, 1)(x[:, :, :2], x, where[-2:], where, gates=gates)[0, 0, 1, -4:].double()
    tail = torch.nn.functional.logsigmoid(gates[0, 0, -3:].double())
    torch.testing.assert_close(scores, torch.cat([tail.flip(0).cumsum(0).flip(0), torch.zeros(1)]), rtol=1e-7, atol=0)


def test_so_do_those_of_a_score_mod():
    gates = torch.tensor(np.random.default_rng(0).normal(size=(1, 1, 100_000)), dtype=torch.float32)
    x, zero = torch.zeros(1, 1, 100_000, 1), torch.tensor(0)
    modify = Forget(1, 1).score_mod(x, x, gates=gates)
    made = modify(torch.zeros(()), zero, zero, torch.tensor(99_999), torch.tensor(99_998))
    torch.testing.assert_close(made, torch.nn.functional.logsigmoid(gates[0, 0, -1]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_content_is_scored_in_full_and_rounded_once(dtype):
    q, k, _ = (x.to(dtype) for x in content())
    module = build()
    assert torch.equal(module(q, k), module(q.double(), k.double()).to(dtype))


@pytest.mark.parametrize("readout", [False, True])
def test_gradients_reach_the_gates(readout):
    q, k, gates = content()
    x = (k if readout else gates).requires_grad_()
    (build()(q, k) if readout else given_gates(q, k, gates=gates)).square().sum().backward()
    assert x.grad.isfinite().all()
    after_the_first = x.grad[:, :, 1:]  # whose gate counts for no pair
    assert after_the_first.abs().min() > 0


def test_the_gates_start_half_open():
    assert inspect.signature(Forget).parameters["initial"].default == 0


# FlexAttention


def test_flex_attention_takes_the_score_mod():
    from torch.nn.attention.flex_attention import flex_attention

    q, k, gates = (x.float() for x in content(d=16, s=8))
    v, padding = torch.randn(2, 2, 8, 16), torch.tensor([1, 1, 0, 1, 1, 0, 1, 1]).bool()
    module, places = Forget(16, 4), (torch.arange(2, 8), torch.arange(8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that it is slow where it is not compiled
        modify = module.score_mod(q, k, *places, gates, padding)
        made = flex_attention(q, k, v, score_mod=modify, enable_gqa=True)
    bias = module(q, k, *places, gates, padding)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
    torch.testing.assert_close(made, expected)


def test_a_score_mod_refuses_a_mask_that_differs_from_query_to_query():
    q, k, gates = content()
    with pytest.raises(ValueError, match="forget: mask must be one row for all queries, got 6 rows"):
        given_gates.score_mod(q, k, gates=gates, mask=torch.ones(6, 6).bool())


# Peers


def test_equals_data_dependent_alibi_of_x_transformers_on_the_pairs_that_are_seen():
    theirs = peer("x_transformers.x_transformers").DataDependentAlibi(dim=12, heads=4).double()
    x = torch.tensor(np.random.default_rng(0).normal(size=(2, 6, 12)))
    q, k, _ = content()
    gates = theirs.to_forget_gates[0](x).mT  # the paper's: read from the tokens, not from the keys
    torch.testing.assert_close(causal(given_gates(q, k, gates=gates)), causal(theirs(x)))


def test_x_transformers_starts_its_gates_at_an_initial_bias_of_5():
    theirs = peer("x_transformers.x_transformers").DataDependentAlibi(dim=12, heads=4)
    assert theirs.to_forget_gates[0].bias.tolist() == Forget(12, 4, initial=5.0).bias.tolist()


# What is refused: what would give a wrong result without an error


def test_positions_that_do_not_fit_are_refused_with_numbers():
    others = [(torch.arange(4096), "(4096,)"), (torch.tensor([3]), "(1,)"), (torch.zeros(2, 1), "(2, 1)")]
    assert_refused_with_numbers(build(), *content()[:2], "6 a row", others)


@pytest.mark.parametrize("way", ["forward", "score_mod"])
def test_content_of_another_width_or_of_integers_is_refused(way):
    (q, k, gates), call = content(), getattr(build(), way)
    with pytest.raises(ValueError, match=r"forget: q and k must be floats of one width, got .* of width 3 and 2"):
        call(q, k[..., :2], gates=gates)
    with pytest.raises(ValueError, match=r"forget: q and k must be floats of one width, got torch.int64 of width 3"):
        call(q.long(), k)


@pytest.mark.parametrize("gates", [torch.ones(2, 2, 6), torch.ones(2, 8, 6), torch.ones(2, 4, 5)], ids=str)
def test_gates_of_other_heads_or_tokens_are_refused_by_torch(gates):
    with pytest.raises(RuntimeError, match=r"expand"):
        build()(*content()[:2], gates=gates)
    with pytest.raises(RuntimeError, match=r"expand"):
        Forget(3, 2).double()(*content()[:2])  # which reads gates for two heads


@pytest.mark.parametrize("mask", [torch.ones(6), torch.ones(6).long(), torch.ones(3, 6).bool()], ids=str)
def test_a_mask_of_another_kind_or_size_is_refused_by_torch(mask):
    with pytest.raises(RuntimeError, match=r"boolean|must match"):
        build()(*content()[:2], mask=mask)


def test_the_numpy_function_takes_one_position_a_token_and_lists():
    assert_numpy_wants_one_position_a_token(forget, gates=np.ones((2, 3)))
    scores = forget([[[1], [1]]], [[[0], [0]]], [0, 1], [0, 1], gates=[[0, 0]])
    np.testing.assert_allclose(scores, [[[0, 0], [-math.log(2), 0]]])
