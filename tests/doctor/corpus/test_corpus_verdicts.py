"""How a diagnosis is judged; and a few packages are judged again: the page shows the verdicts of this doctor."""

import json
import subprocess
import sys

import pytest

from dev import doctor_corpus
from tests.doctor.corpus import IMPLEMENTATIONS, Bug, Implementation
from tests.doctor.corpus.verdict import of_bug, of_sound, verdict

PACKAGES = ("labml-nn", "llms-from-scratch", "litgpt", "x-transformers")


def diagnosis(*causes, kind="rotation"):
    return {"kind": kind, "findings": [["wrong", "check", cause, "words"] for cause in causes]}


@pytest.mark.parametrize(
    ("defects", "sound", "expected"),
    [
        ((), diagnosis(), "right"),
        ((), diagnosis("one-side"), "false alarm"),
        (("one-side",), diagnosis("one-side"), "right"),
        (("one-side",), diagnosis("one-side", "absolute"), "false alarm"),
        (("one-side",), diagnosis(), "missed"),
        ((), diagnosis(kind="table"), "not examinable"),
        ((), {"refused": "…"}, "not examinable"),
        ((), {"crashed": "…"}, "crash"),
    ],
)
def test_a_verdict_on_code_as_it_stands(defects, sound, expected):
    implementation = Implementation("name", "package", "module", "make", "rotation", defects=defects)
    assert of_sound(implementation, {"first": sound, "sound": sound}) == expected


@pytest.mark.parametrize(
    ("without_glue", "glued", "unseen", "expected"),
    [
        (diagnosis("one-side", "absolute"), {}, "", "cause"),
        (diagnosis("one-side", "crossed"), {}, "", "wrong"),
        (diagnosis("one-side"), {}, "", "missed"),
        (diagnosis("one-side"), {}, "as another author means it", "out of sight"),
        ({"refused": "…"}, {}, "", "not examinable"),
        ({"refused": "…"}, diagnosis("absolute"), "", "cause"),
        (diagnosis("one-side"), diagnosis("still"), "", "missed"),
    ],
)
def test_a_verdict_on_a_bug_asks_for_more_than_the_code_has_without_it(without_glue, glued, unseen, expected):
    bug = Bug("bug", "old", "new", "absolute", "what", unseen)
    result = {"bugs": {"bug": without_glue}, "glued": {"bug": glued} if glued else {}, "sound": diagnosis("one-side")}
    assert of_bug(bug, result | {"glued sound": diagnosis("still")}) == expected


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_the_verdicts_on_a_package_are_those_shown(package, tmp_path):
    """Run `python -m dev.doctor_corpus` after a change of the doctor that changes verdicts."""
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "dev.doctor_corpus", "--only", package, "--output", str(output)]
    subprocess.run(command, cwd=doctor_corpus.ROOT, check=True)
    results = json.loads(output.read_text(encoding="utf-8"))
    verdicts = json.loads(doctor_corpus.VERDICTS.read_text(encoding="utf-8"))["implementations"]
    shown = {each["name"]: each for each in verdicts}
    implementations = [each for each in IMPLEMENTATIONS if each.package == package]
    assert len(implementations) > 1
    assert [verdict(each, results[each.name]) for each in implementations] == [
        shown[each.name] for each in implementations
    ]
