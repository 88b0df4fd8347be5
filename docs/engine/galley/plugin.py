"""The pytest plugin: every page of the book is a test; `--update-pages` rewrites what pages show."""

from pathlib import Path

import pytest

from galley.book import Book, Result
from galley.cells import SUFFIX
from galley.update import rewrite

BOOK = pytest.StashKey[Book]()
RESULTS = pytest.StashKey[dict[str, Result]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("galley", "pages that run")
    group.addoption("--update-pages", action="store_true", help="rewrite outputs, sources and numbers of the pages")
    group.addoption("--no-page-cache", action="store_true", help="run every page, whatever is remembered")


def pytest_configure(config: pytest.Config) -> None:
    """Open the book of the project under test, where there is one."""
    try:
        config.stash[BOOK] = Book.find(config.rootpath, use_cache=not config.getoption("--no-page-cache"))
    except FileNotFoundError:
        return


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "PageFile | None":
    """Collect the book's pages, and no other Markdown or notebook."""
    book = parent.config.stash.get(BOOK, None)
    if file_path.suffix not in (".md", SUFFIX) or book is None or not file_path.is_relative_to(book.docs):
        return None
    if file_path.relative_to(book.root).as_posix() not in book.pages([file_path.relative_to(book.root).as_posix()]):
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
        if RESULTS not in self.config.stash:
            names = [i.path.relative_to(book.root).as_posix() for i in self.session.items if isinstance(i, PageItem)]
            self.config.stash[RESULTS] = book.run(book.pages(names))
            if self.config.getoption("--update-pages"):
                self.config.stash[RESULTS] = book.run(rewrite(book, self.config.stash[RESULTS]))
        name = self.path.relative_to(book.root).as_posix()
        if report := self.config.stash[RESULTS][name].report:
            raise PageError("\n\n".join(report))

    def repr_failure(self, excinfo: pytest.ExceptionInfo, style=None):
        """Show a page's problems alone."""
        return str(excinfo.value) if isinstance(excinfo.value, PageError) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        """Name the page."""
        return self.path, 0, self.path.relative_to(self.config.rootpath).as_posix()
