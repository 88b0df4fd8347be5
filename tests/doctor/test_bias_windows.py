"""Biases of windows of pictures and of pages: sides of all kinds, class tokens, formulas, and masks of one size."""

import math

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose
from tests.doctor.cases import ids, slopes
from tests.doctor.test_bias_offset_patients import on_a_page
from tests.doctor.test_bias_patients import ARANGE, Boxes

# Windows


class Pictures(nn.Module):
    """The bias of a window, after a class token or not, of any size; `made` changes what is looked up."""

    def __init__(self, size=(3, 2), lead=0, change=lambda made, down, along: made, said=None):
        super().__init__()
        torch.manual_seed(0)
        self.window_size, self.lead, self.change = said or size, lead, change
        rows, columns = size
        self.table = nn.Parameter(torch.randn((2 * rows - 1) * (2 * columns - 1) + 3, 4))
        cell = ARANGE(rows * columns)
        self.down, self.along = cell // columns - cell[:, None] // columns, cell % columns - cell[:, None] % columns
        self.index = (self.down + rows - 1) * (2 * columns - 1) + self.along + columns - 1

    def forward(self):
        n, lead = len(self.index), self.lead
        index = torch.full((n + lead, n + lead), len(self.table) - 1)
        index[lead:, lead:] = self.index
        if lead:
            index[0, :], index[:, 0], index[0, 0] = len(self.table) - 3, len(self.table) - 2, len(self.table) - 1
        made = self.table[index].permute(2, 0, 1)
        return self.change(made, self.down, self.along)


@pytest.mark.parametrize("size", [(3, 2), (2, 3), (2, 2), (6, 5), (4, 4)])
@pytest.mark.parametrize("lead", [0, 1])
def test_windows_after_a_class_token_or_none(size, lead):
    report = diagnose(Pictures(size, lead), heads=4)
    assert report.healthy, str(report)
    assert report.examined["grid"] == f"a window of rows of {size[1]}"


@pytest.mark.parametrize(
    ("change", "causes"),
    [
        (lambda made, down, along: torch.sigmoid(made), set()),
        (lambda made, down, along: torch.where(down > 0, torch.sigmoid(made), made), {"axes-swapped"}),
        (lambda made, down, along: -slopes(4)[:, None, None] * (down**2 + along**2).sqrt(), set()),
        (lambda made, down, along: -slopes(4)[:, None, None] * (down + 0.5).abs(), {"axis-lost"}),
        (lambda made, down, along: -slopes(4)[:, None, None] * (along + 0.5).abs(), {"axis-lost"}),
        (lambda made, down, along: made.permute(1, 2, 0), set()),
    ],
)
def test_windows_by_a_formula(change, causes):
    report = diagnose(Pictures((4, 5), change=change), heads=4)
    assert ids(report) == causes, str(report)


def test_a_window_of_three_axes_is_not_read_as_two():
    assert diagnose(Pictures((4, 5), said=(2, 4, 5)), heads=4).healthy


@pytest.mark.parametrize("swapped", [False, True])
def test_a_window_that_is_asked_for(swapped):
    table = torch.randn(99, 99, 4, generator=torch.Generator().manual_seed(0))

    def bias(height, width):
        rows, columns = (width, height) if swapped else (height, width)
        cell = ARANGE(rows * columns)
        down, along = cell // columns - cell[:, None] // columns, cell % columns - cell[:, None] % columns
        return table[down + 49, along + 49].permute(2, 0, 1)

    assert ids(diagnose(bias, kind="bias")) == ({"axes-swapped"} if swapped else set())


@pytest.mark.parametrize(("diagonal", "causes"), [(1, set()), (2, set()), (0, {"mask-off-by-one"})])
@pytest.mark.parametrize("bools", [False, True])
def test_a_mask_of_one_size(diagonal, causes, bools):
    hidden = torch.ones(9, 9, dtype=torch.bool).triu(diagonal)
    hidden = hidden | hidden.mT if diagonal == 2 else hidden
    mask = ~hidden if bools else torch.zeros(9, 9).masked_fill(hidden, -math.inf)
    if bools and diagonal == 0:
        return  # it may as well tell what is hidden
    assert ids(diagnose(lambda: mask, kind="bias")) == causes


def test_a_mask_that_sees_one_token_ahead():
    hidden = torch.ones(9, 9, dtype=torch.bool).triu(2)
    assert ids(diagnose(lambda: torch.zeros(9, 9).masked_fill(hidden, -1e9), kind="bias")) == {"one-direction-lost"}


# Boxes of words


@pytest.mark.parametrize(("page", "causes"), [(1000.0, set()), (1e6, set()), (20.0, set())])
def test_pages_of_other_widths(page, causes):
    """Boxes that are fractions of a page, and tables that are finer or coarser."""
    module = Boxes(page=page)
    module.x, module.y = nn.Embedding(32, 3), nn.Embedding(32, 3)
    assert ids(diagnose(module, heads=3)) == causes


def test_fractions_of_a_page():
    class Fractions(Boxes):
        def forward(self, boxes):
            if boxes.max() > 1:
                raise ValueError("fractions are due")
            return super().forward(boxes * 1000)

    report = diagnose(Fractions(), heads=4)
    assert report.healthy, str(report)
    assert "1 wide" in report.examined["size"]


def test_code_of_boxes_that_takes_none_of_a_page():
    with pytest.raises(ValueError, match="must be a rotation"):
        diagnose(lambda boxes: boxes[0, 0, 0], kind="bias")


@pytest.mark.parametrize("how", ["one table", "along x"])
def test_tables_of_a_page_by_name(how):
    assert on_a_page(how, "HorizontalAndVerticalBias").findings
