"""Learned: look-up, offsets, statistics of rows, resizing of text and image tables, and what it refuses."""

import copy
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.learned import Learned, learned, resize, resize_grid, row_statistics
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"length": 4096}, {"length": 4096, "offset": 2}]
LEARNED = {"weight"}
REFUSED = {"far", "fractional", "negative"}


def exercise(module):
    weight = torch.arange(8.0).view(4, 2)
    module.row_statistics(weight)
    module.resize(weight, 6)
    module.resize_grid(weight, (2, 2), (3, 2))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
sizes = st.tuples(st.integers(1, 6), st.integers(1, 6))


def ramp(rows: int, width: int = 3) -> torch.Tensor:
    return torch.arange(rows, dtype=torch.float64)[:, None] * torch.arange(1, width + 1)


# Look-up


def test_each_token_gets_the_row_of_its_position():
    encode = Learned(3, 5)
    x = torch.zeros(2, 3, 3)
    torch.testing.assert_close(encode(x, torch.tensor([[4, 0, 1], [2, 2, 3]]))[0, 0], encode.weight[4])
    torch.testing.assert_close(encode(x)[1], encode.weight[:3])


def test_one_row_of_positions_serves_a_batch():
    encode, x, places = Learned(3, 9), torch.rand(4, 3, 3), torch.tensor([7, 0, 2])
    assert torch.equal(encode(x, places[None]), encode(x, places))
    for wrong in (places[:1], places[None, :2], places.expand(2, 3), places[:, None]):
        said = rf"learned: positions must be \(3,\) or \(4, 3\), got {re.escape(str(tuple(wrong.shape)))}"
        with pytest.raises(ValueError, match=said):
            encode(x, wrong)
    with pytest.raises(ValueError, match=r"learned: positions must be \(3,\) .*, got \(1, 3\)"):
        encode(x[0], places[None])


def test_an_offset_skips_rows():
    encode = Learned(3, 5, offset=2)
    assert encode.weight.shape == (7, 3)
    torch.testing.assert_close(encode(torch.zeros(1, 2, 3))[0], encode.weight[2:4])
    np.testing.assert_array_equal(
        learned([0, 4], encode.weight.detach().numpy(), offset=2), encode.weight[[2, 6]].detach()
    )


def test_no_tokens_give_no_rows():
    assert Learned(3, 5)(torch.zeros(2, 0, 3)).shape == (2, 0, 3)
    assert learned(np.arange(0), np.zeros((5, 3))).shape == (0, 3)


def test_rows_start_normal_with_the_stated_spread():
    torch.manual_seed(0)
    weight = Learned(100, 1000, std=0.02).weight
    assert abs(weight.std().item() - 0.02) < 2e-4
    assert abs(weight.mean().item()) < 2e-4
    assert not Learned(4, 4, std=0).weight.any()


def test_only_the_rows_in_use_get_a_gradient():
    encode = Learned(3, 6)
    encode(torch.zeros(2, 3, 3), torch.tensor([[0, 1, 1], [4, 1, 0]])).sum().backward()
    torch.testing.assert_close(encode.weight.grad[:, 0], torch.tensor([2.0, 3.0, 0.0, 0.0, 1.0, 0.0]))


def test_it_is_not_shift_invariant():
    weight = Learned(16, 100, std=1.0).weight.detach().numpy()
    here, there = (learned([p, p + 3], weight) for p in (5, 50))
    assert abs(here[0] @ here[1] - there[0] @ there[1]) > 0.1


def test_dropout_acts_while_training_only():
    encode = Learned(64, 16, dropout=0.5)
    x = torch.ones(1, 16, 64)
    assert (encode(x) == 0).any()
    assert not (encode.eval()(x) == 0).any()


# The end of the table


@pytest.mark.parametrize("offset", [0, 2])
def test_a_position_without_a_row_is_refused_by_torch_and_numpy(offset):
    encode, weight = Learned(3, 5, offset=offset), np.zeros((5 + offset, 3))
    for positions in ([5], [0, 6], [-1], [-2]):
        with pytest.raises(IndexError):
            encode(torch.zeros(1, len(positions), 3), torch.tensor(positions))
        with pytest.raises((IndexError, ValueError)):
            learned(positions, weight, offset=offset)


@pytest.mark.parametrize("length", [1, 5])
def test_more_tokens_than_rows_are_refused(length):
    for offset in (0, 2):
        with pytest.raises(ValueError, match=f"learned: rows must be at least 6, one a token, got {length}"):
            Learned(3, length, offset)(torch.zeros(1, 6, 3))


