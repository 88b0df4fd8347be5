"""Tables in use: one token after others, calls before, half precision, other lengths, their end, an odd width."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts
from tests.doctor.blocks import frequencies, noise, sinusoids
from tests.doctor.blocks import sinusoids_in_halves as halves
from tests.doctor.table.patients import of_width

# Decoding


def from_zero(x, positions):
    """Take positions and ignore them."""
    return x + sinusoids(x.shape[1], x.shape[2])


def from_offset(x, offset=0):
    return x + sinusoids(offset + x.shape[1], x.shape[2])[offset:]


def rows_from_offset(offset, length, dim):
    return sinusoids(offset + length, dim)[offset:]


@pytest.mark.parametrize(
    ("patient", "wrong"), [(from_offset, ""), (rows_from_offset, ""), (from_zero, "offset-ignored wrapped")]
)
def test_a_token_alone_gets_the_row_of_its_position(patient, wrong):
    assert_report(diagnose(patient), wrong)


@pytest.mark.parametrize(
    ("lag", "wrong"),
    [
        (-2, "positions-shifted"),
        (-1, "positions-shifted"),
        (0, ""),
        (0.125, "offset-ignored"),
        (1, "positions-shifted"),
        (2, "offset-ignored"),
    ],
)
def test_a_token_alone_that_is_counted_otherwise(lag, wrong):
    def adds(x, offset=0):
        start = offset if x.shape[1] > 1 else offset + lag
        return x + halves(torch.arange(start, start + x.shape[1]), 64) if x.shape[-1] == 64 else 1 / 0

    assert_report(diagnose(adds), wrong)


def of_tokens(x):
    if x.ndim != 3 or x.shape[-1] == 64:
        raise ValueError("positions, please")
    turn = x * frequencies(64)
    return torch.cat((turn.cos(), turn.sin()), -1)


def of_numbers(x):
    if x.ndim != 1 or x.shape[-1] == 64:
        raise ValueError("positions, please")
    turn = x[:, None] * frequencies(64)
    return torch.cat((turn.cos(), turn.sin()), -1)


@pytest.mark.parametrize("patient", [of_tokens, of_numbers])
def test_positions_may_be_numbers(patient):
    report = diagnose(patient, kind="table")
    assert_report(report)
    assert verdicts(report, "decoding") == ["ok"]


# Lengths

LENGTHS = {  # positions by the length of the text
    "fractions of it": (lambda length: torch.arange(length) / length * 20, "length-dependent"),
    "slower by 1e-4 a token": (lambda length: torch.arange(length) * (1 - 1e-4 * length), "length-dependent"),
    "slower by 1e-8 a token": (lambda length: torch.arange(length) * (1 - 1e-8 * length), ""),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_rows_do_not_depend_on_the_length(name):
    positions, wrong = LENGTHS[name]
    assert_report(diagnose(lambda length, dim: halves(positions(length), dim)), wrong)


def learned_rows(beyond):
    """Return 512 rows, and what `beyond` makes of positions where some are behind them."""
    rows = noise(512, 64)
    return lambda positions: rows[positions] if int(positions.max()) < 512 else beyond(rows, positions)


ENDS = {
    "raises": (lambda rows, at: rows[at], ""),
    "cuts": (lambda rows, at: rows[at[at < 512]], ""),
    "clips": (lambda rows, at: rows[at.clamp(max=511)], "clipped"),
    "wraps": (lambda rows, at: rows[at % 511], "wrapped"),
    "rounds": (lambda rows, at: halves(at // 4 * 4, 64), "positions-rounded"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_table_ends_in_words(name):
    beyond, wrong = ENDS[name]
    assert_report(diagnose(learned_rows(beyond)), wrong)


# Calls before


class Kept(nn.Module):
    """A table that is kept, and cast for embeddings of another dtype: for good, or for the call."""

    def __init__(self, for_good):
        super().__init__()
        self.for_good, self.kept = for_good, torch.zeros(0, 64)

    def forward(self, x):
        if len(self.kept) < of_width(x):
            self.kept = halves(torch.arange(x.shape[1]), 64)
        cast = self.kept.to(x.dtype)
        self.kept = cast if self.for_good else self.kept
        return x + cast[: x.shape[1]]


@pytest.mark.parametrize(("for_good", "wrong"), [(False, ""), (True, "cache-stale")])
def test_a_table_that_is_kept_keeps_its_dtype(for_good, wrong):
    assert_report(diagnose(Kept(for_good)), wrong)


# Half precision


def counted_in(dtype):
    return lambda length, dim: halves(torch.arange(length).to(dtype).float(), dim)


COARSE = {
    "float32": (counted_in(torch.float32), ""),
    "positions in bfloat16": (counted_in(torch.bfloat16), "positions-rounded"),
    "positions in float16": (counted_in(torch.float16), "positions-rounded"),
    "rows in bfloat16": (lambda length, dim: sinusoids(length, dim).bfloat16().float(), "angles-rounded"),
}


@pytest.mark.parametrize("name", COARSE)
def test_positions_and_rows_are_kept_in_float32(name):
    patient, wrong = COARSE[name]
    assert_report(diagnose(patient), wrong)


def added(angles):
    """Return code that adds sinusoids of angles (t, 32), made from positions and the embeddings."""

    def adds(x):
        angle = angles(torch.arange(of_width(x)), x)
        return x + torch.cat((angle.sin(), angle.cos()), -1).to(x.dtype)

    return adds


INPUT = {
    "float32": (added(lambda at, x: at[:, None] * frequencies(64)), ""),
    "positions as the input": (added(lambda at, x: at.to(x.dtype)[:, None] * frequencies(64)), "positions-rounded"),
    "frequencies as the input": (
        added(lambda at, x: (at.float()[:, None] * frequencies(64).to(x.dtype)).float()),
        "angles-rounded",
    ),
}


@pytest.mark.parametrize("name", INPUT)
def test_angles_are_not_made_in_the_dtype_of_the_embeddings(name):
    patient, wrong = INPUT[name]
    assert_report(diagnose(patient), wrong)


def test_the_first_row_that_is_compared_is_named():
    patient, _ = INPUT["positions as the input"]
    assert "from position 0 on" in finding(diagnose(patient), "half input").words


class AnglesOfInput(nn.Module):
    """Round the angles to the dtype of the embeddings; slow ones bear it."""

    def __init__(self, slow):
        super().__init__()
        self.slow = slow

    def forward(self, x):
        angle = (torch.arange(of_width(x))[:, None] * (self.slow * frequencies(64))).to(x.dtype)
        return x + torch.cat((angle.sin(), angle.cos()), -1)


class Buffered(nn.Module):
    """Frequencies in a buffer, which is cast with its module; slow ones bear it."""

    def __init__(self, slow):
        super().__init__()
        self.register_buffer("speeds", slow * frequencies(64))

    def forward(self, length):
        angle = torch.arange(length)[:, None] * self.speeds
        return torch.cat((angle.sin(), angle.cos()), -1)


@pytest.mark.parametrize(
    ("patient", "slow", "wrong"),
    [
        (AnglesOfInput, 0.001, ""),
        (AnglesOfInput, 0.1, "angles-rounded positions-rounded"),
        (AnglesOfInput, 1.0, "angles-rounded positions-rounded"),
        (Buffered, 0.001, ""),
        (Buffered, 0.1, "buffers-rounded"),
    ],
)
def test_angles_that_are_rounded_with_their_module_or_input(patient, slow, wrong):
    assert_report(diagnose(patient(slow), kind="table"), wrong)


def test_half_precision_that_is_refused_is_not_checked():
    def adds(x):
        if x.shape[-1] != 64 or x.dtype != torch.float32:
            raise ValueError("float32 of width 64, please")
        return x + halves(torch.arange(x.shape[1]), 64)

    report = diagnose(adds)
    assert_report(report)
    assert verdicts(report, "half input") == ["not checked"]
