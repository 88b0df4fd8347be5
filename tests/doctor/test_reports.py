"""How a report reads, and the summary of it that `reports.json` holds."""

import pytest
import torch

from dev.doctor_reports import summary
from posenc.doctor import diagnose
from posenc.doctor.report import Finding, Report, passed, run_checks
from posenc.doctor.table import check_rows
from tests.doctor.cases import rotation

REPORT = Report(
    "rotate",
    "rotation",
    (
        Finding("norm", "ok", "lengths stay the same", 2.5e-8),
        Finding("shift", "wrong", "logits change by 12.5 at 1,024", 12.5, "shift-broken"),
        Finding("limit", "not checked", "the check itself raises", None, "limit"),
    ),
    {"sizes": "4 heads of 64 channels", "scaling": ""},
)


def test_a_summary_lists_the_kind_and_the_identifiers_of_what_did_not_pass():
    more = (
        Finding("decoding", "note", "needs an offset", None, "decoding"),
        Finding("axes", "note", "(b, t, h, d)", None, "axes"),
        Finding("far positions", "not checked", "needs a base", None, "far-positions"),
    )
    report = REPORT._replace(findings=(*REPORT.findings, *more))
    assert summary(report) == "rotation: wrong shift-broken; note axes, decoding; not checked far-positions"
    assert summary(REPORT._replace(findings=REPORT.findings[:1])) == "rotation: ok"


@pytest.mark.parametrize(("verdict", "expected"), [("note", "ok"), ("not checked", "ok"), ("wrong", "wrong limit")])
def test_a_check_that_goes_by_time_is_listed_where_it_is_wrong(verdict, expected):
    report = REPORT._replace(findings=(Finding("limit", verdict, "", None, "limit"),))
    assert summary(report) == f"rotation: {expected}"


# What a report says of itself

LONG = "lengths change by a factor of 2 from one position to the next, so that whatever is far away weighs more"
SICK = Report(
    "rotate",
    "attention",
    (
        Finding("future", "ok", "no token sees a later one"),
        Finding("heads", "note", "heads differ"),
        Finding("norm", "wrong", LONG, 2.0, "axis-lost"),
        Finding("limit", "not checked", "needs a class"),
        Finding("norm", "wrong", "and once more", 2.0, "rows-alike"),
    ),
    {"sizes": "4 heads", "layout": "", "base": None, "grid": "a grid of 2 by 2"},
)


def test_a_report_in_print():
    first, *rest = str(SICK).splitlines()
    assert first == "rotate, examined as an attention (4 heads, a grid of 2 by 2): 2 things are wrong; of 4"
    assert rest[0] == "checks 1 passed, 1 noted, 1 could not be made"
    assert rest[1].startswith("WRONG        norm: lengths change")
    assert rest[2].startswith(" " * 13 + "that")
    assert [line[13:].split(":")[0] for line in rest[3:]] == [
        "axis-lost", "norm", "rows-alike", "heads", "future", "limit"
    ]  # fmt: skip
    assert [line[:13].strip() for line in rest[3:]] == ["", "WRONG", "", "note", "ok", "not checked"]
    assert rest[3].endswith(SICK.finding("norm").page)


def test_a_report_in_one_line():
    line = repr(SICK._replace(findings=(Finding("norm", "wrong", f"{LONG}, {LONG}"), *SICK.findings[3:])))
    assert line.startswith("<rotate, examined as an attention: 2 things are wrong | norm: lengths change by")
    assert line.endswith(" ... | norm: and once more>")
    assert 150 < len(line) <= 240


@pytest.mark.parametrize("verdict", ["ok", "note", "wrong", "not checked"])
def test_what_is_healthy(verdict):
    report = Report("f", "table", (Finding("rows", verdict, "as it is", None, "rows-alike"),))
    assert report.healthy == (verdict in ("ok", "note"))
    assert report.missing == (("rows",) if verdict == "not checked" else ())
    data = report.to_dict()
    assert data["checks"] == dict.fromkeys(("wrong", "note", "ok", "not checked"), 0) | {verdict: 1}
    assert (data["name"], data["kind"], data["healthy"]) == ("f", "table", report.healthy)
    assert bool(data["findings"][0]["page"]) == (verdict == "wrong")
    heads = {
        "wrong": "f, examined as a table: 1 thing is wrong; of 1 check 0 passed",
        "note": "f, examined as a table: nothing wrong found; of 1 check 0 passed, 1 noted",
        "ok": "f, examined as a table: nothing wrong found; of 1 check 1 passed",
        "not checked": "f, examined as a table: too little could be examined to call it healthy (rows are not checked)"
        "; of 0 checks 0 passed, 1 could not be made",
    }
    found = " ".join(str(report).split(f"\n{verdict.upper() if verdict == 'wrong' else verdict}")[0].split())
    assert found == heads[verdict]


def test_a_kind_of_which_nothing_is_asked_and_a_check_that_is_not_there():
    assert Report("f", "other", ()).healthy
    assert Report("f", "rotation", (Finding("norm", "ok", ""), Finding("shift", "not checked", ""))).healthy
    assert SICK.finding("norm").words == LONG
    with pytest.raises(ValueError, match="check must be one of future, heads, norm, limit, got 'rows'"):
        SICK.finding("rows")


def test_whose_error_it_is():
    def of_the_code(case):
        return case()

    def several(case):
        return [passed("one", 1.0), passed("two")._replace(check="other name"), None]

    def nothing(case):
        return None

    made = run_checks((of_the_code, several, nothing), lambda: 1 / 0)
    assert [(one.check, one.verdict, one.id) for one in made] == [
        ("of the code", "not checked", "of-the-code"),
        ("several", "ok", "several"),
        ("other name", "ok", "other-name"),
    ]
    assert made[0].words == "your code raises ZeroDivisionError: division by zero"
    by_torch = run_checks((check_rows,), torch.ones(2))  # a check of the doctor's, on what is no case
    assert by_torch[0].words.startswith("the check itself raises AttributeError: ")


def test_what_comes_too_late_is_not_checked(monkeypatch):
    def one(case):
        return passed(case)

    monkeypatch.setattr("time.thread_time", iter((100.0, 110.0, 129.0, 131.0)).__next__)
    assert [finding.verdict for finding in run_checks((one, one, one), "fine")] == ["ok", "ok", "not checked"]


def test_one_head_can_be_asked_for():
    assert diagnose(rotation, heads=1).examined["sizes"] == "1 head of 64 channels"


def test_compiled_code_runs_as_it_is_written():
    asked = []

    def backend(graph, inputs):
        asked.append(inputs)
        return graph

    turn = torch.compile(rotation, backend=backend)
    assert diagnose(turn).healthy
    assert not asked
