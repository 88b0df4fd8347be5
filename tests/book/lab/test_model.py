"""The small model: it is told positions through every door, causally, and says what it cannot do."""

import pytest
import torch

from posenc.add.grid import Grid
from posenc.add.learned import Learned
from posenc.add.sinusoidal import Sinusoidal
from posenc.attention import attention_weights
from posenc.bias.alibi import ALiBi
from posenc.bias.t5 import T5
from posenc.rotate.rope import RoPE
from posenc.score.shaw import Shaw
from posenc_book.lab import Model

TOLD = {
    "none": {},
    "add": {"add": Sinusoidal(64)},
    "rotate": {"encoding": RoPE(16)},
    "bias": {"encoding": T5(4, bidirectional=False)},
    "score": {"encoding": Shaw(16)},
}
IDS = torch.randint(16, (2, 12), generator=torch.Generator().manual_seed(0))


def exercise(module):
    model = module.Model(RoPE(16), tokens=16, depth=2, hidden=32)
    model(IDS)
    model.weights(IDS, layer=1)


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
def test_a_token_does_not_see_what_comes_later(told):
    model = Model(depth=2, hidden=32, **told)
    changed = IDS.clone()
    changed[:, 8:] = (IDS[:, 8:] + 1) % 16
    torch.testing.assert_close(model(IDS)[:, :8], model(changed)[:, :8])
    assert not torch.allclose(model(IDS)[:, 8:], model(changed)[:, 8:])


@pytest.mark.parametrize(("door", "told"), TOLD.items(), ids=TOLD)
def test_it_is_told_positions_as_the_encoding_means_them(door, told):
    """Moving all positions changes absolute encodings alone; closing the gaps between tokens changes all but none."""
    model = Model(**told)
    places = torch.arange(12)
    here, moved, spread = (model(IDS, positions) for positions in (places, places + 7, 3 * places))
    torch.testing.assert_close(here, model(IDS))
    assert torch.allclose(here, moved, atol=1e-5) == (door != "add")
    if door == "bias":
        model.encoding.weight.data.normal_()
        here, spread = model(IDS), model(IDS, 3 * places)
    assert torch.allclose(here, spread, atol=1e-5) == (door == "none")


def test_each_layer_adds_what_its_attention_and_its_mlp_say():
    encodings = [RoPE(16), ALiBi(4)]
    model = Model(encodings, depth=2, hidden=32)
    x = model.embed(IDS)
    for layer, (block, encoding) in enumerate(zip(model.blocks, encodings, strict=True)):
        q, k, v = block.project(x)
        weights = attention_weights(q, k, encoding, causal=True)
        torch.testing.assert_close(model.weights(IDS, layer), weights)
        x = x + block.out((weights @ v).transpose(1, 2).flatten(2))
        x = x + block.mlp(x)
    torch.testing.assert_close(model(IDS), model.read(x))


def test_one_encoding_is_shared_by_the_layers_and_several_are_not():
    assert len(list(Model(T5(4), depth=3).encoding.parameters())) == 1
    biases = [T5(4), T5(4)]
    model = Model(biases, depth=2)
    assert len(list(model.encoding.parameters())) == 2
    before = model(IDS)
    biases[1].weight.data += torch.randn(32, 4)
    assert not torch.allclose(before, model(IDS))
    with pytest.raises(ValueError, match="one for each of 3 layers, got 2"):
        Model([T5(4), T5(4)], depth=3)


def test_a_table_can_be_tried_beyond_its_end():
    table = Learned(64, 8)
    with pytest.raises(IndexError, match="out of range"):
        Model(add=table)(IDS)
    model = Model(add=table, last=7)
    positions = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7])
    assert torch.equal(model(IDS), model(IDS, positions))
    changed = IDS.clone()
    changed[:, 9:] = (IDS[:, 9:] + 1) % 16
    torch.testing.assert_close(model(IDS)[:, :9], model(changed)[:, :9])  # what shares a place is still in order
    with pytest.raises(ValueError, match="model: last must be None with an encoding, got 7"):
        Model(RoPE(16), last=7)


def test_a_grid_can_be_added():
    places = torch.stack(torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij"), dim=-1).flatten(0, 1)
    model = Model(add=Grid(64))
    assert not torch.allclose(model(IDS, places), model(IDS, places.flip(-1)))
