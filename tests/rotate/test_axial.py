"""Axial RoPE: a patch by hand, which pairs follow which axis, frequencies that are learned, and what is refused."""

import itertools
import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.rotate.axial import Axial, axial
from posenc.rotate.rope import RoPE
from tests.rotate.alike import assert_positions_of_two_sequences_are_refused_for_one

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

DIRECTIONS = ((1.0, 0.25, 0.5, -1.0), (0.0, 0.5, -0.125, 1.0))  # directions of pairs, some of both axes

OPTIONS = [
    {"heads": None},
    {"heads": None, "axes": 3, "dim": 12, "layout": "interleaved"},
    {"heads": None, "base": 100.0, "layout": "blocks"},
    {"heads": None, "axes": 3, "dim": 12, "layout": "blocks"},
    {"heads": None, "theta": DIRECTIONS, "dim": 8},
    {"heads": None, "theta": (DIRECTIONS, DIRECTIONS[::-1]), "dim": 8, "layout": "interleaved"},
    {"heads": None, "theta": (*DIRECTIONS, DIRECTIONS[0]), "dim": 8, "axes": 3},
    {"heads": 2, "base": 10.0, "layout": "interleaved"},
    {"heads": 1},
]
TEXT = False


def LEARNED(options):
    return {"theta"} if options["heads"] else set()


def AXES(options):
    return options.get("axes", 2)


