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
    request_queue_size = 128  # a page asks for forty files at once

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

    def __post_init__(self) -> None:
        self.finger = None
        self.listeners = {
            "request": self._requested,
            "pageerror": lambda error: self.errors.append(str(error)),
            "console": lambda message: self.errors.append(message.text) if message.type == "error" else None,
            "response": self._answered,
        }

    def _requested(self, request) -> None:
        self.requests.append(request.url)
        if request.resource_type == "document":
            self.documents.append(request.url)

    def _answered(self, reply) -> None:
        if reply.status >= 400:
            self.errors.append(f"{reply.status} {reply.url}")

    def touch(self) -> None:
        """Give the screen to a finger."""
        self.finger = self.page.context.new_cdp_session(self.page)
        self.finger.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    def tap(self, element) -> None:
        """Touch an element in its middle."""
        element.scroll_into_view_if_needed()
        box = element.bounding_box()
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self.finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
        self.finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    def lift(self) -> None:
        """Take the finger away."""
        if self.finger:
            self.finger.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
            self.finger.detach()
            self.finger = None

    def watch(self) -> None:
        """Begin to note what the page does."""
        for event, listener in self.listeners.items():
            self.page.on(event, listener)

    def leave(self) -> None:
        """Note no more."""
        self.lift()
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)

    def foreign(self, site: str) -> list[str]:
        """Return the requests that left the site's host."""
        home = urllib.parse.urlparse(site).netloc
        return [url for url in self.requests if urllib.parse.urlparse(url).netloc not in ("", home)]


class Tabs:
    """Pages that tests hand on to each other: what has shown a page of the site shows the next with less work."""

    def __init__(self, browser) -> None:
        self.browser = browser
        self.context = None
        self.free = []

    def take(self):
        """Return an empty page in front of the others: one behind them is drawn once a second."""
        self.context = self.context or self.browser.new_context()
        page = self.free.pop() if self.free else self.context.new_page()
        page.bring_to_front()
        return page

    def give_back(self, page) -> None:
        """Take away what a test has left in a page: routes, permissions, what was stored, where the pointer was."""
        page.unroute_all(behavior="ignoreErrors")
        page.context.clear_permissions()
        page.evaluate("() => { localStorage.clear(); sessionStorage.clear() }")
        page.mouse.move(-1, -1)
        page.goto("about:blank")
        self.free.append(page)

    def drop(self) -> None:
        """Close all pages, and forget what they have stored."""
        if self.context:
            self.context.close()
        self.context, self.free = None, []


@pytest.fixture(scope="session")
def tabs(browser) -> Tabs:
    """Return the pages of this process."""
    return Tabs(browser)


@pytest.fixture
def visit(tabs, request) -> Iterator:
    """Return a function that opens an address with a color scheme and a width, and watches the page."""
    used, failed = [], request.session.testsfailed

    def open_page(
        url: str, scheme: str = "light", width: int = 1440, height: int = 900, still: bool = True, touch: bool = False
    ) -> Visit:
        seen = Visit(tabs.take())
        used.append(seen)
        seen.page.set_viewport_size({"width": width, "height": height})
        motion = "reduce" if still else "no-preference"
        seen.page.emulate_media(media="screen", color_scheme=scheme, reduced_motion=motion)
        if touch:
            seen.touch()
        seen.watch()
        seen.page.goto(url, wait_until="load")
        seen.page.evaluate("document.fonts.ready")
        return seen

    yield open_page
    if request.session.testsfailed > failed:  # who knows in which state it has left them
        tabs.drop()
    else:
        for seen in used:
            seen.leave()
            tabs.give_back(seen.page)
