"""Decomposed: offsets of rows and columns by hand, SAM's and MViTv2's code, tables of other sizes, what is refused."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention

from posenc.positions import grid_positions
from posenc.score.decomposed import Decomposed, decomposed, resize_offsets
from posenc.score.shaw import Shaw
from tests.peers import peer

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"size": (3, 5)}, {}, {"size": (1, 2)}]
LEARNED = {"row_table", "column_table"}
REFUSED = {"fractional"}
AXES = 2
TEXT = False


def oracle(q, k, positions, key_positions, row_table, column_table):
    """Work out the definition with 60 digits, one pair at a time."""
    scores = np.zeros((len(q), len(positions), len(key_positions)))
    with mpmath.workdps(60):
        for h, t, s in np.ndindex(scores.shape):
            for axis, table in enumerate((row_table, column_table)):
                edge = len(table) // 2
                offset = int(positions[t][axis]) - int(key_positions[s][axis])
                row = table[max(-edge, min(edge, offset)) + edge]
                scores[h, t, s] += float(mpmath.fdot(map(float, q[h, t]), map(float, row)))
    return scores


def exercise(module):
    module.resize_offsets(torch.randn(5, 3), 4)


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=40)
seeds = st.integers(0, 2**32 - 1)


def content(height=2, width=3, seed=0, b=2, h=4, g=2, d=3):
    """Return random queries and keys in float64 for the patches of an image, and where these stand."""
    made = np.random.default_rng(seed)
    t = height * width
    q, k = (torch.tensor(made.normal(size=shape)) for shape in ((b, h, t, d), (b, g, t, d)))
    return q, k, grid_positions(height, width)


def build(dim=3, size=(2, 3)):
    torch.manual_seed(0)
    module = Decomposed(dim, size).double()
    for table in module.parameters():
        torch.nn.init.normal_(table)
    return module


# Values worked by hand


def test_rows_and_columns_each_have_their_offset_query_minus_key():
    module = build(1, (2, 3))
    module.row_table.data[:, 0] = 10 * torch.arange(-1, 2)
    module.column_table.data[:, 0] = torch.arange(-2, 3)
    q = torch.ones(1, 1, 6, 1).double()
    scores = module(q, q, grid_positions(2, 3))[0, 0]
    assert scores[4].tolist() == [11, 10, 9, 1, 0, -1]  # from the patch in the middle of the second row
    assert scores[0].tolist() == [0, -1, -2, -10, -11, -12]


def test_the_same_in_numpy_with_places_beyond_the_grid_at_its_edge():
    rows, columns = np.array([[-10], [0], [10]]), np.array([[-1], [0], [1]])
    made = decomposed([[[2]]], np.zeros((1, 3, 1)), [[5, 5]], [[5, 4], [1, 9], [6, 5]], rows, columns)
    np.testing.assert_array_equal(made, [[[2, 18, -20]]])


def test_the_score_is_not_divided_by_the_root_of_the_width():
    module = Decomposed(4, (1, 1)).double()
    module.row_table.data[0] = torch.tensor([2.0, 0, 0, 0])
    q = torch.tensor([3.0, 5, 7, 9]).double().view(1, 1, 1, 4)
    assert module(q, q, torch.tensor([[7, 7]])).item() == 6


def test_the_keys_content_does_not_matter():
    q, k, where = content()
    assert torch.equal(build()(q, k, where), build()(q, torch.zeros_like(k), where))


def test_tables_start_at_zero():
    assert not any(table.any() for table in Decomposed(8).parameters())
    assert [len(table) for table in Decomposed(8, (3, 5)).parameters()] == [5, 9]


# Peers


def sam(module, q, size, key_size):
    """Return the decomposed scores of SAM's own attention with our tables, for all heads."""
    vision = peer("transformers.models.sam.modeling_sam").SamVisionAttention
    heads = [
        vision.get_decomposed_rel_pos(_Sizes(vision), q[:, h], module.row_table, module.column_table, size, key_size)
        for h in range(q.shape[1])
    ]
    return torch.stack(heads, dim=1).flatten(4).flatten(2, 3)


class _Sizes:
    """What SAM's method needs of `self`: its other method."""

    def __init__(self, vision):
        self.get_rel_pos = lambda *given: vision.get_rel_pos(self, *given)


@pytest.mark.parametrize("size", [(2, 3), (4, 4), (1, 5)])
def test_equals_sam(size):
    q, k, where = content(*size)
    module = build(size=size)
    torch.testing.assert_close(module(q, k, where), sam(module, q, size, size))


def test_equals_the_whole_attention_of_sam():
    code = peer("transformers.models.sam.modeling_sam")
    told = peer("transformers.models.sam.configuration_sam").SamVisionConfig(
        hidden_size=12, num_attention_heads=4, image_size=48, patch_size=16
    )
    torch.manual_seed(0)
    theirs = code.SamVisionAttention(told, window_size=3).double().eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 3, 3, 12).double()
    _, expected = theirs(x, output_attentions=True)

    q, k, _ = theirs.qkv(x.flatten(1, 2)).unflatten(-1, (3, 4, 3)).permute(2, 0, 3, 1, 4)
    module = build(size=(3, 3))
    module.row_table.data, module.column_table.data = theirs.rel_pos_h.data, theirs.rel_pos_w.data
    logits = q @ k.mT / math.sqrt(3) + module(q, k, grid_positions(3, 3))
    made = logits.softmax(dim=-1)
    torch.testing.assert_close(made, expected.reshape(2, 4, 9, 9), rtol=1e-5, atol=1e-6)  # theirs is of float32


