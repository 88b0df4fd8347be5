"""FIRE: shares worked by hand, the biases that it contains, what depends on the offset alone and what does not."""

import math

import mpmath
import numpy as np
import pytest
import torch

from posenc.bias.fire import FIRE, fire
from tests.bias.alike import (
    assert_a_kernel_can_compute,
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"threshold": 4.0, "width": 5}, {"eps": 0.5}]
LEARNED = {"c", "multiplier", "hidden_weight", "hidden_bias", "out_weight", "out_bias"}


def oracle(
    positions,
    key_positions,
    c,
    multiplier,
    hidden_weight,
    hidden_bias,
    out_weight,
    out_bias,
    threshold=512.0,
    eps=1e-6,
):
    """Work out the definition with 60 digits, one pair at a time."""
    bias = np.zeros((len(out_bias), len(positions), len(key_positions)))
    with mpmath.workdps(60):

        def psi(x):
            return mpmath.log(abs(mpmath.mpf(float(c))) * x + 1)

        for t, s in np.ndindex(bias.shape[1:]):
            m, n = mpmath.mpf(float(positions[t])), mpmath.mpf(float(key_positions[s]))
            reach = max(abs(mpmath.mpf(float(multiplier)) * threshold), abs(m), abs(n))
            share = psi(abs(m - n)) / (psi(reach) + eps)
            hidden = [max(float(w[0]) * share + float(b), 0) for w, b in zip(hidden_weight, hidden_bias, strict=True)]
            for h in range(len(out_bias)):
                bias[h, t, s] = mpmath.fdot(map(float, out_weight[h]), hidden) + float(out_bias[h])
    return bias


IDENTITY = {"hidden_weight": [[1.0]], "hidden_bias": [0.0], "out_weight": [[1.0]], "out_bias": [0.0]}


def share(positions, key_positions, c=0.1, multiplier=1.0, **options):
    """Return what the network of FIRE is given: one that returns its input shows it."""
    return fire(positions, key_positions, c, multiplier, **IDENTITY, **options)[0]


# Values worked by hand


def test_shares_by_hand():
    # ln(c d + 1) / ln(c max(L, m) + 1) with c = 1: at distances 3, 1, 0 of a query at 3, by L = 7 and then by itself
    np.testing.assert_allclose(share([3], [0, 2, 3], 1, threshold=7.0), [[2 / 3, 1 / 3, 0]], atol=1e-6)
    np.testing.assert_allclose(share([3], [0, 2, 3], 1, threshold=1.0), [[1, 1 / 2, 0]], atol=1e-6)
    np.testing.assert_allclose(share([3], [0, 2, 3], 1, 7.0, threshold=1.0), [[2 / 3, 1 / 3, 0]], atol=1e-6)


def test_the_network_by_hand():
    # the share is 1/2: relu(2.2/2 - 0.5) = 0.6 and relu(-1/2 + 0.25) = 0
    network = {"hidden_weight": [[2.2], [-1.0]], "hidden_bias": [-0.5, 0.25], "out_bias": [0.125, -1.0]}
    bias = fire([3], [2], 1, 1, out_weight=[[4.0, 100.0], [-6.0, 100.0]], threshold=3, eps=0, **network)
    np.testing.assert_allclose(bias[:, 0, 0], [2.525, -4.6], rtol=1e-14)


def test_eps_is_added_to_the_yardstick():
    # ln(2) / (ln(4) + ln(4))
    np.testing.assert_allclose(share([3], [2], 1, threshold=3, eps=math.log(4)), [[1 / 4]])


def test_a_yardstick_of_0_gives_shares_of_0():
    np.testing.assert_array_equal(share([3, 600], [0, 600], c=0.0), np.zeros((2, 2)))


def test_c_and_the_multiplier_count_by_their_size():
    np.testing.assert_array_equal(share([9], [2], -0.3, -0.01), share([9], [2], 0.3, 0.01))


@vectors("fire")
def test_equals_the_published_code(vector):
    params, inputs = vector["params"], vector["inputs"]
    learned = {
        "c": params["c"],
        "multiplier": params["L_multiplier"],
        "hidden_weight": inputs["W1"],
        "hidden_bias": inputs["b1"],
        "out_weight": inputs["W2"],
        "out_bias": inputs["b2"],
    }
    expected = np.array(vector["expected"]["bias_lower_triangle_valid"])
    m = np.arange(expected.shape[-1])
    bias = fire(m, m, **learned, threshold=params["L"], eps=params["eps"])
    assert_agrees(vector, np.tril(bias), expected)


DAPE_NAMES = {
    "c": "c",
    "L_multiplier": "multiplier",
    "mlp.0.weight": "hidden_weight",
    "mlp.0.bias": "hidden_bias",
    "mlp.2.weight": "out_weight",
    "mlp.2.bias": "out_bias",
}


