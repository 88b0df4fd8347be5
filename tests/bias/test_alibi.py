"""ALiBi: slopes of any number of heads, biases worked by hand, both directions, channels, and what it refuses."""

import copy
import inspect
import math
from functools import partial

import mpmath
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.bias.alibi import ALiBi, alibi, alibi_slopes
from tests.bias.alike import (
    ROWS,
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
    assert_unsigned_positions_do_not_wrap_around,
)
from tests.contract.encoding_inputs import POSITIONS
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
    """Work out the definition with 60 digits, one pair at a time."""
    with mpmath.workdps(60):
        given = [slope_by_hand(k, heads, alibi_bias_max) for k in range(heads)] if slopes is None else slopes
        left = np.broadcast_to(np.asarray(given, float), heads)
        right = left if right_slopes is None else np.broadcast_to(np.asarray(right_slopes, float), heads)
        bias = np.zeros((heads, len(positions), len(key_positions)))
        for h, t, s in np.ndindex(bias.shape):
            back = mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s]))
            ahead = -mpmath.inf if causal else mpmath.mpf(right[h]) * back
            bias[h, t, s] = -mpmath.mpf(left[h]) * back if back >= 0 else ahead
    return bias


def slope_by_hand(k, heads, most=8):
    """Return the slope of head k: those of the lower power of two P, then the 1st, 3rd, 5th … of 2 P."""
    power = 2 ** math.floor(math.log2(heads))
    if k < power:
        return mpmath.mpf(2) ** (-mpmath.mpf(most) * (k + 1) / power)
    return mpmath.mpf(2) ** (-mpmath.mpf(most) * (2 * (k - power) + 1) / (2 * power))


def exercise(module):
    encoding = module.ALiBi(3)
    encoding.score_mod(torch.arange(5))
    encoding.channels(torch.arange(5), torch.arange(4))
    encoding.channels(torch.arange(10).view(2, 5))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
places = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8)
slopes_of = st.floats(0, 2)


# Slopes


def test_slopes_of_8_heads_halve():
    np.testing.assert_array_equal(alibi_slopes(8), [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256])


def test_slopes_of_16_heads_as_in_the_paper():
    # sec. 3: "1/2^0.5, 1/2^1, 1/2^1.5, ..., 1/2^8"
    np.testing.assert_allclose(alibi_slopes(16), 0.5 ** np.arange(0.5, 8.5, 0.5), rtol=1e-15)


def test_slopes_of_12_heads_are_those_of_8_then_every_other_of_16():
    np.testing.assert_array_equal(alibi_slopes(12), [*alibi_slopes(8), *alibi_slopes(16)[:8:2]])
    np.testing.assert_allclose(alibi_slopes(12)[8:], [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5], rtol=1e-15)


def test_one_head_is_the_flattest():
    np.testing.assert_array_equal(alibi_slopes(1), [1 / 256])


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 6, 7, 8, 9, 12, 20, 31, 32, 33, 40, 64, 71, 96, 128])
def test_slopes_of_any_number_of_heads(heads):
    slopes = alibi_slopes(heads)
    assert slopes.shape == (heads,)
    assert slopes.dtype == np.float64
    np.testing.assert_allclose(slopes, [float(slope_by_hand(k, heads)) for k in range(heads)], rtol=1e-15)
    assert len(set(slopes)) == heads


def test_one_geometric_sequence_for_any_number_of_heads_is_another_set():
    naive = {heads: 2.0 ** (-8 * np.arange(1, heads + 1) / heads) for heads in range(1, 41)}
    differ = [heads for heads in naive if not np.allclose(naive[heads], alibi_slopes(heads))]
    assert differ == [heads for heads in range(1, 41) if heads & (heads - 1)]


def test_the_flattest_head_of_a_power_of_two_has_the_slope_that_is_asked_for():
    np.testing.assert_array_equal(alibi_slopes(4, alibi_bias_max=4), [1 / 2, 1 / 4, 1 / 8, 1 / 16])
    assert ALiBi(64, alibi_bias_max=6).slopes[-1] == alibi([1], [0], 64, alibi_bias_max=6)[-1] * -1 == 2.0**-6


