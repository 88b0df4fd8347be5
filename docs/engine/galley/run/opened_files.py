"""Note what a page reads while it runs: the modules it imports, the files and folders it opens, the programs it starts.

From these notes `dependencies` says whether a result still stands. Pages are the project's own: nothing is forbidden
to them.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from importlib.util import source_from_cache
from types import FrameType

from galley.run.dependencies import ENGINE_FOLDER, stamp_of

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)(?:\.py$|[/\\]|-[^/\\]*\.dist-info[/\\]METADATA$)")
COMPILER = os.path.join("torch", "_dynamo")  # looks up names and lines of the functions that it compiles


class OpenedFiles:
    """An audit hook. What it notes goes to a file that forked children share."""

    def __init__(self, job: dict) -> None:
        self.root, self.sources, self.filename = job["root"], tuple(job["sources"]), job["filename"]
        self.scratch = os.path.realpath(job["scratch"])
        self.seen: set[tuple[str, str]] = set()
        self.notes = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  it lives as long as the process
        self.listeners: dict[str, Callable] = {"open": self._open, "os.listdir": self._list, "os.scandir": self._list}
        programs = ("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen")
        self.listeners |= dict.fromkeys(programs, self._program)

    def __call__(self, event: str, arguments: tuple) -> None:
        """Note what is about to happen."""
        if listener := self.listeners.get(event):
            listener(*arguments)

    def traces(self) -> list[list]:
        """Return the notes in order: a kind that `dependencies` knows, a path, and time and size of the file."""
        self.notes.seek(0)
        return [json.loads(line) for line in self.notes.read().splitlines()]

    def _open(self, path, mode: str | None, flags: int) -> None:
        caller = _caller()
        # shutil opens a folder that it is about to remove, by a name from within another
        removes = mode is None and caller.f_code.co_filename.endswith("shutil.py")
        if isinstance(path, int) or flags & WRITING or removes:
            return
        path = os.path.abspath(os.fsdecode(path))
        if "-packages" in path:
            if installed := INSTALLED.search(path):
                self._note("version", installed[1])
        elif _is_import(caller):
            path = source_from_cache(path) if path.endswith(".pyc") else path
            if self._is_of_project(path) or path.startswith(ENGINE_FOLDER):
                self._note("code", path)
        elif self._is_of_project(path) and (kind := self._kind(path, caller)):
            self._note(kind, path)

    def _list(self, path=None) -> None:
        caller = _caller()
        if isinstance(path, int) or _is_import(caller) or f"importlib{os.sep}" in caller.f_code.co_filename:
            return
        path = os.path.abspath(os.fsdecode(path or "."))
        if self._is_of_project(path) and "-packages" not in path:
            self._note("modules" if self._is_source(path) else "names", path)

    def _program(self, program, arguments=(), *_rest) -> None:
        self._note("program", "")
        for argument in (program, *arguments) if isinstance(arguments, list | tuple) else ():
            path = os.path.abspath(argument) if isinstance(argument, str) else ""
            if os.path.isfile(path) and self._is_of_project(path):
                self._note("text", path)

    def _is_of_project(self, path: str) -> bool:
        """Whether a path lies in the project; hidden folders and an environment lie beside it."""
        beside = path.startswith((self.root + os.sep + ".", sys.prefix + os.sep, self.scratch))
        return not beside and (path + os.sep).startswith(self.root + os.sep)

    def _is_source(self, path: str) -> bool:
        return f"{path}{os.sep}".startswith(tuple(f"{source}{os.sep}" for source in self.sources))

    def _kind(self, path: str, frame: FrameType | None) -> str:
        """Return how a file is read: by its own package, which looks through its modules or reads its data, or not."""
        while frame and frame.f_code.co_filename != self.filename and not self._is_source(frame.f_code.co_filename):
            if COMPILER in frame.f_code.co_filename:
                return ""
            frame = frame.f_back
        reader = frame.f_code.co_filename if frame else ""
        if not path.endswith(".py"):
            return "data" if self._is_source(path) and self._is_source(reader) else "text"
        if not self._is_source(path):
            return "text"
        return "head" if os.path.basename(reader) == "__init__.py" else "whole"

    def _note(self, kind: str, path: str) -> None:
        if (kind, path) not in self.seen:
            self.seen.add((kind, path))
            stamp = stamp_of(path) if kind in ("code", "head", "whole", "text", "data") else []
            os.write(self.notes.fileno(), f"{json.dumps([kind, path, *stamp])}\n".encode())


def _caller() -> FrameType:
    """Return the frame that does what the hook looks at."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back:
        frame = frame.f_back
    return frame


def _is_import(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib")
