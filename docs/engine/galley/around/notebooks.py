"""Each page that runs as a notebook, at its own place in docs: there to download, and on a branch to open in Colab."""

from pathlib import PurePosixPath

from galley import notebook
from galley.around.site import Site
from galley.book import Book, Result
from galley.cells import SUFFIX
from galley.memory import digest_of
from galley.store import digest


def place(uri: str) -> str:
    """Return where the notebook made of a page lies, on the site as on the branch, by the page's place in docs."""
    return PurePosixPath(uri).with_suffix(SUFFIX).as_posix()


def write(site: Site) -> None:
    """Add the notebooks."""
    for uri, result in site.results.items():
        if notebook.portable(result):
            site.write(place(uri), _made(result, site.book))


def _made(result: Result, book: Book) -> str:
    reads = [digest_of(book.root / path) for path in result.reads]
    key = digest("notebook", book.around, result.name, result.page.text, result.outcome, *reads)
    made = book.memory.get(key)
    if made is None:
        made = notebook.notebook(result, book.site, book.root)
        book.memory.put(key, made)
    return made
