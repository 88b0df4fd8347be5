"""Remember what was made of a page, each thing under a digest of all that it was made of. Deleting it is safe.

A page's problems, its notebook, its HTML and its entries in the search index are worth remembering: together they take
most of a build's time. What goes into one of them and is not in its key would show a reader what is no longer so; hence
keys are wider than need be, and take in whole folders where a single file would do. With GALLEY_FRESH=1 in the
environment nothing that was made before is used.
"""

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from galley.run.dependencies import digest
from galley.run.result_cache import load, save

ENGINE_AND_EXTENSIONS = Path(__file__).parents[2]  # with the book's own extensions, which lie beside the engine
MOST_BYTES = 150_000_000  # three times what a book makes; what was not used for longest goes first


class ContentCache:
    """A folder of values by key, and in memory those that this process has read or made."""

    def __init__(self, folder: Path, use: bool = True) -> None:
        self.folder = folder
        self.values: dict[str, Any] = {}
        self.use = use and not os.environ.get("GALLEY_FRESH")

    def get(self, key: str):
        """Return what was put under `key`, or None. It is shared: do not change it."""
        if self.use and key not in self.values:
            path = self.folder / f"{key}.json"
            value = load(path)
            if value is not None:
                self.values[key] = value
                # The sweep goes by the time of the last use; another build may have swept the file away meanwhile.
                with contextlib.suppress(OSError):
                    os.utime(path)
        return self.values.get(key)

    def put(self, key: str, value) -> None:
        """Remember `value`, which JSON must be able to hold."""
        self.values[key] = value
        if self.use:
            save(self.folder / f"{key}.json", value)

    def sweep(self) -> None:
        """Make room, and remove what a killed build left half written."""
        files = []
        for path in self.folder.glob("*"):
            # Another build may sweep too, and remove a file between its listing and this look.
            with contextlib.suppress(OSError):
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        total = 0
        # The newest first: what no longer fits behind them was not used for longest.
        for _, size, path in sorted(files, reverse=True):
            total += size
            if total > MOST_BYTES or path.suffix == ".part":
                path.unlink(missing_ok=True)


@functools.cache
def engine_digest() -> str:
    """Return a digest of what goes into everything: this engine and the versions of all that is installed.

    It is that of the modules as they were loaded, so what a running server makes after an edit of the engine goes under
    the engine that made it.
    """
    # A distribution's folder has name and version in its own name: `torch-2.13.0.dist-info`.
    folders = {Path(entry) for entry in sys.path if entry}
    installed = {path.name for folder in folders if folder.is_dir() for path in folder.glob("*.dist-info")}
    return digest(sys.version, *sorted(installed), contents(ENGINE_AND_EXTENSIONS, ENGINE_AND_EXTENSIONS.rglob("*.*")))


def contents(root: Path, paths: Iterable[Path]) -> str:
    """Return a digest of files: their names below `root` and what is in them."""
    # Bytecode is written by any run, and follows from the sources.
    files = sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)
    return digest(*(f"{os.path.relpath(path, root)} {digest_of(path)}" for path in files))


def digest_of(path: Path) -> str:
    """Return a digest of what is in a file, of the names in a folder, or that there is none."""
    try:
        if path.is_dir():
            return digest(*sorted(name for name in os.listdir(path) if name != "__pycache__"))
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return "missing"


def plain(value) -> str:
    """Return JSON in which equal values are written alike."""
    return json.dumps(value, sort_keys=True, default=str)
