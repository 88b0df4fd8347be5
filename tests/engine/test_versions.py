"""Versions of a site beside each other, as mike puts them; an address without one leads to the latest."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from galley.around import versions
from tests.engine.conftest import Project

ADDRESS = "https://example.org/book/"
BIN = Path(sys.executable).parent
SETTINGS = "plugins:\n  - mike: {alias_type: copy, canonical_version: latest/}\n"
pytest.importorskip("mike")
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The root of a site with the version 0.1, which is the latest."""
    project = Project(tmp_path_factory.mktemp("versions"))
    project.page("index.md", "# Home\n")
    project.page("page.md", "# A page\n\n## Rows\n")
    with (project.root / "mkdocs.yml").open("a") as settings:
        settings.write(SETTINGS)
    run = runner(project.root)
    run("git init --quiet --initial-branch main")
    run("git add docs")
    run("git -c user.name=a -c user.email=a@example.org commit --quiet --message pages")
    run(f"{BIN / 'mike'} deploy 0.1 latest")
    run("git worktree add --quiet root gh-pages")
    versions.write(project.root / "root", ADDRESS)
    return project.root / "root"


def runner(folder):
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    named = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = os.environ | named | {"PATH": path, "NO_MKDOCS_2_WARNING": "1"}

    def run(line):
        done = subprocess.run(line.split(), cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_a_version_and_the_latest_hold_the_whole_site(root):
    assert json.loads((root / "versions.json").read_text())[0]["aliases"] == ["latest"]
    for version in ("0.1", "latest"):
        assert (root / version / "page/index.html").is_file()


def test_every_version_names_the_page_of_the_latest_as_the_one_to_find(root):
    page = (root / "0.1/page/index.html").read_text(encoding="utf-8")
    assert f'<link rel="canonical" href="{ADDRESS}latest/page/">' in page


def test_each_page_has_an_address_without_a_version_also_without_script(root):
    moved = (root / "page/index.html").read_text(encoding="utf-8")
    assert '<meta http-equiv="refresh" content="0; url=../latest/page/">' in moved
    assert f'<link rel="canonical" href="{ADDRESS}latest/page/">' in moved
    assert "<title>A page - book</title>" in moved
    assert 'url=latest/"' in (root / "index.html").read_text(encoding="utf-8")


def test_what_others_look_for_at_the_root_is_there(root):
    assert (root / "sitemap.xml").read_bytes() == (root / "latest/sitemap.xml").read_bytes()
    assert f"{ADDRESS}latest/page/" in (root / "sitemap.xml").read_text()


def test_an_address_that_is_not_there_is_looked_for_in_the_latest(root, visit):
    missing = (root / "404.html").read_text(encoding="utf-8")
    opened = visit("about:blank").page

    def answer(route):
        place = route.request.url.partition("/book/")[2].partition("?")[0]
        file = root / place / "index.html"
        there = file.is_file()
        body = file.read_text(encoding="utf-8") if there else missing
        route.fulfill(status=200 if there else 404, body=body, content_type="text/html")

    opened.route(f"{ADDRESS}**", answer)
    reached = {}
    for place in ("page/?a=1#rows", "gone/notebook.ipynb?a=1#b", "latest/gone/", "0.1/gone/", "0.1/page/"):
        opened.goto(f"{ADDRESS}{place}")
        opened.wait_for_timeout(300)
        reached[place] = opened.url.removeprefix(ADDRESS)
    assert reached == {
        "page/?a=1#rows": "latest/page/?a=1#rows",
        "gone/notebook.ipynb?a=1#b": "latest/gone/notebook.ipynb?a=1#b",
        "latest/gone/": "latest/gone/",
        "0.1/gone/": "0.1/gone/",
        "0.1/page/": "0.1/page/",
    }
