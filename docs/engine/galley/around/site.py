"""A site while it is made, and a page where the site shows it."""

import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from mkdocs.utils.meta import get_data
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

    @cached_property
    def meta(self) -> dict:
        """What stands above its text: title, description, tags."""
        return get_data(self.result.page.text)[1]

    @property
    def description(self) -> str:
        """What it says of itself to those who have not opened it."""
        return self.meta.get("description", "")


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

    @property
    def name(self) -> str:
        """What it is called."""
        return self.settings["site_name"]

    @cached_property
    def address(self) -> str:
        """Where it is published, with the last slash, as its sitemap says: it may be one of several versions."""
        path = self.folder / "sitemap.xml"
        listed = re.findall("<loc>(.*?)</loc>", path.read_text(encoding="utf-8")) if path.exists() else []
        return min(listed, key=len, default=self.book.site)

    @cached_property
    def project(self) -> dict:
        """What pyproject.toml says of the package; nothing where the book has none."""
        return tomllib.loads((self.book.root / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})

    @cached_property
    def pages(self) -> list[Shown]:
        """The pages in the order of the navigation; those that it lacks come last."""
        order = {uri: n for n, uri in enumerate(self.trails)}
        return [Shown(uri, self.results[uri]) for uri in sorted(self.results, key=lambda u: order.get(u, len(order)))]

    @cached_property
    def trails(self) -> dict[str, tuple[str, ...]]:
        """The names of the parts that lead to each page of the navigation, by its place in docs."""
        return dict(_trails(self.settings.get("nav", []), ()))

    def write(self, place: str, content: str | bytes) -> None:
        """Add a file to the site."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def alternate(html: str, kind: str, title: str, href: str) -> str:
    """Return a page whose head names another form of it.

    The space ends a name, and makes no other. Without it the theme takes the form for a translation of the site, and
    asks for the sitemap beside it.
    """
    link = f'<link rel="alternate " type="{kind}" title="{title}" href="{href}">'
    return html.replace("</head>", f"{link}\n  </head>", 1)


def _trails(item, above: tuple[str, ...]):
    if isinstance(item, str):
        yield item, above
    elif isinstance(item, dict):
        for name, inside in item.items():
            yield from _trails(inside, above if isinstance(inside, str) else (*above, name))
    else:
        for each in item:
            yield from _trails(each, above)
