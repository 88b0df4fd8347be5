"""Row: values by hand, and what it refuses."""

import numpy as np
import pytest
import torch

from posenc.add.row import Row, row

# What the contract tests need to know: see tests/contract/encoding_inputs.py.

OPTIONS = [{"length": 1024}]
LEARNED = {"weight"}
REFUSED = {"far", "fractional", "negative"}


def test_values_by_hand():
    np.testing.assert_array_equal(row(np.array([1, 0, 1]), np.array([[1, 2], [3, 4]])), [[3, 4], [1, 2], [3, 4]])


def test_a_later_position_than_the_last_is_refused():
    with pytest.raises(IndexError, match="out of range"):
        Row(dim=2, length=3)(torch.zeros(1, 1, 2), torch.tensor([3]))
