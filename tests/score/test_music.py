"""Music Transformer: skewing worked by hand and against Transformer-XL and XLNet, the table, and what it refuses."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention

from posenc.score.music import Music, music, skew
from tests.peers import peer
from tests.score.alike import (
    assert_arrays_are_refused_where_tensors_are_meant,
    assert_one_row_is_a_row_in_numpy,
    assert_one_row_serves_a_batch,
    assert_the_score_mod_keeps_no_strided_positions,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/doors.py)

OPTIONS = [
    {"length": 4},
    {"length": 4, "causal": False},
    {"length": 9, "heads": None},
    {"length": 9, "heads": None, "causal": False},
    {"length": 1},
]
LEARNED = {"weight"}
REFUSED = {"fractional"}


def oracle(q, k, positions, key_positions, weight, causal=True):
    """Work out the definition with 60 digits, one pair at a time: the rows of a head by their offsets."""
    with mpmath.workdps(60):
        scores = np.zeros((len(q), len(positions), len(key_positions)))
        for h, t, s in np.ndindex(scores.shape):
            rows = weight if weight.ndim == 2 else weight[h]
            first = -(len(rows) - 1) if causal else -(len(rows) // 2)
            by_offset = {first + row: rows[row] for row in range(len(rows))}
            offset = int(key_positions[s]) - int(positions[t])
            if not causal or offset <= 0:
                row = by_offset[min(max(offset, min(by_offset)), max(by_offset))]
                scores[h, t, s] = mpmath.fdot(map(float, q[h, t]), map(float, row)) / mpmath.sqrt(q.shape[-1])
    return scores


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 9)
either = pytest.mark.parametrize("causal", [True, False])


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=3, heads=4, length=4, causal=True):
    torch.manual_seed(0)
    return Music(dim, heads, length, causal).double()


def ruler(length=4, causal=True):
    """Return a module of one channel whose rows are the offsets: its score at a query of 1 is the clipped offset."""
    module = build(1, 1, length, causal)
    module.weight.data[0, :, 0] = torch.arange(1 - length, 1 if causal else length)
    return module


def ones(t):
    return torch.ones(1, 1, t, 1, dtype=torch.float64)


# Skewing


def test_skewing_slides_each_row_one_column_further():
    x = torch.tensor([[10, 11, 12], [20, 21, 22], [30, 31, 32]])
    assert skew(x, 3).tolist() == [[12, 0, 0], [21, 22, 0], [30, 31, 32]]


def test_skewing_fewer_queries_than_keys():
    x = torch.tensor([[10, 11, 12, 13], [20, 21, 22, 23]])
    assert skew(x, 4).tolist() == [[11, 12, 13, 0], [20, 21, 22, 23]]


def test_skewing_both_sides():
    x = torch.tensor([[10, 11, 12, 13, 14], [20, 21, 22, 23, 24], [30, 31, 32, 33, 34]])
    assert skew(x, 3).tolist() == [[12, 13, 14], [21, 22, 23], [30, 31, 32]]


@given(t=sizes, keys=sizes, more=st.integers(0, 12))
@exactly
def test_every_element_comes_from_the_column_of_its_offset(t, keys, more):
    x = torch.arange(1, 2 * t * (keys + more) + 1).view(2, t, keys + more)
    made = skew(x, keys)
    assert made.shape == (2, t, keys)
    for batch, i, j in np.ndindex(2, t, keys):
        column = j - i + t - 1
        assert made[batch, i, j] == (x[batch, i, column] if column < keys + more else 0)


def test_skewing_keeps_dtype_and_leading_axes_and_its_input():
    for dtype in (torch.float16, torch.float64, torch.int64):
        x = torch.ones(2, 3, 4, 5, dtype=dtype)
        assert skew(x, 5).shape == (2, 3, 4, 5)
        assert skew(x, 5).dtype == dtype
        assert x.all()


def test_what_lies_past_the_table_cannot_spoil_the_gradient():
    x = torch.full((3, 3), math.inf).requires_grad_()
    skew(x, 3)[2].sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]


@vectors("rel_shift_causal_txl")
def test_skewing_equals_the_shift_of_transformer_xl_where_it_is_valid(vector):
    x, expected = np.array(vector["inputs"]["x_q_k"]), vector["expected"]
    made, valid = skew(torch.tensor(x), x.shape[1]).numpy(), np.array(expected["valid"], bool)
    assert_agrees(vector, made[valid], np.array(expected["shifted_q_k"])[valid])
    assert not made[~valid].any()  # theirs holds products of the next query there


@vectors("rel_shift_bidirectional")
def test_skewing_equals_the_shift_of_xlnet(vector):
    x = torch.tensor(vector["inputs"]["x"])
    assert_agrees(vector, skew(x[..., 1:], vector["params"]["k_len"]), vector["expected"]["shifted"])


# Peers


@pytest.mark.parametrize(("t", "s"), [(1, 1), (1, 7), (4, 4), (3, 8), (8, 8)])
def test_equals_xlnets_shift_on_random_numbers(t, s):
    xlnet = peer("transformers.models.xlnet.modeling_xlnet").XLNetRelativeAttention
    x = torch.randn(2, 3, t, t + s)
    assert torch.equal(skew(x[..., 1:], s), xlnet.rel_shift_bnij(x, klen=s))


@pytest.mark.parametrize("length", [6, 11])
def test_equals_the_relative_attention_of_tensor2tensor(length):
    # as published there: the last rows of the table, one column of padding, reshape, drop the first row
    (q, k), module = content(), build(length=length)
    used = module.weight[:, length - 6 :]  # (h, s, d)
    products = torch.nn.functional.pad(torch.einsum("bhld,hmd->bhlm", q, used), (1, 0))
    theirs = products.reshape(2, 4, 7, 6)[:, :, 1:] / math.sqrt(3)
    torch.testing.assert_close(module(q, k), theirs.tril())
    assert not torch.allclose(theirs, theirs.tril())


# Values worked by hand


def test_the_score_is_the_offset_of_a_table_of_offsets():
    scores = ruler()(ones(3), ones(6))[0, 0]  # the queries stand at 3, 4 and 5
    torch.testing.assert_close(
        scores, torch.tensor([[-3, -2, -1, 0, 0, 0], [-3, -3, -2, -1, 0, 0], [-3, -3, -3, -2, -1, 0]]).double()
    )


def test_a_bidirectional_table_goes_on_to_the_right():
    scores = ruler(length=3, causal=False)(ones(5), ones(5))[0, 0]
    torch.testing.assert_close(scores[0], torch.tensor([0.0, 1, 2, 2, 2]).double())
    torch.testing.assert_close(scores[3], torch.tensor([-2.0, -2, -1, 0, 1]).double())


def test_the_same_in_numpy_and_divided_by_the_root_of_the_width():
    weight = np.zeros((1, 3, 4))
    weight[0, :, 0] = [3, 2, 1]
    scores = music(np.full((1, 1, 4), 5), np.zeros((1, 4, 4)), [2], [0, 1, 2, 3], weight)
    np.testing.assert_array_equal(scores, [[[7.5, 5, 2.5, 0]]])


def test_the_future_of_a_causal_query_scores_0_even_where_its_own_place_does_not():
    module = build()
    scores = module(*content())
    ahead = torch.ones(6, 6).triu(1).bool()
    assert not scores[..., ahead].any()
    assert scores[..., ~ahead].all()


def test_each_head_has_its_own_table():
    q = content()[0][:, :1].expand(-1, 4, -1, -1)
    scores = build()(q, content()[1])
    assert not torch.allclose(scores[:, 0], scores[:, 1])
    shared = build(heads=None)(q, content()[1])
    assert torch.equal(shared[:, 0], shared[:, 1])


def test_a_causal_table_is_the_left_half_of_a_bidirectional_one():
    (q, k), both, past = content(), build(causal=False), build()
    past.weight.data = both.weight.data[:, :4]
    torch.testing.assert_close(past(q, k), both(q, k).tril())


# Skewing and looking up are the same


@given(seed=seeds, t=sizes, s=sizes, length=st.integers(1, 12), causal=st.booleans())
@exactly
def test_default_positions_equal_the_same_positions_given(seed, t, s, length, causal):
    (q, k), module = content(seed, t=t, s=s), build(length=length, causal=causal)
    assert torch.equal(module(q, k), module(q, k, torch.arange(s - t, s), torch.arange(s)))
    assert torch.equal(module(q, k), module(q, k, torch.arange(s - t, s)))


@either
def test_the_products_of_offsets_beyond_the_table_are_those_of_its_last_row(causal):
    (q, k), module = content(t=40, s=40), build(length=5, causal=causal)
    scores = module(q, k)
    assert (scores[:, :, 39, :35] == scores[:, :, 39, :1]).all()
    assert (scores[:, :, 0, 5:] == scores[:, :, 0, -1:]).all()


def test_no_index_of_pairs_and_no_vectors_of_pairs_are_made_by_default():
    module, t = build(dim=64, heads=1, length=256).float(), 256
    q = torch.zeros(1, 1, t, 64)
    with torch.profiler.profile(profile_memory=True) as profile:
        module(q, q)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 4 * 4 * t * t  # a few (t, s) of float32; (t, s, d) would be 64 of them
    assert not [event.name for event in profile.events() if "gather" in event.name]


# Properties


@given(seed=seeds, shift=st.integers(-(10**9), 10**9), causal=st.booleans())
@exactly
def test_shifting_all_positions_changes_nothing(seed, shift, causal):
    (q, k), where, module = content(seed), torch.tensor([3, 1, 4, 1, 5, 9]), build(causal=causal)
    assert torch.equal(module(q, k, where, where), module(q, k, where + shift, where + shift))


@given(seed=seeds, order=st.permutations(range(6)), causal=st.booleans())
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, order, causal):
    (q, k), where, module = content(seed), torch.tensor([3, 1, 4, 1, 5, 9]), build(causal=causal)
    assert torch.equal(module(q, k, where, where[list(order)]), module(q, k, where, where)[..., order])


@either
def test_decoding_token_by_token_equals_scoring_at_once(causal):
    (q, k), module = content(), build(causal=causal)
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1])
        torch.testing.assert_close(step[..., 0, :], whole[..., p, : p + 1])


def test_left_padding_moves_no_score_of_the_text():
    (q, k), module = content(), build()
    pad = torch.randn(2, 4, 3, 3).double()
    padded = module(torch.cat([pad, q], dim=2), torch.cat([pad[:, :2], k], dim=2))
    torch.testing.assert_close(padded[..., 3:, 3:], module(q, k))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@torch.no_grad()
def test_flex_attention_takes_the_score_mod():
    (q, k), module = content(d=16, t=16, s=16, g=4), build(dim=16)
    expected = (q @ k.mT / 4 + module(q, k)).softmax(dim=-1) @ k
    made = flex_attention(q, k, k, score_mod=module.score_mod(q, k))
    torch.testing.assert_close(made, expected)


def test_one_compilation_serves_every_cache_that_grows():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    module = build()
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    for s in (5, 6, 9, 17):
        q, k = content(t=1, s=s)
        assert torch.equal(compiled(q, k), module(q, k))
    assert len(graphs) <= 2


# Edges


@either
@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s, causal):
    assert build(causal=causal)(*content(t=t, s=s)).shape == (2, 4, t, s)


def test_one_token_scores_its_own_place():
    q, k = content(t=1, s=1)
    torch.testing.assert_close(
        build()(q, k)[..., 0], torch.einsum("bhtd,hd->bht", q, build().weight[:, -1]) / math.sqrt(3)
    )


def test_more_queries_than_keys_start_before_them():
    torch.testing.assert_close(ruler(3, causal=False)(ones(3), ones(1)).flatten(), torch.tensor([2.0, 1, 0]).double())
    assert not ruler(3)(ones(3), ones(1)).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_queries_are_scored_in_float32_and_rounded_once(dtype):
    (q, k), module = (x.to(dtype) for x in content()), build().float()
    assert torch.equal(module(q, k), module(q.float(), k.float()).to(dtype))


def test_a_query_that_is_not_a_number_spoils_its_own_row_only():
    (q, k), module = content(), build()
    q[0, 0, 2] = math.nan
    scores = module(q, k)
    assert scores[0, 0, 2, :3].isnan().all()
    assert scores.isnan().sum() == 3


def test_the_table_starts_normal_with_a_standard_deviation_of_one_over_the_root_of_the_width():
    weight = build(dim=64, heads=8, length=100).weight
    assert weight.shape == (8, 100, 64)
    assert abs(weight.std().item() * 8 - 1) < 0.03


def test_a_bidirectional_table_has_a_row_for_each_offset():
    assert build(length=5, causal=False).weight.shape == (4, 9, 3)
    assert build(heads=None, length=5).weight.shape == (5, 3)


def test_printing_a_module_shows_its_arguments():
    assert repr(Music(8, 2, 16)) == "Music(dim=8, heads=2, length=16, causal=True)"


# What it refuses


@pytest.mark.parametrize("setting", ["dim", "heads", "length"])
@pytest.mark.parametrize("wrong", [0, -1, 2.0, "4", True], ids=repr)
def test_settings_that_are_no_positive_integer_are_refused(setting, wrong):
    with pytest.raises(ValueError, match=f"music: {setting} must be a positive integer, got {wrong!r}"):
        Music(**{"dim": 8, "heads": 2, "length": 4, setting: wrong})


def test_causal_is_a_switch():
    with pytest.raises(ValueError, match="music: causal must be True or False, got 'yes'; "):
        Music(8, 2, 4, causal="yes")
    with pytest.raises(ValueError, match="music: causal must be True or False, got None; "):
        music(np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), [0], [0], np.zeros((3, 2)), causal=None)


@pytest.mark.parametrize("keys", [-1, 6, 2.0, True, None], ids=repr)
def test_more_keys_than_columns_are_refused(keys):
    with pytest.raises(ValueError, match=f"music: keys must be an integer of at most 5, got {keys!r}; "):
        skew(torch.zeros(3, 5), keys)


@pytest.mark.parametrize("x", [torch.zeros(5), np.zeros((3, 5)), None], ids=["one axis", "ndarray", "None"])
def test_what_has_no_columns_is_not_skewed(x):
    with pytest.raises(ValueError, match=r"music: x must be a tensor \(..., t, w\), got "):
        skew(x, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool], ids=str)
def test_positions_that_are_no_integers_are_refused(dtype):
    (q, k), where = content(), torch.arange(6).to(dtype)
    with pytest.raises(
        ValueError, match=rf"music: positions must be an integer tensor \(6,\) or \(2, 6\), got {dtype} \(6,\)"
    ):
        build()(q, k, where)
    with pytest.raises(ValueError, match=r"music: key_positions must be an integer tensor \(6,\) or \(2, 6\), got "):
        build().score_mod(q, k, None, where)


def test_one_row_of_positions_serves_a_batch():
    q, k = content()
    assert_one_row_serves_a_batch(build(), q, k, torch.zeros((), dtype=torch.float64))


def test_the_score_mod_keeps_no_strided_positions_as_cpu_kernels_read_none():
    assert_the_score_mod_keeps_no_strided_positions(build(), *content())


def test_one_row_of_positions_is_a_row_in_numpy():
    assert_one_row_is_a_row_in_numpy(music, np.random.default_rng(0).normal(size=(5, 4)))


def test_queries_of_other_heads_are_refused():
    with pytest.raises(ValueError, match=r"music: q must be a floating point tensor \(b, 5, t, 3\), got torch.float64"):
        build(heads=5)(*content())


def test_keys_whose_heads_divide_none_are_refused():
    with pytest.raises(ValueError, match="music: k must be of q's batch with g dividing h, got "):
        build()(content()[0], torch.zeros(2, 3, 6, 3))


@pytest.mark.parametrize("rows", [0, 4])
def test_an_even_number_of_rows_for_both_sides_is_refused_by_the_numpy_function(rows):
    with pytest.raises(ValueError, match=r"music: weight must be of length rows, 2 length - 1 if not causal, got "):
        music(np.zeros((1, 1, 2)), np.zeros((1, 1, 2)), [0], [0], np.zeros((rows, 2)), causal=False)


@pytest.mark.parametrize("where", [[0.5, 1, 2], [math.nan, 0, 0], [math.inf, 0, 0], [0, 1]], ids=str)
def test_positions_that_are_not_whole_are_refused_by_the_numpy_function(where):
    with pytest.raises(ValueError, match="music: positions must be 3 whole numbers, got "):
        music(np.zeros((1, 3, 2)), np.zeros((1, 3, 2)), where, range(3), np.zeros((5, 2)))


def test_arrays_are_refused_where_tensors_are_meant():
    assert_arrays_are_refused_where_tensors_are_meant(Music(8, 4, 5), heads="4")
