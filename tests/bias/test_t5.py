"""T5: buckets worked by hand, by logarithms of 60 digits and by the peers' own code, and what a table learns."""

import inspect
import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from posenc.bias.t5 import T5, t5, t5_bucket
from tests.bias.alike import (
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
)
from tests.peers import peer
from tests.vectors import vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {},
    {"buckets": 8, "max_distance": 20},
    {"bidirectional": False},
    {"buckets": 10, "max_distance": 5_000, "bidirectional": False},
]
LEARNED = {"weight"}


def bucket_by_hand(offset, buckets, max_distance, bidirectional):
    """Work out the bucket of one offset, its logarithms with 60 digits."""
    with mpmath.workdps(60):
        rows = buckets // 2 if bidirectional else buckets
        distance = abs(offset) if bidirectional else max(-offset, 0)
        exact, first = rows // 2, rows if bidirectional and offset > 0 else 0
        if distance < exact:
            return first + distance
        share = mpmath.log(mpmath.mpf(distance) / exact) / mpmath.log(mpmath.mpf(max_distance) / exact)
        # an edge that is a whole number comes out within 1e-58 of itself, on either side
        return first + min(exact + int(mpmath.floor(share * (rows - exact) + mpmath.mpf(10) ** -50)), rows - 1)


def oracle(positions, key_positions, weight, max_distance=128, bidirectional=True):
    bias = np.zeros((weight.shape[1], len(positions), len(key_positions)))
    for t, s in np.ndindex(bias.shape[1:]):
        offset = math.trunc(Fraction(float(key_positions[s])) - Fraction(float(positions[t])))
        bias[:, t, s] = weight[bucket_by_hand(offset, len(weight), max_distance, bidirectional)]
    return bias


def exercise(module):
    module.T5(3).score_mod(torch.arange(5))


each_direction = pytest.mark.parametrize("bidirectional", [True, False], ids=["both", "before"])


def build(heads=4, **options):
    torch.manual_seed(0)
    encoding = T5(heads, **options)
    torch.nn.init.normal_(encoding.weight)
    return encoding


def settings(bidirectional):
    """Yield buckets and max_distance that go together."""
    for buckets in (4, 8, 12, 16, 20, 32, 64, 96, 128, 256):
        for max_distance in (9, 16, 20, 50, 64, 100, 128, 200, 256, 512, 1000, 1024, 4096):
            if max_distance > buckets // (4 if bidirectional else 2):
                yield buckets, max_distance


# Values worked by hand


def test_near_offsets_have_a_bucket_each():
    # of 16 buckets a direction, 8 are exact; those of the keys ahead follow those of the keys before
    np.testing.assert_array_equal(t5_bucket(np.arange(-7, 8)), [7, 6, 5, 4, 3, 2, 1, 0, 17, 18, 19, 20, 21, 22, 23])


def test_far_offsets_share_buckets_that_widen():
    # 8 (128/8)^(k/8) = 8 sqrt(2)^k: 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5
    starts = [8, 12, 16, 23, 32, 46, 64, 91]
    for bucket, start in enumerate(starts, start=8):
        np.testing.assert_array_equal(t5_bucket([-start, 1 - start]), [bucket, bucket - 1])
        assert t5_bucket(start) == 16 + bucket


def test_buckets_of_a_decoder():
    # 16 exact ones, then 16 (128/16)^(k/16); 8^(1/16) = 1.139, so 16, 18.2, 20.7, 23.6, ...; keys ahead have bucket 0
    offset = [5, 0, -1, -15, -16, -18, -19, -20, -21, -23, -24, -113, -128, -10_000]
    expected = [0, 0, 1, 15, 16, 16, 17, 17, 18, 18, 19, 31, 31, 31]
    np.testing.assert_array_equal(t5_bucket(offset, bidirectional=False), expected)


