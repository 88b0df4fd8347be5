"""FIRE: shares worked by hand, the biases that it contains, what depends on the offset alone and what does not."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc.bias.fire import FIRE, fire
from tests.bias.alike import (
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
    assert_unsigned_positions_do_not_wrap_around,
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


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
places = st.integers(0, 5000)
numbers = st.floats(0.01, 3)


def share(positions, key_positions, c=0.1, multiplier=1.0, **options):
    """Return what the network of FIRE is given: one that returns its input shows it."""
    return fire(positions, key_positions, c, multiplier, [[1.0]], [0.0], [[1.0]], [0.0], **options)[0]


def through(values, c, threshold, eps=1e-6):
    """Return parameters with which the bias at the distances 0, 1, 2 ... is `values` (h, D): one ReLU for each."""
    values = np.atleast_2d(values)
    places = np.log1p(c * np.arange(values.shape[1])) / (np.log1p(c * threshold) + eps)
    slopes = np.diff(values) / np.diff(places)
    bends = np.diff(slopes, prepend=0)
    return {
        "c": c,
        "multiplier": 1.0,
        "hidden_weight": np.ones((len(places) - 1, 1)),
        "hidden_bias": -places[:-1],
        "out_weight": bends,
        "out_bias": values[:, 0],
        "threshold": threshold,
    }


def loaded(parameters, dtype=torch.float64, **options):
    parameters = {name: torch.tensor(np.asarray(value)) for name, value in parameters.items()}
    heads, width = parameters["out_weight"].shape
    encoding = FIRE(heads, width, **options).to(dtype)
    encoding.load_state_dict(parameters)
    return encoding


def small():
    torch.manual_seed(0)
    return FIRE(2, 3, threshold=4.7).double()


# Values worked by hand


def test_shares_by_hand():
    # ln(c d + 1) / ln(c max(L, m) + 1) with c = 1: at distances 3, 1, 0 of a query at 3, by L = 7 and then by itself
    np.testing.assert_allclose(share([3], [0, 2, 3], 1, threshold=7.0), [[2 / 3, 1 / 3, 0]], atol=1e-6)
    np.testing.assert_allclose(share([3], [0, 2, 3], 1, threshold=1.0), [[1, 1 / 2, 0]], atol=1e-6)
    np.testing.assert_allclose(share([3], [0, 2, 3], 1, 7.0, threshold=1.0), [[2 / 3, 1 / 3, 0]], atol=1e-6)


def test_the_network_by_hand():
    # the share is 1/2: relu(2/2 - 0.5) = 0.5 and relu(-1/2 + 0.25) = 0
    network = {"hidden_weight": [[2.0], [-1.0]], "hidden_bias": [-0.5, 0.25], "out_bias": [0.125, -1.0]}
    bias = fire([3], [2], 1, 1, out_weight=[[4.0, 100.0], [-6.0, 100.0]], threshold=3, **network)
    np.testing.assert_allclose(bias[:, 0, 0], [2.125, -4], atol=1e-5)


def test_eps_is_added_to_the_normaliser():
    np.testing.assert_allclose(share([3], [2], 1, threshold=3, eps=math.log(4)), [[1 / 4]])


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
    expected, options = np.array(vector["expected"]["bias_lower_triangle_valid"]), {"threshold": params["L"]}
    length = expected.shape[-1]
    bias = fire(range(length), range(length), **learned, **options, eps=params["eps"])
    assert_agrees(vector, np.tril(bias), expected)
    made = loaded(learned, torch.float32, **options, eps=params["eps"])(torch.arange(length))
    assert_agrees(vector, made.detach().tril(), expected)


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
        near = torch.log(0.2 * torch.arange(m, -1, -1) + 1) / (math.log(0.2 * max(m, 32) + 1) + 1e-6)
        expected = network(near[:, None]).mT
        torch.testing.assert_close(encoding(torch.tensor([m]), torch.arange(m + 1))[:, 0], expected)


# Theorem 3.1: FIRE contains T5, ALiBi and KERPLE, up to any length

DISTANCE = np.arange(64.0)
CONTAINED = {
    "alibi": -(2.0 ** -np.arange(1, 5))[:, None] * DISTANCE,
    "kerple log": -np.array([[0.5], [1.7]]) * np.log1p(np.array([[0.3], [0.9]]) * DISTANCE),
    "kerple power": -np.array([[0.5], [0.1]]) * DISTANCE ** np.array([[0.4], [2.0]]),
    "t5, 9 buckets": np.random.default_rng(0).normal(size=(3, 9))[
        :, np.minimum(DISTANCE, 2 + np.log2(DISTANCE + 1)).astype(int)
    ],
    "anything": np.random.default_rng(0).normal(size=(2, 64)),
}


@pytest.mark.parametrize("name", CONTAINED)
def test_one_relu_for_each_distance_makes_any_bias(name):
    parameters = through(CONTAINED[name], c=0.1, threshold=63.0)
    distance = np.subtract.outer(np.arange(64), np.arange(64))
    expected = CONTAINED[name][:, np.abs(distance)]
    np.testing.assert_allclose(fire(range(64), range(64), **parameters), expected, atol=1e-9)
    del parameters["threshold"]
    made = loaded(parameters, threshold=63.0)(torch.arange(64)).detach()
    torch.testing.assert_close(made, torch.tensor(expected).float(), atol=1e-6, rtol=1e-6)


def test_one_relu_is_kerple_whose_heads_share_a_rate():
    r1, r2, eps = np.array([0.5, 1.7]), 0.3, 1e-6
    out_weight = -r1[:, None] * (math.log1p(r2 * 100) + eps)
    bias = fire(range(101), range(101), r2, 1, [[1.0]], [0.0], out_weight, [0.0, 0.0], threshold=100)
    distance = np.abs(np.subtract.outer(np.arange(101), np.arange(101)))
    np.testing.assert_allclose(bias, -r1[:, None, None] * np.log1p(r2 * distance), rtol=1e-12)


def test_one_relu_is_alibi_in_the_limit_of_a_small_c():
    # ln(c d + 1) / c is d up to c d^2 / 2
    slopes, c, eps = 2.0 ** -np.arange(1, 9), 1e-10, 1e-6
    out_weight = -slopes[:, None] * (math.log1p(c * 1000) + eps) / c
    bias = fire(range(1001), [0], c, 1, [[1.0]], [0.0], out_weight, np.zeros(8), threshold=1000)
    np.testing.assert_allclose(bias[..., 0], -slopes[:, None] * np.arange(1001), atol=1e-4)


# What the network sees


@given(m=places, n=places, c=numbers, multiplier=numbers)
@exactly
def test_shares_lie_between_0_and_1(m, n, c, multiplier):
    assert 0 <= share([m], [n], c, multiplier)[0, 0] <= 1


@given(m=places, n=places, c=numbers)
@exactly
def test_past_and_future_are_alike(m, n, c):
    np.testing.assert_array_equal(share([m], [n], c), share([n], [m], c))


@given(m=st.integers(0, 400), n=st.integers(0, 400), shift=st.integers(0, 112), c=numbers)
@exactly
def test_up_to_the_threshold_only_the_offset_counts(m, n, shift, c):
    np.testing.assert_array_equal(share([m + shift], [n + shift], c), share([m], [n], c))


def test_beyond_the_threshold_the_place_of_the_query_counts_too():
    shares = share([512, 1024, 2048], [502, 1014, 2038]).diagonal()
    np.testing.assert_allclose(shares, math.log(2) / np.log(np.array([52.2, 103.4, 205.8])), rtol=1e-6)
    assert share([100_000], [0])[0, 0] == pytest.approx(1, abs=1e-6)  # whatever the length, the first token is 1 away


def test_a_later_key_is_measured_by_its_own_place():
    by_key = math.log(0.1 * 3000 + 1) / math.log(0.1 * 4000 + 1)
    np.testing.assert_allclose(share([1000], [4000]), [[by_key]], rtol=1e-6)


def test_counting_from_1_as_the_paper_does_matters_beyond_the_threshold_only():
    m = np.arange(10)
    from_1 = share(m + 1, m + 1, threshold=5)
    np.testing.assert_array_equal(from_1[:5, :5], share(m, m, threshold=5)[:5, :5])
    np.testing.assert_allclose(from_1[7, 0], math.log(1.7) / (math.log(1.8) + 1e-6))
    assert share(m, m, threshold=5)[7, 0] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("c", [0.1, 0.0, -2.0])
def test_no_position_gives_anything_but_numbers(c):
    positions = np.array([-(10.0**7), -600, -3, -0.5, 0, 2, 600, 1e7])
    assert np.isfinite(share(positions, positions, c)).all()
    encoding = FIRE(2)
    with torch.no_grad():
        encoding.c.fill_(c)
    assert encoding(torch.tensor(positions)).isfinite().all()


# Gradients


def parameters_of(encoding):
    return {name: value.detach().numpy().copy() for name, value in encoding.named_parameters()}


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_gradients_are_those_of_the_formula(name):
    torch.manual_seed(1)
    encoding, m, step = FIRE(2, 3, threshold=4.7).double(), torch.arange(9), 1e-6
    encoding(m).square().sum().backward()
    learned = parameters_of(encoding)
    actual = getattr(encoding, name).grad.numpy()
    for index in np.ndindex(learned[name].shape):
        totals = []
        for sign in (1, -1):
            moved = learned | {name: learned[name].copy()}
            moved[name][index] += sign * step
            totals.append(np.square(fire(m, m, **moved, threshold=4.7)).sum())
        np.testing.assert_allclose(actual[index], (totals[0] - totals[1]) / (2 * step), rtol=1e-5, atol=1e-5)


def test_gradients_are_finite_where_all_tokens_stand_at_one_place():
    encoding = FIRE(2)
    encoding(torch.zeros(4)).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in encoding.parameters())


# The module


def test_parameters_start_as_in_the_published_code():
    torch.manual_seed(0)
    encoding = FIRE(500, width=400)
    assert (encoding.c.item(), encoding.multiplier.item()) == (pytest.approx(0.1), 1)
    for name, bound in {"hidden_weight": 1, "hidden_bias": 1, "out_weight": 0.05, "out_bias": 0.05}.items():
        values = getattr(encoding, name).detach()
        assert 0.98 * bound < values.abs().max().item() <= bound
        assert abs(values.mean().item()) < 0.1 * bound


def test_decoding_token_by_token_equals_the_whole():
    encoding, keys = FIRE(4, threshold=4.0), torch.arange(9)
    steps = [encoding(keys[p : p + 1], keys[: p + 1]) for p in range(9)]
    for p, step in enumerate(steps):
        torch.testing.assert_close(step, encoding(keys)[:, p : p + 1, : p + 1])


def test_one_token_and_none():
    encoding, one = FIRE(4), torch.tensor([70])
    assert encoding(one, one).shape == (4, 1, 1)
    assert encoding(torch.arange(0), torch.arange(3)).shape == (4, 0, 3)
    assert encoding(torch.zeros(2, 3), torch.zeros(2, 0)).shape == (2, 4, 3, 0)
    assert fire([], [0, 1], 0.1, 1, [[1.0]], [0.0], [[1.0]], [0.0]).shape == (1, 0, 2)


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(FIRE(4, threshold=4.0))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(fire, **through([0.0, 1.0, 5.0], 0.1, 3.0))


def test_gradients_of_positions_are_those_of_the_formula():
    encoding, step = small(), 1e-5
    learned = {name: value.detach().numpy() for name, value in encoding.named_parameters()}
    m, weights = torch.tensor([0.0, 2.5, 7.0, -40.0], dtype=torch.float64, requires_grad=True), torch.rand(2, 4, 4)
    (encoding(m) * weights).sum().backward()

    def total(place, change):
        moved = m.detach().numpy() + change * np.eye(4)[place]
        return (fire(moved, moved, **learned, threshold=4.7) * weights.numpy()).sum()

    expected = [(total(place, step) - total(place, -step)) / (2 * step) for place in range(4)]
    np.testing.assert_allclose(m.grad, expected, rtol=1e-6, atol=1e-7)


def test_gradients_of_positions_are_0_at_distance_0():
    encoding, i = small(), torch.tensor(0)
    m, n = (torch.full((3,), 2.5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    bias = encoding.score_mod(m, n)(torch.zeros(()), i, i, i, i + 1) + encoding(m, n).sum()
    for gradient in torch.autograd.grad(bias, (m, n)):
        torch.testing.assert_close(gradient, torch.zeros(3).double(), rtol=0, atol=0)


def test_unsigned_positions_do_not_wrap_around():
    assert_unsigned_positions_do_not_wrap_around(FIRE(2))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_takes_the_score_mod():
    from torch.nn.attention.flex_attention import flex_attention

    encoding, (q, k, v) = FIRE(4, threshold=3.0), torch.randn(3, 2, 4, 6, 16)
    with torch.no_grad():
        made = flex_attention(q, k, v, score_mod=encoding.score_mod(torch.arange(6)))
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=encoding(torch.arange(6)))
    torch.testing.assert_close(made, expected)


def test_the_score_mod_sums_over_no_axis_as_kernels_cannot():
    class Calls(TorchDispatchMode):
        names = ()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names += (func.overloadpacket.__name__,)
            return func(*args, **(kwargs or {}))

    zero = torch.zeros((), dtype=torch.long)
    with Calls() as calls:
        FIRE(4, 3).score_mod(torch.arange(6))(torch.zeros(()), zero, zero, zero, zero)
    assert "relu" in calls.names
    assert not {"sum", "mean", "dot", "mv", "mm", "bmm", "addmm"} & set(calls.names)


def test_the_score_mod_keeps_no_strided_tensor_as_cpu_kernels_read_none():
    modify = FIRE(2).score_mod(torch.arange(12)[::2])
    kept = tree_leaves([cell.cell_contents for cell in modify.__closure__])
    tensors = [value for value in kept if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.is_contiguous() for tensor in tensors)


def test_the_bias_is_float32_in_every_dtype_of_the_parameters():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert FIRE(2).to(dtype)(torch.arange(3)).dtype == torch.float32


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("heads", [0, -1])
def test_a_number_of_heads_that_is_none_is_refused(heads):
    with pytest.raises(ValueError, match=f"fire: heads must be 1 or more, got {heads}"):
        FIRE(heads)


def test_a_lone_query_needs_keys():
    encoding = FIRE(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)


def test_two_batches_are_refused_by_torch():
    with pytest.raises(RuntimeError, match="size"):
        FIRE(2)(torch.zeros(2, 3), torch.zeros(3, 3))


@pytest.mark.parametrize(("name", "shape"), [("hidden_weight", (7, 1)), ("hidden_bias", (7,)), ("out_weight", (1, 7))])
def test_a_network_whose_layers_do_not_fit_is_refused_by_numpy(name, shape):
    good = {"positions": [0], "key_positions": [0], **through([0.0, 1.0, 5.0], 0.1, 3.0)}
    with pytest.raises(ValueError, match=r"broadcast|mismatch"):
        fire(**good | {name: np.zeros(shape)})
