"""Axial RoPE: coordinates and frequencies by hand, shares of axes, what is learned, and what is refused."""

import itertools
import math

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
    heads, d, axes = x.shape[-3], x.shape[-1], positions.shape[-1]
    turned = np.zeros(x.shape)
    with mpmath.workdps(60):
        directions = slow_theta(d, axes, base) if theta is None else np.array(theta).tolist()
        groups = directions if isinstance(directions[0][0], list) else [directions]
        for head, row, i in itertools.product(range(heads), range(len(positions)), range(d // 2)):
            own = groups[head // (heads // len(groups))]
            angle = sum(mpmath.mpf(p) * own[axis][i] for axis, p in enumerate(positions[row].tolist()))
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


def content(t, s=None, d=16, h=2, g=1, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(1, h, t, d, generator=generator), torch.randn(1, g, s or t, d, generator=generator))
    return tuple(x.to(dtype) for x in made)


# Values worked by hand


def test_a_patch_by_hand():
    # width 8, base 10,000: 2 pairs an axis, theta 1 and 1/100; the patch at row 2, column 3
    x = np.arange(1.0, 9.0)[None]
    angle = [2, 0.02, 3, 0.03]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(axial(x, [[2, 3]]), [expected], rtol=1e-14)


def test_one_axis_is_rope():
    np.testing.assert_allclose(Axial(8, axes=1).theta, [[[1, 0.1, 0.01, 0.001]]], rtol=1e-14)
    (q, k), places = content(5, d=8), torch.tensor([7, 0, 3, 70, 1])
    for made, by_rope in zip(
        Axial(8, axes=1)(q, k, *[places[:, None]] * 2), RoPE(8)(q, k, places, places), strict=True
    ):
        torch.testing.assert_close(made, by_rope, rtol=0, atol=1e-14)
    for made, x in zip(Axial(8, axes=1)(q, k, *[places[:, None]] * 2), (q, k), strict=True):
        np.testing.assert_allclose(made[0], axial(x[0], places[:, None]), atol=1e-13)


@each_layout
def test_which_channels_turn_together(layout):
    pair = {"half": [0, 4], "interleaved": [0, 1], "blocks": [0, 2]}[layout]
    assert np.flatnonzero(axial(np.eye(8)[:1], [[2, 3]], layout=layout)).tolist() == pair
    turned = Axial(8, layout=layout).turn(torch.eye(8)[None, None, :1], torch.tensor([[2, 3]]))
    assert turned.flatten().nonzero().flatten().tolist() == pair


@each_layout
def test_turning_to_minus_the_position_turns_back(layout):
    q, _ = content(6)
    encoding, grid = Axial(16, layout=layout), grid_positions(2, 3)
    torch.testing.assert_close(encoding.turn(encoding.turn(q, grid), -grid), q)


# Where tokens stand


@pytest.mark.parametrize("heads", [None, 2])
def test_one_row_of_coordinates_or_of_a_table_serves_a_batch(heads):
    q, k = torch.randn(3, 4, 6, 16), torch.randn(3, 2, 6, 16)
    encoding, grid = Axial(16, heads=heads), grid_positions(2, 3)
    expected = encoding(q, k, grid, grid)
    one, whole = encoding.table(grid[None]), encoding.table(grid.expand(3, 6, 2))
    for made in (
        encoding(q, k, grid[None], grid[None]),
        encoding(q, k, grid[None], grid.expand(3, 6, 2)),
        encoding(q, k, table=one),
        encoding(q, k, table=whole),
    ):
        assert all(torch.equal(*each) for each in zip(made, expected, strict=True))


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("shape", [(2, 2), (1, 2, 2), (0, 2, 2)], ids=["t, n", "1, t, n", "b, t, n"])
def test_compiles_where_sizes_are_as_many_as_the_axes(batch, shape):
    x, grid = torch.randn(batch, 4, 2, 16), torch.tensor([[0, 1], [2, 0]]).expand(shape[0] or batch, 2, 2)
    grid = grid[0] if len(shape) == 2 else grid
    torch._dynamo.reset()
    made = torch.compile(Axial(16), fullgraph=True, backend="eager", dynamic=True)(x, x, grid, grid)
    assert all(torch.equal(*each) for each in zip(made, Axial(16)(x, x, grid, grid), strict=True))


# Axes of unequal shares


def test_the_video_models_that_give_time_more_pairs_or_fewer():
    # Wan gives 44, 42 and 42 channels of a head to time, row and column, HunyuanVideo 16, 56 and 56 at base 256: the
    # pairs of each, as complex numbers, turn by the frequencies of a head so wide
    grid, x = grid_positions(3, 4, 5).numpy(), np.random.default_rng(0).normal(size=(2, 60, 128))
    for shares, base in (((44, 42, 42), 10_000.0), ((16, 56, 56), 256.0)):
        theta, ends = np.zeros((3, 64)), np.cumsum(shares) // 2
        turned, whole = [], (x[..., 0::2] + 1j * x[..., 1::2])
        for axis, (share, end) in enumerate(zip(shares, ends, strict=True)):
            own = base ** (-np.arange(0, share, 2) / share)
            theta[axis, end - share // 2 : end] = own
            turned.append(whole[..., end - share // 2 : end] * np.exp(1j * np.outer(grid[:, axis], own)))
        turned = np.concatenate(turned, axis=-1)
        expected = np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
        np.testing.assert_allclose(axial(x, grid, layout="interleaved", theta=theta), expected, atol=1e-13)
        places, both = torch.from_numpy(grid), [torch.from_numpy(x)[None]] * 2
        for made in Axial(128, axes=3, layout="interleaved", theta=theta)(*both, places, places):
            np.testing.assert_allclose(made[0], expected, atol=1e-13)


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
    turn = np.arctan2(y, x)
    np.testing.assert_allclose(np.cos(turn[:, :4]), np.cos(turn[:, :1]).repeat(4, 1), atol=1e-6)
    quarter = np.angle(np.exp(1j * (turn[:, 4:] - turn[:, :4])))
    np.testing.assert_allclose(quarter, -math.pi / 2, atol=1e-6)
    spread = np.exp(1j * turn[:, 0])  # all around the circle
    assert abs(spread.mean()) < 0.4
    assert {(np.real(z) > 0, np.imag(z) > 0) for z in spread} == set(itertools.product([False, True], repeat=2))


def test_mixed_frequencies_can_start_from_given_ones():
    theta = [[0, 0, 1, 0.1], [1, 0.1, 0, 0]]
    made = Axial(8, theta=theta, heads=3).theta.detach().double()
    np.testing.assert_allclose(made.norm(dim=1), np.tile([1, 0.1], (3, 2)), rtol=1e-6)


def test_heads_learn_apart_and_share_with_the_query_heads_of_their_key():
    torch.manual_seed(0)
    encoding, (q, k) = Axial(16, heads=2).double(), content(4, h=4, g=2)
    grid = grid_positions(2, 2)
    turned, keys = encoding(q, k, grid, grid)
    for head in range(4):
        own = axial(q[0, head], grid, theta=encoding.theta[head // 2].detach())
        np.testing.assert_allclose(turned[0, head].detach(), own, atol=1e-12)
    assert keys.shape == k.shape
    turned[:, 2:, :, 0].sum().backward()
    assert encoding.theta.grad is not None
    assert encoding.theta.grad[1].count_nonzero() == 2  # of one pair, both directions
    assert not encoding.theta.grad[0].any()


def test_one_head_of_frequencies_serves_all():
    encoding, (q, k) = Axial(16, heads=1), content(3, h=4, g=2)
    assert [x.shape for x in encoding(q, k, grid_positions(1, 3))] == [q.shape, k.shape]


def test_heads_that_share_a_key_cannot_turn_apart():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match"):
        Axial(16, heads=4)(*content(3, h=4, g=2), grid_positions(1, 3))


def test_fixed_frequencies_can_differ_by_head():
    theta, (q, k) = np.random.default_rng(0).normal(size=(2, 2, 8)), content(6, h=4, g=2)
    encoding, grid = Axial(16, theta=theta), grid_positions(2, 3)
    assert not list(encoding.parameters())
    for turned, x in zip(encoding(q, k, grid, grid), (q, k), strict=True):
        np.testing.assert_allclose(turned[0], axial(x[0], grid, theta=theta), atol=1e-13)


# The table, and edges


@pytest.mark.parametrize(("t", "s"), [(1, 1), (0, 0), (0, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("heads", [None, 1])
def test_any_numbers_of_queries_and_keys(t, s, heads):
    q, k = torch.randn(2, 2, t, 16), torch.randn(2, 1, s, 16)
    m, n = torch.randint(9, (t, 2)), torch.randint(9, (2, s, 2))
    assert [x.shape for x in Axial(16, heads=heads)(q, k, m, n)] == [q.shape, k.shape]


def test_the_same_positions_are_worked_out_once():
    calls, encoding, (q, k), grid = [], Axial(16), content(6), grid_positions(2, 3)
    make = encoding.table
    encoding.table = lambda *given: calls.append(given) or make(*given)
    encoding(q, k, grid)
    assert len(calls) == 1
    encoding(q, k, grid, grid.clone())
    assert len(calls) == 3


@pytest.mark.parametrize("options", [{}, {"layout": "interleaved"}, {"heads": 2}], ids=str)
@pytest.mark.parametrize("batch", [False, True], ids=["t, n", "b, t, n"])
def test_a_shared_table_gives_what_its_positions_give(options, batch):
    q, k = (x.expand(3, -1, -1, -1) for x in content(2, 4, h=4, g=2, dtype=torch.float32))
    grid = torch.randint(9, (3, 4, 2)) if batch else torch.randint(9, (4, 2))
    encoding = Axial(16, **options)
    expected, made = encoding(q, k, grid[..., 2:, :], grid), encoding(q, k, table=encoding.table(grid))
    assert all(map(torch.equal, made, expected))


def test_a_table_holds_cosines_and_signed_sines_in_the_places_of_a_pair():
    at = torch.tensor([[2, 3]])
    c, s = {a: math.cos(a) for a in (2, 3, 0.2, 0.3)}, {a: math.sin(a) for a in (2, 3, 0.2, 0.3)}
    half, neighbors = (Axial(4, layout=way).table(at, torch.float64)[0, 0] for way in ("half", "interleaved"))
    np.testing.assert_allclose(half, [c[2], c[3], c[2], c[3], -s[2], -s[3], s[2], s[3]], rtol=1e-14)
    np.testing.assert_allclose(neighbors, [c[2], c[2], c[3], c[3], -s[2], s[2], -s[3], s[3]], rtol=1e-14)
    blocks = Axial(8, base=100, layout="blocks").table(at, torch.float64)[0, 0, 8:]
    np.testing.assert_allclose(blocks, [-s[2], -s[0.2], s[2], s[0.2], -s[3], -s[0.3], s[3], s[0.3]], rtol=1e-13)
    assert Axial(4).table(torch.zeros(2, 3, 2)).shape == (2, 1, 3, 8)
    assert Axial(4, heads=5).table(torch.zeros(2, 3, 2)).shape == (2, 5, 3, 8)
    assert Axial(4).half().table(torch.zeros(3, 2)).dtype == torch.float32


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    (q, _), (_, k) = (content(3, dtype=dtype) for dtype in dtypes)
    grid = grid_positions(1, 3)
    made, reference = Axial(16)(q, k, grid, grid), Axial(16)(q.double(), k.double(), grid, grid)
    assert tuple(x.dtype for x in made) == dtypes
    for got, want in zip(made, reference, strict=True):
        torch.testing.assert_close(got, want.to(got.dtype), rtol=1e-3, atol=1e-6)


def test_no_patches_give_nothing():
    assert axial(np.zeros((2, 0, 8)), np.zeros((0, 2))).shape == (2, 0, 8)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("wrong", [None, torch.arange(6), torch.zeros(6, 3), torch.zeros(2, 6), torch.zeros(2, 3, 6)])
def test_patches_do_not_lie_on_the_diagonal_by_mistake(wrong):
    (q, k), grid, got = content(6), grid_positions(2, 3), "None" if wrong is None else r"\(.*\)"
    said = rf"axial: positions or key_positions must be \(t, 2\), .*, got {got}; .*grid_positions\(height, width\)"
    for told in ({"positions": wrong}, {"positions": wrong, "key_positions": grid}):
        with pytest.raises(ValueError, match=said):
            Axial(16)(q, k, **told)
    with pytest.raises(ValueError, match=said):
        Axial(16).table(wrong)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("shape", [(4, 2), (1, 2), (4096, 2), (1, 4, 2), (2, 5, 2)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape, heads):
    x, encoding, wrong = torch.zeros(3, 2, 5, 16), Axial(16, heads=heads), torch.zeros(shape)
    said, grid = r"axial: positions or table must be \(5,\) or \(3, 5\), got \(", torch.zeros(5, 2)
    for told in ((wrong,), (grid, wrong), (wrong, grid), (None, None, encoding.table(wrong))):
        with pytest.raises(ValueError, match=said):
            encoding(x, x, *told)


@pytest.mark.parametrize(("t", "s"), [(5, 3), (6, 3)])
def test_a_table_of_fewer_keys_than_queries_is_refused(t, s):
    encoding = Axial(16)
    with pytest.raises(ValueError, match=rf"axial: positions or table must be \({t},\)"):
        encoding(*content(t, s), table=encoding.table(torch.zeros(s, 2)))


@pytest.mark.parametrize("wrong", [lambda x: x[..., :1], lambda x: x[..., :8], lambda x: x.long()])
def test_content_of_another_form_is_refused(wrong):
    (q, k), grid = content(6), grid_positions(2, 3)
    for call in ((wrong(q), k), (q, wrong(k))):
        with pytest.raises(ValueError, match=r"axial: dim of float q or k must be 16, got torch\.\w+ \(1, "):
            Axial(16)(*call, grid)


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
