"""Biases by the boxes of words on a page, as in LayoutLM: both axes, scaled, and by offsets alone."""

import pytest
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, note_ids
from tests.doctor.bias.patients import bucket


class Boxes(nn.Module):
    """LayoutLM's bias by the left and the lower edge of boxes, or by what `how` names."""

    def __init__(self, how="both", page=1000.0, heads=4):
        super().__init__()
        self.how, self.page = how, page
        self.x, self.y = nn.Embedding(32, heads), nn.Embedding(32, heads)
        if how == "one table for both":
            self.y = nn.Identity()

    def forward(self, bbox):
        edges = (bbox.float() * self.page / 1000).long()
        x, y = edges[..., 0], edges[..., 3]
        right, below = (edge[:, None, :] - edge[:, :, None] for edge in (x, y))
        make = {
            "both": lambda: self.x(bucket(right)) + self.y(bucket(below)),
            "the left edge twice": lambda: self.x(bucket(right)) + self.y(bucket(right)),
            "places": lambda: self.x(bucket(right)) + self.y(bucket(below)) + self.y(y // 32)[:, :, None],
            "along x": lambda: self.x(bucket(right)),
            "along y": lambda: self.x(bucket(below)),
            "one table read": lambda: self.x(bucket(right)) + self.x(bucket(below)),
            "one table for both": lambda: self.x(bucket(right)) + self.x(bucket(below)),
            "added up": lambda: self.x(bucket(right + below)),
        }
        return make[self.how]().permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("how", "name", "wrong", "notes"),
    [
        ("both", "Boxes", "", ""),
        ("one table for both", "Boxes", "", "axes"),
        ("places", "Boxes", "absolute", ""),
        ("the left edge twice", "Boxes", "axis-lost", ""),
        ("along x", "Boxes", "axis-lost", ""),
        ("along y", "Boxes", "axis-lost", ""),
        ("one table read", "Boxes", "axes-swapped", ""),
        ("added up", "Boxes", "axes-swapped", ""),
        ("along x", "HorizontalBias", "", ""),
        ("along y", "VerticalBias", "", ""),
        ("along x", "VerticalBias", "axes-swapped", ""),
        ("along y", "HorizontalBias", "axes-swapped", ""),
        ("along x", "HorizontalAndVerticalBias", "axis-lost", ""),
        ("one table read", "HorizontalAndVerticalBias", "axes-swapped", ""),
    ],
)
def test_both_axes_are_seen_or_the_one_of_the_name(how, name, wrong, notes):
    cls = type(name, (Boxes,), {})
    assert_report(diagnose(cls(how), heads=4), wrong, notes)


@pytest.mark.parametrize(
    ("page", "heads", "wrong"), [(1.0, 4, "scaled-wrong"), (20.0, 3, ""), (1000.0, 3, ""), (1e6, 3, "")]
)
def test_boxes_are_scaled_finer_or_coarser(page, heads, wrong):
    assert_report(diagnose(Boxes(page=page, heads=heads), heads=heads), wrong)


class Fractions(Boxes):
    """Take boxes that are fractions of a page, and no others."""

    def forward(self, boxes):
        if boxes.max() > 1:
            raise ValueError("fractions are due")
        return super().forward(boxes * 1000)


def test_boxes_may_be_fractions_of_a_page():
    report = diagnose(Fractions(), heads=4)
    assert_report(report)
    assert "1 wide" in report.examined["size"]
    assert note_ids(report) == set()


def test_what_takes_no_boxes_of_a_page_is_refused():
    with pytest.raises(ValueError, match=r"doctor: function must be .*got"):
        diagnose(lambda boxes: boxes[0, 0, 0], kind="bias")
