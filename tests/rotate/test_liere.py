"""LieRE: rotations worked by hand, what commutes and what does not, RoPE as a special case, and what it refuses."""

import copy
import functools
import inspect
import itertools
import math

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
    for row, place in enumerate(np.reshape(positions, (len(positions), -1)).tolist()):
        for head, block in itertools.product(range(len(x)), range(blocks)):
            at = slice(block * width, block * width + width)
            of_block = generators[:, head * sets // len(x), block]
            turned[head, row, at] = exponential(tuple(place), of_block.tobytes(), of_block.shape) @ x[head, row, at]
    return turned


@functools.cache
def exponential(place, generators, shape):
    """Return exp(M), M the sum of the generators times the coordinates, as exp(M / 2^n)^(2^n)."""
    upper = np.triu(np.frombuffer(generators).reshape(shape), 1)
    with mpmath.workdps(60):
        exact = np.vectorize(mpmath.mpf, otypes=[object])
        places = np.resize(np.asarray(place, float), len(upper))
        matrix = sum(exact(p) * exact(u - u.T) for p, u in zip(places, upper, strict=True))
        halvings = 8 + max(0, math.ceil(math.log2(1 + float(np.abs(matrix).sum(axis=1).max()))))
        made = term = exact(np.eye(shape[-1]))
        for order in range(1, 16):
            term = term @ matrix / (order * mpmath.mpf(2) ** halvings)
            made = made + term
        for _ in range(halvings):
            made = made @ made
    return made.astype(float)


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-100, 100), st.floats(-10, 10))
GRID = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1], [3, 2]])


