"""PaTH: reflections worked by hand, rotations and parity as special cases, hidden tokens, ties, a peer's numbers."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.score.path import PaTH, path
from tests.score.alike import assert_numpy_wants_one_position_a_token
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

LEARNED = {"weight", "gate", "bias"}


def oracle(q, k, positions, key_positions, weight=None, gate=None, bias=None, w=None, beta=None, mask=None):
    """Send each key to each query with 60 digits, one reflection at a time."""
    with mpmath.workdps(60):
        column = [[mpmath.matrix(key.tolist()) for key in head] for head in k]
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        order = np.argsort(key_positions, kind="stable")
        for h, t, s in np.ndindex(scores.shape):
            keys, query = column[h * len(k) // len(q)], mpmath.matrix(q[h, t].tolist())
            key = keys[s]
            for at in order:
                if key_positions[s] < key_positions[at] <= positions[t]:
                    axis = mpmath.matrix(weight.tolist()) * keys[at]
                    logit = (mpmath.matrix(gate.tolist()).T * keys[at])[0] + float(bias[0])
                    strength = 2 / (1 + mpmath.exp(-logit))
                    key = key - strength * (axis.T * key)[0] / (axis.T * axis)[0] * axis
            scores[h, t, s] = (query.T * (key - keys[s]))[0] / mpmath.sqrt(q.shape[-1])
    return scores


def exercise(module):
    mask = np.ones((2, 3, 5), dtype=bool)
    places = torch.arange(3), torch.arange(5)
    module.PaTH(2)(torch.ones(2, 2, 3, 2), torch.ones(2, 1, 5, 2), *places, mask=torch.tensor(mask))
    k, beta = np.ones((1, 5, 2)), np.ones((1, 5))
    module.path(np.ones((2, 3, 2)), k, range(3), range(5), w=k, beta=beta, mask=mask)


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=25)
seeds = st.integers(0, 2**32 - 1)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries and keys, and for each key w and beta, in float64."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=shape) for shape in ((b, h, t, d), (b, g, s, d), (b, g, s, d))]
    return tuple(torch.tensor(x) for x in (*made, rng.uniform(0, 2, size=(b, g, s))))


def build(dim=3, seed=0):
    """Return a module in float64 with random weights."""
    module, rng = PaTH(dim).double(), np.random.default_rng(seed)
    for parameter in module.parameters():
        parameter.data = torch.tensor(rng.normal(size=parameter.shape))
    return module


bare = PaTH(3)


def logits(q, k, w, beta, **named):
    """Return the logits (t, s) of one head, times sqrt(d): q . k sent through the reflections between."""
    q, k, w, beta = (torch.as_tensor(x, dtype=torch.float64)[None, None] for x in (q, k, w, beta))
    scores = PaTH(q.shape[-1])(q, k, w=w, beta=beta, **named)
    return (scores * q.shape[-1] ** 0.5 + q @ k.mT)[0, 0]


def causal(scores):
    """Return the scores of the pairs that causal attention keeps."""
    return scores[..., torch.ones(scores.shape[-2:]).tril(scores.shape[-1] - scores.shape[-2]).bool()]


# Values worked by hand


def test_one_reflection_by_hand():
    # w = (3, 4)/5 and beta = 1/2: k = (5, 0) has w . k = 3 and arrives as (5, 0) - 1.5 (0.6, 0.8) = (4.1, -1.2)
    made = logits([[1.0, 0], [10, 100]], [[5.0, 0], [1, 1]], [[0.0, 1], [3, 4]], [2.0, 0.5])
    torch.testing.assert_close(made[1], torch.tensor([41 - 120.0, 110]).double())


@pytest.mark.parametrize(("query", "left"), [([1.0, 0], 0), ([0, 1.0], 1)], ids=["first channel", "second channel"])
def test_the_last_token_reflects_last(query, left):
    # the key (1, 0) meets first a mirror that swaps the channels, then the loss of the first channel
    made = logits([query] * 3, [[1.0, 0], [0, 0], [0, 0]], [[1.0, 0], [1, -1], [1, 0]], [0, 2, 1])
    assert made[2, 0].item() == pytest.approx(left, abs=1e-15)


def test_the_key_is_not_reflected_by_its_own_token():
    q, k, w, beta = content()
    scores = bare(q, k, w=w, beta=beta)
    assert not scores.diagonal(dim1=-2, dim2=-1).any()


def test_beta_of_0_is_attention_as_it_is():
    q, k, w, beta = content()
    assert not bare(q, k, w=w, beta=0 * beta).any()


def test_beta_of_1_erases_a_direction():
    made = logits(np.ones((3, 2)), [[5.0, 7], [5, 7], [5, 7]], [[0.0, 1]] * 3, [1, 1, 1])
    torch.testing.assert_close(made.tril(), torch.tensor([[12.0, 0, 0], [5, 12, 0], [5, 5, 12]]).double())


def test_w_and_beta_are_read_from_the_keys():
    module = PaTH(2).double()
    module.weight.data = torch.tensor([[0.0, 3], [3, 0]]).double()  # swap the channels; the length does not matter
    module.gate.data, module.bias.data = torch.tensor([1.0, 0]).double(), torch.tensor([math.log(3) - 1]).double()
    k = torch.tensor([[1.0, 1], [1, 0]]).double()[None, None]  # the second reads w = (0, 1), beta = 2 sigmoid(ln 3)
    scores = module(torch.ones_like(k), k)
    torch.testing.assert_close(scores[0, 0, 1, 0], torch.tensor(-1.5 / math.sqrt(2)).double())


def test_beta_starts_at_1():
    q, k, w, _ = (x.float() for x in content())
    torch.testing.assert_close(PaTH(3)(q, k, w=w), bare(q, k, w=w, beta=torch.ones(2, 2, 6)))


# What it equals


def product_of_reflections(q, k, w, beta, m, n, mask=True):
    """Return the scores (t, s) of one head by the definition: a product of matrices for each pair."""
    scores, order = torch.zeros(len(q), len(k)).double(), sorted(range(len(k)), key=lambda at: n[at])
    mask = torch.as_tensor(mask).expand(len(q), len(k))
    for t, s in np.ndindex(len(q), len(k)):
        product = torch.eye(q.shape[-1]).double()
        for at in order:
            if n[s] < n[at] <= m[t] and mask[t, at]:
                unit = w[at] / w[at].norm()
                product = (torch.eye(q.shape[-1]).double() - beta[at] * torch.outer(unit, unit)) @ product
        scores[t, s] = (q[t] @ product @ k[s] - q[t] @ k[s]) / q.shape[-1] ** 0.5
    return scores


@given(
    seed=seeds, places=st.lists(st.integers(0, 4), min_size=6, max_size=6), queries=st.tuples(*[st.integers(0, 4)] * 3)
)
@exactly
def test_it_is_a_product_of_reflections_in_any_order_and_with_ties(seed, places, queries):
    q, k, w, beta = content(seed, b=1, h=1, g=1, t=3)
    scores = bare(q, k, torch.tensor(queries), torch.tensor(places), w, beta)
    expected = product_of_reflections(q[0, 0], k[0, 0], w[0, 0], beta[0, 0], queries, places)
    torch.testing.assert_close(scores[0, 0], expected)


@given(seed=seeds, angle=st.floats(-3, 3))
@exactly
def test_two_mirrors_by_turns_are_a_rotation_by_position_as_in_rope(seed, angle):
    q, k, _, _ = content(seed, b=1, h=1, g=1, t=10, s=10, d=2)
    mirrors = torch.tensor([[1.0, 0], [math.cos(angle), math.sin(angle)]], dtype=torch.float64).repeat(5, 1)
    scores = PaTH(2)(q, k, w=mirrors[None, None], beta=torch.full((1, 1, 10), 2.0))[0, 0]
    for m in range(0, 10, 2):
        for n in range(0, m + 1, 2):
            cosine, sine = math.cos((n - m) * angle), math.sin((n - m) * angle)  # two mirrors turn by twice their angle
            rotation = torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64)
            expected = (q[0, 0, m] @ rotation @ k[0, 0, n] - q[0, 0, m] @ k[0, 0, n]) / math.sqrt(2)
            torch.testing.assert_close(scores[m, n], expected)


@given(flags=st.lists(st.booleans(), min_size=8, max_size=8))
@exactly
def test_it_tracks_a_parity(flags):
    made = logits(np.ones((8, 1)), np.ones((8, 1)), np.ones((8, 1)), 2.0 * np.array(flags))
    parity = np.cumsum(flags) % 2
    expected = 1 - 2 * (parity[:, None] ^ parity)  # one sign turned for each flag between
    np.testing.assert_array_equal(made.tril(), np.tril(expected))


def test_a_swap_of_two_registers_is_one_mirror():
    swap, keep = [1.0, -1, 0], [0.0, 0, 1]
    made = logits([[1.0, 2, 3]] * 4, [[10.0, 20, 30]] * 4, [keep, swap, keep, swap], [0, 2, 0, 2])
    kept, swapped = 10 + 40 + 90.0, 20 + 20 + 90.0
    torch.testing.assert_close(made[1:, 0], torch.tensor([swapped, swapped, kept]).double())


@given(seed=seeds)
@exactly
def test_what_arrives_is_no_longer_than_what_was_sent(seed):
    q, k, w, beta = content(seed, h=2)
    made = bare(q, k, w=w, beta=beta) * math.sqrt(3) + q @ k.mT
    assert (made.abs() <= q.norm(dim=-1)[..., None] * k.norm(dim=-1)[..., None, :] * (1 + 1e-12)).all()


def test_the_order_of_the_tokens_between_matters():
    q, k, w, beta = content()
    swapped = [0, 2, 1, 3, 4, 5]
    other = bare(q, k, w=w[:, :, swapped], beta=beta[:, :, swapped])
    assert not torch.allclose(other[..., 5, 0], bare(q, k, w=w, beta=beta)[..., 5, 0])


def test_the_length_of_w_does_not_matter():
    q, k, w, beta = content()
    torch.testing.assert_close(bare(q, k, w=7 * w, beta=beta), bare(q, k, w=w, beta=beta))


def test_a_w_of_zero_reflects_nothing():
    q, k, w, beta = content()
    w[:, :, 2] = 0
    gone = torch.where(torch.arange(6) == 2, 0, beta)
    torch.testing.assert_close(bare(q, k, w=w, beta=beta), bare(q, k, w=w, beta=gone))


# Positions: any order, ties, keys ahead


@given(seed=seeds, shift=st.integers(-1000, 1000))
@exactly
def test_shifting_all_positions_changes_nothing(seed, shift):
    (q, k, *_), where = content(seed), torch.tensor([3, 1, 4, 1, 5, 9])
    assert torch.equal(build()(q, k, where, where), build()(q, k, where + shift, where + shift))


@given(seed=seeds, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, order):
    (q, k, *_), where = content(seed), torch.tensor([3, 1, 4, 2, 5, 9])
    scores = build()(q, k, where, where)
    torch.testing.assert_close(build()(q, k[:, :, order], where, where[list(order)]), scores[..., order])


def test_keys_ahead_of_the_query_score_0_and_do_not_act():
    (q, k, *_), where = content(t=1, s=3), torch.tensor([2, 0, 1])
    scores = build()(q, k, torch.tensor([1]), where)
    without = build()(q, k[:, :, 1:], torch.tensor([1]), where[1:])
    torch.testing.assert_close(scores, torch.nn.functional.pad(without, (1, 0)))


def test_positions_order_the_tokens_and_their_gaps_do_not_matter():
    q, k, *_ = content()
    near, far = torch.arange(6), torch.tensor([-3.5, 0.25, 7, 8, 10_000, 10**7]).double()
    assert torch.equal(build()(q, k, near, near), build()(q, k, far, far))


def test_neighbors_that_float32_cannot_tell_apart_are_no_tie():
    (q, k, *_), where = content(t=2, s=2), torch.tensor([2**24, 2**24 + 1])
    torch.testing.assert_close(build()(q, k, where, where), build()(q, k))
    assert build()(q, k)[..., 1, 0].any()


@pytest.mark.parametrize(("m", "n"), [((6,), (2, 6)), ((2, 6), (6,)), ((2, 6), (2, 6))], ids=str)
def test_positions_may_have_a_batch_on_either_side(m, n):
    (q, k, *_), rng, module = content(), np.random.default_rng(0), build()
    m, n = (torch.tensor(rng.integers(0, 9, shape)) for shape in (m, n))
    for row in range(2):
        ours = module(q, k, m, n)[row]
        alone = module(q[row : row + 1], k[row : row + 1], m.expand(2, 6)[row], n.expand(2, 6)[row])
        torch.testing.assert_close(ours, alone[0])


def test_given_places_equal_the_default_ones():
    (q, k, *_), where = content(), torch.arange(6)
    assert torch.equal(build()(q, k, where, where), build()(q, k))
    last = build()(q[:, :, 2:], k, where[2:], where)
    torch.testing.assert_close(last, build()(q, k)[:, :, 2:])


# Hidden tokens


@given(seed=seeds, hidden=st.sets(st.integers(0, 4), max_size=4))
@exactly
def test_hidden_tokens_act_as_if_they_were_not_there(seed, hidden):
    q, k, *_ = content(seed)
    kept = [place for place in range(6) if place not in hidden]
    mask = torch.tensor([place in kept for place in range(6)])
    without = build()(q[:, :, kept], k[:, :, kept])
    torch.testing.assert_close(build()(q, k, mask=mask)[:, :, kept][..., kept], without)


def test_documents_packed_one_after_another_need_no_mask():
    (q, k, *_), module = content(), build()
    packed = module(q, k)
    torch.testing.assert_close(packed[..., :2, :2], module(q[:, :, :2], k[:, :, :2]))
    torch.testing.assert_close(packed[..., 2:, 2:], module(q[:, :, 2:], k[:, :, 2:]))


def test_documents_whose_positions_restart_need_one():
    (q, k, *_), module, where = content(), build(), torch.tensor([0, 1, 2, 0, 1, 2])
    document = torch.tensor([0, 0, 0, 1, 1, 1])
    alone = module(q[:, :, 3:], k[:, :, 3:])
    seen = module(q, k, where, where, mask=document[:, None] == document)
    torch.testing.assert_close(causal(seen[..., 3:, 3:]), causal(alone))
    assert not torch.allclose(causal(module(q, k, where, where)[..., 3:, 3:]), causal(alone))


@pytest.mark.parametrize("shape", [(6,), (6, 6), (1, 6, 6), (4, 1, 6), (2, 4, 6, 6), (2, 1, 1, 6), (6, 1), ()], ids=str)
def test_a_mask_of_any_broadcastable_shape_is_that_of_the_numpy_function(shape):
    q, k, w, beta = content()
    mask = np.asarray(np.random.default_rng(1).random(shape) < 0.6)
    where = np.array([3, 0, 5, 1, 4, 1])
    scores = bare(q, k, torch.tensor(where), torch.tensor(where), w, beta, torch.tensor(mask))
    for row in range(2):
        here = np.broadcast_to(mask, (2, 4, 6, 6))[row]
        here_q, here_k, here_w, here_beta = (x[row].numpy() for x in (q, k, w, beta))
        expected = path(here_q, here_k, where, where, w=here_w, beta=here_beta, mask=here)
        np.testing.assert_allclose(scores[row], expected, atol=1e-12)


def test_a_mask_that_differs_by_query_follows_the_definition():
    q, k, w, beta = content(b=1, h=1, g=1)
    mask = torch.tensor(np.random.default_rng(1).random((6, 6)) < 0.6)
    expected = product_of_reflections(q[0, 0], k[0, 0], w[0, 0], beta[0, 0], range(6), range(6), mask)
    torch.testing.assert_close(bare(q, k, w=w, beta=beta, mask=mask)[0, 0], expected)


@pytest.mark.parametrize("where", [[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]], ids=["counted", "at 0"])
def test_padding_on_the_left_changes_no_score_of_the_text(where):
    (q, k, *_), module, where = content(), build(), torch.tensor(where)
    torch.testing.assert_close(module(q, k, where, where)[..., 2:, 2:], module(q[:, :, 2:], k[:, :, 2:]))


# Decoding, grouped heads, edges, precision


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k, *_), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


def test_grouped_heads_share_the_reflections_of_their_key_head():
    (q, k, w, beta), module = content(), build()
    torch.testing.assert_close(module(q, k), module(q, k.repeat_interleave(2, dim=1)))
    each = (w.repeat_interleave(2, dim=1), beta.repeat_interleave(2, dim=1))
    torch.testing.assert_close(bare(q, k, w=each[0], beta=each[1]), bare(q, k, w=w, beta=beta))
    torch.testing.assert_close(bare(q, k, w=w, beta=each[1]), bare(q, k, w=w, beta=beta))


def test_each_query_head_may_have_its_own_reflections():
    q, k, *_ = content()
    _, _, w, beta = content(g=4)
    scores = bare(q, k, w=w, beta=beta)
    alone = bare(q[:, 3:], k[:, 1:], w=w[:, 3:], beta=beta[:, 3:])
    torch.testing.assert_close(scores[:, 3:], alone)


def test_w_and_beta_given_are_those_that_would_be_read():
    (q, k, *_), module = content(), build()
    w, beta = k @ module.weight.T, 2 * (k @ module.gate + module.bias).sigmoid()
    for given_ones in ({"w": w}, {"beta": beta}, {"w": w, "beta": beta}):
        torch.testing.assert_close(module(q, k, **given_ones), module(q, k))
    torch.testing.assert_close(build(seed=1)(q, k, w=w, beta=beta), module(q, k))


def test_what_is_read_can_be_looked_at_and_handed_on():
    (q, k, *_), module = content(), build()
    w, beta = module.directions(k), module.strengths(k)
    torch.testing.assert_close((w, beta), (k @ module.weight.T, 2 * (k @ module.gate + module.bias).sigmoid()))
    torch.testing.assert_close(build(seed=1)(q, k, w=w, beta=beta), module(q, k))


def test_without_parameters_both_must_be_given():
    (q, k, w, beta), module = content(), PaTH(3)
    del module.weight, module.gate, module.bias
    assert not module.state_dict()
    torch.testing.assert_close(module(q, k, w=w, beta=beta), bare(q, k, w=w, beta=beta))
    for given_ones in ({}, {"w": w}, {"beta": beta}):
        with pytest.raises(AttributeError, match=r"weight|gate"):
            module(q, k, **given_ones)


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_few_tokens_or_none(t, s):
    q, k, *_ = content(t=t, s=s)
    scores = build()(q, k, torch.arange(t), torch.arange(s))
    assert scores.shape == (2, 4, t, s)
    assert not scores.any()


def test_no_tokens_have_no_scores_by_default():
    assert build()(*content(t=0, s=0)[:2]).shape == (2, 4, 0, 0)


def test_queries_before_all_keys_score_nothing():
    (q, k, *_), places = content(t=8, s=6), (torch.arange(-2, 6), torch.arange(6))
    assert not build()(q, k, *places)[:, :, :2].any()
    torch.testing.assert_close(build()(q, k, *places)[:, :, 2:], build()(q[:, :, 2:], k))


def test_a_thousand_reflections_lose_nothing():
    q, k, w, beta = content(b=1, h=1, g=1, t=1, s=1000, d=8)
    beta = 2 - beta / 100  # near to mirrors, so that much arrives from afar
    arrived, unit = k[0, 0].clone(), torch.nn.functional.normalize(w[0, 0], dim=-1)
    for at in range(1000):
        arrived[:at] -= beta[0, 0, at] * (arrived[:at] @ unit[at])[:, None] * unit[at]
    expected = (arrived - k[0, 0]) @ q[0, 0, 0] / math.sqrt(8)
    scores = PaTH(8)(q, k, torch.tensor([999]), torch.arange(1000), w, beta)
    torch.testing.assert_close(scores[0, 0, 0], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_content_is_scored_in_full_and_rounded_once(dtype):
    q, k, *_ = (x.to(dtype) for x in content())
    module = build()
    assert torch.equal(module(q, k), module(q.double(), k.double()).to(dtype))


def test_gradients_reach_what_is_given():
    given_ones, places = [x.requires_grad_() for x in content(t=4)], (torch.arange(2, 6), torch.arange(6))
    assert torch.autograd.gradcheck(lambda q, k, *read: bare(q, k, *places, *read), given_ones, fast_mode=True)


# Peers


@vectors("path_attention")
def test_vectors(vector):
    q, k, v, w, beta = (np.array(vector["inputs"][name]) for name in ("q", "k", "v", "w", "beta"))
    scores = path(q[None], k[None], range(6), range(6), w=w[None], beta=beta[None])[0]
    seen = np.where(np.tri(6, dtype=bool), q @ k.T * vector["params"]["scale"] + scores, -np.inf)
    weights = np.exp(seen - seen.max(-1, keepdims=True))
    assert_agrees(vector, weights / weights.sum(-1, keepdims=True) @ v, vector["expected"]["out"])


# What is refused: what would give a wrong result without an error


def test_content_of_integers_and_queries_without_a_place_are_refused():
    (q, k, *_), module = content(), build()
    with pytest.raises(ValueError, match=r"path: q must be floats \(b, h, t, d\), got torch\.int64"):
        module(q.long(), k)
    with pytest.raises(ValueError, match="path: positions must be given for 6 queries and 3 keys, got None"):
        module(q, k[:, :, :3])
    with pytest.raises(ValueError, match="path: key_positions must be given for 6 queries and 3 keys, got None"):
        module(q, k[:, :, :3], torch.arange(6))


@pytest.mark.parametrize("where", [torch.arange(4096), torch.tensor([3]), torch.zeros(2, 1)], ids=str)
def test_another_number_of_positions_is_refused_by_torch_in_numbers(where):
    (q, k, *_), module = content(), build()
    for places in ({"positions": where}, {"key_positions": where, "positions": torch.arange(6)}):
        with pytest.raises(RuntimeError, match=rf"sizes .* don't multiply up to .*\({where.shape[-1]}\)"):
            module(q, k, **places)


@pytest.mark.parametrize(
    "mask", [torch.ones(6), torch.ones(6).long(), torch.ones(3, 6).bool(), torch.ones(5).bool()], ids=str
)
def test_a_mask_of_another_kind_or_size_is_refused_by_torch(mask):
    with pytest.raises(RuntimeError, match=r"boolean|match"):
        build()(*content()[:2], mask=mask)


@pytest.mark.parametrize("name", ["w", "beta"])
def test_what_is_given_for_another_number_of_heads_or_tokens_is_refused_by_torch(name):
    (q, k, *_), (*_, w, beta) = content(), content(g=3)
    with pytest.raises(RuntimeError, match=r"match|expand"):
        build()(q, k, **{name: {"w": w, "beta": beta}[name]})
    with pytest.raises(RuntimeError, match=r"match|expand"):
        build()(q, k, **{name: {"w": w, "beta": beta}[name][:, :2, 1:]})


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(path, *np.ones((1, 4, 4)), np.ones(4), np.ones(1))
