"""Fourier: the four kinds by hand and against Perceiver, SAM and timm, its kernel, and what it refuses."""

import inspect
import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.fourier import KINDS, Fourier, fourier, fourier_cycles
from posenc.models.axial import axial_coordinates
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
points = st.lists(st.floats(-1, 1), min_size=2, max_size=2)


# By hand


def test_powers_of_two_by_hand():
    # d = 6: cycles 1/2, 1, 2, so angles pi/3, 2 pi/3, 4 pi/3 at 1/3
    sines = [math.sqrt(3) / 2, math.sqrt(3) / 2, -math.sqrt(3) / 2]
    np.testing.assert_allclose(fourier([1 / 3], 6), [[*sines, 0.5, -0.5, -0.5]], atol=1e-7)


def test_as_many_powers_as_the_width_of_a_model_asks_for_are_finite():
    assert Fourier(512)(torch.zeros(1, 3, 512), torch.tensor([0.3, 1.0, 1e7])).isfinite().all()
    with pytest.raises(RuntimeWarning, match="overflow"):  # the last of them is 2^1024
        Fourier(2 * 1026)


def test_axes_stand_one_after_the_other():
    np.testing.assert_array_equal(fourier_cycles(8, axes=2), [[0.5, 1, 0, 0], [0, 0, 0.5, 1]])
    np.testing.assert_array_equal(
        fourier_cycles(12, 2, "bands", resolution=10), [[0.5, 1.5, 2.5, 0, 0, 0], [0, 0, 0, 0.5, 1.5, 2.5]]
    )


def test_each_axis_may_have_a_resolution_of_its_own():
    made = fourier_cycles(12, 2, "bands", resolution=(10, 6))
    np.testing.assert_array_equal(made, [[0.5, 1.5, 2.5, 0, 0, 0], [0, 0, 0, 0.5, 1, 1.5]])
    encode = Fourier(12, 2, "bands", resolution=(10, 6))
    np.testing.assert_array_equal(encode.cycles, made)
    with pytest.raises(ValueError, match="broadcast"):
        fourier_cycles(12, 2, "bands", resolution=(10, 6, 4))


def test_gaussian_cycles_have_the_scale_and_come_from_the_seed():
    cycles = fourier_cycles(20_000, 2, "gaussian", scale=3.0)
    assert abs(cycles.std() - 3) < 0.05
    assert abs(cycles.mean()) < 0.05
    np.testing.assert_array_equal(cycles, np.random.default_rng(0).normal(0, 3, cycles.shape).astype(np.float32))
    assert not np.allclose(cycles, fourier_cycles(20_000, 2, "gaussian", scale=3.0, seed=1))


def test_learned_cycles_start_as_gaussian_ones_and_are_the_parameter():
    encode = Fourier(8, 2, "learned", scale=2.0)
    np.testing.assert_array_equal(encode.cycles.detach(), fourier_cycles(8, 2, "gaussian", scale=2.0))


def test_an_integer_frequency_does_not_see_whole_steps():
    np.testing.assert_allclose(fourier(np.arange(5) * 2, 8), fourier(np.zeros(5), 8), atol=1e-15)


# The numbers of others


@vectors("fourier_features_perceiver")
def test_features_of_perceiver(vector):
    params, pos = vector["params"], np.array(vector["inputs"]["pos"][0])  # (5, 2)
    made = fourier(pos, 4 * params["num_bands"], 2, "bands", resolution=params["max_resolution"])
    assert_agrees(vector, np.concatenate([pos, made], axis=-1)[None], vector["expected"]["features"])


def test_equals_perceiver_of_transformers():
    perceiver = peer("transformers.models.perceiver.modeling_perceiver")
    pos = torch.rand(1, 30, 2) * 2 - 1
    expected = perceiver.generate_fourier_features(pos, num_bands=6, max_resolution=(32, 32), concat_pos=True)[0]
    made = Fourier(24, 2, "bands", resolution=32).table(pos[0])
    torch.testing.assert_close(torch.cat([pos[0], made.float()], dim=-1), expected, atol=1e-4, rtol=0)


