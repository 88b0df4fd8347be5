"""Where cells are measured: in processes of this machine, or on a cluster by Ray. The cells and results are the same.

An engine takes tasks and yields an outcome for each as it comes: a row, or why there is none. It never raises for a
cell, whatever the cell does to its process.
"""

import contextlib
import importlib
import json
import multiprocessing
import os
import platform
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from multiprocessing import connection
from typing import Any, NamedTuple

import torch

from posenc_book.runs import provenance
from posenc_book.runs.cell import Cell, find_study
from posenc_book.runs.hardware import take_gpu
from posenc_book.runs.rows import Row

RETRIES = 2  # of a cell whose process ended under it
KILLED = f"its process ended {1 + RETRIES} times, as one does when memory runs out"


class Task(NamedTuple):
    """All that a process needs to measure a cell."""

    study: str
    cell: Cell
    digest: str


@dataclass(frozen=True)
class Failure:
    """A cell without a result: why, in one line, and where."""

    cell: Cell
    reason: str
    traceback: str = ""


Outcome = Row | Failure
_loaded_code = cache(provenance.code_digest)  # what a process has loaded, whatever is edited later


def measured(study_name: str, cell: Cell, digest: str) -> Outcome:
    """Measure a cell in this process, on one thread."""
    torch.set_num_threads(1)
    try:
        study = find_study(study_name)
        # A node of a cluster may have other code than the machine that asks.
        if provenance.digest(study, cell, _loaded_code(study.sources)) != digest:
            return Failure(cell, f"{platform.node()} has other code or inputs than the machine that asks")
        start = time.perf_counter()
        result = json.loads(json.dumps(study.measure(cell)))
        seconds = round(time.perf_counter() - start, 3)
        record = provenance.merged([provenance.environment(study), study.provenance(cell)])
    except (Exception, SystemExit) as error:
        return Failure(cell, f"{type(error).__name__}: {error}", traceback.format_exc())
    return Row(cell, result, seconds, digest, record)


def in_processes(tasks: list[Task], workers: int) -> Generator[Outcome]:
    """Measure in processes of this machine.

    A process that dies breaks its pool: which of the running cells has killed it cannot be known, so each of them is
    tried again alone, and the others go on in a new pool.
    """
    waiting = deque(tasks)
    while waiting:
        lost = yield from _in_a_pool(waiting, workers)
        for task in lost:
            yield from _alone(task)


def _alone(task: Task) -> Generator[Outcome]:
    for _ in range(RETRIES):
        lost = yield from _in_a_pool(deque([task]), 1)
        if not lost:
            return
    yield Failure(task.cell, KILLED)


def _in_a_pool(waiting: deque[Task], workers: int) -> Generator[Outcome, None, list[Task]]:
    """Measure what is waiting until all is done or the pool is broken; return what was running then."""
    lost: list[Task] = []
    running: dict[Future[Outcome], Task] = {}
    with _pool(workers) as pool:
        while running or (waiting and not lost):
            # No more than one task a process is handed out, so that those handed out are those that may have killed.
            while waiting and not lost and len(running) < workers:
                task = waiting.popleft()
                running[_submitted(pool, task)] = task
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task = running.pop(future)
                if isinstance(future.exception(), BrokenProcessPool):
                    lost.append(task)
                else:
                    yield future.result()
    return lost


def _submitted(pool: ProcessPoolExecutor, task: Task) -> Future[Outcome]:
    try:
        return pool.submit(measured, *task)
    except BrokenProcessPool as error:
        future: Future[Outcome] = Future()
        future.set_exception(error)
        return future


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool whose processes end with this one, however it ends: they hold the other end of a pipe."""
    context = multiprocessing.get_context("spawn")
    numbers = context.SimpleQueue()
    for number in range(workers):
        numbers.put(number)
    parent, alive = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _begin, (numbers, parent))
    try:
        yield pool
    finally:
        alive.close()
        pool.shutdown(cancel_futures=True)


def _begin(numbers: Any, parent: connection.Connection) -> None:
    """Prepare a process of a pool: it ends with its parent, not by Ctrl-C, and takes the GPU of its number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    take_gpu(numbers.get())


def _end_with(parent: connection.Connection) -> None:
    connection.wait([parent])
    os._exit(1)


def import_ray() -> Any:
    """Return Ray, which only its engine needs.

    Raises:
        ValueError: If it is not installed.
    """
    # What Ray starts tells its makers nothing about the machine, unless the environment says otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ValueError(f"run: engine must be processes without Ray, got ray; pip install ray ({error})") from error


def on_ray(tasks: list[Task], ray: Any, workers: int | None, address: str | None, gpu: bool) -> Generator[Outcome]:
    """Measure on a cluster of Ray: that at `address`, else one that is started on this machine.

    Each node needs this package, in the same version. Ray itself starts a cell again whose process has died.

    Raises:
        ValueError: If Ray does not run at `address`.
    """
    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        raise ValueError(f"run: address must be that of a running Ray cluster, got {address}; {error}") from error
    try:
        gpus = 1 if gpu and ray.cluster_resources().get("GPU") else 0
        measure = ray.remote(measured).options(max_retries=RETRIES, num_cpus=1, num_gpus=gpus)
        waiting = deque(tasks)
        running: dict[Any, Task] = {}
        while waiting or running:
            while waiting and len(running) < (workers or len(tasks)):
                task = waiting.popleft()
                running[measure.remote(*task)] = task
            (done,), _ = ray.wait(list(running))
            yield _outcome(ray, done, running.pop(done))
    finally:
        ray.shutdown()


def _outcome(ray: Any, done: Any, task: Task) -> Outcome:
    try:
        return ray.get(done)
    except ray.exceptions.WorkerCrashedError:
        return Failure(task.cell, KILLED)
    except ray.exceptions.RayError as error:
        return Failure(task.cell, str(error).partition("\n")[0], str(error))
