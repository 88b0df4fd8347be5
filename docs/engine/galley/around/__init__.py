"""What a built site has around its pages, whichever builder has made them.

A builder turns the book into a folder of HTML. What readers expect beside that is made here, in parts: one of `PAGES`
changes the HTML of one page, one of `FILES` adds files to the whole. MkDocs' hook gives each page to `page` as it
is written and calls `files` at the end; a builder without hooks is followed by `finish`, which does both.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from mkdocs.utils.yaml import yaml_load

from galley.book import Book, Result
from galley.links import plain_title


@dataclass(frozen=True)
class Shown:
    """A page of the book as the site shows it."""

    uri: str  # its place in docs
    result: Result

    @property
    def url(self) -> str:
        """Its address below the site's."""
        path = PurePosixPath(self.uri)
        folder = path.parent if path.stem == "index" else path.with_suffix("")
        return "" if folder == PurePosixPath() else f"{folder}/"

    @property
    def file(self) -> str:
        """Its HTML, by its place in the site."""
        return f"{self.url}index.html"

    @property
    def up(self) -> str:
        """The way from it to the site's root: "../../"."""
        return "../" * self.url.count("/")

    @property
    def title(self) -> str:
        """Its first heading, as a reader sees it."""
        return next((plain_title(title) for _, level, title, _ in self.result.page.headings if level == 1), "")


@dataclass
class Site:
    """A site while it is made: its folder, its book, and what the book's pages gave."""

    folder: Path
    book: Book
    results: dict[str, Result]  # by the page's place in docs
    served: bool = False  # for one who writes, on this machine
    settings: dict = field(default_factory=dict)  # of mkdocs.yml

    @classmethod
    def of(cls, folder: Path, book: Book, results: dict[str, Result], served: bool = False) -> "Site":
        """Return the site of a book, with the settings of the mkdocs.yml beside it."""
        with (book.root / "mkdocs.yml").open(encoding="utf-8") as file:
            return cls(folder, book, results, served, yaml_load(file))

    @cached_property
    def pages(self) -> list[Shown]:
        """The pages in the order of the navigation; those that it lacks come last."""
        order = {uri: n for n, uri in enumerate(self.trails)}
        return [Shown(uri, self.results[uri]) for uri in sorted(self.results, key=lambda u: order.get(u, len(order)))]

    @cached_property
    def trails(self) -> dict[str, tuple[str, ...]]:
        """The names of the parts that lead to each page of the navigation, by its place in docs."""
        return dict(_trails(self.settings["nav"], ()))

    def write(self, place: str, content: str | bytes) -> None:
        """Add a file to the site."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def _trails(item, above: tuple[str, ...]):
    if isinstance(item, str):
        yield item, above
    elif isinstance(item, dict):
        for name, inside in item.items():
            yield from _trails(inside, above if isinstance(inside, str) else (*above, name))
    else:
        for each in item:
            yield from _trails(each, above)


PAGES: tuple[Callable[[str, Shown, Site], str], ...] = ()
FILES: tuple[Callable[[Site], None], ...] = ()


def page(html: str, shown: Shown, site: Site) -> str:
    """Return the HTML of a page with what belongs around it."""
    for part in PAGES:
        html = part(html, shown, site)
    return html


def files(site: Site) -> None:
    """Add the files that belong around the pages."""
    for part in FILES:
        part(site)


def finish(site: Site) -> None:
    """Add what belongs around pages that a builder without hooks has written."""
    for shown in site.pages:
        site.write(shown.file, page((site.folder / shown.file).read_text(encoding="utf-8"), shown, site))
    files(site)
