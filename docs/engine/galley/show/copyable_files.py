"""The package's files that a reader may copy: a page that shows each, the file itself, and what leads there.

A page is Markdown with a snippet. Cards of the gallery and chapters offer files by a line that is added to their
Markdown, the reference by its templates.
"""

import ast
import html
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from galley.book import Result
from galley.show.site import Site
from posenc.__main__ import HEADER

FOLDERS = ("add", "rotate", "bias", "score", "models")
BESIDE = ("attention", "positions")  # where the doors meet, and what gives them positions
GALLERY = "gallery.md"
# A card: its heading, then, before the next heading, the line of its links. Not each card has a chapter.
CARD = re.compile(
    r"^### .+ \{#(?P<anchor>[\w-]+)\}$(?:(?!^### ).*\n)*?^(?:\[Chapter\]\((?P<chapter>.+?)\) · )?"
    r"\[Reference\]\[posenc\.(?P<door>\w+)\.(?P<name>\w+)\]",
    re.M,
)
# The command on a card, with which the line of its links ends.
COMMAND = re.compile(r"`posenc copy (?P<name>[\w/]+)`$", re.M)
# The section of a chapter, up to the next heading.
COPY_THIS = re.compile(r"^### Copy this\b.*$(?:\n(?!##).*)*", re.M)
IMPORTED = re.compile(rf"\bposenc\.((?:{'|'.join(FOLDERS)})\.\w+|{'|'.join(BESIDE)})\b")
LOOK = HtmlFormatter(cssclass="language-python highlight no-copy", wrapcode=True, linespans="line")
LIBRARIES = {"numpy": "NumPy", "torch": "PyTorch"}
PAGE = """\
---
title: "{file.name}: the whole file"
description: {description}
hide: [navigation, toc]
search: {{exclude: true}}
---

# `posenc/{file.place}.py` {{#file}}

{file.summary}

{offer}

{needs} `posenc copy {file.command_name}` writes it into a folder of yours. Each copy begins with two lines that say
where it is from and that its license is MIT.

{links}

``` whole-file
--8<-- "posenc/{file.place}.py"
```
"""


@dataclass(frozen=True)
class CopyableFile:
    """A file to copy, by its place in the package: rotate/rope."""

    place: str
    path: Path

    @property
    def name(self) -> str:
        """What the file is called."""
        return self.path.name

    @property
    def command_name(self) -> str:
        """What `posenc copy` calls it: an encoding by its name, what models do with it by its path."""
        return self.place if self.place.startswith("models/") else self.path.stem

    @property
    def uri(self) -> str:
        """The place in docs of the page that shows it."""
        return f"code/{self.place}.md"

    @property
    def download_url(self) -> str:
        """The address of the file itself, to download and to copy."""
        return f"code/{self.place}.py"

    @property
    def text_url(self) -> str:
        """The same under a name by which every host serves text: many take a .py for what only can be downloaded."""
        return f"code/{self.place}.txt"

    @cached_property
    def source(self) -> str:
        """What is in it."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.source)

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """Its imports, those within functions too."""
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]

    @property
    def summary(self) -> str:
        """What it does, in a sentence: the first paragraph of its docstring."""
        return " ".join((ast.get_docstring(self.tree) or "").split("\n\n", 1)[0].split())

    @property
    def libraries(self) -> list[str]:
        """The libraries, beyond Python's own, that it imports."""
        # A module without a name, as in `from . import formulas`, is a file beside it.
        names = [alias.name for node in self.imports if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module for node in self.imports if isinstance(node, ast.ImportFrom) and node.module]
        return sorted({name.partition(".")[0] for name in names} - sys.stdlib_module_names - {*self.needs, "posenc"})

    @property
    def needs(self) -> list[str]:
        """The files that must lie beside it, as from_config needs the formulas."""
        beside = (node for node in self.imports if isinstance(node, ast.ImportFrom) and not node.module)
        return [alias.name for node in beside for alias in node.names]


def copyable_files(root: Path) -> dict[str, CopyableFile]:
    """Return the files by their places in the package of the project at `root`; none where it has no such package."""
    package = root / "posenc"
    paths = [path for door in FOLDERS for path in sorted((package / door).glob("[!_]*.py"))]
    paths += [path for name in BESIDE if (path := package / f"{name}.py").is_file()]
    places = (path.relative_to(package).with_suffix("").as_posix() for path in paths)
    return {place: CopyableFile(place, path) for place, path in zip(places, paths, strict=True)}


def source(uri: str) -> str:
    """Return the file that a page at `uri` in docs shows."""
    return f"posenc/{uri.removeprefix('code/').removesuffix('.md')}.py"


def whole_file(source: str, *_: Any, **__: Any) -> str:
    """Return a file as pymdownx.superfences shows it, with a name for each line: the reference leads to `#line-55`."""
    return highlight(source, PythonLexer(), LOOK)


