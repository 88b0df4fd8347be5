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
        self._ended = 0
        self._shown = 0  # of these, those that the last build could show
        self._most_running = book.jobs
        self._stopped = False

    def perform(self, jobs: list[Job], done: Callable[[Job], None]) -> None:
        """Call `done` with what is known of `jobs`, and run the others behind, in their order.

        What failed is known until any file of the project changes. A processor is left to who builds the site, until it
        is `built`.
        """
        state = self.book.state()
        if state != self._state:
            self._state = state
            self._failed = {}
        keys = {job.filename: self._key(job) for job in jobs}
        # A page that is met for the first time counts as unedited: else all would be urgent when a server starts.
        edited = {key for name, key in keys.items() if self._seen.get(name, key) != key}
        self._seen = keys
        waiting = self.book.recall(jobs, done)
        self._schedule(waiting, edited)
        # The cache is asked again, since the edited pages may have ended meanwhile.
        for job in self.book.recall(waiting, done):
            if failed := self._failed.get(keys[job.filename]):
                job.results, job.needs, job.seconds = failed.results, failed.needs, failed.seconds
                done(job)
        self.report("")

    def built(self) -> None:
        """Give the processor back on which the site was built."""
        with self._news:
            self._most_running = self.book.jobs
            self._fill()

    def progress(self) -> dict:
        """Return how far it is: how many pages ran, of how many, which run now and which failed."""
        with self._news:
            left = len(self._waiting) + len(self._running)
            running = sorted(job.filename for job in self._running.values())
            failed = sorted(job.filename for job in self._failed.values())
            return {"ended": self._ended, "pages": self._ended + left, "running": running, "failed": failed}

    def stop(self) -> None:
        """End all that runs; a page whose process is only being started is ended when it is there."""
        with self._news:
            self._stopped = True
            self._waiting = {}
        end = time.monotonic() + MOST_TO_END
        while self._running and time.monotonic() < end:
            for page in active_children():
                page.terminate()
            time.sleep(0.02)

    def _key(self, job: Job) -> str:
        return self.book.result_cache.key(job.steps)

    def _schedule(self, jobs: list[Job], edited: set[str]) -> None:
        """Let `jobs` wait, and nothing else, but begin those of `edited` keys, and wait a moment for them."""
        with self._news:
            if not self._running:
                self._ended = self._shown = 0
            self._most_running = self.book.jobs - 1
            # What runs already goes on, and what failed would fail again.
            known = self._running.keys() | self._failed.keys()
            keyed = {self._key(job): job for job in jobs}
            self._waiting = {key: job for key, job in keyed.items() if key not in known}
            self._urgent = self._waiting.keys() & edited
            # Somebody waits for these, so they begin even where all processors are taken.
            for key in self._urgent:
                self._begin(key)
            self._fill()
            self._awaited = {*self._urgent}
            # The condition lets go of its lock meanwhile, so that the threads can report what has ended.
            self._news.wait_for(lambda: not self._awaited & self._running.keys(), MOMENT)
            self._awaited = set()
            self._shown = self._ended

    def _fill(self) -> None:
        """Begin what waits, until as many run as may."""
        while self._waiting and len(self._running) < self._most_running:
            self._begin(next(iter(self._waiting)))

    def _begin(self, key: str) -> None:
        self._running[key] = self._waiting.pop(key)
        threading.Thread(target=self._run, args=(key, self._running[key]), daemon=True).start()

    def _run(self, key: str, job: Job) -> None:
        try:
            run_jobs([job], 1, self.book.remember)
        except Exception as error:
            # No process could be started. That is shown as an error of the page, and the other threads go on.
            job.results = [{"error": f"{type(error).__name__}: {error}", "error_line": 1}]
        self._end(key, job)

    def _end(self, key: str, job: Job) -> None:
        with self._news:
            del self._running[key]
            # A page that was ended with the server has failed for no fault of its own.
            if self._stopped:
                return
            failed = any(step.get("error") for step in job.results)
            if failed:
                self._failed[key] = job
            self._ended += 1
            self._fill()
            is_many = self._ended - self._shown >= max(FEW, self._shown)
            is_last = not self._waiting and not self._running
            # A page that a build waits for is shown by that build.
            if (is_many or is_last or failed or key in self._urgent) and key not in self._awaited:
                self._shown = self._ended
                self.changed()
            self._news.notify_all()
        how = f"failed after {job.seconds:.1f} s" if failed else f"ran in {job.seconds:.1f} s"
        progress = self.progress()
        self.report(f"{job.filename} {how} ({progress['ended']} of {progress['pages']})")