def test_equals_the_prompt_encoder_of_sam():
    sam = peer("transformers.models.sam.modeling_sam")
    config = peer("transformers.models.sam.configuration_sam").SamVisionConfig(num_pos_feats=16, scale=2.0)
    embed = sam.SamPositionalEmbedding(config)
    points = torch.rand(1, 4, 7, 2)
    expected = embed(points).detach()
    made = fourier((2 * points - 1).numpy(), 32, 2, "learned", cycles=embed.positional_embedding.detach().numpy())
    np.testing.assert_allclose(made, expected, atol=1e-4)


def test_equals_timm_up_to_the_order_of_channels():
    timm = peer("timm.layers.pos_embed_sincos")
    expected = timm.build_fourier_pos_embed([4, 6], num_bands=5, max_res=32, linear_bands=True, include_grid=False)
    expected = torch.stack([part.reshape(24, -1) for part in expected], dim=0).flatten(0, 0)  # (2, 24, 10)
    rows, columns = torch.meshgrid(torch.linspace(-1, 1, 4), torch.linspace(-1, 1, 6), indexing="ij")
    made = Fourier(20, 2, "bands", resolution=32).table(torch.stack([rows, columns], dim=-1).flatten(0, 1))
    sines, cosines = made.float().chunk(2, dim=-1)
    np.testing.assert_allclose(
        np.sort(torch.cat([sines, cosines], -1)), np.sort(torch.cat(list(expected), -1)), atol=1e-4
    )


def test_equals_nerf_up_to_pi_and_the_order_of_channels():
    point = np.array([[0.3, -0.7, 0.1]])
    made = fourier(point, 24, 3)[0]
    paper = [[f(2**k * math.pi * c) for k in range(4) for f in (math.sin, math.cos)] for c in point[0]]
    np.testing.assert_allclose(np.sort(made), np.sort(np.ravel(paper)), atol=1e-12)


# Properties


@exactly
@given(here=points, there=points, shift=points, kind=st.sampled_from(KINDS))
def test_the_dot_product_depends_on_the_offset_only(here, there, shift, kind):
    here, there, shift = np.array(here), np.array(there), np.array(shift)
    codes = fourier(np.stack([here, there, here + shift, there + shift]), 16, 2, kind)
    np.testing.assert_allclose(codes[0] @ codes[1], codes[2] @ codes[3], atol=1e-9)


def test_gaussian_features_have_a_gaussian_kernel():
    # E cos(2 pi r c) with c of N(0, scale^2) is exp(-(2 pi r scale)^2 / 2)
    for distance in (0.0, 0.1, 0.2, 0.4):
        codes = fourier([[0.0, 0.0], [distance, 0.0]], 40_000, 2, "gaussian", scale=1.0)
        assert abs(codes[0] @ codes[1] / 20_000 - math.exp(-((2 * math.pi * distance) ** 2) / 2)) < 0.02


def test_it_is_not_shift_invariant_as_an_addition_to_content():
    codes, content = fourier([0.1, 0.3], 16), np.arange(16) % 3
    assert abs(codes[0] @ content - codes[1] @ content) > 0.1


def test_patches_do_not_lie_on_the_diagonal_by_mistake():
    encode, x = Fourier(16, 2), torch.zeros(1, 6, 16)
    said = r"fourier: positions must be \(..., t, 2\), got \(6,\); .* axial_coordinates\(\(height, width\)"
    calls = [lambda: encode(x, torch.arange(6)), lambda: encode.table(torch.arange(6))]
    for call in (*calls, lambda: fourier(np.arange(6), 16, 2)):
        with pytest.raises(ValueError, match=said):
            call()
    said = r"fourier: positions must be \(6, 2\), got None; .* axial_coordinates\(\(height, width\)"
    with pytest.raises(ValueError, match=said):
        encode(x)
    grid = torch.from_numpy(axial_coordinates((2, 3), "eva-pixel"))
    assert grid.min() == -1
    assert grid.max() == 1
    assert torch.equal(encode(x, grid)[0], encode.table(grid).float())


