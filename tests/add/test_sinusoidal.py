"""Sinusoidal: values worked by hand, the three orders, the shift matrix, and what it refuses."""

import copy
import inspect
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


each_order = pytest.mark.parametrize("order", ORDERS)
each_width = pytest.mark.parametrize(
    ("order", "dim"), [("interleaved", 8), ("split", 8), ("tensor2tensor", 8), ("tensor2tensor", 7)]
)
exactly = settings(deadline=None, derandomize=True, database=None, max_examples=50)
shifts = st.one_of(st.integers(-10_000, 10_000), st.floats(-100, 100))
widths = st.sampled_from(
    [("interleaved", 2), ("interleaved", 12), ("split", 6), ("tensor2tensor", 4), ("tensor2tensor", 9)]
)


# Values worked by hand


def test_position_0_is_zeros_and_ones():
    np.testing.assert_array_equal(sinusoidal([0], 6), [[0, 1, 0, 1, 0, 1]])


def test_no_positions_give_an_empty_table():
    assert sinusoidal(np.arange(0), 8).shape == (0, 8)
    assert Sinusoidal(8)(torch.zeros(2, 0, 8)).shape == (2, 0, 8)


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


def test_a_published_table_of_width_8():
    # labml.ai, get_positional_encoding, row 3
    row = [0.14112, -0.9899925, 0.2955202, 0.9553365, 0.0299955, 0.99955, 0.002999995, 0.9999955]
    np.testing.assert_allclose(sinusoidal([3], 8)[0], row, rtol=1e-5)


def test_a_width_of_2_has_one_frequency():
    np.testing.assert_allclose(sinusoidal([5], 2), [[math.sin(5), math.cos(5)]])


def test_the_numpy_table_takes_any_leading_axes():
    positions = np.arange(12).reshape(2, 2, 3)
    np.testing.assert_array_equal(sinusoidal(positions, 8), sinusoidal(np.arange(12), 8).reshape(2, 2, 3, 8))


def test_every_row_has_norm_root_of_half_the_width():
    norms = np.linalg.norm(sinusoidal(np.arange(1000), 64), axis=-1)
    np.testing.assert_allclose(norms, math.sqrt(32), rtol=1e-14)


# The three orders


def test_split_is_interleaved_with_its_channels_permuted():
    positions = np.arange(50)
    interleaved, split = sinusoidal(positions, 8), sinusoidal(positions, 8, order="split")
    np.testing.assert_array_equal(split, interleaved[:, [0, 2, 4, 6, 1, 3, 5, 7]])


def test_tensor2tensor_by_hand():
    # three steps between four frequencies: 1, 10^(-4/3), 10^(-8/3), 10^-4; here fairseq's row 4, all sines first
    sines, cosines = [-0.7568025, 0.1845987, 0.008617632, 0.0004], [-0.6536436, 0.982814, 0.9999629, 0.9999999]
    np.testing.assert_allclose(sinusoidal([4], 8, order="tensor2tensor")[0], sines + cosines, rtol=1e-6)


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


def test_tensor2tensor_of_odd_width_ends_with_a_zero_channel():
    # two steps between three frequencies: 1, 10^-2, 10^-4; fairseq's row 2
    expected = [0.9092974, 0.01999867, 0.0002, -0.4161468, 0.9998, 1.0, 0.0]
    np.testing.assert_allclose(sinusoidal([2], 7, order="tensor2tensor")[0], expected, rtol=1e-6)


def test_the_zero_channel_adds_nothing():
    x = torch.randn(2, 5, 7)
    encoded = Sinusoidal(7, order="tensor2tensor")(x)
    assert torch.equal(encoded[..., -1], x[..., -1])


def test_tensor2tensor_of_the_least_width():
    expected = [[math.sin(1), math.sin(1e-4), math.cos(1), math.cos(1e-4)]]
    np.testing.assert_allclose(sinusoidal([1], 4, order="tensor2tensor"), expected)


# Wavelengths


def test_wavelengths_by_hand():
    np.testing.assert_allclose(wavelengths(8), 2 * math.pi * np.array([1, 10, 100, 1000]), rtol=1e-14)


def test_the_slowest_wavelength_stays_below_that_of_the_base():
    np.testing.assert_allclose(wavelengths(512)[-1], 2 * math.pi * 10_000 ** (1 - 2 / 512), rtol=1e-13)


