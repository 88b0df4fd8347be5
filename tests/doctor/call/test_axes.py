"""In which order the axes of batch, tokens, heads and channels stand, told by `order` or found out."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report, note_ids
from tests.doctor.attention.patients import SelfAttention
from tests.doctor.blocks import attend, attend_behind, frequencies, rotate, rotate_by
from tests.doctor.call.patients import DIM, HEADS, INSIDE, OUTSIDE, SIZES
from tests.doctor.rotation.patients import tiled_angles, widened

SHOWN = {
    "bhtd": "(b, h, t, d)",
    "bthd": "(b, t, h, d)",
    "tbhd": "(t, b, h, d)",
    "thd": "(t, h, d)",
    "htd": "(h, t, d)",
    "btd": "(b, t, h * d)",
    "tbd": "(t, b, h * d)",
}


def ordered(order, function):
    """Return a rotation of one content in another order of axes, by positions (t,) and no others."""

    def turn(x, positions):
        if x.ndim != len(order) or positions.ndim > 1:
            raise ValueError(f"expected {order} and positions (t,)")
        return OUTSIDE[order](function(INSIDE[order](x), positions))

    return turn


def of_pair(order):
    turn = ordered(order, rotate)

    def pair(q, k, offset=0):
        positions = offset + torch.arange(INSIDE[order](q).shape[2])
        return turn(q, positions), turn(k, positions)

    return pair


def of_length(order):
    turn = ordered(order, rotate)
    return lambda x: turn(x, torch.arange(INSIDE[order](x).shape[2]))


@pytest.mark.parametrize(
    "make", [lambda order: ordered(order, rotate), of_pair, of_length], ids=["positions", "offset", "length"]
)
@pytest.mark.parametrize("order", INSIDE)
def test_each_order_of_a_rotation_is_taken(order, make):
    report = diagnose(make(order), order=order, kind="rotation", **SIZES)
    assert_report(report)
    assert report.examined["axes"] == SHOWN[order]


@pytest.mark.parametrize("order", ["tbhd", "btd", "tbd"])
def test_an_order_of_axes_is_found_and_noted(order):
    report = diagnose(ordered(order, rotate), kind="rotation", **SIZES)
    assert_report(report, notes="axes")
    assert report.examined["axes"] == SHOWN[order]


@pytest.mark.parametrize("order", ["thd", "htd"])
def test_a_fault_of_code_for_one_text_at_a_time(order):
    report = diagnose(ordered(order, lambda x, positions: rotate(x, positions // 4)), order=order, **SIZES)
    assert_report(report, "axis-lost still")


@pytest.mark.parametrize("heads", [1, 6, 12])
@pytest.mark.parametrize("order", ["bhtd", "bthd"])
def test_other_numbers_of_heads(order, heads):
    assert_report(diagnose(of_pair(order), dim=DIM, heads=heads, kind="rotation", order=order))


def pair_in_bthd(xq, xk, positions):
    return tuple(rotate(x.transpose(1, 2), positions).transpose(1, 2) for x in (xq, xk))


def of_length_in_bthd(x):
    return rotate(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)


def of_meta(xq, xk, start_pos=0):
    """Rotate (b, t, h, d) by complex numbers from the position of the first token, as Meta's code does."""
    angles = (start_pos + torch.arange(xq.shape[1]))[:, None] * frequencies(xq.shape[-1])
    turn = torch.polar(torch.ones_like(angles), angles)[:, None]
    pairs = (torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous()) for x in (xq, xk))
    return tuple(torch.view_as_real(pair * turn).flatten(-2).type_as(xq) for pair in pairs)


@pytest.mark.parametrize("patient", [pair_in_bthd, of_length_in_bthd, of_meta])
def test_heads_behind_tokens_are_found(patient):
    report = diagnose(patient)
    assert_report(report, notes="axes")
    assert report.examined["axes"] == "(b, t, h, d)"


def test_an_order_that_is_told_is_not_noted():
    report = diagnose(pair_in_bthd, order="bthd")
    assert_report(report)
    assert "axes" not in note_ids(report)


# Code that counts the tokens itself, or does not say which axis they are


def on_second_axis(function):
    return lambda x: function(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)


@pytest.mark.parametrize(("patient", "wrong"), [(rotate, ""), (tiled_angles, "layout-mixed"), (widened, "")])
@pytest.mark.parametrize(("dim", "heads"), [(16, 3), (8, 6)])
def test_the_axis_of_tokens_is_the_one_along_which_content_turns(patient, wrong, dim, heads):
    report = diagnose(on_second_axis(patient), kind="rotation", dim=dim, heads=heads)
    assert_report(report, wrong, "axes")
    assert report.examined["axes"] == "(b, t, h, d)"


def along_second_axis(x, positions):
    return rotate_by(x.transpose(1, 2), positions[:, None] * frequencies(x.shape[-1])).transpose(1, 2)


@pytest.mark.parametrize("heads", [5, 6, 7])
def test_positions_are_not_matched_with_as_many_heads(heads):
    report = diagnose(along_second_axis, kind="rotation", dim=16, heads=heads)
    assert_report(report)
    assert report.examined["axes"] == "(b, t, h, d)"


# Attentions


def attention(order, mixing):
    def call(q, k, v):
        return OUTSIDE[order](mixing(*(INSIDE[order](x) for x in (q, k, v))))

    return call


@pytest.mark.parametrize("order", ["bthd", "tbhd", "thd", "htd", "btd", "tbd"])
def test_each_order_of_an_attention_is_taken(order):
    report = diagnose(attention(order, attend_behind), order=order, **SIZES)
    assert report.kind == "attention"
    assert_report(report)
    assert report.examined["axes"] == SHOWN[order]


def test_an_attention_of_one_text_that_sees_all():
    assert_report(diagnose(attention("thd", attend), order="thd", dim=DIM, heads=HEADS), notes="future")


LAID = {  # embeddings (b, t, d) in each order of axes, and back
    "btd": (lambda x: x, lambda y: y),
    "tbd": (lambda x: x.transpose(0, 1), lambda y: y.transpose(0, 1)),
    "bdt": (lambda x: x.transpose(1, 2), lambda y: y.transpose(1, 2)),
    "brcd": (lambda x: x.unflatten(1, (4, -1)), lambda y: y.flatten(1, 2)),
    "bdrc": (lambda x: x.transpose(1, 2).unflatten(2, (4, -1)), lambda y: y.flatten(2).transpose(1, 2)),
    "bxyrcd": (lambda x: x.unflatten(1, (1, 1, 4, -1)), lambda y: y.flatten(1, 4)),
}


class Laid(SelfAttention):
    """Take embeddings in another order of axes, and scale products by `factor` more."""

    def __init__(self, order, factor=1.0):
        super().__init__()
        self.order, self.factor = order, factor

    def scores(self, q, k):
        return super().scores(self.factor * q, k)

    def forward(self, x):
        assert x.ndim == len(self.order)
        there, back = LAID[self.order]
        return there(super().forward(back(x)))


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, ""), (0.5, "scale-wrong")])
@pytest.mark.parametrize("order", LAID)
def test_embeddings_in_each_order_of_axes(order, factor, wrong):
    assert_report(diagnose(Laid(order, factor), dim=64, heads=4, order=order), wrong)