def generated(site: Site) -> Iterator[tuple[str, str]]:
    """Yield place in docs and content of the pages that show the files, and of the files themselves."""
    files, cards = copyable_files(site.book.root), gallery_cards(site)
    project = tomllib.loads((site.book.root / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    for file in files.values():
        # The same lines as `posenc copy` writes, for who takes the file from the site.
        content = HEADER.format(version=project["version"], file=f"posenc/{file.place}.py") + file.source
        yield file.download_url, content
        yield file.text_url, content
        yield file.uri, _page(file, files, cards.get(file.place), site.settings.get("repo_url", ""))


def gallery_cards(site: Site) -> dict[str, re.Match]:
    """Return what the gallery's cards lead to, by the place of their file: their `anchor` and their `chapter`."""
    gallery = site.results.get(GALLERY)
    cards = CARD.finditer(gallery.page.text) if gallery else ()
    return {f"{card['door']}/{card['name']}": card for card in cards}


def with_offers(markdown: str, uri: str, site: Site) -> str:
    """Return a page's Markdown with the files that it offers: on each card of the gallery, under Copy this."""
    if uri == GALLERY:
        return _with_offers_on_cards(markdown, site)
    section = COPY_THIS.search(markdown)
    rows = "".join(offer(file, uri) for file in files_of_chapter(uri, site)) if section else ""
    if section is None or not rows:
        return markdown
    intro = '<p data-search-exclude="">Whole, from the package:</p>'
    offers = f'\n\n{intro}\n<div class="offers">{rows}</div>\n'
    return markdown[: section.end()].rstrip("\n") + offers + markdown[section.end() :]


def _with_offers_on_cards(gallery: str, site: Site) -> str:
    """Return the gallery's Markdown with the links to a file behind the command of each card."""
    files = {file.command_name: file for file in copyable_files(site.book.root).values()}

    def with_offer(command: re.Match) -> str:
        # The cards are an output of the page. One that is wrong, and is reported, may name what is no file.
        links = offer(files.get(command["name"]), GALLERY)
        return f"{command[0]} {links}" if links else command[0]

    return COMMAND.sub(with_offer, gallery)


def offer(file: CopyableFile | None, uri: str, is_shown: bool = False) -> str:
    """Return the links to a file from a page at `uri` in docs; where the file is shown whole, to its text alone."""
    if file is None:
        return ""
    # HTML needs addresses of the site, where each page lies in a folder of its own: one step more than in docs.
    up = "../" * (uri.count("/") + 1)
    view = f'<a href="{up}code/{file.place}/" aria-label="View {file.name}">View</a>'
    raw = f'<a href="{up}{file.text_url}" aria-label="Raw {file.name}">Raw</a>'
    download = f'<a href="{up}{file.download_url}" aria-label="Download {file.name}" download>Download</a>'
    button = f'<button type="button" data-copies="{up}{file.download_url}" aria-label="Copy {file.name}">Copy</button>'
    links = [button, download, raw] if is_shown else [f"<code>{file.name}</code>", view, button, download]
    return f'<span class="offer" data-search-exclude="">{" ".join(links)}</span>'


def files_of_chapter(uri: str, site: Site) -> list[CopyableFile]:
    """Return the files that a chapter is about.

    They are those whose cards in the gallery lead to it. Where none does, they are what its open code imports, most
    often first, and four at most.
    """
    files = copyable_files(site.book.root)
    carded = [place for place, card in gallery_cards(site).items() if card["chapter"] == uri]
    return [files[place] for place in carded or _imported(site.results[uri])[:4] if place in files]


def _imported(result: Result) -> list[str]:
    """Return the places of what the open code of a page imports: what most blocks import first."""
    code = [block.code for block in result.page.blocks if block.runs and "fold" not in block.options]
    places = [place.replace(".", "/") for part in code for place in sorted(set(IMPORTED.findall(part)))]
    # Of equal counts the first on the page comes first: sorting keeps their order.
    return sorted(dict.fromkeys(places), key=lambda place: -places.count(place))


def _page(file: CopyableFile, files: dict[str, CopyableFile], card: re.Match | None, repository: str) -> str:
    """Return the page that shows a file."""
    return PAGE.format(
        file=file,
        # The front matter is YAML: quotes within these would end the string, and escaped they are the same to HTML.
        description=f'"{html.escape(file.summary)}"',
        offer=offer(file, file.uri, is_shown=True),
        needs=_needs(file, files),
        links=_links(file, card, repository),
    )


def _needs(file: CopyableFile, files: dict[str, CopyableFile]) -> str:
    """Return in a sentence what the file cannot do without."""
    if file.needs:
        up = "../" * file.uri.count("/")
        needed = [other for other in files.values() if other.path.stem in file.needs]
        return f"It needs {_listed([f'[{other.name}]({up}{other.uri})' for other in needed])} beside it."
    libraries = _listed([LIBRARIES.get(name, name) for name in file.libraries])
    return f"It needs {libraries}, nothing else." if libraries else "It needs nothing but Python."


def _listed(names: list[str]) -> str:
    """Return names as a sentence lists them: `NumPy, PyTorch and SciPy`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _links(file: CopyableFile, card: re.Match | None, repository: str) -> str:
    """Return the links to where else the file is, and is spoken of."""
    up = "../" * file.uri.count("/")
    links = [f"[Gallery]({up}{GALLERY}#{card['anchor']})"] if card else []
    # The reference has one page for all files of a folder, and one for each file that lies in none.
    if "/" in file.place:
        links.append(f"[Reference][posenc.{file.place.replace('/', '.')}]")
    else:
        links.append(f"[Reference]({up}reference/{file.place}.md)")
    if card and card["chapter"]:
        links.append(f"[Chapter]({up}{card['chapter']})")
    links.append(f"[GitHub]({repository}/blob/main/posenc/{file.place}.py)")
    return " · ".join(links)
