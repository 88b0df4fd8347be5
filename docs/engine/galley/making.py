"""One making of a site, whichever builder makes its pages: run the book, make the site beside, put it in its place.

The site that stands is replaced when the new one is whole, so a build that fails or is killed costs nothing.
"""

import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from filelock import FileLock, Timeout

from galley import around, aside
from galley.around.site import Site
from galley.book import Book, Perform, Result
from galley.store import digest

OF_A_DISK = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
}  # errors that are no fault of a program
ROOM = 2**20  # bytes that each folder must take before a build begins


class Stopped(Exception):
    """Why the site is not made, for people."""


class Making:
    """A site on its way: where it belongs, where it is made, and what the book's pages gave.

    One that is made beside the site begins with `claim` and ends with `close`.
    """

    def __init__(self, book: Book, place: Path, in_place: bool = False) -> None:
        self.book, self.place = book, place.resolve()
        self.folder = self.place if in_place else aside.beside(self.place)
        self.results: dict[str, Result] = {}  # by the page's place in docs
        self.site: Site | None = None
        self.pages: list[str] = []  # what the builder is to write of them, by places in the site
        self.lock = FileLock(book.folder / f"{digest(str(self.place))[:8]}.lock", timeout=0)

    def claim(self) -> None:
        """Keep others from making this site, and clear away what a build that was killed has left."""
        self.book.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire()
        except Timeout:
            raise Stopped(f"another build of this site is under way; the site in {self.place} is left to it") from None
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self._clear()
        self._check_room()

    def close(self) -> None:
        """Leave nothing beside the site, and let others make it."""
        if self.lock.is_locked:
            self._clear()
            self.lock.release()

    def run(
        self, texts: dict[str, str], done: Callable[[Result], None], perform: Perform | None = None
    ) -> dict[str, Result]:
        """Run and check pages, in this order; return what they gave, by name."""
        found = self.book.run(texts, done, perform)
        if self.lock.is_locked and any(result.failed for result in found.values()):
            self._check_room()  # where there is none left, the pages are not to blame
        prefix = self.book.docs.relative_to(self.book.root)
        self.results = {PurePosixPath(name).relative_to(prefix).as_posix(): result for name, result in found.items()}
        return found

    def begin(self, served: bool = False) -> Site:
        """Return the site that the builder now makes."""
        self.site = Site.of(self.folder, self.book, self.results, served)
        return self.site

    def end(self, finish: Callable[[Site], None] = around.files) -> None:
        """Add what still lacks around the pages, put the site in its place, and make room for the next."""
        if self.site:
            finish(self.site)
        self._check_pages()
        self.book.memory.sweep()
        aside.replace(self.place, self.folder)

    def reason(self, error: BaseException) -> str:
        """Return why a build ends, as one sentence; nothing where the error is the fault of a program."""
        if isinstance(error, Stopped):
            return f"build: {error}"
        if isinstance(error, KeyboardInterrupt):
            return f"build: interrupted; {self._state()}"
        if isinstance(error, OSError) and error.errno in OF_A_DISK:
            where = error.filename2 or error.filename  # of a copy, where it was to go
            return f"build: {error.strerror}{f': {where}' if where else ''}; {self._state()}"
        return ""

    def _state(self) -> str:
        is_mounted = self.folder == self.place
        return f"the site in {self.place} {'is not whole' if is_mounted else 'stays as it was'}"

    def _clear(self) -> None:
        if self.folder != self.place:
            shutil.rmtree(self.folder, ignore_errors=True)
            aside.mend(self.place)

    def _check_room(self) -> None:
        """Raise OSError where a folder that a build writes in takes nothing; it names the folder."""
        for folder in (self.place.parent, self.book.folder, Path(tempfile.gettempdir())):
            try:
                with tempfile.TemporaryFile(dir=folder) as probe:
                    probe.write(bytes(ROOM))
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(folder)) from None

    def _check_pages(self) -> None:
        missing = [page for page in self.pages if not (self.folder / page).exists()]
        if missing and self.lock.is_locked:
            count = f"{len(missing)} of {len(self.pages)} pages"
            raise Stopped(f"{count} are not in the new site, such as {missing[0]}; {self._state()}")


def problems(results: dict[str, Result]) -> int:
    """Return how much is wrong with pages."""
    return sum(len(result.problems) for result in results.values())
