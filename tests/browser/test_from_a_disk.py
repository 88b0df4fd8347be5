"""The offline zip works from a disk, with no server: links, search and live figures, and nothing from anywhere else."""

import os
import zipfile
from pathlib import Path

import pytest

from galley.around import offline
from tests.browser.live_figures import wake

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def disk(built_site, tmp_path_factory) -> str:
    """Return the address of the site as it lies on a disk, unzipped."""
    if not (ROOT / offline.BUNDLER).exists():
        missing = pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip
        missing("needs what `make scripts` installs")
    place = tmp_path_factory.mktemp("a disk")
    offline.pack(built_site, ROOT, place / "posenc.zip")
    with zipfile.ZipFile(place / "posenc.zip") as packed:
        packed.extractall(place)
    return (place / "posenc").as_uri() + "/"


@pytest.fixture
def opened(disk, visit):
    """Return a function that opens a page of it; in the end nothing was fetched from elsewhere, nothing complained."""
    seen = []

    def open_page(path: str):
        seen.append(visit(disk + path))
        return seen[-1].page

    yield open_page
    for visited in seen:
        assert visited.errors == []
        assert [url for url in visited.requests if not url.startswith((disk, "data:", "blob:"))] == []


def test_a_click_leads_from_the_home_page_to_a_chapter(opened, disk):
    page = opened("index.html")
    page.locator(".md-tabs__link", has_text="3 RoPE").click()
    page.wait_for_url(disk + "chapters/3-rope/index.html")
    page.locator("article a[href='derivation/index.html']:visible").first.click()
    page.wait_for_url(disk + "chapters/3-rope/derivation/index.html")
    page.locator("h1", has_text="3.1").wait_for()


def test_the_search_finds_a_page_and_leads_there(opened, disk):
    page = opened("chapters/3-rope/derivation/index.html")
    page.keyboard.press("/")
    page.locator(".md-search__input").press_sequentially("rope")
    page.locator(".md-search-result__link").first.wait_for()
    assert "rope" in page.locator(".md-search-result__list").inner_text().lower()
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url(lambda url: url.startswith(disk) and ".html" in url and "derivation" not in url)


def test_a_live_figure_moves(opened):
    page = opened("chapters/1-sinusoidal/designing-a-code/index.html")
    figure, _, said = wake(page, "bits-and-hands")
    before = said()
    figure.locator("input[type=range]").first.press("End")
    assert said() != before


@pytest.mark.parametrize("path", ["explorer/index.html", "chapters/1-sinusoidal/geometry/index.html"])
def test_the_explorer_answers_on_its_page_and_in_a_chapter(opened, path):
    figure, _, _ = wake(opened(path), "explorer")
    figure.locator("canvas").first.wait_for()
    figure.locator("input[type=range]").first.press("ArrowRight")


@pytest.mark.parametrize("path", ["gallery", "museum", "reference/rotate", "workbook/cards", "reference/read-a-config"])
def test_a_page_opens(opened, path):
    assert opened(f"{path}/index.html").locator("h1").first.inner_text()
