"""T5: buckets worked by hand and by the peers' own code, edges in whole numbers, and what is refused."""

import copy
import inspect
import math
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.bias.t5 import T5, t5, t5_bucket
from tests.bias.alike import (
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
    assert_unsigned_positions_do_not_wrap_around,
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
each_direction = pytest.mark.parametrize("bidirectional", [True, False], ids=["both", "before"])
places = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8)

SETTINGS = [
    (buckets, max_distance)
    for buckets in (4, 8, 12, 16, 20, 32, 64, 96, 128, 256)
    for max_distance in (9, 16, 20, 50, 64, 100, 128, 200, 256, 512, 1000, 1024, 4096)
]


def possible(buckets, max_distance, bidirectional):
    return max_distance > buckets // (4 if bidirectional else 2)


def random_t5(heads=4, **options):
    torch.manual_seed(0)
    encoding = T5(heads, **options)
    torch.nn.init.normal_(encoding.weight)
    return encoding


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
    # 16 exact ones, then 16 (128/16)^(k/16); 8^(1/16) = 1.139, so 16, 18.2, 20.7, 23.6, ...
    offset = [5, 0, -1, -15, -16, -18, -19, -20, -21, -23, -24, -113, -128, -10_000]
    expected = [0, 0, 1, 15, 16, 16, 17, 17, 18, 18, 19, 31, 31, 31]
    np.testing.assert_array_equal(t5_bucket(offset, bidirectional=False), expected)


def test_two_buckets_tell_the_query_from_what_is_before():
    np.testing.assert_array_equal(t5_bucket([0, -1, -2, -99, 4], 2, 9, False), [0, 1, 1, 1, 0])


def test_the_smallest_table_of_both_directions():
    np.testing.assert_array_equal(t5_bucket([-9, -1, 0, 1, 9], 4, 9), [1, 1, 0, 3, 3])


def test_the_bias_is_the_weight_of_the_bucket():
    weight = np.arange(32.0)[:, None] * [1, 100]
    bias = t5([100], [0, 50, 99, 100, 101, 300], weight)
    np.testing.assert_array_equal(bias[:, 0], np.array([15, 13, 1, 0, 17, 31]) * [[1], [100]])