@vectors("alibi_slopes")
def test_slopes_equal_those_of_bloom(vector):
    for heads, expected in vector["expected"].items():
        assert_agrees(vector, alibi_slopes(int(heads)), expected)


# Values worked by hand


def test_the_symmetric_bias_by_hand():
    expected = [[[-1.0, -0.5, 0.0, -0.5], [-1.5, -1.0, -0.5, 0.0]]]
    np.testing.assert_array_equal(alibi([2, 3], range(4), 8)[:1], expected)


def test_the_causal_bias_by_hand():
    bias = alibi([1, 2], range(4), 2, causal=True)
    head = np.array([[-1, 0, -np.inf, -np.inf], [-2, -1, 0, -np.inf]])
    np.testing.assert_array_equal(bias, [head / 16, head / 256])


def test_both_sides_by_hand():
    bias = alibi([2], range(5), 2, slopes=[1, 10], right_slopes=[0.5, 0])
    np.testing.assert_array_equal(bias, [[[-2, -1, 0, -0.5, -1]], [[-20, -10, 0, 0, 0]]])


def test_a_number_is_the_slope_of_every_head():
    np.testing.assert_array_equal(alibi(range(4), range(4), 3, slopes=2), alibi(range(4), range(4), 3, slopes=[2] * 3))
    both = [ALiBi(3, right_slopes=given)(torch.arange(4)) for given in (0.25, (0.25, 0.25, 0.25))]
    assert torch.equal(*both)


def test_flat_content_is_attended_to_geometrically():
    # sum over distances i of i e^(-m i) / sum of e^(-m i) is e^-m / (1 - e^-m): 1.5 tokens at slope 1/2, 255.5 at 1/256
    bias = alibi([20_000], range(20_001), 8, causal=True)[:, 0]
    weights = np.exp(bias) / np.exp(bias).sum(axis=-1, keepdims=True)
    mean = weights @ np.arange(20_000, -1, -1)
    np.testing.assert_allclose(mean, np.exp(-alibi_slopes(8)) / -np.expm1(-alibi_slopes(8)), rtol=1e-9)
    np.testing.assert_allclose(mean[[0, -1]], [1.5415, 255.5003], rtol=1e-4)


def test_a_slope_of_0_hides_the_future_all_the_same():
    encoding = ALiBi(2, slopes=[0, 1], causal=True)
    np.testing.assert_array_equal(encoding(torch.arange(3))[0], [[0, -np.inf, -np.inf], [0, 0, -np.inf], [0, 0, 0]])


@pytest.mark.parametrize("kind", POSITIONS)
def test_the_causal_class_equals_function_and_score_mod_at_all_positions(kind):
    encoding, m = ALiBi(12, causal=True), POSITIONS[kind]
    rows = [m] if m.ndim == 1 else list(m)
    expected = np.stack([alibi(row, row + 1, 12, causal=True) for row in rows])
    made = encoding(torch.from_numpy(m), torch.from_numpy(m + 1))
    np.testing.assert_allclose(made if m.ndim == 2 else made[None], expected, rtol=1e-6)
    pairs = [torch.arange(size) for size in expected.shape]
    modify = encoding.score_mod(torch.from_numpy(m), torch.from_numpy(m + 1))
    np.testing.assert_allclose(modify(torch.zeros(()), *torch.meshgrid(*pairs, indexing="ij")), expected, rtol=1e-6)


def test_the_causal_class_compiles_as_the_symmetric_one():
    torch._dynamo.reset()
    encoding = ALiBi(4, causal=True)
    compiled = torch.compile(encoding, fullgraph=True, backend="eager")
    for length in (1, 7, 64):
        tokens = torch.arange(length)
        assert torch.equal(compiled(tokens, tokens), encoding(tokens, tokens))


# Offsets only


@given(m=places, n=places, shift=st.integers(-(10**6), 10**6), slope=slopes_of, right=slopes_of)
@exactly
def test_moving_all_tokens_changes_nothing(m, n, shift, slope, right):
    moved = alibi([p + shift for p in m], [p + shift for p in n], 2, slope, right)
    np.testing.assert_array_equal(moved, alibi(m, n, 2, slope, right))


