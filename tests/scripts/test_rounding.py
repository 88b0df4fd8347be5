"""Rounded angles and partly turning heads in the live figures, against torch, NumPy and the package."""

import itertools

import numpy as np
import pytest
import torch

from posenc.rotate.frequencies import proportional
from posenc.rotate.rope import RoPE, rope
from tests.scripts.javascript import Script

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
ROUNDING, PARTIAL = Script("math/rounding.js"), Script("math/partial.js")
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


def kind(dtype):
    info = torch.finfo(dtype)
    return {
        "bits": 1 - int(np.log2(info.eps)),
        "low": int(np.log2(info.tiny)),
        "high": int(np.floor(np.log2(np.float64(info.max)))),
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_of_a_type(dtype):
    draw = np.random.default_rng(0)
    values = np.concatenate([
        draw.normal(size=200) * 10.0 ** draw.uniform(-9, 9, 200),
        draw.integers(0, 2**26, 200),
        np.arange(240, 530),  # with ties
        [0, 65_504, 65_519, 65_520, 7e4, 3.0e-8, 6.1e-5, -0.1],
    ])  # fmt: skip
    if dtype != torch.float32:  # by way of which torch rounds to shorter types
        values = values.astype(np.float32).astype(float)
    ours = ROUNDING("values.map((v) => stored(v, kind))", values=values.tolist(), kind=kind(dtype))
    exact = torch.tensor(values).to(dtype).double().numpy()
    np.testing.assert_array_equal(np.array(ours, float), exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(8))
def test_angles(seed, dtype):
    draw = np.random.default_rng(seed)
    theta = RoPE(int(draw.integers(2, 64)) * 2).theta
    positions = draw.integers(0, 60_000 if dtype == torch.float16 else 2**27, 5)
    exact = torch.tensor(positions).to(dtype)[:, None] * torch.tensor(theta, dtype=dtype)
    given = {"theta": np.asarray(theta).tolist(), "kind": kind(dtype), "positions": positions.tolist()}
    np.testing.assert_array_equal(
        np.array(ROUNDING("positions.map((p) => angles(p, theta, kind))", **given), float), exact.double().numpy()
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [0.5, 1, 1.5, 2, 4, 7])
def test_what_looks_alike(dtype, times):
    start = int(2 ** kind(dtype)["bits"] * times)
    places = torch.arange(start, start + 32).to(dtype).double().numpy()
    for m in range(4, 32):
        miss = abs(places[: m + 1] - (places[m] - 4))
        assert ROUNDING("alike(p, m, 4)", p=places.tolist(), m=m) == np.flatnonzero(miss == miss.min()).tolist()


@pytest.mark.parametrize("times", [0.5, 1, 2, 5])
def test_share_of_right_answers(times):
    """Against majorities that are counted over all words, in the boxes that torch makes."""
    start = int(256 * times)
    places = torch.arange(start, start + 14).bfloat16().double().numpy()
    chances = []
    for m in range(4, 14):
        miss = abs(places[: m + 1] - (places[m] - 4))
        box = np.flatnonzero(miss == miss.min())
        words = itertools.product(range(2), repeat=len(box))
        most = np.mean([max(map(word.count, word)) for word in words]) / len(box)
        chances.append(most if m - 4 in box else 1 / 2)
    np.testing.assert_allclose(ROUNDING("rightShare(p, 4, 2)", p=places.tolist()), np.mean(chances), **CLOSE)


@pytest.mark.parametrize("seed", range(8))
def test_partial_rotation(seed):
    draw = np.random.default_rng(seed)
    dim, base = int(draw.integers(2, 64)) * 2, float(np.exp(draw.uniform(np.log(2), np.log(1e6))))
    rotary = int(draw.integers(1, dim // 2 + 1)) * 2
    theta = np.array(PARTIAL("partial(dim, share, base)", dim=dim, share=rotary / dim, base=base))
    package = RoPE(dim, base=base, rotary_dim=rotary)
    np.testing.assert_allclose(theta[: rotary // 2], package.theta, **CLOSE)
    np.testing.assert_array_equal(theta[rotary // 2 :], np.zeros((dim - rotary) // 2))
    ones, far = np.ones((1, dim)), draw.uniform(0, 5000)
    match = (rope(ones, [far], base=base, rotary_dim=rotary) @ ones.T).item()
    np.testing.assert_allclose(2 * np.cos(far * theta).sum(), match, **CLOSE)


@pytest.mark.parametrize("fraction", [0.25, 0.5, 1])
@pytest.mark.parametrize(("first", "last"), [(1, 1), (3, 8), (500, 4096)])
def test_mean_match(fraction, first, last):
    theta = proportional(32, fraction)[0]
    ones = np.ones((1, 32))
    far = rope(np.tile(ones, (last - first + 1, 1)), np.arange(first, last + 1), theta=theta) @ ones.T
    ours = PARTIAL("meanMatch(theta, first, last)", theta=theta.tolist(), first=first, last=last)
    np.testing.assert_allclose(ours, far.mean() / 32, **CLOSE)
