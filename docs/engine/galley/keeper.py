"""Stand between the pool and a page: what the page has started ends with it, and the page ends with the build.

The keeper forks the page and waits for it. On Linux it adopts what outlives the page, also what left its session.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from pathlib import Path

SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36  # of Linux's prctl


def keep() -> None:
    """Fork; return in the child, which is the page, and end the parent when the page has ended.

    The pool has held interrupts back, as a terminal sends them to all: the build then ends its pages.
    """
    _prctl(SET_CHILD_SUBREAPER, 1)
    page = os.fork()
    if page == 0:
        _prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # forget what came meanwhile
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return
    end = lambda *_: os.kill(page, signal.SIGKILL)  # noqa: E731
    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=_watch, args=(end,), daemon=True).start()
    _, status = os.waitpid(page, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(page, signal.SIGKILL)
    _end_orphans()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)  # as a shell says it


def _watch(end) -> None:
    """End the page with the program that asked for it, however that ended."""
    if build := parent_process():
        connection.wait([build.sentinel])
        with contextlib.suppress(ProcessLookupError):
            end()


def _end_orphans() -> None:
    with contextlib.suppress(ChildProcessError):  # none is left
        while True:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                for child in _children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                os.waitpid(-1, 0)


def _children() -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            _, _, fields = stat.read_text().rpartition(")")  # a program's name may hold what it likes
            if int(fields.split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
