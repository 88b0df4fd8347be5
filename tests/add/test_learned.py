"""Learned: look-up, offsets, statistics of rows, resizing of text and image tables, and what it refuses."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.learned import Learned, learned, resize, resize_grid, row_statistics
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/doors.py)

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


def test_one_row_of_positions_or_of_a_table_serves_a_batch():
    encode, x, places = Learned(3, 9), torch.rand(4, 3, 3), torch.tensor([7, 0, 2])
    assert torch.equal(encode(x, places[None]), encode(x, places))
    assert torch.equal(encode(x, table=encode.table(places[None])), encode(x, places))
    for wrong in (places[None, :2], places.expand(2, 3), places[:, None]):
        with pytest.raises(ValueError, match=r"learned: positions must be a tensor \(t,\), \(1, t\) or \(b, t\) for x"):
            encode(x, wrong)


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


def test_the_first_position_past_the_end_is_refused():
    encode = Learned(3, 5)
    message = r"learned: positions must be in \[0, 5\), got 5 to 5; resize"
    with pytest.raises(ValueError, match=message):
        encode(torch.zeros(1, 1, 3), torch.tensor([5]))
    with pytest.raises(ValueError, match=r"learned: x must be of at most 5 tokens, got 6"):
        encode(torch.zeros(1, 6, 3))
    with pytest.raises(ValueError, match=r"learned: positions must be integers in \[0, 4\], got \[5.\]"):
        learned([5], np.zeros((5, 3)))


def test_a_position_before_the_first_is_refused_even_where_an_offset_leaves_a_row():
    with pytest.raises(ValueError, match="learned: positions must be in"):
        Learned(3, 5, offset=2)(torch.zeros(1, 1, 3), torch.tensor([-1]))
    with pytest.raises(ValueError, match="learned: positions must be integers"):
        learned([-1], np.zeros((7, 3)), offset=2)


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


# What it refuses


@pytest.mark.parametrize("argument", ["dim", "length", "offset"])
@pytest.mark.parametrize("value", [-1, 1.5, "4", None, True, float("nan")])
def test_bad_settings_are_refused(argument, value):
    with pytest.raises(ValueError, match=f"learned: {argument} must be an integer"):
        Learned(**{"dim": 4, "length": 8} | {argument: value})


@pytest.mark.parametrize("std", [-0.1, float("nan"), float("inf"), "0.02", None, True])
def test_bad_spreads_are_refused(std):
    with pytest.raises(ValueError, match="learned: std must be at least 0"):
        Learned(4, 8, std=std)


@pytest.mark.parametrize(
    "positions", [torch.tensor([0.0, 1.0]), torch.tensor([True, False]), [0, 1], np.arange(2), torch.zeros(2, 2, 2)]
)
def test_bad_positions_are_refused(positions):
    with pytest.raises(ValueError, match="learned: positions must be"):
        Learned(4, 8)(torch.zeros(2, 2, 4), positions)


@pytest.mark.parametrize(
    ("positions", "got"), [([0, 1], "list of length 2"), (np.arange(2), r"numpy array int64 \(2,\)")], ids=str
)
def test_what_is_no_tensor_learns_how_to_become_one(positions, got):
    encode = Learned(4, 8)
    for call in (lambda: encode(torch.zeros(2, 2, 4), positions), lambda: encode.table(positions)):
        with pytest.raises(ValueError, match=rf"learned: positions must be a tensor .*, got {got}; .*torch.as_tensor"):
            call()


def test_a_tensor_that_numpy_cannot_read_learns_how_to_become_an_array():
    for weight in (torch.ones(4, 8, requires_grad=True), torch.ones(4, 8).bfloat16()):
        with pytest.raises(
            ValueError, match=r"(?s)weight must be finite numbers, got .*; NumPy reads weight.detach\(\).cpu"
        ):
            learned([0, 1], weight)
        assert learned([0, 1], weight.detach().cpu().double()).shape == (2, 8)


@pytest.mark.parametrize("dropout", [-0.1, 1, 1.5, float("nan"), False], ids=repr)
def test_a_dropout_that_is_no_probability_is_refused(dropout):
    with pytest.raises(ValueError, match=rf"learned: dropout must be in \[0, 1\), got {dropout}; it is a probability"):
        Learned(4, 8, dropout=dropout)


def test_the_bounds_of_dropout_that_are_allowed():
    x = torch.ones(1, 8, 4)
    assert torch.equal(Learned(4, 8, std=0, dropout=0)(x), x)
    dropped = Learned(4, 8, std=0, dropout=0.999)(torch.ones(100, 8, 4))
    assert (dropped == 0).float().mean() > 0.9


def test_bad_tables_and_sizes_are_refused():
    table = torch.zeros(10, 4)
    with pytest.raises(
        ValueError, match="learned: size must be of 9 patches, as the table has 10 rows and a prefix of 1"
    ):
        resize_grid(table, (2, 5), (4, 4), prefix=1)
    with pytest.raises(ValueError, match="learned: new_size must be a pair"):
        resize_grid(table, (2, 5), 4)
    with pytest.raises(ValueError, match="learned: weight must be a floating point table"):
        resize(torch.zeros(3), 4)
    with pytest.raises(ValueError, match="learned: length must be an integer of at least 1, got 0"):
        resize(table, 0)
    for mode in ("nearest", "bicubic"):
        with pytest.raises(
            ValueError, match=f"mode must be linear or cubic, got '{mode}'; torch says bilinear, bicubic"
        ):
            resize(table, 4, mode=mode)
    with pytest.raises(ValueError, match=r"learned: table must be \(t, d\), \(1, t, d\) or \(b, t, d\)"):
        Learned(4, 8)(torch.zeros(2, 2, 4), table=torch.zeros(3, 4))


def test_a_copy_is_independent():
    encode = Learned(4, 8)
    other = copy.deepcopy(encode)
    with torch.no_grad():
        other.weight.add_(1)
    assert not torch.equal(encode.weight, other.weight)
