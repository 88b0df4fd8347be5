"""The file of results: a line of JSON for each finished cell, so that a run can be killed and goes on where it was."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from posenc_book.runs.cell import Cell


@dataclass(frozen=True)
class Row:
    """A cell that is finished: its result, how long it took, and with what it was measured.

    `digest` tells apart results of other code, another torch, another text or other weights.
    """

    cell: Cell
    result: Any
    seconds: float
    digest: str
    provenance: dict[str, Any]

    def to_line(self) -> bytes:
        """Return the row as a line of JSON."""
        return json.dumps(asdict(self) | {"cell": self.cell.to_json()}).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> "Row":
        """Return the row that `to_line` has written."""
        fields = json.loads(line)
        return cls(**fields | {"cell": Cell.from_json(fields["cell"])})


class Rows:
    """The rows of a file, which nobody else writes while it is open; see `open_rows`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._rows: dict[Cell, dict[str, Row]] = {}  # by cell and digest
        for number, line in enumerate(_complete_lines(file), start=1):
            try:
                self._keep(Row.from_line(line))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"run: rows must be lines that a run has written, got line {number} of {file}; remove the line, "
                    "or name another file with --rows"
                ) from error

    def _keep(self, row: Row) -> None:
        self._rows.setdefault(row.cell, {})[row.digest] = row

    def get(self, cell: Cell, digest: str) -> Row | None:
        """Return the row of a cell that was measured with the same code and inputs, or None."""
        return self._rows.get(cell, {}).get(digest)

    def is_outdated(self, cell: Cell, digest: str) -> bool:
        """Return whether the cell was measured, but only with other code or inputs."""
        return cell in self._rows and digest not in self._rows[cell]

    def append(self, row: Row) -> None:
        """Write a row to the end of the file, and return when it is on the disk."""
        with self.file.open("ab") as file:
            # One write of a whole line: what a kill leaves of it has no end of line, and is cut off by the next run.
            file.write(row.to_line())
            file.flush()
            os.fsync(file.fileno())
        self._keep(row)


@contextmanager
def open_rows(file: Path) -> Iterator[Rows]:
    """Open a file of rows for one run alone.

    Raises:
        ValueError: If another run has it open, or if it holds something else.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{file}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(
            f"run: rows must be a file of this run alone, got {file}; wait for the run that writes it, or name another "
            "with --rows"
        ) from error
    try:
        yield Rows(file)
    finally:
        lock.release()


def _complete_lines(file: Path) -> list[bytes]:
    """Return the lines of a file, after cutting off a last one that was not written to its end."""
    if not file.exists():
        return []
    text = file.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    if len(complete) < len(text):
        os.truncate(file, len(complete))
    return complete.splitlines()
