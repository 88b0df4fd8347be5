"""PaTH: reflections by hand, rotations, parities and swaps as special cases, hidden tokens, and a peer's numbers."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.score.path import PaTH, path
from tests.score.alike import (
    assert_hidden_tokens_count_for_nothing,
    assert_numpy_wants_one_position_a_token,
    causal,
    content,
    randomized,
)
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
    positions = torch.arange(3), torch.arange(5)
    module.PaTH(2)(torch.ones(2, 2, 3, 2), torch.ones(2, 1, 5, 2), *positions, mask=torch.tensor(mask))
    k, beta = np.ones((1, 5, 2)), np.ones((1, 5))
    module.path(np.ones((2, 3, 2)), k, range(3), range(5), w=k, beta=beta, mask=mask)


def build():
    return randomized(PaTH(3))


def reflections(g=2, s=6, d=3):
    """Return random w (2, g, s, d) and beta (2, g, s)."""
    rng = np.random.default_rng(1)
    return torch.tensor(rng.normal(size=(2, g, s, d))), torch.tensor(rng.uniform(0, 2, size=(2, g, s)))


def products(q, k, w, beta):
    """Return q . k (t, s) of one head after the reflections of the tokens between."""
    q, k, w, beta = (torch.as_tensor(x, dtype=torch.float64)[None, None] for x in (q, k, w, beta))
    scores = PaTH(q.shape[-1])(q, k, w=w, beta=beta)
    return (scores * q.shape[-1] ** 0.5 + q @ k.mT)[0, 0]


# Values worked by hand


def test_one_reflection():
    # w = (3, 4)/5 and beta = 1/2: k = (5, 0) has w . k = 3 and arrives as (5, 0) - 1.5 (0.6, 0.8) = (4.1, -1.2);
    # a key is not reflected by its own token
    result = products([[1, 0], [10, 100]], [[5, 0], [1, 1]], [[0, 1], [3, 4]], [2, 0.5])
    np.testing.assert_allclose(result[1], [41 - 120, 110])


def test_the_last_token_reflects_last():
    # the key (1, 0) meets a mirror that swaps the channels, and becomes (0, 1); the first channel is erased too late
    result = products([[3, 7]] * 3, [[1, 0], [0, 0], [0, 0]], [[1, 0], [1, -1], [1, 0]], [0, 2, 1])
    np.testing.assert_allclose(result[2, 0], 7)


def test_beta_of_1_erases_a_direction():
    result = products([[1, 1]] * 3, [[5, 7]] * 3, [[0, 1]] * 3, [1, 1, 1])
    np.testing.assert_allclose(result.tril(), [[12, 0, 0], [5, 12, 0], [5, 5, 12]])


def test_w_and_beta_are_read_from_the_keys():
    # the second key is (1, 0): w = (0, 3), of any length; beta = 2 sigmoid(1 + ln 3 - 1) = 3/2, of k's second channel
    learned = {"weight": [[0, 3], [3, 0]], "gate": [1, 0], "bias": [math.log(3) - 1]}
    scores = path([[[1, 1], [1, 1]]], [[[1, 1], [1, 0]]], [0, 1], [0, 1], **learned)
    np.testing.assert_allclose(scores[0, 1, 0], -1.5 / math.sqrt(2))


def test_keys_ahead_of_the_query_score_0_and_do_not_act():
    q, k = content(t=2, s=3)
    scores = build()(q, k, torch.tensor([1, -1]), torch.tensor([2, 0, 1]))
    without = build()(q[:, :, :1], k[:, :, 1:], torch.tensor([1]), torch.tensor([0, 1]))
    torch.testing.assert_close(scores[:, :, :1, 1:], without)
    assert not scores[..., 0].any()
    assert not scores[:, :, 1].any()  # this query stands before all keys


def test_positions_order_the_tokens_and_their_gaps_do_not_matter():
    q, k = content()
    near, far = torch.arange(6), torch.tensor([-3.5, 0.25, 7, 8, 10_000, 10**7], dtype=torch.float64)
    assert torch.equal(build()(q, k, near, near), build()(q, k, far, far))


def test_the_start_erases_directions_of_random_length():
    torch.manual_seed(0)
    encoding, (_, k) = PaTH(100), content(d=100)
    assert abs(encoding.weight.std().item() - 0.1) < 0.002
    assert (encoding.strengths(k.float()) == 1).all()


# What it equals


def test_two_mirrors_by_turns_are_a_rotation_by_position_as_in_rope():
    # two mirrors turn by twice the angle between them: one turn every second token
    q, k = content(b=1, h=1, g=1, t=10, s=10, d=2)
    angle = 0.7
    mirrors = torch.tensor([[1, 0], [math.cos(angle), math.sin(angle)]]).repeat(5, 1)
    result = products(q[0, 0], k[0, 0], mirrors, torch.full((10,), 2))
    for m in range(0, 10, 2):
        for n in range(0, m + 1, 2):
            cos, sin = math.cos((n - m) * angle), math.sin((n - m) * angle)
            rotation = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
            torch.testing.assert_close(result[m, n], q[0, 0, m] @ rotation @ k[0, 0, n], rtol=0, atol=1e-6)


def test_it_tracks_a_parity():
    flags = np.array([0, 1, 1, 0, 1, 0, 1, 1])
    result = products(np.ones((8, 1)), np.ones((8, 1)), np.ones((8, 1)), 2 * flags)
    parity = np.cumsum(flags) % 2
    expected = 1 - 2 * (parity[:, None] ^ parity)  # a sign turned for each flag between
    np.testing.assert_array_equal(result.tril(), np.tril(expected))


def test_a_swap_of_two_registers_is_one_mirror():
    swap, keep = [1, -1, 0], [0, 0, 1]
    result = products([[1, 2, 3]] * 4, [[10, 20, 30]] * 4, [keep, swap, keep, swap], [0, 2, 0, 2])
    kept, swapped = 10 + 40 + 90, 20 + 20 + 90
    np.testing.assert_allclose(result[1:, 0], [swapped, swapped, kept])


def test_no_key_arrives_longer_than_it_was():
    (q, k), (w, beta) = content(h=2), reflections()
    result = PaTH(3)(q, k, w=w, beta=beta) * math.sqrt(3) + q @ k.mT
    assert (result.abs() <= q.norm(dim=-1)[..., None] * k.norm(dim=-1)[..., None, :] * (1 + 1e-12)).all()


def test_the_length_of_w_does_not_matter_but_a_w_of_zero_reflects_nothing():
    (q, k), (w, beta) = content(), reflections()
    torch.testing.assert_close(PaTH(3)(q, k, w=7 * w, beta=beta), PaTH(3)(q, k, w=w, beta=beta))
    w[:, :, 2] = 0
    without = torch.where(torch.arange(6) == 2, 0, beta)
    torch.testing.assert_close(PaTH(3)(q, k, w=w, beta=beta), PaTH(3)(q, k, w=w, beta=without))


# w and beta from elsewhere


def test_w_and_beta_replace_the_parameters():
    q, k = content()
    reading, bare = build(), PaTH(3)
    del bare.weight, bare.gate, bare.bias
    w, beta = reading.directions(k), reading.strengths(k)
    torch.testing.assert_close(bare(q, k, w=w, beta=beta), reading(q, k))
    learned = {name: parameter.detach() for name, parameter in reading.named_parameters()}
    expected = path(q[0], k[0], range(6), range(6), **learned)
    np.testing.assert_allclose(reading(q, k)[0].detach(), expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(build()(q, k, w=w + 1, beta=beta / 2), bare(q, k, w=w + 1, beta=beta / 2))
    for missing in ({"beta": beta}, {"w": w}):
        with pytest.raises(AttributeError, match=r"weight|gate"):
            bare(q, k, **missing)


def test_w_and_beta_are_of_key_heads_or_of_query_heads():
    (q, k), (w, beta) = content(), reflections()
    each_w, each_beta = (x.repeat_interleave(2, dim=1) for x in (w, beta))
    scores = PaTH(3)(q, k, w=w, beta=beta)
    torch.testing.assert_close(PaTH(3)(q, k, w=each_w, beta=each_beta), scores)
    torch.testing.assert_close(PaTH(3)(q, k, w=w, beta=each_beta), scores)


def test_gradients_reach_w_and_beta():
    (q, k), positions = content(t=4), (torch.arange(2, 6), torch.arange(6))
    w, beta = (x.requires_grad_() for x in reflections())
    assert torch.autograd.gradcheck(lambda *read: PaTH(3)(q, k, *positions, *read), (w, beta), fast_mode=True)


# Hidden tokens


def test_hidden_tokens_act_as_if_they_were_not_there():
    assert_hidden_tokens_count_for_nothing(build())


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
    (q, k), (w, beta), order = content(), reflections(), [3, 0, 5, 1, 4, 1]
    mask = np.asarray(np.random.default_rng(1).random(shape) < 0.6)
    scores = PaTH(3)(q, k, torch.tensor(order), w=w, beta=beta, mask=torch.tensor(mask))
    masks = np.broadcast_to(mask, (2, 4, 6, 6))
    for row in range(2):
        expected = path(q[row], k[row], order, order, w=w[row], beta=beta[row], mask=masks[row])
        np.testing.assert_allclose(scores[row], expected, rtol=1e-9, atol=1e-12)


# Edges and precision


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_neighbors_that_float32_cannot_tell_apart_are_no_tie():
    q, k = content(t=2, s=2)
    far = torch.tensor([2**24, 2**24 + 1])
    torch.testing.assert_close(build()(q, k, far, far), build()(q, k))
    assert build()(q, k)[..., 1, 0].any()


def test_a_thousand_reflections_lose_nothing():
    (q, k), (w, beta) = content(b=1, h=1, g=1, t=1, s=1000, d=8), reflections(1, 1000, 8)
    w, beta = w[:1], 2 - beta[:1] / 100  # near to mirrors, so that much arrives from afar
    arrived, unit = k[0, 0].clone(), torch.nn.functional.normalize(w[0, 0], dim=-1)
    for token in range(1000):
        along = arrived[:token] @ unit[token]
        arrived[:token] -= beta[0, 0, token] * along[:, None] * unit[token]
    expected = (arrived - k[0, 0]) @ q[0, 0, 0] / math.sqrt(8)
    scores = PaTH(8)(q, k, torch.tensor([999]), torch.arange(1000), w, beta)
    torch.testing.assert_close(scores[0, 0, 0], expected, rtol=1e-11, atol=1e-11)


# Peers


@vectors("path_attention")
def test_vectors(vector):
    q, k, v, w, beta = (np.array(vector["inputs"][name]) for name in ("q", "k", "v", "w", "beta"))
    scores = path(q[None], k[None], range(6), range(6), w=w[None], beta=beta[None])[0]
    logits = np.where(np.tri(6, dtype=bool), q @ k.T * vector["params"]["scale"] + scores, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    assert_agrees(vector, weights / weights.sum(-1, keepdims=True) @ v, vector["expected"]["out"])


# What is refused


def test_content_of_integers_is_refused():
    q, k = content()
    with pytest.raises(ValueError, match=r"path: q must be floating point, got torch\.int64"):
        build()(q.long(), k)


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(path, *np.ones((1, 4, 4)), np.ones(4), np.ones(1))
