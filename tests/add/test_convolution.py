"""Convolution: filters by hand, wav2vec 2.0's own module and its kin, neighbors by place, and borders."""

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


def build(dim=12, kernel=6, groups=3):
    torch.manual_seed(0)
    module = Convolution(dim, kernel, groups).double()
    nn.init.normal_(module.bias)
    return module


def tokens(t=10, b=2, dim=12):
    return torch.randn(b, t, dim, dtype=torch.float64, generator=torch.manual_seed(1))


# Values worked by hand


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([100.0, 10.0, 1.0], [1 + 12, 2 + 123, 3 + 234, 4 + 340]),  # one back, here, one ahead
        ([1000.0, 100.0, 10.0, 1.0], [1 + 12, 2 + 123, 3 + 1234, 4 + 2340]),  # of an even filter, two back
    ],
)
def test_a_filter_by_hand(weight, expected):
    module = Convolution(1, len(weight), groups=1).double()
    module.weight.data[0, 0] = torch.tensor(weight)
    encoded = module(torch.tensor([1.0, 2.0, 3.0, 4.0]).double()[None, :, None])[0, :, 0]
    assert encoded.tolist() == expected  # gelu leaves large numbers as they are


def test_the_same_in_numpy_by_place():
    far = 2**24 + np.array([7, 5, 6])  # where float32 knows no odd number
    added = convolution([[1], [2], [3]], far, [[[100, 10, 1]]], [0], kernel=3, groups=1)
    assert added[:, 0].tolist() == [310, 23, 231]


def test_what_is_added_is_gelu_of_the_sum():
    added = convolution([[3.0]], [0], [[[0.1]]], [-0.7], kernel=1, groups=1)  # of 0.3 - 0.7
    assert added.item() == pytest.approx(-0.4 * (1 + math.erf(-0.4 / math.sqrt(2))) / 2, rel=1e-14)


def test_groups_of_channels_do_not_mix():
    module = build()
    other = tokens()
    other[..., 4:8] += 1
    assert not (module(other) - module(tokens()))[..., [0, 1, 2, 3, 8, 9, 10, 11]].any()


# Peers


@pytest.mark.parametrize("name", ["wav2vec2", "hubert", "wavlm", "unispeech"])
@pytest.mark.parametrize(("kernel", "groups"), [(8, 2), (5, 4), (128, 16)])
def test_equals_the_layer_of_wav2vec2_and_its_kin(name, kernel, groups):
    code = peer(f"transformers.models.{name}.modeling_{name}")
    kind = {"wav2vec2": "Wav2Vec2", "hubert": "Hubert", "wavlm": "WavLM", "unispeech": "UniSpeech"}[name]
    config = getattr(peer(f"transformers.models.{name}.configuration_{name}"), f"{kind}Config")(
        hidden_size=32, num_conv_pos_embeddings=kernel, num_conv_pos_embedding_groups=groups
    )
    torch.manual_seed(0)
    theirs = getattr(code, f"{kind}PositionalConvEmbedding")(config).double().eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    module = Convolution(32, kernel, groups).double()
    module.weight.data = theirs.conv.weight.data  # their norm is folded in
    module.bias.data = theirs.conv.bias.data
    x = torch.randn(2, 50, 32).double()
    torch.testing.assert_close(module(x) - x, theirs(x))


def test_starts_as_wav2vec2_does():
    torch.manual_seed(0)
    module = Convolution(768)
    assert module.weight.shape == (768, 48, 128)
    assert module.weight.std().item() == pytest.approx(2 * math.sqrt(1 / (128 * 768)), rel=0.01)
    assert not module.bias.any()


def test_the_default_sizes_are_those_of_wav2vec2():
    config = peer("transformers.models.wav2vec2.configuration_wav2vec2").Wav2Vec2Config()
    module = Convolution(32)
    assert (module.kernel, module.groups) == (config.num_conv_pos_embeddings, config.num_conv_pos_embedding_groups)


# Neighbors by place


@pytest.mark.parametrize("kernel", [1, 4, 7])
def test_tokens_at_positions_in_line_are_as_by_default(kernel):
    module = build(kernel=kernel)
    line = torch.arange(10)
    for positions in (line, line - 70, line + 0.25, line.expand(2, 10)):
        torch.testing.assert_close(module(tokens(), positions), module(tokens()))


@given(order=st.permutations(range(10)))
@settings(deadline=None, derandomize=True, database=None, max_examples=30)
def test_tokens_in_another_order_take_their_neighbors_along(order):
    module, x = build(), tokens()
    torch.testing.assert_close(module(x[:, order], torch.arange(10)[order]), module(x)[:, order])


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    x = tokens().to(dtype)
    for positions in (None, torch.arange(10)):
        assert torch.equal(build()(x, positions), build()(x.float(), positions).to(dtype))


# What it says of places, and what not


def test_equal_tokens_differ_only_near_a_border():
    module = build(kernel=6)
    x = tokens(1).expand(2, 30, 12)
    added = module(x) - x
    torch.testing.assert_close(added[:, 3:28], added[:, 3:4].expand(2, 25, 12))
    assert not torch.allclose(added[:, 0], added[:, 3])
    assert not torch.allclose(added[:, 29], added[:, 3])


def test_padding_that_is_zero_is_as_no_padding():
    module, x = build(), tokens()
    padded = torch.cat([x, torch.zeros(2, 5, 12).double()], dim=1)
    torch.testing.assert_close(module(padded)[:, :10], module(x))
    padded[:, 10:] = 1
    assert not torch.allclose(module(padded)[:, :10], module(x))


# What is refused


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "x",
            torch.ones(2, 10, 12).long(),
            r"x must have shape \(b, t, 12\) and a float dtype, got torch.int64 \(2, 10, 12\)",
        ),
        (
            "x",
            torch.ones(2, 10, 1),
            r"x must have shape \(b, t, 12\) and a float dtype, got torch.float32 \(2, 10, 1\)",
        ),
        ("positions", torch.arange(9), r"positions must have shape \(10,\) or \(2, 10\), got \(9,\)"),
        ("positions", torch.zeros(2, 1), r"positions must have shape \(10,\) or \(2, 10\), got \(2, 1\)"),
    ],
)
def test_what_would_be_wrong_without_an_error_is_refused(name, value, message):
    with pytest.raises(ValueError, match=f"convolution: .*{message}"):
        build()(**{"x": tokens(), "positions": torch.arange(10)} | {name: value})


@pytest.mark.parametrize("dim", [24, 0])
def test_a_width_that_does_not_split_into_groups_is_refused(dim):
    with pytest.raises(ValueError, match=f"convolution: dim must be a multiple of 16 groups, got {dim}"):
        Convolution(dim)
