"""Render a page only when something that it is made of has changed.

Rendering is what MkDocs does to one page: Markdown to HTML, with a list of its headings, the links it checked and the
names that others may link to. All of that comes from memory where the key says so. What follows (cross-references,
tags, the check of anchors, templates) MkDocs does at every build, since it concerns several pages at once.
"""

import contextlib
import enum
import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink, get_toc

from galley.book import Book
from galley.memory import common, contents, digest_of, plain
from galley.store import digest

OBJECT = re.compile(
    r"^(?:#{1,6} *)?::: ?(.+?) *$", re.M
)  # what mkdocstrings takes for the name of something to document
# Where a site is served from, how it was asked for, and what works on rendered pages alone.
ELSEWHERE = {
    "site_url",
    "site_dir",
    "dev_addr",
    "strict",
    "watch",
    "config_file_path",
    "material/search",
    "material/tags",
}
WRITES = os.O_WRONLY | os.O_RDWR

_listeners: dict[int, set[str]] = {}  # by thread: the files and folders that it opens


class Renderer:
    """Renders the pages of one build; `outcomes` has a digest of what each page's code gave, by its place in docs."""

    def __init__(self, book: Book, outcomes: dict[str, str], config: MkDocsConfig) -> None:
        self.book, self.outcomes = book, outcomes
        self.around = digest(common(), settings(config), digest_of(book.root / "pyproject.toml"))

    def render(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        """Do what `page.render` does, or bring back what it did."""
        documented = [name.partition(".")[0] for name in OBJECT.findall(page.markdown or "")]
        sources = [contents(root, root.rglob("*.py*")) for root in self.book.sources] if documented else []
        outcome = self.outcomes.get(page.file.src_uri, "")
        key = digest("render", self.around, page.file.src_uri, page.markdown or "", outcome, *sources)
        kept = self.book.memory.get(key)
        if kept and _holds(kept, files):
            _restore(kept, page, config, files)
            return
        asked = _Asked(files)
        with _heard() as complaints, _opened() as opened, _registered(config) as registered:
            type(page).render(page, config, asked)
        # What was complained about is rendered again at every build, so that the complaint comes again; and a package
        # that is none of the book's sources is not in the key.
        if (
            not complaints
            and page.links_to_anchors is not None
            and {*documented} <= {s.name for s in self.book.sources}
        ):
            reads = {path: digest_of(Path(path)) for path in sorted(opened) if self._is_own(path)}
            self.book.memory.put(key, _kept(page) | registered | {"reads": reads, "asked": asked.answers})

    def _is_own(self, path: str) -> bool:
        """Whether a file that was read is neither part of what is installed, whose versions are known, nor a memory.

        Folders count where pages and sources lie: others, such as the project's, change with every build.
        """
        if Path(path).is_dir():
            return any(Path(path).is_relative_to(folder) for folder in (self.book.docs, *self.book.sources))
        installed = Path(path).is_relative_to(sys.prefix) or Path(path).is_relative_to(sys.base_prefix)
        made = Path(path).is_relative_to(self.book.folder) or "__pycache__" in path
        return not (installed or made or "site-packages" in path)


class _Asked(Files):
    """The site's files, and what a page wanted to know of them: to which its links lead, and where those go."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.answers: dict[str, str] = {}

    def get_file_from_path(self, path: str) -> File | None:
        """Return the file, and note the answer."""
        file = super().get_file_from_path(path)
        self.answers[path] = _address(file)
        return file


def _address(file: File | None) -> str:
    return f"{file.src_uri} {file.url} {file.inclusion}" if file else ""


def _holds(kept: dict, files: Files) -> bool:
    """Whether the files that a page was made of are as they were, and its links lead where they led."""
    read = all(digest_of(Path(path)) == was for path, was in kept["reads"].items())
    return read and all(_address(files.get_file_from_path(path)) == was for path, was in kept["asked"].items())


def settings(config: MkDocsConfig) -> str:
    """Return a digest of what mkdocs.yml, the command line and plugins have set, apart from what is elsewhere."""
    hooks: Any = config.hooks  # by name, whatever its type says
    files = [Path(hook.__file__) for hook in hooks.values()] if hooks else []
    files += [Path(config.config_file_path)] if config.config_file_path else []
    return digest(plain(_settled(config)), *map(digest_of, files))


def _settled(value: Any) -> Any:
    """Return a setting as JSON holds it; of an object, only its kind: mkdocs.yml, which made it, is in the key too."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_settled(item) for item in value]
    if isinstance(value, enum.Enum | Path):
        return str(value)
    if hasattr(value, "items"):
        return {str(name): _settled(item) for name, item in value.items() if name not in ELSEWHERE}
    if hasattr(value, "config"):  # a plugin
        return _settled(value.config)
    return f"{type(value).__module__}.{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


def _kept(page: Page) -> dict:
    return {
        "content": page.content,
        "toc": [_token(anchor) for anchor in page.toc],
        "title": page._title_from_render,  # private: page.title mixes it with what nav and front matter say
        "anchors": sorted(page.present_anchor_ids or ()),
        "links": {file.src_uri: anchors for file, anchors in (page.links_to_anchors or {}).items()},
    }


def _token(anchor: AnchorLink) -> dict:
    children = [_token(child) for child in anchor.children]
    return {"name": anchor.title, "id": anchor.id, "level": anchor.level, "children": children}


def _restore(kept: dict, page: Page, config: MkDocsConfig, files: Files) -> None:
    page.content, page.toc = kept["content"], get_toc(kept["toc"])
    page._title_from_render = kept["title"]
    page.present_anchor_ids = set(kept["anchors"])
    linked = ((files.get_file_from_path(uri), anchors) for uri, anchors in kept["links"].items())
    page.links_to_anchors = {file: anchors for file, anchors in linked if file}
    autorefs: Any = config.plugins.get("autorefs")
    for identifier, anchor, title, primary in kept["names"]:
        autorefs.register_anchor(page, identifier, anchor, title=title, primary=primary)
    _enter(kept["objects"], _handlers(config))


@contextlib.contextmanager
def _heard() -> Iterator[list]:
    """Collect what is logged meanwhile; where warnings are not, as under --quiet, say so by an entry."""
    heard: list = []
    handler = logging.NullHandler()
    handler.handle = lambda record: bool(heard.append(record)) or True
    loggers = [logging.getLogger(), logging.getLogger("mkdocs")]  # MkDocs' own logger does not pass on
    if not loggers[1].isEnabledFor(logging.WARNING):
        heard.append("warnings are not heard")
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield heard
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@contextlib.contextmanager
def _opened() -> Iterator[set[str]]:
    """Collect the files that this thread opens for reading, and the folders that it looks into."""
    _listen()
    opened = _listeners[threading.get_ident()] = set()
    try:
        yield opened
    finally:
        del _listeners[threading.get_ident()]


@functools.cache
def _listen() -> None:
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple) -> None:
    opened = _listeners.get(threading.get_ident())
    if opened is None or isinstance(path := next(iter(arguments), None), int | None):
        return
    if event == "open":
        _, mode, flags = arguments
        if not (set(mode or "r") & set("wax+") or flags & WRITES):
            opened.add(os.path.abspath(os.fsdecode(path)))
    elif event in ("os.listdir", "os.scandir"):
        opened.add(os.path.abspath(os.fsdecode(path)))


