"""The records of the corpus: each is whole, and each bug changes something."""

import json

import pytest

from dev import doctor_corpus
from tests.doctor.corpus import IMPLEMENTATIONS, PACKAGES, RECORDS, read

each_package = pytest.mark.parametrize("package", PACKAGES.values(), ids=lambda package: package.name)


def test_each_package_has_one_file_whatever_a_disk_makes_of_capitals():
    paths = sorted(RECORDS.iterdir())
    assert len({path.name.lower() for path in paths}) == len(paths)
    assert sorted(read(path)[0].name for path in paths) == sorted(PACKAGES)


def test_names_are_unique():
    names = [implementation.name for implementation in IMPLEMENTATIONS]
    assert len(names) == len({*names})


@each_package
def test_each_package_has_a_licence_and_an_address(package):
    assert package.licence
    assert package.url.startswith("https://") or not package.url  # some releases name no repository


@each_package
def test_each_package_has_implementations_or_is_needed_by_one_that_has(package):
    used = {implementation.package for implementation in IMPLEMENTATIONS}
    assert package.name in used or any(package.name in PACKAGES[name].needs for name in used)
    assert {*package.needs} <= {*PACKAGES}


def test_each_bug_changes_the_source_by_little_and_says_what_is_wrong():
    for implementation in IMPLEMENTATIONS:
        assert implementation.kind in ("rotation", "table", "bias", "attention"), implementation.name
        names = [bug.name for bug in implementation.bugs]
        assert len(names) == len({*names}), implementation.name
        for bug in implementation.bugs:
            assert bug.old != bug.new, bug
            assert bug.cause, bug
            assert bug.what, bug
            assert len(bug.old) <= 300, bug


def test_there_is_much_to_judge_by():
    assert len(IMPLEMENTATIONS) >= 80
    assert sum(len(implementation.bugs) for implementation in IMPLEMENTATIONS) >= 150


def test_the_verdicts_that_the_page_shows_are_on_these_records():
    verdicts = json.loads(doctor_corpus.VERDICTS.read_text(encoding="utf-8"))
    shown = {(each["name"], each["package"], each["kind"], *each["bugs"]) for each in verdicts["implementations"]}
    assert shown == {(each.name, each.package, each.kind, *(bug.name for bug in each.bugs)) for each in IMPLEMENTATIONS}
    assert {package["name"] for package in verdicts["packages"]} == {each.package for each in IMPLEMENTATIONS}
