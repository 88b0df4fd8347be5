"""Tables that are added to embeddings: along which axis, what becomes of the embeddings, and what is no table."""

import pytest
import torch
from torch import nn

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, note_ids, verdicts, wrong_ids
from tests.doctor.blocks import frequencies, noise, sinusoids
from tests.doctor.blocks import sinusoids_in_halves as halves
from tests.doctor.table.patients import Adds, Along, AlongBatch, of_width

# Axes


@pytest.mark.parametrize(
    ("patient", "order", "wrong"), [(Along, None, ""), (AlongBatch, None, "batch-axis"), (AlongBatch, "tbd", "")]
)
def test_the_table_runs_along_the_tokens(patient, order, wrong):
    assert_report(diagnose(patient, order=order), wrong)


AXES = {
    "axes exchanged": (lambda x, table, own: (x + table).transpose(0, 1), "batch-axis"),
    "cut by the batch": (lambda x, table, own: x + halves(torch.arange(len(x)), 64)[:, None], "batch-axis"),
    "other rows for each text": (lambda x, table, own: x + own.rows[: len(x), : x.shape[1]], "rows-mixed"),
    "slightly other rows": (lambda x, table, own: x + own.rows[: len(x), : x.shape[1]] / 100, "rows-mixed"),
    "one more for each text": (
        lambda x, table, own: x + table + torch.arange(len(x))[:, None, None],
        "rows-mixed",
    ),
    "dropout of the table": (lambda x, table, own: x + nn.functional.dropout(table, 0.1), "dropout-on"),
}


@pytest.mark.parametrize("name", AXES)
def test_nothing_else_is_checked_behind_a_wrong_axis(name):
    combine, wrong = AXES[name]
    report = diagnose(Adds(combine))
    assert_report(report, wrong)
    assert verdicts(report, "everything else") == ["not checked"]


class Drops(nn.Module):
    """Keep dropout in eval mode."""

    def forward(self, x):
        return nn.functional.dropout(x + 1 + sinusoids(x.shape[1], x.shape[2]), 0.5)


def test_dropout_that_stays_on():
    assert_report(diagnose(Drops(), kind="table"), "dropout-on")


def test_rows_of_the_batch_alone():
    report = diagnose(lambda x: halves(torch.arange(x.shape[0]), 64)[:, None] if x.shape[-1] == 64 else 1 / 0)
    assert_report(report, "batch-axis")


@pytest.mark.parametrize("with_positions", [False, True])
def test_axes_that_are_exchanged_with_positions_or_without(with_positions):
    def adds(x, positions=None):
        total = x + halves(torch.arange(of_width(x)) if positions is None else positions, 64)
        is_exchanged = (positions is not None) == with_positions
        return total.transpose(0, 1) if is_exchanged else total

    assert_report(diagnose(adds), "batch-axis")


class Codebooks(nn.Module):
    """Rows for ids (b, codebooks, t), as in MusicGen, cut by one of the axes."""

    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, input_ids):
        if input_ids.ndim != 3 or input_ids.is_floating_point():
            raise ValueError("ids (b, codebooks, t), please")
        return halves(torch.arange(input_ids.shape[self.axis]), 64)


@pytest.mark.parametrize(("axis", "wrong"), [(2, ""), (1, "batch-axis")])
def test_rows_of_several_codebooks_run_along_the_tokens(axis, wrong):
    assert_report(diagnose(Codebooks(axis), kind="table"), wrong)


def test_embeddings_may_have_channels_first():
    def adds(x):
        return x + halves(torch.arange(x.shape[2]), x.shape[1]).T if x.shape[1] == 64 else 1 / 0

    assert_report(diagnose(adds))


# What becomes of the embeddings

