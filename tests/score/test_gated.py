"""Gated: factors and buckets worked by hand, T5 times a factor, FlexAttention, and WavLM's own attention."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch

from posenc.bias.t5 import T5, t5_bucket
from posenc.score.gated import Gated, gated
from tests.peers import peer
from tests.score.alike import assert_numpy_wants_one_position_a_token

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


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries, keys and states in float64."""
    rng = np.random.default_rng(seed)
    return tuple(torch.tensor(rng.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d), (b, h, t, d)))


def build(dim=3, heads=4, **options):
    """Return a module in float64 with random weights."""
    torch.manual_seed(0)
    module = Gated(dim, heads, **options).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    return module


# Values worked by hand


def test_the_factor_updates_and_resets_the_distances_number():
    module = build(dim=1, heads=2, buckets=4, max_distance=9)
    module.gate.data = torch.tensor([[1.0, 2.0]]).double()
    module.bias.data = torch.tensor([0.5, -1.0]).double()
    module.scale.data = torch.tensor([1.0, 3.0]).double()
    u, v = 1 / (1 + math.exp(-2.5)), 1 / (1 + math.exp(-3.0))  # of a query of 2
    factor = module.factor(torch.full((1, 2, 1, 1), 2.0).double()).flatten()
    torch.testing.assert_close(factor, torch.tensor([1 + (1 - u) + u * v, 1 + (1 - u) + 3 * u * v]).double())


@pytest.mark.parametrize(("update", "reset", "factor"), [(0, 0, 2), (0, 1, 2), (1, 0, 1), (1, 1, 1 + 5)])
def test_gates_that_are_open_or_shut(update, reset, factor):
    module = build(dim=1, heads=1)
    module.scale.data[:], module.gate.data[:] = 5.0, 0.0
    module.bias.data = torch.tensor([[-99.0, 99.0][update], [-99.0, 99.0][reset]]).double()
    assert module.factor(torch.ones(1, 1, 1, 1).double()).item() == pytest.approx(factor, abs=1e-12)


def test_the_score_is_the_factor_times_the_number_of_the_bucket():
    module = Gated(1, 1, buckets=8, max_distance=16).double()
    module.weight.data[:, 0] = torch.arange(8)
    q, k = torch.zeros(1, 1, 1, 1).double(), torch.zeros(1, 1, 8, 1).double()
    scores = module(q, k, torch.tensor([100]), torch.tensor([0, 94, 95, 98, 99, 100, 101, 300]))
    # two buckets a side are exact, the third starts at 2, the fourth at 2 (16/2)^(1/2) = 5.66
    assert scores.flatten().tolist() == [1.75 * bucket for bucket in (3, 3, 2, 2, 1, 0, 5, 7)]


def test_it_starts_at_zero_with_factors_of_seven_quarters():
    torch.manual_seed(0)
    module = Gated(64, heads=8)
    q, k, _ = (x.float() for x in content(h=8, d=64))
    assert not module(q, k).any()
    assert (module.factor(q) - 1.75).abs().max() < 0.25
    assert 0.015 < module.gate.std() < 0.025
    assert module.scale.unique().tolist() == [1.0]
    assert module.bias.unique().tolist() == [0.0]


# What it equals


