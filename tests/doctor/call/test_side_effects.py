"""Code is examined as a copy, nothing of it or of the caller is changed, and the same report comes each time."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, wrong_ids
from tests.doctor.attention.patients import SelfAttention
from tests.doctor.blocks import frequencies, rotate, rotate_by, sinusoids
from tests.doctor.call.patients import DIM, SIZES


class Learned(nn.Module):
    """Learn frequencies, and count calls."""

    def __init__(self, dim=DIM):
        super().__init__()
        self.speeds, self.calls = nn.Parameter(frequencies(dim)), 0

    def forward(self, x, positions, _=None):
        self.calls += 1
        return rotate_by(x, positions[:, None] * self.speeds)


def test_nothing_of_a_module_is_changed():
    module = Learned(64)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    diagnose(module.train())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert module.training
    assert module.calls == 0


class Unscaled(SelfAttention):
    """Do not divide products by sqrt(d)."""

    def scores(self, q, k):
        return q @ k.mT


def test_a_function_around_a_module_is_examined_with_a_copy_of_it():
    layer = Unscaled()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    assert wrong_ids(diagnose(lambda x: layer(x))) == {"scale-missing"}
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


def calls_itself(module):
    """Return a function that calls itself and a module, and knows another that is not there yet."""

    def turn(x, *, positions, again=True):
        return turn(x, positions=positions, again=False) if again else module(x, positions, later if x is None else 0)

    def named():
        return later

    if module is None:
        later = named
    return turn


def test_a_function_that_calls_itself_and_a_module():
    module = Learned()
    assert_report(diagnose(calls_itself(module), **SIZES))
    assert module.calls == 0


class NoCopy:
    """Refuse to be copied."""

    def __deepcopy__(self, memo):
        raise TypeError

    def __call__(self, x, positions):
        return rotate(x, positions)


def test_an_object_that_does_not_copy_is_examined_itself():
    assert_report(diagnose(NoCopy()))


def test_random_numbers_of_the_caller_stay_as_they_were():
    torch.manual_seed(3)
    diagnose(sinusoids)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize("patient", [SelfAttention, rotate])
def test_the_same_report_comes_each_time(patient):
    code = patient() if isinstance(patient, type) else patient
    assert str(diagnose(code)) == str(diagnose(code))


def test_compiled_code_runs_as_it_is_written():
    compiled = []

    def backend(graph, inputs):
        compiled.append(inputs)
        return graph

    turn = torch.compile(rotate, backend=backend)
    assert_report(diagnose(turn))
    assert not compiled
