"""T5 by diagonals: the plain bias to the last bit, and its gradients, whoever stands where."""

import pytest
import torch
from torch import nn

from posenc.bias import t5 as plain
from posenc.fast.t5 import T5

PLACES = {
    "all": (torch.arange(9), torch.arange(9)),
    "the last": (torch.arange(6, 9), torch.arange(9)),
    "one": (torch.tensor([8]), torch.arange(9)),
    "more queries than keys": (torch.arange(9), torch.arange(4)),
    "far apart": (torch.arange(10**12, 10**12 + 5), torch.arange(9)),
    "not in a row": (torch.tensor([3, 1, 4]), torch.arange(9)),
    "fractional": (torch.arange(5) + 0.5, torch.arange(9)),
    "a batch": (torch.arange(10).view(2, 5), torch.arange(9)),
    "none": (torch.arange(0), torch.arange(9)),
}


def exercise(module):
    module.T5(heads=2)(torch.arange(3), torch.arange(4))


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("name", PLACES)
def test_it_gives_what_the_plain_file_gives(name, bidirectional):
    results, gradients = [], []
    for cls in (T5, plain.T5):
        encoding = cls(4, buckets=8, max_distance=20, bidirectional=bidirectional)
        torch.manual_seed(0)
        nn.init.normal_(encoding.weight)
        results.append(encoding(*PLACES[name]))
        results[-1].square().sum().backward()
        gradients.append(encoding.weight.grad)
    assert torch.equal(*results)
    torch.testing.assert_close(*gradients)


def test_keys_stand_where_queries_do_by_default():
    encoding = T5(4)
    nn.init.normal_(encoding.weight)
    assert torch.equal(encoding(torch.arange(5)), encoding(torch.arange(5), torch.arange(5)))


def test_it_looks_up_offsets_and_not_pairs(monkeypatch):
    offsets = []
    forward = plain.T5.forward
    monkeypatch.setattr(plain.T5, "forward", lambda self, m, n: offsets.append((len(m), len(n))) or forward(self, m, n))
    T5(4)(torch.arange(5), torch.arange(9))
    assert offsets == [(1, 13)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler's own imports
def test_compiled_it_is_the_plain_file():
    torch._dynamo.reset()
    encoding = T5(4)
    nn.init.normal_(encoding.weight)
    compiled = torch.compile(encoding, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.arange(7)), encoding(torch.arange(7)))
