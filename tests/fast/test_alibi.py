"""ALiBi as channels: as exact as the bias in every dtype, whoever stands where, and nothing (h, t, s) is stored."""

import pytest
import torch
import torch.nn.functional as F

from posenc.attention import attention
from posenc.bias import alibi as plain
from posenc.bias.alibi import alibi, alibi_slopes
from posenc.fast.alibi import ALiBi
from tests.fast.largest import largest


def exercise(module):
    module.ALiBi(heads=2)(*torch.zeros(2, 1, 2, 3, 4))


def exact(q, k, v, positions):
    """Return causal attention with the NumPy function's bias, in float64."""
    bias = torch.from_numpy(alibi(positions, positions, q.shape[1], causal=True))
    return F.scaled_dot_product_attention(*(x.double() for x in (q, k, v)), attn_mask=bias)


def content(length, heads=4, d=32, dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(3, 1, heads, length, d).to(dtype).unbind()


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 4e-3)],  # float32: as a kernel adds
    ids=str,
)
@pytest.mark.parametrize("start", [0, 10**7], ids=["from 0", "from 10^7"])
def test_it_is_as_exact_as_the_bias(dtype, tolerance, start):
    q, k, v = content(700, 12, 48, dtype)
    positions = torch.arange(start, start + 700)
    expected = exact(q, k, v, positions)
    result = attention(q, k, v, ALiBi(12), positions, positions, causal=True)
    assert result.dtype == dtype
    assert (result - expected).norm() < tolerance * expected.norm()


@pytest.mark.parametrize("start", [0, 10**7], ids=["from 0", "from 10^7"])
def test_products_added_in_order_lose_nothing(start):
    q, k, _ = content(700, 12, 48)
    positions = torch.arange(start, start + 700)
    wide_q, wide_k = (x[0].unbind(-1) for x in ALiBi(12)(q, k, positions, positions))
    logits = sum(a[:, :, None] * b[:, None, :] for a, b in zip(wide_q, wide_k, strict=True))  # (h, t, s)
    expected = q[0].double() @ k[0].double().mT + 48**0.5 * torch.from_numpy(alibi(positions, positions, 12))
    near = torch.ones(700, 700, dtype=torch.bool).tril().triu(-1)  # where a large product leaves most of its error
    assert (logits - expected)[:, near].abs().max() < 3e-5


def test_it_is_exact_under_autocast():
    q, k, v = content(700)
    expected = exact(q, k, v, torch.arange(700))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = attention(q, k, v, ALiBi(4), causal=True)
    assert (result - expected).norm() < 6e-3 * expected.norm()


def test_positions_in_bfloat16_would_be_far_off():
    q, k, v = content(700, dtype=torch.bfloat16)
    slopes = torch.from_numpy(alibi_slopes(4) * 32**0.5).bfloat16()
    wide_q = torch.cat([q, slopes[:, None, None].expand(1, 4, 700, 1)], dim=-1)
    wide_k = torch.cat([k, torch.arange(700).bfloat16()[:, None].expand(1, 4, 700, 1)], dim=-1)
    naive = F.scaled_dot_product_attention(wide_q, wide_k, v, is_causal=True, scale=32**-0.5)
    result, expected = attention(q, k, v, ALiBi(4), causal=True), exact(q, k, v, torch.arange(700))
    assert (naive - expected).norm() > 10 * (result - expected).norm()


CALLS = {
    "all": {},
    "given": {"positions": torch.arange(40, 57), "key_positions": torch.arange(20, 57)},
    "a batch": {"positions": torch.tensor([[50], [3]]) + torch.arange(17)},
    "a batch of keys": {"key_positions": torch.tensor([[-5], [3]]) + torch.arange(37)},
    "unsorted": {"positions": torch.arange(17) * 7 % 17 + 20},
    "mask": {"mask": torch.arange(37) > 3},
}


@pytest.mark.parametrize("name", CALLS)
def test_it_gives_what_the_bias_gives(name):
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 6, 17, 8), *torch.randn(2, 2, 3, 37, 8).unbind()
    result = attention(q, k, v, ALiBi(6), **CALLS[name], causal=True)
    torch.testing.assert_close(result, attention(q, k, v, plain.ALiBi(6), **CALLS[name], causal=True))


def test_a_scale_of_ones_own_is_told_to_both():
    q, k, v = content(30)
    result = attention(*ALiBi(4)(q, k, scale=0.3), v, causal=True, scale=0.3)
    torch.testing.assert_close(result, attention(q, k, v, plain.ALiBi(4), causal=True, scale=0.3))


def test_its_gradients_are_those_of_the_bias():
    gradients = []
    for encoding in (ALiBi(4), plain.ALiBi(4)):
        inputs = [x.requires_grad_() for x in content(30)]
        attention(*inputs, encoding, causal=True).square().sum().backward()
        gradients.append([x.grad for x in inputs])
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


def test_it_stores_no_score_for_each_pair():
    assert largest(attention, ALiBi(16), 1024) <= 1024 * 16 * 3 * 8 < 1024 * 1024
    assert largest(attention, plain.ALiBi(16), 1024) >= 16 * 1024 * 1024
