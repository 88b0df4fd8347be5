"""Attention in blocks of queries: what the whole gives, its gradients too, and stores less."""

import pytest
import torch
from torch import nn

from posenc.attention import attention
from posenc.bias.t5 import T5
from posenc.fast.attention_in_blocks import attention_in_blocks
from tests.contract import encoding_inputs
from tests.fast.largest import largest
from tests.test_attention import each_encoding, places


def content(length):
    torch.manual_seed(1)
    return torch.randn(2, encoding_inputs.H, length, encoding_inputs.D), *torch.randn(
        2, 2, encoding_inputs.G, length, encoding_inputs.D
    ).unbind()


@each_encoding
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_give_what_the_whole_gives_for_every_encoding(encoding, causal):
    module, (q, k, v), where = encoding.build(), content(9), places(encoding, 2, 9)
    whole = attention(q[:, :, 2:], k, v, module, causal=causal, **where)
    blocks = attention_in_blocks(q[:, :, 2:], k, v, module, causal=causal, block=3, **where)
    torch.testing.assert_close(blocks, whole, atol=3e-6, rtol=1e-5)


SETTINGS = {
    "the past": {"causal": True},
    "positions": {"causal": True, "positions": torch.tensor([6, 5, 9, 5])},
    "positions of a batch": {"causal": True, "key_positions": torch.arange(14).view(2, 7)},
    "a mask of keys": {"causal": True, "mask": torch.arange(7) > 1},
    "a mask of pairs": {"mask": torch.ones(4, 7).tril(2) > 0},
    "a mask of heads": {"causal": True, "mask": torch.arange(4).view(1, 4, 1, 1) != 2},
    "a scale": {"scale": 0.3},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("block", [1, 3, 4, 99])
def test_blocks_hide_what_the_whole_hides(name, block):
    q, k, v = content(7)
    whole = attention(q[:, :, 3:], k, v, **SETTINGS[name])
    torch.testing.assert_close(attention_in_blocks(q[:, :, 3:], k, v, **SETTINGS[name], block=block), whole)


def test_blocks_pass_the_same_gradients():
    gradients = []
    for attend, how in ((attention, {}), (attention_in_blocks, {"block": 4})):
        encoding, inputs = T5(encoding_inputs.H, buckets=8, max_distance=9), [x.requires_grad_() for x in content(9)]
        encoding.weight.data = torch.arange(8.0)[:, None].cos().expand(8, encoding_inputs.H).clone()
        attend(*inputs, encoding, causal=True, **how).square().sum().backward()
        gradients.append([encoding.weight.grad, *(x.grad for x in inputs)])
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-5)


def test_no_queries_in_blocks():
    q, k, v = content(7)
    assert attention_in_blocks(q[:, :, :0], k, v, block=2).shape == (2, encoding_inputs.H, 0, encoding_inputs.D)


@pytest.mark.parametrize("trains", [True, False])
def test_the_scores_of_a_block_are_stored(trains):
    encoding = T5(16)
    nn.init.normal_(encoding.weight)
    assert largest(attention, encoding, 256, trains) >= 16 * 256 * 256
    assert largest(attention_in_blocks, encoding, 256, trains, block=32) <= 16 * 32 * 256
