"""Fourier: the four kinds by hand, against Perceiver, SAM, timm and NeRF, their kernels, and what is refused."""

import inspect
import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.fourier import KINDS, Fourier, fourier, fourier_cycles
from posenc.models.axial import axial_coordinates
from tests.add.alike import WRONG_ON_TWO_AXES
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {},
    {"axes": 2},
    {"kind": "bands", "axes": 2, "resolution": 64.0},
    {"kind": "gaussian", "axes": 3},
    {"kind": "gaussian", "scale": 3.0, "seed": 5},
    {"kind": "learned", "axes": 2},
]


def LEARNED(options):
    return {"cycles"} if options.get("kind") == "learned" else set()


def AXES(options):
    return options.get("axes", 1) if options.get("axes", 1) > 1 else 0


def TEXT(options):
    return not AXES(options)


def oracle(positions, dim, axes=1, kind="powers", resolution=224.0, scale=1.0, seed=0, cycles=None):
    """Work out the definition with 60 digits, one element at a time."""
    cycles = fourier_cycles(dim, axes, kind, resolution, scale, seed) if cycles is None else np.asarray(cycles)
    rows = positions.reshape(len(positions), axes).tolist()
    table = np.zeros((len(rows), dim))
    with mpmath.workdps(60):
        for (row, i), _ in np.ndenumerate(table[:, : dim // 2]):
            turns = mpmath.fsum(mpmath.mpf(m) * mpmath.mpf(c) for m, c in zip(rows[row], cycles[:, i], strict=True))
            table[row, i], table[row, dim // 2 + i] = (
                mpmath.sin(2 * mpmath.pi * turns),
                mpmath.cos(2 * mpmath.pi * turns),
            )
    return table


points = st.lists(st.floats(-1, 1), min_size=2, max_size=2).map(np.array)


# Values worked by hand


def test_powers_of_two_by_hand():
    # d = 6: cycles 1/2, 1, 2, so angles pi/3, 2 pi/3, 4 pi/3 at 1/3
    sines = [math.sqrt(3) / 2, math.sqrt(3) / 2, -math.sqrt(3) / 2]
    np.testing.assert_allclose(fourier([1 / 3], 6), [[*sines, 0.5, -0.5, -0.5]], atol=1e-15)


def test_as_many_powers_as_the_width_of_a_model_asks_for_are_finite():
    assert Fourier(512)(torch.zeros(1, 3, 512), torch.tensor([0.3, 1.0, 1e7])).isfinite().all()
    with pytest.raises(RuntimeWarning, match="overflow"):  # the last of them is 2^1024
        Fourier(2 * 1026)


@pytest.mark.parametrize(
    ("dim", "kind", "resolution", "expected"),
    [
        (8, "powers", 224, [[0.5, 1, 0, 0], [0, 0, 0.5, 1]]),  # resolution is of no matter here
        (12, "bands", 10, [[0.5, 1.5, 2.5, 0, 0, 0], [0, 0, 0, 0.5, 1.5, 2.5]]),  # up to 10/4
        (12, "bands", (10, 6), [[0.5, 1.5, 2.5, 0, 0, 0], [0, 0, 0, 0.5, 1, 1.5]]),  # to 10/4, and to 6/4
    ],
)
def test_axes_have_cycles_of_their_own(dim, kind, resolution, expected):
    np.testing.assert_array_equal(fourier_cycles(dim, 2, kind, resolution), expected)
    np.testing.assert_array_equal(Fourier(dim, 2, kind, resolution).cycles, expected)


def test_bands_stand_in_equal_steps_of_float32():  # whose products with whole numbers are exact in float64
    (cycles,) = fourier_cycles(14, 1, "bands", resolution=10)
    np.testing.assert_array_equal(cycles, np.linspace(0.5, 2.5, 7).astype(np.float32))


def test_gaussian_cycles_have_the_scale_and_come_from_the_seed():
    cycles = fourier_cycles(20_000, 2, "gaussian", scale=3.0)
    assert abs(cycles.std() - 3) < 0.05
    assert abs(cycles.mean()) < 0.05
    np.testing.assert_array_equal(cycles, np.random.default_rng(0).normal(0, 3, cycles.shape).astype(np.float32))
    assert not np.allclose(cycles, fourier_cycles(20_000, 2, "gaussian", scale=3.0, seed=1))


def test_learned_cycles_start_as_gaussian_ones_and_are_the_parameter():
    encode = Fourier(8, 2, "learned", scale=2.0)
    np.testing.assert_array_equal(encode.cycles.detach(), fourier_cycles(8, 2, "gaussian", scale=2.0))


def test_learned_cycles_have_the_right_gradient():
    encode = Fourier(8, kind="learned").double()
    positions = torch.linspace(0, 1, 5)

    def encoded(cycles):
        return torch.func.functional_call(encode, {"cycles": cycles}, (torch.zeros(1, 5, 8).double(), positions))

    assert torch.autograd.gradcheck(encoded, encode.cycles)


# The numbers of others


@vectors("fourier_features_perceiver")
def test_features_of_perceiver(vector):
    params = vector["params"]
    pos = np.array(vector["inputs"]["pos"][0])  # (5, 2)
    table = fourier(pos, 4 * params["num_bands"], 2, "bands", resolution=params["max_resolution"])
    assert_agrees(vector, np.concatenate([pos, table], axis=-1)[None], vector["expected"]["features"])


def test_equals_perceiver_of_transformers():
    perceiver = peer("transformers.models.perceiver.modeling_perceiver")
    pos = torch.rand(1, 30, 2) * 2 - 1
    expected = perceiver.generate_fourier_features(pos, num_bands=6, max_resolution=(32, 32), concat_pos=True)[0]
    table = Fourier(24, 2, "bands", resolution=32).table(pos[0])
    torch.testing.assert_close(torch.cat([pos[0], table.float()], dim=-1), expected, atol=1e-4, rtol=0)


def test_equals_the_prompt_encoder_of_sam():
    sam = peer("transformers.models.sam.modeling_sam")
    config = peer("transformers.models.sam.configuration_sam").SamVisionConfig(num_pos_feats=16, scale=2.0)
    embed = sam.SamPositionalEmbedding(config)
    pixels = torch.rand(1, 4, 7, 2)
    expected = embed(pixels).detach()
    table = fourier((2 * pixels - 1).numpy(), 32, 2, "learned", cycles=embed.positional_embedding.detach().numpy())
    np.testing.assert_allclose(table, expected, atol=1e-4)


def test_equals_timm_up_to_the_order_of_channels():
    timm = peer("timm.layers.pos_embed_sincos")
    expected = timm.build_fourier_pos_embed([4, 6], num_bands=5, max_res=32, linear_bands=True, include_grid=False)
    expected = torch.cat([waves.reshape(24, 10) for waves in expected], dim=-1)
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 6), indexing="ij")
    table = Fourier(20, 2, "bands", resolution=32).table(torch.stack([rows, columns], dim=-1).flatten(0, 1))
    np.testing.assert_allclose(table.sort().values, expected.sort().values, atol=1e-4)