def test_without_gates_it_is_t5s_bias():
    q, k, _ = content()
    module = build()
    module.gate.data[:], module.bias.data[:], module.scale.data[:] = 0.0, torch.tensor([99.0, 0.0]), 0.0
    t5 = T5(4, buckets=320, max_distance=800).double()
    t5.weight = module.weight
    where = torch.tensor([0, 5, 2000, -700, 81, 90])
    torch.testing.assert_close(module(q, k, where), t5(where)[None].expand(2, -1, -1, -1).double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(("buckets", "max_distance"), [(320, 800), (32, 128), (8, 20), (6, 5), (64, 4096), (96, 1000)])
def test_buckets_are_t5s(buckets, max_distance):
    where = np.arange(-2 * max_distance, 2 * max_distance + 1)
    q, weight = np.zeros((1, 1, 1)), np.arange(float(buckets))[:, None]
    rows = gated(q, np.zeros((1, len(where), 1)), [0], where, weight, np.zeros((1, 2)), 0.0, 0.0, max_distance) / 1.5
    np.testing.assert_allclose(rows[0, 0], t5_bucket(where, buckets, max_distance))


def test_offsets_are_exact_far_out_where_float32_is_not():
    weight, far = np.arange(8.0)[:, None], 2**24
    made = gated(
        np.zeros((1, 1, 1)), np.zeros((1, 2, 1)), [far], [far, far + 1], weight, np.zeros((1, 2)), 0.0, 1.0, 20
    )
    np.testing.assert_allclose(made[0, 0], [0, 1.75 * 5])


def test_states_open_the_gates_in_place_of_queries():
    (q, k, states), module = content(), build()
    torch.testing.assert_close(module(q, k, states=states), module(states, k))
    assert not torch.allclose(module(q, k, states=states), module(q, k))
    learned = [parameter.detach().numpy() for parameter in (module.weight, module.gate, module.bias, module.scale)]
    made = gated(q[0], k[0], range(6), range(6), *learned, states=states[0])
    np.testing.assert_allclose(module(q, k, states=states)[0].detach(), made, rtol=1e-12)


def test_the_contents_of_keys_do_not_matter():
    (q, k, _), module = content(), build()
    assert torch.equal(module(q, k), module(q, -3 * k))


def test_the_score_mod_adds_the_same_scores():
    (q, k, states), module = content(), build(buckets=8, max_distance=20)
    rows = torch.tensor([[3, 0, 90, 7, 7, 1], [5, 0, 1, 2, 9, 3]])
    for given in ({}, {"positions": rows, "states": states}, {"positions": rows[0], "key_positions": rows}):
        expected = module(q, k, **given)
        pairs = torch.meshgrid([torch.arange(size) for size in expected.shape], indexing="ij")
        logits = torch.randn(expected.shape, dtype=torch.float64)
        torch.testing.assert_close(module.score_mod(q, k, **given)(logits, *pairs), logits + expected)
    strided = torch.arange(12)[::2]
    kept = [cell.cell_contents for cell in module.score_mod(q, k, strided).__closure__]
    assert all(value.is_contiguous() for value in kept if isinstance(value, torch.Tensor))


# What the peers say


def wavlm(heads=4, dim=8, buckets=320, max_distance=800):
    """Return WavLM's attention with random weights, and the encoding with the same."""
    attention = peer("transformers.models.wavlm.modeling_wavlm").WavLMAttention(
        heads * dim, heads, num_buckets=buckets, max_distance=max_distance
    )
    torch.manual_seed(0)
    attention.double().requires_grad_(False).eval()
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
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
    split = partial(torch.unflatten, dim=-1, sizes=(4, -1))
    q, k, v, states = (
        split(each(x)).transpose(1, 2) for each in (attention.q_proj, attention.k_proj, attention.v_proj, lambda x: x)
    )
    scores = module(q, k, states=states)
    made = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=scores)
    torch.testing.assert_close(attention.out_proj(made.transpose(1, 2).flatten(2)), expected)
    ungated = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=module(q, k))
    assert not torch.allclose(attention.out_proj(ungated.transpose(1, 2).flatten(2)), expected)


def test_buckets_of_wavlm_are_ours_at_every_offset():
    attention, module = wavlm()
    offset = torch.arange(-2000, 2001)
    rows = attention._relative_positions_bucket(offset)
    np.testing.assert_array_equal(rows, t5_bucket(offset, 320, 800))
    x = torch.zeros(1, 4, 1, 8, dtype=torch.float64)
    scores = module(x, x.expand(-1, -1, len(offset), -1), torch.tensor([0]), offset)
    torch.testing.assert_close(scores[0, :, 0], module.factor(x)[0] * attention.rel_attn_embed(rows).T)


# What is refused: each that would give a wrong result without an error


@pytest.mark.parametrize(
    ("buckets", "max_distance", "got"), [(7, 20, "7 and 20"), (2, 20, "2 and 20"), (32, 8, "32 and 8")]
)
def test_tables_that_make_no_buckets_are_refused(buckets, max_distance, got):
    with pytest.raises(ValueError, match=f"gated: buckets must be even, over 3, under 4 max_distance, got {got}"):
        Gated(8, 2, buckets, max_distance)


def test_more_queries_than_keys_need_positions_and_positions_must_fit():
    (q, k, _), module = content(), build()
    for call in (module, module.score_mod):
        with pytest.raises(ValueError, match=r"gated: positions must be given for 6 queries and 3 keys, got None"):
            call(q, k[:, :, :3])
        with pytest.raises(ValueError, match=r"gated: key_positions must be given for 6 queries and 3 keys, got None"):
            call(q, k[:, :, :3], torch.arange(6))
    for wrong in (torch.arange(5), torch.tensor([3]), torch.zeros(2, 1), torch.zeros(3, 6)):
        for given in ({"positions": wrong}, {"positions": torch.arange(6), "key_positions": wrong}):
            with pytest.raises(RuntimeError):
                module(q, k, **given)


def test_content_of_another_width_or_of_integers_is_refused():
    (q, k, _), module = content(), build()
    with pytest.raises(
        ValueError, match=r"gated: q and k must be floats of one width, got torch.float64 of .* 3 and 2"
    ):
        module(q, k[..., :2])
    with pytest.raises(ValueError, match=r"gated: q and k must be floats of one width, got torch.int64 of width 3"):
        module.score_mod(q.long(), k)


def test_the_numpy_function_takes_one_position_a_token():
    learned = np.ones((8, 2)), np.ones((4, 2)), np.ones(2), np.ones(2)
    assert_numpy_wants_one_position_a_token(partial(gated, max_distance=9), *learned)