def content(t=5, s=7, dim=8, heads=4, groups=2, batch=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def at(*lengths, axes=2):
    """Return places of `lengths` tokens each, no two of them alike."""
    line = torch.arange(max(lengths), dtype=torch.float64)
    rows = torch.stack([(line + 1).sin().roll(axis) + line / 3 for axis in range(axes)], dim=-1)
    return [rows[max(lengths) - length :] for length in lengths]


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def of(generators):
    """Build the module that has these `generators` (a, c, n, w, w) or (a, n, w, w)."""
    generators = torch.as_tensor(generators, dtype=torch.float64)
    generators = generators[:, None] if generators.ndim == 4 else generators
    axes, sets, blocks, width, _ = generators.shape
    encoding = LieRE(blocks * width, axes=axes, block=width, heads=sets).double()
    encoding.generators.data = generators
    return encoding


def random_generators(axes, blocks, width, size=1.0, seed=0):
    return np.random.default_rng(seed).uniform(-size, size, (axes, blocks, width, width))


def random_sets(sets):
    return np.stack([random_generators(2, 2, 4, seed=seed) for seed in range(sets)], axis=1)


def planes(*frequencies):
    """Return generators (a, d/2, 2, 2) of blocks of width 2 that turn by these frequencies (d/2,), one row an axis."""
    made = np.zeros((len(frequencies), len(frequencies[0]), 2, 2))
    made[:, :, 0, 1] = -np.array(frequencies)
    return made


def rotation(generators, place):
    """Return R (d, d) at one place, column by column."""
    d = generators.shape[1] * generators.shape[2]
    return liere(np.eye(d)[:, None], np.reshape(place, (1, -1)), generators)[:, 0].T


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
    raw, x = random_generators(2, 2, 4), np.random.default_rng(1).normal(size=(2, 5, 8))
    for used in (np.triu(raw, 1), raw + np.tril(np.full(raw.shape, 9.0))):
        np.testing.assert_array_equal(liere(x, GRID.numpy(), used), liere(x, GRID.numpy(), raw))
    encoding = of(raw)
    (gradient,) = torch.autograd.grad(encoding(*content(5, 5), GRID, GRID)[0].sin().sum(), encoding.generators)
    assert gradient.tril().count_nonzero() == 0
    assert gradient.triu(1).count_nonzero() == 2 * 2 * 6


def test_what_the_authors_code_takes_from_every_entry_cancels():
    raw = torch.rand(2, 1, 4, 4, dtype=torch.float64)
    shifted = raw.triu(1) - 0.5
    torch.testing.assert_close(shifted - shifted.mT, raw.triu(1) - raw.triu(1).mT)


def test_position_0_turns_nothing_and_its_gradient_is_finite():
    encoding, (q, k) = of(random_generators(2, 1, 8)), content()
    zero = torch.zeros(7, 2)
    made_q, made_k = encoding(q, k, zero[:5], zero)
    assert torch.equal(made_q, q)
    assert torch.equal(made_k, k)
    (gradient,) = torch.autograd.grad(made_q.sin().sum(), encoding.generators)
    assert torch.equal(gradient, torch.zeros_like(gradient))


# What holds, and what does not


@given(place=st.tuples(shifts, shifts), width=st.sampled_from([2, 4, 8]))
@exactly
def test_every_rotation_is_orthogonal(place, width):
    made = rotation(random_generators(2, 8 // width, width), place)
    np.testing.assert_allclose(made @ made.T, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(made), 1, rtol=1e-12)


def test_lengths_are_kept():
    (q, k), encoding = content(5, 5), of(random_generators(2, 1, 8))
    for made, x in zip(encoding(q, k, GRID, GRID), (q, k), strict=True):
        torch.testing.assert_close(made.norm(dim=-1), x.norm(dim=-1))


def moved(generators, shift, places=None):
    """Return the largest change of a score where all tokens move by `shift`."""
    q, k = content(5, 5)
    places = GRID.double() if places is None else places
    encoding = of(generators)
    with torch.no_grad():
        here, there = (scores(*encoding(q, k, at, at)) for at in (places, places + torch.tensor(shift)))
    return (there - here).abs().max().item()


@pytest.mark.parametrize("width", [2, 4, 8])
def test_on_one_axis_scores_depend_on_the_offset_alone(width):
    assert moved(random_generators(1, 8 // width, width), [17.0], torch.tensor([[0.0], [3], [1], [7], [7]])) < 1e-12


def test_in_blocks_of_width_2_scores_depend_on_the_offset_alone():
    assert moved(random_generators(2, 4, 2), [5.0, -3.0]) < 1e-12


@pytest.mark.parametrize("width", [4, 8])
def test_generators_that_commute_leave_scores_to_the_offset_alone(width):
    one = random_generators(1, 8 // width, width)
    assert moved(np.concatenate([one, -0.7 * one]), [5.0, -3.0]) < 1e-12


@pytest.mark.parametrize("width", [4, 8])
def test_generators_that_do_not_commute_let_scores_depend_on_the_place(width):
    assert moved(random_generators(2, 8 // width, width), [5.0, -3.0]) > 1


def test_the_first_departure_from_the_offset_is_the_commutator():
    # R(m)^T R(n) = R(n - m) exp((m_1 n_2 - m_2 n_1) [A_2, A_1] / 2 + ...), which is small near the origin
    raw = random_generators(2, 1, 4)
    first, second = (np.triu(g, 1) - np.triu(g, 1).T for g in raw[:, 0])
    for size in (1e-2, 1e-3):
        m, n = size * np.array([1.0, 2.0]), size * np.array([-1.0, 3.0])
        departure = rotation(raw, m).T @ rotation(raw, n) - rotation(raw, n - m)
        commutator = (m[0] * n[1] - m[1] * n[0]) * (first @ second - second @ first) / 2
        np.testing.assert_allclose(departure, -commutator, atol=60 * size**3)
        assert np.abs(commutator).max() > 10 * 60 * size**3 or size == 1e-2


# RoPE as a special case


def rope(x, positions, theta):
    """Return `x` (..., t, d) with channels 2i, 2i+1 turned by positions times theta_i; rows of angles are (t, d/2)."""
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * np.asarray(positions) @ np.asarray(theta))
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


def test_blocks_of_width_2_on_one_axis_are_rope():
    theta, (q, k) = 10_000.0 ** (-np.arange(4) / 4), content()
    places = torch.arange(2, 7)[:, None], torch.arange(7)[:, None]
    for made, x, at in zip(of(planes(theta))(q, k, *places), (q, k), places, strict=True):
        np.testing.assert_allclose(made.detach(), rope(x.numpy(), at, theta[None]), atol=1e-13)


def test_blocks_of_width_2_that_each_follow_one_axis_are_axial_rope():
    theta = 100.0 ** (-np.arange(2) / 2)
    rows, columns = [*theta, 0, 0], [0, 0, *theta]
    x = content()[0][0].numpy()
    made, places = liere(x, GRID.numpy(), planes(rows, columns)), GRID.numpy()
    np.testing.assert_allclose(made[..., :4], rope(x[..., :4], places[:, :1], theta[None]), atol=1e-14)
    np.testing.assert_allclose(made[..., 4:], rope(x[..., 4:], places[:, 1:], theta[None]), atol=1e-14)


def test_blocks_of_width_2_that_follow_both_axes_are_mixed_rope():
    theta, x = np.random.default_rng(1).normal(size=(2, 4)), content()[0][0].numpy()
    expected = rope(x, GRID.numpy(), theta)
    np.testing.assert_allclose(liere(x, GRID.numpy(), planes(*theta)), expected, atol=1e-13)


def test_one_block_can_hold_what_several_hold():
    narrow = random_generators(2, 2, 4)
    wide = np.zeros((2, 1, 8, 8))
    wide[:, 0, :4, :4], wide[:, 0, 4:, 4:] = narrow[:, 0], narrow[:, 1]
    x = content()[0][0].numpy()
    np.testing.assert_allclose(liere(x, GRID.numpy(), wide), liere(x, GRID.numpy(), narrow), atol=1e-13)


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
    encoding, (q, k) = of(random_sets(sets)), content(groups=2)
    torch.testing.assert_close(
        scores(*encoding(q, k, *at(5, 7))), scores(*encoding(q, k.repeat_interleave(2, dim=1), *at(5, 7)))
    )


def test_each_set_serves_the_heads_of_its_keys():
    (q, k), raw = content(5, 5, heads=8, groups=4), random_sets(2)
    places = torch.rand(3, 5, 2, dtype=torch.float64)
    made_q, made_k = of(raw)(q, k, places, places)
    assert not torch.allclose(made_q[:, 4:], of(raw[:, 0])(q, k, places, places)[0][:, 4:])
    for part in range(2):
        of_q, of_k = of(raw[:, part])(q[:, 4 * part :][:, :4], k[:, 2 * part :][:, :2], places, places)
        torch.testing.assert_close(made_q[:, 4 * part :][:, :4], of_q)
        torch.testing.assert_close(made_k[:, 2 * part :][:, :2], of_k)


def test_the_generators_of_a_checkpoint_of_the_authors_serve_one_head_each():
    # generator_raw_params (a, layers, h n, w, w) is viewed as (h, n) when applied, and every entry counts less a half
    saved, (q, _) = np.random.default_rng(3).uniform(0, 1, (2, 5, 4 * 2, 4, 4)), content(5, 5, groups=4)
    upper = np.triu(saved[:, 3], 1) - 0.5
    algebra = torch.einsum("ta,aNij->tNij", GRID.double() / 3, torch.tensor(upper - upper.swapaxes(2, 3)))
    applied = torch.matrix_exp(algebra).view(1, 5, 4, 2, 4, 4).transpose(1, 2)
    theirs = (applied @ q.reshape(3, 4, 5, 2, 4, 1)).flatten(-3)
    mine = of(torch.tensor(saved)[:, 3].unflatten(1, (4, -1)))(q, q, GRID / 3, GRID / 3)[0]
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)  # GRID / 3 is float32


def test_decoding_token_by_token_equals_encoding_at_once():
    encoding, (q, k), (places,) = of(random_generators(2, 1, 8)), content(7, 7), at(7)
    whole, cache = scores(*encoding(q, k, places, places)), []
    for p in range(7):
        here = places[p : p + 1]
        query, key = encoding(q[:, :, p : p + 1], k[:, :, p : p + 1], here, here)
        cache.append(key)
        torch.testing.assert_close(scores(query, torch.cat(cache, dim=2)), whole[:, :, p : p + 1, : p + 1])


def test_rows_of_a_batch_stand_each_where_they_say():
    encoding, (q, k) = of(random_generators(2, 2, 4)), content(5, 5)
    places = torch.rand(3, 5, 2, dtype=torch.float64)
    made = encoding(q, k, places, places)
    for row in range(3):
        alone = encoding(q[row : row + 1], k[row : row + 1], places[row], places[row])
        for got, want in zip(made, alone, strict=True):
            torch.testing.assert_close(got[row : row + 1], want)


def test_turning_to_minus_the_position_turns_back():
    encoding, (q, _) = of(random_generators(2, 1, 8)), content()
    torch.testing.assert_close(encoding.turn(encoding.turn(q, GRID), -GRID), q)


@pytest.mark.parametrize("wrong", [None, torch.arange(6), torch.zeros(6, 3), torch.zeros(2, 6)], ids=str)
def test_patches_do_not_lie_on_the_diagonal_by_mistake(wrong):
    # else patch i would stand at (i, i)
    (q, k), grid, got = content(6, 6), grid_positions(2, 3), "None" if wrong is None else r"\(.*\)"
    said = rf"liere: positions or key_positions must be \(t, 2\), .*, got {got}; .*grid_positions\(height, width\)"
    for told in ({"positions": wrong}, {"positions": wrong, "key_positions": grid}):
        with pytest.raises(ValueError, match=said):
            LieRE(8)(q, k, **told)
    with pytest.raises(ValueError, match=said):
        LieRE(8).table(wrong)


# Precision


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_worked_out_in_float32_and_rounded_once(dtype):
    encoding, (q, k) = LieRE(8), (x.to(dtype) for x in content())
    for got, whole in zip(encoding(q, k, *at(5, 7)), encoding(q.float(), k.float(), *at(5, 7)), strict=True):
        assert torch.equal(got, whole.to(dtype))


def test_queries_and_keys_keep_each_its_dtype():
    q, k = content()
    made_q, made_k = LieRE(8)(q.bfloat16(), k.float(), *at(5, 7))
    assert (made_q.dtype, made_k.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("place", [1, 1000, 10**5, 10**7])
def test_even_the_generators_of_the_start_err_by_less_than_float32_rounds(place):
    torch.manual_seed(0)
    encoding = LieRE(16, axes=1)
    x, raw = torch.eye(16)[None, :, None], encoding.generators.detach().double().numpy()
    at = torch.tensor([[place]])
    made = encoding(x, x, at, at)[0][0]
    expected = oracle(x[0].double().numpy(), at.numpy(), raw)
    np.testing.assert_allclose(made.detach(), expected, atol=1.5e-7)
    size = np.linalg.norm(np.triu(raw[0, 0, 0], 1) - np.triu(raw[0, 0, 0], 1).T, 2) * place
    np.testing.assert_allclose(liere(x[0], at, raw), expected, atol=1e-15 + 1e-15 * size)


# The table


def test_the_table_is_the_rotation_itself():
    raw = random_generators(2, 1, 8)
    table = of(raw).table(GRID, torch.float64).detach()
    assert table.shape == (1, 5, 1, 8, 8)
    np.testing.assert_allclose(table[0, 4, 0], rotation(raw, [3, 2]), atol=1e-13)
    assert LieRE(8, block=2, heads=3).table(GRID).shape == (3, 5, 4, 2, 2)
    assert LieRE(8, block=2).table(GRID.expand(3, 5, 2)).dtype == torch.float32


@pytest.mark.parametrize("sets", [1, 2])
def test_a_table_of_a_batch_gives_queries_its_last_rows(sets):
    (q, k), encoding = content(5, 7), of(random_sets(sets))
    n = torch.randint(0, 99, (3, 7, 2))
    for places in (n, n[:1], n[0]):
        made = encoding(q, k, table=encoding.table(places, torch.float64))
        for got, want in zip(made, encoding(q, k, places[..., 2:, :], places), strict=True):
            torch.testing.assert_close(got, want)


def test_gradients_flow_through_a_table():
    encoding, (q, k) = of(random_generators(2, 1, 8)), content(5, 5)
    table = encoding.table(GRID, torch.float64)
    through, direct = (
        torch.autograd.grad(scores(*made).sin().sum(), encoding.generators)[0]
        for made in (encoding(q, k, table=table), encoding(q, k, GRID, GRID))
    )
    torch.testing.assert_close(through, direct)


def test_a_table_finer_than_needed_is_taken():
    (q, k), encoding = content(7, 7), LieRE(8)
    made = encoding(q.bfloat16(), k.bfloat16(), table=encoding.table(*at(7), torch.float64))
    assert made[0].dtype == torch.bfloat16


def test_the_same_positions_are_worked_out_once():
    calls, encoding, (q, k) = [], LieRE(8), content(5, 5)
    make = encoding.table
    encoding.table = lambda *given: calls.append(given) or make(*given)
    encoding(q, k, GRID)
    assert len(calls) == 1
    encoding(q, k, GRID, GRID.clone())
    assert len(calls) == 3


# Edges


def test_any_numbers_of_queries_and_keys():
    for t, s in ((0, 0), (0, 3), (1, 1), (5, 2)):
        q, k = LieRE(8)(*(x.float() for x in content(t, s)), *at(t, s))
        assert (q.shape, k.shape) == ((3, 4, t, 8), (3, 2, s, 8))
        assert liere(np.zeros((4, t, 8)), np.zeros((t, 2)), np.zeros((2, 1, 8, 8))).shape == (4, t, 8)


def test_odd_widths_turn_too():
    encoding, (q, k) = of(random_generators(2, 1, 7)), content(5, 5, dim=7)
    torch.testing.assert_close(encoding(q, k, GRID)[0].norm(dim=-1), q.norm(dim=-1))


def test_a_module_can_be_copied():
    encoding, inputs = LieRE(8, axes=3, block=4).double(), (*content(), *at(5, 7, axes=3))
    assert torch.equal(copy.deepcopy(encoding)(*inputs)[0], encoding(*inputs)[0])


def test_the_defaults_are_those_of_the_authors():
    defaults = {name: parameter.default for name, parameter in inspect.signature(LieRE).parameters.items()}
    assert defaults == {"dim": inspect.Parameter.empty, "axes": 2, "block": None, "init": 2 * math.pi, "heads": 1}


PLACES = at(5)[0].numpy()


def test_the_twin_takes_a_batch_whole_and_a_single_head():
    q, generators = content()[0].numpy(), np.random.default_rng(0).normal(size=(2, 2, 4, 4))
    turned = liere(q, PLACES, generators)
    np.testing.assert_allclose(turned, [liere(row, PLACES, generators) for row in q], rtol=0, atol=1e-14)
    np.testing.assert_allclose(turned[1, 2], liere(q[1, 2], PLACES, generators), rtol=0, atol=1e-14)


def test_the_twin_gives_each_set_its_heads_in_turn():
    q, raw = content()[0].numpy(), random_sets(2)
    turned = liere(q, PLACES, raw)
    np.testing.assert_array_equal(liere(q, PLACES, raw[:, :1]), liere(q, PLACES, raw[:, 0]))
    for head in range(4):
        np.testing.assert_allclose(turned[:, head], liere(q[:, head], PLACES, raw[:, head // 2]), atol=1e-14)


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("wrong", [lambda x: x[..., :4], lambda x: torch.cat([x, x], dim=-1), lambda x: x.long()])
def test_content_of_another_form_is_refused(wrong):
    q, k = content(5, 5)
    for call in ((wrong(q), k), (q, wrong(k))):
        with pytest.raises(ValueError, match=r"liere: dim of float q or k must be 8, got torch\.\w+ \(3, "):
            LieRE(8)(*call, GRID)


def test_sets_that_do_not_divide_the_key_heads_give_no_result():
    q, k = (x.float() for x in content(5, 5, groups=2))
    with pytest.raises(RuntimeError, match="unflatten"):
        LieRE(8, heads=4)(q, k, GRID)


@pytest.mark.parametrize("shape", [(4, 2), (1, 2), (6, 2), (1, 4, 2), (2, 5, 2)], ids=str)
def test_positions_and_tables_of_another_length_are_refused(shape):
    (q, k), encoding, wrong = content(5, 5), LieRE(8), torch.zeros(shape)
    said = r"liere: positions or table must be \(5,\) or \(3, 5\), got \("
    for told in ((wrong,), (GRID, wrong), (wrong, GRID), (None, None, encoding.table(wrong))):
        with pytest.raises(ValueError, match=said):
            encoding(q, k, *told)


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