def test_a_checkpoint_of_the_published_code_loads_by_its_names():
    network = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 12))
    theirs = {f"mlp.{name}": value for name, value in network.state_dict().items()}
    theirs |= {"c": torch.tensor(0.2), "init_L": torch.tensor(64.0), "L_multiplier": torch.tensor(-0.5)}
    encoding = FIRE(12, threshold=theirs["init_L"].item())
    encoding.load_state_dict({DAPE_NAMES[name]: value for name, value in theirs.items() if name in DAPE_NAMES})
    for m in (3, 60):  # by the threshold of 32, and by itself
        shares = torch.log(0.2 * torch.arange(m, -1, -1) + 1) / (math.log(0.2 * max(m, 32) + 1) + 1e-6)
        expected = network(shares[:, None]).mT
        torch.testing.assert_close(encoding(torch.tensor([m]), torch.arange(m + 1))[:, 0], expected)


# Theorem 3.1: FIRE contains T5, ALiBi and KERPLE, up to any length


def through(values, c, threshold):
    """Return parameters with which the bias at the distances 0, 1, 2 ... is `values` (h, D): one ReLU for each."""
    shares = np.log1p(c * np.arange(values.shape[1])) / (np.log1p(c * threshold) + 1e-6)
    slopes = np.diff(values) / np.diff(shares)
    return {
        "c": c,
        "multiplier": 1.0,
        "hidden_weight": np.ones((len(shares) - 1, 1)),
        "hidden_bias": -shares[:-1],
        "out_weight": np.diff(slopes, prepend=0),  # how much the slope changes at each distance
        "out_bias": values[:, 0],
        "threshold": threshold,
    }


DISTANCE = np.arange(64.0)
CONTAINED = {
    "alibi": -(2.0 ** -np.arange(1, 5))[:, None] * DISTANCE,
    "kerple": -np.array([[0.5], [1.7]]) * np.log1p(np.array([[0.3], [0.9]]) * DISTANCE),
    "t5": np.random.default_rng(0).normal(size=(3, 8))[:, np.log2(DISTANCE + 1).astype(int)],
}


@pytest.mark.parametrize("name", CONTAINED)
def test_one_relu_for_each_distance_makes_any_bias(name):
    bias = fire(range(64), range(64), **through(CONTAINED[name], c=0.1, threshold=63.0))
    distance = np.abs(np.subtract.outer(np.arange(64), np.arange(64)))
    np.testing.assert_allclose(bias, CONTAINED[name][:, distance], atol=1e-9)


def test_one_relu_is_kerple_whose_heads_share_a_rate():
    # -r1 ln(r2 d + 1) is -r1 (psi(L) + eps) times the share, where c = r2
    r1, r2 = np.array([[0.5], [1.7]]), 0.3
    network = IDENTITY | {"out_weight": -r1 * (math.log1p(r2 * 100) + 1e-6), "out_bias": [0.0, 0.0]}
    bias = fire([0], range(101), r2, 1, **network, threshold=100)
    np.testing.assert_allclose(bias[:, 0], -r1 * np.log1p(r2 * np.arange(101)), rtol=1e-12)


# What the network sees


def test_up_to_the_threshold_only_the_offset_counts():
    np.testing.assert_array_equal(share([40, 512], [30, 502]).diagonal(), share([10, 10], [0, 0]).diagonal())


def test_beyond_the_threshold_the_place_of_the_query_counts_too():
    # psi(10) = ln 2; psi of 512, 1024 and 2048 with c = 0.1
    shares = share([512, 1024, 2048], [502, 1014, 2038]).diagonal()
    np.testing.assert_allclose(shares, math.log(2) / np.log([52.2, 103.4, 205.8]), rtol=1e-6)
    assert share([100_000], [0])[0, 0] == pytest.approx(1, abs=1e-6)  # whatever the length, the first token is 1 away


def test_a_later_key_is_measured_by_its_own_place_so_that_past_and_future_are_alike():
    # psi(3000) / psi(4000) with c = 0.1
    np.testing.assert_allclose(share([1000], [4000]), [[math.log(301) / math.log(401)]], rtol=1e-6)
    np.testing.assert_array_equal(share([1000], [4000]), share([4000], [1000]))


# The module


def test_parameters_start_as_in_the_published_code():
    torch.manual_seed(0)
    encoding = FIRE(500, width=400)
    assert encoding.c.item() == pytest.approx(0.1)
    assert encoding.multiplier.item() == 1
    for name, bound in {"hidden_weight": 1, "hidden_bias": 1, "out_weight": 0.05, "out_bias": 0.05}.items():
        values = getattr(encoding, name).detach()
        assert 0.98 * bound < values.abs().max().item() <= bound
        assert abs(values.mean().item()) < 0.1 * bound


def test_parameters_in_half_precision_make_a_bias_in_float32():
    coarse, fine, positions = FIRE(1).half(), FIRE(1), torch.arange(40)
    fine.load_state_dict({name: value.float() for name, value in coarse.state_dict().items()})
    assert torch.equal(coarse(positions), fine(positions))


def test_a_kernel_can_compute_the_score_mod():
    assert_a_kernel_can_compute(FIRE(4, 3).score_mod)


# What is refused, and what one row of positions is for


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(FIRE(4, threshold=4.0))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(fire, c=0.1, multiplier=1.0, **IDENTITY)


def test_a_lone_query_needs_keys():
    encoding = FIRE(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)
