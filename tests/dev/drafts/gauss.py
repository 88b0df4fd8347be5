"""Gauss: a bias that falls with the square of the distance.

See https://example.org for the idea.
"""

import numpy as np
import torch
from torch import nn


def gauss(positions, key_positions, heads, width=16.0):
    """Return the bias."""
    distance = positions[:, None] - key_positions
    scale = width * 2.0 ** np.arange(heads)
    return -(distance**2) / (2 * scale[:, None, None] ** 2)


class Gauss(nn.Module):
    """Gaussian bias."""

    def __init__(self, heads, width=16.0):
        super().__init__()
        self.scale = width * 2.0 ** torch.arange(heads)

    def forward(self, positions, key_positions=None):
        """Return the bias."""
        key_positions = positions if key_positions is None else key_positions
        distance = positions[:, None] - key_positions
        return -(distance**2) / (2 * self.scale[:, None, None] ** 2)
