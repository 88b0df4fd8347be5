"""Run and check pages without building the site: python -m galley [--only PAGE] [--update]."""

import argparse
import sys
from pathlib import Path

from galley import notebook
from galley.book import Book, Result, Stopwatch, timed
from galley.update import rewrite


def main() -> int:
    """Run, check, report; return 1 where a page is wrong."""
    parser = argparse.ArgumentParser(prog="python -m galley", description="Run and check the pages of the book.")
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="end of a page's path; repeatable")
    parser.add_argument("--update", action="store_true", help="rewrite outputs, sources and numbers, then check")
    parser.add_argument("--no-cache", action="store_true", help="run every page, whatever is remembered")
    parser.add_argument("--jobs", type=int, help="pages at a time; by default one a processor")
    parser.add_argument("--notebooks", type=Path, metavar="FOLDER", help="also write each page as a notebook")
    options = parser.parse_args()
    watch, book = Stopwatch(), Book.find(use_cache=not options.no_cache, jobs=options.jobs)
    results = book.run(book.pages(options.only), progress)
    if not results:
        parser.error(f"no page ends with {' or '.join(options.only)}")
    if options.update:
        results = book.run(rewrite(book, results))
    for result in results.values():
        for problem in result.report:
            print(problem, file=sys.stderr)
    if options.notebooks:
        write_notebooks(book, results, options.notebooks)
    print(summary(results, watch))
    return 1 if any(result.problems for result in results.values()) else 0


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


def write_notebooks(book: Book, results: dict[str, Result], folder: Path) -> None:
    """Write the pages that run as notebooks."""
    for name, result in results.items():
        if notebook.portable(result):
            path = folder / Path(name).relative_to(book.docs.relative_to(book.root)).with_suffix(".ipynb")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(notebook.notebook(result, book.site, book.root), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
