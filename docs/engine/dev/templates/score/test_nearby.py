"""Nearby: values by hand, and what lies beyond its reach."""

import numpy as np
import torch

from posenc.score.nearby import Nearby, nearby

# What the contract tests need to know: see tests/contract/encoding_inputs.py.

LEARNED = {"weight"}
REFUSED = {"fractional"}


def exercise(module):
    module.Nearby(dim=2).score_mod(torch.zeros(1, 1, 3, 2), torch.zeros(1, 1, 3, 2))


def test_values_by_hand():
    weight = np.array([[1.0], [10.0], [100.0]])  # one behind, here, one ahead
    scores = nearby(np.full((1, 1, 1), 2.0), np.ones((1, 3, 1)), np.array([1]), np.arange(3), weight)
    np.testing.assert_array_equal(scores, [[[2, 20, 200]]])


def test_beyond_its_reach_all_keys_are_alike():
    encoding = Nearby(dim=4, reach=2)
    torch.nn.init.normal_(encoding.weight)
    scores = encoding(torch.ones(1, 1, 1, 4), torch.ones(1, 1, 9, 4), torch.tensor([8]), torch.arange(9))[0, 0, 0]
    assert torch.equal(scores[:6], scores[6].expand(6))
