"""One making of a site, whichever builder makes its pages: run the book, make the site beside, put it in its place.

The site that stands is replaced when the new one is whole, so a build that fails or is killed costs nothing.
"""

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from galley import around, aside
from galley.around.site import Site
from galley.book import Book, Perform, Result


class Making:
    """A site on its way: where it belongs, where it is made, and what the book's pages gave."""

    def __init__(self, book: Book, place: Path, in_place: bool = False) -> None:
        self.book, self.place = book, place.resolve()
        self.folder = self.place if in_place else aside.beside(self.place)
        self.results: dict[str, Result] = {}  # by the page's place in docs
        self.site: Site | None = None

    def run(
        self, texts: dict[str, str], done: Callable[[Result], None], perform: Perform | None = None
    ) -> dict[str, Result]:
        """Run and check pages, in this order; return what they gave, by name."""
        found = self.book.run(texts, done, perform)
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
        aside.replace(self.place, self.folder)
        self.book.memory.sweep()


def problems(results: dict[str, Result]) -> int:
    """Return how much is wrong with pages."""
    return sum(len(result.problems) for result in results.values())