@pytest.mark.parametrize("positions", [[-1], [0.5], [0, float("nan")]], ids=str)
def test_numpy_would_wrap_or_cut_other_positions(positions):
    with pytest.raises(ValueError, match=r"learned: positions and offset must be 0, 1.., got .*, 2"):
        learned(positions, np.zeros((7, 3)), offset=2)


# Statistics of rows


def test_statistics_by_hand():
    found = row_statistics(torch.tensor([[3.0, 4.0], [0.0, 5.0], [0.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(found["norm"], [5, 5, 1, 0])
    np.testing.assert_allclose(found["cosine"], [0.8, -1, 0])
    np.testing.assert_allclose(found["step"], [np.sqrt(10), 6, 1])


def test_statistics_tell_trained_from_fresh():
    smooth = np.stack([np.cos(np.arange(50) / 20), np.sin(np.arange(50) / 20)], axis=-1)
    assert row_statistics(torch.tensor(smooth))["cosine"].min() > 0.99
    fresh = row_statistics(Learned(256, 100).weight)
    assert abs(fresh["cosine"].mean()) < 0.05
    np.testing.assert_allclose(fresh["norm"].mean(), 0.02 * 16, rtol=0.02)


# Resizing a text table


def test_doubling_the_steps_of_a_table_puts_one_row_between_two():
    weight = torch.randn(5, 3, dtype=torch.float64)
    longer = resize(weight, 9)
    torch.testing.assert_close(longer[::2], weight)
    torch.testing.assert_close(longer[1::2], (weight[1:] + weight[:-1]) / 2)


@pytest.mark.parametrize("length", [4, 5, 6, 31])
def test_a_straight_line_stays_one(length):
    torch.testing.assert_close(resize(ramp(4), length), torch.linspace(0, 3, length).double()[:, None] * ramp(2)[1])


def test_shrinking_averages_and_keeps_the_mean():
    weight = torch.randn(8, 3, dtype=torch.float64)
    shorter = resize(weight, 4)
    torch.testing.assert_close(shorter.mean(0), weight.mean(0), atol=0.2, rtol=0)
    torch.testing.assert_close(resize(torch.ones(8, 3), 3), torch.ones(3, 3))
    alternating = torch.tensor([1.0, -1.0]).repeat(8)[:, None]
    assert resize(alternating, 4).abs().max() < 0.2  # without antialiasing it would be 1 or -1 by chance


def test_resizing_keeps_the_dtype_and_leaves_the_table_alone():
    weight = torch.randn(6, 4).bfloat16()
    before = weight.clone()
    assert resize(weight, 9, mode="cubic").dtype == torch.bfloat16
    assert torch.equal(weight, before)


def test_a_resized_table_serves_a_longer_model():
    short, long = Learned(4, 8), Learned(4, 16)
    long.load_state_dict({"weight": resize(short.weight, 16)})
    torch.testing.assert_close(long(torch.zeros(1, 16, 4))[0, [0, -1]], short.weight[[0, -1]])


def test_resizing_passes_gradients_to_the_table():  # as FlexiViT needs, which draws a grid for each step
    weight = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    for function in (lambda w: resize(w, 4), lambda w: resize(w, 9, "cubic"), lambda w: resize_grid(w, (2, 3), (3, 2))):
        assert torch.autograd.gradcheck(function, weight)
    assert torch.autograd.gradcheck(lambda w: resize_grid(w, (1, 4), (3, 2), prefix=2), weight)
    assert resize(weight, 6).data_ptr() != weight.data_ptr()


# Resizing the grid of an image


@vectors("resample_abs_pos_embed")
def test_grids_resampled_by_timm(vector):
    params = vector["params"]
    table = torch.tensor(vector["inputs"]["pe"])
    made = resize_grid(
        table, params["old_size"], params["new_size"], params["num_prefix_tokens"], antialias=params["antialias"]
    )
    assert_agrees(vector, made, vector["expected"]["pe"])


@pytest.mark.parametrize(("old", "new"), [((7, 7), (14, 14)), ((14, 14), (5, 9)), ((4, 9), (6, 3))])
def test_equals_timm(old, new):
    timm = peer("timm.layers.pos_embed")
    table = torch.randn(1, 2 + old[0] * old[1], 8)
    expected = timm.resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=2)
    torch.testing.assert_close(resize_grid(table, old, new, prefix=2), expected)


@exactly
@given(size=sizes, new_size=sizes, prefix=st.integers(0, 2))
def test_a_constant_grid_stays_constant_and_prefix_rows_stay(size, new_size, prefix):
    table = torch.cat([torch.randn(prefix, 3), torch.full((size[0] * size[1], 3), 0.5)])
    made = resize_grid(table, size, new_size, prefix)
    assert torch.equal(made[:prefix], table[:prefix])
    torch.testing.assert_close(made[prefix:], torch.full((new_size[0] * new_size[1], 3), 0.5))


def test_rows_and_columns_are_not_swapped():
    rows = torch.arange(3.0)[:, None].expand(3, 5).reshape(-1, 1)  # changes from row to row only
    made = resize_grid(rows, (3, 5), (6, 5)).view(6, 5)
    assert (made == made[:, :1]).all()
    assert (made[1:, 0] > made[:-1, 0]).all()


def test_the_same_size_changes_nothing():
    table = torch.randn(1, 13, 4)
    torch.testing.assert_close(resize_grid(table, (3, 4), (3, 4), prefix=1), table)


def test_a_single_column_stays_one_and_a_column_may_come_of_many():
    line = torch.randn(6, 1)  # torch's own antialiasing wrongs a width of 1
    for length in (4, 6, 11):
        want = resize_grid(line, (1, 6), (1, length))
        torch.testing.assert_close(resize_grid(line, (6, 1), (length, 1)), want)
    wide = torch.randn(6 * 4, 3)
    flipped = wide.unflatten(0, (6, 4)).transpose(0, 1).flatten(0, 1)
    torch.testing.assert_close(resize_grid(wide, (6, 4), (9, 1)), resize_grid(flipped, (4, 6), (1, 9)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    table = torch.randn(12, 4).to(dtype)
    for function in (lambda w: resize(w, 7), lambda w: resize_grid(w, (3, 4), (5, 2))):
        assert torch.equal(function(table), function(table.float()).to(dtype))


# What it refuses


@pytest.mark.parametrize(("dim", "offset"), [(0, 0), (-1, 0), (4, -1)])
def test_a_width_of_0_and_an_offset_below_0_are_refused(dim, offset):
    with pytest.raises(ValueError, match=f"learned: dim and offset must be >= 1 and 0, got {dim} and {offset}"):
        Learned(dim, 8, offset)
    if offset:
        with pytest.raises(ValueError, match="learned: positions and offset must be"):
            learned([0], np.zeros((4, 4)), offset)
    assert Learned(1, 1).weight.shape == (1, 1)


def test_positions_between_two_rows_are_refused():
    for positions in (torch.tensor([0.0, 1.0]), torch.tensor([0.5, 1.0]).half()):
        with pytest.raises(ValueError, match=f"learned: positions must be integers, got {positions.dtype}"):
            Learned(4, 8)(torch.zeros(2, 2, 4), positions)


@pytest.mark.parametrize("x", [torch.zeros(2, 3, 5), torch.zeros(2, 3, 1), torch.zeros(2, 3, 4).long()], ids=str)
def test_content_of_another_width_or_of_integers_is_refused(x):
    said = rf"learned: x must be floats \(b, t, 4\), got {x.dtype} {re.escape(str(tuple(x.shape)))}"
    with pytest.raises(ValueError, match=said):
        Learned(4, 8)(x)


def test_the_bounds_of_dropout_that_are_allowed():
    x = torch.ones(1, 8, 4)
    assert torch.equal(Learned(4, 8, std=0, dropout=0)(x), x)
    dropped = Learned(4, 8, std=0, dropout=0.999)(torch.ones(100, 8, 4))
    assert (dropped == 0).float().mean() > 0.9


def test_sizes_that_do_not_fit_are_refused_by_torch():
    table = torch.zeros(196, 4)
    for size in ((7, 14), (14, 13), (196, 14)):  # two images of 7 x 14 would be another table
        with pytest.raises(RuntimeError, match="don't multiply up to the size of dim"):
            resize_grid(table, size, (4, 4))
    with pytest.raises(RuntimeError, match="don't multiply up"):
        resize_grid(table, (14, 14), (4, 4), prefix=1)
    with pytest.raises(ValueError, match=r"Anti-alias option is restricted to .*4-D tensor"):
        resize(table, 4, mode="bicubic")  # it is "cubic"
    with pytest.raises(TypeError, match="floating point"):  # it would cut the means of integers
        resize(table.long(), 4)


def test_a_copy_is_independent():
    encode = Learned(4, 8)
    other = copy.deepcopy(encode)
    with torch.no_grad():
        other.weight.add_(1)
    assert not torch.equal(encode.weight, other.weight)
