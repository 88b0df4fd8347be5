"""The recipes for contributors, followed literally in a copy of the project, and the page that shows the syntax."""

import re
import textwrap
from pathlib import Path

import pytest

from tests.dev.conftest import ROOT, runner

GUIDES = ("CONTRIBUTING.md", "posenc/config/README.md", "posenc/doctor/README.md", "tests/contract/README.md")
GUIDE = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in GUIDES) + "\n## \n"
STEP = re.compile(
    r"(?:Write `(?P<path>[^`]+)`:\n+)?^(?P<indent> *)(?P<ticks>`{3,})(?P<kind>\w+)\n(?P<body>.*?)^ *(?P=ticks)$",
    re.M | re.S,
)
CHANGE = re.compile(r"^-(.*(?:\n-.*)*)\n\+(.*(?:\n\+.*)*)$", re.M)


def steps(title: str) -> list[tuple[str, str, str]]:
    """Return the fenced blocks of a section: what kind, of which file if it is one, and what it says."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## )", GUIDE, re.M | re.S)
    assert section, f"no guide has a section {title}"
    return [(s["kind"], s["path"] or "", textwrap.dedent(s["body"])) for s in STEP.finditer(section[1])]


def follow(title: str, copy: Path, run) -> None:
    """Do what a section says: run its commands, make its changes, write its files."""
    for kind, path, body in steps(title):
        if kind == "sh":
            run(f"set -e; {body}")
        elif kind == "diff":
            change(copy, body)
        elif path:
            (copy / path).write_text(body, encoding="utf-8")
        else:
            pytest.fail(f"{title}: no test knows how to follow a block of {kind}")


def change(copy: Path, body: str) -> None:
    """Replace what stands behind - by what stands behind +, in the file that the first line names."""
    name, _, changes = body.partition("\n")
    text = (copy / name).read_text(encoding="utf-8")
    for old, new in CHANGE.findall(changes):
        old, new = old.replace("\n-", "\n"), new.replace("\n+", "\n")
        assert text.count(old) == 1, f"{name} holds {text.count(old)} times:\n{old}"
        text = text.replace(old, new)
    (copy / name).write_text(text, encoding="utf-8")


@pytest.mark.full
def test_an_encoding_step_by_step(copy, run):
    follow("An encoding, step by step", copy, run)
    row = "| [Gauss](https://posenc.github.io/posenc/gallery/#gauss) | bias | Take from each"
    assert row in (copy / "README.md").read_text()
    follow("A learned parameter, step by step", copy, run)


@pytest.mark.full
def test_a_page_step_by_step(copy, run):
    follow("A page, step by step", copy, run)


@pytest.mark.slow
def test_a_figure_step_by_step(copy, run):
    if not (copy / "docs/chapters/4-biases/half-lives.md").exists():
        follow("A page, step by step", copy, run)
    if not (copy / ".node").exists():
        pytest.skip("there is no Node: make scripts")
    follow("A figure, step by step", copy, run)


READ_BY_THE_PAGE = """
from tests.scripts.test_js_config_reader import BOTH, READ
print(READ(BOTH, fields={"model_type": "llama", "rotary_theta": 5e5})["layers"][0]["base"])
"""


@pytest.mark.full
def test_a_key_of_a_configuration_step_by_step(whole_copy):
    run = runner(whole_copy)
    said: list[str] = []
    follow("A key of a configuration, step by step", whole_copy, lambda line: said.append(run(line)))
    assert " 500,000 " in said[-1]
    assert run(f".venv/bin/python -c '{READ_BY_THE_PAGE}'") == "500000\n"


@pytest.mark.full
def test_a_check_of_the_doctor_step_by_step(whole_copy):
    run = runner(whole_copy)
    follow("A check of the doctor, step by step", whole_copy, run)
    reports = (whole_copy / "tests/doctor/reports.json").read_text()
    assert '[result in float32]": ["rotation: wrong dtype-changed;' in reports
    (whole_copy / "posenc/doctor/rotation/usage.py").write_text((ROOT / "posenc/doctor/rotation/usage.py").read_text())
    run(".venv/bin/python -m pytest -q tests/doctor/rotation/test_precision.py -k 'result and float32'", fails=True)


def test_the_page_that_shows_how_a_page_is_written_passes(copy, run):
    (example,) = [body for kind, _, body in steps("How a page is written") if kind == "markdown"]
    (copy / "docs" / "example.md").write_text(example)
    run(".venv/bin/python -m galley --only docs/example.md")
    (copy / "docs" / "example.md").write_text(example.replace("47,117", "47,118"))
    assert "docs/example.md:8: 47,118 " in run(".venv/bin/python -m galley --only docs/example.md", fails=True)


@pytest.mark.slow
def test_what_the_package_holds_passes_its_check(copy, run):
    run("make update ONLY=gallery.md")
    assert ", none fails" in run("make check NAME=alibi")


@pytest.mark.slow
def test_a_first_draft_passes_in_every_door(copy, run):
    run(".venv/bin/python -m dev.new encoding my_code add; .venv/bin/python -m dev.new encoding spin rotate")
    run("make new-encoding NAME=vicinity DOOR=score")
    assert ", none fails" in run("make check NAME='my_code spin vicinity'")