def test_equals_nerf_up_to_pi_and_the_order_of_channels():
    point = np.array([[0.3, -0.7, 0.1]])
    table = fourier(point, 24, 3)[0]
    paper = [[f(2**k * math.pi * c) for k in range(4) for f in (math.sin, math.cos)] for c in point[0]]
    np.testing.assert_allclose(np.sort(table), np.sort(np.ravel(paper)), atol=1e-12)


# Kernels


@given(here=points, there=points, shift=points, kind=st.sampled_from(KINDS))
@settings(deadline=None, derandomize=True, database=None, max_examples=50)
def test_the_dot_product_depends_on_the_offset_only(here, there, shift, kind):
    codes = fourier([here, there, here + shift, there + shift], 16, 2, kind)
    np.testing.assert_allclose(codes[0] @ codes[1], codes[2] @ codes[3], atol=1e-9)


@pytest.mark.parametrize("distance", [0.0, 0.1, 0.2, 0.4])
def test_gaussian_features_have_a_gaussian_kernel(distance):
    # E cos(2 pi r c) with c of N(0, scale^2) is exp(-(2 pi r scale)^2 / 2)
    codes = fourier([[0.0, 0.0], [distance, 0.0]], 40_000, 2, "gaussian", scale=1.0)
    assert abs(codes[0] @ codes[1] / 20_000 - math.exp(-((2 * math.pi * distance) ** 2) / 2)) < 0.02


# What is refused


def test_patches_without_coordinates_are_refused():
    # else patch i would stand at (i, i), on the diagonal
    encode = Fourier(16, 2)
    x = torch.zeros(1, 6, 16)
    remedy = r"axial_coordinates\(\(height, width\)"
    for t in (6, 2):  # however many, and be it as many as there are axes
        message = rf"fourier: positions must have shape \(\.\.\., t, 2\), got \({t},\); a row a token, such as {remedy}"
        with pytest.raises(ValueError, match=message):
            encode(x, torch.arange(t))
        with pytest.raises(ValueError, match=message):
            fourier(np.arange(t), 16, 2)
    with pytest.raises(
        ValueError, match=rf"fourier: positions must have shape \(6, 2\), got None; a row a token, such as {remedy}"
    ):
        encode(x)
    grid = torch.from_numpy(axial_coordinates((2, 3), "eva-pixel"))
    assert (grid.min(), grid.max()) == (-1, 1)
    assert torch.equal(encode(x, grid)[0], encode.table(grid).float())


@pytest.mark.parametrize(
    ("dim", "axes", "kind", "message"),
    [
        (0, 1, "powers", "dim must be a multiple of 2, got 0, for 1 axes"),
        (7, 1, "gaussian", "dim must be a multiple of 2, got 7, for 1 axes"),
        (16, 3, "powers", "dim must be a multiple of 6, got 16, for 3 axes"),
        (6, 2, "bands", "dim must be a multiple of 4, got 6, for 2 axes"),
        (-6, 2, "learned", "dim must be a multiple of 2, got -6, for 2 axes"),
        (16, 1, "learnable", "kind must be one of powers, bands, gaussian, learned, got 'learnable'"),
    ],
)
def test_wrong_settings_are_refused_by_class_and_function(dim, axes, kind, message):
    for call in (lambda: Fourier(dim, axes, kind), lambda: fourier(np.zeros((5, axes)), dim, axes, kind)):
        with pytest.raises(ValueError, match=f"fourier: {message}"):
            call()


def test_cycles_have_the_defaults_of_the_class():
    of_class, of_cycles = inspect.signature(Fourier).parameters, inspect.signature(fourier_cycles).parameters
    assert [p.default for p in of_class.values()] == [p.default for p in of_cycles.values()]


@pytest.mark.parametrize(("name", "value", "message"), WRONG_ON_TWO_AXES)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    with pytest.raises(ValueError, match=f"fourier: {message}"):
        Fourier(16, 2)(**{"x": torch.zeros(2, 5, 16), "positions": torch.zeros(1, 5, 2)} | {name: value})


@pytest.mark.parametrize("shape", [(4, 2), (2, 5), (3, 4)], ids=str)
def test_cycles_of_another_form_are_refused_by_numpy(shape):
    with pytest.raises(ValueError, match="broadcast"):
        fourier(np.zeros((3, 2)), 8, 2, cycles=np.zeros(shape))
