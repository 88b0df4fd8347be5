"""Code that is called in many ways: orders of axes, tables that are given or made, names, one sick beside the sound."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from posenc.doctor import diagnose
from tests.doctor.cases import ids, neighbors, rotation, thetas, turned

HEADS, DIM = 3, 8
SIZES = {"dim": DIM, "heads": HEADS}

# Orders of axes

INSIDE = {  # from each order to (b, h, t, d)
    "bhtd": lambda x: x,
    "bthd": lambda x: x.transpose(1, 2),
    "tbhd": lambda x: x.permute(1, 2, 0, 3),
    "thd": lambda x: x.transpose(0, 1)[None],
    "htd": lambda x: x[None],
    "btd": lambda x: x.unflatten(-1, (-1, DIM)).transpose(1, 2),
    "tbd": lambda x: x.unflatten(-1, (-1, DIM)).permute(1, 2, 0, 3),
}
OUTSIDE = {
    "bhtd": lambda y: y,
    "bthd": lambda y: y.transpose(1, 2),
    "tbhd": lambda y: y.permute(2, 0, 1, 3),
    "thd": lambda y: y[0].transpose(0, 1),
    "htd": lambda y: y[0],
    "btd": lambda y: y.transpose(1, 2).flatten(2),
    "tbd": lambda y: y.permute(2, 0, 1, 3).flatten(2),
}


def ordered(order, function):
    """Return a rotation of one content in another order of axes."""

    def turn(x, positions):
        if x.ndim != len(order) or positions.ndim > 1:
            raise ValueError(f"expected {order} and positions (t,)")
        return OUTSIDE[order](function(INSIDE[order](x), positions))

    return turn


def of_both(order):
    turn = ordered(order, rotation)

    def pair(q, k, offset=0):
        places = offset + torch.arange(INSIDE[order](q).shape[2])
        return turn(q, places), turn(k, places)

    return pair


def of_lengths(order):
    turn = ordered(order, rotation)
    return lambda x: turn(x, torch.arange(INSIDE[order](x).shape[2]))


@pytest.mark.parametrize("order", INSIDE)
def test_each_order_of_axes_is_taken(order):
    for function in (ordered(order, rotation), of_both(order), of_lengths(order)):
        report = diagnose(function, order=order, kind="rotation", **SIZES)
        assert not ids(report), str(report)


@pytest.mark.parametrize("order", ["tbhd", "btd", "tbd"])
def test_an_order_of_axes_is_found(order):
    report = diagnose(ordered(order, rotation), kind="rotation", **SIZES)
    assert not ids(report), str(report)


@pytest.mark.parametrize("order", ["thd", "htd"])
def test_a_fault_of_one_text_at_a_time(order):
    report = diagnose(ordered(order, lambda x, positions: rotation(x, positions // 4)), order=order, **SIZES)
    assert ids(report), str(report)


@pytest.mark.parametrize("heads", [1, 6, 12])
def test_other_numbers_of_heads(heads):
    for order in ("bhtd", "bthd"):
        assert not ids(diagnose(of_both(order), dim=DIM, heads=heads, kind="rotation", order=order))


def attention(order, heads, causal=True):
    def attend(q, k, v):
        q, k, v = (INSIDE[order](x) for x in (q, k, v))
        look = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return OUTSIDE[order](F.scaled_dot_product_attention(q, k, v, attn_mask=look if causal else None))

    return attend


@pytest.mark.parametrize("order", ["bthd", "tbhd", "thd", "htd", "btd", "tbd"])
def test_an_attention_of_each_order_of_axes(order):
    report = diagnose(attention(order, HEADS), order=order, **SIZES)
    assert report.kind == "attention"
    assert not ids(report), str(report)


# Tables that are given

TO_ROWS = {  # from the axes of a table to (b, 1, t, w)
    "(t, w)": lambda a: a[None, None],
    "(b, t, w)": lambda a: a[:, None],
    "(b, 1, t, w)": lambda a: a,
    "(b, t, 1, w)": lambda a: a.transpose(1, 2),
    "(t, 1, w)": lambda a: a.transpose(0, 1)[None],
    "(t, b, 1, w)": lambda a: a.permute(1, 2, 0, 3),
}
HELD = {  # cos and sin in one argument
    "complex": lambda z: (z.real, z.imag),
    "angles": lambda a: (a.cos(), a.sin()),
    "cos and sin stacked last": lambda a: a.unbind(-1),
    "sin, then cos": lambda a: a.chunk(2, -1)[::-1],
    "cos, then sin": lambda a: a.chunk(2, -1),
}
GIVEN = [
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


def by_table(x, cos, sin, axes, spread):
    """Turn content (b, h, t, d) by a table of these axes, and by no other."""
    cos, sin = TO_ROWS[axes](cos), TO_ROWS[axes](sin)
    if cos.shape[1:] != (1, x.shape[2], DIM // 2 if spread == "once" else DIM) or cos.shape[0] not in (1, x.shape[0]):
        raise ValueError(f"table of shape {cos.shape}")
    if spread == "once":
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    first, second = x.chunk(2, -1)
    crossed = torch.cat((-second, first), -1)
    if spread == "neighbors":
        crossed = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * cos + crossed * sin


def given(order, held, axes, spread):
    def turn(x, cos, sin):
        return OUTSIDE[order](by_table(INSIDE[order](x), cos, sin, axes, spread))

    if held == "cos and sin":
        return lambda q, k, cos, sin: (turn(q, cos, sin), turn(k, cos, sin))
    return lambda q, k, freqs_cis: (turn(q, *HELD[held](freqs_cis)), turn(k, *HELD[held](freqs_cis)))


@pytest.mark.parametrize(("order", "held", "axes", "spread"), GIVEN)
def test_each_form_of_a_table_is_found(order, held, axes, spread):
    report = diagnose(given(order, held, axes, spread), order=order, **SIZES)
    assert not ids(report), str(report)
    assert axes in report.examined["angles"]
    assert held in report.examined["angles"] or "then" in held  # the cosine of an angle is the sine of another


def test_a_table_that_positions_index():
    def turn(q, k, cos, sin, position_ids):
        cos, sin = cos[position_ids][:, None], sin[position_ids][:, None]
        return tuple(by_table(x, cos, sin, "(b, 1, t, w)", "half") for x in (q, k))

    report = diagnose(turn, **SIZES)
    assert not ids(report), str(report)


# Makers of tables


def made(length):
    return torch.arange(length)[:, None] * thetas(DIM)


def halves(angle):
    return torch.cat((angle, angle), -1)


def waves(angle):
    return angle.cos(), angle.sin()


MAKERS = {
    "two": lambda length: waves(halves(made(length))),
    "two, as neighbors": lambda length: waves(made(length).repeat_interleave(2, -1)),
    "two, once": lambda length: waves(made(length)),
    "two, of positions": lambda positions: waves(halves(positions[:, None] * thetas(DIM))),
    "two, of rows": lambda position_ids: waves(halves(position_ids[..., None] * thetas(DIM))),
    "two, with rows and heads": lambda length: waves(halves(made(length))[None, None]),
    "two, with heads behind": lambda length: waves(halves(made(length))[:, None]),
    "two, with rows, and heads behind": lambda length: waves(halves(made(length))[None, :, None]),
    "two, of content and rows": lambda x, position_ids: waves(halves(position_ids[..., None] * thetas(DIM))),
    "complex": lambda length: torch.polar(torch.ones(length, DIM // 2), made(length)),
    "stacked last": lambda length: torch.stack(waves(made(length)), -1),
    "stacked first": lambda length: torch.stack(waves(made(length))),
    "cos, then sin": lambda length: torch.cat(waves(made(length)), -1),
    "sin, then cos": lambda length: torch.cat(waves(made(length))[::-1], -1),
    "angles": lambda length: halves(made(length)),
    "angles and more": lambda length: (made(length), 1.0),
    "angles of t": lambda t: t[:, None] * thetas(DIM),
    "two, of two axes": lambda ids: waves(torch.cat([ids[:, i, None] * thetas(DIM // 2) for i in range(2)], -1)),
    "angles that are repeated": lambda seq: halves(seq[:, None] * thetas(DIM)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers_of_tables_are_taken_for_rotations(name):
    report = diagnose(MAKERS[name], kind="rotation", **SIZES)
    assert not ids(report), str(report)
    assert f"{DIM} of {DIM} channels turn" in " ".join(str(report).split())


def test_a_maker_of_a_picture():
    def of_picture(height, width):
        speeds = thetas(DIM, 100.0)
        down, along = torch.arange(height)[:, None, None] * speeds, torch.arange(width)[:, None] * speeds
        return waves(torch.cat((down.expand(-1, width, -1), along.expand(height, -1, -1)), -1))

    report = diagnose(of_picture, kind="rotation", **SIZES)
    assert not ids(report), str(report)
    assert "rows of 6" in " ".join(str(report).split())


class Maker(nn.Module):
    def __init__(self, dim, base=10_000.0, heard=True):
        super().__init__()
        self.register_buffer("speeds", thetas(dim, base if heard else 10_000.0), persistent=False)

    def forward(self, x, position_ids):
        return waves(halves(position_ids[..., None] * self.speeds))


class DeafMaker(Maker):
    def __init__(self, dim, base=10_000.0):
        super().__init__(dim, base, heard=False)


def test_a_base_reaches_what_a_maker_makes():
    assert "base-ignored" not in ids(diagnose(Maker(DIM), kind="rotation", **SIZES))
    assert "base-ignored" in ids(diagnose(DeafMaker(DIM), kind="rotation", **SIZES))


# What code says of itself


def flagged(x, positions, interleaved):
    return neighbors(x, positions) if interleaved else rotation(x, positions)


def with_t(t, positions):
    return rotation(t, positions)


def with_width(length, width):
    return waves(halves(torch.arange(length)[:, None] * thetas(width)))


def keys_only(key, positions):
    return rotation(key, positions)


def queries_only(query, positions):
    return rotation(query, positions)


@pytest.mark.parametrize("function", [flagged, with_t, with_width, keys_only, queries_only])
def test_names_of_parameters_are_understood(function):
    report = diagnose(function, kind="rotation", **SIZES)
    assert not ids(report), str(report)


class Asking(nn.Module):
    """Asks for sizes, a length, a base and two rates of dropout."""

    def __init__(self, dim, heads, max_len, base, p, attn_dropout):
        super().__init__()
        assert (p, attn_dropout) == (0, 0)
        self.dim, self.heads = dim, heads
        self.angle = torch.arange(max_len)[:, None] * thetas(dim, base)

    def forward(self, x, positions):
        return turned(x, self.angle[positions])


class Unasked(Asking):
    """Takes no heads but its own."""

    def __init__(self, dim, n_heads=2):
        if n_heads != 2:
            raise ValueError("not supported")
        super().__init__(dim, n_heads, 64, 10_000.0, 0, 0)


@pytest.mark.parametrize("cls", [Asking, Unasked])
def test_a_class_is_built_by_what_it_asks_for(cls):
    report = diagnose(cls, **SIZES)
    assert not ids(report), str(report)


def test_a_class_that_asks_for_more_is_to_be_built_first():
    class More(Asking):
        def __init__(self, dim, flavor):
            super().__init__(dim, 2, 64, 10_000.0, 0, 0)

    with pytest.raises(ValueError, match="asks for flavor too"):
        diagnose(More)
