"""A study whose cells note each time that they are measured, and of which some fail: what a runner has to bear."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

from posenc_book.runs import Cell, Study

NUMBERS = ("1", "2", "3", "4")


def folder() -> Path:
    return Path(os.environ["TOY_FOLDER"])


def measured_times() -> Counter[str]:
    """Return how often each cell was measured, whatever became of it."""
    notes = folder() / "notes"
    return Counter(notes.read_text().splitlines() if notes.exists() else ())


def measure(cell: Cell) -> dict[str, float]:
    with (folder() / "notes").open("a") as notes:
        notes.write(f"{cell}\n")
    name = cell.keys[-1]
    if name == "raises":
        raise ZeroDivisionError("on purpose\nin two lines")
    if name == "exits":
        raise SystemExit("on purpose")
    if name == "killed" or (name == "killed once" and measured_times()[str(cell)] == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    while name == "waits" and not (folder() / "go").exists():
        time.sleep(0.01)
    return {"square": float(name) ** 2 + cell.seed if name in NUMBERS else 0.0}


def provenance(cell: Cell) -> dict[str, str]:
    text = folder() / "input"
    return {"input": text.read_text() if text.exists() else "none"}


SECTIONS = {
    "numbers": NUMBERS,
    "raising": ("1", "raises", "exits", "2"),
    "dying": ("1", "killed once", "2", "3", "4"),
    "dead": ("1", "killed", "2"),
    "waiting": ("1", "waits", "2"),
}
STUDY = Study(
    name="toy",
    description="Squares.",
    cells=lambda: [Cell(section, ("of", name)) for section, names in SECTIONS.items() for name in names],
    measure=measure,
    provenance=provenance,
    sources=("tests.book.runs.toy",),
    seeds=(0, 1),
)
