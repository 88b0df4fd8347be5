"""Conditional: filters by hand, Twins' and SegFormer's own layers, neighbors by place, borders, and what is refused."""

import ast
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from posenc.add.conditional import Conditional, conditional
from posenc.positions import grid_positions
from tests.peers import peer

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"kernel": 5}]
LEARNED = {"weight", "bias"}
AXES = 2
TEXT = False
NEIGHBORS = True


def oracle(x, positions, weight, bias, kernel=3):
    """Work out the definition with 30 digits, one product at a time."""
    added = np.zeros(x.shape)
    with mpmath.workdps(30):
        for t, c in np.ndindex(added.shape):
            total = mpmath.mpf(bias[c])
            for s in range(len(x)):
                down, right = np.subtract(positions[s], positions[t]) + kernel // 2
                if {down, right} <= {*range(kernel)}:
                    total += mpmath.mpf(x[s, c]) * mpmath.mpf(weight[c, int(down), int(right)])
            added[t, c] = total
    return added


def exercise(module):
    module.Conditional(4).on_grid(torch.randn(2, 6, 4), 2, 3)


def build(dim=5, kernel=3):
    torch.manual_seed(0)
    module = Conditional(dim, kernel).double()
    nn.init.normal_(module.bias)
    return module


def patches(height=4, width=3, dim=5, b=2):
    """Return an image of random patches, read row by row, and where they stand."""
    x = torch.randn(b, height * width, dim, dtype=torch.float64, generator=torch.manual_seed(1))
    return x, grid_positions(height, width)


# Values worked by hand


def test_a_tap_belongs_to_a_neighbor():
    module = Conditional(1).double()
    assert module.axes == 2  # a row and a column
    module.weight.data[0] = 10.0 ** -torch.arange(9).view(3, 3)
    x = torch.arange(1, 10).double().view(1, 9, 1)
    added = (module(x, grid_positions(3, 3)) - x)[0, :, 0]
    assert added[4].item() == pytest.approx(1.23456789)  # 1 in the corner above left ... 9 below right
    assert added[0].item() == pytest.approx(0.000120450)  # 1 here, 2 to the right, 4 below, 5 below right


def test_the_same_in_numpy():
    weight = [[[0, 0, 0], [100, 10, 0.1], [0, 0, 1000]]]
    far = 2**24  # the next row is no float32
    added = conditional([[1], [2], [3]], [[far, 1], [far, 0], [far + 1, 1]], weight, [0.7])
    assert added[:, 0].tolist() == pytest.approx([0.7 + 10 + 200, 0.7 + 20 + 0.1 + 3000, 0.7 + 30], rel=1e-14)


# Peers


@pytest.mark.parametrize(("height", "width"), [(4, 3), (1, 6), (7, 7)])
def test_equals_the_positions_of_twins(height, width):
    x, positions = patches(height, width)
    module = build()
    theirs = twins()(5, 5).double()
    theirs.proj[0].weight.data = module.weight.data[:, None]
    theirs.proj[0].bias.data = module.bias.data
    expected = theirs(x, (height, width))
    torch.testing.assert_close(module(x, positions), expected)
    torch.testing.assert_close(module.on_grid(x, height, width), expected)


def twins():
    """Return timm's PosConv, out of a file whose imports need torchvision."""
    path = Path(peer("timm.layers.pos_embed_sincos").__file__).parents[1] / "models" / "twins.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (position_filter,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PosConv"]
    names = {"nn": nn, "torch": torch, "Size_": tuple}
    exec(compile(ast.Module([position_filter], []), str(path), "exec"), names)
    return names["PosConv"]


@pytest.mark.parametrize(("name", "layer"), [("segformer", "SegformerDepthWiseConv"), ("pvt_v2", "PvtV2DepthWiseConv")])
def test_what_is_added_is_the_filter_in_the_mlp_of_segformer_and_pvt(name, layer):
    x, positions = patches(4, 3)
    module = build()
    kind = getattr(peer(f"transformers.models.{name}.modeling_{name}"), layer)
    theirs = (kind(5) if name == "segformer" else kind(None, 5)).double()
    theirs.dwconv.weight.data = module.weight.data[:, None]
    theirs.dwconv.bias.data = module.bias.data
    torch.testing.assert_close(module(x, positions) - x, theirs(x, 4, 3))


# Neighbors by place


