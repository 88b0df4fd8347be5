"""Axial RoPE: coordinates and frequencies by hand, eight conventions against the models' code, and what is refused."""

import itertools
import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.positions import grid_positions
from posenc.rotate.axial import CONVENTIONS, PLANAR, Axial, axial, axial_coordinates, axial_theta
from posenc.rotate.rope import RoPE
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/doors.py). The coordinates of "eva-pixel" lie between -1 and 1, where
# its pairs turn 112 times as fast as others: it is tried there, below.

HALF = (
    "per-axis",
    "dinov3",
    "pixtral",
    "qwen-vl",
)  # i turns with i + d/2; elsewhere but in "gemma4" with its neighbor

DIRECTIONS = ((1.0, 0.25, 0.5, -1.0), (0.0, 0.5, -0.125, 1.0))  # directions of pairs, some of both axes

OPTIONS = [
    {"heads": None},
    {"heads": None, "axes": 3, "dim": 12},
    {"heads": None, "convention": "eva"},
    {"heads": None, "convention": "dinov3"},
    {"heads": None, "convention": "pixtral"},
    {"heads": None, "convention": "sam2"},
    {"heads": None, "convention": "qwen-vl"},
    {"heads": None, "convention": "gemma4"},
    {"heads": None, "convention": "gemma4", "axes": 3, "dim": 12},
    {"heads": None, "convention": "rope-vit", "axes": 3, "dim": 12},
    {"heads": None, "convention": "rope-vit"},
    {"heads": None, "theta": DIRECTIONS, "dim": 8},
    {"heads": None, "theta": (DIRECTIONS, DIRECTIONS[::-1]), "dim": 8, "convention": "sam2"},
    {"heads": None, "theta": (*DIRECTIONS, DIRECTIONS[0]), "dim": 8, "convention": "eva", "axes": 3},
    {"heads": 2, "convention": "rope-vit-mixed"},
    {"heads": 1, "convention": "rope-vit-mixed"},
]


def LEARNED(options):
    return {"theta"} if options.get("convention") == "rope-vit-mixed" else set()


TEXT = False


def AXES(options):
    return options.get("axes", 2)


