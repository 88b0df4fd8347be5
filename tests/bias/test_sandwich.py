"""Sandwich: values worked by hand, inner products of sinusoids, the fall with distance, and what it refuses."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from posenc.add.sinusoidal import kernel
from posenc.bias.sandwich import Sandwich, sandwich
from tests.bias.alike import (
    assert_a_lone_query_needs_keys,
    assert_numpy_takes_one_row,
    assert_one_row_serves_a_batch,
    assert_unsigned_positions_do_not_wrap_around,
)

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"base": 10_000.0}, {"base": 10_000.0, "dim": 128}, {"base": 100.0}]


def oracle(positions, key_positions, heads, dim=128, base=10_000.0):
    """Work out the definition with 60 digits, one pair at a time."""
    bias = np.zeros((heads, len(positions), len(key_positions)))
    with mpmath.workdps(60):
        theta = [mpmath.mpf(base) ** (-mpmath.mpf(2 * k) / dim) for k in range(1, dim // 2 + 1)]
        for t, s in np.ndindex(bias.shape[1:]):
            offset = mpmath.mpf(float(positions[t])) - mpmath.mpf(float(key_positions[s]))
            total = mpmath.fsum(mpmath.cos(offset * rate) for rate in theta) - mpmath.mpf(dim) / 2
            for i in range(heads):
                bias[i, t, s] = total * heads / (8 * (i + 1))
    return bias


def exercise(module):
    module.Sandwich(3).score_mod(torch.arange(5))


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
places = st.lists(st.integers(-1000, 1000), min_size=1, max_size=8)
widths = st.sampled_from([2, 8, 128])


# Values worked by hand


def test_the_first_head_of_one_frequency_by_hand():
    # d = 2: theta = 1/base; 1 head: 1/8 (cos(offset / base) - 1)
    expected = [[(math.cos(0.3) - 1) / 8, (math.cos(0.2) - 1) / 8, 0]]
    np.testing.assert_allclose(sandwich([3], [0, 1, 3], 1, dim=2, base=10)[0], expected, atol=1e-16)


def test_two_frequencies_by_hand():
    # d = 4: theta = 10^-2 and 10^-4
    expected = (math.cos(0.05) + math.cos(0.0005) - 2) / 8
    np.testing.assert_allclose(sandwich([0], [5], 1, dim=4), [[[expected]]], rtol=1e-12)


def test_the_divisor_grows_with_the_head():
    # 8 i / h: 2, 4, 6, 8 for 4 heads
    bias = sandwich([0], [7], 4)[:, 0, 0]
    np.testing.assert_allclose(bias[0] / bias, [1, 2, 3, 4], rtol=1e-15)
    np.testing.assert_allclose(bias[3] * 8, sandwich([0], [7], 1)[0, 0, 0] * 8, rtol=1e-15)


def test_equals_the_loop_of_nemo():
    # nemo/.../sandwich_relative_position_embedding.py, in float64; of one head of width 128, as their hidden_size
    heads, hidden_size = 6, 128
    offset = np.subtract.outer(np.arange(20), np.arange(20))
    rates = 1 / 10000 ** (2 * np.arange(1, hidden_size / 2 + 1) / hidden_size)
    total = np.cos(offset[:, :, None] * rates).sum(axis=2)
    expected = [(total - hidden_size / 2) / (head * 8 / heads) for head in range(1, heads + 1)]
    np.testing.assert_allclose(sandwich(range(20), range(20), heads), expected, atol=1e-12)


@pytest.mark.parametrize("dim", [8, 128])
def test_it_is_the_inner_product_of_sinusoids_counted_from_1(dim):
    # the sinusoidal encoding has theta = 1 and lacks theta = 1/base
    distance = np.arange(500)
    product = kernel(distance, dim) - np.cos(distance) + np.cos(distance / 10_000)
    np.testing.assert_allclose(sandwich([0], distance, 8, dim)[0, 0], product - dim / 2, atol=1e-11)


# What holds at every offset


@given(m=places, shift=st.integers(-(10**6), 10**6), dim=widths)
@exactly
def test_moving_all_tokens_changes_nothing(m, shift, dim):
    moved = [p + shift for p in m]
    np.testing.assert_array_equal(sandwich(moved, moved, 2, dim), sandwich(m, m, 2, dim))


@given(m=places, dim=widths)
@exactly
def test_past_and_future_are_alike_and_every_token_is_nearest_to_itself(m, dim):
    bias = sandwich(m, m, 1, dim)[0]
    np.testing.assert_array_equal(bias, bias.T)
    assert (np.diag(bias) == 0).all()
    assert (bias <= 0).all()


@given(m=places, seed=st.integers(0, 99))
@exactly
def test_but_for_a_constant_it_is_a_kernel(m, seed):
    c = np.random.default_rng(seed).normal(size=len(m))
    assert c @ (sandwich(m, m, 8)[0] + 64) @ c >= -1e-9


def test_it_falls_about_as_the_logarithm_of_the_distance_until_base():
    distance = np.arange(10, 5000)
    slope, _ = np.polyfit(np.log10(distance), sandwich([0], distance, 8)[0, 0], 1)
    assert slope == pytest.approx(-16, rel=0.15)  # h/(8i) d/8 with h = 8, i = 1, d = 128


def test_it_does_not_fall_at_every_step():
    bias = sandwich([0], range(200), 8)[0, 0]
    assert (np.diff(bias[:6]) < 0).all()
    assert np.diff(bias).max() > 0.1


def test_it_is_bounded():
    bias = sandwich([0], np.arange(0, 10**7, 997), 1)[0, 0]
    assert bias.min() > -128 / 8
    assert bias[10_000:].max() < -1


def test_float32_as_nemo_computes_loses_what_float64_keeps():
    # two neighbors at a far offset, with the angles of NeMo's dtype
    offset, k = np.array([10**6, 10**6 + 1]), np.arange(1, 65)
    rates = (1 / 10000 ** (2 * k / 128)).astype(np.float32)
    total = np.cos(offset[:, None].astype(np.float32) * rates).astype(np.float64).sum(axis=1) - 64
    coarse = np.abs(total / 8 - sandwich([0], offset, 1)[0, 0]).max()
    made = Sandwich(1)(torch.tensor([0]), torch.tensor(offset))[0, 0].double().numpy()
    assert coarse > 1e-3
    np.testing.assert_allclose(made, sandwich([0], offset, 1)[0, 0], atol=1e-6)


# The module


def test_nothing_is_learned():
    assert not list(Sandwich(8).parameters())


def test_the_width_is_not_that_of_the_model():
    assert Sandwich(8).dim == 128


def test_two_bases_share_nothing():
    m = torch.arange(50)
    for base in (100.0, 10_000.0, 100.0):
        np.testing.assert_allclose(Sandwich(4, base=base)(m), sandwich(m, m, 4, base=base), atol=1e-5)
    assert (Sandwich(4, base=100.0)(m) != Sandwich(4)(m)).any()


@pytest.mark.parametrize("far", [0, 10**6, 10**7])
def test_the_score_mod_is_as_exact_as_the_bias(far):
    keys = torch.tensor([0, 1, 2, 1000, 4999]) + far
    modify, zero = Sandwich(16).score_mod(keys), torch.zeros((), dtype=torch.long)
    made = [modify(torch.zeros(()), zero, zero, zero + 1, zero + s).item() for s in range(5)]
    np.testing.assert_allclose(made, oracle(keys[1:2], keys, 16)[0, 0], rtol=1e-7, atol=1e-9)


def test_decoding_token_by_token_equals_the_whole():
    encoding, keys = Sandwich(4), torch.arange(9)
    steps = [encoding(keys[p : p + 1], keys) for p in range(9)]
    torch.testing.assert_close(torch.cat(steps, dim=1), encoding(keys), atol=1e-6, rtol=1e-6)


def test_one_token_and_none():
    encoding, one = Sandwich(4), torch.tensor([70])
    torch.testing.assert_close(encoding(one, one), torch.zeros(4, 1, 1))
    assert encoding(torch.arange(0), torch.arange(3)).shape == (4, 0, 3)
    assert encoding(torch.zeros(2, 3), torch.zeros(2, 0)).shape == (2, 4, 3, 0)
    assert sandwich([], [1, 2], 4).shape == (4, 0, 2)


def test_one_row_serves_a_batch():
    assert_one_row_serves_a_batch(Sandwich(4))


def test_the_numpy_function_takes_one_row():
    assert_numpy_takes_one_row(sandwich, heads=2)


def test_gradients_of_positions_are_those_of_the_formula():
    encoding, step = Sandwich(2, dim=8), 1e-5
    m, weights = torch.tensor([0.0, 2.5, 7.0, -40.0], dtype=torch.float64, requires_grad=True), torch.rand(2, 4, 4)
    (encoding(m) * weights).sum().backward()

    def total(place, change):
        moved = m.detach().numpy() + change * np.eye(4)[place]
        return (sandwich(moved, moved, 2, dim=8) * weights.numpy()).sum()

    expected = [(total(place, step) - total(place, -step)) / (2 * step) for place in range(4)]
    np.testing.assert_allclose(m.grad, expected, rtol=1e-6, atol=1e-7)


def test_gradients_of_positions_are_0_at_distance_0():
    encoding, i = Sandwich(2, dim=8), torch.tensor(0)
    m, n = (torch.full((3,), 2.5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    bias = encoding.score_mod(m, n)(torch.zeros(()), i, i, i, i + 1) + encoding(m, n).sum()
    for gradient in torch.autograd.grad(bias, (m, n)):
        torch.testing.assert_close(gradient, torch.zeros(3).double(), rtol=0, atol=1e-12)


def test_unsigned_positions_do_not_wrap_around():
    assert_unsigned_positions_do_not_wrap_around(Sandwich(2))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_takes_the_score_mod():
    from torch.nn.attention.flex_attention import flex_attention

    encoding, (q, k, v) = Sandwich(4, dim=8), torch.randn(3, 2, 4, 6, 16)
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
        Sandwich(4, dim=8).score_mod(torch.arange(6))(torch.zeros(()), zero, zero, zero, zero)
    assert "cos" in calls.names
    assert not {"sum", "mean", "dot", "mv", "mm", "bmm", "addmm"} & set(calls.names)


def test_the_score_mod_keeps_no_strided_tensor_as_cpu_kernels_read_none():
    modify = Sandwich(2, dim=8).score_mod(torch.arange(12)[::2])
    kept = tree_leaves([cell.cell_contents for cell in modify.__closure__])
    tensors = [value for value in kept if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.is_contiguous() for tensor in tensors)


# What is refused: what would give a wrong result without an error


BAD_SETTINGS = {
    "heads": ([0, -1], "1 or more"),
    "dim": ([0, -2, 7], "even, 2 or more"),
    "base": ([0, -1.0, float("inf"), float("nan")], "positive and finite"),
}


@pytest.mark.parametrize(("name", "bad"), [(name, bad) for name, (bads, _) in BAD_SETTINGS.items() for bad in bads])
def test_wrong_settings_are_refused(name, bad):
    setting = {"heads": 4, name: bad}
    for call in (lambda: Sandwich(**setting), lambda: sandwich([0], [0], **setting)):
        with pytest.raises(ValueError, match=f"sandwich: {name} must be {BAD_SETTINGS[name][1]}, got {bad}"):
            call()


def test_a_lone_query_needs_keys():
    encoding = Sandwich(2)
    assert_a_lone_query_needs_keys(encoding, encoding.score_mod)


def test_two_batches_are_refused_by_torch():
    with pytest.raises(RuntimeError, match="size"):
        Sandwich(2)(torch.zeros(2, 3), torch.zeros(3, 3))
