"""All that replaces or writes what MkDocs, autorefs and mkdocstrings keep to themselves, for the versions below.

MkDocs has no event around the rendering of one page, autorefs and mkdocstrings leave no trace of what one page has
registered. Rendering from a cache needs both. After an upgrade of one of them look here first; a test compares the
versions with those that are pinned.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mkdocstrings_handlers.python
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import AnchorLink, get_toc

WRITTEN_FOR = {"mkdocs": "1.6.1", "mkdocs-autorefs": "1.4.5", "mkdocstrings": "1.0.8"}
# Where mkdocstrings has the stylesheet of the reference, which it would have each page ask for by itself.
REFERENCE_TEMPLATES = Path(mkdocstrings_handlers.python.__file__).parent / "templates"
# What mkdocstrings takes for the name of something to document.
OBJECT = re.compile(r"^(?:#{1,6} *)?::: ?(.+?) *$", re.M)


def replace_render(page: Page, render: Callable[[Page, MkDocsConfig, Files], None]) -> None:
    """Let `render` do what the page's own method would do."""
    vars(page)["render"] = partial(render, page)


def rendered(page: Page) -> dict:
    """Return what a page holds after it was rendered, as JSON can hold it."""
    return {
        "content": page.content,
        "toc": [_token(anchor) for anchor in page.toc],
        "title": page._title_from_render,  # page.title mixes it with what nav and front matter say
        "anchors": sorted(page.present_anchor_ids or ()),
        "links": {file.src_uri: anchors for file, anchors in (page.links_to_anchors or {}).items()},
    }


def restore(stored: dict, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Give a page what it held after it was rendered, and enter its names where others look them up."""
    page.content = stored["content"]
    page.toc = get_toc(stored["toc"])
    page._title_from_render = stored["title"]
    # MkDocs checks the anchors of all pages when all are rendered, by what each has noted in these two.
    page.present_anchor_ids = set(stored["anchors"])
    linked = ((files.get_file_from_path(uri), anchors) for uri, anchors in stored["links"].items())
    page.links_to_anchors = {file: anchors for file, anchors in linked if file}
    autorefs: Any = config.plugins.get("autorefs")
    for identifier, anchor, title, primary in stored["names"]:
        autorefs.register_anchor(page, identifier, anchor, title=title, primary=primary)
    _enter(stored["objects"], _handlers(config))


class AskedFiles(Files):
    """The site's files, and what a page wanted to know of them: to which its links lead, and where those go."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.answers: dict[str, str] = {}

    def get_file_from_path(self, path: str) -> File | None:
        """Return the file, and note the answer."""
        file = super().get_file_from_path(path)
        self.answers[path] = address(file)
        return file


def address(file: File | None) -> str:
    """Return what a link to a file hangs on."""
    return f"{file.src_uri} {file.url} {file.inclusion}" if file else ""


@contextlib.contextmanager
def registered(config: MkDocsConfig) -> Iterator[dict[str, list]]:
    """Collect the `names` that a page offers for links, and the `objects` that it enters into the inventory.

    For the while, autorefs' method is replaced, and so is the inventory.
    """
    names: dict[str, list] = {"names": [], "objects": []}
    autorefs: Any = config.plugins.get("autorefs")
    handlers = _handlers(config)

    def register(page, identifier, anchor=None, *, title=None, primary=True) -> None:
        names["names"].append([identifier, anchor, title, primary])
        type(autorefs).register_anchor(autorefs, page, identifier, anchor, title=title, primary=primary)

    # Set on the object, it hides the method of its class until it is deleted.
    if autorefs:
        vars(autorefs)["register_anchor"] = register
    inventory = handlers and handlers.inventory
    # The inventory of the site is set aside, so that all that is then in its place comes from this page.
    if handlers:
        handlers.inventory = type(inventory)(project=inventory.project, version=inventory.version)
    try:
        yield names
    finally:
        if autorefs:
            del vars(autorefs)["register_anchor"]
        if handlers:
            names["objects"] = [vars(item) for item in handlers.inventory.values()]
            handlers.inventory = inventory
            _enter(names["objects"], handlers)


def _token(anchor: AnchorLink) -> dict:
    """Return a heading as Python-Markdown's `toc_tokens` holds it, from which `get_toc` makes it again."""
    children = [_token(child) for child in anchor.children]
    return {"name": anchor.title, "id": anchor.id, "level": anchor.level, "children": children}


def _enter(objects: list[dict], handlers: Any) -> None:
    """Enter a page's objects into the inventory, where another name of an object gives way to an object's own name."""
    for item in objects:
        if item["priority"] == 1 or item["name"] not in handlers.inventory:
            handlers.inventory.register(**item)


def _handlers(config: MkDocsConfig) -> Any:
    """Return the handlers of mkdocstrings, which hold the inventory, where the plugin is in use."""
    plugin: Any = config.plugins.get("mkdocstrings")
    return plugin.handlers if plugin and plugin.plugin_enabled else None