@pytest.mark.parametrize(("old", "new"), [((2, 3), (4, 5)), ((7, 7), (3, 9)), ((3, 3), (3, 3))])
def test_a_table_for_another_grid_is_interpolated_as_sam_does(old, new):
    q, k, where = content(*new)
    trained, resized = build(size=old), build(size=new)
    resized.row_table.data = resize_offsets(trained.row_table.data, new[0])
    resized.column_table.data = resize_offsets(trained.column_table.data, new[1])
    expected = sam(trained, q, new, new)
    torch.testing.assert_close(resized(q, k, where), expected, rtol=1e-5, atol=1e-5)  # interpolated in float32


@pytest.mark.parametrize("pool", [2, 4])
def test_pooled_keys_of_mvit_stand_at_the_last_of_their_places(pool):
    height, width = 4, 8
    q, _, where = content(height, width)
    key_size = height // pool, width // pool
    keys = pool * grid_positions(*key_size) + pool - 1
    k = torch.zeros(2, 2, len(keys), 3).double()
    module = build(size=(height, width))
    torch.testing.assert_close(module(q, k, where, keys), sam(module, q, (height, width), key_size))


# Properties


def test_it_is_the_table_of_shaw_once_for_each_axis():
    q, k, where = content(3, 4, d=4)
    module, expected = build(4, (3, 4)), 0
    for axis, table in enumerate(module.parameters()):
        shaw = Shaw(4, clip=len(table) // 2).double()
        shaw.key_table.data = 2 * table.data.flip(0)  # theirs counts key minus query, and divides by the root of 4
        expected = expected + shaw(q, k, where[:, axis], where[:, axis])
    torch.testing.assert_close(module(q, k, where), expected)


@given(seed=seeds, down=st.integers(-(10**9), 10**9), right=st.integers(-(10**9), 10**9))
@exactly
def test_moving_the_image_changes_nothing(seed, down, right):
    (q, k, where), module = content(seed=seed), build()
    assert torch.equal(module(q, k, where), module(q, k, where + torch.tensor([down, right])))


def test_a_turned_image_has_the_scores_of_swapped_tables():
    q, k, where = content(3, 3)
    module, swapped = build(size=(3, 3)), build(size=(3, 3))
    swapped.row_table.data, swapped.column_table.data = module.column_table.data, module.row_table.data
    assert torch.equal(module(q, k, where), swapped(q, k, where.flip(1)))


# FlexAttention, grouped heads, edges


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@torch.no_grad()
def test_flex_attention_takes_the_score_mod():
    q, k, where = content(4, 4, g=4, d=16)
    module = build(16, (4, 4))
    expected = (q @ k.mT / 4 + module(q, k, where)).softmax(dim=-1) @ k
    torch.testing.assert_close(flex_attention(q, k, k, score_mod=module.score_mod(q, k, where)), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_queries_are_scored_in_float32_and_rounded_once(dtype):
    q, k, where = content()
    q, k, module = q.to(dtype), k.to(dtype), build().float()
    assert torch.equal(module(q, k, where), module(q.float(), k.float(), where).to(dtype))


def test_one_row_of_places_serves_a_batch():
    (q, k, where), module = content(), build()
    both = torch.stack([where, where.flip(0)])
    for m, n in ((where, both), (both, where[None]), (both, both)):
        expected = module(q, k, m.expand(2, 6, 2), n.expand(2, 6, 2))
        assert torch.equal(module(q, k, m, n), expected)
        modify = module.score_mod(q, k, m, n)
        pairs = torch.meshgrid([torch.arange(size) for size in expected.shape], indexing="ij")
        torch.testing.assert_close(modify(torch.zeros(()).double(), *pairs), expected)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize(
    ("where", "got"),
    [
        (None, "None"),
        (torch.arange(6), r"torch.int64 \(6,\)"),
        (torch.zeros(6, 3).long(), r"torch.int64 \(6, 3\)"),
        (torch.zeros(1, 2).long(), r"torch.int64 \(1, 2\)"),
        (torch.zeros(6, 2), r"torch.float32 \(6, 2\)"),
    ],
)
def test_places_that_do_not_fit_are_refused_with_numbers(where, got):
    q, k, right = content()
    wanted = rf"positions must be whole rows and columns \(6, 2\), got {got}; take grid_positions\(2, 3\)"
    for call in (build(), build().score_mod):
        with pytest.raises(ValueError, match=f"decomposed: {wanted}"):
            call(q, k, where)
        if where is not None:
            with pytest.raises(ValueError, match=f"decomposed: key_{wanted}"):
                call(q, k, right, where)


def test_fewer_queries_than_keys_need_both_places():
    q, k, where = content()
    with pytest.raises(ValueError, match="decomposed: key_positions must be whole rows and columns"):
        build()(q[:, :, :2], k, where[:2])


def test_content_of_another_width_or_of_integers_is_refused():
    q, k, where = content()
    with pytest.raises(
        ValueError, match=r"decomposed: q and k must be floats of one width, got torch.float64 .* 3 and 2"
    ):
        build()(q, k[..., :2], where)
    with pytest.raises(ValueError, match=r"decomposed: q and k must be floats of one width, got torch.int64"):
        build()(q.long(), k, where)


def test_places_that_are_not_whole_are_refused_by_the_numpy_function():
    x = np.zeros((1, 3, 2))
    with pytest.raises(ValueError, match="decomposed: positions must be whole, got "):
        decomposed(x, x, [[0.5, 0], [1, 0], [2, 0]], np.zeros((3, 2)), np.zeros((5, 2)), np.zeros((5, 2)))
