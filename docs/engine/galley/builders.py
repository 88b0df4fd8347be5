"""What can make the book into a site: MkDocs, and Zensical, which follows it.

Each takes the book and the place of its site, and returns 0 when the site stands there and nothing is wrong with it.
The line `builder` of `[tool.galley]` says which one `make build` asks.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from galley import around, successor
from galley.book import Book, Stopwatch
from galley.making import Making, problems
from galley.telling import progress, summary


def mkdocs(book: Book, place: Path) -> int:
    """Let MkDocs build the site; its hook does the rest."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    return subprocess.run(command, cwd=book.root, check=False).returncode


def zensical(book: Book, place: Path) -> int:
    """Let Zensical build a copy of the book, and add around its pages what belongs there."""
    making, watch = Making(book, place), Stopwatch()
    results = making.run(book.pages(), progress)
    for result in results.values():
        for problem in result.report:
            print(problem, file=sys.stderr)
    print(summary(results, watch), flush=True)
    copy = book.folder / "successor"
    if problems(results) or not _made(successor.prepare(book, making.results, copy)):
        print(f"The site in {making.place} stays as it was", file=sys.stderr)
        return 1
    shutil.rmtree(making.folder, ignore_errors=True)
    shutil.move(copy / "site", making.folder)
    successor.mend(making.folder, making.results)
    successor.found(making.folder, making.results)
    making.begin()
    making.end(around.finish)
    return 0


def _made(copy: Path) -> bool:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", successor.SETTINGS]
    return subprocess.run(command, cwd=copy, check=False).returncode == 0


BUILDERS = {"mkdocs": mkdocs, "zensical": zensical}
