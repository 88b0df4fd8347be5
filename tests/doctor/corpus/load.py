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

from tests.doctor.corpus import Bug, Implementation, Package

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".world"
AS_HERE = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}  # else what is built from source brings a torch of its own


def folder(package: Package) -> Path:
    return FOLDER / f"{package.name}-{package.version}"


def fetch(package: Package) -> None:
    """Install a package alone, without what it depends on, where it is not there yet."""
    if not folder(package).exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        asked = f"{package.name}=={package.version}"
        command += ["--target", str(folder(package)), asked]
        subprocess.run(command, env=os.environ | AS_HERE, check=True)


def prepare(package: Package, packages: dict[str, Package]) -> None:
    """Make the modules of a package importable in this process."""
    for one in (*(packages[name] for name in package.needs), package):
        fetch(one)
        sys.path.insert(0, str(folder(one)))
    for one in (*(packages[name] for name in package.needs), package):
        for name in one.stubs:
            sys.modules.setdefault(name, MagicMock(name=name))
        for name in one.bare:
            _skip_the_start_of(name)


def _skip_the_start_of(name: str) -> None:
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
        source = Path(spec.origin).read_text(encoding="utf-8")
        if bug is not None:
            times = source.count(bug.old)
            if times != 1:
                raise ValueError(f"load: old must be there once, got {bug.old!r} {times} times in {name}")
            source = source.replace(bug.old, bug.new)
        made = importlib.util.module_from_spec(spec)
        before = sys.modules.get(name)
        sys.modules[name] = made
        try:
            exec(compile(source, spec.origin, "exec"), made.__dict__)
        finally:
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before
        if before is None and bug is None:
            sys.modules[name] = made
        return made


def made(implementation: Implementation, bug: Bug | None = None, glued: bool = False) -> Any:
    """Return what the user hands in, or what is wrapped by glue."""
    found = module(implementation.module, bug)
    names = dict(found.__dict__)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if glued:
            exec(implementation.glue, names)
            return names["wrapped"]
        return eval(implementation.make, names)
