"""Grid: the five orders against the code that uses them, the kernel along each axis, and what it refuses."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.grid import ORDERS, Grid, detr_coordinates, grid
from posenc.add.sinusoidal import kernel, sinusoidal
from posenc.positions import grid_positions
from tests.add.alike import WRONG_ON_TWO_AXES
from tests.peers import peer
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    *({"order": order} for order in ORDERS),
    {"order": "per-axis", "dim": 7},
    {"order": "per-axis", "dim": 10, "axes": 3},
    {"axes": 1},
    {"base": 100.0},
]


def AXES(options):
    return options.get("axes", 2)


def TEXT(options):
    return AXES(options) == 1


def oracle(positions, dim, base=10_000.0, order="mae"):
    """Work out the definition with 60 digits, one element at a time."""
    rows, axes = positions.shape
    width = 2 * math.ceil(dim / (2 * axes))
    table = np.zeros((rows, axes * width))
    with mpmath.workdps(60):
        for row, axis, k in np.ndindex(rows, axes, width // 2):
            angle = mpmath.mpf(positions[row, axis].item()) * mpmath.mpf(base) ** (-mpmath.mpf(2 * k) / width)
            sine, cosine = {
                "mae": ((axes - 1 - axis) * width + k, (axes - 1 - axis) * width + width // 2 + k),
                "timm": (axis * width // 2 + k, (axes + axis) * width // 2 + k),
                "timm-axes": (axis * width + k, axis * width + width // 2 + k),
                "detr": (axis * width + 2 * k, axis * width + 2 * k + 1),
                "per-axis": (axis * width + 2 * k, axis * width + 2 * k + 1),
            }[order]
            table[row, sine], table[row, cosine] = mpmath.sin(angle), mpmath.cos(angle)
    return table[:, :dim]


coordinates = st.lists(st.floats(-1000, 1000), min_size=2, max_size=2).map(np.array)


def raster(*size):
    return np.argwhere(np.ones(size))


# Values worked by hand


@pytest.mark.parametrize("order", ORDERS)
def test_row_2_and_column_3_by_hand(order):
    # of width 4 on two axes, each has one frequency, theta = 1
    row = math.sin(2), math.cos(2)
    column = math.sin(3), math.cos(3)
    expected = {
        "mae": [*column, *row],
        "timm": [row[0], column[0], row[1], column[1]],
        "timm-axes": [*row, *column],
        "detr": [*row, *column],
        "per-axis": [*row, *column],
    }
    np.testing.assert_allclose(grid([[2, 3]], 4, order=order)[0], expected[order], rtol=1e-15)


def test_per_axis_cuts_off_the_surplus():
    np.testing.assert_allclose(grid([[2, 3]], 3, order="per-axis"), [[math.sin(2), math.cos(2), math.sin(3)]])
    np.testing.assert_allclose(grid([[2, 3]], 1, order="per-axis"), [[math.sin(2)]])


def test_an_axis_alone_is_the_sinusoidal_code():
    line = np.arange(50)
    np.testing.assert_array_equal(grid(line[:, None], 8, order="per-axis"), sinusoidal(line, 8))
    np.testing.assert_array_equal(grid(line[:, None], 8, order="mae"), sinusoidal(line, 8, order="split"))


def test_axes_have_sinusoidal_codes_of_their_own():
    cells = raster(3, 4, 5)
    table = grid(cells, 24, order="detr")
    for axis in range(3):
        np.testing.assert_array_equal(table[:, 8 * axis : 8 * axis + 8], sinusoidal(cells[:, axis], 8))


def test_the_orders_are_permutations_of_each_other():
    tables = [np.sort(grid(raster(4, 4), 16, order=order), axis=-1) for order in ORDERS]
    for table in tables:
        np.testing.assert_array_equal(table, tables[0])


@given(here=coordinates, offset=coordinates, order=st.sampled_from(ORDERS))
@settings(deadline=None, derandomize=True, database=None, max_examples=50)
def test_the_dot_product_of_two_codes_sums_the_kernels_of_their_offsets(here, offset, order):
    codes = grid([here, here + offset], 16, order=order)
    np.testing.assert_allclose(codes[0] @ codes[1], kernel(offset, 8).sum(), atol=1e-9)


# The numbers of others


@vectors("sincos_2d_mae")
def test_tables_of_mae(vector):
    size, dim = vector["params"]["grid_size"], vector["params"]["dim"]
    class_token = np.zeros((int(vector["params"]["add_cls_token"]), dim))
    assert_agrees(vector, np.concatenate([class_token, grid(raster(size, size), dim)]), vector["expected"]["pe"])


@vectors("sincos_2d_timm")
def test_tables_of_timm(vector):
    order = "timm-axes" if vector["params"].get("interleave_sin_cos") else "timm"
    table = grid(raster(*vector["params"]["feat_shape"]), vector["params"]["dim"], order=order)
    assert_agrees(vector, table, vector["expected"]["pe"])


@vectors("sincos_nd_tatp22")
def test_tables_of_any_number_of_axes(vector):
    _, *size, dim = vector["params"]["shape_b_xyz_c"]
    table = grid(raster(*size), dim, order="per-axis").reshape(*size, dim)
    assert_agrees(vector, table, vector["expected"]["pe"])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("size", "dim"), [((5, 7), 32), ((14, 14), 64)])
def test_equals_timm(interleaved, size, dim):
    timm = peer("timm.layers.pos_embed_sincos")
    expected = timm.build_sincos2d_pos_embed(list(size), dim, interleave_sin_cos=interleaved)
    table = grid(raster(*size), dim, order="timm-axes" if interleaved else "timm")
    np.testing.assert_allclose(table, expected.numpy(), atol=2e-6)


def test_another_base_gives_the_table_of_simple_vit():
    rows, columns = np.mgrid[:3, :4].reshape(2, -1, 1) / 10_000 ** (np.arange(8) / 7)  # (12, 8) each
    expected = np.concatenate([np.sin(columns), np.cos(columns), np.sin(rows), np.cos(rows)], axis=1)
    table = grid(raster(3, 4), 32, base=10_000 ** (16 / 14), order="mae")
    np.testing.assert_allclose(table, expected, atol=1e-15)


def test_transformers_builds_the_table_of_vit_mae_rows_first_unlike_the_code_of_the_paper():
    mae = peer("transformers.models.vit_mae.modeling_vit_mae")
    expected = mae.build_2d_sinusoidal_position_embedding(5, 6, 32)
    np.testing.assert_allclose(grid(raster(5, 6), 32, order="timm-axes"), expected, atol=1e-6)
    assert not np.allclose(grid(raster(5, 6), 32, order="mae"), expected, atol=0.1)


def test_equals_detr_of_transformers_on_a_padded_image():
    detr = peer("transformers.models.detr.modeling_detr")
    mask = torch.zeros(2, 6, 8, dtype=torch.bool)
    mask[0, :4, :5] = mask[1] = True
    embed = detr.DetrSinePositionEmbedding(num_position_features=8, normalize=True)
    expected = embed((2, 1, 6, 8), "cpu", torch.float32, mask)  # channels before rows and columns, or flattened
    expected = expected.permute(0, 2, 3, 1) if expected.ndim == 4 else expected.reshape(2, 6, 8, 16)
    table = grid(detr_coordinates(mask), 16, order="detr")
    np.testing.assert_allclose(table[mask], expected[mask], atol=1e-5)


# DETR's coordinates


def test_coordinates_of_a_whole_image_end_at_the_scale():
    # but for DETR's epsilon, 1e-6 of a row or column; by default the scale is 2 pi
    rows = detr_coordinates(torch.ones(4, 8), scale=4.0)[:, 0, 0]
    columns = detr_coordinates(torch.ones(4, 2))[0, :, 1]
    np.testing.assert_allclose(rows, 4 * np.array([1, 2, 3, 4]) / (4 + 1e-6), rtol=1e-14)
    np.testing.assert_allclose(columns, 2 * math.pi * np.array([1, 2]) / (2 + 1e-6), rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float32], ids=str)
def test_padding_does_not_count(dtype):
    mask = torch.zeros(6, 8, dtype=dtype)
    mask[:4, :5] = 1
    torch.testing.assert_close(detr_coordinates(mask)[:4, :5], detr_coordinates(torch.ones(4, 5)))


def test_centered_coordinates_are_half_a_step_back():
    mask = torch.ones(4, 4)
    back = detr_coordinates(mask, scale=4.0) - detr_coordinates(mask, scale=4.0, center=True)
    torch.testing.assert_close(back, torch.full((4, 4, 2), 0.5).double(), rtol=1e-6, atol=0)


# What is refused


def test_patches_without_coordinates_are_refused():
    # else patch i would stand at (i, i), on the diagonal of an image of 49 rows
    encode = Grid(16)
    patches = torch.zeros(1, 49, 16)
    remedy = r"a row of coordinates a token: posenc.positions.grid_positions\(height, width\)"
    for t in (49, 2):  # however many, and be it as many as there are axes
        message = rf"grid: positions must have shape \(\.\.\., t, 2\), got \({t},\); {remedy}"
        with pytest.raises(ValueError, match=message):
            encode(patches, torch.arange(t))
    with pytest.raises(ValueError, match=rf"grid: positions must have shape \(49, 2\), got None; {remedy}"):
        encode(patches)
    with pytest.raises(ValueError, match="not enough values to unpack"):  # Python's own words
        grid(np.arange(49), 16)
    expected = torch.tensor(grid(raster(7, 7), 16)).float()
    torch.testing.assert_close(encode(patches, grid_positions(7, 7))[0], expected)


def test_an_axis_alone_takes_a_line():
    encode = Grid(16, axes=1)
    x = torch.zeros(1, 5, 16)
    rows = torch.arange(5)[:, None]
    assert torch.equal(encode(x), encode(x, rows))
    assert torch.equal(encode(x, torch.arange(5)), encode(x, rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 6}, "dim must be a multiple of 4, got 6, for 2 axes"),
        ({"dim": 16, "axes": 3, "order": "detr"}, "dim must be a multiple of 6, got 16, for 3 axes"),
        ({"dim": 0, "order": "per-axis"}, "dim must be a multiple of 1, got 0, for 2 axes"),
        ({"dim": 16, "base": math.inf}, "base must be positive and finite, got inf"),
        ({"dim": 16, "base": 0}, "base must be positive and finite, got 0"),
        ({"dim": 16, "order": "moco"}, "order must be one of mae, timm, timm-axes, detr, per-axis, got 'moco'"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=f"grid: {message}"):
        Grid(**options)


@pytest.mark.parametrize(("name", "value", "message"), WRONG_ON_TWO_AXES)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    with pytest.raises(ValueError, match=f"grid: {message}"):
        Grid(16)(**{"x": torch.zeros(2, 5, 16), "positions": torch.zeros(1, 5, 2)} | {name: value})
