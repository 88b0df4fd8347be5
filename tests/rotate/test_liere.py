"""LieRE: rotations worked by hand, what commutes and what does not, RoPE as a special case, and what it refuses."""

import copy
import functools
import inspect
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
from posenc.rotate.liere import LieRE, liere

# What the contract tests need to know (see encoding_inputs.py). An exponential errs by 2e-16 times its angle, and the
# contract asks for 1e-8 at position 10^7: small generators, as a model that counts positions would have.

OPTIONS = [
    {"heads": 1, "init": 0.2},
    {"heads": 1, "axes": 3, "block": 4, "init": 0.2},
    {"axes": 2, "block": 2, "init": 0.2, "heads": 1},
    {"heads": 2, "axes": 2, "block": 4, "init": 0.2},
]
LEARNED = {"generators"}


TEXT = False


def AXES(options):
    return options.get("axes", 2)


def oracle(x, positions, generators):
    """Work out the series of each exponential with 60 digits."""
    _, sets, blocks, width, _ = generators.shape
    turned = np.zeros(x.shape)
    for row, position in enumerate(positions.tolist()):
        for head, block in itertools.product(range(len(x)), range(blocks)):
            channels = slice(block * width, block * width + width)
            of_block = generators[:, head * sets // len(x), block]
            rotation = exponential(tuple(position), of_block.tobytes(), of_block.shape)
            turned[head, row, channels] = rotation @ x[head, row, channels]
    return turned


@functools.cache
def exponential(position, generators, shape):
    """Return exp(M), M the sum of the generators times the coordinates, as exp(M / 2^n)^(2^n)."""
    upper = np.triu(np.frombuffer(generators).reshape(shape), 1)
    with mpmath.workdps(60):
        exact = np.vectorize(mpmath.mpf, otypes=[object])
        matrix = sum(exact(float(p)) * exact(u - u.T) for p, u in zip(position, upper, strict=True))
        halvings = 8 + max(0, math.ceil(math.log2(1 + float(np.abs(matrix).sum(axis=1).max()))))
        result = term = exact(np.eye(shape[-1]))
        for order in range(1, 16):
            term = term @ matrix / (order * mpmath.mpf(2) ** halvings)
            result = result + term
        for _ in range(halvings):
            result = result @ result
    return result.astype(float)


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-100, 100), st.floats(-10, 10))
GRID = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1], [3, 2]])


