"""Each report that a test of the doctor makes must read as tests/doctor/reports.json says."""

import json
import os

import pytest
import torch

from dev import doctor_reports
from posenc import doctor
from posenc.doctor.report import Report

MADE: dict[str, list[list[str]]] = {}  # by test


@pytest.fixture(autouse=True)
def layers_that_begin_alike():
    """Draw the same numbers for the layers of patients, whatever ran before."""
    torch.manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note the reports of a test that passes, and compare them with those that are known."""
    made: list[list[str]] = []

    def noted(*parts):
        report = Report(*parts)
        made.append(doctor_reports.lines(report))
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "Report", noted)
        result = yield
    name = f"{item.path.stem} {item.name}"
    if os.environ.get(doctor_reports.WRITES):
        MADE[name] = made
    elif differences := doctor_reports.differences(made, doctor_reports.known().get(name, [])):
        pytest.fail("\n".join(["reports read otherwise; python -m dev.doctor_reports if so meant", *differences]))
    return result


def pytest_sessionfinish(session):
    """Write the reports down, where that is asked for and no test failed."""
    if os.environ.get(doctor_reports.WRITES) and not session.testsfailed:
        text = json.dumps({name: made for name, made in sorted(MADE.items()) if made}, indent=0, ensure_ascii=False)
        doctor_reports.PATH.write_text(text + "\n", encoding="utf-8")
