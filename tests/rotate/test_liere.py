"""LieRE: rotations by hand, where scores depend on the offset alone, RoPE as a special case, and what is refused."""

import functools
import itertools
import math
import re
from unittest import mock

import mpmath
import numpy as np
import pytest
import torch

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


GRID = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1], [3, 2]])


def content(groups=2, batch=3):
    """Return random q (b, 4, 5, 8) and k (b, g, 5, 8)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, 4, 5, 8, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, 5, 8, dtype=torch.float64, generator=generator)


def with_generators(generators):
    """Return the module that has these `generators` (a, c, n, w, w) or (a, n, w, w)."""
    generators = torch.as_tensor(generators, dtype=torch.float64)
    generators = generators[:, None] if generators.ndim == 4 else generators
    axes, sets, blocks, width, _ = generators.shape
    encoding = LieRE(blocks * width, axes=axes, block=width, heads=sets).double()
    encoding.generators.data = generators
    return encoding


def random_generators(axes, blocks, width):
    return np.random.default_rng(0).uniform(-1, 1, (axes, blocks, width, width))


def planes(theta):
    """Return generators (a, d/2, 2, 2) of blocks of width 2 that turn by the frequencies (a, d/2)."""
    generators = np.zeros((*np.shape(theta), 2, 2))
    generators[..., 0, 1] = -np.array(theta)
    return generators


def rotation(generators, position):
    """Return R (d, d) at a single position, column by column."""
    d = generators.shape[1] * generators.shape[2]
    return liere(np.eye(d)[:, None], np.reshape(position, (1, -1)), generators)[:, 0].T


# Rotations worked by hand


def test_one_plane_turns_by_the_angle_of_its_entry_against_the_sign():
    # A = [[0, u], [-u, 0]]: exp(p A) = [[cos, sin], [-sin, cos]] of p u
    expected = [[math.cos(6), math.sin(6)], [-math.sin(6), math.cos(6)]]
    np.testing.assert_allclose(rotation(np.array([[[[0.0, 2.0], [0, 0]]]]), 3), expected, atol=1e-14)


def test_a_quarter_turn_about_each_axis_of_space():
    generators = np.zeros((3, 1, 3, 3))
    generators[0, 0, 1, 2] = generators[1, 0, 0, 2] = generators[2, 0, 0, 1] = math.pi / 2
    np.testing.assert_allclose(rotation(generators, [1, 0, 0]), [[1, 0, 0], [0, 0, 1], [0, -1, 0]], atol=1e-15)
    np.testing.assert_allclose(rotation(generators, [0, 1, 0]), [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], atol=1e-15)
    np.testing.assert_allclose(rotation(generators, [0, 0, 2]), [[-1, 0, 0], [0, -1, 0], [0, 0, 1]], atol=1e-15)


def test_three_dimensions_follow_the_formula_of_rodrigues():
    # exp(angle K) = 1 + sin(angle) K + (1 - cos(angle)) K^2, with K = A / |(a, b, c)|; here at position 2
    a, b, c = 0.3, -0.5, 0.7
    skew = np.array([[0, a, b], [-a, 0, c], [-b, -c, 0]])
    angle = 2 * math.sqrt(a * a + b * b + c * c)
    unit = 2 * skew / angle
    expected = np.eye(3) + math.sin(angle) * unit + (1 - math.cos(angle)) * unit @ unit
    np.testing.assert_allclose(rotation(np.triu(skew, 1)[None, None], 2), expected, atol=1e-14)


def test_sets_of_generators_serve_runs_of_heads():
    # two sets for four heads of width 2: by one set the plane turns a radian a step, by the other it rests
    x = np.tile([1.0, 0.0], (3, 4, 1, 1))  # (b, h, t, d)
    generators = np.stack([planes([[1.0]]), planes([[0.0]])], axis=1)
    by_first, by_second = [math.cos(3), math.sin(3)], [1, 0]
    result = liere(x, [[3]], generators)
    np.testing.assert_allclose(result[:, :, 0], [[by_first, by_first, by_second, by_second]] * 3, rtol=1e-14)


def test_a_table_holds_rotations():
    generators = random_generators(2, 2, 4)
    table = with_generators(generators).table(GRID, torch.float64).detach()
    assert table.shape == (1, 5, 2, 4, 4)
    np.testing.assert_allclose(torch.block_diag(*table[0, 4]), rotation(generators, [3, 2]), atol=1e-13)


# What holds of every rotation


@pytest.mark.parametrize("width", [2, 3, 8])
def test_a_rotation_is_orthogonal_of_determinant_1_and_turns_back_at_minus_the_position(width):
    generators = random_generators(2, 2, width)
    r = rotation(generators, [1.5, -70])
    np.testing.assert_allclose(r @ r.T, np.eye(2 * width), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(r), 1, rtol=1e-12)
    np.testing.assert_allclose(rotation(generators, [-1.5, 70]), r.T, atol=1e-12)


def test_position_0_turns_nothing_and_teaches_nothing():
    q, k = content()
    encoding = with_generators(random_generators(2, 1, 8))
    turned_q, turned_k = encoding(q, k, torch.zeros(5, 2))
    assert torch.equal(turned_q, q)
    assert torch.equal(turned_k, k)
    (gradient,) = torch.autograd.grad(turned_q.sin().sum(), encoding.generators)
    assert torch.equal(gradient, torch.zeros_like(gradient))


def test_only_what_stands_above_the_diagonal_is_used_and_learned():
    raw = random_generators(2, 2, 4)
    q, k = content()
    np.testing.assert_array_equal(liere(q, GRID, np.triu(raw, 1)), liere(q, GRID, raw))
    encoding = with_generators(raw)
    turned_q, _ = encoding(q, k, GRID)
    (gradient,) = torch.autograd.grad(turned_q.sin().sum(), encoding.generators)
    assert gradient.tril().count_nonzero() == 0
    assert gradient.triu(1).count_nonzero() == 2 * 2 * 6


# Where scores depend on the offset alone


def change_of_scores(generators):
    """Return the largest change of a score where all tokens move alike."""
    q, k = content(groups=4)
    encoding = with_generators(generators).requires_grad_(False)
    scores = []
    for shift in (0, 5):
        turned_q, turned_k = encoding(q, k, GRID[:, : len(generators)] + shift)
        scores.append(turned_q @ turned_k.mT)
    return (scores[1] - scores[0]).abs().max().item()


FIRST = random_generators(1, 2, 4)
COMMUTING = {
    "one axis": FIRST,
    "blocks of width 2": random_generators(2, 4, 2),
    "multiples of one generator": np.concatenate([FIRST, -0.7 * FIRST]),
}


@pytest.mark.parametrize("generators", COMMUTING.values(), ids=COMMUTING)
def test_where_generators_commute_scores_depend_on_the_offset_alone(generators):
    assert change_of_scores(generators) < 1e-12


def test_where_generators_do_not_commute_scores_depend_on_where_tokens_stand():
    assert change_of_scores(random_generators(2, 2, 4)) > 1


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


ROPES = {
    "rope": [[1, 0.1, 0.01, 0.001]],
    "axial": [[1, 0.1, 0, 0], [0, 0, 1, 0.1]],
    "mixed": [[1, 0.3, -0.5, 0.2], [-0.7, 0.4, 0.1, 2]],
}


@pytest.mark.parametrize("theta", ROPES.values(), ids=ROPES)
def test_blocks_of_width_2_are_rope(theta):
    # channels 2i and 2i + 1 are a complex number, turned by the sum over axes of p_a theta_(a, i)
    x = content()[0].numpy()
    positions = GRID[:, : len(theta)].numpy()
    expected = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * positions @ np.array(theta))
    result = liere(x, positions, planes(theta))
    np.testing.assert_allclose(result[..., ::2], expected.real, atol=1e-13)
    np.testing.assert_allclose(result[..., 1::2], expected.imag, atol=1e-13)


# The start, and the authors' checkpoints


def test_generators_of_each_axis_set_and_block_start_uniform_from_0_to_2_pi():
    torch.manual_seed(0)
    generators = LieRE(64).generators.detach()
    assert generators.shape == (2, 1, 1, 64, 64)
    assert 0 <= generators.min() < 0.01
    assert 2 * math.pi - 0.01 < generators.max() <= 2 * math.pi
    assert abs(generators.mean() - math.pi) < 5 * 2 * math.pi / math.sqrt(12 * generators.numel())
    other = LieRE(12, axes=3, block=4, init=0.5, heads=5).generators
    assert other.shape == (3, 5, 3, 4, 4)
    assert other.max() <= 0.5


def test_the_generators_of_a_checkpoint_of_the_authors_serve_one_head_each():
    # generator_raw_params (a, layers, h n, w, w) is viewed as (h, n) when applied, and every entry counts less a half,
    # which cancels in U - U^T
    q, _ = content()
    positions = GRID.double() / 3
    checkpoint = torch.tensor(np.random.default_rng(3).uniform(0, 1, (2, 5, 4 * 2, 4, 4)))
    of_layer = checkpoint[:, 3]
    upper = of_layer.triu(1) - 0.5
    algebra = torch.einsum("ta,aNij->tNij", positions, upper - upper.mT)
    rotations = torch.matrix_exp(algebra).view(1, 5, 4, 2, 4, 4).transpose(1, 2)
    expected = (rotations @ q.reshape(3, 4, 5, 2, 4, 1)).flatten(-3)
    turned_q, _ = with_generators(of_layer.unflatten(1, (4, -1)))(q, q, positions)
    torch.testing.assert_close(turned_q, expected)


# Precision and cost


@pytest.mark.parametrize("p", [1, 1000, 10**5, 10**7])
def test_even_the_generators_of_the_start_err_by_less_than_float32_rounds(p):
    torch.manual_seed(0)
    encoding = LieRE(16, axes=1)
    x = torch.eye(16)[None, :, None]
    positions = torch.tensor([[p]])
    raw = encoding.generators.detach().double().numpy()
    expected = oracle(x[0].double().numpy(), positions, raw)
    turned_x, _ = encoding(x, x, positions)
    np.testing.assert_allclose(turned_x[0].detach(), expected, atol=1.5e-7)
    angle = p * np.linalg.norm(np.triu(raw[0, 0, 0], 1) - np.triu(raw[0, 0, 0], 1).T, 2)
    np.testing.assert_allclose(liere(x[0], positions, raw), expected, atol=1e-15 + 1e-15 * angle)


def test_content_keeps_its_dtype_whatever_that_of_the_table():
    q, _ = content()
    encoding = LieRE(8)
    assert encoding.table(GRID, torch.float16).dtype == torch.float32
    for dtype in (torch.float32, torch.float64):
        for x in (q, q.bfloat16()):
            assert encoding.turn(x, encoding.table(GRID, dtype)).dtype == x.dtype


def test_queries_and_keys_at_the_same_positions_share_their_exponentials():
    encoding = LieRE(8)
    with mock.patch.object(encoding, "table", wraps=encoding.table) as table:
        encoding(*content(), GRID)
    assert table.call_count == 1


# What the NumPy function takes, and what is refused


def test_the_numpy_function_takes_a_batch_whole_a_single_head_and_no_tokens():
    q = content()[0].numpy()
    generators = random_generators(2, 2, 4)
    result = liere(q, GRID, generators)
    np.testing.assert_allclose(result[1], liere(q[1], GRID, generators), rtol=0, atol=1e-14)
    np.testing.assert_allclose(result[1, 2], liere(q[1, 2], GRID, generators), rtol=0, atol=1e-14)
    assert liere(q[:, :, :0], GRID[:0], generators).shape == (3, 4, 0, 8)


@pytest.mark.parametrize("shape", [(5, 3), (1, 2), (1, 5, 2)], ids=str)
def test_the_numpy_function_takes_a_row_of_coordinates_a_token(shape):
    message = f"liere: positions must have shape (5, 2), got {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        liere(np.zeros((4, 5, 8)), np.zeros(shape), np.zeros((2, 1, 8, 8)))


FORM = "q or k must have shape (b, h, t, 8) and a float dtype, got"
ROWS = "positions or key_positions must have shape (t, 2) or (b, t, 2), got"
LENGTHS = "positions or table must have shape (5,) or (1, 5), got"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.ones(1, 4, 5, 4)}, f"{FORM} torch.float32 (1, 4, 5, 4)"),
        ({"k": torch.ones(1, 2, 5, 8).long()}, f"{FORM} torch.int64 (1, 2, 5, 8)"),
        ({"positions": torch.zeros(2)}, f"{ROWS} (2,)"),  # would be a single token at (0, 0)
        ({"positions": torch.zeros(5, 3)}, f"{ROWS} (5, 3); of patches, grid_positions(height, width)"),
        ({"key_positions": torch.zeros(1, 5)}, f"{ROWS} (1, 5)"),
        ({"positions": GRID[:1]}, f"{LENGTHS} (1,)"),
        ({"positions": GRID.expand(2, 5, 2)}, f"{LENGTHS} (2, 5)"),  # would make one sequence two
    ],
    ids=["width", "integers", "a line", "three coordinates", "no coordinates", "one position", "two sequences"],
)
def test_what_does_not_fit_is_refused(change, message):
    q, k = content(batch=1)
    with pytest.raises(ValueError, match=re.escape(f"liere: {message}")):
        LieRE(8)(**{"q": q, "k": k, "positions": GRID} | change)


@pytest.mark.parametrize(("dim", "block"), [(1, 1), (8, 0), (8, 1), (8, 3), (8, 16)])
def test_a_width_that_blocks_do_not_share_is_refused(dim, block):
    with pytest.raises(ValueError, match=f"liere: dim must be a multiple of block, got {dim} and {block}"):
        LieRE(dim, block=block)


def test_sets_that_do_not_divide_the_heads_give_no_result():
    q, k = content()
    with pytest.raises(RuntimeError, match="unflatten"):
        LieRE(8, heads=4)(q, k, GRID)
    with pytest.raises(ValueError, match="reshape"):
        liere(q, GRID, np.zeros((2, 3, 1, 8, 8)))
