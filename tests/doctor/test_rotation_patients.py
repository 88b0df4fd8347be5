"""Patients of the doctor that turn: scales, pictures, makers, bases and factors, offsets, each sick and sound."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation, thetas, turned


def angles(length, dim, base=10_000.0):
    return torch.arange(length)[:, None] * thetas(dim, base)


# Scales as in xPos


def faded(x, positions, sign=1):
    scale = (torch.arange(0.4, 1.4, 2 / x.shape[-1]) / 1.4) ** (sign * positions[:, None] / 512)
    return rotation(x, positions) * torch.cat((scale, scale), -1)


def xpos(q, k, positions):
    return faded(q, positions), faded(k, positions, -1)


def xpos_not_inverted(q, k, positions):
    return faded(q, positions), faded(k, positions)


def test_keys_undo_the_scale_of_queries():
    assert diagnose(xpos).healthy, str(diagnose(xpos))
    assert "absolute" in ids(diagnose(xpos_not_inverted))


def test_a_scale_of_one_side_is_no_fault_as_long_as_the_other_is_not_seen():
    report = diagnose(lambda x, positions: faded(x, positions))
    assert report.healthy, str(report)
    assert report.finding("norm").verdict == "note"


# Pairs and channels

WHOLE = 32  # of 64 channels turn


def part(x, positions, rest):
    return torch.cat((rotation(x[..., :WHOLE], positions), rest(x)), -1)


def mirrored(x, positions):
    first, second = rotation(x, positions).chunk(2, -1)
    return torch.cat((first, -second), -1)


SICK = {
    "head for rest": (lambda x, positions: part(x, positions, lambda x: x[..., :-WHOLE]), "width-wrong"),
    "mirrored": (mirrored, "not-a-rotation"),
    "mirrored keys": (lambda q, k, positions: (rotation(q, positions), mirrored(k, positions)), "not-a-rotation"),
    "keys left behind": (lambda q, k, offset=0: (_from(q, offset), _from(k, 0)), "sides-differ"),
    "queries left behind": (lambda q, k, offset=0: (_from(q, 0), _from(k, offset)), "sides-differ"),
}


def _from(x, offset):
    return rotation(x, offset + torch.arange(x.shape[2]))


@pytest.mark.parametrize("name", SICK)
def test_a_fault_of_channels_or_sides_has_its_name(name):
    function, cause = SICK[name]
    assert cause in ids(diagnose(function, dim=64)), str(diagnose(function, dim=64))


def test_channels_that_pass_are_no_fault():
    assert diagnose(lambda x, positions: part(x, positions, lambda x: x[..., WHOLE:]), dim=64).healthy


# Pictures


def of_picture(down, along):
    return lambda x, height, width: turned(x, _both(x, down(height, width), along(height, width)))


def _both(x, down, along):
    speeds = thetas(x.shape[-1] // 2)
    return torch.cat((down[:, None] * speeds, along[:, None] * speeds), -1)


def _count(height, width):
    return torch.arange(height * width)


PICTURES = {
    "sound": (lambda h, w: _count(h, w) // w, lambda h, w: _count(h, w) % w, ""),
    "height divides": (lambda h, w: _count(h, w) // h, lambda h, w: _count(h, w) % w, "axes-swapped"),
    "by columns": (lambda h, w: _count(h, w) // h, lambda h, w: _count(h, w) % h, "axes-swapped"),
    "columns twice": (lambda h, w: _count(h, w) % w, lambda h, w: _count(h, w) % w, "axis-lost"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_rows_of_a_picture_are_as_long_as_it_is_wide(name):
    down, along, cause = PICTURES[name]
    report = diagnose(of_picture(down, along))
    assert ids(report) & {"axes-swapped", "axis-lost"} == ({cause} if cause else set()), str(report)


class WithClass(nn.Module):
    """A picture of 4 rows of 4, and the token of its class behind or before them."""

    def __init__(self, before):
        super().__init__()
        places = torch.arange(16)
        angle = torch.cat((places[:, None] // 4 * thetas(32), places[:, None] % 4 * thetas(32)), -1)
        none = torch.zeros(1, angle.shape[-1])
        self.angle = torch.cat((none, angle) if before else (angle, none))

    def forward(self, x):
        return turned(x, self.angle)


@pytest.mark.parametrize("before", [False, True])
def test_a_token_of_the_class_is_no_fault_of_the_grid(before):
    report = diagnose(WithClass(before), dim=64)
    assert report.healthy, str(report)
    assert "rows of 4" in str(report)


# What makes the angles, and how it is called


def test_angles_are_taken_as_makers_give_them():
    assert diagnose(lambda length, dim: (angles(length, dim).cos(), angles(length, dim).sin())).kind == "rotation"
    assert diagnose(lambda length, dim: angles(length, dim)).kind == "rotation"


def apply(pos, t):
    return turned(t, pos[..., : t.shape[-1] // 2])


def of_each_text(q, k, offset):
    places = offset[:, None] + torch.arange(q.shape[2])
    return rotation(q, places), rotation(k, places)


def of_length(q, k, start_pos, seqlen):
    angle = angles(start_pos + seqlen, q.shape[-1])[start_pos:]
    return turned(q, angle), turned(k, angle)


@pytest.mark.parametrize("function", [apply, of_each_text, of_length])
def test_angles_first_offsets_of_texts_and_lengths_are_understood(function):
    report = diagnose(function)
    assert report.kind == "rotation"
    assert not ids(report), str(report)


# Bases and factors that do not arrive


class Based(nn.Module):
    def __init__(self, dim, base=10_000.0, scaling_factor=1.0, arrives=True):
        super().__init__()
        self.angle = angles(4096, dim, base if arrives else 10_000.0) / (scaling_factor if arrives else 1.0)

    def forward(self, x, positions):
        return turned(x, self.angle[positions])


class Unheard(Based):
    def __init__(self, dim, base=10_000.0, scaling_factor=1.0):
        super().__init__(dim, base, scaling_factor, arrives=False)


def test_a_base_and_a_factor_arrive_or_not():
    assert diagnose(Based(64, 500.0)).healthy
    assert ids(diagnose(Unheard(64, 500.0))) == {"base-ignored", "scaling-ignored"}


# Calls after calls


class Forgetful(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x, offset=0):
        if self.kept is None or len(self.kept) < x.shape[2]:
            self.kept = (offset + torch.arange(x.shape[2]))[:, None] * thetas(x.shape[-1])
        return turned(x, self.kept[: x.shape[2]])


def with_the_head(q, k):
    return rotation(q, torch.arange(q.shape[2])), rotation(k, torch.arange(k.shape[2]))


def with_the_end(q, k):
    return rotation(q, torch.arange(k.shape[2])[-q.shape[2] :]), rotation(k, torch.arange(k.shape[2]))


def test_offsets_are_kept_apart_and_the_last_query_stands_at_the_last_key():
    assert ids(diagnose(Forgetful())) & {"cache-stale", "offset-ignored"}
    assert ids(diagnose(with_the_head)) == {"offset-ignored"}
    assert diagnose(with_the_end).healthy
