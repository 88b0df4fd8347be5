"""Serve the site at once and run its pages behind: the progress, in terminal and page."""

import contextlib
import html
import json
import logging
import os
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.livereload import LiveReloadServer
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from galley.behind import Behind
from galley.book import Book

log = logging.getLogger("mkdocs.galley")
SCRIPT, PROGRESS = "galley/progress.js", "galley/progress.json"


class Serving:
    """What a book under `mkdocs serve` has beside its site."""

    def __init__(self, book: Book) -> None:
        self.site = Path()
        self.stamp = book.folder / "changed"
        self.stamp.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.touch()
        self.behind = Behind(book, self._told, self.stamp.touch)

    def begin(self, config: MkDocsConfig, files: Files) -> None:
        """Add the script that shows the progress to the site."""
        self.site = Path(config.site_dir)
        script = Path(__file__).with_name("progress.js")
        files.append(File.generated(config, SCRIPT, abs_src_path=str(script)))

    def watch(self, server: LiveReloadServer) -> None:
        """Let the server build again when there is something new to show."""
        server.watch(str(self.stamp))

    def shown(self, output: str, page: Page, name: str) -> str:
        """Return a page that says how far its book is."""
        script = get_relative_url(SCRIPT, page.url)
        tag = f'<script type="module" src="{script}" data-page="{html.escape(name)}"></script>'
        return output.replace("</body>", f"{tag}</body>", 1)

    def _told(self, line: str) -> None:
        if line:
            log.info("%s", line)
        path = self.site / PROGRESS
        with contextlib.suppress(OSError):  # the site may just be cleaned; it is told again when it is built
            path.parent.mkdir(exist_ok=True)
            part = path.with_suffix(".part")
            part.write_text(json.dumps(self.behind.progress()), encoding="utf-8")
            os.replace(part, path)
