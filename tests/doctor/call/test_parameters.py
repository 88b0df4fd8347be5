"""What the names of parameters mean, by what classes are built, and which sizes code says of itself."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report
from tests.doctor.blocks import frequencies, rotate, rotate_by, rotate_interleaved, rotate_pair
from tests.doctor.call.patients import SIZES, angles_of, cos_and_sin, in_halves

# Names


def flagged(x, positions, interleaved):
    return rotate_interleaved(x, positions) if interleaved else rotate(x, positions)


def with_t(t, positions):
    return rotate(t, positions)


def with_width(length, width):
    return cos_and_sin(in_halves(angles_of(torch.arange(length), width)))


def keys_only(key, positions):
    return rotate(key, positions)


def queries_only(query, positions):
    return rotate(query, positions)


def named_by_pieces(h_q, h_k, seq_positions):
    return rotate_pair(h_q, h_k, seq_positions)


def along_axis(x, positions, dim=-1):
    return rotate(x.movedim(dim, -1), positions).movedim(-1, dim)


def with_factor(x, positions, scaling_factor):
    assert scaling_factor == 1
    return rotate(x, positions / scaling_factor)


def positional_only(x, positions, /):
    return rotate(x, positions)


@pytest.mark.parametrize(
    "patient",
    [
        flagged,
        with_t,
        with_width,
        keys_only,
        queries_only,
        named_by_pieces,
        along_axis,
        with_factor,
        positional_only,
    ],
)
def test_names_of_parameters_are_understood(patient):
    report = diagnose(patient, kind="rotation", **SIZES)
    assert_report(report)


def test_a_name_with_pieces_of_two_roles_is_refused():
    with pytest.raises(ValueError, match=r"doctor: function must be .*got q_pos_bias"):
        diagnose(lambda x, q_pos_bias: x)


# Classes


class Asking(nn.Module):
    """Ask for sizes, a length, a base and two rates of dropout."""

    def __init__(self, dim, heads, max_len, base, p, attn_dropout):
        super().__init__()
        assert (p, attn_dropout) == (0, 0)
        self.dim, self.heads = dim, heads
        self.angles = torch.arange(max_len)[:, None] * frequencies(dim, base)

    def forward(self, x, positions):
        return rotate_by(x, self.angles[positions])


class OfTwoHeads(Asking):
    """Take no heads but its own."""

    def __init__(self, dim, n_heads=2):
        if n_heads != 2:
            raise ValueError("not supported")
        super().__init__(dim, n_heads, 64, 10_000.0, 0, 0)


@pytest.mark.parametrize("cls", [Asking, OfTwoHeads])
def test_a_class_is_built_by_what_it_asks_for(cls):
    assert_report(diagnose(cls, **SIZES))


class AsksForFlavor(nn.Module):
    def __init__(self, dim, flavor):
        super().__init__()


class AsksForConfig(nn.Module):
    def __init__(self, config):
        super().__init__()


class Broken(nn.Module):
    def __init__(self, dim):
        raise RuntimeError("no weights")


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (AsksForFlavor, r"got AsksForFlavor.*flavor.*build it yourself"),
        (AsksForConfig, r"got AsksForConfig.*config.*build it yourself"),
        (Broken, r"got Broken.*RuntimeError: no weights"),
    ],
)
def test_a_class_that_cannot_be_built_is_named_with_the_reason(cls, expected):
    with pytest.raises(ValueError, match=rf"doctor: function must be .*{expected}"):
        diagnose(cls)


# Sizes


class OfItsSizes(nn.Module):
    """Take heads of the sizes in its configuration, and no others."""

    def __init__(self, **settings):
        super().__init__()
        self.config = SimpleNamespace(**settings)

    def forward(self, x, positions):
        assert x.shape[1::2] == (5, 24)
        return rotate(x, positions)


@pytest.mark.parametrize(
    "settings", [{"head_dim": 24, "num_heads": 5}, {"d_k": 24, "nhead": 5, "n_embd": True}], ids=str
)
def test_sizes_that_code_says_of_itself(settings):
    report = diagnose(OfItsSizes(**settings))
    assert_report(report)
    assert report.examined["sizes"] == "5 heads of 24 channels"


class OfHeads(nn.Module):
    """Take so many heads, and no others."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, x, positions):
        assert x.shape[1] == self.count
        return rotate(x, positions)


@pytest.mark.parametrize("heads", [1, 2, 12])
def test_the_number_of_heads_is_found(heads):
    report = diagnose(OfHeads(heads), kind="rotation", order="bhtd")
    assert_report(report)
    assert report.examined["sizes"].split()[0] == str(heads)


def test_one_head_can_be_asked_for():
    assert diagnose(rotate, heads=1).examined["sizes"] == "1 head of 64 channels"
