"""With what a cell was measured: the digest of code and inputs, versions, commit and machine."""

import ast
import hashlib
import importlib.util
import json
import platform
import subprocess
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from posenc_book.runs.cell import Cell, Study
from posenc_book.runs.hardware import machine

TORCH = torch.__version__.partition("+")[0]  # the builds for CPU and GPU are one version


def digest(study: Study, cell: Cell, code: str) -> str:
    """Return a digest of all that the result of a cell depends on: `code`, the version of torch, text or weights."""
    parts = [study.name, TORCH, code, study.provenance(cell)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def code_digest(sources: Iterable[str]) -> str:
    """Return a digest of the Python files of modules; of a package those of all that is in it."""
    code = hashlib.sha256()
    for name in sources:
        for path in _files(name):
            code.update(f"{name} {path.name}\n{_without_words(path)}".encode())
    return code.hexdigest()


def _without_words(path: Path) -> str:
    """Return the code of a file without comments, docstrings and line breaks, which no result depends on."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def _files(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ValueError(f"run: sources must be modules that can be imported, got {name}")
    file = Path(spec.origin)
    return sorted(file.parent.rglob("*.py")) if spec.submodule_search_locations else [file]


def environment(study: Study) -> dict[str, Any]:
    """Return versions, commit and machine of this process, as they stand in the data file."""
    return {
        "python": platform.python_version(),
        "torch": TORCH,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "versions": {"posenc": _version("posenc"), "numpy": np.__version__},
        "commit": _commit(),
        "machine": machine(study.gpu),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that this file is tracked in, None of an installed package."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        # An environment may lie inside the checkout of something else, which does not track it.
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip()


def merged(records: list[Any]) -> Any:
    """Return one record of many: dictionaries are united, and different values of one entry stand side by side.

    Examples:
        >>> merged([{"torch": "2.13.0", "text": {"a": 1}}, {"torch": "2.14.0", "text": {"b": 2}}])
        {'torch': '2.13.0, 2.14.0', 'text': {'a': 1, 'b': 2}}
    """
    if all(isinstance(record, dict) for record in records):
        names = dict.fromkeys(name for record in records for name in record)
        return {name: merged([record[name] for record in records if name in record]) for name in names}
    different = [record for n, record in enumerate(records) if record not in records[:n]]
    return different[0] if len(different) == 1 else ", ".join(map(str, different))