@given(m=places, slope=slopes_of)
@exactly
def test_by_default_past_and_future_are_alike(m, slope):
    bias = alibi(m, m, 2, slope)
    np.testing.assert_array_equal(bias, bias.swapaxes(1, 2))
    np.testing.assert_array_equal(bias, alibi(m, m, 2, slope, slope))


@given(m=places, n=places, slope=slopes_of, right=slopes_of)
@exactly
def test_turning_time_round_swaps_the_sides(m, n, slope, right):
    turned = alibi([-p for p in m], [-p for p in n], 2, slope, right)
    np.testing.assert_array_equal(turned, alibi(m, n, 2, right, slope))


@given(a=st.integers(0, 10**6), b=st.integers(0, 10**6))
@exactly
def test_two_steps_back_cost_what_each_costs(a, b):
    both, first, second = (alibi([step], [0], 8) for step in (a + b, a, b))
    np.testing.assert_allclose(both, first + second, rtol=1e-14)


# Channels


def products(encoding, *positions):
    of_queries, of_keys = encoding.channels(*positions)
    return of_queries @ of_keys.mT


def test_products_of_the_channels_are_the_bias_of_the_keys_before():
    for positions in (
        (torch.arange(9),),
        (torch.tensor([10**7, 7, 8]), torch.tensor([3, 0, 7])),
        (torch.arange(9) / 3,),
    ):
        made = products(ALiBi(6), *positions)
        m, n = positions[0][:, None], positions[-1]
        expected = torch.from_numpy(alibi(positions[0], positions[-1], 6))
        torch.testing.assert_close(made.where(n <= m, 0), expected.where(n <= m, 0), rtol=1e-12, atol=1e-9)
        assert (made.where(n > m, 1) > 0).all(), "a key ahead gets a bonus"


def test_channels_of_a_batch():
    encoding, rows = ALiBi(6), torch.tensor([[5, 6, 9], [0, 2, 70]])
    both = products(encoding, rows)
    assert both.shape == (2, 6, 3, 3)
    for row, made in zip(rows, both, strict=True):
        torch.testing.assert_close(made, products(encoding, row))
    shapes = [tuple(made.shape) for made in encoding.channels(rows, torch.arange(4))]
    assert shapes == [(2, 6, 3, 2), (2, 1, 4, 2)]
    assert products(encoding, torch.arange(4), rows).shape == (2, 6, 4, 3)


def test_channels_are_float64_and_small_however_far_the_tokens():
    of_queries, of_keys = ALiBi(4).bfloat16().channels(torch.arange(10**7, 10**7 + 9))
    assert of_queries.dtype == of_keys.dtype == torch.float64
    assert max(of_queries.abs().max(), of_keys.abs().max()) <= 8


def test_a_constant_of_each_query_changes_no_weight():
    q, k = torch.randn(2, 1, 4, 9, 8).double()
    past = torch.ones(9, 9, dtype=torch.bool).tril()
    row_constant = torch.from_numpy(alibi_slopes(4))[:, None, None] * torch.arange(9)
    logits = (q @ k.mT).masked_fill(~past, -math.inf)
    torch.testing.assert_close((logits + row_constant).softmax(-1), (logits + ALiBi(4)(torch.arange(9))).softmax(-1))
    unmasked = q @ k.mT
    assert not torch.allclose((unmasked + row_constant).softmax(-1), (unmasked + ALiBi(4)(torch.arange(9))).softmax(-1))


# Peers


@pytest.mark.parametrize("heads", [1, 3, 8, 12, 20, 32])
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
    mask = torch.tensor(params["attention_mask"]).bool()
    bias = ALiBi(params["n_heads"])((mask.cumsum(dim=-1) - 1).clamp(min=0)).numpy()
    seen = (mask[:, None, None, :] & torch.ones(5, 5, dtype=torch.bool).tril()).numpy()
    for b, t in mask.nonzero().tolist():
        constant = (expected[b, :, 0] - bias[b, :, t])[:, seen[b, 0, t]]
        assert_agrees(vector, constant - constant[:, :1], np.zeros_like(constant))