def test_a_bucket_has_the_shape_of_its_offset():
    assert t5_bucket(5).shape == ()
    assert t5_bucket(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    assert t5_bucket([]).shape == (0,)
    assert t5_bucket([3]).dtype == np.int64


@vectors("t5_bucket")
def test_buckets_equal_those_of_transformers(vector):
    params, expected = vector["params"], vector["expected"]["bucket"]
    offset = np.arange(-params["R"], params["R"] + 1)
    options = {name: params[theirs] for name, theirs in (("buckets", "num_buckets"), ("max_distance", "max_distance"))}
    actual = t5_bucket(offset, **options, bidirectional=params["bidirectional"])
    np.testing.assert_array_equal(actual, expected)


# Buckets in every setting


@each_direction
@pytest.mark.parametrize("buckets", [4, 6, 10, 32, 64])
def test_buckets_equal_logarithms_of_60_digits_at_every_offset(buckets, bidirectional):
    for max_distance in (17, 64, 100, 128, 256):
        if possible(buckets, max_distance, bidirectional):
            offset = np.arange(-300, 301)
            expected = [bucket_by_hand(each, buckets, max_distance, bidirectional) for each in offset.tolist()]
            np.testing.assert_array_equal(t5_bucket(offset, buckets, max_distance, bidirectional), expected)


@given(setting=st.sampled_from(SETTINGS), bidirectional=st.booleans())
@exactly
def test_farther_is_never_a_lower_bucket_and_the_last_starts_by_max_distance(setting, bidirectional):
    if possible(*setting, bidirectional):
        buckets, max_distance = setting
        before = t5_bucket(-np.arange(3 * max_distance), *setting, bidirectional)
        last = (buckets // 2 if bidirectional else buckets) - 1
        assert (np.diff(before) >= 0).all()
        assert before[0] == 0
        assert (before[max_distance:] == last).all()


@given(setting=st.sampled_from(SETTINGS))
@exactly
def test_the_two_directions_are_alike(setting):
    if possible(*setting, True):
        offset = np.arange(1, 500)
        np.testing.assert_array_equal(t5_bucket(offset, *setting), t5_bucket(-offset, *setting) + setting[0] // 2)


def test_a_decoder_gives_the_keys_ahead_the_bucket_of_the_query():
    assert (t5_bucket(np.arange(500), bidirectional=False) == 0).all()


def test_the_first_bucket_of_the_keys_ahead_is_never_used():
    assert 16 not in t5_bucket(np.arange(-1000, 1000))


def test_a_fractional_offset_counts_as_the_whole_one_toward_0():
    np.testing.assert_array_equal(t5_bucket([-1.9, -0.9, 0.9, 1.9, -11.9]), t5_bucket([-1, 0, 0, 1, -11]))
    m, n = torch.tensor([0.0, 2.5]), torch.tensor([0.75, 1.75, 4.5])
    encoding = random_t5()
    assert torch.equal(encoding(m, n), encoding.weight[t5_bucket([[0, 1, 4], [-1, 0, 2]])].permute(2, 0, 1))


def test_an_edge_in_floats_can_round_to_the_wrong_bucket():
    # 5 (160/5)^(1/5) is 10 exactly, so distance 10 starts bucket 6; the logarithms in float64 stay just below 1
    assert math.log(10 / 5) / math.log(160 / 5) * 5 < 1
    np.testing.assert_array_equal(t5_bucket([-10, -9], 10, 160, False), [6, 5])


def test_far_offsets_find_their_bucket_to_the_token():
    encoding = random_t5(buckets=6, max_distance=10**6, bidirectional=False)
    # 3 (10^6/3)^(k/3): 208.01 and 14,422.5
    m, n = torch.tensor([2**24 + 1]), 2**24 + 1 - torch.tensor([208, 209, 14_422, 14_423])
    assert torch.equal(encoding(m, n), encoding.weight[torch.tensor([[3, 4, 4, 5]])].permute(2, 0, 1))
    assert torch.equal(encoding(m.double() / 2, n.double() / 2), encoding(m - m, (n - m) // 2 + (n - m) % 2))


# Peers


@each_direction
def test_buckets_equal_those_of_transformers_in_every_setting_tried(bidirectional):
    theirs = peer("transformers.models.t5.modeling_t5").T5Attention._relative_position_bucket
    tried = 0
    for buckets, max_distance in SETTINGS:
        if possible(buckets, max_distance, bidirectional):
            offset = torch.arange(-2 * max_distance, 2 * max_distance + 1)
            expected = theirs(offset, bidirectional, buckets, max_distance)
            np.testing.assert_array_equal(t5_bucket(offset, buckets, max_distance, bidirectional), expected)
            tried += 1
    assert tried > 90


@each_direction
def test_the_bias_equals_t5attention_of_transformers(bidirectional):
    modeling = peer("transformers.models.t5.modeling_t5")
    config = peer("transformers").T5Config(d_model=16, d_kv=4, num_heads=4, is_decoder=not bidirectional)
    theirs = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    encoding = T5(4, bidirectional=bidirectional)
    encoding.load_state_dict(theirs.relative_attention_bias.state_dict())
    expected = theirs.compute_bias(200, 200)
    assert torch.equal(encoding(torch.arange(200))[None], expected)
    cached = theirs.compute_bias(3, 200, past_seen_tokens=197)
    assert torch.equal(encoding(torch.arange(197, 200), torch.arange(200))[None], cached)


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


def test_the_table_starts_at_zero():
    assert torch.equal(T5(3).weight, torch.zeros(32, 3))
    assert torch.equal(T5(3)(torch.arange(5)), torch.zeros(3, 5, 5))


@given(m=places, n=places, shift=st.integers(-(10**6), 10**6), bidirectional=st.booleans())
@exactly
def test_moving_all_tokens_changes_nothing(m, n, shift, bidirectional):
    weight = np.random.default_rng(0).normal(size=(32, 2))
    moved = t5([p + shift for p in m], [p + shift for p in n], weight, bidirectional=bidirectional)
    np.testing.assert_array_equal(moved, t5(m, n, weight, bidirectional=bidirectional))


def pair_by_pair(encoding, m, n):
    """Return the bias by its definition, of weights in the graph."""
    offset = n.double().numpy() - m.double().numpy()[:, None]
    bucket = t5_bucket(offset, encoding.buckets, encoding.max_distance, encoding.bidirectional)
    return encoding.weight[torch.from_numpy(bucket)].permute(2, 0, 1)


PLACES = {
    "from 0": (torch.arange(150), torch.arange(150)),
    "few queries": (torch.arange(180, 200), torch.arange(200)),
    "few keys": (torch.arange(200), torch.arange(7)),
    "far": (torch.arange(10**7, 10**7 + 9), torch.arange(10**7 - 40, 10**7)),
    "negative": (torch.arange(-50, -20), torch.arange(-99, 0)),
    "floats": (torch.arange(9.0), torch.arange(-2.0, 30)),
    "one of each": (torch.tensor([7]), torch.tensor([-4])),
    "halves": (torch.arange(9) + 0.5, torch.arange(30)),
    "tenths": (torch.arange(20, dtype=torch.float64) + 0.1, torch.arange(20, dtype=torch.float64) + 0.1),
    "by 2": (torch.arange(0, 40, 2), torch.arange(0, 40, 2)),
    "backwards": (torch.arange(9).flip(0), torch.arange(9).flip(0)),
    "a gap in the queries": (torch.tensor([0, 1, 2, 4]), torch.arange(9)),
    "a gap in the keys": (torch.arange(4), torch.tensor([0, 1, 2, 4])),
    "restarting": (torch.tensor([0, 1, 2, 0, 1]), torch.tensor([0, 1, 2, 0, 1])),
}


@each_direction
@pytest.mark.parametrize("name", PLACES)
def test_the_bias_is_what_the_definition_says_and_in_order(name, bidirectional):
    m, n = PLACES[name]
    encoding = random_t5(bidirectional=bidirectional)
    bias, expected = encoding(m, n), pair_by_pair(encoding, m, n)
    assert torch.equal(bias, expected)
    assert bias.is_contiguous()
    weighed = torch.arange(bias.numel()).view_as(bias).cos()
    gradients = [torch.autograd.grad((made * weighed).sum(), encoding.weight)[0] for made in (bias, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positions", [torch.arange(40), 2000 * torch.arange(40).flip(0), torch.arange(80).view(2, 40)])
@pytest.mark.parametrize("max_distance", [128, 100_000])
def test_a_compiled_module_gives_the_same_and_its_gradients(positions, max_distance):
    torch._dynamo.reset()
    encoding = random_t5(max_distance=max_distance)
    made = [call(positions) for call in (encoding, torch.compile(encoding, fullgraph=True, backend="aot_eager"))]
    assert torch.equal(*made)
    weighed = torch.arange(made[0].numel()).view_as(made[0]).cos()
    torch.testing.assert_close(*[torch.autograd.grad((bias * weighed).sum(), encoding.weight)[0] for bias in made])


def test_each_bucket_that_occurs_gets_its_gradient():
    encoding = T5(2)
    encoding(torch.arange(300)).sum().backward()
    pairs = np.bincount(t5_bucket(np.subtract.outer(np.arange(300), np.arange(300))).ravel(), minlength=32)
    torch.testing.assert_close(encoding.weight.grad, torch.tensor(pairs).float()[:, None].expand(32, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_the_bias_is_float32_in_every_dtype_of_the_table(dtype):
    encoding = random_t5().to(dtype)
    expected = encoding.weight.float()[t5_bucket(np.subtract.outer(range(9), range(9)).T)].permute(2, 0, 1)
    assert torch.equal(encoding(torch.arange(9)), expected)
    assert encoding(torch.arange(9)).dtype == torch.float32


def test_the_bias_is_not_divided_by_the_root_of_the_width():
    torch.manual_seed(0)
    encoding, (q, k, v) = random_t5(2), torch.randn(3, 1, 2, 6, 16)
    logits = q @ k.mT / 4 + encoding(torch.arange(6))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=encoding(torch.arange(6)))
    torch.testing.assert_close(logits.softmax(dim=-1) @ v, expected)


def test_t5_itself_does_not_divide_the_logits_either():
    modeling = peer("transformers.models.t5.modeling_t5")
    torch.manual_seed(0)
    config = peer("transformers").T5Config(d_model=16, d_kv=4, num_heads=4, is_decoder=False, dropout_rate=0.0)
    theirs = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    encoding = T5(4)
    encoding.load_state_dict(theirs.relative_attention_bias.state_dict())
    x = torch.randn(2, 7, 16)
    q, k, v = (f(x).view(2, 7, 4, 4).transpose(1, 2) for f in (theirs.q, theirs.k, theirs.v))
    mixed = F.scaled_dot_product_attention(q * 4**0.5, k, v, attn_mask=encoding(torch.arange(7)))
    torch.testing.assert_close(theirs.o(mixed.transpose(1, 2).flatten(2)), theirs(x)[0])


def test_decoding_token_by_token_equals_the_whole():
    encoding, keys = random_t5(bidirectional=False), torch.arange(150)
    steps = [encoding(keys[p : p + 1], keys) for p in range(150)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(keys))


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(random_t5())


def assert_score_mod(modify, bias):
    pairs = torch.meshgrid([torch.arange(size) for size in bias.shape], indexing="ij")
    assert torch.equal(modify(torch.zeros(()), *pairs), bias)


def test_one_token_and_none():
    encoding, one = random_t5(), torch.tensor([70])
    assert torch.equal(encoding(one, one), encoding.weight[0][:, None, None])
    assert encoding(torch.arange(0), torch.arange(3)).shape == (4, 0, 3)
    assert encoding(torch.zeros(2, 3), torch.zeros(2, 0)).shape == (2, 4, 3, 0)
    assert t5([], range(3), np.zeros((32, 4))).shape == (4, 0, 3)


def test_positions_of_nowhere_do_not_leave_the_table():
    nowhere = torch.tensor([math.nan, math.inf, -math.inf])
    assert random_t5()(nowhere).isfinite().all()


def test_unsigned_positions_do_not_wrap_around():
    assert_unsigned_positions_do_not_wrap_around(random_t5())


def test_a_table_for_two_directions_is_another_than_for_one():
    keys = torch.arange(5)
    both, before = random_t5(), random_t5(bidirectional=False)
    assert not torch.equal(both(keys).triu(1), before(keys).triu(1))
    assert (before(keys)[:, 0] == before.weight[0][:, None]).all()


def test_a_module_can_be_copied():
    encoding = random_t5(buckets=8)
    assert torch.equal(copy.deepcopy(encoding)(torch.arange(50)), encoding(torch.arange(50)))


def test_the_defaults_are_those_of_t5():
    for function in (t5_bucket, T5, t5):
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        assert defaults.get("buckets", 32) == 32
        assert (defaults["max_distance"], defaults["bidirectional"]) == (128, True)


def test_offsets_beyond_whole_numbers_share_the_last_bucket():
    near, far = torch.zeros(1, dtype=torch.float64), torch.full((1,), 1e300, dtype=torch.float64)
    encoding = T5(2)
    assert torch.equal(encoding(near, far), encoding(near, near + 1e6))
    assert torch.equal(encoding(far, near), encoding(near + 1e6, near))


# What is refused: what would give a wrong result without an error

each_way = pytest.mark.parametrize("way", [partial(t5_bucket, [1]), partial(T5, 2)], ids=["t5_bucket", "T5"])


@pytest.mark.parametrize("heads", [0, -1])
def test_a_number_of_heads_that_is_none_is_refused(heads):
    with pytest.raises(ValueError, match=f"t5: heads must be 1 or more, got {heads}"):
        T5(heads)


@each_way
@pytest.mark.parametrize(("buckets", "bidirectional"), [(3, True), (33, True), (2, True), (1, False), (-4, False)])
def test_buckets_that_do_not_fill_their_directions_are_refused(way, buckets, bidirectional):
    with pytest.raises(ValueError, match=f"t5: buckets must be 2 or more a side, and even for two, got {buckets}"):
        way(buckets=buckets, bidirectional=bidirectional)


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_table_of_another_height_is_refused(rows):
    with pytest.raises(ValueError, match=f"t5: buckets must be 2 or more a side, and even for two, got {rows}"):
        t5([0], [0], np.zeros((rows, 2)))


@each_way
@pytest.mark.parametrize(("distance", "bidirectional"), [(8, True), (16, False), (0, True), (-128, True)])
def test_a_max_distance_within_the_exact_buckets_is_refused(way, distance, bidirectional):
    said = f"t5: max_distance must be more than {8 if bidirectional else 16} and at most 2\\*\\*53, got {distance}"
    with pytest.raises(ValueError, match=said):
        way(max_distance=distance, bidirectional=bidirectional)


def test_a_lone_query_needs_keys():
    encoding = random_t5()
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)


def test_two_batches_are_refused_by_torch():
    with pytest.raises(RuntimeError, match="size"):
        T5(2)(torch.zeros(2, 3), torch.zeros(3, 3))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(t5, weight=np.zeros((32, 2)))
