"""Icons, their manifest, and robots.txt."""

import io
import json

from PIL import Image

from galley.around import icons
from tests.engine.sites import html, shown, small


def test_a_site_has_icons_that_its_manifest_and_its_pages_name(project):
    site = small(project)
    icons.files(site)
    manifest = json.loads((site.folder / "manifest.webmanifest").read_text(encoding="utf-8"))
    for listed in manifest["icons"]:
        image = Image.open(io.BytesIO((site.folder / listed["src"]).read_bytes()))
        assert f"{image.width}x{image.height}" == listed["sizes"]
    page = shown(site, "chapters/3-rope/turn.md")
    text = icons.page(html(site, page.uri), page, site)
    assert '<link rel="apple-touch-icon" href="../../../assets/images/touch-icon.png">' in text
    assert '<link rel="manifest" href="../../../manifest.webmanifest">' in text
    assert Image.open(io.BytesIO((site.folder / icons.TOUCH).read_bytes())).size == (180, 180)


def test_crawlers_are_told_where_the_sitemap_is(project):
    site = small(project)
    icons.files(site)
    robots = (site.folder / "robots.txt").read_text(encoding="utf-8")
    assert "Sitemap: https://example.org/book/sitemap.xml" in robots
