"""ALiBi: slopes of any number of heads, biases worked by hand, both directions, channels, and what it refuses."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.bias.alibi import ALiBi, alibi, alibi_slopes
from tests.bias.alike import (
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
)
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {},
    {"slopes": (0.3, 0.0, 1.7, 0.1)},
    {"right_slopes": 0},
    {"slopes": 0.7, "right_slopes": (0.5, 0.0, 2, 0.25)},
    {"causal": True, "alibi_bias_max": 5},
]


def oracle(positions, key_positions, heads, slopes=None, right_slopes=None, causal=False, alibi_bias_max=8):
    """Work out the definition with 60 digits, one pair at a time; by default for a power of two heads."""
    with mpmath.workdps(60):
        if slopes is None:
            slopes = [mpmath.mpf(2) ** (-mpmath.mpf(alibi_bias_max) * (i + 1) / heads) for i in range(heads)]
        left = np.broadcast_to(np.asarray(slopes, float), heads)
        right = left if right_slopes is None else np.broadcast_to(np.asarray(right_slopes, float), heads)
        bias = np.zeros((heads, len(positions), len(key_positions)))
        for h, t, s in np.ndindex(bias.shape):
            back = mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s]))
            ahead = -mpmath.inf if causal else mpmath.mpf(right[h]) * back
            bias[h, t, s] = -mpmath.mpf(left[h]) * back if back >= 0 else ahead
    return bias


def exercise(module):
    encoding = module.ALiBi(3)
    encoding.score_mod(torch.arange(5))
    encoding.channels(torch.arange(5), torch.arange(4))
    encoding.channels(torch.arange(10).view(2, 5))


# Slopes


def test_slopes_of_8_heads_halve():
    np.testing.assert_array_equal(alibi_slopes(8), [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])


def test_slopes_of_16_heads_as_in_the_paper():
    # sec. 3: "1/2^0.5, 1/2^1, 1/2^1.5, ..., 1/2^8"
    np.testing.assert_allclose(alibi_slopes(16), 0.5 ** np.arange(0.5, 8.5, 0.5), rtol=1e-15)


def test_slopes_of_12_heads_are_those_of_8_then_every_other_of_16():
    # one sequence 2^(-8 i / 12) would be another set
    np.testing.assert_array_equal(alibi_slopes(12)[:8], alibi_slopes(8))
    np.testing.assert_allclose(alibi_slopes(12)[8:], [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5], rtol=1e-15)


def test_the_flattest_head_has_the_slope_that_alibi_bias_max_sets():
    np.testing.assert_array_equal(alibi_slopes(4, alibi_bias_max=4), [1 / 2, 1 / 4, 1 / 8, 1 / 16])
    assert ALiBi(64, alibi_bias_max=6).slopes[-1] == 2.0**-6


@vectors("alibi_slopes")
def test_slopes_of_up_to_40_heads_equal_those_of_bloom(vector):
    for heads, expected in vector["expected"].items():
        assert_agrees(vector, alibi_slopes(int(heads)), expected)


# Values worked by hand


def test_the_symmetric_bias_by_hand():
    # queries at 2 and 3, keys at 0 .. 3; the slope of the first of 8 heads is 1/2
    expected = [[-1.0, -0.5, 0.0, -0.5], [-1.5, -1.0, -0.5, 0.0]]
    np.testing.assert_array_equal(alibi([2, 3], range(4), 8)[0], expected)


def test_the_causal_bias_by_hand():
    # queries at 1 and 2; 2 heads have the slopes 1/16 and 1/256
    head = np.array([[-1, 0, -np.inf, -np.inf], [-2, -1, 0, -np.inf]])
    np.testing.assert_array_equal(alibi([1, 2], range(4), 2, causal=True), [head / 16, head / 256])


def test_keys_ahead_may_have_slopes_of_their_own():
    bias = alibi([2], range(5), 2, slopes=[1, 10], right_slopes=[0.5, 0])
    np.testing.assert_array_equal(bias, [[[-2, -1, 0, -0.5, -1]], [[-20, -10, 0, 0, 0]]])


def test_a_slope_of_0_hides_the_future_all_the_same():
    # 0 times infinity would be NaN
    bias = ALiBi(1, slopes=0, causal=True)(torch.arange(3))
    np.testing.assert_array_equal(bias, [[[0, -np.inf, -np.inf], [0, 0, -np.inf], [0, 0, 0]]])


def test_each_step_back_divides_the_weight_of_a_key_by_e_to_the_slope():
    # where all content is alike, the mean distance looked back is 1 / (e^slope - 1): 1.5 tokens at 1/2, 255.5 at 1/256
    weights = np.exp(alibi([20_000], range(20_001), 8, causal=True)[:, 0])
    distance = weights @ np.arange(20_000, -1, -1) / weights.sum(axis=-1)
    np.testing.assert_allclose(distance, 1 / np.expm1(alibi_slopes(8)), rtol=1e-9)
    np.testing.assert_allclose(distance[[0, -1]], [1.5415, 255.5003], rtol=1e-4)


# Channels


def products(encoding, *positions):
    of_queries, of_keys = encoding.channels(*positions)
    return of_queries @ of_keys.mT


@pytest.mark.parametrize("m", [[0, 1, 2, 3], [10**7, 7, 8], [0, 1 / 3, 2 / 3]], ids=["near", "far", "fractional"])
def test_products_of_the_channels_are_the_bias_of_the_keys_before(m):
    actual = products(ALiBi(6), torch.tensor(m, dtype=torch.float64)).numpy()
    past = np.array(m)[:, None] >= m
    np.testing.assert_allclose(actual[:, past], alibi(m, m, 6)[:, past], rtol=1e-12, atol=1e-9)
    assert (actual[:, ~past] > 0).all(), "a key ahead gets a bonus"


def test_channels_of_a_batch():
    rows = torch.tensor([[5, 6, 9], [0, 2, 70]])
    of_queries, of_keys = ALiBi(6).channels(rows, torch.arange(4))
    assert of_queries.shape == (2, 6, 3, 2)
    assert of_keys.shape == (2, 1, 4, 2)
    expected = [products(ALiBi(6), row, torch.arange(4)) for row in rows]
    torch.testing.assert_close(of_queries @ of_keys.mT, torch.stack(expected))


def test_channels_are_float64_and_small_however_far_the_tokens():
    # distances up to 8 from the first query, times slopes below 1
    of_queries, of_keys = ALiBi(4).bfloat16().channels(torch.arange(10**7, 10**7 + 9))
    assert of_queries.dtype == torch.float64
    assert of_queries.abs().max() <= 8
    assert of_keys.abs().max() <= 8


# Peers


@pytest.mark.parametrize("heads", [1, 3, 8, 20])
def test_slopes_and_symmetric_bias_equal_x_transformers(heads):
    theirs = peer("x_transformers.x_transformers").AlibiPositionalBias(heads)
    np.testing.assert_allclose(alibi_slopes(heads), theirs.slopes.flatten(), rtol=1e-6)
    torch.testing.assert_close(ALiBi(heads)(torch.arange(5, 12), torch.arange(12)), theirs(7, 12))
    rows = torch.tensor([[3, 0, 70], [2, 2, 9]])
    torch.testing.assert_close(ALiBi(heads)(rows), theirs.forward_custom_pos(rows))


@vectors("alibi_bias_bidirectional")
def test_the_symmetric_bias_equals_the_vector_of_x_transformers(vector):
    params = vector["params"]
    keys = torch.arange(params["k_len"])
    assert_agrees(vector, ALiBi(params["n_heads"])(keys[-params["q_len"] :], keys), vector["expected"]["bias"])


@vectors("alibi_bias_padded")
def test_left_padding_equals_bloom_up_to_a_constant_of_each_query(vector):
    params, expected = vector["params"], np.array(vector["expected"]["bias_batch_head_1_key"])
    real = torch.tensor(params["attention_mask"]).bool()
    bias = ALiBi(params["n_heads"])((real.cumsum(dim=-1) - 1).clamp(min=0)).numpy()
    for b, t in real.nonzero().tolist():
        visible = real[b].numpy() & (np.arange(5) <= t)
        constant = (expected[b, :, 0] - bias[b, :, t])[:, visible]
        assert_agrees(vector, constant - constant[:, :1], np.zeros_like(constant))


def theirs_and_ours_before_the_query(theirs, heads, length):
    """Return row-constant biases (h, s) as (h, t, s), each row less its value at the query, and those of `alibi`."""
    past = np.tri(length, dtype=bool)
    rows = np.asarray(theirs).reshape(heads, 1, length)
    expected = rows - rows.swapaxes(1, 2)
    return np.where(past, expected, 0), np.where(past, alibi(range(length), range(length), heads), 0)


@pytest.mark.parametrize("heads", [1, 8, 12])
def test_the_causal_bias_equals_bloom_and_mpt_up_to_a_constant_of_each_query(heads):
    bloom = peer("transformers.models.bloom.modeling_bloom")
    mpt = peer("transformers.models.mpt.modeling_mpt")
    ones = torch.ones(1, 30, dtype=torch.long)
    for theirs in (bloom.build_alibi_tensor(ones, heads, torch.float32), mpt.build_mpt_alibi_tensor(heads, 30)):
        np.testing.assert_allclose(*theirs_and_ours_before_the_query(theirs, heads, 30), atol=1e-5)


@pytest.mark.parametrize("heads", [1, 7, 8, 40])
@pytest.mark.parametrize("alibi_bias_max", [4, 8, 11.5])
def test_slopes_of_any_alibi_bias_max_equal_those_of_mpt(heads, alibi_bias_max):
    mpt = peer("transformers.models.mpt.modeling_mpt")
    theirs = mpt.build_mpt_alibi_tensor(heads, 30, alibi_bias_max=alibi_bias_max)
    encoding = ALiBi(heads, causal=True, alibi_bias_max=alibi_bias_max)
    torch.testing.assert_close(encoding(torch.tensor([29]), torch.arange(30)), theirs)  # of one new query


def test_falcon_rounds_slopes_and_products_to_bfloat16():
    falcon = peer("transformers.models.falcon.modeling_falcon")
    theirs = falcon.build_alibi_tensor(torch.ones(1, 600, dtype=torch.long), 16, torch.float32)
    theirs, ours = theirs_and_ours_before_the_query(theirs, 16, 600)
    assert np.abs(theirs - ours).max() > 0.5
    np.testing.assert_allclose(theirs[:, :6, :6], ours[:, :6, :6], atol=0.02)


# What is refused, and what one row of positions is for


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(ALiBi(4))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(alibi, heads=2)


def test_a_lone_query_needs_keys():
    encoding = ALiBi(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod, encoding.channels)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slopes": -0.5}, "alibi: slopes must be finite and 0 or more, got .* back and .* ahead"),
        ({"slopes": [1, 2, 3, -4]}, "finite and 0 or more"),
        ({"slopes": math.nan}, "finite and 0 or more"),
        ({"slopes": math.inf, "right_slopes": 0}, "finite and 0 or more"),
        ({"right_slopes": -0.5}, "finite and 0 or more"),
        ({"slopes": [1, 2]}, "broadcast"),
    ],
)
def test_slopes_that_reward_distance_or_are_of_other_heads_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        alibi([0, 1], [0, 1], 4, **settings)
    with pytest.raises(ValueError, match=message):
        ALiBi(4, **settings)
