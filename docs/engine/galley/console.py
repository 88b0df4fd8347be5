"""What the terminal says of a run: a line for each page that ran, and one for all."""

import time

from galley.book import Result


def timed(seconds: float) -> str:
    """Return a duration as people read it."""
    return f"{seconds:.1f} s" if seconds >= 0.05 else f"{seconds * 1000:.0f} ms"


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def __str__(self) -> str:
        return timed(time.perf_counter() - self.begin)


def progress(result: Result) -> None:
    """Print one line for a page that has run."""
    if not result.cached:
        print(f"  ran {result.name} in {timed(result.seconds)}", flush=True)


def summary(results: dict[str, Result], watch: Stopwatch) -> str:
    """Return one line: what ran, what was remembered, what is wrong."""
    # A page without steps counts as cached and needs no run, so it is in neither number.
    ran = sum(not result.cached for result in results.values())
    cached = sum(result.cached and bool(result.steps) for result in results.values())
    waiting = sum(result.waits for result in results.values())
    problems = sum(len(result.problems) for result in results.values())
    counts = [f"{ran} run", f"{cached} from the cache", *([f"{waiting} to run"] if waiting else [])]
    return f"{len(results)} pages: {', '.join(counts)}, {problems} problems, {watch}"