def test_the_slowest_wavelength_of_tensor2tensor_is_that_of_the_base():
    np.testing.assert_allclose(wavelengths(512, order="tensor2tensor")[-1], 2 * math.pi * 10_000, rtol=1e-13)


def test_a_channel_repeats_after_its_wavelength():
    for i, wavelength in enumerate(wavelengths(8)):
        here, later = sinusoidal([3.0, 3.0 + wavelength], 8)[:, 2 * i : 2 * i + 2]
        np.testing.assert_allclose(here, later, atol=1e-11)


# The kernel


@each_width
def test_the_kernel_is_the_dot_product_at_every_offset_and_place(order, dim):
    distance = np.arange(-200, 201)
    for p in (0, 17, 4321):
        here, there = (sinusoidal(at, dim, order=order) for at in ([p], p + distance))
        np.testing.assert_allclose(kernel(distance, dim, order=order), there @ here[0], atol=1e-11)


def test_the_kernel_by_hand():
    np.testing.assert_allclose(kernel(3, 4), math.cos(3) + math.cos(0.03), rtol=1e-15)


def test_the_kernel_is_exact_far_out():
    far = 2**24 + 1  # no float32
    np.testing.assert_allclose(kernel(far, 4), math.cos(far) + math.cos(far / 100), atol=1e-8)


def test_the_kernel_at_0_is_half_the_width():
    assert kernel(0, 64) == 32


def test_the_kernel_is_even():
    np.testing.assert_array_equal(kernel(np.arange(100), 16), kernel(-np.arange(100), 16))


def test_the_kernel_keeps_the_shape_of_the_distances():
    assert kernel(np.zeros((3, 4, 5)), 8).shape == (3, 4, 5)


# The shift matrix


def test_the_shift_matrix_by_hand():
    sine, cosine = math.sin(2), math.cos(2)
    np.testing.assert_allclose(shift_matrix(2, 2), [[cosine, sine], [-sine, cosine]], rtol=1e-15)


@given(p=shifts, k=shifts, width=widths)
@exactly
def test_the_shift_matrix_moves_every_position_by_k(p, k, width):
    order, dim = width
    moved = sinusoidal([p], dim, order=order)[0]
    there = sinusoidal([p + k], dim, order=order)[0]
    np.testing.assert_allclose(shift_matrix(k, dim, order=order) @ moved, there, atol=1e-10)


@given(a=shifts, b=shifts, width=widths)
@exactly
def test_shifts_add_up(a, b, width):
    order, dim = width
    product = shift_matrix(a, dim, order=order) @ shift_matrix(b, dim, order=order)
    np.testing.assert_allclose(product, shift_matrix(a + b, dim, order=order), atol=1e-10)


@given(k=shifts, width=widths)
@exactly
def test_shifting_back_is_the_transpose(k, width):
    order, dim = width
    np.testing.assert_array_equal(shift_matrix(-k, dim, order=order), shift_matrix(k, dim, order=order).T)


@given(k=shifts, width=widths)
@exactly
def test_a_shift_is_a_rotation(k, width):
    order, dim = width
    matrix = shift_matrix(k, dim, order=order)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(dim), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(matrix), 1, rtol=1e-13)


@each_width
def test_no_shift_is_the_identity(order, dim):
    np.testing.assert_array_equal(shift_matrix(0, dim, order=order), np.eye(dim))


def test_the_trace_of_a_shift_is_twice_the_kernel():
    np.testing.assert_allclose(np.trace(shift_matrix(5, 16)), 2 * kernel(5, 16), rtol=1e-14)


# The module: scale, dropout, table


def test_the_table_is_added():
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    np.testing.assert_allclose((Sinusoidal(8)(x) - x).numpy(), np.stack([sinusoidal(range(5), 8)] * 2), atol=1e-15)


def test_scale_multiplies_the_embeddings_by_the_root_of_the_width_and_not_the_table():
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    torch.testing.assert_close(Sinusoidal(16, scale=True)(x), 4 * x + Sinusoidal(16).table(torch.arange(5)))


def test_nothing_is_scaled_by_default():
    encoded = Sinusoidal(16)(torch.zeros(1, 1, 16), torch.tensor([0]))
    assert torch.equal(encoded, torch.tensor([0.0, 1.0] * 8).view(1, 1, 16))


