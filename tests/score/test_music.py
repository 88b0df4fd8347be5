"""Music Transformer: skewing by hand and against Transformer-XL and XLNet, tensor2tensor, and the past of Shaw."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.score.music import Music, music, skew
from posenc.score.shaw import Shaw
from tests.peers import peer
from tests.score.alike import (
    FLOAT_POSITIONS,
    WRONG_CONTENT,
    assert_half_precision_is_rounded_once,
    assert_numpy_wants_one_position_a_token,
    assert_positions_are_subtracted_in_64_bits,
    assert_the_score_mod_takes_rows_as_they_lie,
    content,
    randomized,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"length": 4}, {"length": 9, "heads": 1}, {"length": 1}]
LEARNED = {"weight"}
REFUSED = {"fractional"}


def oracle(q, k, positions, key_positions, weight):
    """Work out the definition with 60 digits, one pair at a time."""
    with mpmath.workdps(60):
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h, t, s in np.ndindex(scores.shape):
            rows = weight[h % len(weight)]
            distance = int(positions[t]) - int(key_positions[s])
            if distance >= 0:
                row = rows[max(len(rows) - 1 - distance, 0)]
                scores[h, t, s] = mpmath.fdot(map(float, q[h, t]), map(float, row)) / mpmath.sqrt(q.shape[-1])
    return scores


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
sizes = st.integers(0, 9)


def build(heads=4, length=4):
    return randomized(Music(3, heads, length))


# Skewing


@pytest.mark.parametrize(
    ("x", "keys", "expected"),
    [
        ([[10, 11, 12], [20, 21, 22], [30, 31, 32]], 3, [[12, 0, 0], [21, 22, 0], [30, 31, 32]]),
        ([[10, 11, 12, 13], [20, 21, 22, 23]], 4, [[11, 12, 13, 0], [20, 21, 22, 23]]),
        (
            [[10, 11, 12, 13, 14], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34]],
            3,
            [[12, 13, 14], [21, 22, 23], [30, 31, 32]],
        ),
    ],
    ids=["causal", "fewer queries than keys", "both sides"],
)
def test_skewing_slides_each_row_one_column_further(x, keys, expected):
    assert skew(torch.tensor(x), keys).tolist() == expected


@given(t=sizes, keys=sizes, more=st.integers(0, 12))
@exactly
def test_every_element_comes_from_the_column_of_its_offset(t, keys, more):
    x = torch.arange(1, 2 * t * (keys + more) + 1).view(2, t, keys + more)
    result = skew(x, keys)
    assert result.shape == (2, t, keys)
    for batch, i, j in np.ndindex(2, t, keys):
        column = j - i + t - 1
        assert result[batch, i, j] == (x[batch, i, column] if column < keys + more else 0)


def test_what_lies_past_the_table_cannot_spoil_the_gradient():
    x = torch.full((3, 3), math.inf).requires_grad_()
    skew(x, 3)[2].sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("keys", [-1, 6])
def test_more_keys_than_columns_are_refused(keys):
    with pytest.raises(ValueError, match=f"music: keys must be at most 5, the columns of x, got {keys}"):
        skew(torch.zeros(3, 5), keys)


# Peers


@vectors("rel_shift_causal_txl")
def test_skewing_equals_the_shift_of_transformer_xl_where_it_is_valid(vector):
    x, expected = np.array(vector["inputs"]["x_q_k"]), vector["expected"]
    result, valid = skew(torch.tensor(x), x.shape[1]).numpy(), np.array(expected["valid"], bool)
    assert_agrees(vector, result[valid], np.array(expected["shifted_q_k"])[valid])
    assert not result[~valid].any()  # theirs holds products of the next query there


@vectors("rel_shift_bidirectional")
def test_skewing_equals_the_shift_of_xlnet(vector):
    x = torch.tensor(vector["inputs"]["x"])
    assert_agrees(vector, skew(x[..., 1:], vector["params"]["k_len"]), vector["expected"]["shifted"])


@pytest.mark.parametrize(("t", "s"), [(1, 1), (1, 7), (4, 4), (3, 8), (8, 8)])
def test_equals_xlnets_shift_on_random_numbers(t, s):
    xlnet = peer("transformers.models.xlnet.modeling_xlnet").XLNetRelativeAttention
    x = torch.randn(2, 3, t, t + s)
    assert torch.equal(skew(x[..., 1:], s), xlnet.rel_shift_bnij(x, klen=s))


@pytest.mark.parametrize("length", [6, 11])
def test_equals_the_relative_attention_of_tensor2tensor(length):
    # as published there: the last rows of the table, one column of padding, reshape, drop the first row
    (q, k), module = content(), build(length=length)
    rows = module.weight[:, length - 6 :]  # (h, s, d)
    products = torch.nn.functional.pad(torch.einsum("bhld,hmd->bhlm", q, rows), (1, 0))
    theirs = products.reshape(2, 4, 7, 6)[:, :, 1:] / math.sqrt(3)
    torch.testing.assert_close(module(q, k), theirs.tril())
    assert not torch.allclose(theirs, theirs.tril())


# Scores worked by hand


def test_rows_go_from_the_far_past_to_the_querys_own_place():
    # the rows are their offsets, so that the score is the clipped offset, and 0 for a key ahead
    table = np.arange(-3, 1)[:, None]
    scores = music(np.ones((1, 3, 1)), np.ones((1, 6, 1)), [3, 4, 5], range(6), table - 10)
    expected = [[-13, -12, -11, -10, 0, 0], [-13, -13, -12, -11, -10, 0], [-13, -13, -13, -12, -11, -10]]
    np.testing.assert_array_equal(scores, [expected])


def test_the_score_is_divided_by_the_root_of_the_width():
    # q . row = 0.1 * 3 + 2 * 0.7 = 1.7 in a width of 4
    scores = music([[[0.1, 2, 0, 0]]], np.zeros((1, 1, 4)), [7], [7], [[3, 0.7, 0, 0]])
    np.testing.assert_allclose(scores, [[[1.7 / 2]]], rtol=1e-14)


def test_each_head_has_its_own_table_or_all_share_one():
    x = np.ones((2, 1, 1))
    np.testing.assert_array_equal(music(x, x, [0], [0], [[[5]], [[7]]]), [[[5]], [[7]]])
    np.testing.assert_array_equal(music(x, x, [0], [0], [[5]]), [[[5]], [[5]]])


def test_it_is_the_past_of_shaw():
    (q, k), past, both = content(), build(heads=1), randomized(Shaw(3, clip=3))
    past.weight.data[0] = both.key_table.data[:4]
    torch.testing.assert_close(past(q, k), both(q, k).tril())


# Skewing and looking up are the same


@pytest.mark.parametrize("length", [1, 3, 12])
@pytest.mark.parametrize("t", [0, 2, 7])
def test_default_positions_equal_the_same_positions_looked_up(t, length):
    (q, k), module, positions = content(t=t, s=t), build(length=length), torch.arange(t)
    assert torch.equal(module(q, k), module(q, k, positions))


def test_no_index_of_pairs_and_no_vectors_of_pairs_are_computed_by_default():
    module, t = Music(dim=64, heads=1, length=256), 256
    q = torch.zeros(1, 1, t, 64)
    with torch.profiler.profile(profile_memory=True) as profile:
        module(q, q)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 4 * 4 * t * t  # a few (t, s) of float32; (t, s, d) would be 64 of them
    assert not [event.name for event in profile.events() if "gather" in event.name]


# The module


@pytest.mark.parametrize(("t", "s"), [(0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_half_precision_is_scored_in_float32_and_rounded_once():
    assert_half_precision_is_rounded_once(build())


def test_positions_are_subtracted_in_64_bits():
    assert_positions_are_subtracted_in_64_bits(build())


def test_a_query_that_is_not_a_number_spoils_its_own_row_only():
    q, k = content()
    q[0, 0, 2] = math.nan
    scores = build()(q, k)
    assert scores[0, 0, 2, :3].isnan().all()
    assert scores.isnan().sum() == 3


def test_the_table_starts_normal_with_a_standard_deviation_of_one_over_the_root_of_the_width():
    torch.manual_seed(0)
    weight = Music(dim=64, heads=8, length=100).weight
    assert weight.shape == (8, 100, 64)
    assert abs(weight.std().item() * 8 - 1) < 0.03


def test_the_score_mod_takes_rows_as_they_lie():
    assert_the_score_mod_takes_rows_as_they_lie(build(), *content())


# What is refused


@pytest.mark.parametrize(("changes", "message"), [*WRONG_CONTENT, FLOAT_POSITIONS])
def test_content_of_two_widths_or_integers_and_positions_of_floats_are_refused(changes, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"music: {message}"):
        build()(**{"q": q, "k": k} | changes)


@pytest.mark.parametrize("positions", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_the_numpy_function_takes_one_whole_position_a_token(positions):
    x, weight = np.ones((2, 3, 4)), np.ones((2, 5, 4))
    assert_numpy_wants_one_position_a_token(music, weight)
    with pytest.raises(ValueError, match="music: positions must be whole numbers, got "):
        music(x, x, positions, range(3), weight)
