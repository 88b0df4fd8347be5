"""Turn: values by hand, and the property that makes it a relative encoding."""

import numpy as np
import torch

from posenc.rotate.turn import Turn, turn

# What the contract tests need to know: see tests/contract/encoding_inputs.py.

OPTIONS = [{}, {"base": 100.0}]


def test_a_quarter_of_a_turn():
    np.testing.assert_allclose(turn(np.array([[1.0, 0.0]]), np.array([np.pi / 2])), [[0, 1]], atol=1e-15)


def test_a_product_depends_on_the_offset_alone():
    q, k = torch.randn(2, 1, 1, 5, 8, dtype=torch.float64)
    near, far = (Turn(dim=8)(q, k, torch.arange(5) + start) for start in (0, 1000))
    torch.testing.assert_close(near[0] @ near[1].mT, far[0] @ far[1].mT)