def theirs_up_to_a_constant(theirs, heads, length):
    """Compare row-constant biases (h, 1, s) with ours below the diagonal, each row less its value at the query."""
    past = np.tri(length, dtype=bool)
    expected = np.asarray(theirs)[:, None, :] - np.asarray(theirs)[:, :, None]
    return np.where(past, expected, 0), np.where(past, alibi(range(length), range(length), heads), 0)


@pytest.mark.parametrize("heads", [1, 4, 7, 8, 12, 16, 40])
def test_the_causal_bias_equals_bloom_and_mpt_up_to_a_constant_of_each_query(heads):
    bloom = peer("transformers.models.bloom.modeling_bloom")
    mpt = peer("transformers.models.mpt.modeling_mpt")
    ones = torch.ones(1, 30, dtype=torch.long)
    for theirs in (bloom.build_alibi_tensor(ones, heads, torch.float32), mpt.build_mpt_alibi_tensor(heads, 30)):
        np.testing.assert_allclose(*theirs_up_to_a_constant(theirs.view(heads, 30), heads, 30), atol=1e-5)


@pytest.mark.parametrize("heads", [1, 4, 7, 8, 12, 40])
@pytest.mark.parametrize("most", [4, 8, 11.5])
def test_slopes_of_any_alibi_bias_max_equal_those_of_mpt(heads, most):
    theirs = peer("transformers.models.mpt.modeling_mpt").build_mpt_alibi_tensor(heads, 30, alibi_bias_max=most)
    np.testing.assert_allclose(-theirs[:, 0, -2], alibi_slopes(heads, most), rtol=1e-6)
    causal = ALiBi(heads, causal=True, alibi_bias_max=most)(torch.tensor([29]), torch.arange(30))  # one new query
    torch.testing.assert_close(causal, theirs)
    for function in (alibi, ALiBi, alibi_slopes):
        assert inspect.signature(function).parameters["alibi_bias_max"].default == 8


def test_falcon_rounds_slopes_and_products_to_bfloat16():
    falcon = peer("transformers.models.falcon.modeling_falcon")
    theirs = falcon.build_alibi_tensor(torch.ones(1, 600, dtype=torch.long), 16, torch.float32).view(16, 600)
    actual, ours = theirs_up_to_a_constant(theirs, 16, 600)
    assert np.abs(actual - ours).max() > 0.5
    np.testing.assert_allclose(actual[:, :6, :6], ours[:, :6, :6], atol=0.02)


# The module


def test_any_positions_by_hand():
    bias = ALiBi(8)(torch.tensor([4.5, -2.0]), torch.tensor([4.0, 100.0, -2.0]))
    assert bias[0].tolist() == [[-0.25, -47.75, -3.25], [-3.0, -51.0, 0.0]]


def test_offsets_are_exact_between_far_positions():
    keys = torch.tensor([10**7, 10**7 + 1, 2**24 + 1, 2**40 + 1, 2**40 + 3])
    bias = ALiBi(1, slopes=1)(keys)[0]
    expected = -(keys[:, None] - keys).abs().float()
    assert torch.equal(bias, expected)
    modify, (i, j) = ALiBi(1, slopes=1).score_mod(keys), torch.meshgrid([torch.arange(5)] * 2, indexing="ij")
    assert torch.equal(modify(torch.zeros(()), 0, torch.zeros(5, 5).long(), i, j), expected)


def test_fractions_are_exact_beside_far_positions():
    keys = torch.tensor([10**6, 10**6 + 0.1], dtype=torch.float64)
    assert ALiBi(1, slopes=1)(keys)[0, 1, 0].item() == pytest.approx(-0.1, rel=1e-7)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoding_token_by_token_equals_the_whole(options):
    encoding, keys = ALiBi(**{"heads": 4} | options), torch.arange(9)
    steps = [encoding(keys[p : p + 1], keys) for p in range(9)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(keys))


def test_one_token_and_none():
    encoding, one = ALiBi(4), torch.tensor([70])
    assert torch.equal(encoding(one, one), torch.zeros(4, 1, 1))
    assert encoding(torch.arange(0), torch.arange(3)).shape == (4, 0, 3)
    assert encoding(torch.zeros(2, 3), torch.zeros(2, 0)).shape == (2, 4, 3, 0)
    assert alibi([], range(3), 4).shape == (4, 0, 3)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_row_serves_a_batch(options):
    assert_one_row_serves_a_batch(ALiBi(4, **options))