CONTENT = {  # what is wrong, what is noted, the factor of the embeddings
    "kept": (lambda x, table, own: x + table, "", "", 1.0),
    "times 0": (lambda x, table, own: table.expand(x.shape) + 0 * x, "", "content", 0.0),
    "left out": (lambda x, table, own: table, "", "content", 0.0),
    "a norm": (lambda x, table, own: own.norm(x + table), "", "content", None),
    "a nonlinear part": (lambda x, table, own: x + 0.02 * x.abs() + table, "", "content", None),
    "times the width": (lambda x, table, own: x * 64 + table, "scale-twice", "", 64.0),
    "times 1 over the root": (lambda x, table, own: x / 8 + table, "scale-twice", "", 0.125),
    "times 1 over the width": (lambda x, table, own: x / 64 + table, "scale-twice", "", 1 / 64),
    "times the root": (lambda x, table, own: x * 8 + table, "", "content", 8.0),
    "times 3": (lambda x, table, own: x * 3 + table, "", "content", 3.0),
    "times 1.01": (lambda x, table, own: 1.01 * x + table, "", "content", 1.01),
    "times 0.01": (lambda x, table, own: 0.01 * x + table, "", "content", 0.01),
    "written to": (lambda x, table, own: x.add_(table), "in-place", "", None),
}


@pytest.mark.parametrize("name", CONTENT)
def test_what_becomes_of_the_embeddings(name):
    combine, wrong, notes, factor = CONTENT[name]
    report = diagnose(Adds(combine))
    assert_report(report, wrong, notes)
    if factor is not None:
        assert finding(report, "content").number == pytest.approx(factor, abs=1e-4)


class Alone(nn.Module):
    """Return the table alone."""

    def forward(self, x):
        return sinusoids(x.shape[1], x.shape[2])


class Appends(nn.Module):
    """Append the table to the embeddings."""

    def forward(self, x):
        return torch.cat((x, sinusoids(x.shape[1], 8).expand(len(x), -1, -1)), dim=-1)


@pytest.mark.parametrize(("patient", "notes"), [(Alone, "content"), (Appends, "sum")])
def test_a_table_that_is_not_added_is_a_note(patient, notes):
    report = diagnose(patient())
    assert report.kind == "table"
    assert wrong_ids(report) == set()
    assert notes in note_ids(report)


class NeedsDropout(Along):
    """Cannot be built without two rates of dropout and a length."""

    def __init__(self, d_model, dropout, p_drop, max_len):
        super().__init__(d_model, max_len)
        self.rests = nn.Sequential(nn.Dropout(dropout), nn.Dropout(p_drop))


def test_a_class_that_asks_for_dropout_is_built_without():
    assert_report(diagnose(NeedsDropout))


# What is no table


def gate(x):
    """Multiply by a table."""
    return x * (1 + halves(torch.arange(x.shape[1]), 64)) if x.shape[-1] == 64 else 1 / 0


def channels_appended(x):
    """Append a table to embeddings (b, d, t)."""
    return torch.cat((x, halves(torch.arange(x.shape[2]), 64).T.expand(x.shape)), 1) if x.shape[1] == 64 else 1 / 0


def angles(x):
    return torch.arange(x.shape[1])[:, None] * frequencies(128) if x.shape[-1] == 64 else 1 / 0


def class_token(x):
    return noise(1, 1, 64).expand(len(x), 1, 64) if x.shape[-1] == 64 else 1 / 0


def mixes_tokens(x):
    """Add a twentieth of the mean of all tokens, too."""
    if x.shape[1] > 20 or x.shape[-1] != 64:
        raise ValueError("a short text, please")
    return x + x.mean(1, keepdim=True) / 20 + halves(torch.arange(x.shape[1]), 64)


def whole_numbers(length, dim):
    return torch.arange(length)[:, None] * torch.arange(dim)


@pytest.mark.parametrize(
    "patient",
    [nn.LayerNorm(64), nn.Linear(64, 160), gate, channels_appended, angles, class_token, mixes_tokens, whole_numbers],
)
def test_what_is_no_table_is_refused(patient):
    with pytest.raises(ValueError, match=r"doctor: function must be .*got"):
        diagnose(patient, kind="table", order="btd")
