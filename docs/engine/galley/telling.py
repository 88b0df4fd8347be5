"""What the command line says of a run: a line for each page, and one for all."""

from galley.book import Result, Stopwatch, timed


def progress(result: Result) -> None:
    """Print one line for a page that has run."""
    if not result.cached:
        print(f"  ran {result.name} in {timed(result.seconds)}", flush=True)


def summary(results: dict[str, Result], watch: Stopwatch) -> str:
    """Return one line: what ran, what was remembered, what is wrong."""
    ran = sum(not result.cached for result in results.values())
    kept = sum(result.cached and bool(result.steps) for result in results.values())
    waiting = sum(result.waits for result in results.values())
    wrong = sum(len(result.problems) for result in results.values())
    counts = f"{ran} run, {kept} from the cache," + f" {waiting} to run," * bool(waiting)
    return f"{len(results)} pages: {counts} {wrong} problems, {watch}"