def oracle(x, positions, base=10_000.0, layout="half", theta=None):
    """Work out the definition with 60 digits, one element at a time."""
    heads, t, d = x.shape
    axes = positions.shape[-1]
    turned = np.zeros(x.shape)
    with mpmath.workdps(60):
        theta = axial_frequencies(d, axes, base) if theta is None else np.array(theta).tolist()
        sets = theta if isinstance(theta[0][0], list) else [theta]
        for head, row, i in itertools.product(range(heads), range(t), range(d // 2)):
            of_head = sets[head // (heads // len(sets))]
            angle = sum(mpmath.mpf(p) * of_head[axis][i] for axis, p in enumerate(positions[row].tolist()))
            a, b = channels(i, d, layout, axes)
            first, second = x[head, row, [a, b]].tolist()
            cos, sin = mpmath.cos(angle), mpmath.sin(angle)
            turned[head, row, [a, b]] = first * cos - second * sin, first * sin + second * cos
    return turned


def channels(i, d, layout, axes):
    """Return the two channels of pair i."""
    if layout == "half":
        return i, i + d // 2
    if layout == "interleaved":
        return 2 * i, 2 * i + 1
    axis, pair = divmod(i, d // (2 * axes))  # halves of the channels of an axis
    first = d // axes * axis + pair
    return first, first + d // (2 * axes)


def axial_frequencies(d, axes, base):
    """Return the frequencies (n, d/2) in mpmath: each axis has d/2n pairs to itself."""
    pairs = d // axes // 2
    theta = [[mpmath.mpf(0)] * (d // 2) for _ in range(axes)]
    for axis, k in itertools.product(range(axes), range(pairs)):
        theta[axis][pairs * axis + k] = mpmath.mpf(base) ** (-mpmath.mpf(k) / pairs)
    return theta


# A patch by hand, and which pairs follow which axis


def test_a_patch_at_row_2_and_column_3():
    # width 8, base 10,000: 2 pairs an axis, of theta 1 and 1/100
    x = np.arange(1.0, 9.0)[None]
    angle = [2, 0.02, 3, 0.03]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(axial(x, [[2, 3]]), [expected], rtol=1e-14)


def test_a_table_holds_cosines_and_sines_of_rows_then_columns():
    # width 4: one pair an axis, of theta 1; however coarse the content, it is of float32 or finer
    cos, sin = Axial(4).table(torch.tensor([[2, 3]]), torch.float16)
    torch.testing.assert_close(cos, torch.tensor([[[math.cos(2), math.cos(3)]]]))
    torch.testing.assert_close(sin, torch.tensor([[[math.sin(2), math.sin(3)]]]))


@pytest.mark.parametrize(("layout", "pair"), [("half", [0, 4]), ("interleaved", [0, 1]), ("blocks", [0, 2])])
def test_the_channels_of_a_pair_by_layout(layout, pair):
    first_channel = np.eye(8)[:1]
    assert np.flatnonzero(axial(first_channel, [[2, 3]], layout=layout)).tolist() == pair


def test_a_step_along_an_axis_turns_the_pairs_of_that_axis_alone():
    x = np.ones((1, 16))  # pairs 0 to 3 follow the row, 4 to 7 the column; pair i is of channels i and i + 8
    np.testing.assert_array_equal(axial(x, [[0, 0]]), x)
    assert np.flatnonzero(axial(x, [[5, 0]]) != 1).tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert np.flatnonzero(axial(x, [[0, 5]]) != 1).tolist() == [4, 5, 6, 7, 12, 13, 14, 15]


def test_frequencies_of_1_turn_every_pair_by_the_sum_of_the_coordinates():
    result = axial(np.ones((1, 10)), [[1, 2, 4]], theta=np.ones((3, 5)))
    np.testing.assert_allclose(result[0, :5], np.full(5, math.cos(7) - math.sin(7)), rtol=1e-13)


def test_sets_of_frequencies_serve_runs_of_heads():
    # two sets for four heads of width 2: by one set the pair turns a radian a step, by the other it rests
    x = np.tile([1.0, 0.0], (2, 4, 1, 1))  # (b, h, t, d)
    turned, resting = [math.cos(3), math.sin(3)], [1, 0]
    result = axial(x, [[3]], theta=[[[1.0]], [[0.0]]])
    np.testing.assert_allclose(result[:, :, 0], [[turned, turned, resting, resting]] * 2, rtol=1e-15)


def test_with_one_axis_it_is_rope():
    q, k = torch.randn(1, 2, 5, 8, dtype=torch.float64), torch.randn(1, 1, 5, 8, dtype=torch.float64)
    positions = torch.tensor([7, 0, 3, 70, 1])
    result = Axial(8, axes=1)(q, k, positions[:, None])
    torch.testing.assert_close(result, RoPE(8)(q, k, positions), rtol=0, atol=1e-14)


# RoPE-Mixed: frequencies that are learned


def test_mixed_frequencies_start_as_the_axial_ones_turned_by_a_random_angle_a_head():
    torch.manual_seed(0)
    theta = Axial(16, base=10, heads=64).theta.detach().double().numpy()  # (c, n, d/2)
    y, x = theta[:, 0], theta[:, 1]
    radius = 10.0 ** (-np.arange(4) / 4)
    np.testing.assert_allclose(np.hypot(x, y), np.tile(radius, (64, 2)), rtol=1e-6)
    direction = (x + 1j * y) / np.hypot(x, y)
    np.testing.assert_allclose(direction[:, :4], direction[:, :1].repeat(4, axis=1), atol=1e-6)  # of rows
    np.testing.assert_allclose(direction[:, 4:], -1j * direction[:, :4], atol=1e-6)  # of columns: a right angle away
    assert abs(direction[:, 0].mean()) < 0.4  # all around the circle
    quadrants = {(z.real > 0, z.imag > 0) for z in direction[:, 0]}
    assert quadrants == set(itertools.product([False, True], repeat=2))


def test_mixed_frequencies_can_start_from_others():
    theta = Axial(8, theta=[[0, 0, 1, 0.1], [1, 0.1, 0, 0]], heads=3).theta.detach().double()
    np.testing.assert_allclose(theta.norm(dim=1), np.tile([1, 0.1], (3, 2)), rtol=1e-6)


# What is refused


@pytest.mark.parametrize("shape", [(2,), (6, 3), (2, 6), (2, 3, 6)], ids=str)
def test_positions_that_are_not_a_row_of_coordinates_a_token_are_refused(shape):
    message = f"axial: positions or key_positions must have shape (t, 2) or (b, t, 2), got {shape}; of patches, grid_"
    with pytest.raises(ValueError, match=re.escape(message)):
        Axial(16).table(torch.zeros(shape))


def test_positions_of_two_sequences_are_refused_for_one():
    assert_positions_of_two_sequences_are_refused_for_one(Axial(16), axes=(2,))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"dim": 6}, "dim must be a multiple of 4, got 6"),
        ({"theta": 1.0}, r"theta for this dim must have shape \(2, 4\), got \(\)"),
        ({"theta": [[1.0] * 4]}, r"theta for this dim must have shape \(2, 4\), got \(1, 4\)"),
        ({"theta": np.zeros((4, 2))}, r"theta for this dim must have shape \(2, 4\), got \(4, 2\)"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=f"axial: {message}"):
        Axial(**{"dim": 8} | setting)