def content(t=5, s=5, dim=8, heads=4, groups=2, batch=3):
    """Return random q (b, h, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def scattered(length, axes=2):
    """Return positions (t, a) of `length` tokens, no two of them alike."""
    line = torch.arange(length, dtype=torch.float64)
    return torch.stack([(line + 1).sin().roll(axis) + line / 3 for axis in range(axes)], dim=-1)


def turned(encoding, x, positions):
    """Return `x` turned to its coordinates."""
    return encoding.turn(x, encoding.table(positions, x.dtype))


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def with_generators(generators):
    """Return the module that has these `generators` (a, c, n, w, w) or (a, n, w, w)."""
    generators = torch.as_tensor(generators, dtype=torch.float64)
    generators = generators[:, None] if generators.ndim == 4 else generators
    axes, sets, blocks, width, _ = generators.shape
    encoding = LieRE(blocks * width, axes=axes, block=width, heads=sets).double()
    encoding.generators.data = generators
    return encoding


def random_generators(axes, blocks, width, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (axes, blocks, width, width))


def random_sets(sets):
    return np.stack([random_generators(2, 2, 4, seed=seed) for seed in range(sets)], axis=1)


def planes(theta):
    """Return generators (a, d/2, 2, 2) of blocks of width 2 that turn by the frequencies (a, d/2)."""
    generators = np.zeros((*np.shape(theta), 2, 2))
    generators[..., 0, 1] = -np.array(theta)
    return generators


def rotation(generators, position):
    """Return R (d, d) at one position, column by column."""
    d = generators.shape[1] * generators.shape[2]
    return liere(np.eye(d)[:, None], np.reshape(position, (1, -1)), generators)[:, 0].T


# Rotations worked by hand


def test_one_plane_turns_by_the_angle_of_its_entry_against_the_sign():
    # A = [[0, u], [-u, 0]]: exp(p A) = [[cos, sin], [-sin, cos]] of p u
    expected = [[math.cos(6), math.sin(6)], [-math.sin(6), math.cos(6)]]
    np.testing.assert_allclose(rotation(np.array([[[[0.0, 2.0], [0, 0]]]]), 3), expected, atol=1e-14)


def test_three_dimensions_follow_the_formula_of_rodrigues():
    a, b, c = 0.3, -0.5, 0.7
    skew = np.array([[0, a, b], [-a, 0, c], [-b, -c, 0]])
    angle = 2 * math.sqrt(a * a + b * b + c * c)
    unit = 2 * skew / angle
    expected = np.eye(3) + math.sin(angle) * unit + (1 - math.cos(angle)) * unit @ unit
    np.testing.assert_allclose(rotation(np.triu(skew, 1)[None, None], 2), expected, atol=1e-14)


def test_a_quarter_turn_about_each_axis_of_space():
    quarter, generators = math.pi / 2, np.zeros((3, 1, 3, 3))
    generators[0, 0, 1, 2] = generators[1, 0, 0, 2] = generators[2, 0, 0, 1] = quarter
    np.testing.assert_allclose(rotation(generators, [1, 0, 0]), [[1, 0, 0], [0, 0, 1], [0, -1, 0]], atol=1e-15)
    np.testing.assert_allclose(rotation(generators, [0, 1, 0]), [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], atol=1e-15)
    np.testing.assert_allclose(rotation(generators, [0, 0, 2]), [[-1, 0, 0], [0, -1, 0], [0, 0, 1]], atol=1e-15)


def test_only_what_stands_above_the_diagonal_is_used():
    raw = random_generators(2, 2, 4)
    x = np.random.default_rng(1).normal(size=(2, 5, 8))
    for other in (np.triu(raw, 1), raw + np.tril(np.full(raw.shape, 9.0))):
        np.testing.assert_array_equal(liere(x, GRID, other), liere(x, GRID, raw))
    encoding = with_generators(raw)
    rotated_q, _ = encoding(*content(), GRID)
    (gradient,) = torch.autograd.grad(rotated_q.sin().sum(), encoding.generators)
    assert gradient.tril().count_nonzero() == 0
    assert gradient.triu(1).count_nonzero() == 2 * 2 * 6


def test_what_the_authors_code_takes_from_every_entry_cancels():
    raw = torch.rand(2, 1, 4, 4, dtype=torch.float64)
    shifted = raw.triu(1) - 0.5
    torch.testing.assert_close(shifted - shifted.mT, raw.triu(1) - raw.triu(1).mT)


def test_position_0_turns_nothing_and_its_gradient_is_finite():
    q, k = content()
    encoding = with_generators(random_generators(2, 1, 8))
    rotated_q, rotated_k = encoding(q, k, torch.zeros(5, 2))
    assert torch.equal(rotated_q, q)
    assert torch.equal(rotated_k, k)
    (gradient,) = torch.autograd.grad(rotated_q.sin().sum(), encoding.generators)
    assert torch.equal(gradient, torch.zeros_like(gradient))


# What holds, and what does not


@given(position=st.tuples(shifts, shifts), width=st.sampled_from([2, 4, 8]))
@exactly
def test_every_rotation_is_orthogonal(position, width):
    r = rotation(random_generators(2, 8 // width, width), position)
    np.testing.assert_allclose(r @ r.T, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(r), 1, rtol=1e-12)


def test_lengths_are_kept():
    q, k = content()
    rotated_q, rotated_k = with_generators(random_generators(2, 1, 8))(q, k, GRID)
    torch.testing.assert_close(rotated_q.norm(dim=-1), q.norm(dim=-1))
    torch.testing.assert_close(rotated_k.norm(dim=-1), k.norm(dim=-1))


def change_of_scores(generators, shift, positions=GRID):
    """Return the largest change of a score where all tokens move by `shift`."""
    q, k = content()
    encoding = with_generators(generators).requires_grad_(False)
    here = scores(*encoding(q, k, positions))
    there = scores(*encoding(q, k, positions + torch.tensor(shift)))
    return (there - here).abs().max().item()


@pytest.mark.parametrize("width", [2, 4, 8])
def test_on_one_axis_scores_depend_on_the_offset_alone(width):
    line = torch.tensor([[0], [3], [1], [7], [7]])
    assert change_of_scores(random_generators(1, 8 // width, width), [17], line) < 1e-12


def test_in_blocks_of_width_2_scores_depend_on_the_offset_alone():
    assert change_of_scores(random_generators(2, 4, 2), [5, -3]) < 1e-12


@pytest.mark.parametrize("width", [4, 8])
def test_generators_that_commute_leave_scores_to_the_offset_alone(width):
    first = random_generators(1, 8 // width, width)
    assert change_of_scores(np.concatenate([first, -0.7 * first]), [5, -3]) < 1e-12


@pytest.mark.parametrize("width", [4, 8])
def test_generators_that_do_not_commute_let_scores_depend_on_the_place(width):
    assert change_of_scores(random_generators(2, 8 // width, width), [5, -3]) > 1


def test_the_first_departure_from_the_offset_is_the_commutator():
    # R(m)^T R(n) = R(n - m) exp((m_1 n_2 - m_2 n_1) [A_2, A_1] / 2 + ...), which is small near the origin
    raw = random_generators(2, 1, 4)
    first, second = (np.triu(g, 1) - np.triu(g, 1).T for g in raw[:, 0])
    for size in (1e-2, 1e-3):
        m, n = size * np.array([1.0, 2.0]), size * np.array([-1.0, 3.0])
        departure = rotation(raw, m).T @ rotation(raw, n) - rotation(raw, n - m)
        commutator = (m[0] * n[1] - m[1] * n[0]) * (second @ first - first @ second) / 2
        np.testing.assert_allclose(departure, commutator, atol=60 * size**3)
    assert np.abs(commutator).max() > 10 * 60 * size**3


# RoPE as a special case


def rope(x, positions, theta):
    """Return `x` (..., t, d) with channels 2i, 2i+1 turned by positions times theta_i; rows of angles are (t, d/2)."""
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * np.asarray(positions) @ np.asarray(theta))
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def test_blocks_of_width_2_on_one_axis_are_rope():
    q, k = content(5, 7)
    theta = 10_000.0 ** (-np.arange(4) / 4)[None]
    m, n = torch.arange(2, 7)[:, None], torch.arange(7)[:, None]
    rotated_q, rotated_k = with_generators(planes(theta))(q, k, m, n)
    np.testing.assert_allclose(rotated_q.detach(), rope(q.numpy(), m, theta), atol=1e-13)
    np.testing.assert_allclose(rotated_k.detach(), rope(k.numpy(), n, theta), atol=1e-13)


def test_blocks_of_width_2_that_each_follow_one_axis_are_axial_rope():
    x = content()[0].numpy()
    rotated = liere(x, GRID, planes([[1, 0.1, 0, 0], [0, 0, 1, 0.1]]))
    np.testing.assert_allclose(rotated[..., :4], rope(x[..., :4], GRID[:, :1], [[1, 0.1]]), atol=1e-14)
    np.testing.assert_allclose(rotated[..., 4:], rope(x[..., 4:], GRID[:, 1:], [[1, 0.1]]), atol=1e-14)


def test_blocks_of_width_2_that_follow_both_axes_are_mixed_rope():
    x = content()[0].numpy()
    theta = np.random.default_rng(1).normal(size=(2, 4))
    np.testing.assert_allclose(liere(x, GRID, planes(theta)), rope(x, GRID, theta), atol=1e-13)


def test_one_block_can_hold_what_several_hold():
    x = content()[0].numpy()
    narrow = random_generators(2, 2, 4)
    wide = np.zeros((2, 1, 8, 8))
    wide[:, 0, :4, :4] = narrow[:, 0]
    wide[:, 0, 4:, 4:] = narrow[:, 1]
    np.testing.assert_allclose(liere(x, GRID, wide), liere(x, GRID, narrow), atol=1e-13)


# The start, the heads, the cache


def test_generators_start_uniform_from_0_to_2_pi():
    torch.manual_seed(0)
    generators = LieRE(64).generators.detach()
    assert generators.shape == (2, 1, 1, 64, 64)
    assert 0 <= generators.min() < 0.01
    assert 2 * math.pi - 0.01 < generators.max() <= 2 * math.pi
    assert abs(generators.mean() - math.pi) < 5 * 2 * math.pi / math.sqrt(12 * generators.numel())
    assert LieRE(64, init=0.5).generators.max() <= 0.5


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (2, 1, 1, 12, 12)),
        ({"axes": 3, "block": 4}, (3, 1, 3, 4, 4)),
        ({"axes": 1, "block": 2, "heads": 5}, (1, 5, 6, 2, 2)),
    ],
    ids=str,
)
def test_there_is_a_generator_for_each_axis_set_and_block(options, shape):
    assert LieRE(12, **options).generators.shape == shape


@pytest.mark.parametrize("sets", [1, 2])
def test_heads_share_keys_as_if_these_were_repeated(sets):
    q, k = content(groups=2)
    encoding = with_generators(random_sets(sets))
    repeated = scores(*encoding(q, k.repeat_interleave(2, dim=1), GRID))
    torch.testing.assert_close(scores(*encoding(q, k, GRID)), repeated)


def test_each_set_serves_the_heads_of_its_keys():
    q, k = content(heads=8, groups=4)
    generators = random_sets(2)
    positions = torch.rand(3, 5, 2, dtype=torch.float64)
    rotated_q, rotated_k = with_generators(generators)(q, k, positions)
    by_first_set, _ = with_generators(generators[:, 0])(q, k, positions)
    assert not torch.allclose(rotated_q[:, 4:], by_first_set[:, 4:])
    for i in range(2):
        query_heads, key_heads = slice(4 * i, 4 * i + 4), slice(2 * i, 2 * i + 2)
        alone = with_generators(generators[:, i])
        expected_q, expected_k = alone(q[:, query_heads], k[:, key_heads], positions)
        torch.testing.assert_close(rotated_q[:, query_heads], expected_q)
        torch.testing.assert_close(rotated_k[:, key_heads], expected_k)


def test_the_generators_of_a_checkpoint_of_the_authors_serve_one_head_each():
    # generator_raw_params (a, layers, h n, w, w) is viewed as (h, n) when applied, and every entry counts less a half
    q, _ = content()
    positions = GRID.double() / 3
    saved = torch.tensor(np.random.default_rng(3).uniform(0, 1, (2, 5, 4 * 2, 4, 4)))
    of_layer = saved[:, 3]
    upper = of_layer.triu(1) - 0.5
    algebra = torch.einsum("ta,aNij->tNij", positions, upper - upper.mT)
    applied = torch.matrix_exp(algebra).view(1, 5, 4, 2, 4, 4).transpose(1, 2)
    expected = (applied @ q.reshape(3, 4, 5, 2, 4, 1)).flatten(-3)
    encoding = with_generators(of_layer.unflatten(1, (4, -1)))
    torch.testing.assert_close(turned(encoding, q, positions), expected)


def test_decoding_token_by_token_equals_encoding_at_once():
    q, k = content(7, 7)
    positions = scattered(7)
    encoding = with_generators(random_generators(2, 1, 8))
    whole = scores(*encoding(q, k, positions))
    cache = []
    for i in range(7):
        token = slice(i, i + 1)
        new_q, new_k = encoding(q[:, :, token], k[:, :, token], positions[token])
        cache.append(new_k)
        torch.testing.assert_close(scores(new_q, torch.cat(cache, dim=2)), whole[:, :, token, : i + 1])


def test_rows_of_a_batch_stand_each_where_they_say():
    q, k = content()
    positions = torch.rand(3, 5, 2, dtype=torch.float64)
    encoding = with_generators(random_generators(2, 2, 4))
    rotated_q, rotated_k = encoding(q, k, positions)
    for row in range(3):
        expected_q, expected_k = encoding(q[row : row + 1], k[row : row + 1], positions[row])
        torch.testing.assert_close(rotated_q[row : row + 1], expected_q)
        torch.testing.assert_close(rotated_k[row : row + 1], expected_k)


def test_turning_to_minus_the_position_turns_back():
    q, _ = content()
    encoding = with_generators(random_generators(2, 1, 8))
    torch.testing.assert_close(turned(encoding, turned(encoding, q, GRID), -GRID), q)


@pytest.mark.parametrize("wrong", [None, torch.arange(6), torch.zeros(6, 3), torch.zeros(2, 6)], ids=str)
def test_patches_do_not_lie_on_the_diagonal_by_mistake(wrong):
    # else patch i would stand at (i, i)
    q, k = content(6, 6)
    grid = grid_positions(2, 3)
    got = "None" if wrong is None else r"\(.*\)"
    message = rf"liere: positions or key_positions must be \(t, 2\), .*, got {got}; .*grid_positions\(height, width\)"
    for key_positions in (None, grid):
        with pytest.raises(ValueError, match=message):
            LieRE(8)(q, k, wrong, key_positions)
    with pytest.raises(ValueError, match=message):
        LieRE(8).table(wrong)


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_worked_out_in_float32_and_rounded_once(dtype):
    q, k = (x.to(dtype) for x in content())
    encoding = LieRE(8)
    rotated_q, rotated_k = encoding(q, k, GRID)
    exact_q, exact_k = encoding(q.float(), k.float(), GRID)
    assert torch.equal(rotated_q, exact_q.to(dtype))
    assert torch.equal(rotated_k, exact_k.to(dtype))


def test_queries_and_keys_keep_each_its_dtype():
    q, k = content()
    rotated_q, rotated_k = LieRE(8)(q.bfloat16(), k.float(), GRID)
    assert (rotated_q.dtype, rotated_k.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("p", [1, 1000, 10**5, 10**7])
def test_even_the_generators_of_the_start_err_by_less_than_float32_rounds(p):
    torch.manual_seed(0)
    encoding = LieRE(16, axes=1)
    x = torch.eye(16)[None, :, None]
    positions = torch.tensor([[p]])
    raw = encoding.generators.detach().double().numpy()
    expected = oracle(x[0].double().numpy(), positions, raw)
    np.testing.assert_allclose(turned(encoding, x, positions)[0].detach(), expected, atol=1.5e-7)
    angle = p * np.linalg.norm(np.triu(raw[0, 0, 0], 1) - np.triu(raw[0, 0, 0], 1).T, 2)
    np.testing.assert_allclose(liere(x[0], positions, raw), expected, atol=1e-15 + 1e-15 * angle)


# The table


def test_the_table_is_the_rotation_itself():
    generators = random_generators(2, 1, 8)
    table = with_generators(generators).table(GRID, torch.float64).detach()
    assert table.shape == (1, 5, 1, 8, 8)
    np.testing.assert_allclose(table[0, 4, 0], rotation(generators, [3, 2]), atol=1e-13)
    assert LieRE(8, block=2, heads=3).table(GRID).shape == (3, 5, 4, 2, 2)
    assert LieRE(8, block=2).table(GRID.expand(3, 5, 2)).dtype == torch.float32


@pytest.mark.parametrize("sets", [1, 2])
@pytest.mark.parametrize("shape", [(7, 2), (1, 7, 2), (3, 7, 2)], ids=["t, a", "1, t, a", "b, t, a"])
def test_a_shared_table_gives_what_its_positions_give(sets, shape):
    q, k = content(7, 7)
    positions = torch.randint(0, 99, shape)
    encoding = with_generators(random_sets(sets))
    table = encoding.table(positions, torch.float64)
    rotated_q, rotated_k = encoding(q, k, positions)
    assert torch.equal(encoding.turn(q, table), rotated_q)
    assert torch.equal(encoding.turn(k, table), rotated_k)


def test_gradients_flow_through_a_table():
    q, k = content()
    encoding = with_generators(random_generators(2, 1, 8))

    def gradient(rotated_q, rotated_k):
        return torch.autograd.grad(scores(rotated_q, rotated_k).sin().sum(), encoding.generators)

    table = encoding.table(GRID, torch.float64)
    through_table = gradient(encoding.turn(q, table), encoding.turn(k, table))
    torch.testing.assert_close(through_table, gradient(*encoding(q, k, GRID)))


def test_a_table_finer_than_needed_is_taken():
    q, _ = content()
    encoding = LieRE(8)
    table = encoding.table(GRID, torch.float64)
    assert encoding.turn(q.bfloat16(), table).dtype == torch.bfloat16


def test_the_same_positions_are_worked_out_once():
    q, k = content()
    encoding = LieRE(8)
    with mock.patch.object(encoding, "table", wraps=encoding.table) as table:
        encoding(q, k, GRID)
        assert table.call_count == 1
        encoding(q, k, GRID, GRID.clone())
        assert table.call_count == 3


@pytest.mark.parametrize("shape", [(8, 2), (1, 8, 2), (8, 8, 2)], ids=str)
def test_compiles_where_there_are_as_many_tokens_and_sequences_as_channels(shape):
    x = torch.randn(8, 4, 8, 8)
    positions = torch.randint(0, 9, shape)
    encoding = LieRE(8).requires_grad_(False)
    torch._dynamo.reset()
    compiled = torch.compile(encoding, fullgraph=True, backend="eager", dynamic=True)
    assert all(map(torch.equal, compiled(x, x, positions), encoding(x, x, positions)))


# Edges


@pytest.mark.parametrize(("t", "s"), [(0, 0), (0, 3), (1, 1), (5, 2)])
def test_any_numbers_of_queries_and_keys(t, s):
    q, k = content(t, s)
    m, n = scattered(t), scattered(s)
    encoding = with_generators(random_generators(2, 1, 8)).requires_grad_(False)
    rotated_q, rotated_k = encoding(q, k, m, n)
    np.testing.assert_allclose(rotated_q, liere(q, m, encoding.generators), atol=1e-13)
    np.testing.assert_allclose(rotated_k, liere(k, n, encoding.generators), atol=1e-13)


def test_odd_widths_turn_too():
    q, _ = content(dim=7)
    encoding = with_generators(random_generators(2, 1, 7))
    torch.testing.assert_close(turned(encoding, q, GRID).norm(dim=-1), q.norm(dim=-1))


def test_a_module_can_be_copied():
    q, k = content()
    positions = scattered(5, axes=3)
    encoding = LieRE(8, axes=3, block=4).double()
    assert all(map(torch.equal, copy.deepcopy(encoding)(q, k, positions), encoding(q, k, positions)))


def test_the_defaults_are_those_of_the_authors():
    defaults = {name: parameter.default for name, parameter in inspect.signature(LieRE).parameters.items()}
    assert defaults == {"dim": inspect.Parameter.empty, "axes": 2, "block": None, "init": 2 * math.pi, "heads": 1}


def test_the_twin_takes_a_batch_whole_and_a_single_head():
    q = content()[0].numpy()
    positions = scattered(5)
    generators = random_generators(2, 2, 4)
    result = liere(q, positions, generators)
    np.testing.assert_allclose(result, [liere(row, positions, generators) for row in q], rtol=0, atol=1e-14)
    np.testing.assert_allclose(result[1, 2], liere(q[1, 2], positions, generators), rtol=0, atol=1e-14)


def test_the_twin_gives_each_set_its_heads_in_turn():
    q = content()[0].numpy()
    positions = scattered(5)
    generators = random_sets(2)
    first = generators[:, 0]
    np.testing.assert_array_equal(liere(q, positions, first[:, None]), liere(q, positions, first))
    result = liere(q, positions, generators)
    for head in range(4):
        expected = liere(q[:, head], positions, generators[:, head // 2])
        np.testing.assert_allclose(result[:, head], expected, atol=1e-14)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("wrong", [lambda x: x[..., :4], lambda x: torch.cat([x, x], dim=-1), lambda x: x.long()])
def test_content_of_another_form_is_refused(wrong):
    q, k = content()
    for inputs in ((wrong(q), k), (q, wrong(k))):
        with pytest.raises(ValueError, match=r"liere: dim of float q or k must be 8, got torch\.\w+ \(3, "):
            LieRE(8)(*inputs, GRID)


def test_sets_that_do_not_divide_the_key_heads_give_no_result():
    with pytest.raises(RuntimeError, match="unflatten"):
        LieRE(8, heads=4)(*content(groups=2), GRID)


@pytest.mark.parametrize("shape", [(4, 2), (1, 2), (6, 2), (1, 4, 2), (2, 5, 2)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    q, k = content()
    encoding = LieRE(8)
    wrong = torch.zeros(shape)
    message = r"liere: positions or table must be \(5,\) or \(3, 5\), got \("
    for positions in ((wrong,), (GRID, wrong), (wrong, GRID)):
        with pytest.raises(ValueError, match=message):
            encoding(q, k, *positions)
    with pytest.raises(ValueError, match=message):
        encoding.turn(k, encoding.table(wrong))


@pytest.mark.parametrize(("dim", "block"), [(0, None), (-2, None), (1, None), (8, 0), (8, 1), (8, -2), (8, 3), (8, 16)])
def test_a_width_that_blocks_do_not_share_is_refused(dim, block):
    with pytest.raises(ValueError, match=r"liere: dim must be a multiple of block, got"):
        LieRE(dim, block=block)


@pytest.mark.parametrize("positions", [(5,), (5, 3), (2, 5), (1, 2), (1, 5, 2)], ids=str)
def test_the_numpy_function_takes_a_row_of_coordinates_a_token(positions):
    with pytest.raises(ValueError, match=r"liere: positions must be \(5, 2\), got"):
        liere(np.zeros((4, 5, 8)), np.zeros(positions), np.zeros((2, 1, 8, 8)))


@pytest.mark.parametrize("shape", [(2, 1, 8, 4), (2, 3, 4, 4), (2, 3, 1, 8, 8)], ids=str)
def test_generators_of_another_form_give_no_result(shape):
    with pytest.raises(ValueError, match=r"operand|reshape|broadcast"):  # NumPy's own words
        liere(np.zeros((4, 5, 8)), np.zeros((5, 2)), np.zeros(shape))
