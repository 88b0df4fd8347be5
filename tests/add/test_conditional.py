"""Conditional: filters by hand, Twins' and SegFormer's own layers, neighbors by place, borders, what is refused."""

import ast
import math
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=30)


def build(dim=5, kernel=3):
    torch.manual_seed(0)
    module = Conditional(dim, kernel).double()
    nn.init.normal_(module.bias)
    return module


def patches(height=4, width=3, dim=5, b=2):
    """Return an image of random patches, read row by row, and where they stand."""
    drawn = torch.randn(b, height * width, dim, dtype=torch.float64, generator=torch.manual_seed(1))
    return drawn, grid_positions(height, width)


# Values worked by hand


def test_each_tap_belongs_to_one_neighbor():
    module = Conditional(1).double()
    module.weight.data[0] = 10.0 ** -torch.arange(9).view(3, 3)
    x, where = torch.arange(1, 10).double().view(1, 9, 1), grid_positions(3, 3)
    made = module(x, where)[0, :, 0] - x[0, :, 0]
    assert made[4].item() == pytest.approx(1.23456789)  # 1 in the corner above left ... 9 below right
    assert made[0].item() == pytest.approx(0.000120450)  # 1 here, 2 to the right, 4 below, 5 below right


def test_the_same_in_numpy():
    weight = [[[0, 0, 0], [100, 10, 1], [0, 0, 1000]]]
    made = conditional([[1], [2], [3]], [[0, 1], [0, 0], [1, 1]], weight, [5])
    assert made[:, 0].tolist() == [5 + 10 + 200, 5 + 20 + 1 + 3000, 5 + 30]


def test_channels_do_not_mix():
    (x, where), module = patches(), build()
    other = x.clone()
    other[..., 2] += 1
    assert not (module(other, where) - module(x, where))[..., [0, 1, 3, 4]].any()


# Peers


@pytest.mark.parametrize(("height", "width"), [(4, 3), (1, 6), (7, 7)])
def test_equals_the_positions_of_twins(height, width):
    (x, where), module = patches(height, width), build()
    theirs = twins()(5, 5).double()
    theirs.proj[0].weight.data, theirs.proj[0].bias.data = module.weight.data[:, None], module.bias.data
    expected = theirs(x, (height, width))
    torch.testing.assert_close(module(x, where), expected)
    torch.testing.assert_close(module.on_grid(x, height, width), expected)


def twins():
    """Return timm's PosConv, out of a file whose imports need torchvision."""
    path = Path(peer("timm.layers.pos_embed_sincos").__file__).parents[1] / "models" / "twins.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PosConv"]
    names = {"nn": nn, "torch": torch, "Size_": tuple}
    exec(compile(ast.Module([found], []), str(path), "exec"), names)
    return names["PosConv"]


@pytest.mark.parametrize(("name", "layer"), [("segformer", "SegformerDepthWiseConv"), ("pvt_v2", "PvtV2DepthWiseConv")])
def test_what_is_added_is_the_filter_in_the_mlp_of_segformer_and_pvt(name, layer):
    (x, where), module = patches(4, 3), build()
    kind = getattr(peer(f"transformers.models.{name}.modeling_{name}"), layer)
    theirs = (kind(5) if name == "segformer" else kind(None, 5)).double()
    theirs.dwconv.weight.data, theirs.dwconv.bias.data = module.weight.data[:, None], module.bias.data
    torch.testing.assert_close(module(x, where) - x, theirs(x, 4, 3))


# By place


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize(("height", "width"), [(4, 3), (1, 1), (2, 9)])
def test_a_grid_in_order_is_torchs_convolution(kernel, height, width):
    (x, where), module = patches(height, width), build(kernel=kernel)
    torch.testing.assert_close(module.on_grid(x, height, width), module(x, where))


@given(order=st.permutations(range(12)), down=st.integers(-(10**9), 10**9), right=st.integers(-(10**9), 10**9))
@exactly
def test_patches_in_another_order_and_place_take_their_neighbors_along(order, down, right):
    (x, where), module = patches(), build()
    moved = where[order] + torch.tensor([down, right])
    torch.testing.assert_close(module(x[:, order], moved), module(x, where)[:, order])


def test_patches_that_were_dropped_are_as_zeros():
    (x, where), module = patches(), build()
    kept = [0, 2, 3, 7, 8, 11]
    holes = torch.zeros_like(x)
    holes[:, kept] = x[:, kept]
    torch.testing.assert_close(module(x[:, kept], where[kept]), module(holes, where)[:, kept])


def test_patches_that_share_a_place_are_summed():
    (x, where), module = patches(1, 3), build()
    made = module(x, torch.tensor([[0, 0], [0, 1], [0, 1]])) - x
    summed = torch.stack([x[:, 0], x[:, 1] + x[:, 2]], dim=1)
    torch.testing.assert_close(made[:, :2], module(summed, where[:2]) - summed)


# What it says of places, and what not


def test_equal_patches_differ_only_at_the_border():
    (x, where), module = patches(7, 7), build()
    added = (module(x[:, :1].expand(2, 49, 5), where) - x[:, :1]).view(2, 7, 7, 5)
    inside = added[:, 1:-1, 1:-1]
    torch.testing.assert_close(inside, inside[:, :1, :1].expand_as(inside))
    for r, c in ((0, 0), (0, 3), (3, 0), (6, 3), (6, 6)):
        assert not torch.allclose(added[:, r, c], inside[:, 0, 0])


def test_layers_carry_the_border_inward():
    # with filters that sum, the patches that tell an inner place apart grow by one ring a layer
    x, where = torch.ones(1, 81, 1).double(), grid_positions(9, 9)
    module = Conditional(1).double()
    nn.init.ones_(module.weight)
    equal = []
    for _ in range(5):
        x = module(x, where)
        equal.append((x == x[:, 40:41]).sum().item())
    assert equal == [49, 25, 9, 1, 1]


def test_starts_with_a_deviation_of_one_over_the_side():
    torch.manual_seed(0)
    for kernel in (3, 7):
        module = Conditional(2000, kernel)
        assert module.weight.std().item() == pytest.approx(1 / kernel, rel=0.03)
        assert not module.bias.any()


# What is refused: what would give a wrong result without an error


def test_what_does_not_fit_is_refused_with_numbers():
    (x, where), module = patches(), build()
    for call in (lambda x: module(x, where), lambda x: module.on_grid(x, 4, 3)):
        with pytest.raises(ValueError, match=r"conditional: dim of float x must be 5, got torch.int64 \(2, 12, 5\)"):
            call(x.long())
        with pytest.raises(ValueError, match=r"conditional: dim of float x must be 5, got torch.float64 \(2, 12, 4\)"):
            call(x[..., 1:])
    for wrong, got in ((None, "None"), (torch.arange(12), r"\(12,\)"), (where[:11], r"\(11, 2\)")):
        with pytest.raises(ValueError, match=rf"conditional: positions must be rows and columns \(12, 2\), got {got}"):
            module(x, wrong)
    with pytest.raises(ValueError, match="conditional: kernel must be odd, got 2"):
        Conditional(5, kernel=2)


def test_a_class_token_may_stand_where_no_patch_is_near():
    (x, where), module = patches(), build()
    far = torch.cat([torch.tensor([[-70, -70]]), where])
    with_class = torch.cat([torch.ones(2, 1, 5).double(), x], dim=1)
    torch.testing.assert_close(module(with_class, far)[:, 1:], module(x, where))
    assert math.isfinite(module(with_class, far)[0, 0, 0].item())
