"""Serve the site at once and run its pages behind: the progress, in terminal and page."""

import contextlib
import json
import logging
import os
import socket
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.livereload import LiveReloadServer
from mkdocs.structure.files import File, Files

from galley.book import Book
from galley.show.background_runs import BackgroundRuns

log = logging.getLogger("mkdocs.galley")
SCRIPT, PROGRESS = "galley/progress.js", "galley/progress.json"


class Serving:
    """What a book under `mkdocs serve` has beside its site."""

    def __init__(self, book: Book) -> None:
        self.site = Path()
        # The server watches this file. To touch it is the way by which another thread can ask for a new build.
        self.stamp = book.folder / "changed"
        self.stamp.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.touch()
        self.runs = BackgroundRuns(book, self._report, self.stamp.touch)

    def begin(self, config: MkDocsConfig, files: Files) -> None:
        """Add the script that shows the progress to the site; the template names it."""
        self.site = Path(config.site_dir)
        script = Path(__file__).with_name("progress.js")
        files.append(File.generated(config, SCRIPT, abs_src_path=str(script)))

    def watch(self, server: LiveReloadServer) -> None:
        """Let the server build again when there is something new to show."""
        server.watch(str(self.stamp))

    def _report(self, line: str) -> None:
        if line:
            log.info("%s", line)
        path = self.site / PROGRESS
        # MkDocs may just be cleaning the folder; the next report writes the file again.
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            # The page may ask at any moment, and must not get half of the file.
            part = path.with_suffix(".part")
            part.write_text(json.dumps(self.runs.progress()), encoding="utf-8")
            os.replace(part, path)


def check_port(address: str) -> None:
    """Stop in one line where the port is taken, before anything is built."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        # As the server itself does: else the port counts as taken for a minute after a server has ended.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            advice = f"stop what uses it, or choose another: make serve PORT={int(port) + 1}"
            raise Abort(f"port {port} is in use; {advice}") from None
