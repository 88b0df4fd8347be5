"""Learned: look-up, offsets, statistics of rows, resizing of text and image tables, and what it refuses."""

import numpy as np
import pytest
import torch

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


def ramp(rows):
    return torch.arange(rows, dtype=torch.float64)[:, None] * torch.arange(1, 4)


# Look-up


def test_a_token_gets_the_row_of_its_position():
    encode = Learned(3, 5)
    x = torch.zeros(2, 3, 3)
    torch.testing.assert_close(encode(x, torch.tensor([[4, 0, 1], [2, 2, 3]]))[0, 0], encode.weight[4])
    torch.testing.assert_close(encode(x)[1], encode.weight[:3])


def test_an_offset_skips_rows():
    encode = Learned(3, 5, offset=2)
    assert encode.weight.shape == (7, 3)
    torch.testing.assert_close(encode(torch.zeros(1, 2, 3))[0], encode.weight[2:4])
    weight = encode.weight.detach().numpy()
    np.testing.assert_array_equal(learned([0, 4], weight, offset=2), weight[[2, 6]])


def test_rows_start_normal_with_the_stated_deviation():
    torch.manual_seed(0)
    weight = Learned(100, 1000).weight
    assert abs(weight.std().item() - 0.02) < 2e-4
    assert abs(weight.mean().item()) < 2e-4
    assert not Learned(4, 4, std=0).weight.any()


def test_only_the_rows_in_use_get_a_gradient():
    encode = Learned(3, 6)
    encode(torch.zeros(2, 3, 3), torch.tensor([[0, 1, 1], [4, 1, 0]])).sum().backward()
    torch.testing.assert_close(encode.weight.grad[:, 0], torch.tensor([2.0, 3.0, 0.0, 0.0, 1.0, 0.0]))


def test_dropout_acts_on_the_sum_while_training_only():
    x = torch.ones(100, 8, 4)
    encode = Learned(4, 8, std=0, dropout=0.5)
    assert set(encode(x).unique().tolist()) == {0.0, 2.0}  # zeroed, or doubled for it
    assert torch.equal(encode.eval()(x), x)
    assert torch.equal(Learned(4, 8, std=0)(x), x)


# The end of the table


@pytest.mark.parametrize("offset", [0, 2])
def test_a_position_without_a_row_is_refused_by_torch_and_numpy(offset):
    weight = np.zeros((5 + offset, 3))
    for positions in ([5], [0, 6], [-1], [-2]):
        with pytest.raises(IndexError):
            Learned(3, 5, offset)(torch.zeros(1, len(positions), 3), torch.tensor(positions))
        with pytest.raises((IndexError, ValueError)):
            learned(positions, weight, offset=offset)


@pytest.mark.parametrize("length", [1, 5])
@pytest.mark.parametrize("offset", [0, 2])
def test_more_tokens_than_rows_are_refused(length, offset):
    with pytest.raises(ValueError, match=f"learned: rows must be at least 6, one a token, got {length}"):
        Learned(3, length, offset)(torch.zeros(1, 6, 3))


@pytest.mark.parametrize(("positions", "offset"), [([-1], 2), ([0.5], 2), ([0, float("nan")], 2), ([0], -1)])
def test_positions_that_numpy_would_wrap_or_cut_are_refused(positions, offset):
    with pytest.raises(ValueError, match=f"learned: positions and offset must be 0, 1.., got .*, {offset}"):
        learned(positions, np.zeros((7, 3)), offset)


# Statistics of rows


