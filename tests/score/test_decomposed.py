"""Decomposed: offsets of rows and columns by hand, a Shaw for each axis, SAM's and MViTv2's code, resized tables."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.attention import attention_weights
from posenc.positions import grid_positions
from posenc.score.decomposed import Decomposed, decomposed, resize_offsets
from posenc.score.shaw import Shaw
from tests.peers import peer
from tests.score.alike import content, randomized

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


def patches(height=2, width=3, d=3):
    """Return random queries and keys for the patches of an image, and their positions."""
    return *content(t=height * width, s=height * width, d=d), grid_positions(height, width)


def build(size=(2, 3), d=3):
    return randomized(Decomposed(d, size))


# Values worked by hand


def test_rows_and_columns_each_have_their_offset_query_minus_key():
    rows, columns = 10 * np.arange(-1, 2)[:, None], np.arange(-2, 3)[:, None]
    grid = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    x = np.ones((1, 6, 1))
    scores = decomposed(x, x, grid, grid, rows, columns)[0]
    np.testing.assert_array_equal(scores[4], [11, 10, 9, 1, 0, -1])  # of the patch in the middle of the second row
    np.testing.assert_array_equal(scores[0], [0, -1, -2, -10, -11, -12])


def test_an_offset_beyond_the_grid_counts_as_its_edge():
    # offsets (0, 1), (4, -4) and (-1, 0) in a grid of 2 by 2, and a query of 2
    rows, columns = [[-10], [0], [10]], [[-1], [0], [1]]
    scores = decomposed([[[2]]], np.zeros((1, 3, 1)), [[5, 5]], [[5, 4], [1, 9], [6, 5]], rows, columns)
    np.testing.assert_array_equal(scores, [[[2, 18, -20]]])


def test_the_score_is_not_divided_by_the_root_of_the_width():
    # q . row + q . column = 3 * 0.2 + 5 * 0.7 = 4.1 in a width of 4
    tables = [[0.2, 0, 0, 0]], [[0, 0.7, 0, 0]]
    scores = decomposed([[[3, 5, 7, 9]]], np.zeros((1, 1, 4)), [[7, 7]], [[7, 7]], *tables)
    np.testing.assert_allclose(scores, [[[4.1]]], rtol=1e-14)


def test_the_contents_of_keys_do_not_matter():
    q, k, positions = patches()
    assert torch.equal(build()(q, k, positions), build()(q, torch.zeros_like(k), positions))


def test_tables_start_at_zero_for_every_offset_of_a_grid():
    tables = [*Decomposed(8).parameters(), *Decomposed(8, (3, 5)).parameters()]
    assert [len(table) for table in tables] == [27, 27, 5, 9]
    assert not any(table.any() for table in tables)


def test_attention_tells_coordinates_of_two_tokens_from_the_positions_of_a_batch_of_two():
    q, grid = torch.randn(2, 2, 2, 3), grid_positions(2, 1)  # as many images as tokens, as tokens have coordinates
    weights = attention_weights(q, q, Decomposed(3, (2, 1)), positions=grid, key_positions=grid, causal=True)
    assert Decomposed.axes == 2
    assert torch.equal(weights > 0, torch.ones(2, 2).tril().bool().expand(2, 2, 2, 2))


def test_a_resized_table_keeps_its_dtype():
    assert resize_offsets(torch.zeros(5, 3, dtype=torch.bfloat16), 4).dtype == torch.bfloat16


# What it equals


def test_it_is_the_table_of_shaw_once_for_each_axis():
    q, k, positions = patches(3, 4, d=4)
    module, expected = build((3, 4), d=4), 0
    for axis, table in enumerate(module.parameters()):
        shaw = Shaw(4, clip=len(table) // 2).double()
        shaw.key_table.data = 2 * table.data.flip(0)  # its offset is key minus query, and it divides by the root of 4
        expected = expected + shaw(q, k, positions[:, axis])
    torch.testing.assert_close(module(q, k, positions), expected)


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
        self.get_rel_pos = lambda *sizes: vision.get_rel_pos(self, *sizes)


@pytest.mark.parametrize("size", [(2, 3), (4, 4), (1, 5)])
def test_equals_sam(size):
    q, k, positions = patches(*size)
    torch.testing.assert_close(build(size)(q, k, positions), sam(build(size), q, size, size))


def test_equals_the_whole_attention_of_sam():
    code = peer("transformers.models.sam.modeling_sam")
    config = peer("transformers.models.sam.configuration_sam").SamVisionConfig(
        hidden_size=12, num_attention_heads=4, image_size=48, patch_size=16
    )
    theirs = randomized(code.SamVisionAttention(config, window_size=3).eval())
    x = torch.randn(2, 3, 3, 12, dtype=torch.float64)
    _, expected = theirs(x, output_attentions=True)

    q, k, _ = theirs.qkv(x.flatten(1, 2)).unflatten(-1, (3, 4, 3)).permute(2, 0, 3, 1, 4)
    module = build((3, 3))
    module.row_table.data, module.column_table.data = theirs.rel_pos_h.data, theirs.rel_pos_w.data
    weights = (q @ k.mT / math.sqrt(3) + module(q, k, grid_positions(3, 3))).softmax(dim=-1)
    torch.testing.assert_close(weights, expected.reshape(2, 4, 9, 9), rtol=1e-5, atol=1e-6)  # theirs is of float32


@pytest.mark.parametrize(("old", "new"), [((2, 3), (4, 5)), ((7, 7), (3, 9)), ((3, 3), (3, 3))])
def test_a_table_for_another_grid_is_interpolated_as_sam_does(old, new):
    q, k, positions = patches(*new)
    trained, resized = build(old), build(new)
    resized.row_table.data = resize_offsets(trained.row_table.data, new[0])
    resized.column_table.data = resize_offsets(trained.column_table.data, new[1])
    expected = sam(trained, q, new, new)
    torch.testing.assert_close(resized(q, k, positions), expected, rtol=1e-5, atol=1e-5)  # interpolated in float32


@pytest.mark.parametrize("pool", [2, 4])
def test_pooled_keys_of_mvit_stand_at_the_last_of_the_positions_pooled(pool):
    height, width = 4, 8
    q, _, positions = patches(height, width)
    key_size = height // pool, width // pool
    key_positions = pool * grid_positions(*key_size) + pool - 1
    k = torch.zeros(2, 2, len(key_positions), 3, dtype=torch.float64)
    module = build((height, width))
    expected = sam(module, q, (height, width), key_size)
    torch.testing.assert_close(module(q, k, positions, key_positions), expected)


# Precision


def test_half_precision_is_scored_in_float32_and_rounded_once():
    q, k, positions = patches()
    q, k, module = q.half(), k.half(), build().float()
    assert torch.equal(module(q, k, positions), module(q.float(), k.float(), positions).half())


def test_positions_are_subtracted_in_64_bits():
    q, k, positions = patches()
    torch.testing.assert_close(build()(q, k, positions, positions + 2**32), build()(q, k, positions, positions + 9))


# FlexAttention


def test_the_score_mod_takes_rows_as_they_lie():
    # one row serves a batch, and the kernels read no strides
    q, k, positions = patches()
    strided = torch.stack([positions, positions.flip(0)], dim=-1).movedim(-1, 0)
    pairs = torch.meshgrid([torch.arange(size) for size in (2, 4, 6, 6)], indexing="ij")
    for m, n in ((positions[None], strided), (strided, positions)):
        modify = build().score_mod(q, k, m, n)
        scores = build()(q, k, m, n)
        torch.testing.assert_close(modify(torch.zeros_like(scores), *pairs), scores)
        tensors = [cell.cell_contents for cell in modify.__closure__]
        assert all(value.is_contiguous() for value in tensors if isinstance(value, torch.Tensor))


# What is refused


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (None, "None"),
        (torch.arange(6), r"torch.int64 \(6,\)"),
        (torch.zeros(6, 3).long(), r"torch.int64 \(6, 3\)"),
        (torch.zeros(1, 2).long(), r"torch.int64 \(1, 2\)"),
        (torch.zeros(6, 2), r"torch.float32 \(6, 2\)"),
    ],
)
def test_positions_that_are_no_rows_and_columns_are_refused(wrong, got):
    q, k, positions = patches()
    shapes = r"\(6, 2\) or \(b, 6, 2\)"
    message = rf"positions must have shape {shapes} and an integer dtype, got {got}; take grid_positions\(2, 3\)"
    for call in (build(), build().score_mod):
        with pytest.raises(ValueError, match=f"decomposed: {message}"):
            call(q, k, wrong)
        if wrong is not None:
            with pytest.raises(ValueError, match=f"decomposed: key_{message}"):
                call(q, k, positions, wrong)


@pytest.mark.parametrize(
    ("q", "k", "got"),
    [
        (torch.ones(1, 1, 6, 3), torch.ones(1, 1, 6, 2), r"torch\.float32 of width 3 and 2"),
        (torch.ones(1, 1, 6, 3).long(), torch.ones(1, 1, 6, 3), r"torch\.int64 of width 3 and 3"),
    ],
)
def test_content_of_another_width_or_of_integers_is_refused(q, k, got):
    with pytest.raises(ValueError, match=f"decomposed: q and k must be floats of one width, got {got}"):
        build()(q, k, grid_positions(2, 3))


def test_positions_that_are_not_whole_are_refused_by_the_numpy_function():
    x = np.zeros((1, 3, 2))
    with pytest.raises(ValueError, match="decomposed: positions must be whole, got "):
        decomposed(x, x, [[0.5, 0], [1, 0], [2, 0]], np.zeros((3, 2)), np.zeros((5, 2)), np.zeros((5, 2)))
