"""LeRoPE: RoPE at the start, values by hand, the module of Mistral Large 4 and a library that learns frequencies."""

import math
import re

import mpmath
import numpy as np
import pytest
import torch

from posenc.attention import attention
from posenc.models.from_config import from_config
from posenc.rotate.lerope import LeRoPE, lerope
from posenc.rotate.rope import RoPE
from tests.peers import peer
from tests.rotate.alike import assert_positions_of_two_sequences_are_refused_for_one

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

THETA = [2.0, 0.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 0.0]
OPTIONS = [{}, {"layout": "interleaved", "theta": THETA, "attention_factor": 1.2}]
LEARNED = {"alpha"}


def oracle(x, positions, alpha, base=1e4, layout="half", theta=None, attention_factor=1.0):
    """Work out the definition with 40 digits, one pair at a time."""
    y = x.astype(float).copy()
    d = x.shape[-1]
    with mpmath.workdps(40):
        for i in range(d // 2):
            a, b = (i, i + d // 2) if layout == "half" else (2 * i, 2 * i + 1)
            start = mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / d) if theta is None else mpmath.mpf(theta[i])
            for row, p in enumerate(positions.tolist()):
                wave = mpmath.expj(p * start * mpmath.exp(mpmath.mpf(float(alpha[i]))))
                cos, sin = float(wave.real), float(wave.imag)
                y[..., row, a] = attention_factor * (x[..., row, a] * cos - x[..., row, b] * sin)
                y[..., row, b] = attention_factor * (x[..., row, b] * cos + x[..., row, a] * sin)
    return y


def content(t=6, dim=8, batch=2):
    """Return random q (b, 4, t, d) and k (b, 2, t, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, 4, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, 2, t, dim, dtype=torch.float64, generator=generator)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def with_alpha(alpha, *arguments, **options):
    encoding = LeRoPE(*arguments, **options)
    with torch.no_grad():
        encoding.alpha.copy_(torch.as_tensor(alpha))
    return encoding


def assert_close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


# Values worked by hand


@pytest.mark.parametrize(("alpha", "angle"), [(0, 3), (math.log(2), 6), (-math.log(3), 1)])
def test_alpha_ln_2_turns_twice_as_fast(alpha, angle):
    # width 2, frequency 1: at position 3 the vector (1, 0) turns by 3 radians, and with ln 2 by 6
    result = lerope([[1.0, 0.0]], [3], [alpha])
    np.testing.assert_allclose(result, [[math.cos(angle), math.sin(angle)]], rtol=0, atol=1e-15)


def test_a_table_holds_cosines_and_sines():
    # theta = e^0.5 and e^-1 / 100; however coarse the content, it is of float32 or finer
    cos, sin = with_alpha([0.5, -1.0], 4).table(torch.tensor([5]), torch.float16)
    fast, slow = 5 * math.exp(0.5), 0.05 * math.exp(-1)
    torch.testing.assert_close(cos, torch.tensor([[[math.cos(fast), math.cos(slow)]]]))
    torch.testing.assert_close(sin, torch.tensor([[[math.sin(fast), math.sin(slow)]]]))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_it_starts_as_rope(layout):
    q, k = content()
    assert_close(LeRoPE(8, layout=layout)(q, k), RoPE(8, layout=layout)(q, k))


def test_alpha_multiplies_the_frequencies():
    q, k = content()
    alpha = torch.tensor([0.5, -1.0, 0.0, 2.0])
    theta = 100.0 ** -(torch.arange(4, dtype=torch.float64) / 4) * alpha.double().exp()
    positions = torch.arange(70, 76)
    result = with_alpha(alpha, 8, base=100.0)(q, k, positions)
    assert_close(result, RoPE(8, theta=theta)(q, k, positions))


# Peers


def test_cosines_sines_and_scores_are_those_of_mistral_large_4():
    configuration = peer("transformers.models.mistral_large4.configuration_mistral_large4")
    modeling = peer("transformers.models.mistral_large4.modeling_mistral_large4")
    config = configuration.MistralLarge4TextConfig()
    width = config.head_dim
    library = modeling.MistralLarge4TextRotaryEmbedding(config)
    alpha = torch.linspace(-0.3, 0.4, width // 2)
    library.alpha.copy_(alpha)
    expected_cos, expected_sin = library(torch.zeros(1), torch.arange(40)[None])
    theta, _ = from_config(config, width)
    encoding = with_alpha(alpha, width, layout="interleaved", theta=theta)
    cos, sin = encoding.table(torch.arange(40))
    assert_close(cos, expected_cos[..., : width // 2], atol=1e-5)
    assert_close(sin, expected_sin[..., : width // 2], atol=1e-5)
    q, k = (x.float() for x in content(t=40, dim=width))
    expected_q, expected_k = modeling.apply_rotary_pos_emb_interleave(q, k, expected_cos, expected_sin)
    assert_close(scores(*encoding(q, k)), scores(expected_q, expected_k), atol=1e-3)


def test_rotary_embedding_torch_learns_the_frequencies_themselves():  # the same angles, another step
    library = peer("rotary_embedding_torch").RotaryEmbedding(dim=8, learned_freq=True)
    alpha = torch.tensor([0.5, -1.0, 0.25, 2.0])
    with torch.no_grad():
        library.freqs.mul_(alpha.exp())
    q, _ = (x.float() for x in content())
    turned_q, _ = with_alpha(alpha, 8, layout="interleaved")(q, q)
    assert_close(turned_q, library.rotate_queries_or_keys(q), atol=1e-5)


# What is learned


def test_the_gradient_of_alpha_is_that_of_the_frequency_times_it():
    q, k = content()
    encoding = with_alpha([0.1, -0.2, 0.3, 0.0], 8).double()
    (gradient,) = torch.autograd.grad(scores(*encoding(q, k)).square().sum(), encoding.alpha)
    theta = torch.tensor(encoding.theta) * encoding.alpha.detach().exp()

    def loss(theta):
        return scores(*RoPE(8, theta=theta)(q, k)).square().sum()

    for i, step in enumerate(1e-6 * torch.eye(4)):
        by_theta = (loss(theta + step) - loss(theta - step)) / 2e-6
        assert math.isclose(gradient[i], by_theta * theta[i], rel_tol=1e-5, abs_tol=1e-6)


def test_training_finds_the_frequency_of_its_data():
    # scores of a head that RoPE of frequency 0.6 turned: alpha comes to the logarithm of its ratio to 1
    x = torch.ones(1, 1, 24, 2)
    expected = scores(*RoPE(2, theta=[0.6])(x, x))
    encoding = with_alpha([-0.3], 2)  # 0.74 for 1
    optimizer = torch.optim.Adam(encoding.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        (scores(*encoding(x, x)) - expected).square().mean().backward()
        optimizer.step()
    assert math.isclose(encoding.alpha.item(), math.log(0.6), abs_tol=1e-3)


def test_a_table_serves_layers_and_gives_alpha_its_gradient():
    q, k = content()
    v = torch.randn(2, 2, 6, 8, dtype=torch.float64)
    encoding = LeRoPE(8)
    table = encoding.table(torch.arange(6), torch.float64)
    for _ in range(2):
        q = attention(encoding.turn(q, table), encoding.turn(k, table), v, causal=True)
    (gradient,) = torch.autograd.grad(q.square().sum(), encoding.alpha)
    assert gradient.count_nonzero() == 4


def test_alpha_starts_in_float32_whatever_the_default():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert LeRoPE(8).alpha.dtype == torch.float32
    finally:
        torch.set_default_dtype(before)


# What is refused


def test_frequencies_of_another_number_are_refused():
    with pytest.raises(ValueError, match=re.escape("lerope: theta must have shape (4,), got (1,)")):
        LeRoPE(8, theta=[1.0])


def test_positions_of_two_sequences_are_refused_for_one():
    assert_positions_of_two_sequences_are_refused_for_one(LeRoPE(8))


@pytest.mark.parametrize("wrong", [torch.zeros(2, 4, 6, 4), torch.zeros(2, 4, 6, 8).long()], ids=["width", "dtype"])
def test_content_of_another_form_is_refused(wrong):
    message = f"lerope: q or k must have shape (b, h, t, 8) and a float dtype, got {wrong.dtype} {tuple(wrong.shape)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        LeRoPE(8)(wrong, wrong)


def test_the_numpy_function_takes_one_position_a_row():
    with pytest.raises(ValueError, match="cannot reshape"):  # NumPy's own words; a lone position would broadcast
        lerope(np.ones((2, 3, 8)), [3], np.zeros(4))
