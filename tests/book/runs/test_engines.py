"""The engines: processes and runs that are killed, on this machine and on a cluster of Ray."""

import importlib.util
import os
import signal
import time
from pathlib import Path

import pytest

from posenc_book.runs import engines
from tests.book.runs import toy
from tests.book.runs.conftest import cells_in_rows, data, run_toy, started


def until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def test_a_run_survives_a_worker_that_is_killed(folder):
    assert run_toy("dying", seeds=[0], workers=2) == 0
    assert data(folder)["dying"]["of"].keys() == {*toy.SECTIONS["dying"]}
    assert len(cells_in_rows(folder)) == len({*cells_in_rows(folder)}) == 5
    assert toy.measured_times()["dying: of, killed once, seed 0"] == 2


@pytest.mark.full
def test_a_cell_that_always_kills_its_worker_is_given_up_and_takes_no_other_along(folder, capsys):
    assert run_toy("dead", "numbers", seeds=[0], workers=2) == 1
    assert toy.measured_times()["dead: of, killed, seed 0"] == 1 + engines.RETRIES
    assert "numbers" in data(folder)
    assert len(cells_in_rows(folder)) == 6
    assert f"failed: dead: of, killed, seed 0: {engines.KILLED}" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("killed_by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_killed_leaves_no_process_and_goes_on_where_it_was(folder, killed_by):
    rows = folder / ".cache/posenc-runs/toy.jsonl"
    with started(folder, "--only", "waiting", "--seeds", "0", "--workers", "2") as process:
        until(lambda: rows.exists() and rows.read_bytes().count(b"\n") == 2)
        children = workers_of(process.pid)
        assert children
        process.send_signal(killed_by)
        output = process.communicate(timeout=120)
    until(lambda: not any(map(is_alive, children)))
    if killed_by == signal.SIGINT:
        assert process.returncode == 130
        assert output[1].splitlines()[-1] == "stopped; the same command goes on from here"
    assert not (folder / "toy.json").exists()
    (folder / "go").touch()
    assert run_toy("waiting", seeds=[0], workers=1) == 0
    assert cells_in_rows(folder) == [f"waiting: of, {name}, seed 0" for name in ("1", "2", "waits")]
    times = toy.measured_times()
    assert (times["waiting: of, 1, seed 0"], times["waiting: of, 2, seed 0"]) == (1, 1)


def workers_of(parent):
    """Return the processes that a process has started, where the system tells."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    return [int(child) for child in children.read_text().split()]


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


NO_RAY = not importlib.util.find_spec("ray") and not os.environ.get("REQUIRE_RAY")


@pytest.mark.slow
@pytest.mark.skipif(NO_RAY, reason="a cluster of Ray needs pip install ray")
def test_ray_gives_the_same_and_survives_a_worker_that_is_killed(folder):
    only = ("--only", "dying", "raising", "numbers", "--seeds", "0", "1")
    with started(folder, *only, "--engine", "ray", "--workers", "2") as process:
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 1, errors
    assert "wrote numbers, dying" in output
    assert "failed: raising: of, raises, seed 1: ZeroDivisionError: on purpose" in errors
    assert toy.measured_times()["dying: of, killed once, seed 0"] == 2
    assert len(cells_in_rows(folder)) == len({*cells_in_rows(folder)}) == 2 * (5 + 2 + 4)
    assert run_toy("numbers", out=folder / "here.json", rows=folder / "here.jsonl", workers=2) == 0
    assert data(folder)["numbers"] == data(folder, "here.json")["numbers"]
