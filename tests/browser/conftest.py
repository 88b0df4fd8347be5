"""A real browser on the real site: built once for the session, served under the path that it has when it is hosted."""

import os
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.live import wake
from tests.chromium import served

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from mkdocs.commands.build import build
from mkdocs.config import load_config
config = load_config("mkdocs.yml", site_url=sys.argv[1], site_dir=sys.argv[2])
config.plugins.on_startup(command="build", dirty=False)
build(config)
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site, serve it under /posenc/ and return that address, which is its `site_url` too."""
    pytest.importorskip("mkdocs", reason="no mkdocs: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    with served(folder) as address:
        url = f"{address}posenc/"
        environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
        command = [sys.executable, "-c", BUILD, url, str(folder / "posenc")]
        built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert built.returncode == 0, f"the site does not build:\n{built.stderr[-4000:]}"
        yield url


@pytest.fixture(scope="session")
def paths(site: str) -> list[str]:
    """Return the path of every page in the sitemap, relative to the site."""
    tree = ET.fromstring(urllib.request.urlopen(f"{site}sitemap.xml").read())
    found = sorted(location.text.removeprefix(site) for location in tree.iterfind(".//{*}loc"))
    assert len(found) > 10
    return found


@pytest.fixture
def figure(site: str, visit):
    """Return a function that opens a page and wakes a live figure of it; it reads numbers without their commas."""

    def opened(path: str, name: str):
        found, data, said = wake(visit(site + path).page, name)
        return found, data, lambda: said().replace(",", "")

    return opened