def test_dropout_zeroes_its_share_of_the_sum_and_scales_up_the_rest():
    torch.manual_seed(0)
    x = torch.full((100, 100, 16), 2.0)
    whole, dropped = Sinusoidal(16)(x), Sinusoidal(16, dropout=0.25)(x)
    kept = dropped != 0
    share = 1 - kept.double().mean().item()
    assert abs(share - 0.25) < 5 * math.sqrt(0.25 * 0.75 / x.numel())
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.75)


def test_dropout_differs_from_call_to_call():
    encoding, x = Sinusoidal(16, dropout=0.5), torch.ones(4, 10, 16)
    assert not torch.equal(encoding(x), encoding(x))


def test_dropout_rests_in_eval_mode():
    x = torch.randn(4, 10, 16)
    assert torch.equal(Sinusoidal(16, dropout=0.5).eval()(x), Sinusoidal(16)(x))


def test_dropout_is_off_by_default():
    x = torch.randn(4, 10, 16)
    assert torch.equal(Sinusoidal(16).train()(x), Sinusoidal(16).eval()(x))


def test_a_sequence_without_a_batch_is_encoded():
    x = torch.randn(5, 8)
    assert torch.equal(Sinusoidal(8)(x), Sinusoidal(8)(x[None])[0])


def test_no_length_is_too_long():
    x = torch.zeros(1, 100_000, 2)
    np.testing.assert_allclose(Sinusoidal(2)(x)[0, -1], [math.sin(99_999), math.cos(99_999)], atol=1e-7)


@pytest.mark.parametrize("positions", [torch.tensor([9, 0, 4, 4, 70]), torch.arange(15).view(3, 5)], ids=["t", "b, t"])
def test_adding_a_table_by_hand_gives_what_its_positions_give(positions):
    encoding, x = Sinusoidal(8), torch.randn(3, 5, 8)
    assert torch.equal(x + encoding.table(positions).to(x), encoding(x, positions))


def test_the_table_is_float64_whatever_the_module_is_cast_to():
    assert Sinusoidal(8).bfloat16().table(torch.arange(5)).dtype == torch.float64


def test_decoding_token_by_token_equals_encoding_at_once():
    encoding, x = Sinusoidal(8), torch.randn(2, 6, 8)
    steps = [encoding(x[:, p : p + 1], positions=torch.tensor([p])) for p in range(6)]
    assert torch.equal(torch.cat(steps, dim=1), encoding(x))


def test_left_padded_rows_take_their_own_positions():
    x = torch.randn(1, 4, 8)
    padded = torch.cat([torch.zeros(1, 3, 8), x], dim=1)
    positions = torch.tensor([[0, 0, 0, 0, 1, 2, 3]])
    assert torch.equal(Sinusoidal(8)(padded, positions)[:, 3:], Sinusoidal(8)(x))


def test_a_module_can_be_copied():
    encoding, x = Sinusoidal(8, base=50.0), torch.randn(2, 5, 8)
    assert torch.equal(copy.deepcopy(encoding)(x), encoding(x))


# What fits and what does not: none of these may be broadcast in silence

MISFITS = {
    "one position for 5 tokens": [7],
    "4 positions for 5 tokens": [0, 1, 2, 3],
    "6 positions for 5 tokens": [0, 1, 2, 3, 4, 5],
    "a scalar": 7,
    "a column": [[0], [1], [2], [3], [4]],
    "one row of 4 for 5 tokens": [[0, 1, 2, 3]],
    "2 rows for a batch of 3": [[0, 1, 2, 3, 4]] * 2,
    "tokens before batch": [[p] * 3 for p in range(5)],
    "one position for each sequence": [[0], [1], [2]],
}


def test_one_row_of_positions_serves_a_batch():
    encode, x, places = Sinusoidal(8), torch.randn(3, 5, 8), torch.tensor([7, 0, 2, 70, 2])
    assert torch.equal(encode(x, places[None]), encode(x, places))


@pytest.mark.parametrize("name", MISFITS)
def test_positions_that_do_not_fit_are_refused(name):
    misfit = torch.tensor(MISFITS[name])
    said = rf"sinusoidal: positions must be \(5,\) or \(3, 5\), got {re.escape(str(tuple(misfit.shape)))}"
    with pytest.raises(ValueError, match=said):
        Sinusoidal(8)(torch.randn(3, 5, 8), misfit)


