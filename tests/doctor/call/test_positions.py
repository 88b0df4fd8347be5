"""In which form positions come: (t,), (1, t), a row for each text, an offset for each text."""

import pytest
import torch

from posenc import diagnose
from tests.doctor.assertions import assert_report, finding, note_ids, verdicts
from tests.doctor.blocks import attend, frequencies, rotate, rotate_by
from tests.doctor.rotation.patients import row_pair


def row_pair_heads_behind(q, k, position_ids):
    pair = row_pair(q.transpose(1, 2), k.transpose(1, 2), position_ids)
    return tuple(part.transpose(1, 2) for part in pair)


def one_row(x, positions):
    return row_pair(x, x, positions)[0]


def optional_row(x, positions=None):
    return one_row(x, torch.arange(x.shape[2])[None] if positions is None else positions)


def optional_row_ids(x, position_ids=None):
    rows = torch.arange(x.shape[2])[None] if position_ids is None else position_ids
    return rotate_by(x, (rows[..., None] * frequencies(x.shape[-1])).unsqueeze(1))


def row_for_each_text(x, positions):
    return one_row(x, positions) if len(positions) == len(x) else 1 / 0


@pytest.mark.parametrize(
    ("patient", "settings", "form"),
    [
        (row_pair, {}, "(b, t)"),
        (row_pair, {"order": "bhtd"}, "(b, t)"),
        (row_pair_heads_behind, {}, "(b, t)"),
        (one_row, {"order": "bhtd"}, "(1, t)"),
        (optional_row, {"order": "bhtd"}, "(1, t)"),
        (row_for_each_text, {"order": "bhtd"}, "(b, t)"),
    ],
)
def test_rows_of_positions_are_found_out(patient, settings, form):
    report = diagnose(patient, **settings)
    assert_report(report)
    assert form in finding(report, "positions").words
    assert verdicts(report, "batched positions") == ["ok"]
    assert ("axes" in note_ids(report)) == (patient is row_pair_heads_behind)


def test_rows_of_one_head_are_no_other_shape():
    report = diagnose(optional_row_ids, kind="rotation", dim=16, heads=1)
    assert_report(report)
    assert verdicts(report, "batched positions") == ["ok"]


def attend_by_rows(q, k, v, positions, key_positions):
    q, k = row_pair(q, q, positions)[0], row_pair(k, k, key_positions)[1]
    return attend(q, k, v)


@pytest.mark.parametrize("heads", [None, 2, 6, 12])
def test_rows_of_positions_are_not_matched_with_heads(heads):
    report = diagnose(attend_by_rows, heads=heads)
    assert_report(report)
    assert verdicts(report, "order", "shift", "decoding") == ["ok"] * 3


def flat(x, position_ids):
    return rotate_by(x, (position_ids.float()[:, None] * frequencies(x.shape[-1]))[None, None])


def plain(x, position_ids):
    return rotate(x, position_ids) if position_ids.ndim == 1 else 1 / 0


def heads_behind(x, position_ids):
    if position_ids.ndim > 1:
        raise IndexError
    return rotate(x.transpose(1, 2), position_ids).transpose(1, 2)


@pytest.mark.parametrize("patient", [flat, plain, heads_behind])
def test_positions_without_a_batch_are_given_so_whatever_they_are_called(patient):
    report = diagnose(patient)
    assert report.kind == "rotation"
    assert_report(report)
    assert "positions" not in {each.check for each in report.findings}
    assert ("axes" in note_ids(report)) == (patient is heads_behind)


def heads_third(x, positions):
    return rotate_by(x, (positions[..., None].float() * frequencies(x.shape[-1]))[:, None])


def test_positions_without_a_batch_are_tried_in_each_order_of_axes_first():
    report = diagnose(heads_third)
    assert_report(report, notes="axes")
    assert report.examined["axes"] == "(b, t, h, d)"
    assert "positions" not in {each.check for each in report.findings}
    assert "(1, t)" in finding(diagnose(heads_third, order="bhtd"), "positions").words


def offset_of_each_text(q, k, offset):
    positions = offset[:, None] + torch.arange(q.shape[2])
    return rotate(q, positions), rotate(k, positions)


def offset_and_length(q, k, start_pos, seqlen):
    positions = torch.arange(start_pos, start_pos + seqlen)
    return rotate(q, positions), rotate(k, positions)


@pytest.mark.parametrize("patient", [offset_of_each_text, offset_and_length])
def test_offsets_of_texts_and_lengths_are_understood(patient):
    report = diagnose(patient)
    assert report.kind == "rotation"
    assert_report(report)
