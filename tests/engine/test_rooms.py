"""The four rooms of the engine: a page passes them in one direction, and imports run in the other."""

import ast
import re
from graphlib import TopologicalSorter

from galley.show.mkdocs_internals import WRITTEN_FOR
from tests.engine.conftest import ROOT

ENGINE = ROOT / "docs/engine/galley"
ALLOWED = {"read": {"read"}, "run": {"read", "run"}, "check": {"read", "run", "check"}}


def imports(path):
    """Return the modules of the engine that a module names anywhere, at the top or within a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "galley":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if ENGINE.joinpath(*inner.split(".")[1:]).with_suffix(".py").exists() else node.module


MODULES = {
    ".".join(("galley", *path.relative_to(ENGINE).with_suffix("").parts)).removesuffix(".__init__"): {*imports(path)}
    for path in ENGINE.rglob("*.py")
}


def test_each_room_imports_only_those_before_it():
    wrong = []
    for name, imported in MODULES.items():
        folder = name.split(".")[1:2]
        for other in imported if folder and folder[0] in ALLOWED else ():
            if other.split(".")[1] not in ALLOWED[folder[0]]:
                wrong.append(f"{name} imports {other}")
    assert wrong == []


def test_no_import_goes_in_a_circle():
    # A package is run before its modules: that it imports them is no circle.
    packages = {name for name in MODULES if any(other.startswith(f"{name}.") for other in MODULES)}
    arrows = {name: imported - packages for name, imported in MODULES.items() if name not in packages}
    assert [*TopologicalSorter(arrows).static_order()]


def test_what_replaces_private_parts_was_written_for_the_versions_that_are_pinned():
    """Look at show/mkdocs_internals.py, then write the new versions there."""
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M))
    assert {name: pinned[name] for name in WRITTEN_FOR} == WRITTEN_FOR
