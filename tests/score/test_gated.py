"""Gated: factors and buckets by hand, T5 times a factor, gates of other states, and WavLM's own attention."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from posenc.bias.t5 import T5, t5_bucket
from posenc.score.gated import Gated, gated
from tests.peers import peer
from tests.score.alike import (
    WRONG_CONTENT,
    assert_half_precision_is_rounded_once,
    assert_numpy_wants_one_position_a_token,
    assert_the_score_mod_takes_rows_as_they_lie,
    content,
    randomized,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"buckets": 8, "max_distance": 20}]
LEARNED = {"weight", "gate", "bias", "scale"}


def bucket_by_hand(offset, buckets, max_distance):
    """Work out the bucket of one offset, its logarithms with 60 digits."""
    with mpmath.workdps(60):
        rows, distance = buckets // 2, abs(offset)
        exact, first = rows // 2, rows if offset > 0 else 0
        if distance < exact:
            return first + distance
        share = mpmath.log(mpmath.mpf(distance) / exact) / mpmath.log(mpmath.mpf(max_distance) / exact)
        # an edge that is a whole number comes out within 1e-58 of itself, on either side
        return first + min(exact + int(mpmath.floor(share * (rows - exact) + mpmath.mpf(10) ** -50)), rows - 1)


def oracle(q, k, positions, key_positions, weight, gate, bias, scale, max_distance=800, states=None):
    """Work out the definition with 60 digits, one pair at a time."""
    x = q if states is None else states
    scores = np.zeros((len(q), len(positions), len(key_positions)))
    with mpmath.workdps(60):
        for h, t in np.ndindex(scores.shape[:2]):
            u, v = (
                1 / (1 + mpmath.exp(-mpmath.fsum(mpmath.mpf(a) * w for a, w in zip(x[h, t], column, strict=True)) - c))
                for column, c in zip(gate.T, bias, strict=True)
            )
            for s, n in enumerate(key_positions):
                row = bucket_by_hand(math.trunc(float(n) - float(positions[t])), len(weight), max_distance)
                scores[h, t, s] = (2 - u + u * v * mpmath.mpf(scale[h])) * mpmath.mpf(weight[row, h])
    return scores


def exercise(module):
    q, k = torch.ones(2, 2, 3, 2), torch.ones(2, 1, 5, 2)
    module.Gated(2, 2).score_mod(q, k, torch.arange(3), torch.arange(5))


def build(**options):
    return randomized(Gated(3, 4, **options))


# Values worked by hand


def test_the_factor_updates_and_resets():
    # a query of 2: u = sigmoid(2 * 1 + 0.5) and v = sigmoid(2 * 2 - 1); the scale of the second head is 3
    module = Gated(1, heads=2).double()
    module.gate.data = torch.tensor([[1.0, 2.0]]).double()
    module.bias.data = torch.tensor([0.5, -1.0]).double()
    module.scale.data = torch.tensor([1.0, 3.0]).double()
    u, v = 1 / (1 + math.exp(-2.5)), 1 / (1 + math.exp(-3.0))
    factor = module.factor(torch.full((1, 2, 1, 1), 2.0).double())
    np.testing.assert_allclose(factor.detach().flatten(), [2 - u + u * v, 2 - u + 3 * u * v])


@pytest.mark.parametrize(("update", "reset", "factor"), [(0, 0, 2), (0, 1, 2), (1, 0, 1), (1, 1, 1 + 5)])
def test_gates_that_are_open_or_shut(update, reset, factor):
    bias = [99 if gate else -99 for gate in (update, reset)]
    scores = gated([[[1]]], [[[1]]], [0], [0], weight=np.ones((4, 1)), gate=np.zeros((1, 2)), bias=bias, scale=[5])
    assert scores.item() == pytest.approx(factor, abs=1e-12)


def test_the_score_is_the_factor_times_the_number_of_the_bucket():
    # gates half open make 2 - 1/2 + 1/4; the rows of the table are their numbers; of 4 buckets a side, two are exact,
    # the third starts at 2, the fourth at 2 (16/2)^(1/2) = 5.66; keys ahead have their bucket plus 4
    module = Gated(1, 1, buckets=8, max_distance=16).double()
    module.weight.data[:, 0] = torch.arange(8)
    q, k = torch.zeros(1, 1, 1, 1).double(), torch.zeros(1, 1, 8, 1).double()
    scores = module(q, k, torch.tensor([100]), torch.tensor([0, 94, 95, 98, 99, 100, 101, 300]))
    assert scores.flatten().tolist() == [1.75 * bucket for bucket in (3, 3, 2, 2, 1, 0, 5, 7)]


def test_it_starts_at_zero_with_factors_of_seven_quarters():
    torch.manual_seed(0)
    module, (q, _) = Gated(64, heads=8), content(h=8, d=64)
    assert module.weight.shape == (320, 8)
    assert not module.weight.any()
    assert not module.bias.any()
    assert (module.scale == 1).all()
    assert 0.015 < module.gate.std() < 0.025
    assert (module.factor(q.float()) - 1.75).abs().max() < 0.25


# What it equals


@pytest.mark.parametrize(("buckets", "max_distance"), [(320, 800), (32, 128), (8, 20), (6, 5), (64, 4096), (96, 1000)])
def test_buckets_are_t5s(buckets, max_distance):
    n = np.arange(-2 * max_distance, 2 * max_distance + 1)
    x, learned = np.zeros((1, 1, 1)), {"gate": np.zeros((1, 2)), "bias": 0, "scale": 1}
    weight = np.arange(buckets)[:, None]
    scores = gated(x, np.zeros((1, len(n), 1)), [0], n, weight, **learned, max_distance=max_distance)
    np.testing.assert_allclose(scores[0, 0], 1.75 * t5_bucket(n, buckets, max_distance))


def test_with_a_factor_of_1_it_is_t5s_bias():
    module, t5, positions = build(), T5(4, buckets=320, max_distance=800), torch.tensor([0, 5, 2000, -700, 81, 90])
    module.gate.data[:], module.bias.data[:], module.scale.data[:] = 0.0, torch.tensor([99.0, 0.0]), 0.0
    t5.weight = module.weight
    torch.testing.assert_close(module(*content(), positions)[0].float(), t5(positions))


def test_states_open_the_gates_in_place_of_queries():
    (q, k), (states, _), module = content(), content(seed=1), build()
    scores = module(q, k, states=states)
    torch.testing.assert_close(scores, module(states, k))
    learned = {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
    expected = gated(q[0], k[0], range(6), range(6), **learned, states=states[0])
    np.testing.assert_allclose(scores[0].detach(), expected, rtol=1e-12)
    pairs = torch.meshgrid([torch.arange(size) for size in scores.shape], indexing="ij")
    modify = module.score_mod(q, k, states=states)
    torch.testing.assert_close(modify(torch.zeros_like(scores), *pairs), scores)


def test_the_contents_of_keys_do_not_matter():
    q, k = content()
    assert torch.equal(build()(q, k), build()(q, -3 * k))


def test_offsets_are_exact_far_out_where_float32_is_not():
    x, far = torch.zeros(1, 1, 2, 3).double(), torch.tensor([2**24, 2**24 + 1])
    torch.testing.assert_close(build()(x, x, far), build()(x, x))


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build())


def test_the_score_mod_takes_rows_as_they_lie():
    assert_the_score_mod_takes_rows_as_they_lie(build(buckets=8, max_distance=20), *content())


# Peers


def wavlm(heads=4, dim=8, buckets=320, max_distance=800):
    """Return WavLM's attention with random weights, and the encoding with the same."""
    attention = peer("transformers.models.wavlm.modeling_wavlm").WavLMAttention(
        heads * dim, heads, num_buckets=buckets, max_distance=max_distance
    )
    attention = randomized(attention.requires_grad_(False).eval(), std=0.3)
    module, linear = Gated(dim, heads, buckets, max_distance).double(), attention.gru_rel_pos_linear
    module.weight.data = attention.rel_attn_embed.weight
    module.gate.data = linear.weight.reshape(2, 4, -1).sum(1).T
    module.bias.data = linear.bias.reshape(2, 4).sum(1)
    module.scale.data = attention.gru_rel_pos_const.flatten()
    return attention, module.requires_grad_(False)


