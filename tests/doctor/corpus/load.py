"""Fetch packages, and import a module of one from its source, with a bug planted or not."""

import importlib
import importlib.util
import os
import subprocess
import sys
import warnings
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from tests.doctor.corpus import PACKAGES, ROOT, Bug, Implementation, Package

FOLDER = ROOT / ".world"


def folder(package: Package) -> Path:
    return FOLDER / f"{package.name}-{package.version}"


def fetch(package: Package) -> None:
    """Install a package alone, without what it depends on, where it is not there yet."""
    if folder(package).exists():
        return
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--target", str(folder(package)), f"{package.name}=={package.version}"]
    subprocess.run(command, env=os.environ | {"PIP_CONSTRAINT": str(_constraint())}, check=True)


def _constraint() -> Path:
    """Return a file that holds torch at the tested version, else a package built from source brings one of its own.

    The other tested versions must not hold: the corpus has releases of some of these packages that are years older.
    """
    tested = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    path = FOLDER / "torch-constraint.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(line for line in tested if line.startswith("torch==")) + "\n", encoding="utf-8")
    return path


def prepare(package: Package) -> None:
    """Make the modules of a package importable in this process."""
    packages = [*(PACKAGES[name] for name in package.needs), package]
    for needed in packages:
        fetch(needed)
        sys.path.insert(0, str(folder(needed)))
    for needed in packages:
        for name in needed.stubs:
            sys.modules.setdefault(name, MagicMock(name=name))
        for name in needed.bare:
            _skip_the_start_of(name)


def _skip_the_start_of(name: str) -> None:
    """Put an empty package in place of one, so that its modules are found and its `__init__.py` is not run."""
    place = next(Path(root, *name.split(".")) for root in sys.path if Path(root, *name.split(".")).is_dir())
    stand_in = ModuleType(name)
    stand_in.__spec__ = ModuleSpec(name, None, is_package=True)
    stand_in.__path__ = [str(place)]
    sys.modules[name] = stand_in


def module(name: str, bug: Bug | None = None) -> ModuleType:
    """Return a fresh copy of a module; with a bug its source is changed at the one place that the bug names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec = importlib.util.find_spec(name)
        source = _source(spec, bug)
        fresh = importlib.util.module_from_spec(spec)
        before = sys.modules.get(name)
        sys.modules[name] = fresh  # what runs below may look for itself, as dataclasses do
        try:
            exec(compile(source, spec.origin, "exec"), fresh.__dict__)
        finally:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
        if before is None and bug is None:
            sys.modules[name] = fresh
        return fresh


def _source(spec: ModuleSpec, bug: Bug | None) -> str:
    source = Path(spec.origin).read_text(encoding="utf-8")
    if bug is None:
        return source
    times = source.count(bug.old)
    if times != 1:
        raise ValueError(f"load: old must be there once, got {bug.old!r} {times} times in {spec.name}")
    return source.replace(bug.old, bug.new)


def build(implementation: Implementation, bug: Bug | None = None, glued: bool = False) -> Any:
    """Return what the user hands in, or what is wrapped by glue."""
    names = dict(module(implementation.module, bug).__dict__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if glued:
            exec(implementation.glue, names)
            return names["wrapped"]
        return eval(implementation.make, names)
