"""A copy of the project that a test may write to, as a contributor would."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

import posenc

ROOT = Path(__file__).parents[2]
KEPT = {"sinusoidal", "alibi", "rope", "t5"}  # the gallery's first; others are drawn in vain
LEFT_OUT = (".git", ".venv", ".galley", ".node", "site", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def copied(folder: Path, kept: Collection[str] = KEPT) -> Path:
    """Copy the project into `folder`, with commands in .venv/bin that run what this test runs on.

    Of the encodings it has those whose names are `kept`.
    """
    copy = folder / "posenc"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    for encoding in posenc.encodings().values():
        if encoding.name not in kept:
            (copy / "posenc" / encoding.door / f"{encoding.name}.py").unlink()
    bin_ = copy / ".venv" / "bin"
    bin_.mkdir(parents=True)
    for command in ("python", "ruff"):
        script = bin_ / command
        script.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).parent / command}" "$@"\n')
        script.chmod(0o755)
    (copy / ".venv" / "ready").touch()  # or make would install
    if (ROOT / ".node" / "ready").exists():
        (copy / ".node").mkdir()
        (copy / ".node" / "node_modules").symlink_to((ROOT / ".node" / "node_modules").resolve())
        (copy / ".node" / "ready").touch()
    runner(copy)(".venv/bin/python -m dev.names")
    return copy


def runner(copy: Path) -> Callable[..., str]:
    """Return what runs a line of a shell in the copy, whose modules come before those that are installed."""
    paths = os.pathsep.join(map(str, (copy, copy / "docs" / "engine", copy / "docs" / "book")))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}

    def _run(line: str, fails: bool = False) -> str:
        done = subprocess.run(
            line, shell=True, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        output = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, f"{line} ends with {done.returncode}:\n{output}"
        return output

    return _run


@pytest.fixture(scope="module")
def run(copy) -> Callable[..., str]:
    return runner(copy)


@pytest.fixture(scope="module")
def whole_copy(tmp_path_factory) -> Path:
    """Return a copy with all encodings: a plan, which the doctor reads too, may be of any."""
    names = {encoding.name for encoding in posenc.encodings().values()}
    return copied(tmp_path_factory.mktemp("whole"), names)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    return copied(tmp_path_factory.mktemp("copy"))
