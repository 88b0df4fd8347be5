"""The package's files that a reader may copy: what each says of itself, and where the book speaks of it."""

import ast
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from galley.around.site import Shown, Site

FOLDERS = ("add", "rotate", "bias", "score", "models")
BESIDE = ("attention", "positions")  # where the doors meet, and what gives them positions
CARD = re.compile(
    r"^### .+ \{#(?P<card>[\w-]+)\}$(?:(?!^### ).*\n)*?^(?:\[Chapter\]\((?P<chapter>.+?)\) · )?"
    r"\[Reference\]\[posenc\.(?P<door>\w+)\.(?P<name>\w+)\]",
    re.M,
)
IMPORTED = re.compile(rf"\bposenc\.((?:{'|'.join(FOLDERS)})\.\w+|{'|'.join(BESIDE)})\b")


@dataclass(frozen=True)
class Copy:
    """A file to copy, by its place in the package: rotate/rope."""

    place: str
    file: Path

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.file.name

    @property
    def command_name(self) -> str:
        """What `posenc copy` calls it: an encoding by its name, what models do with it by its path."""
        return self.place if self.place.startswith("models/") else self.file.stem

    @property
    def url(self) -> str:
        """The address, below the site's, of the page that shows it."""
        return f"code/{self.place}/"

    @property
    def up(self) -> str:
        """The way from that page to the site's root."""
        return "../" * self.url.count("/")

    @property
    def raw(self) -> str:
        """The address of the file itself, to download and to copy."""
        return f"code/{self.place}.py"

    @property
    def text(self) -> str:
        """The same under a name by which every host serves text: many take a .py for what only can be downloaded."""
        return f"code/{self.place}.txt"

    @property
    def reference(self) -> str:
        """The address of its entry in the reference."""
        door, _, name = self.place.rpartition("/")
        return f"reference/{door}/#posenc.{door}.{name}" if door else f"reference/{name}/"

    @cached_property
    def source(self) -> str:
        """What is in it."""
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.source)

    @property
    def says(self) -> str:
        """What it does, in a sentence: the first paragraph of its docstring."""
        return " ".join((ast.get_docstring(self.tree) or "").split("\n\n", 1)[0].split())

    @property
    def libraries(self) -> list[str]:
        """The libraries, beyond Python's own, that it imports."""
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in imports if isinstance(node, ast.ImportFrom) and node.module]
        return sorted({name.partition(".")[0] for name in names} - sys.stdlib_module_names - {*self.needs, "posenc"})

    @property
    def needs(self) -> list[str]:
        """The files that must lie beside it, as from_config needs the formulas."""
        beside = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom) and not node.module)
        return [alias.name for node in beside for alias in node.names]


def copies(root: Path) -> dict[str, Copy]:
    """Return the files by their places in the package of the project at `root`."""
    package = root / "posenc"
    files = [path for door in FOLDERS for path in sorted((package / door).glob("[!_]*.py"))]
    files += [path for name in BESIDE if (path := package / f"{name}.py").is_file()]
    places = (path.relative_to(package).with_suffix("").as_posix() for path in files)
    return {place: Copy(place, path) for place, path in zip(places, files, strict=True)}


def cards(site: Site) -> dict[str, re.Match]:
    """Return what the gallery's cards lead to, by the place of their file: its `card` there and its `chapter`."""
    gallery = site.results.get("gallery.md")
    found = CARD.finditer(gallery.page.text) if gallery else ()
    return {f"{card['door']}/{card['name']}": card for card in found}


def concerns(shown: Shown, site: Site) -> list[Copy]:
    """Return the files that a chapter is about.

    They are those whose cards in the gallery lead to it. Where none does, they are what its open code imports, most
    often first, and four at most.
    """
    known = copies(site.book.root)
    told = [place for place, card in cards(site).items() if card["chapter"] == shown.uri]
    return [known[place] for place in told or _imported(shown)[:4] if place in known]


def _imported(shown: Shown) -> list[str]:
    opened = [block.code for block in shown.result.page.blocks if block.runs and "fold" not in block.options]
    found = [place.replace(".", "/") for code in opened for place in sorted(set(IMPORTED.findall(code)))]
    return sorted(dict.fromkeys(found), key=lambda place: -found.count(place))