def test_statistics_by_hand():
    # norms 5, 5, 1; cosines 4/5 and -1, and 0 for a row of zeros; steps |(-3, 1)|, |(0, -6)|, |(0, 1)|
    statistics = row_statistics(torch.tensor([[3.0, 4.0], [0.0, 5.0], [0.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(statistics["norm"], [5, 5, 1, 0])
    np.testing.assert_allclose(statistics["cosine"], [0.8, -1, 0])
    np.testing.assert_allclose(statistics["step"], [np.sqrt(10), 6, 1])


def test_statistics_tell_trained_from_fresh_rows():
    smooth = np.stack([np.cos(np.arange(50) / 20), np.sin(np.arange(50) / 20)], axis=-1)
    assert row_statistics(torch.tensor(smooth))["cosine"].min() > 0.99
    fresh = row_statistics(Learned(256, 100).weight)
    assert abs(fresh["cosine"].mean()) < 0.05
    np.testing.assert_allclose(fresh["norm"].mean(), 0.02 * 16, rtol=0.02)


# Resizing a text table


def test_doubling_the_steps_of_a_table_puts_a_row_between_two():
    weight = torch.randn(5, 3, dtype=torch.float64)
    longer = resize(weight, 9)
    torch.testing.assert_close(longer[::2], weight)
    torch.testing.assert_close(longer[1::2], (weight[1:] + weight[:-1]) / 2)


@pytest.mark.parametrize("length", [4, 5, 31])
def test_a_straight_line_stays_straight_and_keeps_its_ends(length):
    expected = torch.linspace(0, 3, length).double()[:, None] * ramp(2)[1]
    torch.testing.assert_close(resize(ramp(4), length), expected)


def test_shrinking_averages_rows():
    torch.testing.assert_close(resize(torch.ones(8, 3), 3), torch.ones(3, 3))
    alternating = torch.tensor([1.0, -1.0]).repeat(8)[:15, None]  # every third of which is 1 or -1
    assert resize(alternating, 5).abs().max() < 0.4
    assert resize_grid(alternating, (15, 1), (5, 1)).abs().max() < 0.4
    assert resize_grid(alternating, (15, 1), (5, 1), antialias=False).abs().max() == 1


def test_resizing_passes_gradients_to_the_table():  # as FlexiViT needs, which draws a grid for each step
    weight = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    for function in (
        lambda w: resize(w, 4),
        lambda w: resize(w, 9, "cubic"),
        lambda w: resize_grid(w, (2, 3), (3, 2)),
        lambda w: resize_grid(w, (1, 4), (3, 2), prefix=2),
    ):
        assert torch.autograd.gradcheck(function, weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    table = torch.randn(12, 4).to(dtype)
    for function in (lambda w: resize(w, 7), lambda w: resize_grid(w, (3, 4), (5, 2))):
        assert torch.equal(function(table), function(table.float()).to(dtype))


# Resizing the grid of an image


@vectors("resample_abs_pos_embed")
def test_grids_resampled_by_timm(vector):
    params = vector["params"]
    table = torch.tensor(vector["inputs"]["pe"])
    prefix, antialias = params["num_prefix_tokens"], params["antialias"]
    resized = resize_grid(table, params["old_size"], params["new_size"], prefix, antialias=antialias)
    assert_agrees(vector, resized, vector["expected"]["pe"])


@pytest.mark.parametrize(("old", "new"), [((7, 7), (14, 14)), ((14, 14), (5, 9)), ((4, 9), (6, 3))])
def test_equals_timm(old, new):
    timm = peer("timm.layers.pos_embed")
    table = torch.randn(1, 2 + old[0] * old[1], 8)
    expected = timm.resample_abs_pos_embed(table, list(new), list(old), num_prefix_tokens=2)
    torch.testing.assert_close(resize_grid(table, old, new, prefix=2), expected)


@pytest.mark.parametrize("new_size", [(1, 1), (3, 4), (5, 2), (7, 7)], ids=str)
def test_a_constant_grid_stays_constant_and_prefix_rows_stay(new_size):
    table = torch.cat([torch.randn(2, 3), torch.full((12, 3), 0.5)])
    resized = resize_grid(table, (3, 4), new_size, prefix=2)
    assert torch.equal(resized[:2], table[:2])
    torch.testing.assert_close(resized[2:], torch.full((new_size[0] * new_size[1], 3), 0.5))


def test_rows_and_columns_are_not_swapped():
    rows = torch.arange(3.0)[:, None].expand(3, 5).reshape(-1, 1)  # changes from row to row only
    resized = resize_grid(rows, (3, 5), (6, 5)).view(6, 5)
    assert (resized == resized[:, :1]).all()
    assert (resized[1:, 0] > resized[:-1, 0]).all()


def test_the_same_size_changes_nothing():
    table = torch.randn(1, 13, 4)
    torch.testing.assert_close(resize_grid(table, (3, 4), (3, 4), prefix=1), table)


def test_a_single_column_is_resized_as_a_single_row():  # torch's own antialiasing wrongs a width of 1
    line = torch.randn(6, 1)
    for length in (4, 6, 11):
        expected = resize_grid(line, (1, 6), (1, length))
        torch.testing.assert_close(resize_grid(line, (6, 1), (length, 1)), expected)
    wide = torch.randn(24, 3)
    flipped = wide.unflatten(0, (6, 4)).transpose(0, 1).flatten(0, 1)
    torch.testing.assert_close(resize_grid(wide, (6, 4), (9, 1)), resize_grid(flipped, (4, 6), (1, 9)))


# What is refused


@pytest.mark.parametrize(("dim", "offset"), [(0, 0), (4, -1)])
def test_a_width_of_0_and_an_offset_below_0_are_refused(dim, offset):
    with pytest.raises(ValueError, match=f"learned: dim and offset must be >= 1 and 0, got {dim} and {offset}"):
        Learned(dim, 8, offset)
    assert Learned(1, 1).weight.shape == (1, 1)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", torch.zeros(2, 3, 1), r"x must have shape \(b, t, 4\) and a float dtype, got torch.float32 \(2, 3, 1\)"),
        (
            "x",
            torch.zeros(2, 3, 4).long(),
            r"x must have shape \(b, t, 4\) and a float dtype, got torch.int64 \(2, 3, 4\)",
        ),
        (
            "x",
            torch.zeros(3, 4),
            r"positions must have shape \(3,\) or \(3,\), got \(1, 3\)",
        ),  # a sequence does not become a batch
        ("positions", torch.tensor([7]), r"positions must have shape \(3,\) or \(2, 3\), got \(1,\)"),
        ("positions", torch.tensor([[7], [0]]), r"positions must have shape \(3,\) or \(2, 3\), got \(2, 1\)"),
        ("positions", torch.tensor([0, 1, 2]).half(), "positions must be integers, got torch.float16"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    with pytest.raises(ValueError, match=f"learned: {message}"):
        Learned(4, 8)(**{"x": torch.zeros(2, 3, 4), "positions": torch.tensor([[0, 1, 2]])} | {name: value})


def test_sizes_that_do_not_fit_are_refused_by_torch():
    table = torch.zeros(196, 4)
    for size, prefix in (((7, 14), 0), ((14, 13), 0), ((14, 14), 1)):  # two images of 7 x 14 would be another table
        with pytest.raises(RuntimeError, match="don't multiply up to the size of dim"):
            resize_grid(table, size, (4, 4), prefix)
    with pytest.raises(ValueError, match=r"Anti-alias option is restricted to .*4-D tensor"):
        resize(table, 4, mode="bicubic")  # it is "cubic"
    with pytest.raises(TypeError, match="floating point"):  # it would cut the means of integers
        resize(table.long(), 4)
