"""The book as a site: its pages in the order of the navigation, their addresses, and what belongs to each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from mkdocs.utils.meta import get_data
from mkdocs.utils.yaml import yaml_load

from galley.book import Book, Result
from galley.check.links import plain_title


@dataclass(frozen=True)
class SitePage:
    """A page of the book as the site shows it."""

    uri: str  # its place in docs
    result: Result

    @property
    def url(self) -> str:
        """Its address below the site's."""
        path = PurePosixPath(self.uri)
        # As MkDocs has it: each page is the index of a folder of its name, and index.md that of the folder it lies in.
        folder = path.parent if path.stem == "index" else path.with_suffix("")
        return "" if folder == PurePosixPath() else f"{folder}/"

    @property
    def title(self) -> str:
        """Its first heading, as a reader sees it."""
        return next((plain_title(title) for _, level, title, _ in self.result.page.headings if level == 1), "")

    @cached_property
    def description(self) -> str:
        """What its front matter says of it to those who have not opened it."""
        return get_data(self.result.page.text)[1].get("description", "")


@dataclass
class Site:
    """A book, what its pages gave, and the settings in the mkdocs.yml beside it."""

    book: Book
    results: dict[str, Result]  # by the page's place in docs
    settings: dict = field(default_factory=dict)

    @classmethod
    def of(cls, book: Book, results: dict[str, Result]) -> "Site":
        """Return the site of a book."""
        # MkDocs' own loader knows the tags of mkdocs.yml that plain YAML does not, such as !!python/name.
        with (book.root / "mkdocs.yml").open(encoding="utf-8") as file:
            return cls(book, results, yaml_load(file))

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings["site_name"]

    @property
    def address(self) -> str:
        """Where it is published, with the last slash."""
        return self.book.site

    @cached_property
    def pages(self) -> list[SitePage]:
        """The pages in the order of the navigation; those that it lacks come last."""
        order = {uri: n for n, uri in enumerate(self.trails)}
        uris = sorted(self.results, key=lambda uri: order.get(uri, len(order)))
        return [SitePage(uri, self.results[uri]) for uri in uris]

    @cached_property
    def trails(self) -> dict[str, tuple[str, ...]]:
        """The names of the parts that lead to each page of the navigation, by its place in docs."""
        return dict(_trails(self.settings.get("nav", []), ()))


def write(folder: Path, place: str, content: str) -> None:
    """Write a file of a site, with the folders that lead to it."""
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")


def _trails(item: dict | list | str, above: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the pages of a part of the navigation, each with the names of the parts above it."""
    if isinstance(item, str):
        yield item, above
    elif isinstance(item, dict):
        for name, inside in item.items():
            # `Home: index.md` gives a page another title; only a list makes a part.
            yield from _trails(inside, above if isinstance(inside, str) else (*above, name))
    else:
        for entry in item:
            yield from _trails(entry, above)
