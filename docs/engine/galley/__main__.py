"""Run and check pages, and build the site: python -m galley [--only PAGE] [--update] [--lint] [--build]."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from galley.around import branch, notebooks, offline
from galley.around.site import Site
from galley.book import Book, Result, Stopwatch
from galley.builders import BUILDERS
from galley.telling import progress, summary
from galley.update import rewrite


def main() -> int:
    """Run, check, report; return 1 where a page is wrong."""
    parser = arguments()
    options = parser.parse_args()
    if options.build is not None or options.offline:
        return make(options)
    watch, book = Stopwatch(), Book.find(use_cache=not options.no_cache, jobs=options.jobs)
    results = book.run(book.pages(options.only), progress)
    if not results:
        parser.error(f"no page ends with {' or '.join(options.only)}")
    if options.update:
        checked = book.run(rewrite(book, results))
        # what ran before its text was rewritten is not run again, and has run all the same
        results = {name: replace(result, cached=results[name].cached) for name, result in checked.items()}
    for result in results.values():
        for problem in [*result.report, *(result.advice if options.lint else [])]:
            print(problem, file=sys.stderr)
    for folder, write in ((options.notebooks, notebooks.write), (options.branch, branch.write)):
        if folder:
            write(Site.of(folder, book, by_place(book, results)))
    print(summary(results, watch))
    found = (result.problems or (options.lint and result.lint) for result in results.values())
    return 1 if any(found) else 0


def arguments() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m galley", description="Run and check the pages of the book.")
    parser.add_argument("--only", action="append", default=[], metavar="PAGE", help="end of a page's path; repeatable")
    parser.add_argument("--update", action="store_true", help="rewrite outputs, sources and numbers, then check")
    parser.add_argument("--lint", action="store_true", help="also report loose bounds and what else fails no build")
    parser.add_argument("--no-cache", action="store_true", help="run every page, whatever is remembered")
    parser.add_argument("--jobs", type=int, help="pages at a time; by default one a processor")
    parser.add_argument("--notebooks", type=Path, metavar="FOLDER", help="also write each page as a notebook")
    parser.add_argument("--branch", type=Path, metavar="FOLDER", help="also write all pages as GitHub shows them")
    builders = {"nargs": "?", "const": "", "choices": ("", *BUILDERS), "metavar": "BUILDER"}
    parser.add_argument("--build", **builders, help=f"build the site, by {' or '.join(BUILDERS)}, and nothing else")
    parser.add_argument("--strict", action="store_true", help="build no site where anything is wrong with a page")
    parser.add_argument("--site-dir", type=Path, default=Path("site"), metavar="FOLDER", help="where the site belongs")
    parser.add_argument("--offline", type=Path, metavar="FILE", help="pack the site as a zip for a disk")
    return parser


def make(options: argparse.Namespace) -> int:
    """Build the site, pack it, or both."""
    book, failed = Book.find(jobs=options.jobs), 0
    if options.build is not None:
        failed = BUILDERS[options.build or book.builder](book, options.site_dir.resolve(), options.strict)
    if options.offline and not failed:
        offline.pack(options.site_dir, book.root, options.offline)
        print(f"{options.offline}: {options.offline.stat().st_size / 1e6:.1f} MB")
    return failed


def by_place(book: Book, results: dict[str, Result]) -> dict[str, Result]:
    """Return results by their pages' places in docs."""
    return {Path(name).relative_to(book.docs.relative_to(book.root)).as_posix(): r for name, r in results.items()}


if __name__ == "__main__":
    sys.exit(main())
