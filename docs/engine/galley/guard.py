"""The walls around a page's process: what it reads is written down, and it writes into its scratch folder alone."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from importlib.util import source_from_cache
from pathlib import Path
from types import FrameType

from galley.needs import stamp_of

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MOST_PROCESSES = 100  # that a page may start
ENGINE = str(Path(__file__).parent)
INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w+)(?:\.py$|[/\\]|-[^/\\]*\.dist-info[/\\]METADATA$)")
COMPILER = os.path.join("torch", "_dynamo")  # looks up names and lines of the functions that it compiles


class Guard:
    """An audit hook. What it notes goes to a file that forked children share.

    Python's import system may write where it always does, and so may PyTorch and Matplotlib into their `caches`.
    """

    def __init__(self, job: dict, caches: list[str]) -> None:
        self.root, self.sources, self.filename = job["root"], tuple(job["sources"]), job["filename"]
        self.writable = tuple(os.path.realpath(folder) for folder in (job["scratch"], *caches))
        self.seen: set[tuple[str, str]] = set()
        self.notes, self.started = (tempfile.TemporaryFile(buffering=0) for _ in range(2))  # noqa: SIM115  see above
        self.acts: dict[str, Callable] = {
            "open": self._open,
            "os.listdir": self._list,
            "os.scandir": self._list,
            "os.rename": lambda old, new, old_at=-1, new_at=-1: (self._write(old, old_at), self._write(new, new_at)),
            "os.link": lambda _old, new, _old_at=-1, new_at=-1: self._write(new, new_at),
            "os.symlink": lambda _old, new, at=-1: self._write(new, at),
            "os.mkdir": lambda path, _mode, at=-1: self._write(path, at),
            "os.chmod": lambda path, _mode, at=-1: self._write(path, at),
            "os.truncate": lambda path, _length: self._write(path),
            "os.utime": lambda path, _times, _ns, at=-1: self._write(path, at),
        }
        self.acts |= dict.fromkeys(("os.remove", "os.rmdir", "shutil.rmtree"), self._write)
        self.acts |= dict.fromkeys(("os.fork", "os.forkpty"), self._start)
        self.acts |= dict.fromkeys(("os.system", "os.exec", "os.posix_spawn", "os.spawn"), self._program)
        self.acts["subprocess.Popen"] = self._program
        self.acts |= dict.fromkeys(("socket.connect", "socket.getaddrinfo", "socket.sendto"), _no_network)

    def __call__(self, event: str, arguments: tuple) -> None:
        """Look at what is about to happen; raise PermissionError where a page must not."""
        if act := self.acts.get(event):
            act(*arguments)

    def traces(self) -> list[list]:
        """Return what was noted, in order: a kind that `needs` knows, a path, and time and size of the file."""
        self.notes.seek(0)
        return [json.loads(line) for line in self.notes.read().splitlines()]

    def _open(self, path, mode: str | None, flags: int) -> None:
        if isinstance(path, int):
            return
        if flags & WRITING:
            self._write(path)
            return
        caller = _caller()
        if mode is None and caller.f_code.co_filename.endswith("shutil.py"):
            return  # a folder that it is about to remove, named from within another
        path = os.path.abspath(os.fsdecode(path))
        if "-packages" in path:
            if installed := INSTALLED.search(path):
                self._note("version", installed[1])
        elif _imports(caller):
            path = source_from_cache(path) if path.endswith(".pyc") else path
            if self._is_ours(path) or path.startswith(ENGINE):
                self._note("code", path)
        elif self._is_ours(path) and (way := self._way(path, caller)):
            self._note(way, path)

    def _list(self, path=None) -> None:
        caller = _caller()
        if isinstance(path, int) or _imports(caller) or f"importlib{os.sep}" in caller.f_code.co_filename:
            return
        path = os.path.abspath(os.fsdecode(path or "."))
        if self._is_ours(path) and "-packages" not in path:
            self._note("modules" if self._is_source(path) else "names", path)

    def _is_ours(self, path: str) -> bool:
        """Whether a path lies in the project; hidden folders and an environment lie beside it."""
        hidden = path.startswith((self.root + os.sep + ".", sys.prefix + os.sep, *self.writable))
        return not hidden and (path + os.sep).startswith(self.root + os.sep)

    def _is_source(self, path: str) -> bool:
        return f"{path}{os.sep}".startswith(tuple(f"{source}{os.sep}" for source in self.sources))

    def _way(self, path: str, frame: FrameType | None) -> str:
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

    def _write(self, path, folder: int | None = -1) -> None:
        if isinstance(path, int) or _imports(_caller()):
            return
        path = os.fsdecode(path)
        if folder is not None and folder >= 0:
            try:
                path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
            except OSError:
                return  # no such file system here; whoever removes a tree has named it before
        path = os.path.realpath(path)
        if (
            not path.startswith(("/dev/", *(f"{folder}{os.sep}" for folder in self.writable)))
            and path not in self.writable
        ):
            shown = os.path.relpath(path, self.root) if path.startswith(self.root + os.sep) else path
            where = "tempfile.gettempdir(), a folder of its own that goes when it ends"
            raise PermissionError(f"a page must not write to {shown}; let it write into {where}")

    def _program(self, program, arguments=(), *_rest) -> None:
        self._note("program", "")
        for argument in (program, *arguments) if isinstance(arguments, list | tuple) else ():
            if isinstance(argument, str) and os.path.isfile(argument) and self._is_ours(os.path.abspath(argument)):
                self._note("text", os.path.abspath(argument))
        self._start()

    def _start(self) -> None:
        os.write(self.started.fileno(), b".")
        if os.fstat(self.started.fileno()).st_size > MOST_PROCESSES:
            raise PermissionError(f"a page must not start more than {MOST_PROCESSES} processes")


def _no_network(*_arguments) -> None:
    raise PermissionError("a page has no network: what it needs must be computed or shipped with the book")


def _caller() -> FrameType:
    """Return the frame that does what the hook looks at."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back:
        frame = frame.f_back
    return frame


def _imports(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<frozen importlib")
