"""Each report that a test of the doctor makes must have the kind and identifiers that `reports.json` lists for it."""

import os
from pathlib import Path

import pytest
import torch

from dev import ROOT, doctor_reports
from posenc import doctor

SUMMARIES: dict[str, list[str]] = {}  # by test
FILES: set[str] = set()  # whose tests ran
SKIPPED: set[str] = set()  # tests, as where a peer is not installed


@pytest.fixture(autouse=True)
def layers_that_begin_alike():
    """Draw the same numbers for the layers of patients, whatever ran before."""
    torch.manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note the reports of a test that passes, and compare them with those that are known."""
    summaries: list[str] = []
    make = doctor.Report

    def noted(*values, **named):
        report = make(*values, **named)
        summaries.append(doctor_reports.summary(report))
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "Report", noted)
        result = yield
    file = _file_of(item.path)
    test = _test_of(file, item.name)
    if os.environ.get(doctor_reports.WRITES):
        FILES.add(file)
        SUMMARIES[test] = summaries
        return result
    changes = differences(doctor_reports.known().get(test, []), summaries)
    if changes:
        pytest.fail("\n".join(["other reports; python -m dev.doctor_reports if so meant", *changes]))
    return result


def _file_of(path):
    return path.relative_to(Path(__file__).parent).with_suffix("").as_posix()


def _test_of(file, name):
    return f"{file} {name}"


def pytest_runtest_logreport(report):
    """Note which tests were skipped: what is listed of them stays."""
    path, _, name = report.nodeid.partition("::")
    # with folders on the command line this is asked of tests elsewhere, too
    if report.skipped and (ROOT / path).is_relative_to(Path(__file__).parent):
        SKIPPED.add(_test_of(_file_of(ROOT / path), name))


def differences(expected: list[str], summaries: list[str]) -> list[str]:
    """Return the lines in which the summaries of a test differ from those that are known."""
    changes = [f"was {old}\nnow {new}" for old, new in zip(expected, summaries, strict=False) if old != new]
    if len(expected) != len(summaries):
        changes.append(f"{len(expected)} reports are known, now {len(summaries)}")
    return changes


def pytest_sessionfinish(session):
    """Write the reports down, where that is asked for and no test failed."""
    if os.environ.get(doctor_reports.WRITES) and not session.testsfailed:
        doctor_reports.write(SUMMARIES, FILES, SKIPPED)
