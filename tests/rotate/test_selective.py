"""Selective: phases worked by hand, RoPE and silence as special cases, Mamba-3 step by step, caches, packing."""

import math

import numpy as np
import pytest
import torch

from posenc.attention import attention
from posenc.positions import document_mask, packed_documents
from posenc.rotate.rope import RoPE
from posenc.rotate.selective import Selective, selective

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

LEARNED = {"weight", "bias"}
OPTIONS = [{}, {"base": 100.0}]


def content(t=6, s=6, dim=8, heads=4, groups=2, batch=2):
    """Return random q (b, h, t, d) and k (b, g, s, d)."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, heads, t, dim, dtype=torch.float64, generator=generator)
    return q, torch.randn(batch, groups, s, dim, dtype=torch.float64, generator=generator)


def random_phases(groups=2, s=6, pairs=4, batch=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, groups, s, pairs, dtype=torch.float64, generator=generator)


def away_from_its_start(dim=8):
    """Return an encoding in float64 whose parameters are away from their start."""
    torch.manual_seed(2)
    encoding = Selective(dim).double()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding.requires_grad_(False)


def scores(q, k):
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT


def assert_close(actual, expected, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


# Values worked by hand


def test_a_score_is_the_cosine_of_the_phases_between():
    # content 1 in the first channel: the score of a pair is cos of what the tokens after the key turn
    x = np.array([[[1.0, 0.0]] * 3])
    phases = np.array([[[0.2], [0.5], [1.1]]])
    result = selective(x, x, range(3), range(3), phases=phases)
    between = np.array([[0, 0.5, 1.6], [0.5, 0, 1.1], [1.6, 1.1, 0]])
    np.testing.assert_allclose(result[0], np.cos(between), rtol=0, atol=1e-15)


def test_phases_are_read_from_keys():
    # theta (weight . k + bias), theta = 1 and 1/10: 1 (3 + 0.5) and (2 * 4 - 1)/10
    encoding = Selective(4, base=100.0).double()
    encoding.weight.data = torch.tensor([[1.0, 0, 0, 0], [0, 2.0, 0, 0]])
    encoding.bias.data = torch.tensor([0.5, -1.0])
    phases = encoding.phases(torch.tensor([[[[3.0, 4.0, 5.0, 6.0]]]], dtype=torch.float64))
    assert_close(phases, torch.tensor([[[[3.5, 0.7]]]], dtype=torch.float64))


# Special cases


@pytest.mark.parametrize("base", [10_000.0, 1.0])
def test_it_starts_as_rope(base):
    q, k = content()
    assert_close(scores(*Selective(8, base)(q, k)), scores(*RoPE(8, base)(q, k)))


def test_equal_phases_are_rope_of_that_frequency():
    q, k = content()
    theta = torch.tensor([1.0, 0.3, 0.05, 0.0], dtype=torch.float64)
    result = Selective(8)(q, k, phases=theta.expand(2, 1, 6, 4))
    assert_close(scores(*result), scores(*RoPE(8, theta=theta)(q, k)))


def test_a_silent_token_has_no_length():
    # tokens of phase 0 between others change no other score
    q, k = content()
    phases = random_phases()
    phases[:, :, [2, 4]] = 0
    whole = scores(*Selective(8)(q, k, phases=phases))
    others = [0, 1, 3, 5]
    without = Selective(8)(q[:, :, others], k[:, :, others], phases=phases[:, :, others])
    assert_close(scores(*without), whole[:, :, others][..., others])


def test_positions_order_tokens_and_do_no_more():
    q, k = content()
    encoding = away_from_its_start()
    in_order = encoding(q, k)
    assert_close(encoding(q, k, torch.tensor([-7.0, 0.5, 2.0, 90.0, 91.0, 1e6])), in_order)
    shuffled = torch.tensor([3, 0, 5, 1, 4, 2])
    result = encoding(q[:, :, shuffled], k[:, :, shuffled], shuffled)
    assert_close(result, tuple(x[:, :, shuffled] for x in in_order))


# The papers' forms


def test_the_rotation_of_mamba_3_step_by_step():
    # its state turns by pi tanh(a) dt at each token, kept below a whole turn; B and C turn by the state
    q, k = content(dim=8, heads=2)
    generator = torch.Generator().manual_seed(3)
    angles = torch.randn(2, 6, 2, dtype=torch.float64, generator=generator)  # of half the pairs, for all heads
    dt = torch.nn.functional.softplus(torch.randn(2, 2, 6, dtype=torch.float64, generator=generator))
    phases = math.pi * angles[:, None].tanh() * dt[..., None]
    phases = torch.nn.functional.pad(phases, (0, 2))  # the other pairs rest
    turned_q, turned_k = Selective(8)(q, k, phases=phases)
    state = torch.zeros(2, 2, 4, dtype=torch.float64)
    for p in range(6):
        state = (state + phases[:, :, p]) % (2 * math.pi)
        wave = torch.polar(torch.ones_like(state), state)
        for x, turned in ((q, turned_q), (k, turned_k)):
            pairs = torch.complex(x[:, :, p, :4], x[:, :, p, 4:]) * wave
            assert_close(turned[:, :, p], torch.cat([pairs.real, pairs.imag], dim=-1))


def test_the_phases_of_selective_rope():
    # as the authors' module: normed tokens, a thin matrix, a convolution over the last four, a running sum
    q, k = content(groups=4)
    generator = torch.Generator().manual_seed(4)
    x, down, up, kernel = (
        torch.randn(shape, dtype=torch.float64, generator=generator)
        for shape in ((2, 6, 32), (32, 3), (3, 16), (16, 1, 4))
    )
    theta = 500_000.0 ** -(torch.arange(4, dtype=torch.float64) / 4)
    phi = torch.nn.functional.normalize(x, dim=-1) @ down @ up  # (b, t, heads * pairs)
    phi = torch.nn.functional.conv1d(phi.mT, kernel, padding=3, groups=16)[..., :6]
    phi = phi.unflatten(1, (4, 4)).mT  # (b, h, t, pairs)
    angle = theta * phi.cumsum(dim=2)
    first, second = k.chunk(2, dim=-1)
    by_hand = [first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()]
    _, turned_k = Selective(8)(q, k, phases=theta * phi)
    assert_close(turned_k, torch.cat(by_hand, dim=-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    q = content()[0].to(dtype)
    angle = random_phases().cumsum(2)
    assert torch.equal(Selective(8).turn(q, angle), Selective(8).turn(q.float(), angle).to(dtype))


# In attention


def test_a_cache_of_turned_keys_needs_the_sum_so_far():
    q, k = content()
    encoding = away_from_its_start()
    turned_q, turned_k = encoding(q, k)
    total = torch.zeros(2, 2, 1, 4, dtype=torch.float64)
    for p in range(6):
        token = slice(p, p + 1)
        total = total + encoding.phases(k[:, :, token])
        assert_close(encoding.turn(q[:, :, token], total), turned_q[:, :, token])
        assert_close(encoding.turn(k[:, :, token], total), turned_k[:, :, token])


def test_packed_documents_need_no_positions():
    q, k = content(t=9, s=9)
    v = torch.randn(2, 2, 9, 8, dtype=torch.float64)
    encoding = away_from_its_start()
    mask = document_mask(packed_documents(torch.tensor([0, 4, 9])))
    packed = attention(q, k, v, encoding, causal=True, mask=mask)
    for document in (slice(0, 4), slice(4, 9)):
        alone = attention(q[:, :, document], k[:, :, document], v[:, :, document], encoding, causal=True)
        assert_close(packed[:, :, document], alone)


def test_no_token_turns_queries_behind_the_last_key():
    q, k = content(t=5, s=2)
    m, n = torch.arange(1, 6), torch.arange(2)
    assert_close(scores(*Selective(8)(q, k, m, n)), scores(*RoPE(8)(q, k, m.clamp(max=1), n)))


def test_phases_of_one_head_serve_all():
    q, k = content()
    phases = random_phases(groups=1)
    assert_close(Selective(8)(q, k, phases=phases), Selective(8)(q, k, phases=phases.expand(2, 2, 6, 4)))


def test_without_parameters_phases_are_enough():
    q, k = content()
    phases = random_phases()
    encoding = Selective(8)
    expected = encoding(q, k, phases=phases)
    del encoding.weight, encoding.bias
    assert_close(encoding(q, k, phases=phases), expected)


# What is refused


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("q", torch.ones(2, 4, 6, 4), "q and k must be floats of one width, got torch.float32 of width 4 and 8"),
        ("q", torch.ones(2, 4, 6, 8).long(), "q and k must be floats of one width, got torch.int64 of width 8 and 8"),
        ("positions", torch.arange(5), r"positions must have shape \(6,\) or \(2, 6\), got \(5,\)"),
        ("key_positions", torch.zeros(2, 1), r"positions must have shape \(6,\) or \(2, 6\), got \(2, 1\)"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    q, k = content()
    with pytest.raises(ValueError, match=f"selective: {message}"):
        Selective(8)(**{"q": q, "k": k, "positions": torch.arange(6)} | {name: value})


@pytest.mark.parametrize("shape", [(2, 2, 5, 4), (3, 2, 6, 4), (2, 3, 6, 4)], ids=str)
def test_phases_of_another_form_give_no_result(shape):
    q, k = content()
    with pytest.raises(RuntimeError):
        Selective(8)(q, k, phases=torch.zeros(shape, dtype=torch.float64))
