"""Masks inside a bias, or in place of one: how many keys ahead and behind they show, as bools or as numbers to add."""

import math

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report
from tests.doctor.blocks import below, offsets, penalty, slopes


@pytest.mark.parametrize(("ahead", "wrong"), [(0, ""), (1, "mask-off-by-one"), (2, ""), (-1, "mask-off-by-one")])
@pytest.mark.parametrize("hidden", [-math.inf, -1e9, -2e4])
def test_one_key_too_many_or_too_few_ahead(ahead, wrong, hidden):
    def bias(heads, i, j):
        return penalty(heads, i, j).masked_fill(offsets(i, j) > ahead, hidden)

    assert_report(diagnose(bias, heads=4), wrong)


@pytest.mark.parametrize(("diagonal", "wrong"), [(1, ""), (0, "mask-off-by-one"), (2, "mask-off-by-one")])
def test_the_diagonal_of_a_mask_inside_a_bias(diagonal, wrong):
    def causal(heads, t, s):
        hidden = torch.ones(t, s, dtype=torch.bool).triu(diagonal + s - t)
        return (slopes(heads)[:, None, None] * offsets(t, s)).masked_fill(hidden, -math.inf)

    assert_report(diagnose(causal), wrong)


def bools(seen, heads=1, inverted=False):
    """Return a mask (1, h, t, s) of lengths, true where it is seen, or where it is hidden."""

    def mask(query_length, key_length):
        shown = seen(offsets(query_length, key_length))
        return (~shown if inverted else shown)[None, None].expand(1, heads, -1, -1)

    return mask


SEEN = {
    "causal": (lambda offset: offset <= 0, ""),
    "near": (lambda offset: offset.abs() < 4, ""),
    "keys ahead alone": (lambda offset: offset >= 0, "transposed"),
    "one ahead": (lambda offset: offset <= 1, "mask-off-by-one"),
}


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("name", SEEN)
def test_a_mask_of_bools_is_read_whichever_way_it_tells_what_is_seen(name, heads, inverted):
    seen, wrong = SEEN[name]
    assert_report(diagnose(bools(seen, heads, inverted), kind="bias"), wrong)


ADDED = {
    "its own key hidden": (lambda offset: offset < 0, "mask-off-by-one"),
    "one key": (lambda offset: offset == 0, ""),
    "three keys": (lambda offset: (offset <= 0) & (offset > -3), ""),
}


@pytest.mark.parametrize("name", ADDED)
def test_a_mask_of_numbers(name):
    seen, wrong = ADDED[name]

    def mask(query_length, key_length):
        return torch.where(seen(offsets(query_length, key_length)), 0.0, -math.inf)

    assert_report(diagnose(mask, kind="bias"), wrong)


def test_a_penalty_for_keys_ahead_alone_is_transposed():
    def bias(query_length, key_length):
        ahead = offsets(query_length, key_length).clamp(min=0)
        return -torch.tensor([0.25, 0.0625])[:, None, None] * ahead

    assert_report(diagnose(bias, kind="bias"), "transposed")


# Masks of one size


def added(seen, hidden=-math.inf):
    return torch.zeros(seen.shape).masked_fill(~seen, hidden)


BANDS = torch.block_diag(torch.ones(8, 8), torch.ones(8, 8)) > 0  # two parts of a shifted window
ONE_SIZE = {
    "causal": (added(below(9, 9)), ""),
    "causal, of bools": (below(9, 9), ""),
    "its neighbors": (added(below(9, 9, 1) & below(9, 9, 1).mT), ""),
    "its neighbors, of bools": (below(9, 9, 1) & below(9, 9, 1).mT, ""),
    "its own key hidden": (added(below(9, 9, -1)), "mask-off-by-one"),
    "one ahead": (added(below(9, 9, 1), -1e9), "one-direction-lost"),
    "a shifted window": (added(BANDS), ""),
    "half of a shifted window": (added(BANDS | below(16, 16)), "one-direction-lost"),
}


@pytest.mark.parametrize("name", ONE_SIZE)
def test_a_mask_of_one_size(name):
    mask, wrong = ONE_SIZE[name]
    assert_report(diagnose(lambda: mask, kind="bias"), wrong)


def test_a_mask_of_a_window_by_default_arguments_is_a_bias():
    report = diagnose(lambda window=4, rows=True, columns=False: added(BANDS))
    assert report.kind == "bias"
    assert_report(report)
