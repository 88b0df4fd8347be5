"""Biases that tell what is seen by a bool, and those that need sizes of their own to be read."""

import pytest
import torch
from torch import nn

from posenc.doctor import diagnose

ARANGE = torch.arange


def causal(query_length, key_length):
    return ARANGE(key_length) <= ARANGE(key_length - query_length, key_length)[:, None]


def anti_causal(query_length, key_length):
    return ARANGE(key_length) >= ARANGE(key_length - query_length, key_length)[:, None]


def past_only(query_length, key_length):
    return ARANGE(key_length) < ARANGE(key_length - query_length, key_length)[:, None]


def one_ahead(query_length, key_length):
    return ARANGE(key_length) <= ARANGE(key_length - query_length, key_length)[:, None] + 1


def added_past_only(query_length, key_length):
    return torch.where(past_only(query_length, key_length), 0.0, float("-inf"))


def near_only(query_length, key_length):
    return (ARANGE(key_length) - ARANGE(key_length - query_length, key_length)[:, None]).abs() < 4


def lengths(make, heads, inverted):
    """Return a mask (1, h, t, s), True where it is seen, or where it is hidden."""

    def mask(query_length, key_length):
        return (make(query_length, key_length) ^ inverted)[None, None].expand(1, heads, -1, -1)

    return mask


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(
    ("make", "cause"), [(causal, ""), (near_only, ""), (anti_causal, "transposed"), (one_ahead, "mask-off-by-one")]
)
def test_a_mask_of_bools_is_read_whichever_way_it_tells_what_is_seen(make, cause, heads, inverted):
    report = diagnose(lengths(make, heads, inverted), kind="bias")
    assert {finding.id for finding in report.findings if finding.verdict == "wrong"} == ({cause} if cause else set())


def test_a_mask_hides_the_own_key():
    assert diagnose(added_past_only, kind="bias").finding("own place").id == "mask-off-by-one"


def test_numbers_of_keys_whose_heads_are_mixed():
    def bias(length, heads):
        numbers = ARANGE(length)[:, None] * torch.tensor([2.0 ** (-head - 1) for head in range(heads)])
        return numbers.reshape(heads, 1, length)

    assert diagnose(bias, kind="bias").finding("offsets").id == "heads-mixed"


def test_a_distance_of_keys_ahead_alone_is_transposed():
    def bias(query_length, key_length):
        offset = ARANGE(key_length) - ARANGE(key_length - query_length, key_length)[:, None]
        return -torch.tensor([0.25, 0.0625])[:, None, None] * offset.clamp(min=0)

    assert diagnose(bias, kind="bias").finding("ahead").id == "transposed"


class Window(nn.Module):
    """The bias of a window of its own, which is not square; a small parameter comes before the table."""

    def __init__(self, window_size=(2, 3), num_heads=4, swapped=False):
        super().__init__()
        self.window_size = window_size
        rows, columns = window_size
        self.logit_scale = nn.Parameter(torch.full((num_heads,), 2.0))
        self.table = nn.Parameter(torch.randn((2 * rows - 1) * (2 * columns - 1), num_heads))
        row, column = ARANGE(rows).repeat_interleave(columns), ARANGE(columns).repeat(rows)
        step = 2 * (rows if swapped else columns) - 1
        down, along = (place[:, None] - place for place in (row, column))
        self.register_buffer("index", (down + rows - 1) * step + along + columns - 1)

    def forward(self):
        return self.table[self.index].permute(2, 0, 1)


@pytest.mark.parametrize("size", [(2, 3), (4, 6), (5, 3)])
def test_a_window_of_its_own_reads_its_table(size):
    report = diagnose(Window(size), kind="bias")
    assert report.healthy, str(report)
    assert "the learned table" in report.finding("entries").words


@pytest.mark.parametrize("size", [(3, 4), (4, 6)])
def test_a_window_of_its_own_that_counts_rows_for_columns(size):
    assert diagnose(Window(size, swapped=True), kind="bias").finding("distinct").id == "axes-swapped"
