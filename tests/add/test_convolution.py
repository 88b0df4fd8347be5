"""Convolution: filters by hand, wav2vec 2.0's own module and its kin, neighbors by place, borders, what is refused."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from posenc.add.convolution import Convolution, convolution
from tests.peers import peer

# What the contract tests need to know (see tests/contract/encoding_inputs.py)

OPTIONS = [{"kernel": 4, "groups": 4}, {"kernel": 3, "groups": 1}, {"kernel": 9}]
LEARNED = {"weight", "bias"}
NEIGHBORS = True


def oracle(x, positions, weight, bias, kernel=128, groups=16):
    """Work out the definition with 30 digits, one product at a time."""
    added = np.zeros(x.shape)
    size = x.shape[1] // groups
    with mpmath.workdps(30):
        for t, o in np.ndindex(added.shape):
            first = o // size * size
            total = mpmath.mpf(bias[o])
            for s, j in np.ndindex(len(x), kernel):
                if positions[s] == positions[t] + j - kernel // 2:
                    inputs = map(float, x[s, first : first + size])
                    total += mpmath.fdot(inputs, map(float, weight[o, :, j]))
            added[t, o] = total * mpmath.ncdf(total)
    return added


exactly = settings(deadline=None, derandomize=True, database=None, max_examples=30)


def build(dim=12, kernel=6, groups=3):
    torch.manual_seed(0)
    module = Convolution(dim, kernel, groups).double()
    nn.init.normal_(module.bias)
    return module


def tokens(t=10, b=2, dim=12):
    return torch.randn(b, t, dim, dtype=torch.float64, generator=torch.manual_seed(1))


# Values worked by hand


def gelu(y):
    return y * (1 + math.erf(y / math.sqrt(2))) / 2


def test_an_even_filter_reaches_one_further_back_than_ahead():
    module = Convolution(1, kernel=4, groups=1).double()
    module.weight.data[0, 0] = torch.tensor([1000.0, 100.0, 10.0, 1.0])  # two back, one back, here, one ahead
    made = module(torch.tensor([1.0, 2.0, 3.0, 4.0]).double()[None, :, None])[0, :, 0]
    assert made.tolist() == [1 + 12, 2 + 123, 3 + 1234, 4 + 2340]  # gelu leaves large numbers as they are


def test_an_odd_filter_reaches_as_far_on_both_sides():
    module = Convolution(1, kernel=3, groups=1).double()
    module.weight.data[0, 0] = torch.tensor([100.0, 10.0, 1.0])
    made = module(torch.tensor([1.0, 2.0, 3.0]).double()[None, :, None])[0, :, 0]
    assert made.tolist() == [1 + 12, 2 + 123, 3 + 230]


def test_the_same_in_numpy_by_place():
    added = convolution([[1], [2], [3]], [7, 5, 6], [[[100, 10, 1]]], [0], kernel=3, groups=1)
    assert added[:, 0].tolist() == [310, 23, 231]


def test_what_is_added_is_gelu_of_the_sum():
    added = convolution([[0.0]], [0], [[[1.0]]], [-0.5], kernel=1, groups=1)
    assert added.item() == pytest.approx(gelu(-0.5))


def test_groups_of_channels_do_not_mix():
    module, x = build(), tokens()
    other = x.clone()
    other[..., 4:8] += 1
    changed = (module(other) - module(x))[..., [0, 1, 2, 3, 8, 9, 10, 11]]
    assert not changed.any()


# Peers


@pytest.mark.parametrize("name", ["wav2vec2", "hubert", "wavlm", "unispeech"])
@pytest.mark.parametrize(("kernel", "groups"), [(8, 2), (5, 4), (128, 16)])
def test_equals_the_layer_of_wav2vec2_and_its_kin(name, kernel, groups):
    code = peer(f"transformers.models.{name}.modeling_{name}")
    kind = {"wav2vec2": "Wav2Vec2", "hubert": "Hubert", "wavlm": "WavLM", "unispeech": "UniSpeech"}[name]
    told = getattr(peer(f"transformers.models.{name}.configuration_{name}"), f"{kind}Config")(
        hidden_size=32, num_conv_pos_embeddings=kernel, num_conv_pos_embedding_groups=groups
    )
    torch.manual_seed(0)
    theirs = getattr(code, f"{kind}PositionalConvEmbedding")(told).double().eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    module = Convolution(32, kernel, groups).double()
    module.weight.data, module.bias.data = theirs.conv.weight.data, theirs.conv.bias.data  # their norm is folded in
    x = torch.randn(2, 50, 32).double()
    torch.testing.assert_close(module(x) - x, theirs(x))


def test_starts_as_wav2vec2_does():
    torch.manual_seed(0)
    module = Convolution(768)
    assert module.weight.shape == (768, 48, 128)
    assert module.weight.std().item() == pytest.approx(2 * math.sqrt(1 / (128 * 768)), rel=0.01)
    assert not module.bias.any()


def test_the_default_sizes_are_those_of_wav2vec2():
    told = peer("transformers.models.wav2vec2.configuration_wav2vec2").Wav2Vec2Config()
    module = Convolution(32)
    assert (module.kernel, module.groups) == (told.num_conv_pos_embeddings, told.num_conv_pos_embedding_groups)


# By place


@pytest.mark.parametrize("kernel", [1, 4, 7])
def test_tokens_told_to_stand_in_line_are_as_by_default(kernel):
    module, x = build(kernel=kernel), tokens()
    for where in (torch.arange(10), torch.arange(10) - 70, torch.arange(10).expand(2, 10), torch.arange(10) + 0.25):
        torch.testing.assert_close(module(x, where), module(x))


@given(order=st.permutations(range(10)))
@exactly
def test_tokens_in_another_order_take_their_neighbors_along(order):
    module, x, where = build(), tokens(), torch.arange(10)
    torch.testing.assert_close(module(x[:, order], where[order]), module(x)[:, order])


def test_far_tokens_do_not_see_each_other():
    module, x = build(kernel=4), tokens()
    apart = module(x, 4 * torch.arange(10))
    alone = torch.cat([module(x[:, t : t + 1], torch.tensor([0])) for t in range(10)], dim=1)
    torch.testing.assert_close(apart, alone)


def test_tokens_that_share_a_place_are_summed():
    module, x = build(), tokens(3)
    both = module(x, torch.tensor([0, 1, 1]))
    summed = x[:, :2].clone()
    summed[:, 1] += x[:, 2]
    torch.testing.assert_close((both - x)[:, :2], module(summed) - summed)


# What it says of places, and what not


def test_equal_tokens_differ_only_near_a_border():
    module, x = build(kernel=6), tokens(1).expand(2, 30, 12)
    added = module(x) - x
    torch.testing.assert_close(added[:, 3:28], added[:, 3:4].expand(2, 25, 12))
    assert not torch.allclose(added[:, 0], added[:, 3])
    assert not torch.allclose(added[:, 29], added[:, 3])


def test_two_words_that_change_places_are_another_text():
    module, x = build(), tokens(3)
    turned = module(x.flip(1)).flip(1)
    assert not torch.allclose(turned, module(x))


def test_a_text_of_zeros_gets_the_same_everywhere():
    added = build()(torch.zeros(1, 7, 12).double())
    torch.testing.assert_close(added, added[:, :1].expand(1, 7, 12))


def test_padding_that_is_zero_is_as_no_padding():
    module, x = build(), tokens()
    padded = torch.cat([x, torch.zeros(2, 5, 12).double()], dim=1)
    torch.testing.assert_close(module(padded)[:, :10], module(x))
    padded[:, 10:] = 1
    assert not torch.allclose(module(padded)[:, :10], module(x))


# What is refused: what would give a wrong result without an error


def test_what_does_not_fit_is_refused_with_numbers():
    module = build()
    with pytest.raises(ValueError, match=r"convolution: dim of float x must be 12, got torch.int64 \(2, 10, 12\)"):
        module(tokens().long())
    with pytest.raises(ValueError, match=r"convolution: dim of float x must be 12, got torch.float64 \(2, 10, 11\)"):
        module(tokens(dim=11))
    with pytest.raises(ValueError, match=r"convolution: positions must be \(10,\) or \(2, 10\), got \(9,\)"):
        module(tokens(), torch.arange(9))
    with pytest.raises(ValueError, match=r"convolution: dim must be a multiple of 16 groups, got 24"):
        Convolution(24)
