"""Run pages behind a server that shows them already: what was just edited first, then the book in its order."""

import threading
import time
from collections.abc import Callable
from multiprocessing import active_children

from galley.book import Book
from galley.run.pool import Job, run_jobs

FEW = 5  # pages that run before the site is built again with what they gave; then as many as were shown before
MOMENT = 2.0  # seconds for which a build waits for an edited page: most are drawn by then, and shown at once
MOST_TO_END = 30.0  # seconds for which the end of the server waits for that of its pages


class BackgroundRuns:
    """Threads that run what is not known, one page each.

    `report` is called whenever a page begins or ends, with a line for the terminal if there is one to say; `changed`
    when so much has ended that it is worth a look.
    """

    def __init__(self, book: Book, report: Callable[[str], None], changed: Callable[[], None]) -> None:
        self.book, self.report, self.changed = book, report, changed
        self._news = threading.Condition()
        self._waiting: dict[str, Job] = {}  # by key, as are those below
        self._running: dict[str, Job] = {}
        self._failed: dict[str, Job] = {}
        self._urgent: set[str] = set()
        self._awaited: set[str] = set()
        self._seen: dict[str, str] = {}  # by page: its key
        self._state = ""
        self._ended = self._shown = 0
        self._room = book.jobs
        self._stopped = False

    def perform(self, jobs: list[Job], done: Callable[[Job], None]) -> None:
        """Call `done` with what is known of `jobs`, and run the others behind, in their order.

        What failed is known until any file of the project changes. A processor is left to who builds the site, until it
        is `built`.
        """
        state = self.book.state()
        if state != self._state:
            self._state, self._failed = state, {}
        keys = {job.filename: self._key(job) for job in jobs}
        edited = {key for name, key in keys.items() if self._seen.get(name, key) != key}
        self._seen = keys
        waiting = self.book.recall(jobs, done)
        self._want(waiting, edited)
        # asked again: `_want` has waited a moment for the pages that were edited
        for job in self.book.recall(waiting, done):
            if failed := self._failed.get(keys[job.filename]):
                job.results, job.needs, job.seconds = failed.results, failed.needs, failed.seconds
                done(job)
        self.report("")

    def built(self) -> None:
        """Give the processor back on which the site was built."""
        with self._news:
            self._room = self.book.jobs
            self._fill()

    def progress(self) -> dict:
        """Return how far it is: how many pages ran, of how many, which run now and which failed."""
        with self._news:
            left = len(self._waiting) + len(self._running)
            names = [sorted(job.filename for job in jobs.values()) for jobs in (self._running, self._failed)]
            return {"ended": self._ended, "pages": self._ended + left, "running": names[0], "failed": names[1]}

    def stop(self) -> None:
        """End all that runs; a page whose process is only being started is ended when it is there."""
        with self._news:
            self._stopped, self._waiting = True, {}
        end = time.monotonic() + MOST_TO_END
        while self._running and time.monotonic() < end:
            for page in active_children():
                page.terminate()
            time.sleep(0.02)

    def _key(self, job: Job) -> str:
        return self.book.result_cache.key(job.steps)

    def _want(self, jobs: list[Job], edited: set[str]) -> None:
        """Let `jobs` wait, and nothing else, but begin those of `edited` keys, and wait a moment for them."""
        with self._news:
            if not self._running:
                self._ended = self._shown = 0
            self._room = self.book.jobs - 1
            known = self._running.keys() | self._failed.keys()
            self._waiting = {key: job for job in jobs if (key := self._key(job)) not in known}
            self._urgent = self._waiting.keys() & edited
            for key in self._urgent:
                self._begin(key)
            self._fill()
            self._awaited = {*self._urgent}
            self._news.wait_for(lambda: not self._awaited & self._running.keys(), MOMENT)
            self._awaited, self._shown = set(), self._ended

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._room:
            self._begin(next(iter(self._waiting)))

    def _begin(self, key: str) -> None:
        self._running[key] = self._waiting.pop(key)
        threading.Thread(target=self._run, args=(key, self._running[key]), daemon=True).start()

    def _run(self, key: str, job: Job) -> None:
        try:
            run_jobs([job], 1, self.book.remember)
        except Exception as error:  # no process could be started; the other threads go on
            job.results = [{"error": f"{type(error).__name__}: {error}", "error_line": 1}]
        self._end(key, job)

    def _end(self, key: str, job: Job) -> None:
        with self._news:
            del self._running[key]
            if self._stopped:
                return
            failed = any(step.get("error") for step in job.results)
            if failed:
                self._failed[key] = job
            self._ended += 1
            self._fill()
            many = self._ended - self._shown >= max(FEW, self._shown)
            over = not self._waiting and not self._running
            worth = many or failed or key in self._urgent or over
            if worth and key not in self._awaited:
                self._shown = self._ended
                self.changed()
            self._news.notify_all()
        how = f"failed after {job.seconds:.1f} s" if failed else f"ran in {job.seconds:.1f} s"
        progress = self.progress()
        self.report(f"{job.filename} {how} ({progress['ended']} of {progress['pages']})")