def test_one_sequence_does_not_become_a_batch():
    with pytest.raises(ValueError, match=r"sinusoidal: positions must be \(5,\) .*, got \(1, 5\)"):
        Sinusoidal(8)(torch.randn(5, 8), torch.arange(5)[None])


def test_positions_along_the_first_axis_of_sequence_first_embeddings_are_refused():
    with pytest.raises(ValueError, match=r"sinusoidal: positions must be \(2,\) or \(10, 2\), got \(10,\)"):
        Sinusoidal(8)(torch.randn(10, 2, 8), torch.arange(10))


@pytest.mark.parametrize("shape", [(3, 5, 1), (3, 5, 7), (3, 5, 16), (3, 8, 5)], ids=str)
def test_embeddings_of_another_width_are_refused(shape):
    said = rf"sinusoidal: x must be floats \(b, t, 8\), got torch.float32 {re.escape(str(shape))}"
    with pytest.raises(ValueError, match=said):
        Sinusoidal(8)(torch.randn(shape))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64], ids=str)
def test_tokens_that_are_not_embedded_are_refused(dtype):
    with pytest.raises(ValueError, match=rf"sinusoidal: x must be floats \(b, t, 8\), got {dtype} \(3, 5, 8\)"):
        Sinusoidal(8)(torch.ones(3, 5, 8).to(dtype))


# Wrong settings, each refused by class and functions alike


def refusing(**wrong):
    """Return one call for each public function, and one for the class, with the settings `wrong`."""
    setting = {"dim": 8} | wrong
    calls = {"sinusoidal": sinusoidal, "kernel": kernel, "shift_matrix": shift_matrix}
    every = {name: lambda function=function: function(3, **setting) for name, function in calls.items()}
    return every | {"wavelengths": lambda: wavelengths(**setting), "Sinusoidal": lambda: Sinusoidal(**setting)}


each_way = pytest.mark.parametrize("way", refusing())


@each_way
@pytest.mark.parametrize("dim", [0, -2, 1, 7, 8.5])
def test_a_width_that_is_not_even_is_refused(way, dim):
    with pytest.raises(ValueError, match=f"sinusoidal: dim must be even and positive, got {dim}"):
        refusing(dim=dim)[way]()


@each_way
@pytest.mark.parametrize("dim", [2, 3])
def test_tensor2tensor_refuses_a_width_below_4(way, dim):  # it divides by d/2 - 1
    with pytest.raises(ValueError, match=f"sinusoidal: dim must be at least 4, got {dim}"):
        refusing(dim=dim, order="tensor2tensor")[way]()


@each_way
@pytest.mark.parametrize("base", [0, -1, float("nan"), float("inf")])
def test_a_base_that_is_not_positive_is_refused(way, base):
    with pytest.raises(ValueError, match=f"sinusoidal: base must be positive and finite, got {base}"):
        refusing(base=base)[way]()


@each_way
def test_an_unknown_order_is_refused(way):
    said = "sinusoidal: order must be one of interleaved, split, tensor2tensor, got 'half'"
    with pytest.raises(ValueError, match=said):
        refusing(order="half")[way]()


@pytest.mark.parametrize("k", [[1.0, 2.0], np.arange(4)], ids=str)
def test_a_shift_by_several_numbers_is_refused_by_python(k):
    with pytest.raises(TypeError):
        shift_matrix(k, 8)


def test_the_defaults_are_those_of_the_paper():
    for function in (sinusoidal, wavelengths, kernel, shift_matrix, Sinusoidal):
        defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        assert (defaults["base"], defaults["order"]) == (10_000.0, "interleaved")


# How much may be lost on the way


@each_order
@pytest.mark.parametrize("dim", [64, 512])
def test_float64_loses_less_than_1e_8_even_at_ten_million(order, dim):
    positions = np.array([10**6, 10**7 - 1, 10**7])
    np.testing.assert_allclose(sinusoidal(positions, dim, order=order), oracle(positions, dim, order=order), atol=1e-8)


def test_bfloat16_embeddings_get_the_exact_table_rounded_once():
    positions = torch.tensor([1_000_000, 257, 256, 9_999_999])
    encoded = Sinusoidal(64).bfloat16()(torch.zeros(1, 4, 64, dtype=torch.bfloat16), positions)
    assert torch.equal(encoded[0], torch.from_numpy(oracle(positions, 64)).bfloat16())
