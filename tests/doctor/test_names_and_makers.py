"""Code that the doctor finds out by itself: its orders of axes, its sizes, its names, what makes its tables."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation, sines_and_cosines, thetas, turned
from tests.doctor.test_attention_calls import Attention
from tests.doctor.test_calling_patients import DIM, SIZES, halves, waves
from tests.peers import peer

LAID = {  # embeddings (b, t, d) in each order of axes, and back
    "btd": (lambda x: x, lambda y: y),
    "tbd": (lambda x: x.transpose(0, 1), lambda y: y.transpose(0, 1)),
    "bdt": (lambda x: x.transpose(1, 2), lambda y: y.transpose(1, 2)),
    "brcd": (lambda x: x.unflatten(1, (4, -1)), lambda y: y.flatten(1, 2)),
    "bdrc": (lambda x: x.transpose(1, 2).unflatten(2, (4, -1)), lambda y: y.flatten(2).transpose(1, 2)),
    "bxyrcd": (lambda x: x.unflatten(1, (1, 1, 4, -1)), lambda y: y.flatten(1, 4)),
}


class Laid(Attention):
    def __init__(self, order, scale=1.0):
        super().__init__()
        self.order, self.scale = order, scale

    def forward(self, x):
        there, back = LAID[self.order]
        assert x.ndim == len(self.order)
        x = back(x)
        assert torch.equal(there(x), there(x).view_as(there(x)))
        q, k, v = self.parts(x)
        out = nn.functional.scaled_dot_product_attention(self.scale * q, k, v, is_causal=True)
        return there(self.o_proj(out.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("order", LAID)
def test_embeddings_in_each_order_of_axes(order):
    report = diagnose(Laid(order), dim=64, heads=4, order=order)
    assert report.healthy, str(report)
    assert ids(diagnose(Laid(order, 0.5), dim=64, heads=4, order=order)) == {"scale-wrong"}


# Makers of tables


class Maker(nn.Module):
    """Makes tables for content of three heads, which come as wide and as long as they are turned."""

    def __init__(self, lay=lambda table: table):
        super().__init__()
        self.lay = lay

    def forward(self, x, position_ids):
        assert x.shape[1:] == (position_ids.shape[1], DIM)
        return waves(self.lay(halves(position_ids[..., None] * thetas(DIM))))


class Pictured(nn.Module):
    """Makes the table of a picture (b, d, rows, columns)."""

    def forward(self, x):
        b, d, rows, columns = x.shape
        assert (b, d) == (1, DIM)
        speeds = thetas(d // 2, 100.0)
        down, along = torch.arange(rows)[:, None, None] * speeds, torch.arange(columns)[:, None] * speeds
        return waves(torch.cat((down.expand(-1, columns, -1), along.expand(rows, -1, -1)), -1))


MAKERS = {
    "tokens before rows and heads": lambda length: waves(
        halves(torch.arange(length)[:, None] * thetas(DIM))[:, None, None]
    ),
    "of content and rows": Maker(),
    "of content and rows, with heads": Maker(lambda table: table[:, None]),
    "of content and rows, heads behind": Maker(lambda table: table[:, :, None]),
    "of three axes": lambda ids: waves(torch.cat([ids[:, i, None] * thetas(DIM) for i in range(3)], -1)),
    "longer than asked for": lambda length: waves(halves(torch.arange(2 * length)[:, None] * thetas(DIM))),
    "of a length that is asked for twice": lambda x, length: waves(
        halves(torch.arange(length)[: x.shape[1], None] * thetas(x.shape[2]))
    ),
    "of the length of content": lambda x: waves(halves(torch.arange(x.shape[1])[:, None] * thetas(x.shape[2]))),
    "of an odd number of pairs": lambda length: waves(torch.arange(length)[:, None] * thetas(6)),
    "counted from one": lambda length: waves(torch.arange(1, length + 1)[:, None] * thetas(DIM)),
    "of lengths that are nearly the same": lambda length: tuple(
        part * torch.linspace(1, 1.008, DIM // 2) for part in waves(torch.arange(length)[:, None] * thetas(DIM))
    ),
    "of a picture": Pictured(),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers_of_other_shapes(name):
    report = diagnose(MAKERS[name], kind="rotation", **SIZES)
    assert report.kind == "rotation"
    assert ids(report) == ({"not-a-rotation"} if "nearly" in name else set()), str(report)


NO_MAKERS = {
    "too few tokens": lambda length: waves(torch.arange(5)[:, None] * thetas(DIM)),
    "nothing turns": lambda length: waves(0.01 * torch.arange(length)[:, None] * thetas(DIM)),
    "lengths differ": lambda length: tuple(
        part * torch.linspace(1, 1.03, DIM // 2) for part in waves(torch.arange(length)[:, None] * thetas(DIM))
    ),
    "angles that do not grow evenly": lambda length: torch.arange(length)[:, None] ** 1.5 * thetas(DIM),
    "angles from one": lambda length: torch.arange(1, length + 1)[:, None] * thetas(DIM),
}


@pytest.mark.parametrize("name", NO_MAKERS)
def test_what_makes_no_table_is_refused(name):
    with pytest.raises(ValueError, match="must be a rotation"):
        diagnose(NO_MAKERS[name], kind="rotation", **SIZES)


def plain_angles(length, dim):
    return torch.arange(length)[:, None] * thetas(dim)


def waves_of(length, dim):
    return sines_and_cosines(plain_angles(length, dim))


def test_angles_are_told_from_a_table():
    assert diagnose(plain_angles).kind == "rotation"
    assert diagnose(waves_of).kind == "table"


# Sizes and names


class Owned(nn.Module):
    def __init__(self, said):
        super().__init__()
        self.config = SimpleNamespace(**said)

    def forward(self, x, positions):
        assert x.shape[1::2] == (5, 24)
        return rotation(x, positions)


@pytest.mark.parametrize("said", [{"head_dim": 24, "num_heads": 5}, {"d_k": 24, "nhead": 5, "n_embd": True}])
def test_sizes_that_code_says_of_itself(said):
    report = diagnose(Owned(said))
    assert report.healthy, str(report)
    assert report.examined["sizes"] == "5 heads of 24 channels"


class Of(nn.Module):
    """Takes so many heads, and no others."""

    def __init__(self, heads):
        super().__init__()
        self.count = heads

    def forward(self, x, positions):
        assert x.shape[1] == self.count
        return rotation(x, positions)


@pytest.mark.parametrize("heads", [1, 2, 12])
def test_heads_are_found(heads):
    report = diagnose(Of(heads), kind="rotation", order="bhtd")
    assert report.examined["sizes"].startswith(f"{heads} head")


def table_of_t(t, dim):
    return waves_of(t, dim)


def table_of_picture(dim, h, w):
    row, column = torch.arange(h).repeat_interleave(w), torch.arange(w).repeat(h)
    return torch.cat([sines_and_cosines(place[:, None] * thetas(dim // 2)) for place in (row, column)], -1)


def bias_of_batch(batch_size, heads, t):
    assert batch_size == 1
    return -(torch.arange(1, heads + 1) / heads)[:, None, None] * (torch.arange(t)[:, None] - torch.arange(t)).abs()


@pytest.mark.parametrize(
    ("function", "kind"), [(table_of_t, "table"), (table_of_picture, "table"), (bias_of_batch, "bias")]
)
def test_names_tell_the_kind(function, kind):
    report = diagnose(function)
    assert report.kind == kind
    assert not ids(report), str(report)


def by_axis(x, positions, dim=-1):
    return rotation(x.movedim(dim, -1), positions).movedim(-1, dim)


def shrunk(x, positions, scaling_factor):
    assert scaling_factor == 1
    return rotation(x, positions / scaling_factor)


@pytest.mark.parametrize("function", [by_axis, shrunk])
def test_names_beside_the_content(function):
    report = diagnose(function, **SIZES)
    assert report.healthy, str(report)


def of_itself(module):
    """Return a function that calls itself and a module, and knows another that is not there yet."""

    def turn(x, *, positions, again=True):
        return turn(x, positions=positions, again=False) if again else module(x, positions, later if x is None else 0)

    def named():
        return later

    if module is None:
        later = named
    return turn


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.speeds = nn.Parameter(thetas(DIM))
        self.calls = 0

    def forward(self, x, positions, _):
        self.calls += 1
        return turned(x, positions[:, None] * self.speeds)


def test_a_function_that_calls_itself_and_a_module():
    module = Turned()
    report = diagnose(of_itself(module), **SIZES)
    assert report.healthy, str(report)
    assert module.calls == 0


@pytest.mark.parametrize("name", ["transformers:", "transformers:NoSuchAttention"])
def test_names_that_transformers_does_not_know(name):
    peer("transformers")
    with pytest.raises(ValueError, match="must be module:function"):
        diagnose(name)
