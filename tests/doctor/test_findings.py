"""How the doctor runs its checks, from inside: whose error it is, what comes too late, where causes are explained.

Of the doctor's tests this file and rotation/test_against_config.py alone import what is inside of posenc.doctor.
"""

import pytest
import torch

from posenc.doctor.findings import CAUSES, SITE
from posenc.doctor.model import checks as model_checks
from posenc.doctor.report import passed, run_checks
from posenc.doctor.table.usage import check_rows
from tests.contract.encoding_inputs import ROOT

DOCTOR = ROOT / "posenc/doctor"


# Checks


def of_the_code(case):
    return case()


def several(case):
    return [passed("one", 1.0), passed("two")._replace(check="other name"), None]


def nothing(case):
    return None


def test_findings_have_the_name_of_their_check_and_an_identifier():
    results = run_checks((of_the_code, several, nothing), lambda: 1 / 0)
    assert [(each.check, each.verdict, each.id) for each in results] == [
        ("of the code", "not checked", "of-the-code"),
        ("several", "ok", "several"),
        ("other name", "ok", "other-name"),
    ]


class EndsAtRow:
    @staticmethod
    def call(position):
        raise IndexError("no such row")


@pytest.mark.parametrize(
    ("check", "case", "whose", "error"),
    [
        (of_the_code, lambda: 1 / 0, "your code", "ZeroDivisionError: division by zero"),
        (lambda case: case.call(10**9), EndsAtRow, "your code", "IndexError: no such row"),
        (check_rows, torch.ones(2), "the check itself", "AttributeError"),
        (model_checks.repeatable, None, "the check itself", "AttributeError"),
    ],
    ids=["a call", "a method", "a table", "a model"],
)
def test_an_error_is_put_on_the_code_or_on_the_check(check, case, whose, error):
    (finding,) = run_checks((check,), case)
    assert finding.verdict == "not checked"
    assert whose in finding.words
    assert error in finding.words


def test_what_comes_too_late_is_not_checked(monkeypatch):
    def check(case):
        return passed(case)

    monkeypatch.setattr("time.thread_time", iter((100.0, 110.0, 129.0, 131.0)).__next__)
    assert [finding.verdict for finding in run_checks((check, check, check), "fine")] == ["ok", "ok", "not checked"]


# Causes


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_a_page_that_explains_it(cause):
    text, page = CAUSES[cause]
    path, _, anchor = page.partition("#")
    text = (ROOT / "docs" / f"{path.rstrip('/')}.md").read_text(encoding="utf-8")
    assert f"{{#{anchor}}}" in text or f"## {anchor.replace('-', ' ')}" in text.lower()
    assert text


def test_pages_lie_on_the_site():
    assert SITE.startswith("https://")


def test_each_cause_that_code_names_is_known():
    for path in DOCTOR.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for part in text.split("wrong(\n")[1:] + text.split('wrong("')[1:]:
            named = part.strip().lstrip('"').partition('"')[0]
            is_cause = named.islower() and len(named) < 40 and not {"{", " "} & set(named)
            assert not is_cause or named in CAUSES, f"{path.name}: {named}"


def test_each_cause_is_one_that_a_check_reports():
    code = "".join(path.read_text(encoding="utf-8") for path in DOCTOR.rglob("*.py") if path.stem != "findings")
    assert not [cause for cause in CAUSES if f'"{cause}"' not in code]
