"""What a page's results hang on beside its own code, and whether that is still as it was.

A module counts by its syntax tree, without docstrings and comments ("code"); one that its own package looks through,
with its docstring ("head"); one that is read otherwise, whole ("whole"). Any other file counts letter by letter
("text", or "data" where the package reads a file of its own), a folder by the names in it ("names", or "modules" in
the package), a library by its version ("version"). A "program" that a page starts could import any module. What these
are, `opened_files` notes.
"""

import ast
import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DOCSTRINGS = re.compile(r"__doc__|\b(?:getdoc|pydoc)\b")

# Python 3.11 raises SystemError where two threads parse at once (python/cpython#106905), as while a site is served.
_PARSING = threading.Lock()
ENGINE_FOLDER = str(Path(__file__).parents[1])  # whose modules count as code too, where a page imports one
Need = list[str]  # its kind, the file's name from the project's root, its digest, and for a module that of its text


class Files:
    """The files of a project as they are now; each is read once, until it changes."""

    def __init__(self, root: Path, sources: list[Path]) -> None:
        self.root, self.sources = root, sources
        self.digests: dict[tuple, str] = {}

    def needs(self, traces: Iterable[list], code: str) -> list[Need] | None:
        """Return what a page with this code needs, by the `traces` of its run; None if a file changed meanwhile."""
        notes: dict[tuple[str, str], None] = {}
        for kind, path, *stamp in traces:
            # A file that is no longer as it was when the page opened it: the result belongs to neither state.
            if stamp and stamp != stamp_of(path):
                return None
            notes[kind, path if kind in ("version", "program") else self._name(Path(path))] = None
        imported = [self._text(name) for kind, name in notes if kind == "code"]
        # Who looks at a docstring opens no file, so the code tells: then the texts of the modules count.
        if any(DOCSTRINGS.search(text) for text in (code, *imported)):
            notes = {("whole" if kind in ("code", "head") else kind, name): None for kind, name in notes}
        # What a program imports is not seen from here, so it may be any module. (A note has the value None.)
        if notes.pop(("program", ""), "") is None:
            modules = (file for source in self.sources for file in sorted(source.rglob("*.py")))
            notes |= {("code", self._name(file)): None for file in modules}
        return [[kind, name, self.digest(kind, name), self.digest("whole", name)] for kind, name in notes]

    def hold(self, needs: list[Need]) -> bool:
        """Whether all that was needed is as it was."""
        return all(self._holds(*need) for need in needs)

    def _holds(self, kind: str, name: str, was: str, whole: str) -> bool:
        """Whether one file, folder or library is as it was."""
        # A module whose text is the same need not be parsed.
        if kind in ("code", "head") and self.digest("whole", name) == whole:
            return True
        return self.digest(kind, name) == was

    def digest(self, kind: str, name: str) -> str:
        """Return a digest of what counts of a file, a folder or a library; "" where it is missing."""
        # Time and size are part of the key, so that an edit while a server runs is noticed.
        state = (kind, name, *stamp_of(self.root / name))
        if state not in self.digests:
            try:
                self.digests[state] = self._digest(kind, name)
            except OSError:
                self.digests[state] = ""
        return self.digests[state]

    def _digest(self, kind: str, name: str) -> str:
        if kind == "version":
            return _version(name)
        path = self.root / name
        if kind in ("names", "modules"):
            # Hidden files are of editors and tools, and `__pycache__` appears by itself.
            return digest(*sorted(entry.name for entry in path.iterdir() if not entry.name.startswith((".", "__py"))))
        if kind in ("code", "head"):
            return code_digest(self._text(name), with_head=kind == "head")
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]

    def _text(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self.root / name).read_text(encoding="utf-8", errors="replace")
        return ""

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()


def code_digest(text: str, with_head: bool = False) -> str:
    """Return a digest of what a module does; `with_head`, of its own docstring too."""
    try:
        with _PARSING:
            tree = ast.parse(text)
    # Python before 3.12 raises ValueError for a text with null bytes.
    except (SyntaxError, ValueError):
        return digest(text)
    head = ast.get_docstring(tree, clean=False) if with_head else ""
    # A dump has no line numbers, so blank lines and comments change nothing.
    return digest(head or "", ast.dump(_WithoutDocstrings().visit(tree)))


class _WithoutDocstrings(ast.NodeTransformer):
    """Takes the texts that stand alone out of a tree: docstrings, and what is like them."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def stamp_of(path: str | Path) -> list[int]:
    """Return time and size of a file, by which a change is noticed; nothing of one that is missing."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return [status.st_mtime_ns, status.st_size]
    return []


def _version(name: str) -> str:
    with contextlib.suppress(PackageNotFoundError):
        return version(name)
    return ""


def digest(*parts: str) -> str:
    """Return a short name for some text."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
