"""Learned tables: their visits, their components, and tables that nothing trained."""

import numpy as np
import pytest
import torch

from posenc.add.learned import resize
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
VISITS, COMPONENTS, RESIZE = (Script(f"math/{name}.js") for name in ("visits", "components", "resize"))


def tails(kind, rows, mean):
    """The shares of texts longer than p, as chapter 2.1 writes them."""
    p = np.arange(rows)
    return {"packed": np.ones(rows), "uniform": 1 - p / rows, "short": (1 - 1 / mean) ** p}[kind]


@pytest.mark.parametrize("kind", ["packed", "uniform", "short"])
@pytest.mark.parametrize("seed", range(4))
def test_visits_and_updates(seed, kind):
    draw = np.random.default_rng(seed)
    rows, texts, steps = (int(draw.integers(*span)) for span in ((20, 300), (1, 20), (1, 200)))
    given = {"kind": kind, "rows": rows, "mean": float(draw.uniform(4, 90)), "texts": texts, "steps": steps}
    share = tails(kind, rows, given["mean"])
    ours = VISITS("Array.from({ length: rows }, (_, p) => tail(kind, p, rows, mean))", **given)
    np.testing.assert_allclose(ours, share, **CLOSE)
    learned = steps * (1 - (1 - share) ** texts)
    np.testing.assert_allclose(VISITS("t.map((x) => updates(x, texts, steps))", t=ours, **given), learned, **CLOSE)
    expected = steps * texts * share
    np.testing.assert_allclose(VISITS("t.map((x) => visits(x, texts, steps))", t=ours, **given), expected, **CLOSE)
    assert VISITS("edge(t, 50, texts, steps)", t=ours, **given) == (expected >= 50).sum()
    longer = np.random.RandomState(seed).random_sample((steps, texts, 1)) < share  # chapter 2.1, `simulated`
    played = VISITS("run(t, texts, steps, seed)", t=share.tolist(), seed=seed, **given)
    assert played == {"visits": longer.sum((0, 1)).tolist(), "updates": longer.any(1).sum(0).tolist()}


@pytest.mark.parametrize("seed", range(4))
def test_components_of_a_table(seed):
    table = np.random.default_rng(seed).normal(size=(24, 9)).cumsum(axis=0)
    plain = COMPONENTS("centered(table, 9)", table=table.ravel().tolist())
    np.testing.assert_allclose(np.reshape(plain, table.shape), table - table.mean(axis=0), **CLOSE)
    profiles, strengths, _ = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
    rows = np.reshape(plain, table.shape)
    found = COMPONENTS("eigen(products, 24)", products=(rows @ rows.T).ravel().tolist())
    np.testing.assert_allclose(found["values"][:9], strengths**2, rtol=1e-9)
    np.testing.assert_allclose(found["values"][9:], 0, atol=1e-9)
    for ours, theirs in zip(found["vectors"], profiles.T, strict=False):
        np.testing.assert_allclose(np.array(ours) * np.sign(ours @ theirs), theirs, atol=1e-9)


@pytest.mark.parametrize("length", [5, 64])
def test_overtones_are_those_of_a_string(length):
    ours = np.array(COMPONENTS("Array.from({ length: n - 1 }, (_, i) => overtone(i + 1, n))", n=length)).T
    j, difference = np.arange(1, length), np.diff(np.eye(length), axis=0)
    stiffness = 4 * np.sin(np.pi * j / (2 * length)) ** 2
    np.testing.assert_allclose(difference.T @ difference @ ours, ours * stiffness, **CLOSE)
    np.testing.assert_allclose(ours.T @ ours, np.eye(length - 1), **CLOSE)


@pytest.mark.parametrize("reach", [0, 0.4, 3.5, 11])
def test_blended_noise(reach):
    given = {"length": 12, "dim": 5, "margin": 20, "seed": 3}
    rows = np.random.RandomState(3).standard_normal((52, 5))
    ours = COMPONENTS("noise(length, dim, margin, seed)", **given)
    np.testing.assert_allclose(np.reshape(ours, rows.shape), rows, rtol=1e-12)
    gap = np.arange(52) - 20 - np.arange(12)[:, None]
    weights = np.exp(-0.5 * (gap / reach) ** 2) if reach else gap == 0
    weights = weights * (abs(gap) <= 20)
    blend = COMPONENTS("blended(rows, dim, margin, reach)", rows=rows.ravel().tolist(), reach=reach, **given)
    np.testing.assert_allclose(np.reshape(blend, (12, 5)), weights @ rows, **CLOSE)


@pytest.mark.parametrize("way", ["clamp", "tile", "stretch", "extrapolate"])
@pytest.mark.parametrize(("old", "length"), [(5, 5), (7, 12), (32, 64), (12, 47)])
def test_longer_tables(way, old, length):
    eye, j = torch.eye(old, dtype=torch.float64), np.arange(length)
    beyond = np.maximum(j - (old - 1), 0)[:, None]
    expected = {
        "clamp": eye.numpy()[np.minimum(j, old - 1)],
        "tile": eye.numpy()[j % old],
        "stretch": resize(eye, length).numpy(),
        "extrapolate": eye.numpy()[np.minimum(j, old - 1)] + beyond * (eye[-1] - eye[-2]).numpy(),
    }[way]
    given = {"way": way, "old": old, "length": length, "k": 2, "sharp": 3.5}
    ours = RESIZE("extended(way, old, length)", **given)
    np.testing.assert_allclose(
        np.reshape(ours, expected.shape), expected, rtol=1e-6, atol=1e-6 if way == "stretch" else 1e-12
    )
    expected = np.reshape(ours, expected.shape)
    places = RESIZE("sources(weights, old)", weights=ours, **given)
    np.testing.assert_allclose(places, expected @ np.arange(old), **CLOSE)
    scores = 3.5 * expected[:, 2:] @ expected[:, :-2].T
    scores = torch.from_numpy(np.where(np.tri(length), scores, -np.inf)).softmax(dim=-1).numpy()
    looks = RESIZE("lookBack(weights, old, k, sharp)", weights=ours, **given)
    np.testing.assert_allclose(np.reshape(looks, scores.shape), scores, **CLOSE)
