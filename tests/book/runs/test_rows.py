"""The file of rows: killed anywhere in a write, locked, and told apart by what it was measured with."""

import os

import pytest

from posenc_book.runs.cell import Cell
from posenc_book.runs.rows import Row, open_rows

ROWS = [Row(Cell("s", (f"k{n}", "ü"), n), {"a": [n / 3, None]}, 0.1, "d1", {"torch": "2"}) for n in range(3)]


def write(file, rows):
    with open_rows(file) as table:
        for row in rows:
            table.append(row)


def test_a_write_that_was_cut_at_any_byte_costs_that_row_alone(tmp_path):
    write(tmp_path / "whole.jsonl", ROWS)
    whole = (tmp_path / "whole.jsonl").read_bytes()
    last = ROWS[-1].to_line()
    for written in range(len(last)):
        file = tmp_path / f"{written}.jsonl"
        file.write_bytes(whole[: len(whole) - len(last) + written])
        with open_rows(file) as table:
            assert [table.get(row.cell, "d1") for row in ROWS] == [*ROWS[:-1], None]
            table.append(ROWS[-1])
        assert file.read_bytes() == whole


def test_a_row_is_on_the_disk_as_soon_as_it_is_appended(tmp_path, monkeypatch):
    file, synced = tmp_path / "rows.jsonl", []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(file.read_bytes()))
    write(file, ROWS)
    assert synced == [b"".join(row.to_line() for row in ROWS[:n]) for n in (1, 2, 3)]


def test_a_row_counts_only_with_the_digest_that_it_was_measured_with(tmp_path):
    write(tmp_path / "rows.jsonl", ROWS)
    with open_rows(tmp_path / "rows.jsonl") as table:
        cell = ROWS[0].cell
        assert table.get(cell, "d2") is None
        assert table.is_outdated(cell, "d2")
        assert not table.is_outdated(cell, "d1")
        assert not table.is_outdated(Cell("s", ("never",)), "d2")
        newer = Row(cell, 4, 0.2, "d2", {})
        table.append(newer)
    with open_rows(tmp_path / "rows.jsonl") as table:
        assert (table.get(cell, "d2"), table.get(cell, "d1")) == (newer, ROWS[0])


def test_two_runs_never_share_a_file(tmp_path):
    file = tmp_path / "rows.jsonl"
    with open_rows(file):
        with pytest.raises(ValueError, match=r"run: rows must be a file of this run alone, got .*rows\.jsonl; wait"):
            write(file, ROWS)
        assert not file.exists()
    write(file, ROWS)


@pytest.mark.parametrize("line", [b"no JSON", b"{}", b"[1]", b"\0\0"])
def test_what_no_run_has_written_is_refused_with_its_line_and_left_as_it_is(tmp_path, line):
    file = tmp_path / "rows.jsonl"
    write(file, ROWS)
    text = file.read_bytes().replace(ROWS[1].to_line(), line + b"\n")
    file.write_bytes(text)
    errors = []  # kept, so that the lock is not freed by an object that is
    for _ in range(2):
        with pytest.raises(ValueError, match=r"run: rows must be lines that a run has written, got line 2 of") as error:
            write(file, ROWS)
        errors.append(error)
    assert file.read_bytes() == text
