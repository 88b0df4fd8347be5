"""What the explorer computes with: products and turned rows of whole tables, a list drawn out, GELU, an exponential."""

import numpy as np
import pytest
import torch

from posenc.rotate.rope import rope
from tests.scripts.exploring import DEFAULTS, KINDS, SEEDS
from tests.scripts.javascript import Script

PRODUCTS, TABLES = (Script(f"math/{name}.js") for name in ("products", "tables"))
GELU, EXPONENTIAL = (Script(f"math/{name}.js") for name in ("gelu", "exponential"))


def test_columns_and_biases():
    assert DEFAULTS("columnsOf({ encoding: 'pope', width: 6 })") == 2 * DEFAULTS(
        "columnsOf({ encoding: 'rope', width: 6 })"
    )
    assert [KINDS("biased({ encoding })", encoding=name) for name in ("t5", "rope")] == [True, False]


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", SEEDS)
def test_products_of_two_tables(seed, rows):
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(rows, 6)), draw.normal(size=(7, 6))
    known = {name: table.ravel().tolist() for name, table in (("a", a), ("b", b))}
    ours = PRODUCTS("products(new Float64Array(a), new Float64Array(b), 6)", **known)
    np.testing.assert_allclose(np.reshape(ours, (rows, 7)), a @ b.T, rtol=1e-9, atol=1e-12)
    ours = PRODUCTS("((table) => products(table, table, 6))(new Float64Array(a))", **known)
    np.testing.assert_allclose(np.reshape(ours, (rows, rows)), a @ a.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_turned_to_their_positions(seed, layout):
    draw = np.random.default_rng(seed)
    theta, first, factor = draw.uniform(0, 1, 4), int(draw.integers(1000)), float(draw.uniform(1, 2))
    options = {"first": first, "attention": factor}
    for x in (draw.normal(size=(5, 8)), draw.normal(size=(1, 8))):
        pairs = [[i, i + 4] if layout == "half" else [2 * i, 2 * i + 1] for i in range(4)]
        code = """turnedBy(new Float64Array(x), 5, 8, pairs,
          wheelOf(5, 4, (p, i) => (p + options.first) * theta[i], () => options.attention))"""
        ours = TABLES(code, x=x.ravel().tolist(), theta=theta.tolist(), options=options, pairs=pairs)
        rows = np.broadcast_to(x, (5, 8))
        theirs = rope(rows, first + np.arange(5), theta=theta, layout=layout, attention_factor=factor)
        np.testing.assert_allclose(np.reshape(ours, (5, 8)), theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 5, 48, 90])
def test_a_list_resampled(count):
    known = np.random.default_rng(count).uniform(1, 60, 48)
    ours = TABLES("resample(list, count)", list=known.tolist(), count=count)
    np.testing.assert_allclose(ours, np.interp(np.linspace(0, 47, count), np.arange(48), known), rtol=1e-9)


@pytest.mark.parametrize("x", [-9.0, -3.6, -1.0, -1e-9, 0.0, 0.3, 2.0, 3.5, 3.54, 6.0, 30.0])
def test_gelu(x):
    expected = torch.nn.functional.gelu(torch.tensor(x, dtype=torch.float64)).item()
    assert GELU("gelu(x)", x=x) == pytest.approx(expected, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("size", [0.01, 1, 8])
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_the_exponential_of_a_matrix(rows, size):
    matrix = size * np.random.default_rng(rows).normal(size=(rows, rows))
    turn = matrix - matrix.T
    ours = EXPONENTIAL("exponential(matrix.length, (i, j) => matrix[i][j])", matrix=turn.tolist())
    theirs = torch.matrix_exp(torch.tensor(turn)).numpy()
    np.testing.assert_allclose(np.reshape(ours, (rows, rows)), theirs, rtol=1e-9, atol=1e-11)
