"""Training teaches what can be learned and nothing else; accuracy counts what is asked where it is asked."""

import pytest
import torch
from torch import nn

from posenc.add.learned import Learned
from posenc.bias.t5 import T5
from posenc.rotate.rope import RoPE
from posenc_book.lab import Model, accuracy, copy_back, train
from posenc_book.lab.tasks import UNASKED


def exercise(module):
    model = Model(RoPE(16))
    module.train(model, copy_back(1), steps=2)
    module.accuracy(model, copy_back(1))


def test_a_model_with_positions_learns_what_one_without_cannot():
    seeing, blind = Model(T5(4, bidirectional=False)), Model()
    for model in (seeing, blind):
        losses = train(model, copy_back(1), steps=120, length=16)
        assert len(losses) == 120
    assert accuracy(seeing, copy_back(1), 16) > 0.9
    assert accuracy(blind, copy_back(1), 16) < 0.5


def test_the_same_seeds_give_the_same_model():
    def trained():
        torch.manual_seed(3)
        model = Model(RoPE(16))
        train(model, copy_back(1), steps=5, seed=4)
        return model.state_dict()

    first, second = trained(), trained()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("told", [{"encoding": T5(4)}, {"add": Learned(64, 32)}])
def test_what_tells_positions_learns_faster(told):
    model = Model(**told)
    table = next(iter((told.get("encoding") or told["add"]).parameters()))
    before, weights = table.detach().clone(), model.embed.weight.detach().clone()
    train(model, copy_back(1), steps=1)
    with_table, others = (table - before).abs().max(), (model.embed.weight - weights).abs().max()
    assert (with_table / others).item() == pytest.approx(10, rel=0.05)


class Parrot(nn.Module):
    """Answers with the token itself."""

    def forward(self, ids):
        return nn.functional.one_hot(ids, 16).double()


def halves(batch, length, generator):
    """Right in the first half of each text, wrong in the second, and not asked at 0."""
    ids = torch.randint(16, (batch, length), generator=generator)
    target = torch.where(torch.arange(length) < length // 2, ids, (ids + 1) % 16)
    target[:, 0] = UNASKED
    return ids, target


def test_accuracy_counts_what_is_asked_from_a_position_on():
    assert accuracy(Parrot(), halves, 8) == pytest.approx(3 / 7)
    assert accuracy(Parrot(), halves, 8, start=2) == pytest.approx(2 / 6)
    assert accuracy(Parrot(), halves, 8, start=4) == 0
