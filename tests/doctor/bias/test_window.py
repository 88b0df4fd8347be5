"""Biases of the window of a picture: each offset of rows and columns has a number, and rows are rows."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, verdicts
from tests.doctor.blocks import slopes


def cell_offsets(rows, columns):
    """Return how many rows down and columns along a key lies from a query, (n, n) each."""
    cell = torch.arange(rows * columns)
    row, column = cell // columns, cell % columns
    return row - row[:, None], column - column[:, None]


class Window(nn.Module):
    """Swin's bias, `size` in rows and columns, after a class token or not.

    `step` is the distance of two rows in the table, 2 * columns - 1 where it is right; `change` changes what is looked
    up, and `named` is the size that the module tells.
    """

    def __init__(self, size=(4, 6), step=None, lead=0, change=lambda numbers, down, along: numbers, named=None):
        super().__init__()
        rows, columns = size
        self.window_size, self.lead, self.change = named or size, lead, change
        self.logit_scale = nn.Parameter(torch.full((4,), 2.0))  # a small parameter before the table
        self.table = nn.Parameter(torch.randn((2 * rows - 1) * (2 * columns - 1) + 3, 4))
        self.down, self.along = cell_offsets(rows, columns)
        step = 2 * columns - 1 if step is None else step
        self.index = (self.down + rows - 1) * step + self.along + columns - 1

    def forward(self):
        n, lead, last = len(self.index), self.lead, len(self.table) - 1
        index = torch.full((n + lead, n + lead), last)
        index[lead:, lead:] = self.index
        if lead:
            index[0, :], index[:, 0], index[0, 0] = last - 2, last - 1, last
        return self.change(self.table[index].permute(2, 0, 1), self.down, self.along)


def reshaped(numbers, down, along):
    """View numbers (t, s, h) as (h, t, s)."""
    return numbers.permute(1, 2, 0).reshape(numbers.shape)


def by_distance(numbers, down, along):
    return -slopes(4)[:, None, None] * (down**2 + along**2).sqrt()


WINDOWS = {
    "sound": (Window, {}, ""),
    "a square": (Window, {"size": (4, 4)}, ""),
    "rows by 2 * rows - 1": (Window, {"step": 7}, "axes-swapped"),
    "the furthest rows ahead are one": (
        Window,
        {"change": lambda numbers, down, along: torch.where(down < -1, along.float(), numbers)},
        "axes-swapped buckets-wrong",
    ),
    "rows by another number": (Window, {"step": 5}, "buckets-wrong"),
    "rows of a square by another number": (Window, {"size": (4, 4), "step": 3}, "buckets-wrong"),
    "rows of 4 by 2 * rows - 1": (Window, {"size": (3, 4), "step": 5}, "axes-swapped"),
    "heads reshaped": (Window, {"change": reshaped}, "heads-mixed"),
    "heads last": (Window, {"change": lambda numbers, down, along: numbers.permute(1, 2, 0)}, ""),
    "three axes": (Window, {"size": (4, 5), "named": (2, 4, 5)}, ""),
    "by a sigmoid": (Window, {"size": (4, 5), "change": lambda numbers, down, along: torch.sigmoid(numbers)}, ""),
    "half by a sigmoid": (
        Window,
        {"size": (4, 5), "change": lambda numbers, down, along: torch.where(down > 0, torch.sigmoid(numbers), numbers)},
        "axes-swapped",
    ),
    "by the distance": (Window, {"size": (4, 5), "change": by_distance}, ""),
    "by rows alone": (
        Window,
        {"size": (4, 5), "change": lambda numbers, down, along: -slopes(4)[:, None, None] * (down + 0.5).abs()},
        "axis-lost",
    ),
    "by columns alone": (
        Window,
        {"size": (4, 5), "change": lambda numbers, down, along: -slopes(4)[:, None, None] * (along + 0.5).abs()},
        "axis-lost",
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_each_offset_of_rows_and_columns_has_its_number(name):
    cls, settings, wrong = WINDOWS[name]
    assert_report(diagnose(cls(**settings), heads=4), wrong)


@pytest.mark.parametrize("size", [(3, 2), (2, 3), (2, 2), (6, 5), (4, 4), (4, 6), (5, 3)])
@pytest.mark.parametrize("lead", [0, 1])
def test_rows_are_found_after_a_class_token_or_none(size, lead):
    report = diagnose(Window(size, lead=lead), heads=4)
    assert_report(report)
    assert f"rows of {size[1]}" in report.examined["grid"]


@pytest.mark.parametrize("size", [(2, 3), (4, 6), (5, 3)])
def test_a_window_of_its_own_reads_its_table(size):
    assert verdicts(diagnose(Window(size), kind="bias"), "entries") == ["ok"]


class Resized(Window):
    """Take columns for rows where the table is resized to another window."""

    def __init__(self):
        super().__init__()
        self.logit_scale = None
        self.table = nn.Parameter(torch.randn(7 * 11, 4))

    def forward(self):
        picture = self.table.reshape(1, 11, 7, 4).permute(0, 3, 1, 2)
        table = nn.functional.interpolate(picture, size=(7, 11), mode="bilinear").permute(0, 2, 3, 1).reshape(77, 4)
        return table[self.index].permute(2, 0, 1)


def test_a_table_that_is_resized_with_columns_for_rows():
    assert_report(diagnose(Resized(), heads=4), "axes-swapped")


@pytest.mark.parametrize(("swapped", "wrong"), [(False, ""), (True, "axes-swapped")])
def test_a_window_that_is_asked_for(swapped, wrong):
    table = torch.randn(99, 99, 4)

    def bias(height, width):
        down, along = cell_offsets(width, height) if swapped else cell_offsets(height, width)
        return table[down + 49, along + 49].permute(2, 0, 1)

    assert_report(diagnose(bias, kind="bias"), wrong)


BY_ROW, BY_COLUMN = "bhwc,hkc->bhwk", "bhwc,wkc->bhwk"


def added(scores, q, tables, sides, of_rows=BY_ROW):
    """Add SAM's bias to scores: the query meets a table of rows and one of columns; None leaves the rows out."""
    (h, w), content = sides, q.reshape(1, *sides, -1)
    down, along = (
        table[torch.arange(n)[:, None] - torch.arange(n) + n - 1] for table, n in zip(tables, sides, strict=True)
    )
    numbers = scores.view(1, h, w, h, w) + torch.einsum(BY_COLUMN, content, along)[..., None, :]
    if of_rows:
        numbers = numbers + torch.einsum(of_rows, content, down)[..., :, None]
    return numbers.view(1, h * w, h * w)


def decomposed(attn, q, rel_pos_h, rel_pos_w, q_size, k_size):
    return added(attn, q, (rel_pos_h, rel_pos_w), q_size)


def decomposed_without_rows(attn, q, rel_pos_h, rel_pos_w, q_size, k_size):
    """Leave the rows out."""
    return added(attn, q, (rel_pos_h, rel_pos_w), q_size, None)


def decomposed_by_columns(attn, q, rel_pos_h, rel_pos_w, q_size, k_size):
    """Read the table of rows by the query's column, which fits square windows alone."""
    return added(attn, q, (rel_pos_h, rel_pos_w), q_size, BY_COLUMN)


@pytest.mark.parametrize(
    ("patient", "wrong"),
    [(decomposed, ""), (decomposed_without_rows, "axis-lost"), (decomposed_by_columns, "absolute axes-swapped")],
)
def test_decomposed_relative_positions(patient, wrong):
    assert_report(diagnose(patient), wrong)
