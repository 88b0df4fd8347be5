"""Axial RoPE: coordinates and frequencies by hand, shares of axes, what is learned, tables, and what is refused."""

import itertools
import math
from unittest import mock

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.positions import grid_positions
from posenc.rotate.axial import Axial, axial
from posenc.rotate.rope import RoPE

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


def LEARNED(options):
    return {"theta"} if options["heads"] else set()


TEXT = False


def AXES(options):
    return options.get("axes", 2)


def oracle(x, positions, base=10_000.0, layout="half", theta=None):
    """Work out the definition with 60 digits, one element at a time."""
    heads, t, d = x.shape
    axes = positions.shape[-1]
    turned = np.zeros(x.shape)
    with mpmath.workdps(60):
        theta = slow_theta(d, axes, base) if theta is None else np.array(theta).tolist()
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
    if layout == "blocks":  # halves of the channels of an axis
        axis, pair = divmod(i, d // (2 * axes))
        return d // axes * axis + pair, d // axes * axis + pair + d // (2 * axes)
    return (i, i + d // 2) if layout == "half" else (2 * i, 2 * i + 1)


def slow_theta(d, axes, base):
    """Return the frequencies (n, d/2) in mpmath."""
    m, rows = d // axes // 2, []
    for axis in range(axes):
        before, after = [mpmath.mpf(0)] * (m * axis), [mpmath.mpf(0)] * (m * (axes - 1 - axis))
        rows.append(before + [mpmath.mpf(base) ** (-mpmath.mpf(k) / m) for k in range(m)] + after)
    return rows


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
each_layout = pytest.mark.parametrize("layout", ["half", "interleaved", "blocks"])


def content(t, s=None, d=16, h=2, g=1, dtype=torch.float64):
    """Return random q (1, h, t, d) and k (1, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, h, t, d, generator=generator)
    k = torch.randn(1, g, t if s is None else s, d, generator=generator)
    return q.to(dtype), k.to(dtype)


def turned(encoding, x, positions):
    """Return `x` turned to its coordinates."""
    return encoding.turn(x, encoding.table(positions, x.dtype))


# Values worked by hand


def test_a_patch_by_hand():
    # width 8, base 10,000: 2 pairs an axis, theta 1 and 1/100; the patch at row 2, column 3
    x = np.arange(1.0, 9.0)[None]
    angle = [2, 0.02, 3, 0.03]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(axial(x, [[2, 3]]), [expected], rtol=1e-14)


def test_one_axis_is_rope():
    q, k = content(5, d=8)
    positions = torch.tensor([7, 0, 3, 70, 1])
    encoding = Axial(8, axes=1)
    np.testing.assert_allclose(encoding.theta, [[[1, 0.1, 0.01, 0.001]]], rtol=1e-14)
    result = encoding(q, k, positions[:, None])
    torch.testing.assert_close(result, RoPE(8)(q, k, positions), rtol=0, atol=1e-14)
    np.testing.assert_allclose(result[0], axial(q, positions[:, None]), atol=1e-13)


@each_layout
def test_which_channels_turn_together(layout):
    pair = {"half": [0, 4], "interleaved": [0, 1], "blocks": [0, 2]}[layout]
    unit = np.eye(8)[:1]
    assert np.flatnonzero(axial(unit, [[2, 3]], layout=layout)).tolist() == pair
    result = turned(Axial(8, layout=layout), torch.tensor(unit)[None, None], torch.tensor([[2, 3]]))
    assert result.flatten().nonzero().flatten().tolist() == pair


@each_layout
def test_turning_to_minus_the_position_turns_back(layout):
    q, _ = content(6)
    encoding = Axial(16, layout=layout)
    grid = grid_positions(2, 3)
    torch.testing.assert_close(turned(encoding, turned(encoding, q, grid), -grid), q)


# Where tokens stand


@pytest.mark.parametrize(("t", "s"), [(1, 1), (0, 0), (0, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("heads", [None, 1])
def test_any_numbers_of_queries_and_keys(t, s, heads):
    q, k = torch.randn(2, 2, t, 16), torch.randn(2, 1, s, 16)
    m, n = torch.randint(9, (t, 2)), torch.randint(9, (2, s, 2))
    rotated_q, rotated_k = Axial(16, heads=heads)(q, k, m, n)
    assert (rotated_q.shape, rotated_k.shape) == (q.shape, k.shape)


def test_no_patches_give_nothing():
    assert axial(np.zeros((2, 0, 8)), np.zeros((0, 2))).shape == (2, 0, 8)


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("kind", ["t, n", "1, t, n", "b, t, n"])
def test_compiles_where_sizes_are_as_many_as_the_axes(batch, kind):
    shape = {"t, n": (2, 2), "1, t, n": (1, 2, 2), "b, t, n": (batch, 2, 2)}[kind]
    x = torch.randn(batch, 4, 2, 16)
    positions = torch.tensor([[0, 1], [2, 0]]).expand(shape)
    torch._dynamo.reset()
    compiled = torch.compile(Axial(16), fullgraph=True, backend="eager", dynamic=True)
    result = compiled(x, x, positions, positions)
    assert all(map(torch.equal, result, Axial(16)(x, x, positions, positions)))


# Axes of unequal shares


@pytest.mark.parametrize(("shares", "base"), [((44, 42, 42), 10_000.0), ((16, 56, 56), 256.0)], ids=["Wan", "Hunyuan"])
def test_the_video_models_that_give_time_more_pairs_or_fewer(shares, base):
    # channels of a head for time, row and column in Wan and HunyuanVideo: the pairs of each, as complex numbers, turn
    # by the frequencies of a head so wide
    grid = grid_positions(3, 4, 5)
    x = np.random.default_rng(0).normal(size=(2, 60, 128))
    pairs = np.split(x[..., 0::2] + 1j * x[..., 1::2], np.cumsum(shares)[:2] // 2, axis=-1)
    frequencies = [base ** (-np.arange(0, share, 2) / share) for share in shares]
    waves = [np.exp(1j * np.outer(grid[:, axis], of_axis)) for axis, of_axis in enumerate(frequencies)]
    rotated = np.concatenate([p * wave for p, wave in zip(pairs, waves, strict=True)], axis=-1)
    expected = np.stack([rotated.real, rotated.imag], axis=-1).reshape(x.shape)
    theta = torch.block_diag(*(torch.tensor(of_axis) for of_axis in frequencies))
    assert theta.shape == (3, 64)
    np.testing.assert_allclose(axial(x, grid, layout="interleaved", theta=theta), expected, atol=1e-13)
    encoding = Axial(128, axes=3, layout="interleaved", theta=theta)
    np.testing.assert_allclose(turned(encoding, torch.tensor(x)[None], grid)[0], expected, atol=1e-13)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_frequencies_of_ones_turn_every_pair_by_the_sum_of_coordinates(layout):
    turned = axial(np.ones((1, 10)), [[1, 2, 4]], layout=layout, theta=np.ones((3, 5)))[0]
    first = [0, 1, 2, 3, 4] if layout == "half" else [0, 2, 4, 6, 8]
    np.testing.assert_allclose(turned[first], np.full(5, math.cos(7) - math.sin(7)), rtol=1e-13)


@given(y=st.integers(-50, 50), x=st.integers(-50, 50))
@exactly
def test_axes_do_not_mix_unless_theta_mixes_them(y, x):
    # moving along one axis leaves the pairs of the other alone; a mixed theta turns all pairs
    ones = np.ones((1, 16))
    still = axial(ones, [[0, 0]])[0]
    np.testing.assert_array_equal(axial(ones, [[y, 0]])[0, [4, 5, 6, 7, 12, 13, 14, 15]], still[4:8].repeat(2))
    np.testing.assert_array_equal(axial(ones, [[0, x]])[0, [0, 1, 2, 3, 8, 9, 10, 11]], still[:4].repeat(2))
    diagonal = np.full((2, 8), 0.1)
    np.testing.assert_allclose(axial(ones, [[y, x]], theta=diagonal), axial(ones, [[x, y]], theta=diagonal), atol=1e-14)


# RoPE-Mixed: what is learned, and from where


def test_mixed_frequencies_start_as_the_axial_ones_turned_by_one_angle_a_head():
    torch.manual_seed(0)
    theta = Axial(16, base=10, heads=64).theta.detach().double().numpy()
    y, x = theta[:, 0], theta[:, 1]
    radius = 10.0 ** (-np.arange(4) / 4)
    np.testing.assert_allclose(np.hypot(x, y), np.tile(radius, (64, 2)), rtol=1e-6)
    angle = np.arctan2(y, x)
    np.testing.assert_allclose(np.cos(angle[:, :4]), np.cos(angle[:, :1]).repeat(4, 1), atol=1e-6)
    between_axes = np.angle(np.exp(1j * (angle[:, 4:] - angle[:, :4])))
    np.testing.assert_allclose(between_axes, -math.pi / 2, atol=1e-6)
    directions = np.exp(1j * angle[:, 0])  # all around the circle
    assert abs(directions.mean()) < 0.4
    quadrants = {(z.real > 0, z.imag > 0) for z in directions}
    assert quadrants == set(itertools.product([False, True], repeat=2))


def test_mixed_frequencies_can_start_from_given_ones():
    start = [[0, 0, 1, 0.1], [1, 0.1, 0, 0]]
    theta = Axial(8, theta=start, heads=3).theta.detach().double()
    np.testing.assert_allclose(theta.norm(dim=1), np.tile([1, 0.1], (3, 2)), rtol=1e-6)


def test_heads_learn_apart_and_share_with_the_query_heads_of_their_key():
    torch.manual_seed(0)
    q, k = content(4, h=4, g=2)
    grid = grid_positions(2, 2)
    encoding = Axial(16, heads=2).double()
    rotated_q, rotated_k = encoding(q, k, grid)
    for head in range(4):
        expected = axial(q[0, head], grid, theta=encoding.theta[head // 2].detach())
        np.testing.assert_allclose(rotated_q[0, head].detach(), expected, atol=1e-12)
    assert rotated_k.shape == k.shape
    rotated_q[:, 2:, :, 0].sum().backward()
    assert encoding.theta.grad is not None
    assert encoding.theta.grad[1].count_nonzero() == 2  # of one pair, both directions
    assert not encoding.theta.grad[0].any()


def test_one_head_of_frequencies_serves_all():
    q, k = content(3, h=4, g=2)
    rotated_q, rotated_k = Axial(16, heads=1)(q, k, grid_positions(1, 3))
    assert (rotated_q.shape, rotated_k.shape) == (q.shape, k.shape)


def test_heads_that_share_a_key_cannot_turn_apart():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match"):
        Axial(16, heads=4)(*content(3, h=4, g=2), grid_positions(1, 3))


def test_fixed_frequencies_can_differ_by_head():
    q, k = content(6, h=4, g=2)
    grid = grid_positions(2, 3)
    theta = np.random.default_rng(0).normal(size=(2, 2, 8))
    encoding = Axial(16, theta=theta)
    assert not list(encoding.parameters())
    rotated_q, rotated_k = encoding(q, k, grid)
    np.testing.assert_allclose(rotated_q, axial(q, grid, theta=theta), atol=1e-13)
    np.testing.assert_allclose(rotated_k, axial(k, grid, theta=theta), atol=1e-13)


# The table


def test_the_same_positions_are_worked_out_once():
    q, k = content(6)
    grid = grid_positions(2, 3)
    encoding = Axial(16)
    with mock.patch.object(encoding, "table", wraps=encoding.table) as table:
        encoding(q, k, grid)
        assert table.call_count == 1
        encoding(q, k, grid, grid.clone())
        assert table.call_count == 3


@pytest.mark.parametrize("options", [{}, {"layout": "interleaved"}, {"heads": 2}], ids=str)
@pytest.mark.parametrize("shape", [(4, 2), (1, 4, 2), (3, 4, 2)], ids=["t, n", "1, t, n", "b, t, n"])
def test_a_shared_table_gives_what_its_positions_give(options, shape):
    q, k = (x.expand(3, -1, -1, -1) for x in content(4, h=4, g=2, dtype=torch.float32))
    positions = torch.randint(9, shape)
    encoding = Axial(16, **options)
    table = encoding.table(positions)
    rotated_q, rotated_k = encoding(q, k, positions)
    assert torch.equal(encoding.turn(q, table), rotated_q)
    assert torch.equal(encoding.turn(k, table), rotated_k)


def test_a_table_holds_cosines_and_sines_of_each_pair():
    # width 8, base 100: theta 1 and 1/10; in each layout the first pairs follow the row
    angle = np.array([2, 0.2, 3, 0.3])
    for layout in ("half", "interleaved", "blocks"):
        cos, sin = Axial(8, base=100, layout=layout).table(torch.tensor([[2, 3]]), torch.float64)
        np.testing.assert_allclose(cos, [[np.cos(angle)]], rtol=1e-14)
        np.testing.assert_allclose(sin, [[np.sin(angle)]], rtol=1e-14)


@pytest.mark.parametrize(("heads", "sets"), [(None, 1), (1, 1), (5, 5)])
def test_a_table_has_an_axis_of_sets_and_is_of_float32(heads, sets):
    cos, sin = Axial(4, heads=heads).half().table(torch.zeros(2, 3, 2))
    assert cos.shape == sin.shape == (2, sets, 3, 2)
    assert cos.dtype == sin.dtype == torch.float32


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    q, k = (x.to(dtype) for x, dtype in zip(content(3), dtypes, strict=True))
    grid = grid_positions(1, 3)
    rotated_q, rotated_k = Axial(16)(q, k, grid, grid)
    assert (rotated_q.dtype, rotated_k.dtype) == dtypes
    expected_q, expected_k = Axial(16)(q.double(), k.double(), grid, grid)
    torch.testing.assert_close(rotated_q, expected_q.to(rotated_q.dtype), rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(rotated_k, expected_k.to(rotated_k.dtype), rtol=1e-3, atol=1e-6)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("wrong", [None, torch.arange(6), torch.zeros(6, 3), torch.zeros(2, 6), torch.zeros(2, 3, 6)])
def test_patches_do_not_lie_on_the_diagonal_by_mistake(wrong):
    q, k = content(6)
    grid = grid_positions(2, 3)
    got = "None" if wrong is None else r"\(.*\)"
    message = rf"axial: positions or key_positions must be \(t, 2\), .*, got {got}; .*grid_positions\(height, width\)"
    for key_positions in (None, grid):
        with pytest.raises(ValueError, match=message):
            Axial(16)(q, k, wrong, key_positions)
    with pytest.raises(ValueError, match=message):
        Axial(16).table(wrong)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("shape", [(4, 2), (1, 2), (4096, 2), (1, 4, 2), (2, 5, 2)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape, heads):
    x = torch.zeros(3, 2, 5, 16)
    encoding = Axial(16, heads=heads)
    grid, wrong = torch.zeros(5, 2), torch.zeros(shape)
    message = r"axial: positions or table must be \(5,\) or \(3, 5\), got \("
    for positions in ((wrong,), (grid, wrong), (wrong, grid)):
        with pytest.raises(ValueError, match=message):
            encoding(x, x, *positions)
    with pytest.raises(ValueError, match=message):
        encoding.turn(x, encoding.table(wrong))


@pytest.mark.parametrize("t", [5, 6])
def test_a_table_of_fewer_keys_than_queries_is_refused(t):
    q, _ = content(t)
    encoding = Axial(16)
    with pytest.raises(ValueError, match=rf"axial: positions or table must be \({t},\) or \(1, {t}\), got \(3,\)"):
        encoding.turn(q, encoding.table(torch.zeros(3, 2)))


@pytest.mark.parametrize("wrong", [lambda x: x[..., :1], lambda x: x[..., :8], lambda x: x.long()])
def test_content_of_another_form_is_refused(wrong):
    q, k = content(6)
    for inputs in ((wrong(q), k), (q, wrong(k))):
        with pytest.raises(ValueError, match=r"axial: dim of float q or k must be 16, got torch\.\w+ \(1, "):
            Axial(16)(*inputs, grid_positions(2, 3))


@pytest.mark.parametrize("positions", [[0], [0, 0], [[0, 0]] * 2, [[[0, 0]]]], ids=repr)
def test_the_numpy_function_takes_a_row_of_coordinates_a_token(positions):
    with pytest.raises(ValueError, match=r"unpack|reshape"):  # Python's and NumPy's own words
        axial(np.ones((2, 1, 8)), positions)
    with pytest.raises(ValueError, match="reshape"):
        axial(np.ones((2, 3, 8)), [[0, 0]])


WRONG = {
    "dim": [0, -2, 6, 7],
    "base": [0, -1.0, math.nan, math.inf],
    "theta": [1.0, [1.0] * 4, [[1.0] * 4], [[1.0] * 3] * 2, np.zeros((4, 2))],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]], ids=repr)
def test_wrong_settings_are_refused_by_class_and_function(name, value):
    with pytest.raises((ValueError, RuntimeError, ZeroDivisionError)):
        Axial(**{"dim": 8} | {name: value})(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 1, 8), torch.ones(1, 2))
    if name != "dim":
        with pytest.raises(ValueError, match=f"axial: {name}.* must be .*, got "):
            axial(np.ones((1, 8)), [[0, 0]], **{name: value})


@pytest.mark.parametrize("heads", [0, -1])
def test_sets_of_frequencies_are_counted(heads):
    with pytest.raises(RuntimeError):
        Axial(8, heads=heads)(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8), torch.ones(1, 2))
