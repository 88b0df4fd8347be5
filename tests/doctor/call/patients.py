"""What several files of this folder share: small sizes, orders of axes, cosines and sines of angles."""

import torch
from torch import Tensor

from tests.doctor.blocks import frequencies

DIM, HEADS = 8, 3
SIZES = {"dim": DIM, "heads": HEADS}
INSIDE = {  # from each order to (b, h, t, d)
    "bhtd": lambda x: x,
    "bthd": lambda x: x.transpose(1, 2),
    "tbhd": lambda x: x.permute(1, 2, 0, 3),
    "thd": lambda x: x.transpose(0, 1)[None],
    "htd": lambda x: x[None],
    "btd": lambda x: x.unflatten(-1, (-1, DIM)).transpose(1, 2),
    "tbd": lambda x: x.unflatten(-1, (-1, DIM)).permute(1, 2, 0, 3),
}
OUTSIDE = {  # and back
    "bhtd": lambda y: y,
    "bthd": lambda y: y.transpose(1, 2),
    "tbhd": lambda y: y.permute(2, 0, 1, 3),
    "thd": lambda y: y[0].transpose(0, 1),
    "htd": lambda y: y[0],
    "btd": lambda y: y.transpose(1, 2).flatten(2),
    "tbd": lambda y: y.permute(2, 0, 1, 3).flatten(2),
}


def angles_of(positions: Tensor, dim: int = DIM) -> Tensor:
    return positions[..., None] * frequencies(dim)


def in_halves(angles: Tensor) -> Tensor:
    """Repeat angles for the half layout."""
    return torch.cat((angles, angles), -1)


def cos_and_sin(angles: Tensor) -> tuple[Tensor, Tensor]:
    return angles.cos(), angles.sin()
