"""One number of a rotation rounded, against torch and complex numbers."""

import numpy as np
import pytest
import torch

from posenc.rotate.rope import RoPE
from tests.scripts.javascript import Script
from tests.scripts.test_rounding import CLOSE, DTYPES, kind

SITES = Script("math/sites.js")
NAMES = ["position", "frequency", "angle", "cosine"]


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
@pytest.mark.parametrize("seed", range(4))
def test_hands_and_what_they_miss(seed, site, dtype):
    draw = np.random.default_rng(seed)
    theta = torch.tensor(RoPE(16, base=float(draw.uniform(50, 1e6))).theta, dtype=torch.float64)
    m = int(2 ** draw.uniform(8, 15.9))
    n = m - int(draw.integers(1, 200))
    given = {"m": m, "n": n, "theta": theta.tolist(), "site": site, "kind": kind(dtype)}
    at_m, at_n = (hands(torch.tensor(p), theta, site, dtype) for p in (m, n))
    ours = np.array(SITES("theta.map((t) => hand(m, t, site, kind))", **given))
    np.testing.assert_allclose(ours @ [1, 1j], at_m.numpy(), **CLOSE)
    off = (at_m * at_n.conj() - torch.exp(1j * theta * (m - n))).abs().numpy()
    ours = SITES("theta.map((t) => miss(m, n, t, site, kind))", **given)
    np.testing.assert_allclose(ours, off, **CLOSE)
    np.testing.assert_allclose(SITES("rootMean(x)", x=ours), np.sqrt((off**2).mean()), **CLOSE)


def test_float16_has_no_number_for_far_positions():
    assert np.isnan(SITES('miss(70000, 0, 1, "position", kind)', kind=kind(torch.float16)))


def test_places_of_a_column():
    got = [SITES("placesIn(j, 7, 5000, 4)", j=j) for j in range(7)]
    wanted = np.round(np.exp(np.log(5000) * (np.arange(28) + 0.5) / 28))
    assert np.array_equal(np.ravel(got), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("back", [None, 4, 300])
@pytest.mark.parametrize("site", NAMES)
def test_from_where_on_a_pair_may_be_a_radian_off(site, back, dtype):
    """The bounds of the chapter, solved by trying places."""
    u, theta = 2.0 ** -kind(dtype)["bits"], 0.37
    m = np.geomspace(1, 1e9, 200_001)
    n = 0 * m if back is None else m - back
    bound = {"frequency": u * theta * (m - n), "cosine": 0 * m}.get(site, u * theta * (m + n))
    seen = (n >= 0) & (bound >= 1) & ((m >= 1 / u) | (site != "position"))
    first = m[seen.argmax()] if seen.any() else np.inf
    key = "NaN" if back is None else back
    ours = SITES(f"radianOff(theta, site, kind, {key})", theta=theta, site=site, kind=kind(dtype))
    np.testing.assert_allclose(ours, first, rtol=2e-4)
