"""What can make the book into a site: MkDocs, and Zensical, which follows it.

Each takes the book and the place of its site, and returns 0 when the site stands there. What is wrong with a page is
said, and stands on the page; where it is to be `strict`, it stops the builder, and the site of before stays. The line
`builder` of `[tool.galley]` says which one `make build` asks.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mkdocs.__main__ import cli

from galley import around, successor
from galley.book import Book, Stopwatch
from galley.making import Making, Stopped, problems
from galley.telling import progress, summary


def mkdocs(book: Book, place: Path, strict: bool = False) -> int:
    """Let MkDocs build the site, in this process, which an interrupt then ends as a whole; its hook does the rest."""
    arguments = ["build", "--site-dir", str(place)]
    try:
        with contextlib.chdir(book.root):
            cli([*arguments, "--strict"] if strict else arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def zensical(book: Book, place: Path, strict: bool = False) -> int:
    """Let Zensical build a copy of the book, and add around its pages what belongs there."""
    making = Making(book, place)
    try:
        making.claim()
        with tempfile.TemporaryDirectory(dir=book.folder) as copy:
            return _zensical(making, Path(copy), strict)
    except (Stopped, OSError, KeyboardInterrupt) as error:
        reason = making.reason(error)
        if not reason:
            raise
        print(reason, file=sys.stderr)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        making.close()


def _zensical(making: Making, copy: Path, strict: bool) -> int:
    watch = Stopwatch()
    results = making.run(making.book.pages(), progress)
    for result in results.values():
        for problem in result.report:
            print(problem, file=sys.stderr)
    print(summary(results, watch), flush=True)
    is_refused = strict and problems(results)
    if is_refused or not _made(successor.prepare(making.book, making.results, copy), strict):
        print(f"The site in {making.place} stays as it was", file=sys.stderr)
        return 1
    shutil.move(copy / "site", making.folder)
    successor.mend(making.folder, making.results)
    successor.found(making.folder, making.results)
    making.pages = [page.file for page in making.begin().pages]
    making.end(around.finish)
    return 0


def _made(copy: Path, strict: bool) -> bool:
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--config-file", successor.SETTINGS]
    return subprocess.run(command + ["--strict"] * strict, cwd=copy, check=False).returncode == 0


BUILDERS = {"mkdocs": mkdocs, "zensical": zensical}
