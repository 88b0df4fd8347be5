"""Run pages side by side, each in a fresh process forked from one that has torch and Matplotlib loaded already."""

import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path

from galley.run import limits
from galley.run.dependencies import Need
from galley.run.worker import run_page

THREADS = os.environ.get("GALLEY_THREADS", "1")  # another number shows which pages depend on it
# The environment of every page; what stands here goes into the key of its result.
PINNED = {
    "PYTHONHASHSEED": os.environ.get("GALLEY_HASH_SEED", "0"),
    "MPLBACKEND": "svg",
    "OMP_NUM_THREADS": THREADS,
    "MKL_NUM_THREADS": THREADS,
    "OPENBLAS_NUM_THREADS": THREADS,
}
PRELOAD = ["torch", "numpy", "matplotlib.pyplot", "matplotlib.backends.backend_svg", "galley.run.worker"]
COMPILER = "torch._dynamo"  # takes longer to load than all of these
GRACE = 60.0  # seconds over its blocks' limits after which a page that does not answer is killed from outside
LONGEST_WAIT = 1.0  # seconds after which a wait ends: an interrupt that came just before it is then handled

_starting = threading.Lock()  # what is changed while a process starts belongs to all threads
_context = get_context("forkserver" if sys.platform != "win32" else "spawn")


@dataclass
class Job:
    """A page to run, in which folder, its steps, and after the run what came of each step and what it has read.

    A job that runs `alone` starts in an empty folder, with neither seeds nor the engine.
    """

    root: str
    filename: str
    steps: list[dict]
    sources: list[str] = field(default_factory=list)
    memory: float = 0.0  # bytes
    alone: bool = False
    expected: float | None = None  # seconds, where they are known
    results: list[dict] = field(default_factory=list)
    traces: list[list] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    seconds: float = 0.0
    cached: bool = True


class _Running:
    """A job in its process, with the scratch folder of its page and the trace that is read if the process dies."""

    def __init__(self, job: Job, folder: str, index: int) -> None:
        self.job = job
        self.begin = time.perf_counter()
        self.trace = Path(folder) / f"{index}.trace"
        self.scratch = Path(folder) / str(index)
        self.scratch.mkdir()
        self.connection, its_end = _context.Pipe(duplex=False)
        message = {name: getattr(job, name) for name in ("root", "filename", "steps", "sources", "memory", "alone")}
        message |= {"trace": str(self.trace), "scratch": str(self.scratch)}
        # A daemon might start no processes of its own, and pages may.
        self.process = _context.Process(target=run_page, args=(message, its_end), daemon=False)
        with _starting, _pinned_environment(), _no_main(), _no_interrupts():
            self.process.start()
        # Once the page alone holds this end, the pipe closes with its process.
        its_end.close()
        self.deadline = self.begin + limits.WAITING * sum(step["limit"] for step in job.steps) + GRACE

    def finish(self) -> Job:
        """Collect the results; a process that ended without any is a failure at the line it had reached."""
        try:
            if not self.connection.poll():
                # It ended without a result, or is late.
                raise EOFError
            self.job.results, self.job.traces = self.connection.recv()
        except (EOFError, OSError):
            self.end()
            self.job.results = self._died()
        self.process.join(1)
        self.end()
        self.connection.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.job.seconds = time.perf_counter() - self.begin
        self.job.cached = False
        return self.job

    def end(self) -> None:
        """End the page's process, also where it does not end by itself."""
        self.process.terminate()
        self.process.join(10)
        self.process.kill()

    def _died(self) -> list[dict]:
        """Return the outcome of steps that sent none: nothing, and at the last one the reason and its line."""
        trace = self.trace.read_text(errors="replace") if self.trace.exists() else ""
        # The worker writes where each step begins; faulthandler adds a traceback, its innermost line first.
        reached = re.findall(r"^at line (\d+)$", trace, re.M)
        inside = re.findall(rf'File "{re.escape(self.job.filename)}", line (\d+)', trace)
        step = next((n for n, s in enumerate(self.job.steps) if reached and s["line"] == int(reached[-1])), 0)
        line = int(inside[0]) if inside else self.job.steps[step]["line"]
        reason = self._cause_of_death(trace, self.job.steps[step]["limit"])
        return [{}] * step + [{"error": reason, "error_line": line}]

    def _cause_of_death(self, trace: str, limit: float) -> str:
        """Return why the process ended without a result."""
        if limits.used_up(self.process.exitcode):
            allow = "make it faster, or allow more with <!-- block: limit=… -->"
            return f"still running after {limit:g} s of processor time; {allow}"
        if "Timeout (" in trace:
            return f"no end after {limit * limits.WAITING:g} s; it waits for something that does not come"
        if fatal := re.search(r"Fatal Python error: (.+)", trace):
            return f"the interpreter crashed: {fatal[1]}"
        if time.perf_counter() > self.deadline:
            return "the page did not answer and was killed"
        return f"the page ended its own process (exit code {self.process.exitcode})"


def run_jobs(jobs: list[Job], workers: int, done: Callable[[Job], None]) -> None:
    """Run `jobs`, at most `workers` at a time, new and long ones first; call `done` with each as it ends."""
    waiting = sorted(jobs, key=_length)
    if sys.platform != "win32":
        compiles = any("compile" in step["code"] for job in jobs for step in job.steps)
        # This counts where no fork server runs yet; one that does keeps what it has loaded.
        _context.set_forkserver_preload([*PRELOAD, COMPILER] if compiles else PRELOAD)
    running: dict = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        # An interrupt does not reach the pages, so they are ended from here, whatever ends this loop.
        ending.callback(lambda: [page.end() for page in running.values()])
        while waiting or running:
            # The job that is expected to take longest is the last of them, and starts first.
            while waiting and len(running) < workers:
                started = _Running(waiting.pop(), folder, len(waiting))
                running[started.process.sentinel] = started
            soonest = min(r.deadline for r in running.values())
            signs = [sign for r in running.values() for sign in (r.connection, r.process.sentinel)]
            ready = wait(signs, timeout=min(LONGEST_WAIT, max(0.0, soonest - time.perf_counter())))
            for sentinel, page in list(running.items()):
                if sentinel in ready or page.connection in ready or time.perf_counter() > page.deadline:
                    done(running.pop(sentinel).finish())


def _length(job: Job) -> tuple[bool, float]:
    """Return what a job is expected to take; one that never ran may take longest, by its text."""
    text = sum(len(step["code"]) for step in job.steps)
    return (True, text) if job.expected is None else (False, job.expected)


@contextlib.contextmanager
def _pinned_environment():
    """Set the environment of pages while one starts: the first starts the fork server, which keeps what it meets."""
    before = {name: os.environ.get(name) for name in PINNED}
    os.environ.update(PINNED)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def _no_main():
    """Keep children from importing the program that starts them (mkdocs, pytest)."""
    main = sys.modules["__main__"]
    saved = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    # By these two names multiprocessing finds the program that a child would import.
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(saved)


@contextlib.contextmanager
def _no_interrupts():
    """Hold interrupts, which a terminal sends to all, back in what is started here: the build ends its pages."""
    if sys.platform == "win32":
        yield
        return
    # Its own start would let interrupts through, so it runs before they are held back; a child inherits the mask.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
