"""Grids of positions resampled in the live figures, against `resize_grid` and PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posenc.add.learned import resize, resize_grid
from tests.scripts.javascript import Script

GRIDS = Script("math/grids.js")
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
SINGLE = {"rtol": 0, "atol": 1e-6}  # the package resizes in float32
METHODS = [
    ({"kernel": "linear"}, {"mode": "bilinear"}),
    ({"kernel": "linear", "corners": True}, {"mode": "bilinear", "align_corners": True}),
    ({"kernel": "cubic"}, {"mode": "bicubic"}),
    ({"kernel": "linear", "antialias": True}, {"mode": "bilinear", "antialias": True}),
    ({"kernel": "cubic", "antialias": True}, {"mode": "bicubic", "antialias": True}),
]


def spread(mixtures, rows):
    """Return lists of (row, weight) as a matrix; row -1, the class row, comes first."""
    matrix = np.zeros((len(mixtures), rows + 1))
    for line, mixed in zip(matrix, mixtures, strict=True):
        for p, weight in mixed:
            line[p + 1] += weight
    return matrix


@pytest.mark.parametrize(("ours", "theirs"), METHODS)
@pytest.mark.parametrize(("old", "size"), [(8, 10), (5, 12), (14, 9), (6, 6), (7, 3)])
def test_one_axis(ours, theirs, old, size):
    image = torch.eye(old, dtype=torch.float64).reshape(1, old, old, 1).repeat(1, 1, 1, 2)
    expected = F.interpolate(image, size=(size, 2), **theirs)[0, :, :, 0].T
    code = "Array.from({ length: size }, (_, j) => taps(j, old, size, method))"
    found = GRIDS(code, old=old, size=size, method=ours)
    np.testing.assert_allclose(spread(found, old)[:, 1:], expected, **CLOSE)


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize(("old", "size"), [((4, 6), (5, 9)), ((8, 8), (10, 10)), ((6, 5), (3, 4))])
def test_grids_right_and_wrong(kernel, old, size):
    rows, patches = old[0] * old[1], size[0] * size[1]
    table = torch.eye(1 + rows, dtype=torch.float64)  # a class row and the grid, as chapter 2.3 probes them
    right = resize_grid(table, old, size, prefix=1, mode=kernel)[1:]
    slipped = resize_grid(table[:-1], old, size, mode=kernel)
    expected = {
        "as a grid": right,
        "class row inside": slipped,
        "as one line": resize(table[1:], patches),
        "axes swapped": right.unflatten(0, size).transpose(0, 1).flatten(0, 1),
    }
    given = {"old": old, "size": size, "method": {"kernel": kernel, "antialias": True}, "n": patches}
    places = np.array([[-1, -1], *np.ndindex(*old)])
    for way, matrix in expected.items():
        found = GRIDS("Array.from({ length: n }, (_, k) => mixture(way, k, old, size, method))", way=way, **given)
        np.testing.assert_allclose(spread(found, rows), matrix, err_msg=way, **SINGLE)
        origins = GRIDS("mixed.map((one) => origin(one, old[1]))", mixed=found, **given)
        np.testing.assert_allclose(origins, spread(found, rows) @ places, err_msg=way, **CLOSE)


@pytest.mark.parametrize(("old", "size"), [((4, 6), (5, 9)), ((8, 8), (10, 10))])
def test_centers_of_patches(old, size):
    axes = [(np.arange(m) + 0.5) * n / m - 0.5 for n, m in zip(old, size, strict=True)]
    ours = GRIDS("Array.from({ length: size[0] * size[1] }, (_, k) => wanted(k, old, size))", old=old, size=size)
    np.testing.assert_allclose(ours, np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2), **CLOSE)
