"""A real browser on the real site: built once for the session, served under the path that it has when it is hosted."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
)
BUILD = """
import sys
from mkdocs.commands.build import build
from mkdocs.config import load_config
config = load_config("mkdocs.yml", site_url=sys.argv[1], site_dir=sys.argv[2])
config.plugins.on_startup(command="build", dirty=False)
build(config)
"""


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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site, serve it under /posenc/ and return that address, which is its `site_url` too."""
    pytest.importorskip("mkdocs", reason="no mkdocs: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_port}/posenc/"
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
        command = [sys.executable, "-c", BUILD, url, str(folder / "posenc")]
        built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert built.returncode == 0, f"the site does not build:\n{built.stderr[-4000:]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield url
        server.shutdown()


@pytest.fixture(scope="session")
def paths(site: str) -> list[str]:
    """Return the path of every page in the sitemap, relative to the site."""
    tree = ET.fromstring(urllib.request.urlopen(f"{site}sitemap.xml").read())
    found = sorted(location.text.removeprefix(site) for location in tree.iterfind(".//{*}loc"))
    assert len(found) > 10
    return found


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

    def open_page(url: str, scheme: str = "light", width: int = 1440, height: int = 900, still: bool = True) -> Visit:
        context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": height},
            reduced_motion="reduce" if still else "no-preference",
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