@pytest.mark.parametrize(("buckets", "max_distance"), [(320, 800), (8, 20)])
def test_wavlms_attention_is_ours(buckets, max_distance):
    attention, module = wavlm(buckets=buckets, max_distance=max_distance)
    x = torch.randn(2, 50, 32, dtype=torch.float64)
    expected, _, _ = attention(x)
    projected = attention.q_proj(x), attention.k_proj(x), attention.v_proj(x), x
    q, k, v, states = (each.unflatten(-1, (4, 8)).transpose(1, 2) for each in projected)
    of_states, of_queries = (
        attention.out_proj(scaled_dot_product_attention(q, k, v, attn_mask=scores).transpose(1, 2).flatten(2))
        for scores in (module(q, k, states=states), module(q, k))
    )
    torch.testing.assert_close(of_states, expected)
    assert not torch.allclose(of_queries, expected)


def test_buckets_of_wavlm_are_ours_at_every_offset():
    attention, module = wavlm()
    offset = torch.arange(-2000, 2001)
    rows = attention._relative_positions_bucket(offset)
    np.testing.assert_array_equal(rows, t5_bucket(offset, 320, 800))
    x = torch.zeros(1, 4, 1, 8, dtype=torch.float64)
    scores = module(x, x.expand(-1, -1, len(offset), -1), torch.tensor([0]), offset)
    torch.testing.assert_close(scores[0, :, 0], module.factor(x)[0] * attention.rel_attn_embed(rows).T)


# What is refused


@pytest.mark.parametrize(
    ("buckets", "max_distance", "got"), [(7, 20, "7 and 20"), (2, 20, "2 and 20"), (32, 8, "32 and 8")]
)
def test_tables_that_make_no_buckets_are_refused(buckets, max_distance, got):
    with pytest.raises(ValueError, match=f"gated: buckets must be even, over 3, under 4 max_distance, got {got}"):
        Gated(8, 2, buckets, max_distance)


@pytest.mark.parametrize(("changes", "message"), WRONG_CONTENT)
def test_content_of_two_widths_or_of_integers_is_refused(changes, message):
    q, k = content()
    for call in (build(), build().score_mod):
        with pytest.raises(ValueError, match=f"gated: {message}"):
            call(**{"q": q, "k": k} | changes)


def test_the_numpy_function_takes_one_position_a_token():
    learned = np.ones((8, 2)), np.ones((4, 2)), np.ones(2), np.ones(2)
    assert_numpy_wants_one_position_a_token(partial(gated, max_distance=9), *learned)
