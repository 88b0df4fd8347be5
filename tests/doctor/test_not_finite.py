"""NaN and infinity pass no check of any kind: everywhere, in half precision alone, at some positions alone."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import wrong_ids
from tests.doctor.blocks import attend_behind, frequencies, interleave, rotate, slopes
from tests.doctor.model.patients import Rotating

FAULTS = {  # where a result is spoiled, by its dtype and by the position of each token, and with what
    "everywhere": (lambda dtype, positions: positions >= 0, torch.nan),
    "infinity at one position": (lambda dtype, positions: positions == 3, torch.inf),
    "bfloat16": (lambda dtype, positions: (positions >= 0) & (dtype == torch.bfloat16), torch.nan),
    "float16": (lambda dtype, positions: (positions >= 0) & (dtype == torch.float16), torch.nan),
    "float16 from 2048 on": (lambda dtype, positions: (positions >= 2048) & (dtype == torch.float16), torch.nan),
    "from 100,000 on": (lambda dtype, positions: positions >= 100_000, torch.nan),
    "from 1,000,000 on": (lambda dtype, positions: positions >= 1_000_000, torch.nan),
}
NAMES = {"not-finite", "precision-lost", "angles-rounded"}


def spoil(result, positions, where, number):
    """Put a number in place of the results of some tokens (..., t, d), at positions (t,) or (b, t)."""
    spoiled = where(result.dtype, positions)
    if spoiled.ndim == 2:
        spoiled = spoiled[:, None]
    return torch.where(spoiled[..., None], torch.tensor(number, dtype=result.dtype), result)


def rotation(where, number):
    return lambda x, positions: spoil(rotate(x, positions), positions, where, number)


def table(where, number):
    def add(x, positions):
        rows = interleave(positions[:, None] * frequencies(x.shape[-1])).to(x.dtype)
        return x + spoil(rows, positions, where, number)

    return add


def bias(where, number):
    def alibi(positions, key_positions, heads, dtype=torch.float32):
        offsets = key_positions - positions[:, None]
        return spoil((slopes(heads)[:, None, None] * offsets).to(dtype), positions, where, number)

    return alibi


def attention(where, number):
    def attend(q, k, v, positions, key_positions):
        result = attend_behind(rotate(q, positions), rotate(k, key_positions), v)
        return spoil(result, positions, where, number)

    return attend


KINDS = {"rotation": rotation, "table": table, "bias": bias, "attention": attention}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_finite_is_wrong(kind, fault):
    report = diagnose(KINDS[kind](*FAULTS[fault]), kind=kind)
    assert wrong_ids(report) & NAMES, str(report)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_finite_is_healthy(kind):
    report = diagnose(KINDS[kind](lambda dtype, positions: positions < 0, torch.nan))
    assert (report.kind, report.healthy) == (kind, True), str(report)


@pytest.mark.parametrize("fault", ["everywhere", "bfloat16", "float16"])
def test_logits_that_are_not_finite_are_wrong(fault):
    class Spoiled(Rotating):
        def forward(self, input_ids, position_ids=None, past_key_values=None):
            logits, cache = super().forward(input_ids, position_ids, past_key_values)
            return spoil(logits, torch.arange(logits.shape[1]), *FAULTS[fault]), cache

    assert wrong_ids(diagnose(Spoiled())) & NAMES
