"""Sinusoidal: values worked by hand, the three orders, wavelengths, the kernel, the shift matrix, scale and dropout."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.add.sinusoidal import ORDERS, Sinusoidal, kernel, shift_matrix, sinusoidal, wavelengths
from tests.vectors import assert_agrees, vectors

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [
    {},
    {"base": 100.0},
    {"order": "split"},
    {"order": "tensor2tensor"},
    {"order": "tensor2tensor", "dim": 7},
]


def oracle(positions, dim, base=10_000.0, order="interleaved"):
    """Work out the definition with 60 digits, one element at a time."""
    with mpmath.workdps(60):
        table = np.zeros((len(positions), dim))
        for row, p in enumerate(positions.tolist()):
            for i in range(dim // 2):
                steps = dim // 2 - 1 if order == "tensor2tensor" else mpmath.mpf(dim) / 2
                angle = p * mpmath.mpf(base) ** (-mpmath.mpf(i) / steps)
                sine, cosine = (2 * i, 2 * i + 1) if order == "interleaved" else (i, dim // 2 + i)
                table[row, sine], table[row, cosine] = mpmath.sin(angle), mpmath.cos(angle)
    return table


def exercise(module):
    module.wavelengths(8)
    module.kernel(np.arange(3), 8)
    module.shift_matrix(1, 8)


at_every_width = pytest.mark.parametrize(
    ("order", "dim"), [("interleaved", 8), ("split", 6), ("tensor2tensor", 4), ("tensor2tensor", 9)]
)
shifts = st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100))


# Values worked by hand


def test_position_0_is_zeros_and_ones():
    np.testing.assert_array_equal(sinusoidal([0], 6), [[0, 1, 0, 1, 0, 1]])


def test_position_1_at_width_4():
    # theta = 1 and 10,000^(-2/4) = 1/100; sin x = x - x^3/6 + x^5/120, cos x = 1 - x^2/2 + x^4/24
    slow_sine = 0.01 - 0.01**3 / 6 + 0.01**5 / 120
    slow_cosine = 1 - 0.01**2 / 2 + 0.01**4 / 24
    expected = [[0.8414709848078965, 0.5403023058681398, slow_sine, slow_cosine]]
    np.testing.assert_allclose(sinusoidal([1], 4), expected, rtol=1e-14)


def test_the_frequencies_fall_by_base_to_the_2_over_d():
    # at width 6 and base 8 the frequencies are 1, 8^(-1/3) = 1/2 and 8^(-2/3) = 1/4
    expected = [[math.sin(2), math.cos(2), math.sin(1), math.cos(1), math.sin(0.5), math.cos(0.5)]]
    np.testing.assert_allclose(sinusoidal([2], 6, base=8), expected, rtol=1e-14)


def test_a_quarter_turn_is_a_position_like_any_other():
    np.testing.assert_allclose(sinusoidal([math.pi / 2, -math.pi / 2], 2), [[1, 0], [-1, 0]], atol=1e-15)


def test_every_row_has_norm_root_of_half_the_width():
    norms = np.linalg.norm(sinusoidal(np.arange(1000), 64), axis=-1)
    np.testing.assert_allclose(norms, math.sqrt(32), rtol=1e-14)


# The three orders


def test_split_is_interleaved_with_its_channels_permuted():
    positions = np.arange(50)
    interleaved = sinusoidal(positions, 8)
    np.testing.assert_array_equal(sinusoidal(positions, 8, order="split"), interleaved[:, [0, 2, 4, 6, 1, 3, 5, 7]])


def test_tensor2tensor_by_hand():
    # three steps between four frequencies: 1, 10^(-4/3), 10^(-8/3), 10^-4; here fairseq's row 4, all sines first
    sines = [-0.7568025, 0.1845987, 0.008617632, 0.0004]
    cosines = [-0.6536436, 0.982814, 0.9999629, 0.9999999]
    np.testing.assert_allclose(sinusoidal([4], 8, order="tensor2tensor")[0], sines + cosines, rtol=1e-6)


def test_tensor2tensor_of_odd_width_ends_with_a_zero_channel():
    # two steps between three frequencies: 1, 10^-2, 10^-4; fairseq's row 2
    expected = [0.9092974, 0.01999867, 0.0002, -0.4161468, 0.9998, 1.0, 0.0]
    np.testing.assert_allclose(sinusoidal([2], 7, order="tensor2tensor")[0], expected, rtol=1e-6)


def test_tensor2tensor_of_the_least_width():
    expected = [[math.sin(1), math.sin(1e-4), math.cos(1), math.cos(1e-4)]]
    np.testing.assert_allclose(sinusoidal([1], 4, order="tensor2tensor"), expected)


@vectors("sincos_vaswani")
def test_tables_of_labml(vector):
    params = vector["params"]
    assert_agrees(vector, sinusoidal(np.arange(params["n"]), params["dim"]), vector["expected"]["pe"])


@vectors("sincos_tensor2tensor")
def test_tables_of_fairseq_whose_padding_row_is_zero(vector):
    params = vector["params"]
    table = sinusoidal(np.arange(params["num_embeddings"]), params["dim"], order="tensor2tensor")
    if params["padding_idx"] is not None:
        table[params["padding_idx"]] = 0
    assert_agrees(vector, table, vector["expected"]["pe"])


# Wavelengths


def test_wavelengths_by_hand():
    np.testing.assert_allclose(wavelengths(8), 2 * math.pi * np.array([1, 10, 100, 1000]), rtol=1e-14)


def test_the_slowest_wavelength_stays_below_that_of_the_base_but_for_tensor2tensor():
    np.testing.assert_allclose(wavelengths(512)[-1], 2 * math.pi * 10_000 ** (1 - 2 / 512), rtol=1e-13)
    np.testing.assert_allclose(wavelengths(512, order="tensor2tensor")[-1], 2 * math.pi * 10_000, rtol=1e-13)


def test_a_channel_repeats_after_its_wavelength():
    for i, wavelength in enumerate(wavelengths(8)):
        here, later = sinusoidal([3.0, 3.0 + wavelength], 8)[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(here, later, atol=1e-11)


# The kernel


def test_the_kernel_by_hand():
    np.testing.assert_allclose(kernel(3, 4), math.cos(3) + math.cos(0.03), rtol=1e-15)
    far = 2**24 + 1  # no float32
    np.testing.assert_allclose(kernel(far, 4), math.cos(far) + math.cos(far / 100), atol=1e-8)


@at_every_width
def test_the_kernel_is_the_dot_product_at_every_offset_and_position(order, dim):
    distance = np.arange(-200, 201)
    for p in (0, 17, 4321):
        here, there = (sinusoidal(at, dim, order=order) for at in ([p], p + distance))
        np.testing.assert_allclose(kernel(distance, dim, order=order), there @ here[0], atol=1e-11)


def test_the_kernel_is_even_and_half_the_width_at_0():
    assert kernel(0, 64) == 32
    np.testing.assert_array_equal(kernel(np.arange(100), 16), kernel(-np.arange(100), 16))


# The shift matrix


def test_the_shift_matrix_by_hand():
    sine, cosine = math.sin(2), math.cos(2)
    np.testing.assert_allclose(shift_matrix(2, 2), [[cosine, sine], [-sine, cosine]], rtol=1e-15)


@at_every_width
@given(p=shifts, a=shifts, b=shifts)
@settings(deadline=None, derandomize=True, database=None, max_examples=30)
def test_shift_matrices_are_rotations_that_move_every_position_and_add_up(order, dim, p, a, b):
    moved, there = sinusoidal([p, p + a], dim, order=order)
    matrix = shift_matrix(a, dim, order=order)
    np.testing.assert_allclose(matrix @ moved, there, atol=1e-10)
    np.testing.assert_allclose(
        matrix @ shift_matrix(b, dim, order=order), shift_matrix(a + b, dim, order=order), atol=1e-10
    )
    np.testing.assert_array_equal(shift_matrix(-a, dim, order=order), matrix.T)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(dim), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(matrix), 1, rtol=1e-13)


def test_the_trace_of_a_shift_is_twice_the_kernel():
    np.testing.assert_allclose(np.trace(shift_matrix(5, 16)), 2 * kernel(5, 16), rtol=1e-14)


# The module: scale and dropout


def test_scale_multiplies_the_embeddings_by_the_root_of_the_width_and_not_the_table():
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    table = torch.from_numpy(sinusoidal(range(5), 16))
    torch.testing.assert_close(Sinusoidal(16, scale=True)(x), 4 * x + table)
    torch.testing.assert_close(Sinusoidal(16)(x), x + table)


def test_dropout_zeroes_its_share_of_the_sum_and_scales_up_the_rest():
    torch.manual_seed(0)
    x = torch.full((100, 100, 16), 2.0)
    whole = Sinusoidal(16)(x)  # without dropout by default, in training too
    dropping = Sinusoidal(16, dropout=0.25)
    dropped = dropping(x)
    kept = dropped != 0
    share = 1 - kept.double().mean().item()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / x.numel())
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.75)
    assert torch.equal(dropping.eval()(x), whole)


def test_a_sequence_without_a_batch_is_encoded():
    x = torch.randn(5, 8)
    assert torch.equal(Sinusoidal(8)(x), Sinusoidal(8)(x[None])[0])


# Precision


def test_no_length_is_too_long():
    result = Sinusoidal(2)(torch.zeros(1, 100_000, 2))
    np.testing.assert_allclose(result[0, -1], [math.sin(99_999), math.cos(99_999)], atol=1e-7)


def test_the_table_is_float64_whatever_the_module_is_cast_to():
    assert Sinusoidal(8).bfloat16().table(torch.arange(5)).dtype == torch.float64


@pytest.mark.parametrize("order", ORDERS)
def test_float64_loses_less_than_1e_8_even_at_ten_million(order):
    positions = np.array([10**6, 10**7 - 1, 10**7])
    np.testing.assert_allclose(sinusoidal(positions, 512, order=order), oracle(positions, 512, order=order), atol=1e-8)


def test_bfloat16_embeddings_get_the_exact_table_rounded_once():
    positions = torch.tensor([1_000_000, 257, 256, 9_999_999])
    encoded = Sinusoidal(64).bfloat16()(torch.zeros(1, 4, 64, dtype=torch.bfloat16), positions)
    assert torch.equal(encoded[0], torch.from_numpy(oracle(positions, 64)).bfloat16())


# What is refused


@pytest.mark.parametrize(
    ("x", "positions"),
    [
        ((3, 5, 8), [7]),  # a position for 5 tokens
        ((3, 5, 8), [[0], [1], [2], [3], [4]]),
        ((3, 5, 8), [[0, 1, 2, 3, 4]] * 2),  # 2 rows for a batch of 3
        ((3, 5, 8), [[p] * 3 for p in range(5)]),  # tokens before batch
        ((5, 8), [[0, 1, 2, 3, 4]]),  # a sequence does not become a batch
        ((10, 2, 8), list(range(10))),  # along the first axis of embeddings (t, b, d)
    ],
    ids=str,
)
def test_positions_that_would_broadcast_are_refused(x, positions):
    misfit = torch.tensor(positions)
    fitting = re.escape(f"({x[-2]},) or {x[:-1]}, got {tuple(misfit.shape)}")
    with pytest.raises(ValueError, match=f"sinusoidal: positions must have shape {fitting}"):
        Sinusoidal(8)(torch.randn(x), misfit)


@pytest.mark.parametrize("x", [torch.ones(3, 5, 1), torch.ones(3, 8, 5), torch.ones(3, 5, 8).long()], ids=str)
def test_embeddings_of_another_width_or_of_integers_are_refused(x):
    message = f"sinusoidal: x must have shape (b, t, 8) and a float dtype, got {x.dtype} {tuple(x.shape)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        Sinusoidal(8)(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda **wrong: sinusoidal(3, **wrong),
        lambda **wrong: kernel(3, **wrong),
        lambda **wrong: shift_matrix(3, **wrong),
        wavelengths,
        Sinusoidal,
    ],
)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, "dim must be even and positive, got 0"),
        ({"dim": 1}, "dim must be even and positive, got 1"),
        ({"dim": 7}, "dim must be even and positive, got 7"),
        ({"dim": 8.5}, "dim must be even and positive, got 8.5"),
        ({"dim": 3, "order": "tensor2tensor"}, "dim must be at least 4, got 3"),  # it divides by d/2 - 1
        ({"base": 0}, "base must be positive and finite, got 0"),
        ({"base": math.inf}, "base must be positive and finite, got inf"),
        ({"order": "half"}, "order must be one of interleaved, split, tensor2tensor, got 'half'"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_by_class_and_functions(call, changes, message):
    with pytest.raises(ValueError, match=f"sinusoidal: {message}"):
        call(**{"dim": 8} | changes)


@pytest.mark.parametrize("k", [[1.0, 2.0], np.arange(4)], ids=str)
def test_a_shift_by_several_numbers_is_refused_by_python(k):
    with pytest.raises(TypeError):
        shift_matrix(k, 8)
