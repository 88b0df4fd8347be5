"""Sines and cosines of a table: their order, their frequencies, the base that is asked for, what multiplies them."""

import math

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, verdicts, wrong_ids
from tests.doctor.blocks import frequencies, interleave, noise, sinusoids
from tests.doctor.blocks import sinusoids_in_halves as halves
from tests.doctor.table.patients import inverted_sinusoids


def divided_down(length, dim):
    """Let -log(10000) / dim // 2 bind as (-log(10000) / dim) // 2 (zju3dv/LoFTR#41)."""
    speeds = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10_000.0) / dim // 2))
    return interleave(torch.arange(length)[:, None] * speeds)


def crossed(length, dim):
    """Give the cosine of a pair the exponent of the next one (SamLynnEvans/Transformer#7)."""
    out = torch.zeros(length, dim)
    for position in range(length):
        for i in range(0, dim, 2):
            out[position, i] = math.sin(position / 10_000 ** (2 * i / dim))
            out[position, i + 1] = math.cos(position / 10_000 ** (2 * (i + 1) / dim))
    return out


def whole_positions(length, dim):
    """Divide positions by the length, as integers: all are 0 (Kyubyong/transformer#81)."""
    return interleave((torch.arange(length)[:, None] // length) * frequencies(dim))


def whole_frequencies(length, dim):
    """Divide as integers: all frequencies but the first are 0."""
    return interleave(torch.arange(length)[:, None] * (1 // (1 / frequencies(dim))))


def flat(length, dim):
    """Divide the exponent as integers, which makes it 0."""
    return interleave(torch.arange(length)[:, None] * 10_000.0 ** -(torch.arange(0, dim, 2) // dim))


def halved(length, dim):
    """Take the exponent i/d for 2i/d."""
    return interleave(torch.arange(length)[:, None] * 10_000 ** (-torch.arange(dim // 2) / dim))


@pytest.mark.parametrize(
    ("patient", "wrong"),
    [
        (sinusoids, ""),
        (inverted_sinusoids, "exponent-inverted"),
        (divided_down, "exponent-precedence"),
        (crossed, "crossed"),
        (whole_positions, "rows-alike"),
        (whole_frequencies, "exponent-flat"),
        (flat, "exponent-flat"),
        (halved, "exponent-halved"),
    ],
)
def test_the_formula_is_the_usual_one(patient, wrong):
    report = diagnose(patient)
    assert report.kind == "table"
    assert_report(report, wrong)


def test_the_order_is_examined():
    assert diagnose(sinusoids).examined["layout"] == "interleaved"


def test_the_number_of_an_inverted_exponent_is_the_highest_frequency():
    report = diagnose(inverted_sinusoids, dim=512)
    assert finding(report, "speeds").number == pytest.approx(10_000 ** (510 / 512))


def test_the_number_of_the_formula_is_its_base():
    assert finding(diagnose(sinusoids), "speeds").number == pytest.approx(10_000)


@pytest.mark.parametrize("dim", [16, 64, 512])
def test_an_operator_that_binds_otherwise_is_named_at_any_width(dim):
    assert finding(diagnose(divided_down, dim=dim), "speeds").id == "exponent-precedence"


# The order of sines and cosines


def of_arange(change):
    """Return a table of the interleaved sinusoids of 0, 1, 2 ..., changed."""
    return lambda length, dim: change(sinusoids(length, dim))


def shuffled(rows):
    """Bring channels into a random order."""
    return rows[:, torch.randperm(rows.shape[1], generator=torch.Generator().manual_seed(1))]


def without(start):
    """Leave every other channel 0."""

    def change(rows):
        rows[:, start::2] = 0
        return rows

    return change


def every_channel(rows):
    """Give each channel a frequency of its own, 10,000^(-i/d), where pairs should share one."""
    dim = rows.shape[1]
    channel = torch.arange(dim)
    angle = (torch.arange(len(rows)) + 3)[:, None] * 10_000.0 ** (-channel / dim)
    return torch.where(channel % 2 == 0, angle.sin(), angle.cos())


ORDERS = {
    "interleaved": (lambda rows: rows, "", ""),
    "shuffled": (shuffled, "order-broken", ""),
    "cosines never written": (without(1), "order-broken", ""),
    "sines overwritten": (without(0), "order-broken", ""),
    "cosines twice": (lambda rows: rows[:, 1::2].repeat(1, 2), "order-broken", ""),
    "sines twice": (lambda rows: rows[:, ::2].repeat(1, 2), "order-broken", ""),
    "a frequency for each channel": (every_channel, "crossed", ""),
    "divided by the width": (lambda rows: rows / rows.shape[1], "scale-twice", ""),
    "halved": (lambda rows: 0.5 * rows, "", "size"),
    "tripled": (lambda rows: 3.0 * rows, "", "size"),
    "99 percent": (lambda rows: 0.99 * rows, "", "size"),
}


@pytest.mark.parametrize("dim", [32, 64])
@pytest.mark.parametrize("name", ORDERS)
def test_sines_stand_before_their_cosines(name, dim):
    change, wrong, notes = ORDERS[name]
    assert_report(diagnose(of_arange(change), dim=dim), wrong, notes)


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_the_number_of_the_size_is_the_factor(factor):
    assert finding(diagnose(of_arange(lambda rows: factor * rows)), "size").number == pytest.approx(factor)


def test_a_factor_of_a_rounding_is_none():
    checks = [each.check for each in diagnose(of_arange(lambda rows: 1.0005 * rows)).findings]
    assert "size" not in checks


@pytest.mark.parametrize("base", [2.0, 10_000.0])
def test_sines_kept_before_cosines_and_cut_to_rows_of_the_width(base):
    """Two positions of sines stand in one row."""
    rows = interleave(torch.arange(1000)[:, None] * frequencies(64, base))
    rows = torch.cat((rows[:, 0::2], rows[:, 1::2])).view(rows.shape)[: len(rows) // 2]
    assert_report(diagnose(lambda positions: rows[positions]), "order-broken")


def random_waves(start):
    """Return waves with frequencies and starts drawn at random, as random features have."""
    fast = torch.rand(64, generator=torch.Generator().manual_seed(0)) * 3
    return lambda length, dim: (torch.arange(length)[:, None] * fast + start + noise(64)).cos()


def angles(length, dim):
    return (torch.arange(length)[:, None] * frequencies(dim)).repeat(1, 2)


@pytest.mark.parametrize("patient", [random_waves(0.0), random_waves(0.5), angles])
def test_random_features_and_plain_angles_are_sound(patient):
    assert_report(diagnose(patient, kind="table", dim=64), notes="waves")


# Where the first row stands


@pytest.mark.parametrize(("start", "notes"), [(1, "order"), (8, "order"), (9, "waves"), (100, "waves")])
def test_a_table_may_begin_at_a_later_position(start, notes):
    report = diagnose(lambda length, dim: halves(torch.arange(length) + start, dim))
    assert_report(report, notes=notes)
    if notes == "order":
        assert finding(report, "order").number == start


@pytest.mark.parametrize(("first", "wrong", "notes"), [(0, "", "first-row"), (1, "positions-shifted", "")])
def test_no_row_is_left_out_behind_one_of_zeros(first, wrong, notes):
    def table(length, dim):
        positions = torch.arange(length)
        rows = halves((positions - first).clamp(min=0), dim)
        return torch.where((positions > 0)[:, None], rows, 0.0)

    assert_report(diagnose(table), wrong, notes)


def behind_zeros(positions, first, sign=-1):
    """Return rows in tensor2tensor's order, that of position 0 zeros, as of a padding."""
    speeds = torch.exp(sign * math.log(10_000.0) / 31 * torch.arange(32))
    angle = (positions - first)[..., None] * speeds
    return torch.where((positions > 0)[..., None], torch.cat((angle.sin(), angle.cos()), -1), 0.0)


def from_offset(rows):
    """Return code that adds rows to embeddings from an offset on."""
    return lambda x, offset=0: x + rows(offset + torch.arange(x.shape[1]))


BEHIND_ZEROS = {
    "of position 1": (lambda positions: behind_zeros(positions, 0), ""),
    "of position 0": (lambda positions: behind_zeros(positions, 1), ""),
    "without the minus": (lambda positions: behind_zeros(positions, 0, sign=1), "exponent-rising"),
    "none, added from an offset": (from_offset(lambda positions: halves(positions, 64)), ""),
    "of position 0, added from an offset": (
        from_offset(lambda positions: behind_zeros(positions, 1)),
        "positions-shifted",
    ),
}


@pytest.mark.parametrize("name", BEHIND_ZEROS)
def test_rows_behind_that_of_a_padding(name):
    patient, wrong = BEHIND_ZEROS[name]
    assert_report(diagnose(patient), wrong)


# Frequencies

EXPONENTS = {  # of base ** -exponent, by the pair i and the width
    "usual": (lambda i, dim: 2 * i / dim, ""),
    "doubled": (lambda i, dim: 4 * i / dim, "exponent-doubled"),
    "halved": (lambda i, dim: i / dim, "exponent-halved"),
    "from 1": (lambda i, dim: 2 * (i + 1) / dim, "exponent-shifted"),
    "zero": (lambda i, dim: 0 * i, "exponent-flat base-ignored"),
    "zero for half": (lambda i, dim: torch.where(i > dim // 4, 2 * i / dim, 0.0), "exponent-flat"),
    "rising": (lambda i, dim: -2 * i / dim / 4, "exponent-rising"),
}


@pytest.mark.parametrize("base", [10_000.0, 600.0])
@pytest.mark.parametrize("name", EXPONENTS)
def test_the_exponent_of_a_base_that_the_code_names(name, base):
    exponent, wrong = EXPONENTS[name]

    def table(length, dim, base=base):
        angle = torch.arange(length)[:, None] * base ** -exponent(torch.arange(dim // 2), dim)
        return torch.cat((angle.sin(), angle.cos()), -1)

    assert_report(diagnose(table), wrong)


@pytest.mark.parametrize(
    ("base", "wrong"),
    [(98.0, ""), (100.0, "exponent-halved"), (1e7, ""), (1e8, "exponent-doubled")],
)
def test_the_root_and_the_square_of_the_usual_base_are_suspect(base, wrong):
    assert_report(diagnose(lambda length, dim: halves(torch.arange(length), dim, base)), wrong)


@pytest.mark.parametrize("base", [100.0, 1e8])
def test_a_base_that_the_code_names_is_no_root_and_no_square(base):
    def table(length, dim, base=base):
        return halves(torch.arange(length), dim, base)

    assert_report(diagnose(table))


@pytest.mark.parametrize("base", [100.0, 10_000.0, 1e6])
@pytest.mark.parametrize("dim", [2, 4, 8, 10, 12])
def test_frequencies_of_few_channels(dim, base):
    report = diagnose(lambda length, dim: interleave(torch.arange(length)[:, None] * frequencies(dim, base)), dim=dim)
    assert_report(report, "exponent-halved" if base == 100 and dim > 2 else "")


@pytest.mark.parametrize("dim", [6, 10, 34])
@pytest.mark.parametrize("base", [10_000.0, 2_000.0])
def test_frequencies_may_fall_to_one_over_the_base_as_in_tensor2tensor(dim, base):
    def table(length, dim, base=base):
        angle = torch.arange(length)[:, None] * base ** -torch.linspace(0, 1, dim // 2)
        return torch.cat((angle.sin(), angle.cos()), -1)

    report = diagnose(table, dim=dim)
    assert_report(report)
    assert finding(report, "speeds").number == pytest.approx(base, rel=1e-3)
    assert "tensor2tensor" in finding(report, "speeds").words


@pytest.mark.parametrize("exponent", [1, 4, -2])
def test_sine_and_cosine_of_a_pair_share_a_frequency(exponent):
    def table(length, dim):
        speeds = [10_000.0 ** (-torch.arange(dim // 2) * times / dim) for times in (2, exponent)]
        sine, cosine = (torch.arange(length)[:, None] * each for each in speeds)
        return torch.cat((sine.sin(), cosine.cos()), -1)

    assert_report(diagnose(table), "crossed")


@pytest.mark.parametrize("times", [0.25, 0.5])
def test_positions_that_are_multiplied_are_noted(times):
    report = diagnose(lambda length, dim: halves(torch.arange(length) * times, dim))
    assert_report(report, notes="speeds")
    assert f"{times:.3g}" in finding(report, "speeds").words


SEVENTH = [*range(7), 6.5, *range(8, 300)]
LINEAR = {
    "logarithms": (lambda positions: torch.log2(positions.float() + 1), "not-linear-in-position"),
    "a position off by a half": (lambda positions: torch.tensor(SEVENTH)[positions], "not-linear-in-position"),
    "a position off by a thousandth": (lambda positions: torch.where(positions == 7, 6.999, positions), ""),
}


@pytest.mark.parametrize("name", LINEAR)
def test_angles_grow_with_the_position(name):
    change, wrong = LINEAR[name]
    assert_report(diagnose(lambda positions: halves(change(positions), 64)), wrong)


# The base that is asked for


def deaf(length, dim, base=10_000.0):
    """Take a base and make the rows of the usual one."""
    return sinusoids(length, dim)


def hears(length, dim, base=10_000.0):
    return interleave(torch.arange(length)[:, None] * frequencies(dim, base))


@pytest.mark.parametrize(("patient", "wrong"), [(deaf, "base-ignored"), (hears, "")])
def test_another_base_gives_other_rows(patient, wrong):
    assert_report(diagnose(patient), wrong)


def test_a_base_that_is_refused_is_not_checked():
    def table(length, dim, base=10_000.0):
        if base < 1000:
            raise ValueError("the base is too small")
        return halves(torch.arange(length), dim, base)

    report = diagnose(table)
    assert_report(report)
    assert verdicts(report, "base") == ["not checked"]


class Learned(nn.Module):
    """Embeddings and waves of learned frequencies, cosines in place of sines or not."""

    def __init__(self, twice=False):
        super().__init__()
        self.twice, self.speeds = twice, nn.Parameter(torch.randn(32))

    def forward(self, x):
        angle = torch.arange(x.shape[1])[:, None] * self.speeds
        return x + torch.cat((angle.cos(), angle.cos() if self.twice else angle.sin()), -1)


@pytest.mark.parametrize(("twice", "wrong"), [(False, set()), (True, {"order-broken"})])
def test_learned_frequencies(twice, wrong):
    """They are rounded in half precision, too, which is not the point here."""
    assert wrong_ids(diagnose(Learned(twice))) - {"buffers-rounded"} == wrong
