"""The whole book on its branch: each figure is drawn, each link leads to a file and to a heading as GitHub has them."""

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from galley import plugin
from galley.__main__ import by_place
from galley.around import branch
from galley.around.site import Site
from galley.links import plain_title
from galley.page import Page, parse
from tests.pages.test_book import BOOK, PAGES

ANCHOR = re.compile(r'<a id="([^"]+)"></a>')


@pytest.fixture(scope="module")
def folder(pytestconfig, tmp_path_factory) -> Path:
    folder, results = tmp_path_factory.mktemp("branch"), plugin.results(pytestconfig, PAGES)
    branch.write(Site.of(folder, BOOK, by_place(BOOK, results)))
    return folder


@pytest.fixture(scope="module")
def pages(folder) -> dict[str, Page]:
    return {path.relative_to(folder).as_posix(): parse(path.read_text("utf-8")) for path in folder.rglob("*.md")}


def test_every_figure_of_the_book_is_there(folder, pages):
    drawn = [(name, figure.src) for name, page in pages.items() for block in page.blocks for figure in block.figures]
    missing = [f"{name}: {src}" for name, src in drawn if not (folder / name).parent.joinpath(src).is_file()]
    assert missing == []
    meant = {name for name, page in PAGES.items() if any(block.figures for block in page.blocks)}
    assert {f"docs/{name}" for name, _ in drawn} == {name for name in meant if name.endswith(".md")}
    for path in folder.rglob("*.svg"):
        ElementTree.parse(path)


def test_every_link_leads_somewhere(folder, pages):
    anchors = {name: _anchors(page) for name, page in pages.items()}
    lost = []
    for name, page in pages.items():
        for link in page.links:
            file, _, anchor = unquote(link.target).partition("#")
            goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
            if re.match(r"[a-z]+:", link.target):
                continue
            if not (folder / goal).is_file() or (anchor and goal in pages and anchor not in anchors[goal]):
                lost.append(f"{name}:{link.line}: {link.target}")
    assert lost == []


def test_no_page_shows_what_only_the_site_reads(pages):
    for name, page in pages.items():
        prose = "\n".join(text for _, text in page.prose)
        assert not re.search(r"^::: |^#+ .*\{#|(?<=[\w`])\]\[posenc", prose, re.M), name
        assert name == "README.md" or page.meta_lines == 0, name


def _anchors(page: Page) -> set[str]:
    titles = (plain_title(ANCHOR.sub("", title)).strip().lower() for _, _, title, _ in page.headings)
    named = {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}
    return named | set(ANCHOR.findall(page.text))
