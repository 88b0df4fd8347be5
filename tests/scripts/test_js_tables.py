"""Tables of positions: sinusoids, learned rows and their resizing, grids, and the arithmetic on whole tables."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from posenc.add.learned import resize, resize_grid
from posenc.add.sinusoidal import sinusoidal, wavelengths
from posenc.rotate.rope import rope
from tests.scripts.javascript import Script, assert_close

WAVES, CLOCKS = Script("math/waves.js"), Script("math/clocks.js")
VISITS, COMPONENTS, RESIZE = (Script(f"math/{name}.js") for name in ("visits", "components", "resize"))
GRIDS, CIRCLES = Script("math/grids.js"), Script("math/circles.js")
PRODUCTS, TABLES = Script("math/products.js"), Script("math/tables.js")
GELU, EXPONENTIAL = Script("math/gelu.js"), Script("math/exponential.js")


def test_bits_and_hands(draw):
    p, q = draw.integers(0, 1024, 2).tolist()
    assert CLOCKS("Array.from({ length: 10 }, (_, i) => bit(p, 9 - i)).join('')", p=p) == f"{p:010b}"
    assert CLOCKS("flips(p, q)", p=p, q=q) == (p ^ q).bit_count()
    bits = np.array([p, q])[:, None] >> np.arange(10) & 1
    assert_close(CLOCKS("leap(p, q)", p=p, q=q), np.linalg.norm(bits[1] - bits[0]))
    theta = 2 * np.pi / wavelengths(16)
    here, there = sinusoidal([p, p + 1], 16)
    assert_close(CLOCKS("stride(theta)", theta=theta), np.linalg.norm(there - here))


def tails(kind, rows, mean):
    """The shares of texts longer than p, as chapter 2.1 writes them."""
    p = np.arange(rows)
    return {"packed": np.ones(rows), "uniform": 1 - p / rows, "short": (1 - 1 / mean) ** p}[kind]


@pytest.mark.parametrize("kind", ["packed", "uniform", "short"])
@pytest.mark.parametrize("seed", range(4))
def test_visits_and_updates(seed, kind):
    draw = np.random.default_rng(seed)
    rows, texts, steps = (int(draw.integers(*span)) for span in ((20, 300), (1, 20), (1, 200)))
    settings = {"kind": kind, "rows": rows, "mean": float(draw.uniform(4, 90)), "texts": texts, "steps": steps}
    share = tails(kind, rows, settings["mean"])
    ours = VISITS("Array.from({ length: rows }, (_, p) => tail(kind, p, rows, mean))", **settings)
    assert_close(ours, share)
    learned = steps * (1 - (1 - share) ** texts)
    assert_close(VISITS("t.map((x) => updates(x, texts, steps))", t=ours, **settings), learned)
    expected = steps * texts * share
    assert_close(VISITS("t.map((x) => visits(x, texts, steps))", t=ours, **settings), expected)
    assert VISITS("edge(t, 50, texts, steps)", t=ours, **settings) == (expected >= 50).sum()
    longer = np.random.RandomState(seed).random_sample((steps, texts, 1)) < share  # chapter 2.1, `simulated`
    played = VISITS("run(t, texts, steps, seed)", t=share, seed=seed, **settings)
    assert played == {"visits": longer.sum((0, 1)).tolist(), "updates": longer.any(1).sum(0).tolist()}


def test_components_of_a_table(draw):
    table = draw.normal(size=(24, 9)).cumsum(axis=0)
    plain = COMPONENTS("centered(table, 9)", table=table.ravel())
    assert_close(plain, table - table.mean(axis=0))
    profiles, strengths, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    rows = np.reshape(plain, table.shape)
    decomposition = COMPONENTS("eigen(products, 24)", products=(rows @ rows.T).ravel().tolist())
    assert_close(decomposition["values"][:9], strengths**2, atol=0)
    np.testing.assert_allclose(decomposition["values"][9:], 0, atol=1e-9)
    for ours, profile in zip(decomposition["vectors"], profiles.T, strict=False):
        np.testing.assert_allclose(np.array(ours) * np.sign(ours @ profile), profile, atol=1e-9)


@pytest.mark.parametrize("length", [5, 64])
def test_overtones_are_those_of_a_string(length):
    ours = np.array(COMPONENTS("Array.from({ length: n - 1 }, (_, i) => overtone(i + 1, n))", n=length)).T
    j, difference = np.arange(1, length), np.diff(np.eye(length), axis=0)
    stiffness = 4 * np.sin(np.pi * j / (2 * length)) ** 2
    assert_close(difference.T @ difference @ ours, ours * stiffness)
    assert_close(ours.T @ ours, np.eye(length - 1))


@pytest.mark.parametrize("reach", [0, 0.4, 3.5, 11])
def test_blended_noise(reach):
    settings = {"length": 12, "dim": 5, "margin": 20, "seed": 3}
    rows = np.random.RandomState(3).standard_normal((52, 5))
    ours = COMPONENTS("noise(length, dim, margin, seed)", **settings)
    np.testing.assert_allclose(np.reshape(ours, rows.shape), rows, rtol=1e-12)
    gap = np.arange(52) - 20 - np.arange(12)[:, None]
    weights = np.exp(-0.5 * (gap / reach) ** 2) if reach else gap == 0
    weights = weights * (abs(gap) <= 20)
    blend = COMPONENTS("blended(rows, dim, margin, reach)", rows=rows.ravel(), reach=reach, **settings)
    assert_close(blend, weights @ rows)


@pytest.mark.parametrize("way", ["clamp", "tile", "interpolate", "extrapolate"])
@pytest.mark.parametrize(("old", "length"), [(5, 5), (7, 12), (32, 64), (12, 47)])
def test_longer_tables(way, old, length):
    eye, j = torch.eye(old, dtype=torch.float64), np.arange(length)
    beyond = np.maximum(j - (old - 1), 0)[:, None]
    expected = {
        "clamp": eye.numpy()[np.minimum(j, old - 1)],
        "tile": eye.numpy()[j % old],
        "interpolate": resize(eye, length).numpy(),
        "extrapolate": eye.numpy()[np.minimum(j, old - 1)] + beyond * (eye[-1] - eye[-2]).numpy(),
    }[way]
    settings = {"way": way, "old": old, "length": length, "k": 2, "sharp": 3.5}
    ours = RESIZE("extended(way, old, length)", **settings)
    np.testing.assert_allclose(
        np.reshape(ours, expected.shape), expected, rtol=1e-6, atol=1e-6 if way == "interpolate" else 1e-12
    )
    expected = np.reshape(ours, expected.shape)
    places = RESIZE("sources(weights, old)", weights=ours, **settings)
    assert_close(places, expected @ np.arange(old))
    scores = 3.5 * expected[:, 2:] @ expected[:, :-2].T
    scores = torch.from_numpy(np.where(np.tri(length), scores, -np.inf)).softmax(dim=-1).numpy()
    looks = RESIZE("lookBack(weights, old, k, sharp)", weights=ours, **settings)
    assert_close(looks, scores)


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


@pytest.mark.parametrize(("method", "options"), METHODS)
@pytest.mark.parametrize(("old", "size"), [(8, 10), (5, 12), (14, 9), (6, 6), (7, 3)])
def test_one_axis(method, options, old, size):
    image = torch.eye(old, dtype=torch.float64).reshape(1, old, old, 1).repeat(1, 1, 1, 2)
    expected = F.interpolate(image, size=(size, 2), **options)[0, :, :, 0].T
    code = "Array.from({ length: size }, (_, j) => taps(j, old, size, method))"
    taps = GRIDS(code, old=old, size=size, method=method)
    assert_close(spread(taps, old)[:, 1:], expected)


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
    inputs = {"old": old, "size": size, "method": {"kernel": kernel, "antialias": True}, "n": patches}
    places = np.array([[-1, -1], *np.ndindex(*old)])
    for way, matrix in expected.items():
        mixtures = GRIDS("Array.from({ length: n }, (_, k) => mixture(way, k, old, size, method))", way=way, **inputs)
        np.testing.assert_allclose(spread(mixtures, rows), matrix, err_msg=way, **SINGLE)
        origins = GRIDS("mixed.map((mixture) => origin(mixture, old[1]))", mixed=mixtures, **inputs)
        assert_close(origins, spread(mixtures, rows) @ places, err_msg=way)


@pytest.mark.parametrize(("old", "size"), [((4, 6), (5, 9)), ((8, 8), (10, 10))])
def test_centers_of_patches(old, size):
    axes = [(np.arange(m) + 0.5) * n / m - 0.5 for n, m in zip(old, size, strict=True)]
    ours = GRIDS("Array.from({ length: size[0] * size[1] }, (_, k) => wanted(k, old, size))", old=old, size=size)
    assert_close(ours, np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2))


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_products_of_two_tables(draw, rows):
    a, b = draw.normal(size=(rows, 6)), draw.normal(size=(7, 6))
    tables = {name: table.ravel().tolist() for name, table in (("a", a), ("b", b))}
    ours = PRODUCTS("products(new Float64Array(a), new Float64Array(b), 6)", **tables)
    np.testing.assert_allclose(np.reshape(ours, (rows, 7)), a @ b.T, rtol=1e-9, atol=1e-12)
    ours = PRODUCTS("((table) => products(table, table, 6))(new Float64Array(a))", **tables)
    np.testing.assert_allclose(np.reshape(ours, (rows, rows)), a @ a.T, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rows_turned_to_their_positions(draw, layout):
    theta, first, factor = draw.uniform(0, 1, 4), int(draw.integers(1000)), float(draw.uniform(1, 2))
    options = {"first": first, "attention": factor}
    for x in (draw.normal(size=(5, 8)), draw.normal(size=(1, 8))):
        pairs = [[i, i + 4] if layout == "half" else [2 * i, 2 * i + 1] for i in range(4)]
        code = """turnedBy(new Float64Array(x), 5, 8, pairs,
          wheelOf(5, 4, (p, i) => (p + options.first) * theta[i], () => options.attention))"""
        ours = TABLES(code, x=x.ravel(), theta=theta, options=options, pairs=pairs)
        rows = np.broadcast_to(x, (5, 8))
        expected = rope(rows, first + np.arange(5), theta=theta, layout=layout, attention_factor=factor)
        np.testing.assert_allclose(np.reshape(ours, (5, 8)), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 5, 48, 90])
def test_a_list_resampled(count):
    values = np.random.default_rng(count).uniform(1, 60, 48)
    ours = TABLES("resample(list, count)", list=values, count=count)
    assert_close(ours, np.interp(np.linspace(0, 47, count), np.arange(48), values), atol=0)


@pytest.mark.parametrize("x", [-9.0, -3.6, -1.0, -1e-9, 0.0, 0.3, 2.0, 3.5, 3.54, 6.0, 30.0])
def test_gelu(x):
    expected = torch.nn.functional.gelu(torch.tensor(x, dtype=torch.float64)).item()
    assert GELU("gelu(x)", x=x) == pytest.approx(expected, rel=1e-11, abs=1e-15)


@pytest.mark.parametrize("size", [0.01, 1, 8])
@pytest.mark.parametrize("rows", [1, 2, 5, 8])
def test_the_exponential_of_a_matrix(rows, size):
    matrix = size * np.random.default_rng(rows).normal(size=(rows, rows))
    turn = matrix - matrix.T
    ours = EXPONENTIAL("exponential(matrix.length, (i, j) => matrix[i][j])", matrix=turn)
    expected = torch.matrix_exp(torch.tensor(turn)).numpy()
    np.testing.assert_allclose(np.reshape(ours, (rows, rows)), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("step", [1, 3])
def test_points_that_go_round(draw, step):
    """A point is found between the rows that are kept, and its turns are those of the unwrapped angle."""
    turns, start = draw.uniform(1, 8), draw.uniform(0, 2 * np.pi)
    angle = start + 2 * np.pi * turns * np.arange(0, 200, step) / 199
    radius = 100 * draw.uniform(0.7, 1.3, len(angle))
    track = {"step": step, "x": radius * np.cos(angle), "y": radius * np.sin(angle)}
    kept = np.arange(len(angle)) * step
    for row in (0.0, 1.0, 40.5, 150.0, float(kept[-1])):
        expected = [np.interp(row, kept, track[axis]) / 100 for axis in "xy"]
        assert_close(CIRCLES("placeAt(track, row)", track=track, row=row), expected)
        rows = [*kept[kept <= row], row]
        points = [np.interp(rows, kept, track[axis]) for axis in "xy"]
        unwrapped = np.unwrap(np.arctan2(points[1], points[0]))
        assert_close(
            CIRCLES("turnsUntil(track, row)", track=track, row=row), (unwrapped[-1] - unwrapped[0]) / (2 * np.pi)
        )
    assert_close(CIRCLES("placeAt(track, 1000)", track=track), [track["x"][-1] / 100, track["y"][-1] / 100])
