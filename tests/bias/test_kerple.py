"""KERPLE: values worked by hand, ALiBi as one of the powers, kernels, and rates at and beyond their bounds."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

from posenc.bias.kerple import FLOOR, FORMS, KERPLE, kerple
from tests.bias.alike import (
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
    assert_unsigned_positions_do_not_wrap_around,
)
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{}, {"form": "power"}]
LEARNED = {"r1", "r2"}


def oracle(positions, key_positions, r1, r2, form="log"):
    """Work out the definition with 60 digits, one pair at a time."""
    bias = np.zeros((len(r1), len(positions), len(key_positions)))
    with mpmath.workdps(60):
        for h, t, s in np.ndindex(bias.shape):
            distance = abs(mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s])))
            factor, rate = max(mpmath.mpf(float(r1[h])), FLOOR), max(mpmath.mpf(float(r2[h])), FLOOR)
            fall = mpmath.log(1 + rate * distance) if form == "log" else distance ** min(rate, 2)
            bias[h, t, s] = -factor * fall
    return bias


def exercise(module):
    module.KERPLE(3).score_mod(torch.arange(5))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
each_form = pytest.mark.parametrize("form", FORMS)
rates = st.floats(0.01, 2)
places = st.lists(st.integers(-1000, 1000), min_size=2, max_size=8, unique=True)


def with_rates(r1, r2, form="log", dtype=torch.float32):
    encoding = KERPLE(len(r1), form).to(dtype)
    encoding.load_state_dict({"r1": torch.tensor(r1), "r2": torch.tensor(r2)})
    return encoding


# Values worked by hand


def test_the_logarithm_by_hand():
    # -0.5 ln(1 + 3 |m - n|) at distances 3, 2, 1, 0, 1
    expected = -0.5 * np.log([10, 7, 4, 1, 4])
    np.testing.assert_allclose(kerple([3], [0, 1, 2, 3, 4], [0.5], [3.0])[0, 0], expected, rtol=1e-15)


def test_the_power_by_hand():
    np.testing.assert_allclose(
        kerple([4], [0, 3, 4], [0.5, 3.0], [0.5, 2.0], "power")[:, 0], [[-1, -0.5, 0], [-48, -3, 0]]
    )


def test_a_power_of_1_is_alibi():
    slopes = 2.0 ** -np.arange(1, 9)
    floor = np.maximum(slopes, FLOOR)  # the least slopes of 8 heads lie below what KERPLE can learn
    distance = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    bias = kerple(range(20), range(20), slopes, np.ones(8), "power")
    np.testing.assert_array_equal(bias, -floor[:, None, None] * distance)


def test_the_logarithm_makes_a_power_law_of_the_weights():
    bias = kerple([1000], range(1001), [1.5], [1.0])[0, 0]
    np.testing.assert_allclose(np.exp(bias), (1.0 + np.arange(1000, -1, -1)) ** -1.5, rtol=1e-13)


def test_each_head_has_its_own_rates():
    both = kerple([7, 2], range(5), [0.3, 1.2], [0.7, 0.1])
    np.testing.assert_array_equal(both[:1], kerple([7, 2], range(5), [0.3], [0.7]))
    np.testing.assert_array_equal(both[1:], kerple([7, 2], range(5), [1.2], [0.1]))


@vectors("kerple_log")
def test_the_logarithm_equals_the_authors_code(vector):
    params, expected = vector["params"], np.array(vector["expected"]["bias_lower_triangle_valid"])
    length = expected.shape[-1]
    bias = kerple(range(length), range(length), params["p"], params["a"])
    assert_agrees(vector, np.tril(bias), expected)
    encoding = with_rates(params["p"], params["a"])
    assert_agrees(vector, encoding(torch.arange(length)).detach().tril(), expected)
    assert params["clamp_min"] == FLOOR


# Distance only


@given(m=places, shift=st.integers(-(10**6), 10**6), r1=rates, r2=rates, form=st.sampled_from(FORMS))
@exactly
def test_moving_all_tokens_changes_nothing(m, shift, r1, r2, form):
    moved = [p + shift for p in m]
    np.testing.assert_array_equal(kerple(moved, moved, [r1], [r2], form), kerple(m, m, [r1], [r2], form))


@given(m=places, r1=rates, r2=rates, form=st.sampled_from(FORMS))
@exactly
def test_past_and_future_are_alike(m, r1, r2, form):
    bias = kerple(m, m, [r1], [r2], form)[0]
    np.testing.assert_array_equal(bias, bias.T)
    assert (np.diag(bias) == 0).all()


@given(r1=rates, r2=rates, form=st.sampled_from(FORMS))
@exactly
def test_the_bias_falls_with_the_distance(r1, r2, form):
    assert (np.diff(kerple([0], range(100), [r1], [r2], form)[0, 0]) < 0).all()


# Kernels


@given(m=places, r1=rates, r2=rates, form=st.sampled_from(FORMS), seed=st.integers(0, 99))
@exactly
def test_the_bias_is_conditionally_positive_definite(m, r1, r2, form, seed):
    c = np.random.default_rng(seed).normal(size=len(m))
    c -= c.mean()
    bias = kerple(m, m, [r1], [r2], form)[0]
    assert c @ bias @ c >= -1e-12 * np.abs(bias).max()


@each_form
def test_a_constant_makes_it_positive_definite(form):
    bias = kerple(range(30), range(30), [0.7], [1.5], form)[0]
    assert np.linalg.eigvalsh(bias).min() < -1
    assert np.linalg.eigvalsh(bias + 1e4).min() > 0


def test_an_exponent_above_2_makes_no_kernel():
    c, distance = np.array([1.0, -2.0, 1.0]), np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    assert c @ -(distance**3.0) @ c < 0
    assert c @ kerple(range(3), range(3), [1.0], [3.0], "power")[0] @ c >= 0  # 3 counts as 2


# Rates at and beyond their bounds


@each_form
def test_a_rate_beyond_its_bound_counts_as_the_bound(form):
    r1, r2 = [-0.5, 0.0, 5.0, 0.3], [0.2, -3.0, 0.0, 7.0]
    held1, held2 = [0.01, 0.01, 5.0, 0.3], [0.2, 0.01, 0.01, 7.0 if form == "log" else 2.0]
    expected = kerple(range(9), range(9), held1, held2, form)
    np.testing.assert_array_equal(kerple(range(9), range(9), r1, r2, form), expected)
    bias = with_rates(r1, r2, form, torch.float64)(torch.arange(9)).detach()
    np.testing.assert_allclose(bias, expected, rtol=1e-6)


@each_form
def test_a_rate_beyond_its_bound_is_neither_written_to_nor_stuck(form):
    encoding = with_rates([-0.5], [-0.5], form)
    encoding(torch.arange(9)).mean().backward()
    assert encoding.r1.item() == encoding.r2.item() == -0.5
    at_the_bound = with_rates([FLOOR], [FLOOR], form)
    at_the_bound(torch.arange(9)).mean().backward()
    for name in ("r1", "r2"):
        gradient = getattr(encoding, name).grad
        assert gradient.item() != 0
        torch.testing.assert_close(gradient, getattr(at_the_bound, name).grad)


@each_form
def test_gradients_are_those_of_the_formula(form):
    r1, r2, step = [0.4, 1.1], [0.7, 1.9], 1e-5
    encoding, keys = with_rates(r1, r2, form, torch.float64), [0, 1, 2.5, 40]
    encoding(torch.zeros(1), torch.tensor(keys)).sum().backward()

    def total(dr1, dr2):
        return kerple([0], keys, np.add(r1, dr1), np.add(r2, dr2), form).sum(axis=(1, 2))

    np.testing.assert_allclose(encoding.r1.grad, (total(step, 0) - total(-step, 0)) / (2 * step), rtol=1e-6)
    np.testing.assert_allclose(encoding.r2.grad, (total(0, step) - total(0, -step)) / (2 * step), rtol=1e-6)


@each_form
def test_gradients_of_positions_are_those_of_the_formula(form):
    encoding, step = with_rates([0.4, 1.1], [0.3, 1.9], form, torch.float64), 1e-5
    m, weights = torch.tensor([0.0, 2.5, 7.0, -40.0], dtype=torch.float64, requires_grad=True), torch.rand(2, 4, 4)
    (encoding(m) * weights).sum().backward()

    def total(place, change):
        moved = m.detach().numpy() + change * np.eye(4)[place]
        return (kerple(moved, moved, [0.4, 1.1], [0.3, 1.9], form) * weights.numpy()).sum()

    expected = [(total(place, step) - total(place, -step)) / (2 * step) for place in range(4)]
    np.testing.assert_allclose(m.grad, expected, rtol=1e-6, atol=1e-7)


@each_form
def test_gradients_of_positions_are_0_at_distance_0(form):
    encoding, i = with_rates([0.4, 1.1], [0.3, 1.9], form, torch.float64), torch.tensor(0)
    m, n = (torch.full((3,), 2.5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    bias = encoding.score_mod(m, n)(torch.zeros(()), i, i, i, i + 1) + encoding(m, n).sum()
    for gradient in torch.autograd.grad(bias, (m, n)):
        torch.testing.assert_close(gradient, torch.zeros(3).double(), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")  # which torch.func.jvp calls
@pytest.mark.parametrize("r2", [0.01, 0.5, 1.0, 1.5, 2.0])
def test_every_derivative_of_a_power_is_finite_where_it_starts(r2):
    encoding, m = with_rates([0.7], [r2], "power", torch.float64), torch.tensor([0.0, 3.0, 3.0, 8.0]).double()
    together, apart = torch.ones(4).double(), torch.arange(4).double()
    bias, change = torch.func.jvp(encoding, (m,), (together,))
    np.testing.assert_allclose(bias.detach(), kerple(m, m, [0.7], [r2], "power"), rtol=1e-6)
    torch.testing.assert_close(change, torch.zeros(1, 4, 4))
    assert torch.func.jvp(encoding, (m,), (apart,))[1].isfinite().all()
    assert torch.func.hessian(lambda places: encoding(places).sum())(m).isfinite().all()


@each_form
def test_gradients_are_finite_at_distance_0(form):
    encoding = with_rates([0.5, 0.5], [0.01, 1.5], form)
    encoding(torch.zeros(3)).sum().backward()
    assert torch.equal(encoding.r1.grad, torch.zeros(2))
    assert torch.equal(encoding.r2.grad, torch.zeros(2))


def test_training_brings_a_rate_back_from_beyond_its_bound():
    target = with_rates([0.8], [0.3])(torch.arange(20)).detach()
    encoding = with_rates([1.8], [-0.4])
    optimizer = torch.optim.Adam(encoding.parameters(), lr=0.05)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = (encoding(torch.arange(20)) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert encoding.r2.item() > 0.1
    assert losses[-1] < losses[0] / 100


# The module


@pytest.mark.parametrize(("form", "ends"), [("log", (2, 1)), ("power", (1, 2))])
def test_rates_start_uniform_as_in_the_authors_code(form, ends):
    torch.manual_seed(0)
    encoding = KERPLE(20_000, form)
    for rate, end in zip((encoding.r1, encoding.r2), ends, strict=True):
        assert 0 <= rate.min().item() < 0.001 * end
        assert 0.999 * end < rate.max().item() <= end
        assert abs(rate.mean().item() - end / 2) < 0.02 * end


def test_a_checkpoint_of_the_authors_loads_by_its_values():
    state = {"bias_p": torch.rand(4, 1, 1) * 2, "bias_a": torch.rand(4, 1, 1)}
    encoding = KERPLE(4)
    encoding.load_state_dict({"r1": state["bias_p"].flatten(), "r2": state["bias_a"].flatten()})
    distance = torch.arange(6)[:, None] - torch.arange(6)
    theirs = -state["bias_p"].clamp(min=0.01) * torch.log(1 + state["bias_a"].clamp(min=0.01) * distance.tril())
    torch.testing.assert_close(encoding(torch.arange(6)).detach().tril(), theirs)


@each_form
def test_decoding_token_by_token_equals_the_whole(form):
    encoding, keys = KERPLE(4, form), torch.arange(9)
    steps = [encoding(keys[p : p + 1], keys) for p in range(9)]
    torch.testing.assert_close(torch.cat(steps, dim=1), encoding(keys))


@each_form
def test_one_token_and_none(form):
    encoding, one = KERPLE(4, form), torch.tensor([70])
    assert torch.equal(encoding(one, one), torch.zeros(4, 1, 1))
    assert encoding(torch.arange(0), torch.arange(3)).shape == (4, 0, 3)
    assert encoding(torch.zeros(2, 3), torch.zeros(2, 0)).shape == (2, 4, 3, 0)
    assert kerple([], range(3), [1.0], [1.0], form).shape == (1, 0, 3)


@each_form
def test_one_row_serves_a_batch(form):
    assert_one_row_serves_a_batch(KERPLE(4, form))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(kerple, r1=[0.5], r2=[1.5])


def test_unsigned_positions_do_not_wrap_around():
    assert_unsigned_positions_do_not_wrap_around(KERPLE(2))


@each_form
@pytest.mark.parametrize("far", [2**24, 2**40], ids=["2^24", "2^40"])
def test_neighbors_stay_apart_wherever_they_stand(form, far):
    encoding, near = KERPLE(2, form), torch.arange(4)
    torch.testing.assert_close(encoding(near + far), encoding(near), atol=0, rtol=0)
    zero = torch.zeros((), dtype=torch.long)
    made = encoding.score_mod(near + far)(torch.zeros(()), zero, zero, zero, zero + 1)
    torch.testing.assert_close(made, encoding(near)[0, 0, 1])


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@each_form
def test_flex_attention_takes_the_score_mod(form):
    from torch.nn.attention.flex_attention import flex_attention

    encoding, (q, k, v) = KERPLE(4, form), torch.randn(3, 2, 4, 6, 16)
    with torch.no_grad():
        bias = encoding(torch.arange(6))
        made = flex_attention(q, k, v, score_mod=encoding.score_mod(torch.arange(6)))
        torch.testing.assert_close(made, torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias))


def test_the_score_mod_keeps_no_strided_tensor_as_cpu_kernels_read_none():
    modify = KERPLE(2).score_mod(torch.arange(12)[::2])
    kept = tree_leaves([cell.cell_contents for cell in modify.__closure__])
    tensors = [value for value in kept if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.is_contiguous() for tensor in tensors)


def test_the_bias_is_float32_in_every_dtype_of_the_rates():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert KERPLE(2).to(dtype)(torch.arange(3)).dtype == torch.float32


# What is refused: what would give a wrong result without an error


@pytest.mark.parametrize("heads", [0, -1])
def test_a_number_of_heads_that_is_none_is_refused(heads):
    with pytest.raises(ValueError, match=f"kerple: heads must be 1 or more, got {heads}"):
        KERPLE(heads)


@pytest.mark.parametrize("form", ["linear", None, 2], ids=repr)
def test_an_unknown_form_is_refused(form):
    for call in (lambda: KERPLE(2, form), lambda: kerple([0], [0], [1.0], [1.0], form)):
        with pytest.raises(ValueError, match=r"kerple: form must be one of \('log', 'power'\), got"):
            call()


def test_a_lone_query_needs_keys():
    encoding = KERPLE(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)


def test_two_batches_are_refused_by_torch():
    with pytest.raises(RuntimeError, match="size"):
        KERPLE(2)(torch.zeros(2, 3), torch.zeros(3, 3))


def test_rates_of_different_heads_are_refused_by_numpy():
    with pytest.raises(ValueError, match="broadcast"):
        kerple([0], [0], [1.0] * 2, [1.0] * 3)
