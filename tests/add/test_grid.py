"""Grid: the four orders against the code that uses them, the kernel along each axis, and what it refuses."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.grid import ORDERS, Grid, detr_coordinates, grid
from posenc.add.sinusoidal import kernel, sinusoidal
from posenc.positions import grid_positions
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
coordinates = st.lists(st.floats(-1000, 1000), min_size=2, max_size=2)
each_order = pytest.mark.parametrize("order", ORDERS)


def raster(*size: int) -> np.ndarray:
    return np.stack(np.meshgrid(*map(np.arange, size), indexing="ij"), axis=-1).reshape(-1, len(size))


# By hand


def test_by_hand():
    # one frequency an axis, so theta = 1: row 2 and column 3
    two, three = (math.sin(2), math.cos(2)), (math.sin(3), math.cos(3))
    expected = {
        "mae": [*three, *two],
        "timm": [two[0], three[0], two[1], three[1]],
        "timm-axes": [*two, *three],
        "detr": [*two, *three],
        "per-axis": [*two, *three],
    }
    for order in ORDERS:
        np.testing.assert_allclose(grid([[2, 3]], 4, order=order)[0], expected[order], rtol=1e-15)


def test_one_axis_is_the_sinusoidal_code():
    line = np.arange(50)[:, None]
    np.testing.assert_array_equal(grid(line, 8, order="per-axis"), sinusoidal(np.arange(50), 8))
    np.testing.assert_array_equal(grid(line, 8, order="mae"), sinusoidal(np.arange(50), 8, order="split"))


def test_each_axis_is_a_sinusoidal_code_of_its_own():
    cells = raster(3, 4, 5)
    table = grid(cells, 24, order="detr")
    for axis in range(3):
        np.testing.assert_array_equal(table[:, 8 * axis : 8 * axis + 8], sinusoidal(cells[:, axis], 8))


def test_the_orders_are_permutations_of_each_other():
    tables = [np.sort(grid(raster(4, 4), 16, order=order), axis=-1) for order in ORDERS]
    for table in tables:
        np.testing.assert_array_equal(table, tables[0])


# The numbers of others


@vectors("sincos_2d_mae")
def test_tables_of_mae(vector):
    size, dim = vector["params"]["grid_size"], vector["params"]["dim"]
    class_token = np.zeros((int(vector["params"]["add_cls_token"]), dim))
    assert_agrees(vector, np.concatenate([class_token, grid(raster(size, size), dim)]), vector["expected"]["pe"])


@vectors("sincos_2d_timm")
def test_tables_of_timm(vector):
    order = "timm-axes" if vector["params"].get("interleave_sin_cos") else "timm"
    made = grid(raster(*vector["params"]["feat_shape"]), vector["params"]["dim"], order=order)
    assert_agrees(vector, made, vector["expected"]["pe"])


@vectors("sincos_nd_tatp22")
def test_tables_of_any_number_of_axes(vector):
    _, *size, dim = vector["params"]["shape_b_xyz_c"]
    made = grid(raster(*size), dim, order="per-axis").reshape(*size, dim)
    assert_agrees(vector, made, vector["expected"]["pe"])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("size", "dim"), [((5, 7), 32), ((14, 14), 64)])
def test_equals_timm(interleaved, size, dim):
    timm = peer("timm.layers.pos_embed_sincos")
    expected = timm.build_sincos2d_pos_embed(list(size), dim, interleave_sin_cos=interleaved)
    made = grid(raster(*size), dim, order="timm-axes" if interleaved else "timm")
    np.testing.assert_allclose(made, expected.numpy(), atol=2e-6)


def test_another_base_gives_the_table_of_simple_vit():
    rows, columns = np.mgrid[:3, :4].reshape(2, -1, 1) / 10_000 ** (np.arange(8) / 7)  # (12, 8) each
    expected = np.concatenate([np.sin(columns), np.cos(columns), np.sin(rows), np.cos(rows)], axis=1)
    made = grid(np.argwhere(np.ones((3, 4))), 32, base=10_000 ** (16 / 14), order="mae")
    np.testing.assert_allclose(made, expected, atol=1e-15)


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
    given = torch.zeros(2, 1, 6, 8)
    expected = embed(given.shape, given.device, torch.float32, mask)
    made = grid(detr_coordinates(mask).numpy(), 16, order="detr")  # (2, 6, 8, 16)
    np.testing.assert_allclose(made[mask], as_image(expected, made.shape)[mask], atol=1e-5)


def as_image(table: torch.Tensor, shape) -> np.ndarray:
    """Bring DETR's table, channels first or flattened, into (b, height, width, d)."""
    return (table.permute(0, 2, 3, 1) if table.ndim == 4 else table.reshape(shape)).numpy()


# DETR's coordinates


