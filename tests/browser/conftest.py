"""A real browser on the real site, served under the path that it has when it is hosted."""

import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import axe
from tests.browser.live_figures import wake
from tests.chromium import served


@pytest.fixture(scope="session")
def site(built_site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the built site under the path of its public address, and return where."""
    sitemap = (built_site / "sitemap.xml").read_text(encoding="utf-8")
    public = min(_locations(sitemap), key=len)
    root = tmp_path_factory.mktemp("served")
    with served(root) as address:
        home = root / urllib.parse.urlparse(public).path.strip("/")
        home.mkdir(parents=True)
        for part in built_site.iterdir():
            (home / part.name).symlink_to(part.resolve())
        url = f"{address}{home.relative_to(root)}/"
        (home / "sitemap.xml").unlink()  # the theme looks up in it whether a link may be followed without a document
        (home / "sitemap.xml").write_text(sitemap.replace(public, url), encoding="utf-8")
        yield url


def _locations(sitemap: str) -> list[str]:
    return re.findall(r"<loc>(.*?)</loc>", sitemap)


@pytest.fixture(scope="session")
def judged() -> dict[str, axe.Judged]:
    """The looks of texts that were judged on the pages before."""
    return {"light": axe.Judged(), "dark": axe.Judged()}


@pytest.fixture
def open_page(site: str, visit) -> Iterator:
    """Return a function that opens a page of the site by its path; in the end no page may have complained."""
    visits = []

    def opened(path: str = "", **options):
        visits.append(visit(site + path, **options))
        return visits[-1].page

    yield opened
    assert [error for visited in visits for error in visited.errors] == []


@pytest.fixture
def open_figure(open_page):
    """Return a function that opens a page and wakes a live figure of it."""
    return lambda path, name, **options: wake(open_page(path, **options), name)


@pytest.fixture
def open_without_scripts(site: str, browser) -> Iterator:
    """Return a function that opens a page of the site in a browser that runs no script."""
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()

        def opened(path: str = ""):
            page.goto(site + path)
            return page

        yield opened