def test_the_smallest_tables():
    np.testing.assert_array_equal(t5_bucket([0, -1, -2, -99, 4], 2, 9, False), [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(t5_bucket([-9, -1, 0, 1, 9], 4, 9), [1, 1, 0, 3, 3])


def test_the_bias_is_the_weight_of_the_bucket():
    weight = np.arange(32)[:, None] * [0.1, 100]
    bias = t5([100], [0, 50, 99, 100, 101, 300], weight)
    np.testing.assert_allclose(bias[:, 0], np.array([15, 13, 1, 0, 17, 31]) * [[0.1], [100]], rtol=1e-15)


def test_a_fractional_offset_counts_as_the_whole_one_toward_0():
    np.testing.assert_array_equal(t5_bucket([-1.9, -0.9, 0.9, 1.9, -11.9]), t5_bucket([-1, 0, 0, 1, -11]))


# Buckets in every setting


@each_direction
def test_buckets_equal_logarithms_of_60_digits_at_every_offset(bidirectional):
    offset = np.arange(-150, 151)
    for buckets in (4, 6, 10, 32, 64):
        for max_distance in (33, 64, 100, 128):
            expected = [bucket_by_hand(o, buckets, max_distance, bidirectional) for o in offset.tolist()]
            np.testing.assert_array_equal(t5_bucket(offset, buckets, max_distance, bidirectional), expected)


def test_an_edge_in_floats_can_round_to_the_wrong_bucket():
    # 5 (160/5)^(1/5) is 10 exactly, so distance 10 starts bucket 6; the logarithms in float64 stay just below 1
    assert math.log(10 / 5) / math.log(160 / 5) * 5 < 1
    np.testing.assert_array_equal(t5_bucket([-10, -9], 10, 160, False), [6, 5])


def test_far_offsets_find_their_bucket_to_the_token():
    # 3 (10^6/3)^(k/3): 208.01 and 14,422.5
    encoding = build(buckets=6, max_distance=10**6, bidirectional=False)
    m, n = torch.tensor([2**24 + 1]), 2**24 + 1 - torch.tensor([208, 209, 14_422, 14_423])
    assert torch.equal(encoding(m, n), encoding.weight[torch.tensor([[3, 4, 4, 5]])].permute(2, 0, 1))
    # 2 (max_distance/2)^(1/2) is just below 2^24 + 1, which float32 does not tell from 2^24
    np.testing.assert_array_equal(t5_bucket([-(2**24), -(2**24) - 1], 4, (2**24 + 1) ** 2 // 2, False), [2, 3])


def test_offsets_beyond_whole_numbers_share_the_last_bucket():
    near, far = torch.zeros(1, dtype=torch.float64), torch.full((1,), 1e300, dtype=torch.float64)
    assert torch.equal(build()(near, far), build()(near, near + 1e6))
    assert torch.equal(build()(far, near), build()(near + 1e6, near))


# Peers


@vectors("t5_bucket")
def test_buckets_equal_those_of_transformers(vector):
    params = vector["params"]
    options = params["num_buckets"], params["max_distance"], params["bidirectional"]
    offset = np.arange(-params["R"], params["R"] + 1)
    np.testing.assert_array_equal(t5_bucket(offset, *options), vector["expected"]["bucket"])


@each_direction
def test_buckets_equal_those_of_transformers_in_every_setting(bidirectional):
    theirs = peer("transformers.models.t5.modeling_t5").T5Attention._relative_position_bucket
    assert len([*settings(bidirectional)]) > 90
    for buckets, max_distance in settings(bidirectional):
        offset = torch.arange(-2 * max_distance, 2 * max_distance + 1)
        expected = theirs(offset, bidirectional, buckets, max_distance)
        np.testing.assert_array_equal(t5_bucket(offset, buckets, max_distance, bidirectional), expected)


def t5_attention(bidirectional=True):
    """Return a layer of transformers' T5, and the encoding with its table."""
    modeling = peer("transformers.models.t5.modeling_t5")
    config = peer("transformers").T5Config(d_model=16, d_kv=4, num_heads=4, is_decoder=not bidirectional)
    layer = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    encoding = T5(4, bidirectional=bidirectional)
    encoding.load_state_dict(layer.relative_attention_bias.state_dict())
    return layer, encoding


@each_direction
def test_the_bias_equals_t5attention_of_transformers(bidirectional):
    layer, encoding = t5_attention(bidirectional)
    keys = torch.arange(200)
    assert torch.equal(encoding(keys)[None], layer.compute_bias(200, 200))
    cached = layer.compute_bias(3, 200, past_seen_tokens=197)
    assert torch.equal(encoding(keys[197:], keys)[None], cached)


def test_t5_does_not_divide_the_logits_by_the_root_of_the_width():
    layer, encoding = t5_attention()
    x = torch.randn(2, 7, 16)
    q, k, v = (project(x).view(2, 7, 4, 4).transpose(1, 2) for project in (layer.q, layer.k, layer.v))
    output = scaled_dot_product_attention(q, k, v, attn_mask=encoding(torch.arange(7)), scale=1)
    torch.testing.assert_close(layer.o(output.transpose(1, 2).flatten(2)), layer(x)[0])


@each_direction
def test_the_bias_equals_x_transformers_up_to_its_scale(bidirectional):
    library = peer("x_transformers.x_transformers")
    theirs = library.RelativePositionBias(scale=8.0, causal=not bidirectional, heads=4)
    encoding = T5(4, bidirectional=bidirectional)
    encoding.load_state_dict(theirs.relative_attention_bias.state_dict())
    torch.testing.assert_close(8 * encoding(torch.arange(95, 100), torch.arange(100)), theirs(5, 100))


def test_buckets_equal_those_of_mpnet():
    theirs = peer("transformers.models.mpnet.modeling_mpnet").MPNetEncoder.relative_position_bucket
    offset = torch.arange(-200, 201)
    np.testing.assert_array_equal(t5_bucket(offset), theirs(offset, num_buckets=32))


def test_float32_of_transformers_misses_an_edge_of_48_buckets_up_to_81():
    # 24 (81/24)^(16/24) is 54 exactly
    theirs = peer("transformers.models.t5.modeling_t5").T5Attention._relative_position_bucket
    assert theirs(torch.tensor([-54]), False, 48, 81).item() == 39
    assert t5_bucket(-54, 48, 81, False) == bucket_by_hand(-54, 48, 81, False) == 40


# The module


def test_the_table_starts_at_zero_with_the_defaults_of_t5():
    assert torch.equal(T5(3).weight, torch.zeros(32, 3))
    for function in (t5_bucket, T5, t5):
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        assert (defaults["max_distance"], defaults["bidirectional"]) == (128, True)


def test_each_bucket_that_occurs_gets_its_gradient():
    encoding = T5(2)
    encoding(torch.arange(300)).sum().backward()
    pairs = np.bincount(t5_bucket(np.subtract.outer(range(300), range(300))).ravel(), minlength=32)
    torch.testing.assert_close(encoding.weight.grad, torch.tensor(pairs).float()[:, None].expand(32, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_bias_is_float32_in_every_dtype_of_the_table_and_contiguous(dtype):
    encoding = build().to(dtype)
    bucket = t5_bucket(np.subtract.outer(range(9), range(9)).T)
    bias = encoding(torch.arange(9))
    assert torch.equal(bias, encoding.weight.float()[bucket].permute(2, 0, 1))
    assert bias.is_contiguous()


def test_positions_that_are_no_numbers_do_not_leave_the_table():
    assert build()(torch.tensor([math.nan, math.inf, -math.inf])).isfinite().all()


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(build())


# What is refused

each_way = pytest.mark.parametrize("way", [partial(t5_bucket, [1]), partial(T5, 2)], ids=["t5_bucket", "T5"])


@each_way
@pytest.mark.parametrize(("buckets", "bidirectional"), [(3, True), (33, True), (2, True), (1, False), (-4, False)])
def test_buckets_that_do_not_fill_their_directions_are_refused(way, buckets, bidirectional):
    with pytest.raises(ValueError, match=f"buckets must be 2 or more a side, and even if bidirectional, got {buckets}"):
        way(buckets=buckets, bidirectional=bidirectional)


@each_way
@pytest.mark.parametrize(("distance", "bidirectional"), [(8, True), (16, False), (0, True), (2**53 + 1, True)])
def test_a_max_distance_within_the_exact_buckets_or_beyond_float64_is_refused(way, distance, bidirectional):
    message = rf"t5: max_distance must be more than {8 if bidirectional else 16} and at most 2\*\*53, got {distance}"
    with pytest.raises(ValueError, match=message):
        way(max_distance=distance, bidirectional=bidirectional)


def test_a_number_of_heads_that_is_none_is_refused():
    with pytest.raises(ValueError, match="t5: heads must be 1 or more, got 0"):
        T5(0)


def test_a_lone_query_needs_keys():
    assert_a_lone_query_needs_keys(build(), build().score_mod)


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(t5, weight=np.zeros((32, 2)))
