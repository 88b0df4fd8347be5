"""Patients of the doctor that show how code is called: by which axes tokens stand, and what is no rotation at all."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, rotation, thetas, tiled_rotation, turned


def wide_rotation(x, positions):
    """Cosines beside sines, as in PoPE."""
    angle = (positions[:, None] * thetas(x.shape[-1])).repeat(1, 2)
    return torch.cat((x * angle.cos(), x * angle.sin()), -1)


def second_axis(function):
    """Return code for (b, t, h, d) that counts the tokens itself."""
    return lambda x: function(x.transpose(1, 2), torch.arange(x.shape[1])).transpose(1, 2)


@pytest.mark.parametrize(
    ("function", "cause"), [(rotation, set()), (tiled_rotation, {"layout-mixed"}), (wide_rotation, set())]
)
@pytest.mark.parametrize(("dim", "heads"), [(16, 3), (8, 6)])
def test_the_axis_of_tokens_is_the_one_along_which_content_turns(function, cause, dim, heads):
    report = diagnose(second_axis(function), kind="rotation", dim=dim, heads=heads)
    assert ids(report) == cause, str(report)
    assert report.examined["axes"] == "(b, t, h, d)"


def along_the_second(x, positions):
    return turned(x.transpose(1, 2), positions[:, None] * thetas(x.shape[-1])).transpose(1, 2)


@pytest.mark.parametrize("heads", [5, 6, 7])
def test_positions_do_not_meet_as_many_heads(heads):
    report = diagnose(along_the_second, kind="rotation", dim=16, heads=heads)
    assert report.examined["axes"] == "(b, t, h, d)"
    assert report.healthy, str(report)


def of_rows(x, position_ids=None):
    """Takes (b, t) where it takes positions; of (t,) it makes an axis too many."""
    rows = torch.arange(x.shape[2])[None] if position_ids is None else position_ids
    return turned(x, (rows[..., None] * thetas(x.shape[-1])).unsqueeze(1))


def test_positions_make_no_other_shape():
    report = diagnose(of_rows, kind="rotation", dim=16, heads=1)
    assert report.healthy, str(report)
    assert report.finding("batched positions").verdict == "ok"


class Silent(nn.Module):
    """Starts with a projection of zeros."""

    def forward(self, x, positions):
        return 0 * rotation(x, positions)


def with_a_table(x, positions):
    return rotation(x, positions) + (positions[:, None] * thetas(x.shape[-1])).cos().repeat(1, 2)


def shortened(x, positions):
    return rotation(x, positions)[:, :, ::2]


def narrowed(x, positions):
    return rotation(x, positions)[..., :-2]


@pytest.mark.parametrize("function", [Silent(), with_a_table, shortened, narrowed, lambda x, positions: None])
def test_what_is_no_rotation_is_not_taken_for_one(function):
    with pytest.raises(ValueError, match="doctor: function must be a rotation"):
        diagnose(function, kind="rotation", dim=16, heads=3)
