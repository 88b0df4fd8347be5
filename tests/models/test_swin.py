"""Swin: the index by hand, the rows of BEiT's class token, and tables for another window."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.bias.window import window
from posenc.models.swin import relative_index, resize_window
from posenc.positions import grid_positions
from tests.peers import peer
from tests.vectors import assert_agrees, vectors


def exercise(module):
    """Call what has shape comments, for tests/contract/test_files.py."""
    module.relative_index((2, 3), class_token=True)
    module.resize_window(torch.zeros(9, 2), (2, 2), (3, 3))


# The index


def test_the_index_by_hand():
    # (dy + 1) * 5 + dx + 2, from the query at (1, 0) to the six tokens of a window of 2 by 3
    np.testing.assert_array_equal(relative_index((2, 3))[3], [12, 11, 10, 7, 6, 5])


@vectors("swin_relative_position_index")
def test_the_index_equals_that_of_timm(vector):
    params = vector["params"]
    index = relative_index(params["window"], class_token=params["class_token"])
    assert_agrees(vector, index, vector["expected"]["index"])


@given(size=st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
@settings(deadline=None, derandomize=True, database=None, max_examples=50)
def test_every_row_of_the_table_is_used_and_no_other(size):
    assert set(relative_index(size).ravel()) == set(range(math.prod(2 * n - 1 for n in size)))


# The class token of BEiT


def test_a_class_token_adds_three_rows_at_the_end():
    plain, whole = relative_index((2, 3)), relative_index((2, 3), class_token=True)
    np.testing.assert_array_equal(whole[1:, 1:], plain)
    assert (whole[0, 0], set(whole[0, 1:]), set(whole[1:, 0])) == (17, {15}, {16})


def test_a_table_with_a_class_token_is_read_by_its_index():
    weight = torch.randn(15 + 3, 2)
    bias, places = weight.T[:, torch.from_numpy(relative_index((2, 3), class_token=True))], grid_positions(2, 3)
    np.testing.assert_allclose(bias[:, 1:, 1:], window(places, places, weight[:15], window=(2, 3)))
    np.testing.assert_array_equal(bias[:, 0, :2], weight[[17, 15]].T)
    np.testing.assert_array_equal(bias[:, 1, 0], weight[16])


# Tables for another window


def test_a_table_of_the_same_window_is_unchanged():
    weight = torch.randn(15 + 3, 4)
    torch.testing.assert_close(resize_window(weight, (2, 3), (2, 3)), weight)


def test_a_constant_table_stays_constant():
    torch.testing.assert_close(resize_window(torch.full((9, 2), 3.0), (2, 2), (5, 4)), torch.full((63, 2), 3.0))


def test_rows_of_a_class_token_are_kept():
    weight = torch.randn(9 + 3, 4)
    resized = resize_window(weight, (2, 2), (4, 3))
    assert resized.shape == (35 + 3, 4)
    assert torch.equal(resized[35:], weight[9:])
    assert torch.equal(resized[:35], resize_window(weight[:9], (2, 2), (4, 3)))


def test_the_middle_of_a_table_stays_in_the_middle():
    # a resized table is as symmetric as it was: rows from the end mirror rows from the start
    weight = torch.randn(25, 2, dtype=torch.float64)
    even = resize_window(weight + weight.flip(0), (3, 3), (6, 5))
    torch.testing.assert_close(even, even.flip(0))


def test_heads_are_resized_apart():
    weight = torch.randn(25, 3)
    resized = resize_window(weight, (3, 3), (4, 6))
    for head in range(3):
        torch.testing.assert_close(
            resized[:, head : head + 1], resize_window(weight[:, head : head + 1], (3, 3), (4, 6))
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_resized_table_has_the_dtype_of_the_old_and_its_gradients(dtype):
    weight = torch.randn(25, 2).to(dtype).requires_grad_()
    resized = resize_window(weight, (3, 3), (4, 4))
    assert resized.dtype == dtype
    assert torch.equal(resized, resize_window(weight.float(), (3, 3), (4, 4)).to(dtype))
    resized.sum().backward()
    assert weight.grad.isfinite().all()


# Peers


@pytest.mark.parametrize("size", [(7, 7), (2, 3), (1, 5)], ids=str)
@pytest.mark.parametrize("class_token", [False, True])
def test_the_index_equals_that_of_timm_in_any_window(size, class_token):
    theirs = peer("timm.layers.pos_embed_rel").gen_relative_position_index(size, class_token=class_token)
    np.testing.assert_array_equal(relative_index(size, class_token), theirs)


def test_the_index_equals_that_of_beit_in_transformers():
    beit = peer("transformers.models.beit.modeling_beit")
    theirs = beit.BeitRelativePositionBias.generate_relative_position_index((3, 5))
    np.testing.assert_array_equal(relative_index((3, 5), class_token=True), theirs)


@pytest.mark.parametrize("new", [(6, 6), (5, 7), (3, 3)], ids=str)
def test_the_linear_table_equals_that_of_beit_in_transformers(new):
    beit = peer("transformers.models.beit.modeling_beit")
    config = beit.BeitConfig(image_size=64, patch_size=16, num_attention_heads=3, hidden_size=48)
    theirs = beit.BeitRelativePositionBias(config)
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    table = resize_window(theirs.relative_position_bias_table, (4, 4), new, mode="linear")
    made = table.mT[:, torch.from_numpy(relative_index(new, class_token=True))]
    torch.testing.assert_close(made, theirs(new).squeeze(0))
    cubic = resize_window(theirs.relative_position_bias_table, (4, 4), new)
    assert (cubic - table).abs().max() > 0.01


def test_a_linear_table_by_hand():
    # one row of 2 columns, offsets -1 0 1, for 3 columns: five samples, of pixels (i + 1/2) 3/5 - 1/2
    made = resize_window(torch.tensor([[0.0], [10.0], [30.0]]), (1, 2), (1, 3), mode="linear")
    torch.testing.assert_close(made[:, 0], torch.tensor([0.0, 4.0, 10.0, 22.0, 30.0]))


def test_the_resized_table_equals_timms_simple_one():
    timm, weight = peer("timm.layers.pos_embed_rel"), torch.randn(25 + 3, 4)
    theirs = timm.resize_rel_pos_bias_table_simple(weight, (5, 4), (63 + 3, 4))
    torch.testing.assert_close(resize_window(weight, (3, 3), (5, 4)), theirs)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch about timm
def test_timms_geometric_table_is_another():
    # BEiT's: the old offsets are spaced further apart the farther they are, the near ones keep their bias
    timm, weight = peer("timm.layers.pos_embed_rel"), torch.randn(25, 1)
    theirs = timm.resize_rel_pos_bias_table(weight, (5, 5), (81, 1), old_window_size=(3, 3)).view(9, 9)
    ours = resize_window(weight, (3, 3), (5, 5)).view(9, 9)
    torch.testing.assert_close(theirs[3:6, 3:6], weight.view(5, 5)[1:4, 1:4], atol=1e-4, rtol=0)
    assert (ours[3:6, 3:6] - weight.view(5, 5)[1:4, 1:4]).abs().max() > 0.1


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("surplus", [-1, 1, 2, 4, 14])
def test_rows_that_are_neither_offsets_nor_of_a_class_token_are_refused(surplus):
    # 77 rows are those of (4, 6): with (4, 5), of 63, the rest would pass for 14 rows of class tokens
    said = rf"swin: weight must be floats of 63 or 66 rows, got torch.float32 \({63 + surplus}, 4\)"
    with pytest.raises(ValueError, match=said):
        resize_window(torch.randn(63 + surplus, 4), (4, 5), (8, 8))


def test_a_table_of_integers_is_refused():
    with pytest.raises(ValueError, match=r"swin: weight must be floats of 9 or 12 rows, got torch.int64 \(9, 2\)"):
        resize_window(torch.zeros(9, 2, dtype=torch.long), (2, 2), (3, 3))


@pytest.mark.parametrize("mode", ["bicubic", "", None])
def test_an_unknown_mode_is_refused_by_torch(mode):
    with pytest.raises(NotImplementedError):
        resize_window(torch.zeros(9, 2), (2, 2), (3, 3), mode=mode)
