"""The pytest plugin: every page of the book is a test; `--update-pages` rewrites what pages show.

The processes of pytest-xdist share what they learn: one runs the pages, the others wait for it.
"""

import contextlib
import pickle
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from galley.book import Book, Result
from galley.read.notebook import SUFFIX
from galley.update import rewrite

BOOK = pytest.StashKey[Book]()
SHARED = pytest.StashKey[dict[str, dict]]()  # for each kind, what this process knows by name
DAY = 24 * 3600.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("galley", "pages that run")
    group.addoption("--update-pages", action="store_true", help="rewrite outputs, sources and numbers of the pages")
    group.addoption("--no-page-cache", action="store_true", help="run every page, whatever is remembered")


def pytest_configure(config: pytest.Config) -> None:
    """Open the book of the project under test, where there is one."""
    config.stash[SHARED] = {}
    # The plugin may be on in a project without a book, and collects nothing there.
    with contextlib.suppress(FileNotFoundError):
        config.stash[BOOK] = Book.find(config.rootpath, use_cache=not config.getoption("--no-page-cache"))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "PageFile | None":
    """Collect the book's pages, and no other Markdown or notebook."""
    book = parent.config.stash.get(BOOK, None)
    if file_path.suffix not in (".md", SUFFIX) or book is None or not file_path.is_relative_to(book.docs):
        return None
    # Which Markdown of the folder is a page, the book decides.
    name = file_path.relative_to(book.root).as_posix()
    if name not in book.pages([name]):
        return None
    return PageFile.from_parent(parent, path=file_path)


class PageFile(pytest.File):
    """A page."""

    def collect(self):
        """Yield the page's one test."""
        yield PageItem.from_parent(self, name="page")


class PageError(Exception):
    """What a page gets wrong."""


class PageItem(pytest.Item):
    """Run a page, with all the others of this session the first time, and fail on what it gets wrong."""

    def runtest(self) -> None:
        """Raise PageError with a line for each problem."""
        book = self.config.stash[BOOK]
        # All pages of the session at once, so that they run side by side.
        names = [i.path.relative_to(book.root).as_posix() for i in self.session.items if isinstance(i, PageItem)]
        result = results(self.config, names)[self.path.relative_to(book.root).as_posix()]
        if result.report:
            raise PageError("\n\n".join(result.report))

    def repr_failure(self, excinfo: pytest.ExceptionInfo, style=None):
        """Show a page's problems alone."""
        return str(excinfo.value) if isinstance(excinfo.value, PageError) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        """Name the page."""
        return self.path, 0, self.path.relative_to(self.config.rootpath).as_posix()


def results(config: pytest.Config, names: Iterable[str]) -> dict[str, Result]:
    """Return what these pages give; each is run once in a session."""
    book = config.stash[BOOK]

    def run(missing: list[str]) -> dict[str, Result]:
        results = book.run(book.pages(missing))
        return book.run(rewrite(book, results)) if config.getoption("--update-pages") else results

    return shared(config, "pages", names, run)


def shared(config: pytest.Config, kind: str, names: Iterable[str], make: Callable[[list[str]], dict]) -> dict:
    """Return a dictionary with these names; `make` gives those that no process of the session has made."""
    known = config.stash[SHARED].setdefault(kind, {})
    names = list(names)
    if any(name not in known for name in names):
        with _turn(config, kind) as file:
            # While this process waited for its turn, another may have made all of them.
            if file and file.exists():
                known |= pickle.loads(file.read_bytes())
            if missing := [name for name in names if name not in known]:
                known |= make(missing)
                if file:
                    file.write_bytes(pickle.dumps(known))
    return known


@contextlib.contextmanager
def _turn(config: pytest.Config, kind: str) -> Iterator[Path | None]:
    """Wait until no other process makes such things, and yield the file that has those of this session."""
    # Only pytest-xdist gives this attribute to its workers; alone a process shares with nobody.
    worker = getattr(config, "workerinput", None)
    if worker is None:
        yield None
        return
    # A dependency of the tests alone, and of them only where several processes run.
    from filelock import FileLock

    sessions = config.stash[BOOK].folder / "sessions"
    folder = sessions / worker["testrunuid"]
    folder.mkdir(parents=True, exist_ok=True)
    # No session removes its own folder, since it does not know which of its processes is the last.
    for old in sessions.iterdir():
        if old.stat().st_mtime < time.time() - DAY:
            shutil.rmtree(old, ignore_errors=True)
    with FileLock(folder / f"{kind}.lock"):
        yield folder / f"{kind}.pickle"
