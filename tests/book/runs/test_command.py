"""The command: which cells it takes, what it writes, and that what is finished is not measured again."""

import json
import os
import sys

import pytest
import torch

from posenc_book.__main__ import main
from posenc_book.runs import Cell, by_keys, find_study, hardware, provenance
from posenc_book.runs.command import cells_of
from posenc_book.runs.engines import Failure, measured
from tests.book.runs import toy
from tests.book.runs.conftest import ROOT, TOY, cells_in_rows, data, run_toy


@pytest.mark.usefixtures("at_once")
def test_it_writes_the_numbers_of_every_seed_with_their_provenance(folder, capsys):
    assert run_toy("numbers") == 0
    written = data(folder)
    assert written["numbers"] == {"of": {name: {"square": [n * n, n * n + 1]} for n, name in enumerate("1234", 1)}}
    record = written["provenance"]["numbers"]
    assert (record["seeds"], record["input"]) == ([0, 1], "none")
    assert record["script"] == "python -m posenc_book run toy"
    assert {"python", "torch", "processor", "versions", "commit", "machine", "seconds"} < {*record}
    output = capsys.readouterr()
    assert output.out == "wrote numbers to toy.json\n"
    assert "8/8" in output.err


@pytest.mark.usefixtures("at_once")
def test_what_is_finished_is_not_measured_again(folder):
    run_toy("numbers", seeds=[1])
    run_toy("numbers")
    once = data(folder)
    run_toy("numbers")
    assert data(folder) == once
    assert {*toy.measured_times().values()} == {1}
    assert cells_in_rows(folder) == sorted(map(str, cells_of(toy.STUDY, ["numbers"], None)))


@pytest.mark.usefixtures("at_once")
def test_after_a_kill_only_what_is_missing_is_measured(folder):
    run_toy("numbers")
    rows = folder / ".cache/posenc-runs/toy.jsonl"
    once, lines = data(folder), rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    (folder / "notes").unlink()
    run_toy("numbers")
    assert len(toy.measured_times()) == 3
    assert data(folder)["numbers"] == once["numbers"]
    assert rows.read_bytes().count(b"\n") == len(lines) == len({*cells_in_rows(folder)})


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("what", ["input", "torch", "code"])
def test_what_was_measured_with_something_else_is_measured_again(folder, monkeypatch, capsys, what):
    run_toy("numbers")
    if what == "input":
        (folder / "input").write_text("another")
    elif what == "torch":
        monkeypatch.setattr(provenance, "TORCH", "9.0.0")
    else:
        monkeypatch.setattr(provenance, "code_digest", code := lambda sources: "another")
        monkeypatch.setattr("posenc_book.runs.command.code_digest", code)
        monkeypatch.setattr("posenc_book.runs.engines._loaded_code", code)
    run_toy("numbers", seeds=[0])
    assert sorted(toy.measured_times().values()) == [1] * 4 + [2] * 4
    assert "measured again, since code, torch or inputs have changed: 4 cells" in capsys.readouterr().err
    assert data(folder)["provenance"]["numbers"]["input"] == ("another" if what == "input" else "none")


def test_the_digest_of_code_is_that_of_every_file_of_its_sources(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for file in ("digested/__init__.py", "digested/inner/__init__.py", "digested/inner/leaf.py", "digested_alone.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    study = provenance.Study("s", "", list, str, dict, ("digested", "digested_alone"))
    digests = {provenance.code_digest(study.sources)}
    for file in sorted(tmp_path.rglob("*.py")):
        file.write_text("changed = True\n")
        digests.add(provenance.code_digest(study.sources))
    assert len(digests) == 5


@pytest.mark.usefixtures("at_once")
def test_a_cell_that_raises_stops_no_other_and_its_section_stays_as_it_was(folder, capsys):
    (folder / "toy.json").write_text(json.dumps({"raising": "of before", "other": 1}))
    assert run_toy("raising", "numbers", seeds=[0]) == 1
    written = data(folder)
    assert (written["raising"], written["other"]) == ("of before", 1)
    assert "numbers" in written
    assert {*written["provenance"]} == {"numbers"}
    output = capsys.readouterr()
    assert "left out raising: 2 of its 4 cells have a result" in output.out
    assert "failed: raising: of, raises, seed 0: ZeroDivisionError: on purpose" in output.err
    assert "failed: raising: of, exits, seed 0: SystemExit: on purpose" in output.err
    assert 'raise ZeroDivisionError("on purpose' in output.err, "no traceback"


def test_a_machine_with_other_code_does_not_measure(folder):
    outcome = measured(TOY, Cell("numbers", ("of", "1")), "another digest")
    assert isinstance(outcome, Failure)
    assert outcome.reason.endswith("has other code or inputs than the machine that asks")
    assert not toy.measured_times()


def test_the_commit_is_that_of_the_checkout_only_where_this_package_is_part_of_it(monkeypatch):
    provenance._commit.cache_clear()
    commit = provenance._commit()
    assert commit is None or len(commit) == 40
    provenance._commit.cache_clear()
    monkeypatch.setattr(provenance, "__file__", str(ROOT / "docs/book/posenc_book/of_nobody.py"))
    assert provenance._commit() is None
    provenance._commit.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["labs", "--only", "speed"], "run: only must be among capability, language, extension, got speed"),
        (["labs", "--workers", "0"], "run: workers must be at least 1, got 0"),
        (["labs", "--address", "a:1"], "run: address must be None without --engine ray, got a:1"),
        (
            ["laps"],
            "run: study must be one of labs, phases, real, or a module that binds STUDY, got laps; No module named",
        ),
        (
            ["math"],
            "run: study must be one of labs, phases, real, or a module that binds STUDY, got math, which binds none",
        ),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(folder, capsys, arguments, message):
    assert main(["run", *arguments]) == 1
    assert capsys.readouterr().err.startswith(message)
    assert [*folder.iterdir()] == []


def test_without_ray_it_says_how_to_get_it(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["run", TOY, "--engine", "ray"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run: engine must be processes without Ray, got ray; pip install ray")


def test_the_list_names_every_cell_and_measures_none(folder, capsys):
    assert main(["run", TOY, "--list", "--only", "dead", "--seeds", "7"]) == 0
    lines = ["dead: of, 1, seed 7", "dead: of, killed, seed 7", "dead: of, 2, seed 7"]
    assert capsys.readouterr().out.splitlines() == lines
    assert [*folder.iterdir()] == []


def test_results_are_nested_by_keys_with_a_list_over_seeds():
    results = {Cell("s", (), seed): {"a": seed + 1 / 3, "b": [0.12345, "word"]} for seed in (0, 1)}
    assert by_keys(results) == {"a": [0.3333, 1.3333], "b": [[0.1235, "word"]] * 2}


def test_a_worker_is_a_core_or_a_gpu_that_is_used(monkeypatch):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    taken = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    assert (hardware.default_workers(True), hardware.default_workers(False), hardware.device()) == (3, cores, "cuda")
    for number in range(4):
        hardware.take_gpu(number)
    assert taken == [0, 1, 2, 0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (hardware.default_workers(True), hardware.device()) == (cores, "cpu")


def test_every_study_has_each_cell_once():
    for name in ("labs", "phases"):
        cells = find_study(name).cells()
        assert len({*cells}) == len(cells)
        assert {cell.seed for cell in cells} == {0}
