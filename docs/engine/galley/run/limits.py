"""What a page's process may take before it is ended: memory, and for code that hangs, time.

Time is that of the processor, which a busy machine does not lengthen. Code that waits for something uses none: it is
ended by the clock, after `WAITING` times as long.
"""

import contextlib
import faulthandler
import signal
from typing import IO

WAITING = 10.0
CLOCK = getattr(signal, "ITIMER_PROF", None)  # Windows has no such timer


def limit_memory(size: float) -> None:
    """Let what takes more than `size` bytes fail at its line; systems without such a bound go on without it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        # The hard limit stays, so that the soft one can be lifted again to report an error.
        hard_limit = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (int(size), hard_limit))


def end_late(trace: IO) -> None:
    """Let the end of the processor time that `limit_time` allows end the process, with a traceback in `trace`."""
    # Chained, the signal still ends the process once the traceback is written.
    if CLOCK is not None:
        faulthandler.register(signal.SIGPROF, trace, all_threads=True, chain=True)


def limit_time(seconds: float, trace: IO) -> None:
    """Allow so many seconds of the processor from now on, and `WAITING` times as many on the clock."""
    # It runs in a thread of its own without the interpreter, so that code that hangs in C is ended too.
    faulthandler.dump_traceback_later(seconds * WAITING, exit=True, file=trace)
    if CLOCK is not None:
        signal.setitimer(CLOCK, seconds)


def lift_time() -> None:
    """Limit time no more."""
    faulthandler.cancel_dump_traceback_later()
    if CLOCK is not None:
        signal.setitimer(CLOCK, 0)


def used_up(code: int | None) -> bool:
    """Whether a process that ended with this exit code had used up its processor time."""
    return CLOCK is not None and code == -signal.SIGPROF