@pytest.mark.parametrize(("kernel", "height", "width"), [(1, 4, 3), (3, 1, 1), (7, 4, 3), (7, 2, 9)])
def test_a_grid_in_order_is_torchs_convolution(kernel, height, width):
    x, positions = patches(height, width)
    module = build(kernel=kernel)
    torch.testing.assert_close(module.on_grid(x, height, width), module(x, positions))


@given(order=st.permutations(range(12)), down=st.integers(-(10**9), 10**9), right=st.integers(-(10**9), 10**9))
@settings(deadline=None, derandomize=True, database=None, max_examples=30)
def test_patches_in_another_order_and_place_take_their_neighbors_along(order, down, right):
    x, positions = patches()
    moved = positions[order] + torch.tensor([down, right])
    torch.testing.assert_close(build()(x[:, order], moved), build()(x, positions)[:, order])


def test_patches_that_were_dropped_are_as_zeros():
    x, positions = patches()
    kept = [0, 2, 3, 7, 8, 11]
    holes = torch.zeros_like(x)
    holes[:, kept] = x[:, kept]
    torch.testing.assert_close(build()(x[:, kept], positions[kept]), build()(holes, positions)[:, kept])


def test_patches_that_share_a_place_are_summed():
    x, positions = patches(1, 3)
    added = build()(x, torch.tensor([[0, 0], [0, 1], [0, 1]])) - x
    summed = torch.stack([x[:, 0], x[:, 1] + x[:, 2]], dim=1)
    torch.testing.assert_close(added[:, :2], build()(summed, positions[:2]) - summed)


def test_a_class_token_may_stand_where_no_patch_is_near():
    x, positions = patches()
    with_class = torch.cat([torch.ones(2, 1, 5).double(), x], dim=1)
    far = torch.cat([torch.tensor([[-70, -70]]), positions])
    torch.testing.assert_close(build()(with_class, far)[:, 1:], build()(x, positions))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    x, positions = patches()
    x, module = x.to(dtype), build()
    assert torch.equal(module(x, positions), module(x.float(), positions).to(dtype))


# What it says of places, and what not


def test_equal_patches_differ_only_at_the_border():
    x, positions = patches(7, 7)
    added = (build()(x[:, :1].expand(2, 49, 5), positions) - x[:, :1]).view(2, 7, 7, 5)
    inside = added[:, 1:-1, 1:-1]
    torch.testing.assert_close(inside, inside[:, :1, :1].expand_as(inside))
    for r, c in ((0, 0), (0, 3), (3, 0), (6, 3), (6, 6)):
        assert not torch.allclose(added[:, r, c], inside[:, 0, 0])


def test_layers_carry_the_border_inward():
    # with filters that sum, the patches that tell an inner place apart grow by one ring a layer
    x = torch.ones(1, 81, 1).double()
    module = Conditional(1).double()
    nn.init.ones_(module.weight)
    equal = []
    for _ in range(5):
        x = module(x, grid_positions(9, 9))
        equal.append((x == x[:, 40:41]).sum().item())
    assert equal == [49, 25, 9, 1, 1]


@pytest.mark.parametrize("kernel", [3, 7])
def test_the_filter_starts_with_a_deviation_of_1_over_its_side(kernel):
    torch.manual_seed(0)
    module = Conditional(2000, kernel)
    assert module.weight.std().item() == pytest.approx(1 / kernel, rel=0.03)
    assert not module.bias.any()


# What is refused


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "x",
            torch.ones(2, 12, 5).long(),
            r"x must have shape \(b, t, 5\) and a float dtype, got torch.int64 \(2, 12, 5\)",
        ),
        ("x", torch.ones(2, 12, 1), r"x must have shape \(b, t, 5\) and a float dtype, got torch.float32 \(2, 12, 1\)"),
        (
            "positions",
            None,
            r"positions must have shape \(12, 2\) or \(2, 12, 2\), got None; "
            r"rows and columns of patches are grid_positions\(height, width\)",
        ),
        ("positions", torch.arange(12), r"positions must have shape \(12, 2\) or \(2, 12, 2\), got \(12,\)"),
        ("positions", torch.ones(1, 2), r"positions must have shape \(12, 2\) or \(2, 12, 2\), got \(1, 2\)"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    x, positions = patches()
    with pytest.raises(ValueError, match=f"conditional: {message}"):
        build()(**{"x": x, "positions": positions} | {name: value})
    if name == "x":
        with pytest.raises(ValueError, match=f"conditional: {message}"):
            build().on_grid(value, 4, 3)


def test_a_filter_without_a_middle_is_refused():
    with pytest.raises(ValueError, match="conditional: kernel must be odd, got 2"):
        Conditional(5, kernel=2)