@contextlib.contextmanager
def _registered(config: MkDocsConfig) -> Iterator[dict[str, list]]:
    """Collect the names that the page offers for links: to other pages, and to other sites in an inventory.

    The events of both plugins leave no trace of what one page has registered. So the method, and the inventory, which
    is an attribute without an underscore, are replaced for the while.
    """
    made: dict[str, list] = {"names": [], "objects": []}
    autorefs: Any = config.plugins.get("autorefs")
    handlers = _handlers(config)

    def register(page, identifier, anchor=None, *, title=None, primary=True) -> None:
        made["names"].append([identifier, anchor, title, primary])
        type(autorefs).register_anchor(autorefs, page, identifier, anchor, title=title, primary=primary)

    if autorefs:
        vars(autorefs)["register_anchor"] = register
    whole = handlers and handlers.inventory
    if handlers:
        handlers.inventory = type(whole)(project=whole.project, version=whole.version)
    try:
        yield made
    finally:
        if autorefs:
            del vars(autorefs)["register_anchor"]
        if handlers:
            made["objects"] = [vars(item) for item in handlers.inventory.values()]
            handlers.inventory = whole
            _enter(made["objects"], handlers)


def _enter(objects: list[dict], handlers: Any) -> None:
    """Enter a page's objects into the inventory, where another name of an object gives way to an object's own name."""
    for item in objects:
        if item["priority"] == 1 or item["name"] not in handlers.inventory:
            handlers.inventory.register(**item)


def _handlers(config: MkDocsConfig) -> Any:
    plugin: Any = config.plugins.get("mkdocstrings")
    return plugin.handlers if plugin and plugin.plugin_enabled else None
