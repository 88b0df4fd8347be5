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
        self.root, self.filename = job["root"], job["filename"]
        self.sources = tuple(job["sources"])
        self.scratch = os.path.realpath(job["scratch"])
        self.noted: set[tuple[str, str]] = set()
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
        # shutil opens a folder that it is about to remove, by a name from within another.
        removes = mode is None and caller.f_code.co_filename.endswith("shutil.py")
        # A number is a file that was opened before; what is written is no input.
        if isinstance(path, int) or flags & WRITING or removes:
            return
        path = os.path.abspath(os.fsdecode(path))
        if "-packages" in path:
            # An installed library changes with its version alone.
            if installed := INSTALLED.search(path):
                self._note("version", installed[1])
        elif _is_import(caller):
            # Python opens the bytecode of a module that it has compiled before: its source is what counts.
            path = source_from_cache(path) if path.endswith(".pyc") else path
            if self._is_of_project(path) or path.startswith(ENGINE_FOLDER):
                self._note("code", path)
        elif self._is_of_project(path):
            kind = self._kind(path, caller)
            if kind:
                self._note(kind, path)

    def _list(self, path=None) -> None:
        caller = _caller()
        # An import lists each folder of its path, and depends only on the module that it finds there.
        if isinstance(path, int) or _is_import(caller) or f"importlib{os.sep}" in caller.f_code.co_filename:
            return
        path = os.path.abspath(os.fsdecode(path or "."))
        if self._is_of_project(path) and "-packages" not in path:
            self._note("modules" if self._is_source(path) else "names", path)

    def _program(self, program, arguments=(), *_rest) -> None:
        # Which modules it imports is not seen from here; a file of the project among its arguments is noted.
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
        # The innermost frame of the page or of its package is who reads, through whatever library it does.
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
        if (kind, path) not in self.noted:
            self.noted.add((kind, path))
            stamp = stamp_of(path) if kind in ("code", "head", "whole", "text", "data") else []
            # Past all buffers: what a forked child has in one is lost where it ends by os._exit.
            os.write(self.notes.fileno(), f"{json.dumps([kind, path, *stamp])}\n".encode())


def _caller() -> FrameType:
    """Return the frame that does what the hook looks at: the first that is not of this module."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back:
        frame = frame.f_back
    return frame


def _is_import(frame: FrameType) -> bool:
    # The machinery of imports is compiled into the interpreter, and has such a name in place of a file.
    return frame.f_code.co_filename.startswith("<frozen importlib")