def oracle(x, positions, convention="per-axis", axes=2, theta=None):
    """Work out the definition with 60 digits, one element at a time."""
    heads, d = x.shape[-3], x.shape[-1]
    turned = np.zeros(x.shape)
    with mpmath.workdps(60):
        directions = slow_theta(d, convention, axes) if theta is None else np.array(theta).tolist()
        groups = directions if isinstance(directions[0][0], list) else [directions]
        for head, row, i in itertools.product(range(heads), range(len(positions)), range(d // 2)):
            own = groups[head // (heads // len(groups))]
            angle = sum(mpmath.mpf(p) * own[axis][i] for axis, p in enumerate(positions[row].tolist()))
            a, b = channels(i, d, convention, axes)
            first, second = x[head, row, [a, b]].tolist()
            cos, sin = mpmath.cos(angle), mpmath.sin(angle)
            turned[head, row, [a, b]] = first * cos - second * sin, first * sin + second * cos
    return turned


def channels(i, d, convention, axes):
    """Return the two channels of pair i."""
    if convention == "gemma4":  # halves of the channels of an axis
        axis, pair = divmod(i, d // (2 * axes))
        return d // axes * axis + pair, d // axes * axis + pair + d // (2 * axes)
    return (i, i + d // 2) if convention in HALF else (2 * i, 2 * i + 1)


def slow_theta(d, convention, axes):
    """Return the frequencies as the code of each model spells them, in mpmath."""
    base = mpmath.mpf({"dinov3": 100, "gemma4": 100, "rope-vit": 100, "rope-vit-mixed": 10}.get(convention, 10_000))
    zero, count = mpmath.mpf(0), d // 2
    if convention == "pixtral":
        every = [base ** (-mpmath.mpf(2 * k) / d) for k in range(count)]
        return [every[0::2] + [zero] * (count // 2), [zero] * (count // 2) + every[1::2]]
    own = [base ** (-mpmath.mpf(2 * k) / (d // axes)) for k in range(count // axes)]
    rows = [
        [zero] * (count // axes * axis) + own + [zero] * (count // axes * (axes - 1 - axis)) for axis in range(axes)
    ]
    return rows[::-1] if convention in ("sam2", "gemma4", "rope-vit", "rope-vit-mixed") else rows


def exercise(module):
    module.axial_coordinates((4, 6), "qwen-vl")
    module.axial_coordinates((3, 2), reference=(6, 6))
    module.axial_theta(8, "eva-pixel")


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
whole = st.integers(-1000, 1000)
each_convention = pytest.mark.parametrize("convention", CONVENTIONS)


def built(convention, dim=16, heads=None):
    heads = (heads or 1) if convention == "rope-vit-mixed" else None
    return Axial(dim, convention, heads=heads)


def content(t, s=None, d=16, h=2, g=1, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    made = (torch.randn(1, h, t, d, generator=generator), torch.randn(1, g, s or t, d, generator=generator))
    return tuple(x.to(dtype) for x in made)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def tokens(*arguments, **options):
    return torch.from_numpy(axial_coordinates(*arguments, **options))


def rotated_half(x, cos, sin):
    """Rotate pairs (i, i + d/2) with tables tiled twice, as transformers does."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def rotated_pairwise(x, cos, sin):
    """Rotate pairs (2i, 2i+1) with tables that hold each value twice in a row."""
    return x * cos + torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2) * sin


# Values worked by hand


def test_a_patch_by_hand():
    # width 8, base 10,000: 2 pairs an axis, theta 1 and 1/100; the patch at row 2, column 3
    x = np.arange(1.0, 9.0)[None]
    angle = [2, 0.02, 3, 0.03]
    expected = [x[0, i] * math.cos(a) - x[0, i + 4] * math.sin(a) for i, a in enumerate(angle)]
    expected += [x[0, i] * math.sin(a) + x[0, i + 4] * math.cos(a) for i, a in enumerate(angle)]
    np.testing.assert_allclose(axial(x, [[2, 3]]), [expected], rtol=1e-14)


def test_a_patch_of_sam2_by_hand():
    # column before row, and neighbors turn together
    x, angle = np.arange(1.0, 9.0)[None], [3, 0.03, 2, 0.02]
    expected = []
    for i, a in enumerate(angle):
        first, second = x[0, 2 * i : 2 * i + 2]
        expected += [first * math.cos(a) - second * math.sin(a), first * math.sin(a) + second * math.cos(a)]
    np.testing.assert_allclose(axial(x, [[2, 3]], "sam2"), [expected], rtol=1e-14)


@each_convention
def test_which_channels_turn_together(convention):
    pair = [0, 4] if convention in HALF else [0, 2] if convention == "gemma4" else [0, 1]
    assert np.flatnonzero(axial(np.eye(8)[:1], [[2, 3]], convention)).tolist() == pair
    first, at = torch.eye(8)[None, None, :1], torch.tensor([[2, 3]])
    for turned in built(convention, 8)(first, first, at, at):
        assert turned.flatten().nonzero().flatten().tolist() == pair


FREQUENCIES = {
    "per-axis": [[1, 0.01, 0, 0], [0, 0, 1, 0.01]],
    "qwen-vl": [[1, 0.01, 0, 0], [0, 0, 1, 0.01]],
    "eva": [[1, 0.01, 0, 0], [0, 0, 1, 0.01]],
    "eva-pixel": [[math.pi, 112 * math.pi, 0, 0], [0, 0, math.pi, 112 * math.pi]],
    "dinov3": [[1, 0.1, 0, 0], [0, 0, 1, 0.1]],
    "pixtral": [[1, 0.01, 0, 0], [0, 0, 0.1, 0.001]],
    "sam2": [[0, 0, 1, 0.01], [1, 0.01, 0, 0]],
    "gemma4": [[0, 0, 1, 0.1], [1, 0.1, 0, 0]],
    "rope-vit": [[0, 0, 1, 0.1], [1, 0.1, 0, 0]],
    "rope-vit-mixed": [[0, 0, 1, 10**-0.5], [1, 10**-0.5, 0, 0]],
}


@each_convention
def test_the_frequencies_of_width_8_by_hand(convention):
    np.testing.assert_allclose(axial_theta(8, convention), FREQUENCIES[convention], rtol=1e-14)


def test_the_frequencies_of_three_axes_and_of_another_base():
    expected = np.zeros((3, 6))
    expected[0, :2] = expected[1, 2:4] = expected[2, 4:] = 1, 0.1
    np.testing.assert_allclose(axial_theta(12, axes=3, base=100), expected, rtol=1e-14)


def test_one_axis_is_rope():
    theta = axial_theta(8, axes=1)
    np.testing.assert_allclose(theta, [[1, 0.1, 0.01, 0.001]], rtol=1e-14)
    (q, k), places = content(5, d=8), torch.tensor([7, 0, 3, 70, 1])
    for made, by_rope in zip(
        Axial(8, axes=1)(q, k, *[places[:, None]] * 2), RoPE(8)(q, k, places, places), strict=True
    ):
        torch.testing.assert_close(made, by_rope, rtol=0, atol=1e-14)
    torch.testing.assert_close(Axial(8, axes=1)(q, k, places, places), Axial(8, axes=1)(q, k, *[places[:, None]] * 2))
    for made, x in zip(Axial(8, axes=1)(q, k, *[places[:, None]] * 2), (q, k), strict=True):
        np.testing.assert_allclose(made[0], axial(x[0], places[:, None], axes=1), atol=1e-13)


COORDINATES = {  # of a grid of 2 x 4
    "per-axis": ([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 2, 3]),
    "qwen-vl": ([0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 0, 1, 2, 3, 2, 3]),
    "eva-pixel": ([-1, -1, -1, -1, 1, 1, 1, 1], [-1, -1 / 3, 1 / 3, 1, -1, -1 / 3, 1 / 3, 1]),
    "dinov3": (
        [-math.pi] * 4 + [math.pi] * 4,
        [-1.5 * math.pi, -0.5 * math.pi, 0.5 * math.pi, 1.5 * math.pi] * 2,
    ),
}


@each_convention
def test_the_coordinates_of_a_grid_by_hand(convention):
    expected = np.array(COORDINATES.get(convention, COORDINATES["per-axis"])).T
    np.testing.assert_allclose(axial_coordinates((2, 4), convention), expected, rtol=1e-14)


def test_a_grid_is_read_row_by_row_over_any_number_of_axes():
    np.testing.assert_array_equal(axial_coordinates((2, 1, 3)), list(itertools.product(range(2), range(1), range(3))))
    np.testing.assert_array_equal(axial_coordinates((3,)), [[0], [1], [2]])


def test_blocks_of_qwen_are_read_one_after_the_other():
    made = axial_coordinates((6, 3), "qwen-vl", merge=3).reshape(2, 3, 3, 2)
    np.testing.assert_array_equal(made[1] - (3, 0), axial_coordinates((3, 3)).reshape(3, 3, 2))
    np.testing.assert_array_equal(axial_coordinates((5, 7), "qwen-vl", merge=1), axial_coordinates((5, 7)))


def test_the_reference_of_eva_stretches_a_grid_to_the_size_of_training():
    # 32 x 48 patches on the 16 x 16 of training: half a step down, a third of a step to the right
    made = axial_coordinates((32, 48), "eva", reference=(16, 16)).reshape(32, 48, 2)
    np.testing.assert_allclose(made[1, 0], [0.5, 0], rtol=1e-14)
    np.testing.assert_allclose(made[0, 1], [0, 1 / 3], rtol=1e-14)
    np.testing.assert_allclose(made[-1, -1], [15.5, 47 / 3], rtol=1e-14)


def test_one_patch_alone_stands_in_the_middle_for_dinov3():
    np.testing.assert_allclose(axial_coordinates((1, 1), "dinov3"), [[0, 0]], atol=1e-15)
    np.testing.assert_array_equal(axial_coordinates((1, 1), "eva-pixel"), [[-1, -1]])


# Vectors of the models' code


def tables(convention, dim, positions, twice=True):
    """Return the cosines and sines (t, d) in a convention's own places, each value for both channels of its pair."""
    table = built(convention, dim).table(torch.from_numpy(positions), torch.float64)
    if CONVENTIONS[convention][2] == "half":
        return tuple(part.repeat(1, 2 if twice else 1) for part in table.chunk(2, dim=-1))
    return tuple(table[:, i::2].repeat_interleave(2 if twice else 1, dim=-1) for i in (0, 1))


@vectors("axial_rope_dinov3")
def test_vectors_of_dinov3(vector):
    cos, sin = tables("dinov3", vector["params"]["head_dim"], axial_coordinates(vector["params"]["grid"], "dinov3"))
    assert_agrees(vector, cos, vector["expected"]["cos"])
    assert_agrees(vector, sin, vector["expected"]["sin"])


@vectors("axial_rope_timm")
def test_vectors_of_timm(vector):
    settings, convention = vector["params"], "eva-pixel" if vector["params"]["in_pixels"] else "eva"
    theta = axial_theta(settings["dim"], convention, base=settings["max_res"] / 2 if "max_res" in settings else None)
    encoding = Axial(settings["dim"], convention, theta=theta)
    table = encoding.table(tokens(settings["feat_shape"], convention), torch.float64)
    assert_agrees(vector, table[:, 0::2].repeat_interleave(2, dim=-1), vector["expected"]["cos"])
    assert_agrees(vector, table[:, 1::2].repeat_interleave(2, dim=-1), vector["expected"]["sin"])


@vectors("axial_rope_ropevit")
def test_vectors_of_rope_vit(vector):
    size = vector["params"]["end_y"], vector["params"]["end_x"]
    assert vector["params"]["theta"] == CONVENTIONS["rope-vit"][0]
    cos, sin = tables("rope-vit", vector["params"]["head_dim"], axial_coordinates(size, "rope-vit"), twice=False)
    assert_agrees(vector, cos, vector["expected"]["angle_cos"])
    assert_agrees(vector, sin, vector["expected"]["angle_sin"])


@vectors("mixed_rope_ropevit")
def test_vectors_of_rope_vit_mixed(vector):
    # their parameter (2, depth, heads d/2) holds x, then y, of all layers and heads
    x, y = np.array(vector["inputs"]["freqs_xy_depth_headdimhalf"])
    heads, made = vector["params"]["heads"], []
    for layer in range(vector["params"]["depth"]):
        theta = np.stack([y[layer].reshape(heads, -1), x[layer].reshape(heads, -1)], axis=1)  # heads, axes, pairs
        encoding = Axial(2 * theta.shape[-1], "rope-vit-mixed", heads=heads).double()
        encoding.load_state_dict({"theta": torch.from_numpy(theta)})
        size = vector["params"]["end_y"], vector["params"]["end_x"]
        made.append(encoding.table(tokens(size, "rope-vit-mixed"), torch.float64).detach())
    assert_agrees(vector, torch.stack(made)[..., 0::2], vector["expected"]["cos"])
    assert_agrees(vector, torch.stack(made)[..., 1::2], vector["expected"]["sin"])


# What it does to attention: for every convention


@each_convention
def test_lengths_stay(convention):
    q, k = content(6)
    grid = tokens((2, 3) if convention != "qwen-vl" else (2, 2), convention)
    q, k = q[:, :, : len(grid)], k[:, :, : len(grid)]
    for turned, x in zip(built(convention)(q, k, grid, grid), (q, k), strict=True):
        torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=0)
        assert not torch.allclose(turned, x)


@each_convention
@given(p=st.tuples(whole, whole), r=st.tuples(whole, whole), shift=st.tuples(whole, whole))
@exactly
def test_scores_depend_on_differences_of_coordinates_only(convention, p, r, shift):
    q, k = content(1)
    encoding = built(convention)
    p, r, shift = (torch.tensor([place], dtype=torch.float64) for place in (p, r, shift))
    here, there = (scores(*encoding(q, k, a, b)) for a, b in ((p, r), (p + shift, r + shift)))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-8)
    assert not torch.allclose(here, scores(q, k)) or torch.equal(p, r)


@each_convention
def test_class_tokens_at_0_stay_as_they_are(convention):
    q, k = content(1)
    for turned, x in zip(built(convention)(q, k, torch.zeros(1, 2), torch.zeros(1, 2)), (q, k), strict=True):
        assert torch.equal(turned, x)


@each_convention
def test_torch_equals_numpy_on_the_grid_of_the_convention(convention):
    q, k = content(8, h=4, g=2)
    grid, encoding = axial_coordinates((2, 4), convention), built(convention, heads=2).double()
    theta = encoding.theta.detach().numpy() if convention == "rope-vit-mixed" else None
    for turned, x in zip(encoding(q, k, *[torch.from_numpy(grid)] * 2), (q, k), strict=True):
        np.testing.assert_allclose(turned[0].detach(), axial(x[0], grid, convention, theta=theta), atol=1e-13)


def test_eva_pixel_equals_the_oracle_between_minus_1_and_1():
    x, grid = content(12, h=1, d=8)[0][0].numpy(), axial_coordinates((3, 4), "eva-pixel")
    with mpmath.workdps(30):
        theta = [[mpmath.pi * mpmath.mpf(112) ** k for k in (0, 1)] + [0, 0], [0, 0, mpmath.pi, 112 * mpmath.pi]]
        expected = np.zeros_like(x)
        for row, place in enumerate(grid.tolist()):
            for i in range(4):
                angle = place[0] * theta[0][i] + place[1] * theta[1][i]
                a, b = x[0, row, 2 * i : 2 * i + 2].tolist()
                cos, sin = mpmath.cos(angle), mpmath.sin(angle)
                expected[0, row, 2 * i : 2 * i + 2] = float(a * cos - b * sin), float(a * sin + b * cos)
    np.testing.assert_allclose(axial(x, grid, "eva-pixel"), expected, atol=1e-12)


LINE = torch.arange(6)
MISPLACED = [("positions", None), ("positions", LINE), ("key_positions", LINE)]


@pytest.mark.parametrize(("which", "text"), MISPLACED, ids=str)
def test_patches_do_not_lie_on_the_diagonal_by_mistake(which, text):
    remedy = r"; a row for each token, as of grid_positions\(height, width\) or axial_coordinates\(\(height, width\)\)"
    (q, k), grid, got = content(6), grid_positions(2, 3), "None" if text is None else r"torch.int64 \(6,\)"
    form = r"a tensor of numbers \(t, 2\), \(1, t, 2\) or \(b, t, 2\)"
    with pytest.raises(ValueError, match=f"axial: {which} must be {form}, got {got}{remedy}"):
        Axial(16)(q, k, **{"positions": grid, "key_positions": grid} | {which: text})
    with pytest.raises(
        ValueError, match=rf"axial: positions must be \(t, 2\) for x of \(1, 6, 8\), got \(6,\){remedy}"
    ):
        axial(np.zeros((1, 6, 8)), np.arange(6))
    np.testing.assert_array_equal(grid, axial_coordinates((2, 3)))


@pytest.mark.parametrize("heads", [None, 2])
def test_one_row_of_coordinates_or_of_a_table_serves_a_batch(heads):
    q, k = torch.randn(3, 4, 6, 16), torch.randn(3, 2, 6, 16)
    encoding, grid = Axial(16, "rope-vit-mixed" if heads else "per-axis", heads=heads), grid_positions(2, 3)
    expected = encoding(q, k, grid, grid)
    one, whole = encoding.table(grid[None]), encoding.table(grid.expand(3, 6, 2))
    for made in (
        encoding(q, k, grid[None], grid[None]),
        encoding(q, k, grid[None], grid.expand(3, 6, 2)),
        encoding(q, k, table=one),
        encoding(q, k, table=(one, whole)),
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
    grid, x = axial_coordinates((3, 4, 5)), np.random.default_rng(0).normal(size=(2, 60, 128))
    for shares, base in (((44, 42, 42), 10_000.0), ((16, 56, 56), 256.0)):
        theta, ends = np.zeros((3, 64)), np.cumsum(shares) // 2
        turned, whole = [], (x[..., 0::2] + 1j * x[..., 1::2])
        for axis, (share, end) in enumerate(zip(shares, ends, strict=True)):
            own = base ** (-np.arange(0, share, 2) / share)
            theta[axis, end - share // 2 : end] = own
            turned.append(whole[..., end - share // 2 : end] * np.exp(1j * np.outer(grid[:, axis], own)))
        turned = np.concatenate(turned, axis=-1)
        expected = np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)
        np.testing.assert_allclose(axial(x, grid, "eva", axes=3, theta=theta), expected, atol=1e-13)
        places, both = torch.from_numpy(grid), [torch.from_numpy(x)[None]] * 2
        for made in Axial(128, "eva", axes=3, theta=theta)(*both, places, places):
            np.testing.assert_allclose(made[0], expected, atol=1e-13)


@pytest.mark.parametrize("convention", ["per-axis", "eva"])
def test_frequencies_of_ones_turn_every_pair_by_the_sum_of_coordinates(convention):
    turned = axial(np.ones((1, 10)), [[1, 2, 4]], convention, axes=3, theta=np.ones((3, 5)))[0]
    first = [0, 1, 2, 3, 4] if convention == "per-axis" else [0, 2, 4, 6, 8]
    np.testing.assert_allclose(turned[first], np.full(5, math.cos(7) - math.sin(7)), rtol=1e-13)


def test_three_axes_of_conventions_for_images():
    expected = np.zeros((3, 6))
    expected[0, :2] = expected[1, 2:4] = expected[2, 4:] = 1, 0.01
    np.testing.assert_allclose(axial_theta(12, "eva", axes=3), expected, rtol=1e-14)
    np.testing.assert_allclose(axial_theta(12, "sam2", axes=3), expected[::-1], rtol=1e-14)
    q, k = content(24, d=96)
    grid = tokens((2, 3, 4), "eva", reference=(2, 6, 2))
    assert grid.max(dim=0).values.tolist() == [1, 4, 1.5]
    for turned, x in zip(Axial(96, "eva", axes=3)(q, k, grid, grid), (q, k), strict=True):
        np.testing.assert_allclose(turned[0], axial(x[0], grid, "eva", axes=3), atol=1e-13)
        assert torch.equal(turned[0, 0, :, 0:32:2] == x[0, 0, :, 0:32:2], (grid[:, :1] == 0).expand(-1, 16))


@each_convention
def test_decoding_patch_by_patch_equals_prefill(convention):
    encoding, (q, k) = built(convention, heads=2), content(8, h=4, g=2)
    grid = tokens((2, 4), convention)
    whole, cache = scores(*encoding(q, k, grid, grid)), k[:, :, :0]
    for p in range(8):
        query, key = encoding(q[:, :, p : p + 1], k[:, :, p : p + 1], grid[p : p + 1], grid[p : p + 1])
        cache = torch.cat([cache, key], dim=2)
        torch.testing.assert_close(scores(query, cache), whole[:, :, p : p + 1, : p + 1], rtol=1e-12, atol=1e-12)


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
    theta = Axial(16, "rope-vit-mixed", heads=64).theta.detach().double().numpy()
    y, x = theta[:, 0], theta[:, 1]
    radius = 10.0 ** (-np.arange(4) / 4)
    np.testing.assert_allclose(np.hypot(x, y), np.tile(radius, (64, 2)), rtol=1e-6)
    turn = np.arctan2(y, x)
    np.testing.assert_allclose(np.cos(turn[:, :4]), np.cos(turn[:, :1]).repeat(4, 1), atol=1e-6)
    quarter = np.angle(np.exp(1j * (turn[:, 4:] - turn[:, :4])))
    np.testing.assert_allclose(quarter, math.pi / 2, atol=1e-6)
    spread = np.exp(1j * turn[:, 0])  # all around the circle
    assert abs(spread.mean()) < 0.4
    assert {(np.real(z) > 0, np.imag(z) > 0) for z in spread} == set(itertools.product([False, True], repeat=2))


def test_mixed_frequencies_can_start_from_given_ones():
    theta = axial_theta(8, "rope-vit-mixed", base=100)
    made = Axial(8, "rope-vit-mixed", theta=theta, heads=3).theta.detach().double()
    np.testing.assert_allclose(made.norm(dim=1), np.tile([1, 0.1], (3, 2)), rtol=1e-6)


def test_heads_learn_apart_and_share_with_the_query_heads_of_their_key():
    torch.manual_seed(0)
    encoding, (q, k) = Axial(16, "rope-vit-mixed", heads=2).double(), content(4, h=4, g=2)
    grid = tokens((2, 2))
    turned, keys = encoding(q, k, grid, grid)
    for head in range(4):
        own = axial(q[0, head], grid, "rope-vit-mixed", theta=encoding.theta[head // 2].detach())
        np.testing.assert_allclose(turned[0, head].detach(), own, atol=1e-12)
    assert keys.shape == k.shape
    turned[:, 2:, :, 0].sum().backward()
    assert encoding.theta.grad is not None
    assert encoding.theta.grad[1].count_nonzero() == 2  # of one pair, both directions
    assert not encoding.theta.grad[0].any()


def test_one_head_of_frequencies_serves_all():
    encoding, (q, k) = Axial(16, "rope-vit-mixed", heads=1), content(3, h=4, g=2)
    assert [x.shape for x in encoding(q, k, *[tokens((1, 3))] * 2)] == [q.shape, k.shape]


def test_heads_that_share_a_key_cannot_turn_apart():
    said = r"axial: q and k must be one batch, h a multiple of g, g of 4, got .*\[1, 4, 3, 16\].*\[1, 2, 3, 16\]"
    with pytest.raises(ValueError, match=said):
        Axial(16, "rope-vit-mixed", heads=4)(*content(3, h=4, g=2))


def test_fixed_frequencies_can_differ_by_head():
    theta, (q, k) = np.random.default_rng(0).normal(size=(2, 2, 8)), content(6, h=4, g=2)
    encoding, grid = Axial(16, theta=theta), tokens((2, 3))
    assert not list(encoding.parameters())
    for turned, x in zip(encoding(q, k, grid, grid), (q, k), strict=True):
        np.testing.assert_allclose(turned[0], axial(x[0], grid, theta=theta), atol=1e-13)


# Peers


def grids(height, width):
    return torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"), dim=-1).flatten(0, 1)


def test_equals_dinov3_of_transformers():
    module, config = (
        peer(f"transformers.models.dinov3_vit.{name}_dinov3_vit") for name in ("modeling", "configuration")
    )
    settings = config.DINOv3ViTConfig(hidden_size=64, num_attention_heads=2, patch_size=16, image_size=64)
    cos, sin = module.DINOv3ViTRopePositionEmbedding(settings).eval()(torch.zeros(1, 3, 48, 80))
    q, k = content(15, d=32, dtype=torch.float32)
    grid = tokens((3, 5), "dinov3")
    for turned, x in zip(Axial(32, "dinov3")(q, k, grid, grid), (q, k), strict=True):
        torch.testing.assert_close(turned, rotated_half(x, cos, sin), rtol=0, atol=1e-5)


def test_equals_pixtral_of_transformers():
    module, config = (peer(f"transformers.models.pixtral.{name}_pixtral") for name in ("modeling", "configuration"))
    settings = config.PixtralVisionConfig(hidden_size=64, num_attention_heads=2)
    q, k = content(15, d=32, dtype=torch.float32)
    cos, sin = module.PixtralVisionRotaryEmbedding(settings)(q, grids(3, 5))
    theirs = module.apply_rotary_pos_emb(q, k, cos.squeeze(), sin.squeeze(), unsqueeze_dim=0)
    grid = tokens((3, 5), "pixtral")
    torch.testing.assert_close(Axial(32, "pixtral")(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


def test_equals_sam2_of_transformers():
    module, config = (
        peer(f"transformers.models.sam2_video.{name}_sam2_video") for name in ("modeling", "configuration")
    )
    settings = config.Sam2VideoConfig(
        memory_attention_hidden_size=32, memory_attention_num_attention_heads=1, memory_attention_downsample_rate=1
    )
    q, k = content(15, d=32, dtype=torch.float32)
    cos, sin = module.Sam2VideoVisionRotaryEmbedding(settings)(q, grids(3, 5).flip(-1))  # it is given x before y
    theirs = module.apply_rotary_pos_emb_2d(q, k, cos, sin)
    grid = tokens((3, 5), "sam2")
    torch.testing.assert_close(Axial(32, "sam2")(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


def test_sam2_of_transformers_gives_x_before_y():
    module, config = (
        peer(f"transformers.models.sam2_video.{name}_sam2_video") for name in ("modeling", "configuration")
    )
    settings = config.Sam2VideoConfig(memory_attention_rope_feat_sizes=[3, 3])
    places = module.Sam2VideoMemoryAttention.precompute_positions(settings)
    assert torch.equal(places, grids(3, 3).flip(-1).to(places))


def test_equals_the_vision_tower_of_gemma4():
    module, config = (peer(f"transformers.models.gemma4.{name}_gemma4") for name in ("modeling", "configuration"))
    settings = config.Gemma4VisionConfig(hidden_size=64, num_attention_heads=2, head_dim=32)
    assert settings.rope_parameters["rope_theta"] == CONVENTIONS["gemma4"][0]
    q, k = content(15, d=32, dtype=torch.float32)
    places = grids(3, 5).flip(-1)[None]  # it is given x before y
    cos, sin = module.Gemma4VisionRotaryEmbedding(settings)(q, places)
    theirs = [module.apply_multidimensional_rope(x, cos, sin, places, unsqueeze_dim=1) for x in (q, k)]
    grid = tokens((3, 5), "gemma4")
    torch.testing.assert_close(list(Axial(32, "gemma4")(q, k, grid, grid)), theirs, rtol=0, atol=1e-5)


def test_equals_the_vision_tower_of_qwen2_vl():
    module, config = (peer(f"transformers.models.qwen2_vl.{name}_qwen2_vl") for name in ("modeling", "configuration"))
    settings = config.Qwen2VLVisionConfig(embed_dim=64, num_heads=2)
    places = peer("transformers.vision_utils").get_vision_position_ids(torch.tensor([[1, 4, 6]]), 2)
    grid = tokens((4, 6), "qwen-vl")
    assert torch.equal(grid.long(), places)
    q, k = content(24, d=32, h=2, g=2, dtype=torch.float32)
    cos, sin = module.Qwen2VLVisionRotaryEmbedding(settings)(q, places)
    theirs = [x[0].transpose(0, 1) for x in (q, k)]  # t, h, d
    theirs = [x.transpose(0, 1)[None] for x in module.apply_rotary_pos_emb_vision(*theirs, cos, sin)]
    torch.testing.assert_close(list(Axial(32, "qwen-vl")(q, k, grid, grid)), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("reference", [None, (16, 16)], ids=str)
def test_equals_eva_of_timm(reference):
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.build_rotary_pos_embed([3, 5], dim=32, in_pixels=False, ref_feat_shape=reference)
    q, k = content(15, d=32, dtype=torch.float32)
    grid = tokens((3, 5), "eva", reference=reference)
    theirs = tuple(timm.apply_rot_embed(x, sin, cos) for x in (q, k))
    torch.testing.assert_close(Axial(32, "eva")(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("resolution", [224, 64])
def test_equals_timm_in_pixels(resolution):
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.build_rotary_pos_embed([3, 5], dim=32, max_res=resolution)
    q, k = content(15, d=32, dtype=torch.float32)
    grid, theta = tokens((3, 5), "eva-pixel"), axial_theta(32, "eva-pixel", base=resolution / 2)
    theirs = tuple(timm.apply_rot_embed(x, sin, cos) for x in (q, k))
    torch.testing.assert_close(Axial(32, "eva-pixel", theta=theta)(q, k, grid, grid), theirs, rtol=0, atol=2e-4)


def test_equals_dinov3_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    sin, cos = timm.RotaryEmbeddingDinoV3(32).get_embed([3, 5]).chunk(2, dim=-1)
    q, k = content(15, d=32, dtype=torch.float32)
    grid = tokens((3, 5), "dinov3")
    theirs = tuple(timm.apply_rot_embed(x, sin, cos, half=True) for x in (q, k))
    torch.testing.assert_close(Axial(32, "dinov3")(q, k, grid, grid), theirs, rtol=0, atol=1e-5)


def test_equals_mixed_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    theirs = timm.RotaryEmbeddingMixed(dim=64, depth=2, num_heads=2)
    q, k = content(15, d=32, h=2, g=2, dtype=torch.float32)
    grid = tokens((3, 5), "rope-vit-mixed")
    for layer in (0, 1):
        encoding = Axial(32, "rope-vit-mixed", heads=2)
        x, y = theirs.freqs[:, layer].detach()
        encoding.load_state_dict({"theta": torch.stack([y, x], dim=1)})
        expected = tuple(timm.apply_rot_embed_cat(part, theirs.get_embed([3, 5])[layer]) for part in (q, k))
        torch.testing.assert_close(encoding(q, k, grid, grid), expected, rtol=0, atol=1e-5)


def test_mixed_frequencies_start_like_those_of_timm():
    timm = peer("timm.layers.pos_embed_sincos")
    x, y = timm.init_random_2d_freqs(32, depth=1, num_heads=1, rotate=False)[:, 0, 0]
    np.testing.assert_allclose(axial_theta(32, "rope-vit-mixed"), torch.stack([y, x]), atol=1e-6)


def test_v_jepa_2_of_transformers_is_no_rotation():
    # its tables are tiled for pairs (i, i + d/2), and it turns neighbors with them
    theirs = peer("transformers.models.vjepa2.modeling_vjepa2").rotate_queries_or_keys
    x, places = content(5, d=16, h=1)[0].float(), torch.tensor([0, 1, 2, 3, 40])
    turned = theirs(x, places)
    table = Axial(16, axes=1).table(places[:, None])
    cos, sin = (part.repeat(1, 2) for part in table.chunk(2, dim=-1))
    torch.testing.assert_close(turned, rotated_pairwise(x, cos, sin), rtol=0, atol=1e-5)
    first = torch.zeros(1, 1, 1, 16).index_fill(-1, torch.tensor(0), 1.0)
    shrunk = math.hypot(math.cos(2), math.sin(2 * 10_000**-0.125))
    assert shrunk < 0.75
    torch.testing.assert_close(theirs(first, torch.tensor([2])).norm().item(), shrunk, rtol=1e-5, atol=0)
    made = [scores(theirs(first, torch.tensor([m])), theirs(first, torch.tensor([m - 3]))).item() for m in (3, 6)]
    assert abs(made[0] - made[1]) > 0.5


# Edges


@pytest.mark.parametrize(("t", "s"), [(1, 1), (0, 0), (0, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("convention", ["per-axis", "sam2", "rope-vit-mixed"])
def test_any_numbers_of_queries_and_keys(t, s, convention):
    q, k = torch.randn(2, 2, t, 16), torch.randn(2, 1, s, 16)
    m, n = torch.randint(9, (t, 2)), torch.randint(9, (2, s, 2))
    assert [x.shape for x in built(convention)(q, k, m, n)] == [q.shape, k.shape]


def test_the_same_positions_are_worked_out_once():
    calls, encoding, (q, k), grid = [], Axial(16), content(6), tokens((2, 3))
    make = encoding.table
    encoding.table = lambda *given: calls.append(given) or make(*given)
    encoding(q, k, grid, grid)
    assert len(calls) == 1
    encoding(q, k, grid, grid.clone())
    assert len(calls) == 3


@pytest.mark.parametrize("convention", ["per-axis", "eva", "rope-vit-mixed"])
@pytest.mark.parametrize("batch", [False, True], ids=["t, n", "b, t, n"])
def test_a_shared_table_gives_what_its_positions_give(convention, batch):
    q, k = (x.expand(3, -1, -1, -1) for x in content(2, 4, h=4, g=2, dtype=torch.float32))
    grid = torch.randint(9, (3, 4, 2)) if batch else torch.randint(9, (4, 2))
    encoding = built(convention, heads=2)
    expected, table = encoding(q, k, grid[..., 2:, :], grid), encoding.table(grid)
    for one_or_two in (table, (table[..., 2:, :], table)):
        made = encoding(q, k, table=one_or_two)
        assert torch.equal(made[0], expected[0])
        assert torch.equal(made[1], expected[1])


def test_a_table_holds_cosines_and_sines_in_the_places_of_a_pair():
    half, interleaved = (Axial(4, name).table(torch.tensor([[2, 3]]), torch.float64)[0] for name in ("per-axis", "eva"))
    cos, sin = [math.cos(2), math.cos(3)], [math.sin(2), math.sin(3)]
    np.testing.assert_allclose(half, cos + sin, rtol=1e-14)
    np.testing.assert_allclose(interleaved, [cos[0], sin[0], cos[1], sin[1]], rtol=1e-14)
    assert Axial(4).table(torch.zeros(2, 3, 2)).shape == (2, 3, 4)
    assert Axial(4, "rope-vit-mixed", heads=5).table(torch.zeros(2, 3, 2)).shape == (2, 5, 3, 4)
    assert Axial(4).half().table(torch.zeros(3, 2)).dtype == torch.float32
    layered = Axial(8, "gemma4").table(torch.tensor([[2, 3]]), torch.float64)[0]
    angles = [3, 0.3, 2, 0.2]
    expected = [f(a) for half in (angles[:2], angles[2:]) for f in (math.cos, math.sin) for a in half]
    np.testing.assert_allclose(layered, expected, rtol=1e-14)


@pytest.mark.parametrize("dtypes", [(torch.float16, torch.float32), (torch.float32, torch.float64)], ids=str)
def test_queries_and_keys_keep_their_own_dtypes(dtypes):
    (q, _), (_, k) = (content(3, dtype=dtype) for dtype in dtypes)
    grid = tokens((1, 3))
    made, reference = Axial(16)(q, k, grid, grid), Axial(16)(q.double(), k.double(), grid, grid)
    assert tuple(x.dtype for x in made) == dtypes
    for got, want in zip(made, reference, strict=True):
        torch.testing.assert_close(got, want.to(got.dtype))


def test_lists_and_plain_rows_are_taken_in_numpy():
    np.testing.assert_allclose(axial([[1, 0, 0, 1]], [[0, 0]]), [[1, 0, 0, 1]])
    x = content(3, d=8)[0].numpy()
    grid = [[0, 1], [1, 0], [2, 2]]
    np.testing.assert_array_equal(axial(x[None], grid)[0], axial(x, grid))


def test_no_patches_give_nothing():
    assert axial(np.zeros((2, 0, 8)), np.zeros((0, 2))).shape == (2, 0, 8)


def test_printing_a_module_shows_its_arguments():
    assert repr(Axial(8)) == "Axial(dim=8, convention='per-axis', axes=2, heads=None)"
    assert repr(Axial(8, "rope-vit-mixed", heads=3)) == "Axial(dim=8, convention='rope-vit-mixed', axes=2, heads=3)"


# What is refused

Q, K = torch.zeros(3, 4, 5, 16), torch.zeros(3, 2, 6, 16)


@pytest.mark.parametrize(
    ("q", "k", "said"),
    [
        (Q[0], K, r"q must be a floating point tensor \(b, h, t, 16\), got torch.float32 \(4, 5, 16\)"),
        (Q[..., :8], K, r"q must be a floating point tensor \(b, h, t, 16\), got torch.float32 \(3, 4, 5, 8\)"),
        (Q, K.long(), "k must be a floating point tensor .*got torch.int64"),
        (Q, None, r"k must be a floating point tensor .*got None"),
        (Q.numpy(), K, "q must be a floating point tensor .*got float32 .*; take torch.as_tensor"),
        (Q[:2], K, "q and k must be one batch, h a multiple of g"),
        (Q[:, :3], K, "q and k must be one batch, h a multiple of g"),
        (Q, K[:, :0], "q and k must be one batch, h a multiple of g"),
    ],
)
def test_content_that_does_not_fit_is_refused(q, k, said):
    with pytest.raises(ValueError, match=f"axial: {said}"):
        Axial(16)(q, k)


@pytest.mark.parametrize("which", ["positions", "key_positions"])
@pytest.mark.parametrize(
    "wrong",
    [
        [0, 1],
        3,
        np.zeros((5, 2)),
        torch.zeros(4, 2),
        torch.zeros(5, 1),
        torch.zeros(5, 3),
        torch.zeros(2, 5),
        torch.zeros(3, 5),
        torch.zeros(5),
        torch.zeros(1, 4, 2),
        torch.zeros(2, 5, 2),
        torch.zeros(3, 2, 5),
        torch.zeros(()),
        torch.zeros(5, 2) > 0,
        torch.zeros(5, 2, dtype=torch.complex64),
    ],
    ids=lambda wrong: str(getattr(wrong, "shape", wrong)),
)
def test_positions_that_do_not_fit_are_refused(which, wrong):
    x = torch.zeros(3, 2, 5, 16)
    got = re.escape(f"{wrong.dtype} {tuple(wrong.shape)}" if hasattr(wrong, "shape") else str(wrong))
    remedy = "take torch.as_tensor" if isinstance(wrong, list | np.ndarray) else "a row for each token"
    said = rf"axial: {which} must be a tensor of numbers \(t, 2\), \(1, t, 2\) or \(b, t, 2\), got {got}; {remedy}"
    grid = torch.zeros(5, 2)
    with pytest.raises(ValueError, match=said):
        Axial(16)(x, x, **{"positions": grid, "key_positions": grid} | {which: wrong})


def test_coordinates_of_numpy_are_refused_with_the_remedy():
    grid, x = axial_coordinates((1, 5)), torch.randn(1, 1, 5, 16)
    said = r"must be a tensor of numbers \(\.\.\., t, 2\), got float64 \(5, 2\); take torch.as_tensor"
    with pytest.raises(ValueError, match=said):
        Axial(16).table(grid)
    assert not Axial(16)(x, x, *[torch.as_tensor(grid)] * 2)[0].isnan().any()


@pytest.mark.parametrize(
    "table",
    [
        "table",
        torch.zeros(6),
        torch.zeros(5, 16),
        torch.zeros(6, 8),
        torch.zeros(2, 6, 16),
        torch.zeros(6, 16, dtype=torch.float16),
        torch.zeros(6, 16, dtype=torch.int64),
        (torch.zeros(6, 16), torch.zeros(6, 16)),
        (torch.zeros(5, 16), torch.zeros(5, 16)),
        (torch.zeros(5, 16),),
        (torch.zeros(5, 16), None),
        [torch.zeros(5, 16), torch.zeros(6, 16)],
    ],
    ids=lambda table: str(getattr(table, "shape", type(table))),
)
def test_tables_that_do_not_fit_are_refused(table):
    said = r"axial: table must be torch.float32 table\(positions\) of at least as many keys as queries, or a pair, got"
    with pytest.raises(ValueError, match=said):
        Axial(16)(Q, K, table=table)


def test_a_table_without_heads_is_refused_where_each_has_its_own():
    with pytest.raises(ValueError, match=r"axial: table must be torch.float32 table.*, got torch.float32 \(6, 16\)"):
        Axial(16, "rope-vit-mixed", heads=2)(Q, K, table=torch.zeros(6, 16))


def test_a_table_of_fewer_keys_than_queries_or_of_coarser_angles_is_refused():
    table = Axial(16).table(torch.zeros(2, 2))
    with pytest.raises(ValueError, match=r"axial: table must be .* of at least as many keys as queries"):
        Axial(16)(*content(6, 2, dtype=torch.float32), table=table)
    with pytest.raises(ValueError, match=r"axial: table must be torch.float64 .*got torch.float32"):
        Axial(16)(*content(2), table=table)


@pytest.mark.parametrize(
    "positions", [None, [1], torch.tensor(1), torch.zeros(3), torch.zeros(3, 2) > 0, torch.zeros(5, 3)]
)
def test_a_table_of_no_coordinates_is_refused(positions):
    with pytest.raises(ValueError, match=r"axial: positions must be a tensor of numbers \(\.\.\., t, 2\), got"):
        Axial(16).table(positions)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, None, "float32"], ids=str)
def test_a_table_in_a_coarse_dtype_is_refused(dtype):
    with pytest.raises(ValueError, match=f"axial: dtype must be torch.float32 or torch.float64, got {dtype!r}"):
        Axial(16).table(torch.zeros(3, 2), dtype)


def refusing(**wrong):
    """Return a call of the class, of the function, and of the frequencies with the settings `wrong`."""
    dim, theta = wrong.pop("dim", 8), {"theta": wrong.pop("theta")} if "theta" in wrong else {}
    x = np.zeros((1, 1, dim if isinstance(dim, int) and dim > 1 else 7))
    return {
        "Axial": lambda: Axial(dim, **theta, **wrong),
        "axial": lambda: axial(x, [[0, 0]], **theta, **wrong),
        "axial_theta": lambda: axial_theta(dim, **wrong),
    }


each_way = pytest.mark.parametrize("way", refusing())


@each_way
@pytest.mark.parametrize("dim", [0, -4, 6, 7, 8.0, "8", None, True], ids=repr)
def test_a_width_that_axes_do_not_share_is_refused(way, dim):
    with pytest.raises(ValueError, match="axial: dim of x must be a positive multiple of 4, got"):
        refusing(dim=dim)[way]()


@each_way
@pytest.mark.parametrize("convention", ["rope", "", None, 1, ["eva"], np.array(["eva", "sam2"])], ids=repr)
def test_an_unknown_convention_is_refused(way, convention):
    with pytest.raises(ValueError, match=r"axial: convention must be one of per-axis, eva, .*rope-vit-mixed, got"):
        refusing(convention=convention)[way]()


@each_way
@pytest.mark.parametrize("axes", [0, -1, 2.0, None, "2", True], ids=repr)
def test_axes_that_are_no_number_are_refused(way, axes):
    with pytest.raises(
        ValueError, match="axial: axes must be a positive integer, 2 for pixtral, qwen-vl, rope-vit-mixed, got"
    ):
        refusing(axes=axes)[way]()


@each_way
@pytest.mark.parametrize("convention", PLANAR)
def test_conventions_for_images_alone_have_two_axes(way, convention):
    with pytest.raises(
        ValueError, match="axial: axes must be a positive integer, 2 for pixtral, qwen-vl, rope-vit-mixed, got 1"
    ):
        refusing(convention=convention, axes=1)[way]()


@pytest.mark.parametrize("base", [0, -1.0, float("nan"), float("inf"), "10", True, [10]], ids=repr)
def test_a_base_that_is_not_positive_is_refused(base):
    with pytest.raises(ValueError, match=r"axial: base must be positive and finite, got .*; dinov3 takes 100"):
        axial_theta(8, "dinov3", base=base)


def test_a_theta_given_frees_the_width_and_but_for_mixed_the_axes():
    for convention in set(CONVENTIONS) - {"gemma4", "rope-vit-mixed"}:
        assert Axial(10, convention, axes=3, theta=np.ones((3, 5))).axes == 3
    with pytest.raises(ValueError, match=r"axial: axes must be a positive integer, 2 for .*rope-vit-mixed, got 3"):
        Axial(10, "rope-vit-mixed", axes=3, theta=np.ones((3, 5)), heads=1)
    with pytest.raises(
        ValueError, match="axial: dim of x must be a positive multiple of 6, got 10; each axis has as many"
    ):
        Axial(10, "gemma4", axes=3, theta=np.ones((3, 5)))
    for odd in (0, 7, 8.0, True):
        with pytest.raises(ValueError, match="axial: dim of x must be a positive multiple of 2, got"):
            Axial(odd, axes=3, theta=np.ones((3, 4)))


@pytest.mark.parametrize("way", ["Axial", "axial"])
@pytest.mark.parametrize(
    "theta",
    [1.0, [], [[1.0] * 4], [[1.0] * 3] * 2, [[[[1.0] * 4] * 2]], np.zeros((0, 2, 4)), np.zeros((4, 2))],
    ids=lambda theta: str(np.shape(theta)),
)
def test_frequencies_of_another_shape_are_refused(way, theta):
    with pytest.raises(ValueError, match=r"axial: theta must be \(2, 4\) or \(g, 2, 4\), got"):
        refusing(theta=theta)[way]()


@pytest.mark.parametrize("way", ["Axial", "axial"])
@pytest.mark.parametrize(
    "theta", ["abc", [[float("nan")] * 4] * 2, [[1j] * 4] * 2, [[1, 2], [3]], torch.ones(2, 4, requires_grad=True)]
)
def test_frequencies_that_are_no_numbers_are_refused(way, theta):
    with pytest.raises(ValueError, match="axial: theta must be finite numbers, got"):
        refusing(theta=theta)[way]()


def test_the_numpy_function_refuses_heads_that_theta_cannot_serve():
    theta = np.zeros((2, 2, 4))
    for x in (np.zeros((3, 1, 8)), np.zeros((1, 8))):
        with pytest.raises(ValueError, match=r"axial: x must be \(h, t, d\), h a multiple of the 2 of theta, got"):
            axial(x, [[0, 0]], theta=theta)


@pytest.mark.parametrize("heads", [None, 0, -1, 1.5, "2", True], ids=repr)
def test_mixed_needs_a_number_of_heads(heads):
    with pytest.raises(ValueError, match="axial: heads must be positive for rope-vit-mixed, None for others, got"):
        Axial(8, "rope-vit-mixed", heads=heads)


@pytest.mark.parametrize("heads", [2, 0, "2", np.zeros((2, 3))], ids=repr)
def test_heads_of_others_are_refused(heads):
    with pytest.raises(ValueError, match="axial: heads must be positive for rope-vit-mixed, None for others, got"):
        Axial(8, heads=heads)


def test_mixed_frequencies_given_for_each_head_are_refused():
    with pytest.raises(ValueError, match="axial: heads must be"):
        Axial(8, "rope-vit-mixed", theta=np.zeros((2, 2, 4)), heads=2)


@pytest.mark.parametrize("name", ["x", "positions"])
@pytest.mark.parametrize(
    "value", [None, "a", [[1.0], [1.0, 2.0]], [True], [1j], [float("nan")], torch.ones(1).bfloat16()]
)
def test_what_is_no_array_of_numbers_is_refused_in_numpy(name, value):
    with pytest.raises(ValueError, match=f"axial: {name} must be finite numbers, got"):
        axial(**{"x": np.ones((1, 1, 4)), "positions": [[0, 0]]} | {name: value})


def test_a_tensor_with_a_gradient_is_refused_in_numpy_with_the_remedy():
    x = torch.ones(1, 1, 4, requires_grad=True)
    with pytest.raises(ValueError, match=r"axial: x must be finite numbers, got Tensor; a tensor needs detach\(\)"):
        axial(x, [[0, 0]])
    np.testing.assert_array_equal(axial(x.detach(), [[0, 0]]), np.ones((1, 1, 4)))


@pytest.mark.parametrize("positions", [0, [0], [0, 0], [[0]], [[0, 0, 0]], [[0, 0]] * 2, [[[0, 0]]]], ids=repr)
def test_positions_that_do_not_fit_are_refused_in_numpy(positions):
    with pytest.raises(ValueError, match=r"axial: positions must be \(t, 2\) for x of \(1, 1, 8\), got"):
        axial(np.ones((1, 1, 8)), positions)


@pytest.mark.parametrize("size", [(), (0, 2), (2.0, 2), 4, None, "22", (True, 2), (2, -1)], ids=repr)
def test_a_size_that_is_no_grid_is_refused(size):
    with pytest.raises(ValueError, match="axial: size must be positive integers, one for each axis"):
        axial_coordinates(size)


@pytest.mark.parametrize("size", [(4,), (2, 2, 2)], ids=repr)
def test_images_have_a_height_and_a_width(size):
    for convention in PLANAR:
        with pytest.raises(ValueError, match=r"axial: size must be positive integers, one .*, got .*; an image has 2"):
            axial_coordinates(size, convention)


@pytest.mark.parametrize("reference", [(), (16,), (0, 16), 16, (16, 16, 16)], ids=repr)
def test_a_reference_that_is_no_size_is_refused(reference):
    with pytest.raises(ValueError, match="axial: reference must be positive integers, one for each axis"):
        axial_coordinates((4, 4), "eva", reference=reference)


@pytest.mark.parametrize("convention", ["dinov3", "eva-pixel"])
def test_coordinates_that_span_the_same_at_every_size_take_no_reference(convention):
    with pytest.raises(ValueError, match=rf"axial: reference must be None for {convention}, got \(16, 16\)"):
        axial_coordinates((4, 4), convention, reference=(16, 16))


@pytest.mark.parametrize("merge", [3, 0, -2, 1.5, None, True], ids=repr)
def test_blocks_that_do_not_divide_the_size_are_refused(merge):
    with pytest.raises(ValueError, match=r"axial: merge must be a positive divisor of the size \(4, 6\), got"):
        axial_coordinates((4, 6), "qwen-vl", merge=merge)
