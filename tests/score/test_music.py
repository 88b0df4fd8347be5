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
from posenc.score.shaw import Shaw
from tests.peers import peer
from tests.score.alike import (
    assert_numpy_wants_one_position_a_token,
    assert_one_row_serves_a_batch,
    assert_refused_with_numbers,
    assert_the_score_mod_keeps_no_strided_positions,
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
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(0, 9)


def content(seed=0, b=2, h=4, g=2, t=6, s=6, d=3):
    """Return random queries and keys in float64."""
    made = np.random.default_rng(seed)
    return tuple(torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, s, d)))


def build(dim=3, heads=4, length=4):
    torch.manual_seed(0)
    return Music(dim, heads, length).double()


def ruler(length=4):
    """Return a module of one channel whose rows are the offsets: its score at a query of 1 is the clipped offset."""
    module = build(1, 1, length)
    module.weight.data[0, :, 0] = torch.arange(1 - length, 1)
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
    scores = ruler()(ones(3), ones(6), torch.tensor([3, 4, 5]), torch.arange(6))[0, 0]
    torch.testing.assert_close(
        scores, torch.tensor([[-3, -2, -1, 0, 0, 0], [-3, -3, -2, -1, 0, 0], [-3, -3, -3, -2, -1, 0]]).double()
    )


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
    shared = build(heads=1)(q, content()[1])
    assert torch.equal(shared[:, 0], shared[:, 1])


def test_it_is_the_past_of_shaw():
    (q, k), past, both = content(), build(heads=1), Shaw(3, clip=3).double()
    past.weight.data[0] = both.key_table.data[:4]
    torch.testing.assert_close(past(q, k), both(q, k).tril())


# Skewing and looking up are the same


@given(seed=seeds, t=sizes.filter(lambda t: t != 1), last=sizes, length=st.integers(1, 12))
@exactly
def test_default_positions_equal_the_same_positions_given(seed, t, last, length):
    (q, k), module, where = content(seed, t=t, s=t), build(length=length), torch.arange(t)
    scores, first = module(q, k), max(t - last, 0)
    assert torch.equal(scores, module(q, k, where, where))
    assert torch.equal(scores, module(q, k, where))
    torch.testing.assert_close(scores[:, :, first:], module(q[:, :, first:], k, where[first:], where))


def test_the_products_of_offsets_beyond_the_table_are_those_of_its_last_row():
    (q, k), module = content(t=40, s=40), build(length=5)
    assert (module(q, k)[:, :, 39, :35] == module(q, k)[:, :, 39, :1]).all()


def test_no_index_of_pairs_and_no_vectors_of_pairs_are_made_by_default():
    module, t = build(dim=64, heads=1, length=256).float(), 256
    q = torch.zeros(1, 1, t, 64)
    with torch.profiler.profile(profile_memory=True) as profile:
        module(q, q)
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 4 * 4 * t * t  # a few (t, s) of float32; (t, s, d) would be 64 of them
    assert not [event.name for event in profile.events() if "gather" in event.name]


# Properties


@given(seed=seeds, shift=st.integers(-(10**9), 10**9))
@exactly
def test_shifting_all_positions_changes_nothing(seed, shift):
    (q, k), where, module = content(seed), torch.tensor([3, 1, 4, 1, 5, 9]), build()
    assert torch.equal(module(q, k, where, where), module(q, k, where + shift, where + shift))


@given(seed=seeds, order=st.permutations(range(6)))
@exactly
def test_keys_in_another_order_have_their_scores_in_that_order(seed, order):
    (q, k), where, module = content(seed), torch.tensor([3, 1, 4, 1, 5, 9]), build()
    assert torch.equal(module(q, k, where, where[list(order)]), module(q, k, where, where)[..., order])


def test_decoding_token_by_token_equals_scoring_at_once():
    (q, k), module = content(), build()
    whole = module(q, k)
    for p in range(6):
        step = module(q[:, :, p : p + 1], k[:, :, : p + 1], torch.tensor([p]), torch.arange(p + 1))
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
        (q, k), places = content(t=1, s=s), (torch.tensor([s - 1]), torch.arange(s))
        assert torch.equal(compiled(q, k, *places), module(q, k, *places))
    assert len(graphs) <= 2


# Edges


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (3, 0)])
def test_no_tokens_have_no_scores(t, s):
    assert build()(*content(t=t, s=s), torch.arange(t), torch.arange(s)).shape == (2, 4, t, s)


def test_no_tokens_have_no_scores_by_default():
    assert build()(*content(t=0, s=0)).shape == (2, 4, 0, 0)


def test_one_token_scores_its_own_place():
    q, k = content(t=1, s=1)
    scores = build()(q, k, torch.tensor([7]))
    torch.testing.assert_close(scores[..., 0], torch.einsum("bhtd,hd->bht", q, build().weight[:, -1]) / math.sqrt(3))


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


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("keys", [-1, 6])
def test_more_keys_than_columns_are_refused(keys):
    with pytest.raises(ValueError, match=f"music: keys must be at most 5, the columns of x, got {keys}"):
        skew(torch.zeros(3, 5), keys)


def test_positions_that_do_not_fit_are_refused_with_numbers():
    others = [(torch.arange(4096), "torch.int64 (4096,)"), (torch.tensor([3]), "torch.int64 (1,)")]
    others += [(torch.arange(6) / 2, "torch.float32 (6,)"), (torch.zeros(2, 1).long(), "torch.int64 (2, 1)")]
    assert_refused_with_numbers(build(), *content(), "6 integers", others)


def test_content_of_another_width_or_of_integers_is_refused():
    q, k = content()
    with pytest.raises(
        ValueError, match=r"music: q and k must be floats of one width, got torch.float64 of .* 3 and 2"
    ):
        build()(q, k[..., :2])
    with pytest.raises(ValueError, match=r"music: q and k must be floats of one width, got torch.int64 of width 3"):
        build().score_mod(q.long(), k)


def test_one_row_of_positions_serves_a_batch():
    q, k = content()
    assert_one_row_serves_a_batch(build(), q, k, torch.zeros((), dtype=torch.float64))


def test_the_score_mod_keeps_no_strided_positions_as_cpu_kernels_read_none():
    assert_the_score_mod_keeps_no_strided_positions(build(), *content())


def test_the_numpy_function_takes_one_position_a_token():
    assert_numpy_wants_one_position_a_token(music, np.ones((2, 5, 4)))
    weight = np.arange(20.0).reshape(5, 4)  # and a table for all heads
    x, where = np.ones((2, 3, 4)), range(3)
    np.testing.assert_array_equal(music(x, x, where, where, weight), music(x, x, where, where, weight[None]))


@pytest.mark.parametrize("where", [[0.5, 1, 2], [math.nan, 0, 0]], ids=str)
def test_positions_that_are_not_whole_are_refused_by_the_numpy_function(where):
    with pytest.raises(ValueError, match="music: positions must be whole numbers, got "):
        music(np.zeros((1, 3, 2)), np.zeros((1, 3, 2)), where, range(3), np.zeros((5, 2)))
