"""Keep what pages gave, one file for each page and state of what it needs. Deleting the folder is safe."""

import contextlib
import json
import os
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from galley.run import pool, processor
from galley.run.dependencies import Files, Need, digest

VERSIONS = ("torch", "numpy", "matplotlib")
FOLDER = Path(__file__).parent
RUNNING_FILES = (
    "worker.py",
    "opened_files.py",
    "figure.py",
    "narrow_figure.py",
    "narrow_labels.py",
    "smaller_svg.py",
    "house.mplstyle",
    "formula_bindings.py",
    "formula_values.py",
)
# The files of the engine that can change what a page gives: an edit of one runs every page again.
RUNNING_CODE = [
    *(FOLDER / name for name in RUNNING_FILES),
    *(FOLDER.parent / "read" / name for name in ("formula.py", "tex.py")),
]
UNUSED_FOR = 30 * 24 * 3600.0  # seconds after its last use before an entry is swept away
HALF_WRITTEN_FOR = 3600.0  # seconds after which no build can still be writing a file


class ResultCache:
    """A folder of JSON files, each with a checksum, written whole or not at all.

    Two builds may write at once: both write the same bytes. A damaged file counts as absent.
    """

    def __init__(self, folder: Path, files: Files) -> None:
        self.folder, self.files = folder, files
        self.environment = environment_digest()

    def key(self, steps: list[dict]) -> str:
        """Return the name of what `steps` give: their code and options, whatever line they stand on."""
        # Neither the line nor the time limit changes what a block gives, so prose may move it.
        code = [{name: step[name] for name in ("kind", "lang", "code", "options")} for step in steps]
        return digest(self.environment, json.dumps(code, sort_keys=True))

    def get(self, key: str) -> dict | None:
        """Return what was put under `key` while all that it needs was as it is now, or None."""
        # There is an entry for each state of the needed files: an edit that is taken back finds its own again.
        for path in sorted(self.folder.glob(f"{key}-*.json")):
            entry = load(path)
            if entry is not None and self.files.hold(entry["needs"]):
                # The sweep goes by the time of the last use.
                os.utime(path)
                return entry
        return None

    def put(self, key: str, needs: list[Need], entry: dict) -> None:
        """Store `entry` under `key`, for as long as `needs` hold."""
        save(self.path(key, needs), entry | {"needs": needs})

    def path(self, key: str, needs: list[Need]) -> Path:
        """Return the file of an entry."""
        return self.folder / f"{key}-{digest(json.dumps(needs))[:8]}.json"

    def sweep(self) -> None:
        """Remove what has not been used for long, and what a killed build left half written."""
        now = time.time()
        for path in self.folder.glob("*"):
            age = HALF_WRITTEN_FOR if path.suffix == ".part" else UNUSED_FOR
            # Another build may sweep at the same time.
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < now - age:
                    path.unlink()


def environment_digest() -> str:
    """Return a digest of what can change the results of every page: engine, versions and processor."""
    parts = [sys.version, processor.description(), str(pool.PINNED)]
    for name in VERSIONS:
        with contextlib.suppress(PackageNotFoundError):
            parts.append(f"{name}={version(name)}")
    return digest(*parts, *(path.read_text(encoding="utf-8") for path in RUNNING_CODE))


def load(path: Path):
    """Return what was saved in a file, or None if it is damaged or missing."""
    with contextlib.suppress(OSError, ValueError):
        checksum, _, body = path.read_text(encoding="utf-8").partition("\n")
        if checksum == digest(body):
            return json.loads(body)
    return None


def save(path: Path, value) -> None:
    """Write a value with a checksum, aside and moved into place; without a memory all is done again."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        body = json.dumps(value)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as part:
            part.write(f"{digest(body)}\n{body}")
        # To move a file within its folder is one step, so that nobody reads half of it.
        os.replace(part.name, path)
