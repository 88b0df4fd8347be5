"""The most used files, copied out of the package as a user copies them, and imported where posenc is not."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ["RoPE", "ALiBi", "T5", "Sinusoidal", "Learned", "PoPE", "yarn", "from_config", "MRoPE", "Shaw", "Axial"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """An empty folder into which the command line has copied the files of NAMES."""
    folder = tmp_path_factory.mktemp("project")
    subprocess.run([sys.executable, "-m", "posenc", "copy", *NAMES, "-o", str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(autouse=True)
def _without_posenc(monkeypatch) -> None:
    """Let `import posenc` fail."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "posenc"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "posenc", None)


@pytest.fixture
def copied(folder: Path, _without_posenc: None, monkeypatch) -> Iterator[Callable[[str], Any]]:
    """Return what is called so in the copied files, as `from rope import RoPE` would: copied("RoPE")."""
    monkeypatch.syspath_prepend(folder)
    modules = {path.stem: importlib.import_module(path.stem) for path in sorted(folder.glob("*.py"))}
    public = {name: value for module in modules.values() for name, value in vars(module).items() if name[0] != "_"}
    offered = {name: value for name, value in public.items() if getattr(value, "__module__", "") in modules}
    yield offered.__getitem__
    for name in modules:
        del sys.modules[name]
