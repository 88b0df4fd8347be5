"""The comparison of reports sees another word, another number and another count, and nothing in what machines round."""

import pytest

from posenc.diagnosis.report import Finding, Report
from tests.diagnosis.reports import alike, differences, lines

REPORT = Report(
    "rotate",
    "rotation",
    (
        Finding("norm", "ok", "lengths stay the same", 2.5e-8),
        Finding("shift", "wrong", "logits change by 12.5 at 1,024", 12.5, "shift-broken"),
        Finding("limit", "not checked", "the check itself raises"),
    ),
    {"sizes": "4 heads of 64 channels", "scaling": ""},
)
LINES = [
    "rotation (4 heads of 64 channels)",
    "wrong shift-broken: logits change by 12.5 at 1,024 12.5",
    "ok: norm 2.5e-08",
    "not checked: limit",
]


def test_a_report_in_short():
    assert lines(REPORT) == LINES
    assert differences([LINES], [LINES]) == []


@pytest.mark.parametrize(
    ("now", "same"),
    [
        ("off by 1.25 at 1,024", True),
        ("off by 1.3 at 1,024", True),
        ("off by 1.5 at 1,024", False),
        ("off by 1.25 at 2,048", False),
        ("off by 1.25 of 1,024", False),
        ("off by 1.25", False),
    ],
)
def test_words_are_equal_and_numbers_nearly(now, same):
    assert alike(now, "off by 1.25 at 1,024") is same


def test_numbers_that_are_rounding_are_alike():
    assert alike("norm 2.5e-08", "norm 0.0")
    assert not alike("norm 2.5e-03", "norm 0.0")


@pytest.mark.parametrize("said", [[], [LINES, LINES], [LINES[:-1]], [[*LINES, "more"]]])
def test_what_is_missing_or_more_is_told(said):
    assert len(differences(said, [LINES])) == 1
