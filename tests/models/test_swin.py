"""Swin: the index by hand, the rows of BEiT's class token, and tables for another window."""

import re

import numpy as np
import pytest
import torch

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


def test_in_a_window_of_three_axes_every_offset_has_a_row():
    assert set(relative_index((2, 3, 4)).ravel()) == set(range(3 * 5 * 7))


@vectors("swin_relative_position_index")
def test_the_index_equals_that_of_timm(vector):
    params = vector["params"]
    index = relative_index(params["window"], class_token=params["class_token"])
    assert_agrees(vector, index, vector["expected"]["index"])


def test_the_class_token_of_beit_has_the_last_three_rows_of_the_table():
    # after a row for each of 3 * 5 offsets: token to patch, patch to token, token to token
    weight = torch.randn(15 + 3, 2, dtype=torch.float64)
    bias = weight.T[:, torch.from_numpy(relative_index((2, 3), class_token=True))]
    positions = grid_positions(2, 3)
    np.testing.assert_allclose(bias[:, 1:, 1:], window(positions, positions, weight[:15], window=(2, 3)))
    torch.testing.assert_close(bias[:, 0, :2], weight[[17, 15]].T)
    torch.testing.assert_close(bias[:, 1, 0], weight[16])


# Tables for another window


def test_a_linear_table_by_hand():
    # one row of 2 columns, offsets -1 0 1, for 3 columns: five samples, of pixels (i + 1/2) 3/5 - 1/2
    weight = torch.tensor([[0.0, 1.0], [10.0, 2.0], [30.0, 4.0]])  # of two heads
    expected = torch.tensor([[0.0, 1.0], [4.0, 1.4], [10.0, 2.0], [22.0, 3.2], [30.0, 4.0]])
    torch.testing.assert_close(resize_window(weight, (1, 2), (1, 3), mode="linear"), expected)


def test_a_table_of_the_same_window_is_unchanged():
    weight = torch.randn(15 + 3, 4)
    torch.testing.assert_close(resize_window(weight, (2, 3), (2, 3)), weight)


def test_rows_of_a_class_token_are_kept():
    weight = torch.randn(9 + 3, 4)
    resized = resize_window(weight, (2, 2), (4, 3))
    torch.testing.assert_close(resized, torch.cat([resize_window(weight[:9], (2, 2), (4, 3)), weight[9:]]))


def test_a_float16_table_is_rounded_once_after_it_is_resized_in_float32():
    weight = torch.randn(25, 2).half()
    resized = resize_window(weight, (3, 3), (4, 4))
    torch.testing.assert_close(resized, resize_window(weight.float(), (3, 3), (4, 4)).half(), rtol=0, atol=0)


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
    bias = table.mT[:, torch.from_numpy(relative_index(new, class_token=True))]
    torch.testing.assert_close(bias, theirs(new).squeeze(0))
    cubic = resize_window(theirs.relative_position_bias_table, (4, 4), new)
    assert (cubic - table).abs().max() > 0.01


def test_the_resized_table_equals_timms_simple_table():
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
    message = f"swin: weight must be floats of 63 or 66 rows, got torch.float32 ({63 + surplus}, 4)"
    with pytest.raises(ValueError, match=re.escape(message)):
        resize_window(torch.randn(63 + surplus, 4), (4, 5), (8, 8))


def test_a_table_of_integers_is_refused():
    with pytest.raises(ValueError, match=r"swin: weight must be floats of 9 or 12 rows, got torch.int64 \(9, 2\)"):
        resize_window(torch.zeros(9, 2, dtype=torch.long), (2, 2), (3, 3))