@pytest.mark.parametrize("axes", [1, 2])
def test_one_row_of_positions_serves_a_batch(axes):
    encode, x = Fourier(16, axes), torch.rand(3, 5, 16)
    places = torch.rand(5, axes) if axes > 1 else torch.rand(5)
    assert torch.equal(encode(x, places[None]), encode(x, places))


def test_no_tokens():
    assert Fourier(16, 2)(torch.zeros(1, 0, 16), torch.zeros(0, 2)).shape == (1, 0, 16)


def test_learned_cycles_have_the_right_gradient():
    encode, x, places = Fourier(8, kind="learned").double(), torch.zeros(1, 5, 8).double(), torch.linspace(0, 1, 5)
    call = lambda cycles: torch.func.functional_call(encode, {"cycles": cycles}, (x, places))  # noqa: E731
    assert torch.autograd.gradcheck(call, encode.cycles)


# What it refuses


@pytest.mark.parametrize(
    ("dim", "axes", "kind", "step"),
    [(0, 1, "powers", 2), (7, 1, "gaussian", 2), (16, 3, "powers", 6), (6, 2, "bands", 4), (-6, 2, "learned", 2)],
)
def test_a_width_that_does_not_split_among_the_axes_is_refused(dim, axes, kind, step):
    said = f"fourier: dim must be a multiple of {step}, got {dim}, for {axes} axes"
    for call in (lambda: Fourier(dim, axes, kind), lambda: fourier(np.zeros((5, axes)), dim, axes, kind)):
        with pytest.raises(ValueError, match=said):
            call()


def test_cycles_have_the_defaults_of_the_class():
    of_class, of_cycles = inspect.signature(Fourier).parameters, inspect.signature(fourier_cycles).parameters
    assert [p.default for p in of_class.values()] == [p.default for p in of_cycles.values()]


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind must be one of powers, bands, gaussian, learned, got 'learnable'"):
        Fourier(16, kind="learnable")


@pytest.mark.parametrize("shape", [(5, 3), (5, 1), (1, 5)], ids=str)
def test_positions_on_other_axes_are_refused(shape):
    said = rf"fourier: positions must be \(..., t, 2\), got {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=said):
        Fourier(16, 2)(torch.zeros(2, 5, 16), torch.zeros(shape))
    with pytest.raises(ValueError, match=said):
        fourier(np.zeros(shape), 16, 2)


@pytest.mark.parametrize("rows", [(1,), (4,), (3, 5), (2, 1)], ids=str)
def test_positions_of_other_rows_are_refused(rows):
    encode, x, places = Fourier(16, 2), torch.zeros(2, 5, 16), torch.zeros(*rows, 2)
    said = rf"fourier: positions must be of \(5,\) or \(2, 5\) tokens, got {re.escape(str(rows))}"
    with pytest.raises(ValueError, match=said):
        encode(x, places)
    with pytest.raises(ValueError, match=r"fourier: .* must be .*, got"):
        encode(x[0], torch.zeros(1, 5, 2))


@pytest.mark.parametrize("x", [torch.zeros(2, 5, 8), torch.zeros(2, 5, 1), torch.zeros(2, 5, 16).int()], ids=str)
def test_content_of_another_width_or_of_integers_is_refused(x):
    said = rf"fourier: x must be floats \(b, t, 16\), got {x.dtype} {re.escape(str(tuple(x.shape)))}"
    with pytest.raises(ValueError, match=said):
        Fourier(16)(x)


def test_cycles_of_another_form_are_refused_by_numpy():
    for cycles in (np.zeros((4, 2)), np.zeros((2, 5)), np.zeros((3, 4))):
        with pytest.raises(ValueError, match="broadcast"):
            fourier(np.zeros((3, 2)), 8, 2, cycles=cycles)
