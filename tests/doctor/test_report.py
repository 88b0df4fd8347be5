"""A report: its verdict, the printed text, the line that pytest shows, the plain data, and the summary of it."""

import pytest

import posenc
from dev.doctor_reports import summary
from posenc.doctor import Finding, Report
from tests.doctor.assertions import finding

NOT_CALLED = Finding("limit", "not checked", "needs a class", None, "limit")
LONG = "norms change by a factor of 2 from one position to the next, so that whatever is far away weighs more"
SICK = Report(
    "rotate",
    "attention",
    (
        Finding("future", "ok", "no token sees a later one"),
        Finding("heads", "note", "heads differ", None, "heads"),
        Finding("norm", "wrong", LONG, 2.0, "axis-lost"),
        NOT_CALLED,
        Finding("norm", "wrong", "and once more", 2.0, "rows-alike"),
    ),
    {"sizes": "4 heads", "layout": "", "base": None, "grid": "a grid of 2 by 2"},
)


def of_verdict(verdict):
    return Report("f", "table", (Finding("rows", verdict, "as it is", None, "rows-alike"),))


# Verdicts


@pytest.mark.parametrize(
    ("verdict", "healthy", "missing"),
    [("ok", True, ()), ("note", True, ()), ("wrong", False, ()), ("not checked", False, ("rows",))],
)
def test_a_report_is_healthy_where_nothing_is_wrong_and_enough_was_checked(verdict, healthy, missing):
    report = of_verdict(verdict)
    assert report.healthy is healthy
    assert report.missing == missing


def test_one_of_the_checks_that_a_kind_stands_on_is_enough():
    ok, unchecked = Finding("norm", "ok", ""), Finding("shift", "not checked", "")
    assert Report("f", "rotation", (ok, unchecked)).healthy
    assert Report("f", "rotation", (unchecked,)).missing == ("norm", "shift")


def test_a_kind_of_which_nothing_is_asked_is_healthy():
    assert Report("f", "other", ()).healthy


def test_the_gravest_finding_of_a_check_is_told():
    assert finding(SICK, "norm").number == 2.0
    assert finding(SICK, "norm").id == "axis-lost"


# The printed text


def test_what_is_wrong_is_printed_first_and_with_its_page():
    head, *lines = str(SICK).splitlines()
    assert head.startswith("rotate, examined as an attention (4 heads, a grid of 2 by 2)")
    marks = [line[:13].strip() for line in lines[1:]]
    subjects = [line[13:].split(":")[0] for line in lines[1:] if ":" in line[13:]]
    assert [mark for mark in marks if mark] == ["WRONG", "WRONG", "note", "ok", "not checked"]
    assert subjects == ["norm", "axis-lost", "norm", "rows-alike", "heads", "future", "limit"]
    assert lines[3].endswith(finding(SICK, "norm").page)


def test_a_long_finding_is_wrapped_below_its_words():
    lines = str(SICK).splitlines()
    wrapped = next(place for place, line in enumerate(lines) if LONG[:30] in line) + 1
    assert lines[wrapped].startswith(" " * 13)
    assert max(map(len, lines)) < 120


@pytest.mark.parametrize(
    ("verdict", "counts"),
    [("wrong", "1 thing is wrong"), ("note", "1 noted"), ("ok", "1 passed"), ("not checked", "1 could not be made")],
)
def test_the_head_counts_the_verdicts(verdict, counts):
    assert counts in " ".join(str(of_verdict(verdict)).split())


# A line for pytest


def test_a_report_in_one_line_names_what_is_wrong():
    line = repr(SICK._replace(findings=(Finding("norm", "wrong", f"{LONG}, {LONG}"), *SICK.findings[3:])))
    assert line.startswith("<rotate, examined as an attention: 2 things are wrong | norm: norms change by")
    assert line.endswith(" ... | norm: and once more>")
    assert 150 < len(line) <= 240


def test_a_report_in_one_line_names_each_of_many_things():
    long = Finding("norm", "wrong", "norms change " * 40)
    report = Report("f" * 300, "bias", tuple(long._replace(check=str(n)) for n in range(9)))
    assert all(f" | {n}: norm" in repr(report) for n in range(9))


def test_a_sound_report_in_one_line():
    assert repr(of_verdict("ok")) == "<f, examined as a table: nothing wrong found>"


# Plain data


@pytest.mark.parametrize("verdict", ["wrong", "note", "ok", "not checked"])
def test_the_report_as_plain_data(verdict):
    data = of_verdict(verdict).to_dict()
    assert data["checks"] == dict.fromkeys(("wrong", "note", "ok", "not checked"), 0) | {verdict: 1}
    assert (data["name"], data["kind"], data["healthy"]) == ("f", "table", of_verdict(verdict).healthy)
    assert bool(data["findings"][0]["page"]) == (verdict == "wrong")


# The summary in reports.json


def test_a_summary_lists_the_kind_and_the_identifiers_of_what_did_not_pass():
    assert summary(SICK) == "attention: wrong axis-lost, rows-alike; note heads"
    assert summary(of_verdict("not checked")) == "table: not checked rows-alike"
    assert summary(of_verdict("ok")) == "table: ok"


@pytest.mark.parametrize(("verdict", "expected"), [("note", "ok"), ("not checked", "ok"), ("wrong", "wrong limit")])
def test_a_check_that_goes_by_time_is_listed_where_it_is_wrong(verdict, expected):
    report = Report("f", "rotation", (NOT_CALLED._replace(verdict=verdict),))
    assert summary(report) == f"rotation: {expected}"


def test_the_package_offers_the_doctor():
    assert posenc.diagnose is posenc.doctor.diagnose
