"""The command `python -m posenc_book run STUDY`, and the same as a function."""

import argparse
import inspect
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from posenc_book.runs.cell import STUDIES, Cell, Study, find_study
from posenc_book.runs.data_file import default_file, write_complete_sections
from posenc_book.runs.engines import Failure, Outcome, Task, import_ray, in_processes, on_ray
from posenc_book.runs.hardware import default_workers
from posenc_book.runs.provenance import code_digest, digest
from posenc_book.runs.rows import Row, Rows, open_rows

ENGINES = ("processes", "ray")
Engine = Callable[[list[Task]], Generator[Outcome]]
DESCRIPTION = """Measure what the book's pages show, and write the data file that they read.

Each finished cell is kept in a file of rows: after a kill, the same command goes on where the last one stopped. A cell
that fails does not stop the others; it is listed at the end, and the exit status is 1.
"""


def add_command(commands: Any) -> None:
    """Add `run` to the subcommands of a parser."""
    form = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser(
        "run", help="measure what the pages show", description=DESCRIPTION, formatter_class=form
    )
    parser.add_argument("study", help=f"{', '.join(STUDIES)}, or a module that binds STUDY")
    parser.add_argument("--list", action="store_true", help="print the cells, and measure none")
    parser.add_argument("--only", nargs="+", metavar="SECTION", help="sections to measure; by default all")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help="by default those of the study")
    parser.add_argument("--engine", choices=ENGINES, default="processes", help="this machine, or a cluster of Ray")
    parser.add_argument(
        "--workers", type=int, help="cells at a time; by default one a core, or one a GPU if it is used"
    )
    parser.add_argument("--address", help="of a running Ray cluster; without it Ray starts one on this machine")
    parser.add_argument("--rows", type=Path, help="file of finished cells; by default .cache/posenc-runs/STUDY.jsonl")
    parser.add_argument("--out", type=Path, help="data file; by default that of the pages, else ./STUDY.json")
    parser.set_defaults(perform=_perform)


def _perform(arguments: argparse.Namespace) -> int:
    options = vars(arguments)
    if arguments.list:
        for cell in cells_of(find_study(arguments.study), arguments.only, arguments.seeds):
            print(cell)
        return 0
    try:
        return run(**{name: options[name] for name in inspect.signature(run).parameters})
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130  # as of a shell's command that Ctrl-C has ended


def run(
    study: str,
    only: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    engine: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    rows: Path | None = None,
    out: Path | None = None,
) -> int:
    """Measure the cells of a study that have no row yet, then write the sections that are complete.

    Args:
        study: Name of a study, or of a module that binds STUDY.
        only: Sections to measure; by default all.
        seeds: Seeds to measure; by default those of the study.
        engine: "processes" on this machine, or "ray".
        workers: Cells at a time; by default one a core, one a GPU for a study that uses it, on Ray all it has room for.
        address: Of a running Ray cluster.
        rows: File of finished cells.
        out: Data file.

    Returns:
        The exit status: 0, or 1 if a cell has failed.

    Raises:
        ValueError: If an argument does not fit, or if another run writes the same rows.

    Examples:
        >>> run("labs", only=["extension"], seeds=[0])  # doctest: +SKIP
        0
        >>> run("labs", only=["extensions"])
        Traceback (most recent call last):
        ValueError: run: only must be among capability, language, extension, got extensions
    """
    plan = find_study(study)
    cells = cells_of(plan, only, seeds)
    measure = _engine(plan, engine, workers, address)
    code = code_digest(plan.sources)
    tasks = [Task(study, cell, digest(plan, cell, code)) for cell in cells]
    with open_rows(rows or Path(".cache/posenc-runs") / f"{plan.name}.jsonl") as table:
        failures = _measure_missing(tasks, table, measure)
        finished = {cell: row for _, cell, expected in tasks if (row := table.get(cell, expected))}
    file = out or default_file(plan)
    written = write_complete_sections(file, plan, cells, finished)
    _report(file, written, cells, finished, failures)
    return 1 if failures else 0


def cells_of(study: Study, only: Sequence[str] | None, seeds: Sequence[int] | None) -> list[Cell]:
    """Return the cells of the sections and seeds that are asked for, the first seed's first.

    Raises:
        ValueError: If a section does not exist.
    """
    once = study.cells()
    sections = dict.fromkeys(cell.section for cell in once)
    for name in only or ():
        if name not in sections:
            raise ValueError(f"run: only must be among {', '.join(sections)}, got {name}")
    chosen = [cell for cell in once if cell.section in (only or sections)]
    return [replace(cell, seed=seed) for seed in dict.fromkeys(seeds or study.seeds) for cell in chosen]


def _engine(study: Study, engine: str, workers: int | None, address: str | None) -> Engine:
    """Return the engine as a function of tasks alone."""
    if engine not in ENGINES:
        raise ValueError(f"run: engine must be among {', '.join(ENGINES)}, got {engine}")
    if workers is not None and workers < 1:
        raise ValueError(f"run: workers must be at least 1, got {workers}")
    if engine == "ray":
        return partial(on_ray, ray=import_ray(), workers=workers, address=address, gpu=study.gpu)
    if address is not None:
        raise ValueError(f"run: address must be None without --engine ray, got {address}")
    return partial(in_processes, workers=workers or default_workers(study.gpu))


def _measure_missing(tasks: list[Task], table: Rows, measure: Engine) -> list[Failure]:
    """Measure the tasks without a row, keep a row of each that succeeds, and return those that failed."""
    missing = [task for task in tasks if not table.get(task.cell, task.digest)]
    if not missing:
        return []
    failures = []
    # The engine is closed here whatever happens, so that no process of it goes on.
    outcomes = closing(measure(missing))
    with outcomes as stream, tqdm(total=len(tasks), initial=len(tasks) - len(missing), unit="cell") as bar:
        outdated = sum(table.is_outdated(task.cell, task.digest) for task in missing)
        if outdated:
            bar.write(f"measured again, since code, torch or inputs have changed: {outdated} cells", file=sys.stderr)
        for outcome in stream:
            if isinstance(outcome, Row):
                table.append(outcome)
                bar.set_postfix_str(str(outcome.cell), refresh=False)
                bar.update()
            else:
                failures.append(outcome)
                bar.write(f"{outcome.cell} failed\n{outcome.traceback}", file=sys.stderr)
    return failures


def _report(
    file: Path, written: list[str], cells: list[Cell], finished: dict[Cell, Row], failures: list[Failure]
) -> None:
    """Say which sections were written, which were not, and which cells failed."""
    if written:
        print(f"wrote {', '.join(written)} to {file}")
    for name in dict.fromkeys(cell.section for cell in cells if cell.section not in written):
        section = [cell for cell in cells if cell.section == name]
        print(f"left out {name}: {sum(cell in finished for cell in section)} of its {len(section)} cells have a result")
    for failure in failures:
        print(f"failed: {failure.cell}: {failure.reason}", file=sys.stderr)
