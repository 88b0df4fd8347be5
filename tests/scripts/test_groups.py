"""Steps from a turn to a shear, against the exponential of their generator."""

import numpy as np
import pytest
import torch

from tests.scripts.javascript import Script

GROUPS = Script("math/groups.js")


@pytest.mark.parametrize("c", [1.0, 0.25, 0.04, 0.0, -0.04, -1.0])
def test_a_key_walks_as_the_exponential_says(c):
    theta, key = 0.25, [0.6, -0.8]
    for steps in (0, 1, 7.5, 40):
        whole = torch.linalg.matrix_exp(steps * theta * torch.tensor([[0, 1.0], [-c, 0]], dtype=torch.float64))
        made = GROUPS("walked(theta, c, key, steps)", theta=theta, c=c, key=key, steps=steps)
        assert made == pytest.approx((whole.numpy() @ key).tolist(), rel=1e-9, abs=1e-12)
        made = GROUPS("reached(theta, c, steps)", theta=theta, c=c, steps=steps)
        np.testing.assert_allclose(made, whole[0].numpy(), rtol=1e-9, atol=1e-12)
