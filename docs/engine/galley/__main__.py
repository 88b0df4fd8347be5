"""Run and check pages, without a site: python -m galley [--only PAGE] [--update] [--lint] [--notebooks FOLDER]."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from galley.book import Book, Result
from galley.console import Stopwatch, progress, summary
from galley.update import rewrite


def main() -> int:
    """Run, check, report; return 1 where a page is wrong."""
    parser = arguments()
    options = parser.parse_args()
    watch = Stopwatch()
    book = Book.find(use_cache=not options.no_cache, jobs=options.jobs)
    results = book.run(book.pages(options.only), progress)
    if not results:
        parser.error(f"no page ends with {' or '.join(options.only)}")
    if options.update:
        checked = book.run(rewrite(book, results))
        # What ran before its text was rewritten is not run again, and has run all the same.
        results = {name: replace(result, cached=results[name].cached) for name, result in checked.items()}
    for result in results.values():
        for problem in [*result.report, *(result.advice if options.lint else [])]:
            print(problem, file=sys.stderr)
    if options.notebooks:
        _write_notebooks(book, results, options.notebooks)
    print(summary(results, watch))
    wrong = (result.problems or (options.lint and result.lint) for result in results.values())
    return 1 if any(wrong) else 0


def arguments() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m galley", description="Run and check the pages of the book.")
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="end of a page's path; repeatable")
    parser.add_argument("--update", action="store_true", help="rewrite outputs, sources and numbers, then check")
    parser.add_argument("--lint", action="store_true", help="also report loose bounds and what else fails no build")
    parser.add_argument("--no-cache", action="store_true", help="run every page, whatever is remembered")
    parser.add_argument("--jobs", type=int, help="pages at a time; by default one a processor")
    parser.add_argument("--notebooks", type=Path, metavar="FOLDER", help="also write each page as a notebook")
    return parser


def _write_notebooks(book: Book, results: dict[str, Result], folder: Path) -> None:
    # The room that makes notebooks is loaded only where some are asked for.
    from galley.show import notebook_of_page
    from galley.show.site import write

    for name, result in results.items():
        if notebook_of_page.is_portable(result):
            uri = Path(name).relative_to(book.docs.relative_to(book.root)).as_posix()
            write(folder, notebook_of_page.place(uri), notebook_of_page.cached_notebook(result, book))


if __name__ == "__main__":
    sys.exit(main())
