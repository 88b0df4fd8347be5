"""What a token leaves in a cache, against the tensors themselves."""

import pytest
import torch

from posenc.rotate.latent import Latent
from tests.scripts.javascript import Script

LATENTS = Script("math/latents.js")


@pytest.mark.parametrize(("heads", "groups", "width", "latent", "rotary"), [(128, 8, 128, 512, 64), (4, 2, 16, 12, 6)])
def test_sizes_are_those_of_the_tensors(heads, groups, width, latent, rotary):
    sizes = {"heads": heads, "groups": groups, "width": width, "latent": latent, "rotary": rotary}
    made = LATENTS("perToken(sizes)", sizes=sizes)
    for kind, count in (("each head", heads), ("groups", groups), ("one key", 1)):
        assert made[kind] == 2 * torch.zeros(count, width).numel()
    x = torch.zeros(1, 1, 1, rotary)
    turned, _ = Latent(rotary, rotary)(x, x, torch.tensor([5]))
    assert made["latent"] == torch.zeros(latent).numel() + turned.numel()
