"""Rotations in numbers of few bits, or with one number rounded, against torch and complex numbers."""

import itertools

import numpy as np
import pytest
import torch

from posenc.rotate.rope import RoPE
from tests.scripts.javascript import Script, assert_close

SITES, ROUNDING = Script("math/sites.js"), Script("math/rounding.js")
DTYPES = [torch.bfloat16, torch.float16, torch.float32]
NAMES = ["position", "frequency", "angle", "cosine"]


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
    ours = ROUNDING("values.map((v) => stored(v, kind))", values=values, kind=kind(dtype))
    exact = torch.tensor(values).to(dtype).double().numpy()
    np.testing.assert_array_equal(np.array(ours, float), exact)


@pytest.mark.parametrize("dtype", DTYPES)
def test_angles(draw, dtype):
    theta = RoPE(int(draw.integers(2, 64)) * 2).theta
    positions = draw.integers(0, 60_000 if dtype == torch.float16 else 2**27, 5)
    exact = torch.tensor(positions).to(dtype)[:, None] * torch.tensor(theta, dtype=dtype)
    inputs = {"theta": np.asarray(theta), "kind": kind(dtype), "positions": positions}
    np.testing.assert_array_equal(
        np.array(ROUNDING("positions.map((p) => angles(p, theta, kind))", **inputs), float), exact.double().numpy()
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [0.5, 1, 1.5, 2, 4, 7])
def test_what_looks_alike(dtype, times):
    start = int(2 ** kind(dtype)["bits"] * times)
    places = torch.arange(start, start + 32).to(dtype).double().numpy()
    for m in range(4, 32):
        miss = abs(places[: m + 1] - (places[m] - 4))
        assert ROUNDING("alike(p, m, 4)", p=places, m=m) == np.flatnonzero(miss == miss.min()).tolist()


@pytest.mark.parametrize("times", [0.5, 1, 2, 5])
def test_share_of_right_answers(times):
    """Against majorities that are counted over all words, in the boxes that torch makes."""
    start = int(256 * times)
    places = torch.arange(start, start + 14).bfloat16().double().numpy()
    chances = []
    for m in range(4, 14):
        miss = abs(places[: m + 1] - (places[m] - 4))
        box = np.flatnonzero(miss == miss.min())
        sequences = itertools.product(range(2), repeat=len(box))
        most = np.mean([max(map(sequence.count, sequence)) for sequence in sequences]) / len(box)
        chances.append(most if m - 4 in box else 1 / 2)
    assert_close(ROUNDING("rightShare(p, 4, 2)", p=places), np.mean(chances))


def hands(p, theta, site, dtype):
    """e^(iθp) of each pair, in float64 but for `site`."""

    def rounded(here, x):
        return x.to(dtype).double() if site == here else x

    angle = rounded("position", p.double())[..., None] * rounded("frequency", theta)
    angle = rounded("angle", angle)
    return torch.complex(rounded("cosine", angle.cos()), rounded("cosine", angle.sin()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cast(dtype):
    """Also where float64 and float32 round to different sides."""
    values = [0.1, -2.7, 1e-9, 70_000.5, 1 + 2**-8 + 2**-30, 1 + 2**-11 + 2**-30, 1 + 2**-24 + 2**-50]
    ours = SITES("values.map((v) => cast(v, kind))", values=values, kind=kind(dtype))
    exact = torch.tensor(values, dtype=torch.float64).to(dtype).double().numpy()
    np.testing.assert_array_equal(np.array(ours, float), exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("site", NAMES)
def test_hands_and_what_they_miss(draw, site, dtype):
    theta = torch.tensor(RoPE(16, base=float(draw.uniform(50, 1e6))).theta, dtype=torch.float64)
    m = int(2 ** draw.uniform(8, 15.9))
    n = m - int(draw.integers(1, 200))
    inputs = {"m": m, "n": n, "theta": theta.tolist(), "site": site, "kind": kind(dtype)}
    at_m, at_n = (hands(torch.tensor(p), theta, site, dtype) for p in (m, n))
    ours = np.array(SITES("theta.map((t) => hand(m, t, site, kind))", **inputs))
    assert_close(ours @ [1, 1j], at_m.numpy())
    off = (at_m * at_n.conj() - torch.exp(1j * theta * (m - n))).abs().numpy()
    ours = SITES("theta.map((t) => miss(m, n, t, site, kind))", **inputs)
    assert_close(ours, off)
    assert_close(SITES("rootMean(x)", x=ours), np.sqrt((off**2).mean()))


def test_float16_has_no_number_for_far_positions():
    assert np.isnan(SITES('miss(70000, 0, 1, "position", kind)', kind=kind(torch.float16)))


def test_places_of_a_column():
    actual = [SITES("placesIn(j, 7, 5000, 4)", j=j) for j in range(7)]
    expected = np.round(np.exp(np.log(5000) * (np.arange(28) + 0.5) / 28))
    assert np.array_equal(np.ravel(actual), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("back", [None, 4, 300])
@pytest.mark.parametrize("site", NAMES)
def test_from_where_on_a_pair_may_be_a_radian_off(site, back, dtype):
    """The bounds of the chapter, solved by trying places."""
    u, theta = 2.0 ** -kind(dtype)["bits"], 0.37
    m = np.geomspace(1, 1e9, 200_001)
    n = 0 * m if back is None else m - back
    bound = {"frequency": u * theta * (m - n), "cosine": 0 * m}.get(site, u * theta * (m + n))
    is_off = (n >= 0) & (bound >= 1) & ((m >= 1 / u) | (site != "position"))
    first = m[is_off.argmax()] if is_off.any() else np.inf
    key = "NaN" if back is None else back
    ours = SITES(f"radianOff(theta, site, kind, {key})", theta=theta, site=site, kind=kind(dtype))
    np.testing.assert_allclose(ours, first, rtol=2e-4)
