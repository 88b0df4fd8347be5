"""The records of the world's code: each is whole, and each bug changes something."""

import json

import pytest

from dev import doctor_corpus
from tests.doctor.corpus import Bug, Implementation
from tests.doctor.corpus.verdict import of_bug, of_sound

each = pytest.mark.parametrize("shelf", doctor_corpus.SHELVES, ids=lambda shelf: shelf.__name__.rpartition(".")[2])


def test_names_are_unique():
    names = [one.name for one in doctor_corpus.IMPLEMENTATIONS]
    assert len(names) == len({*names})


@each
def test_each_implementation_belongs_to_a_package_with_a_licence_and_an_address(shelf):
    packages = {package.name: package for package in shelf.PACKAGES}
    assert {one.package for one in shelf.IMPLEMENTATIONS} <= {*packages}
    for package in packages.values():
        assert package.licence, package.name
        assert package.url.startswith("https://") or not package.url, package.name  # some releases name no repository


@each
def test_each_bug_changes_the_source_by_little_and_says_what_is_wrong(shelf):
    for one in shelf.IMPLEMENTATIONS:
        names = [bug.name for bug in one.bugs]
        assert len(names) == len({*names}), one.name
        for bug in one.bugs:
            assert bug.old != bug.new, bug
            assert bug.cause, bug
            assert bug.what, bug
            assert len(bug.old) <= 300, bug


def test_there_is_much_to_judge_by():
    assert len(doctor_corpus.IMPLEMENTATIONS) >= 80
    assert sum(len(one.bugs) for one in doctor_corpus.IMPLEMENTATIONS) >= 150


def test_the_verdicts_that_the_page_shows_are_on_these_records():
    told = json.loads(doctor_corpus.VERDICTS.read_text(encoding="utf-8"))
    shown = {(one["name"], one["package"], one["kind"], *one["bugs"]) for one in told["implementations"]}
    assert shown == {
        (one.name, one.package, one.kind, *(b.name for b in one.bugs)) for one in doctor_corpus.IMPLEMENTATIONS
    }
    assert {one["name"] for one in told["packages"]} == {one.package for one in doctor_corpus.IMPLEMENTATIONS}


def said(*causes, kind="rotation"):
    return {"kind": kind, "findings": [["wrong", "check", cause, "words"] for cause in causes]}


@pytest.mark.parametrize(
    ("defects", "sound", "verdict"),
    [
        ((), said(), "right"),
        ((), said("one-side"), "false alarm"),
        (("one-side",), said("one-side"), "right"),
        (("one-side",), said("one-side", "absolute"), "false alarm"),
        (("one-side",), said(), "missed"),
        ((), said(kind="table"), "not examinable"),
        ((), {"refused": "…"}, "not examinable"),
        ((), {"crashed": "…"}, "crash"),
    ],
)
def test_a_verdict_on_code_as_it_stands(defects, sound, verdict):
    one = Implementation("name", "package", "module", "make", "rotation", defects=defects)
    assert of_sound(one, {"first": sound, "sound": sound}) == verdict


@pytest.mark.parametrize(
    ("here", "glued", "unseen", "verdict"),
    [
        (said("one-side", "absolute"), {}, "", "cause"),
        (said("one-side", "crossed"), {}, "", "wrong"),
        (said("one-side"), {}, "", "missed"),
        (said("one-side"), {}, "as another author means it", "out of sight"),
        ({"refused": "…"}, {}, "", "not examinable"),
        ({"refused": "…"}, said("absolute"), "", "cause"),
        (said("one-side"), said("still"), "", "missed"),
    ],
)
def test_a_verdict_on_a_bug_asks_for_more_than_the_code_has_without_it(here, glued, unseen, verdict):
    bug = Bug("bug", "old", "new", "absolute", "what", unseen)
    told = {"bugs": {"bug": here}, "glued": {"bug": glued} if glued else {}, "sound": said("one-side")}
    assert of_bug(bug, told | {"glued sound": said("still")}) == verdict
