"""The data file of a study, which pages read: sections with the numbers of every seed, and how they were measured."""

import json
import os
import re
from pathlib import Path
from typing import Any

from posenc_book.runs.cell import Cell, Study
from posenc_book.runs.provenance import merged
from posenc_book.runs.rows import Row


def default_file(study: Study) -> Path:
    """Return where the data of a study lie: among the pages' data in a checkout, else in the current folder."""
    folder = Path("docs/assets/data")
    return (folder if folder.is_dir() else Path()) / f"{study.name}.json"


def write_complete_sections(file: Path, study: Study, cells: list[Cell], rows: dict[Cell, Row]) -> list[str]:
    """Write the sections all of whose cells have a row, leave the others as they are, and return which were written."""
    data = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    sections = dict.fromkeys(cell.section for cell in cells)
    complete = [name for name in sections if all(cell in rows for cell in cells if cell.section == name)]
    for name in complete:
        section = {cell: rows[cell] for cell in cells if cell.section == name}
        data[name] = study.gather({cell: row.result for cell, row in section.items()})
        data.setdefault("provenance", {})[name] = _provenance(study, section)
    if complete:
        file.parent.mkdir(parents=True, exist_ok=True)
        # A page may read the file at any time: it is replaced as a whole.
        part = file.with_name(f"{file.name}.part")
        part.write_text(_to_text(data), encoding="utf-8")
        os.replace(part, file)
    return complete


def _to_text(data: dict[str, Any]) -> str:
    """Return JSON with a line for each entry, and each list of numbers on one line."""
    text = json.dumps(data, indent=1)
    return re.sub(r"\[[^][{}\"]*\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def _provenance(study: Study, section: dict[Cell, Row]) -> dict[str, Any]:
    seeds = list(dict.fromkeys(cell.seed for cell in section))
    seconds = round(sum(row.seconds for row in section.values()))
    record = merged([row.provenance for row in section.values()])
    return {"seeds": seeds} | record | {"script": f"python -m posenc_book run {study.name}", "seconds": seconds}
