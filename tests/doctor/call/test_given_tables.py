"""Rotations that are given cosines and sines, or angles: in each form of such a table, which the doctor makes."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report
from tests.doctor.call.patients import DIM, INSIDE, OUTSIDE, SIZES

TO_ROWS = {  # from the axes of a table to (b, 1, t, w)
    "(t, w)": lambda table: table[None, None],
    "(b, t, w)": lambda table: table[:, None],
    "(b, 1, t, w)": lambda table: table,
    "(b, t, 1, w)": lambda table: table.transpose(1, 2),
    "(t, 1, w)": lambda table: table.transpose(0, 1)[None],
    "(t, b, 1, w)": lambda table: table.permute(1, 2, 0, 3),
}
HELD = {  # cos and sin in one argument
    "complex": lambda table: (table.real, table.imag),
    "angles": lambda table: (table.cos(), table.sin()),
    "cos and sin stacked last": lambda table: table.unbind(-1),
    "sin, then cos": lambda table: table.chunk(2, -1)[::-1],
    "cos, then sin": lambda table: table.chunk(2, -1),
}
FORMS = [  # the order of axes, how cos and sin are held, the axes of the table, how angles are repeated
    ("bhtd", "cos and sin", "(t, w)", "half"),
    ("bhtd", "cos and sin", "(b, 1, t, w)", "neighbors"),
    ("bthd", "cos and sin", "(b, t, w)", "half"),
    ("bthd", "cos and sin", "(b, t, 1, w)", "once"),
    ("bthd", "cos and sin", "(t, 1, w)", "half"),
    ("tbhd", "cos and sin", "(t, b, 1, w)", "neighbors"),
    ("thd", "cos and sin", "(t, 1, w)", "half"),
    ("htd", "cos and sin", "(t, w)", "once"),
    ("bthd", "complex", "(t, w)", "once"),
    ("bthd", "complex", "(b, t, w)", "once"),
    ("bhtd", "complex", "(t, w)", "half"),
    ("bhtd", "cos and sin stacked last", "(t, w)", "once"),
    ("bthd", "cos and sin stacked last", "(b, t, 1, w)", "once"),
    ("bhtd", "angles", "(t, w)", "half"),
    ("tbhd", "angles", "(t, 1, w)", "once"),
    ("bhtd", "sin, then cos", "(t, w)", "once"),
    ("bhtd", "cos, then sin", "(b, t, w)", "half"),
    ("bhtd", "cos, then sin", "(b, 1, t, w)", "neighbors"),
]


def by_table(x, cos, sin, axes, repeated):
    """Rotate content (b, h, t, d) by a table of these axes, and by no other."""
    cos, sin = TO_ROWS[axes](cos), TO_ROWS[axes](sin)
    width = DIM // 2 if repeated == "once" else DIM
    if cos.shape[1:] != (1, x.shape[2], width) or cos.shape[0] not in (1, x.shape[0]):
        raise ValueError(f"table of shape {cos.shape}")
    if repeated == "once":
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    first, second = x.chunk(2, -1)
    crossed = torch.cat((-second, first), -1)
    if repeated == "neighbors":
        crossed = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * cos + crossed * sin


def given(order, held, axes, repeated):
    """Return a rotation of queries and keys that takes tables in one form."""

    def turn(x, cos, sin):
        return OUTSIDE[order](by_table(INSIDE[order](x), cos, sin, axes, repeated))

    if held == "cos and sin":
        return lambda q, k, cos, sin: (turn(q, cos, sin), turn(k, cos, sin))
    return lambda q, k, freqs_cis: (turn(q, *HELD[held](freqs_cis)), turn(k, *HELD[held](freqs_cis)))


@pytest.mark.parametrize(("order", "held", "axes", "repeated"), FORMS)
def test_each_form_of_a_table_is_found(order, held, axes, repeated):
    report = diagnose(given(order, held, axes, repeated), order=order, **SIZES)
    assert_report(report)
    assert axes in report.examined["angles"]
    assert held in report.examined["angles"] or "then" in held  # the cosine of an angle is the sine of another


def by_index(q, k, cos, sin, position_ids):
    cos, sin = cos[position_ids][:, None], sin[position_ids][:, None]
    return tuple(by_table(x, cos, sin, "(b, 1, t, w)", "half") for x in (q, k))


def angles_first(pos, t):
    """Take angles first, as wide as the content, and the content under the name t."""
    cos, sin = pos.cos(), pos.sin()
    half = t.shape[-1] // 2
    return t * cos + torch.cat((-t[..., half:], t[..., :half]), -1) * sin


@pytest.mark.parametrize("patient", [by_index, angles_first])
def test_a_table_that_positions_index_and_angles_before_the_content(patient):
    assert_report(diagnose(patient, **SIZES))
