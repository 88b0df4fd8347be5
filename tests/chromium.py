"""A real browser for tests of pages, and a server for the folder that they lie in."""

import contextlib
import functools
import http.server
import os
import shutil
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
)


def _missing(what: str) -> None:
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser():
    """Return a Chromium, or skip; with REQUIRE_BROWSER=1 its absence is a failure."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("no playwright: pip install -e '.[docs,test]'")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        _missing("no Chromium: install one (Debian: apt install chromium; macOS: brew install --cask chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=[*QUIET, "--disable-sync"])
        yield launched
        launched.close()


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments) -> None:
        """Keep quiet."""


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address) -> None:
        """Keep quiet about a browser that left before it had its answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""
    handler = functools.partial(_Handler, directory=str(folder))
    with _Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@dataclass
class Visit:
    """A page in the browser, with what it asked for and what it complained about."""

    page: object
    requests: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def foreign(self, site: str) -> list[str]:
        """Return the requests that left the site's host."""
        home = urllib.parse.urlparse(site).netloc
        return [url for url in self.requests if urllib.parse.urlparse(url).netloc not in ("", home)]


@pytest.fixture
def visit(browser) -> Iterator:
    """Return a function that opens an address with a color scheme and a width, and watches the page."""
    contexts = []

    def open_page(
        url: str,
        scheme: str = "light",
        width: int = 1440,
        height: int = 900,
        still: bool = True,
        touch: bool = False,
    ) -> Visit:
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            reduced_motion="reduce" if still else "no-preference",
            has_touch=touch,
        )
        contexts.append(context)
        seen = Visit(context.new_page())

        def requested(request) -> None:
            seen.requests.append(request.url)
            if request.resource_type == "document":
                seen.documents.append(request.url)

        seen.page.on("request", requested)
        seen.page.on("pageerror", lambda error: seen.errors.append(str(error)))
        seen.page.on("console", lambda message: seen.errors.append(message.text) if message.type == "error" else None)
        seen.page.on(
            "response", lambda reply: seen.errors.append(f"{reply.status} {reply.url}") if reply.status >= 400 else None
        )
        seen.page.goto(url, wait_until="load")
        seen.page.evaluate("document.fonts.ready")
        return seen

    yield open_page
    for context in contexts:
        context.close()
