"""Render a page only when something that it is made of has changed.

Rendering is what MkDocs does to one page: Markdown to HTML, with a list of its headings, the links it checked and the
names that others may link to. All of that comes from the cache where the key says so. What follows (cross-references,
tags, the check of anchors, templates) MkDocs does at every build, since it concerns several pages at once.
"""

import contextlib
import enum
import functools
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from galley.book import Book
from galley.run.content_cache import contents, digest_of, engine_digest, plain
from galley.run.dependencies import digest
from galley.show import mkdocs_internals
from galley.show.mkdocs_internals import OBJECT, AskedFiles

# Where a site is served from, how it was asked for, and what works on rendered pages alone.
OF_NO_PAGE = {
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


class RenderCache:
    """Renders the pages of one build."""

    def __init__(self, book: Book, config: MkDocsConfig) -> None:
        self.book = book
        self.settings = digest(engine_digest(), settings(config), digest_of(book.root / "pyproject.toml"))

    def render(self, page: Page, config: MkDocsConfig, files: Files) -> None:
        """Do what `page.render` does, or bring back what it did."""
        # A page that documents a module changes with it and with what it imports: all of the sources is in its key.
        documented = {name.partition(".")[0] for name in OBJECT.findall(page.markdown or "")}
        sources = [contents(root, root.rglob("*.py*")) for root in self.book.sources] if documented else []
        key = digest("render", self.settings, page.file.src_uri, page.markdown or "", *sources)
        stored = self.book.content_cache.get(key)
        if stored and _is_current(stored, files):
            mkdocs_internals.restore(stored, page, config, files)
            return
        files_of_page = AskedFiles(files)
        # Of its class, since `render` of the page itself leads here.
        with _complaints() as complaints, _opened() as opened, mkdocs_internals.registered(config) as names:
            type(page).render(page, config, files_of_page)
        # What was complained about is rendered again at every build, so that the complaint comes again; and a package
        # that is none of the book's sources is not in the key. With --verbose MkDocs keeps no list of links to anchors,
        # and a page without it would never be checked.
        foreign = documented - {source.name for source in self.book.sources}
        if not complaints and not foreign and page.links_to_anchors is not None:
            reads = {path: digest_of(Path(path)) for path in sorted(opened) if self._is_own(path)}
            rendered = mkdocs_internals.rendered(page) | names
            self.book.content_cache.put(key, rendered | {"reads": reads, "asked": files_of_page.answers})

    def _is_own(self, path: str) -> bool:
        """Whether a file that was read is neither part of what is installed, whose versions are known, nor of a cache.

        Folders count where pages and sources lie: others, such as the project's, change with every build.
        """
        if Path(path).is_dir():
            return any(Path(path).is_relative_to(folder) for folder in (self.book.docs, *self.book.sources))
        installed = Path(path).is_relative_to(sys.prefix) or Path(path).is_relative_to(sys.base_prefix)
        cached = Path(path).is_relative_to(self.book.folder) or "__pycache__" in path
        return not (installed or cached or "site-packages" in path)


def _is_current(stored: dict, files: Files) -> bool:
    """Whether the files that a page was made of are as they were, and its links lead where they led."""
    if any(digest_of(Path(path)) != before for path, before in stored["reads"].items()):
        return False
    address = mkdocs_internals.address
    return all(address(files.get_file_from_path(path)) == before for path, before in stored["asked"].items())


def settings(config: MkDocsConfig) -> str:
    """Return a digest of what mkdocs.yml, the command line and plugins have set, apart from what is of no page."""
    hooks: Any = config.hooks  # by name, whatever its type says
    # Of hooks and of functions in mkdocs.yml, such as the one that sets a fence, a setting holds only the name.
    files = [Path(hook.__file__) for hook in hooks.values()] if hooks else []
    files += [Path(config.config_file_path)] if config.config_file_path else []
    return digest(plain(_as_json(config)), *map(digest_of, files))


def _as_json(value: Any) -> Any:
    """Return a setting as JSON holds it; of an object, only its kind: mkdocs.yml, which made it, is in the key too."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_json(item) for item in value]
    if isinstance(value, enum.Enum | Path):
        return str(value)
    if hasattr(value, "items"):
        return {str(name): _as_json(item) for name, item in value.items() if name not in OF_NO_PAGE}
    if hasattr(value, "config"):  # a plugin
        return _as_json(value.config)
    return f"{type(value).__module__}.{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


@contextlib.contextmanager
def _complaints() -> Iterator[list]:
    """Collect what is logged meanwhile; where warnings are not, as under --quiet, say so by an entry."""
    collector = _Collector()
    # MkDocs' own logger does not pass on to the root what it logs.
    loggers = [logging.getLogger(), logging.getLogger("mkdocs")]
    if not loggers[1].isEnabledFor(logging.WARNING):
        collector.complaints.append("warnings are not logged")
    for logger in loggers:
        logger.addHandler(collector)
    try:
        yield collector.complaints
    finally:
        for logger in loggers:
            logger.removeHandler(collector)


class _Collector(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[logging.LogRecord | str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.complaints.append(record)


@contextlib.contextmanager
def _opened() -> Iterator[set[str]]:
    """Collect the files that this thread opens for reading, and the folders that it looks into."""
    _listen()
    opened = _listeners[threading.get_ident()] = set()
    try:
        yield opened
    finally:
        del _listeners[threading.get_ident()]


# Python has no way to take an audit hook back: there is one for all pages, which does nothing between them.
@functools.cache
def _listen() -> None:
    sys.addaudithook(_note)


def _note(event: str, arguments: tuple) -> None:
    """Note what the thread opens, where a page is being rendered in it."""
    opened = _listeners.get(threading.get_ident())
    if opened is None:
        return
    # A number is a file that is open already, and nothing is the folder of the process.
    path = next(iter(arguments), None)
    if path is None or isinstance(path, int):
        return
    if event == "open":
        _, mode, flags = arguments
        if not (set(mode or "r") & set("wax+") or flags & WRITES):
            opened.add(os.path.abspath(os.fsdecode(path)))
    elif event in ("os.listdir", "os.scandir"):
        opened.add(os.path.abspath(os.fsdecode(path)))