def test_coordinates_of_a_whole_image_end_at_the_scale():
    made = detr_coordinates(torch.ones(4, 8, dtype=torch.bool))
    torch.testing.assert_close(made[:, 0, 0], math.pi * torch.tensor([0.5, 1, 1.5, 2]).double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(made[0, -1], math.pi * torch.tensor([0.5, 2]).double(), rtol=1e-6, atol=0)


def test_padding_does_not_count():
    mask = torch.zeros(6, 8, dtype=torch.bool)
    mask[:4, :5] = True
    torch.testing.assert_close(detr_coordinates(mask)[:4, :5], detr_coordinates(mask[:4, :5]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32], ids=str)
def test_a_mask_may_be_of_numbers(dtype):
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    assert torch.equal(detr_coordinates(mask.to(dtype)), detr_coordinates(mask.bool()))


def test_centred_coordinates_are_half_a_step_back():
    mask = torch.ones(4, 4, dtype=torch.bool)
    back = detr_coordinates(mask, scale=4.0) - detr_coordinates(mask, scale=4.0, center=True)
    torch.testing.assert_close(back, torch.full((4, 4, 2), 0.5).double(), rtol=1e-6, atol=0)


# Properties


@exactly
@given(here=coordinates, offset=coordinates, elsewhere=coordinates, order=st.sampled_from(ORDERS))
def test_the_dot_product_depends_on_the_offset_along_each_axis(here, offset, elsewhere, order):
    offset = np.array(offset)
    codes = [grid([np.array(place), np.array(place) + offset], 16, order=order) for place in (here, elsewhere)]
    products = [code[0] @ code[1] for code in codes]
    np.testing.assert_allclose(products[0], products[1], atol=1e-9)
    np.testing.assert_allclose(products[0], kernel(offset, 8).sum(), atol=1e-9)


def test_it_is_not_shift_invariant_as_an_addition_to_content():
    codes = grid([[0, 0], [5, 5]], 16)
    content = np.linspace(-1, 1, 16)
    assert abs(codes[0] @ content - codes[1] @ content) > 0.1


@each_order
def test_patches_without_coordinates_are_refused(order):
    # else patch i would stand at (i, i), on the diagonal of an image of 49 rows
    encode, patches = Grid(16, order=order), torch.zeros(1, 49, 16)
    said = r"grid: positions must be \(..., t, 2\), got \(49,\); .* posenc.positions.grid_positions\(height, width\)"
    line = torch.arange(49)
    for call in (lambda: encode(patches, line), lambda: encode.table(line)):
        with pytest.raises(ValueError, match=said):
            call()
    said = r"grid: positions must be \(49, 2\), got None; .* posenc.positions.grid_positions\(height, width\)"
    with pytest.raises(ValueError, match=said):
        encode(patches)
    with pytest.raises(ValueError, match="not enough values to unpack"):  # Python's own words
        grid(np.arange(49), 16, order=order)
    torch.testing.assert_close(
        encode(patches, grid_positions(7, 7))[0], torch.tensor(grid(raster(7, 7), 16, order=order)).float()
    )


@each_order
def test_one_axis_takes_a_line(order):
    encode, x = Grid(16, axes=1, order=order), torch.zeros(1, 5, 16)
    rows = torch.arange(5)[:, None]
    assert torch.equal(encode(x), encode(x, rows))
    assert torch.equal(encode(x, torch.arange(5)), encode(x, rows))


def test_one_row_of_positions_serves_a_batch():
    x, places = torch.randn(3, 5, 16), torch.randint(9, (1, 5, 2))
    expected = Grid(16)(x, places.expand(3, 5, 2))
    assert torch.equal(Grid(16)(x, places), expected)


def test_rows_and_columns_differ():
    assert not np.allclose(grid([[1, 2]], 16), grid([[2, 1]], 16))


def test_no_tokens():
    assert grid(np.zeros((0, 2)), 16).shape == (0, 16)
    assert Grid(16)(torch.zeros(1, 0, 16), torch.zeros(0, 2)).shape == (1, 0, 16)


# What it refuses


@pytest.mark.parametrize(
    ("order", "dim", "axes", "step"), [("mae", 6, 2, 4), ("detr", 16, 3, 6), ("per-axis", 0, 2, 1)]
)
def test_a_width_that_does_not_split_is_refused(order, dim, axes, step):
    said = f"grid: dim must be a multiple of {step}, got {dim}, for {axes} axes"
    for call in (lambda: Grid(dim, axes, order=order), lambda: grid(np.zeros((5, axes)), dim, order=order)):
        with pytest.raises(ValueError, match=said):
            call()


@pytest.mark.parametrize("base", [0, -1, float("nan"), float("inf")])
def test_a_base_that_is_not_positive_is_refused(base):
    with pytest.raises(ValueError, match=f"grid: base must be positive and finite, got {base}"):
        Grid(16, base=base)


def test_an_unknown_order_is_refused():
    with pytest.raises(ValueError, match="grid: order must be one of mae, timm, timm-axes, detr, per-axis, got 'moco'"):
        Grid(16, order="moco")


@pytest.mark.parametrize("shape", [(5, 3), (5, 1), (1, 5)], ids=str)
def test_positions_on_other_axes_are_refused(shape):
    with pytest.raises(ValueError, match=rf"grid: positions must be \(..., t, 2\), got {re.escape(str(shape))}"):
        Grid(16)(torch.zeros(2, 5, 16), torch.zeros(shape))


@pytest.mark.parametrize("rows", [(1,), (4,), (3, 5), (2, 1)], ids=str)
def test_positions_of_other_rows_are_refused(rows):
    encode, x, places = Grid(16), torch.zeros(2, 5, 16), torch.zeros(*rows, 2)
    said = rf"grid: positions must be of \(5,\) or \(2, 5\) tokens, got {re.escape(str(rows))}"
    with pytest.raises(ValueError, match=said):
        encode(x, places)
    with pytest.raises(ValueError, match=r"grid: positions must be of \(5,\) .*, got \(1, 5\)"):
        encode(x[0], torch.zeros(1, 5, 2))


@pytest.mark.parametrize("x", [torch.zeros(2, 5, 8), torch.zeros(2, 5, 1), torch.zeros(2, 5, 16).int()], ids=str)
def test_content_of_another_width_or_of_integers_is_refused(x):
    said = rf"grid: x must be floats \(b, t, 16\), got {x.dtype} {re.escape(str(tuple(x.shape)))}"
    with pytest.raises(ValueError, match=said):
        Grid(16)(x, torch.zeros(5, 2))
