"""Keep what pages gave, one file a page, named by everything that could change it. Deleting the folder is safe."""

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VERSIONS = ("torch", "numpy", "matplotlib")
ENGINE = [Path(__file__).with_name(name) for name in ("worker.py", "figure.py", "house.mplstyle")]  # what runs pages
KEPT = 30 * 24 * 3600.0  # seconds after its last use before an entry is swept away


class Store:
    """A folder of JSON files, each with a checksum, written whole or not at all.

    Two builds may write at once: both write the same bytes. A damaged file counts as absent.
    """

    def __init__(self, folder: Path, sources: list[Path]) -> None:
        self.folder = folder
        self.environment = environment_digest(sources)

    def key(self, steps: list[dict]) -> str:
        """Return the name of what `steps` give: their code and options, whatever line they stand on."""
        code = [{name: step[name] for name in ("kind", "lang", "options")} | _normal(step["code"]) for step in steps]
        return digest(self.environment, json.dumps(code, sort_keys=True))

    def get(self, key: str):
        """Return what was put under `key`, or None."""
        path = self.folder / f"{key}.json"
        entry = load(path)
        if entry is not None:
            os.utime(path)
        return entry

    def put(self, key: str, value) -> None:
        """Store `value` under `key`."""
        save(self.folder / f"{key}.json", value)

    def sweep(self) -> None:
        """Remove what has not been used for long, and what a killed build left half written."""
        limit = time.time() - KEPT
        for path in self.folder.glob("*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < (time.time() - 3600 if path.suffix == ".part" else limit):
                    path.unlink()


def _normal(code: str) -> dict[str, str]:
    """Return the code as Markdown hands it on: tabs expanded, blank lines empty."""
    return {"code": re.sub(r"(?m)^ +$", "", code.expandtabs(4))}


def environment_digest(sources: list[Path]) -> str:
    """Return a digest of everything but the page that can change its results: sources, engine, versions."""
    parts = [sys.version]
    for name in VERSIONS:
        with contextlib.suppress(PackageNotFoundError):
            parts.append(f"{name}={version(name)}")
    for root in sources:
        for path in sorted(root.rglob("*.py")):
            parts += [path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")]
    return digest(*parts, *(path.read_text(encoding="utf-8") for path in ENGINE))


def digest(*parts: str) -> str:
    """Return a short name for some text."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


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
        os.replace(part.name, path)
