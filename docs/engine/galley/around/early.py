"""What a browser has to have before it can draw a page, told to it as early as can be, in as few files as can be."""

import posixpath
import re

from galley.around.site import Shown, Site
from galley.store import digest

FIRST = ("posenc-serif-latin-normal.woff2", "source-sans-3-latin-wght-normal.woff2")  # every page begins with both
LINK = re.compile(r'<link rel="stylesheet" href="((?:\.\./)*)([^":?]+\.css)"[^>]*>\s*')
ADDRESS = re.compile(r"""url\((['"]?)(?!data:|#|/|https?:)([^'")]+)\1\)""")
STRING = r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
COMMENT = re.compile(rf"{STRING}|/\*(?!!).*?\*/", re.S)  # with a ! it is the notice of a license
SPACE = re.compile(r"\s*\n\s*")


def early(html: str, shown: Shown, site: Site) -> str:
    """Return a page with one stylesheet in place of all, and the fonts of its first words named before it."""
    return gathered(html, site)


def gathered(html: str, site: Site) -> str:
    """Return the same of any HTML of the site, whether or not it is a page of the book."""
    links = list(LINK.finditer(html))
    if site.served or not links:
        return html
    up, places = links[0][1], [link[2] for link in links]
    fonts = "".join(
        f'<link rel="preload" href="{up}assets/fonts/{font}" as="font" type="font/woff2" crossorigin>' for font in FIRST
    )
    sheet = f'<link rel="stylesheet" href="{up}{_together(places, site)}">\n'
    return html[: links[0].start()] + fonts + sheet + LINK.sub("", html[links[0].end() :])


def _together(places: list[str], site: Site) -> str:
    """Write these stylesheets as one, and return its place."""
    styles = "\n".join(_moved((site.folder / place).read_text(encoding="utf-8"), place) for place in places)
    place = f"assets/stylesheets/all.{digest(styles)[:8]}.min.css"
    if not (site.folder / place).exists():
        site.write(place, styles)
    return place


def _moved(style: str, place: str) -> str:
    """Return a stylesheet, without what a browser skips, for the folder of the one that has all."""
    folder = posixpath.relpath(posixpath.dirname(place) or ".", "assets/stylesheets")

    def address(match: re.Match) -> str:
        return f"url({match[1]}{posixpath.normpath(posixpath.join(folder, match[2]))}{match[1]})"

    return SPACE.sub("\n", ADDRESS.sub(address, COMMENT.sub(r"\1", style))).strip()