def test_one_row_serves_a_batch_in_the_fused_channels():
    encoding, one = ALiBi(4), torch.tensor([[3, 1, 4, 1]])
    torch.testing.assert_close(products(encoding, one, ROWS), products(encoding, one[0], ROWS))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_compiled_module_gives_the_same_bits(options):
    torch._dynamo.reset()
    encoding = ALiBi(4, **options)
    compiled = torch.compile(encoding, fullgraph=True, backend="aot_eager")
    for positions in (torch.arange(10**7, 10**7 + 40), torch.rand(40).double(), torch.arange(80).view(2, 40)):
        assert torch.equal(compiled(positions), encoding(positions))


def test_unsigned_positions_do_not_wrap_around():
    assert_unsigned_positions_do_not_wrap_around(ALiBi(2, right_slopes=0))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_bias_is_a_new_float32_tensor_in_order(options):
    encoding = ALiBi(**{"heads": 4} | options)
    for positions in (torch.arange(6), torch.arange(12).view(2, 6)):
        bias = encoding(positions)
        assert bias.dtype == torch.float32
        assert bias.is_contiguous()


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_flex_attention_takes_the_score_mod(options):
    from torch.nn.attention.flex_attention import flex_attention

    encoding, (q, k, v) = ALiBi(4, **options), torch.randn(3, 2, 4, 6, 16)
    made = flex_attention(q, k, v, score_mod=encoding.score_mod(torch.arange(6)))
    torch.testing.assert_close(made, F.scaled_dot_product_attention(q, k, v, attn_mask=encoding(torch.arange(6))))


def test_a_module_can_be_copied():
    encoding = ALiBi(3, slopes=[1, 2, 3], right_slopes=0)
    assert torch.equal(copy.deepcopy(encoding)(torch.arange(5)), encoding(torch.arange(5)))


def test_numbers_from_numpy_and_tensors_are_taken():
    encoding = ALiBi(4, slopes=torch.arange(4), right_slopes=np.float32(0.5))
    assert torch.equal(encoding(torch.arange(5)), ALiBi(4, slopes=[0, 1, 2, 3], right_slopes=0.5)(torch.arange(5)))


def test_the_defaults_are_the_symmetric_bias_of_the_paper_s_slopes():
    for function in (alibi, ALiBi):
        defaults = {name: p.default for name, p in inspect.signature(function).parameters.items()}
        assert (defaults["slopes"], defaults["right_slopes"], defaults["causal"]) == (None, None, False)


# What is refused: what would give a wrong result without an error

BAD_SLOPES = [-0.5, [1, 2, 3, -4], math.nan]


@pytest.mark.parametrize("heads", [0, -1, 1.5])
def test_slopes_of_no_heads_are_refused_by_python(heads):
    with pytest.raises((TypeError, ValueError)):
        alibi_slopes(heads)


@pytest.mark.parametrize(
    ("name", "slopes"),
    [("slopes", math.inf), *((name, slopes) for name in ("slopes", "right_slopes") for slopes in BAD_SLOPES)],
)
def test_slopes_that_reward_distance_or_hide_all_are_refused(name, slopes):
    for call in (partial(alibi, [0, 1], [0, 1]), ALiBi):
        with pytest.raises(ValueError, match=r"alibi: slopes must be finite and 0 or more, got .* back and .* ahead"):
            call(4, **{name: slopes})


@pytest.mark.parametrize("slopes", [[1, 2], [[1, 2, 3, 4]]], ids=str)
def test_slopes_for_another_number_of_heads_are_refused_by_numpy(slopes):
    for call in (partial(alibi, [0, 1], [0, 1]), ALiBi):
        with pytest.raises(ValueError, match=r"broadcast|dimensions"):
            call(4, slopes=slopes)


def test_a_lone_query_needs_keys():
    encoding = ALiBi(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod, encoding.channels)


def test_two_batches_are_refused_by_torch():
    for call in (ALiBi(2), ALiBi(2).channels):
        with pytest.raises(RuntimeError, match="size"):
            torch.add(*call(torch.zeros(2, 3), torch.zeros(3, 3)))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(alibi, heads=2)
