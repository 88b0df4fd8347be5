"""What stands above the versions of a site: python -m galley.around.versions FOLDER, where mike has put them.

An address without a version, such as one from before there were any, leads to the same page of the latest.
"""

import html
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

from galley.book import Book

LATEST = "latest"
MOVED = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{title}</title>
<link rel="canonical" href="{canonical}">
<script>location.replace("{way}" + location.search + location.hash)</script>
<meta http-equiv="refresh" content="0; url={way}">
<a href="{way}">{title}</a>
"""
# A host of static pages shows the 404.html at its root for whatever it lacks, in any version.
FIND = """\
<script>{{
  const [place, base] = [location.pathname, "{base}"]
  if (place.startsWith(base) && !/^(dev|latest|\\d+\\.\\d+)(\\/|$)/.test(place.slice(base.length)))
    location.replace(base + "latest/" + place.slice(base.length) + location.search + location.hash)
}}</script>"""


def write(folder: Path, address: str) -> None:
    """Write what leads from the root of a site, which is reached at `address`, into its latest version."""
    latest = folder / LATEST
    for path in sorted(latest.rglob("*.html")):
        place = path.relative_to(latest)
        if place.as_posix() == "404.html":
            found = path.read_text(encoding="utf-8").replace("<head>", f"<head>{_find(address)}", 1)
            (folder / place).write_text(found, encoding="utf-8")
        else:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(_moved(path, place, address), encoding="utf-8")
    for path in latest.iterdir():
        if path.is_file() and path.suffix != ".html":  # what others look for at the root: sitemap.xml, llms.txt, a feed
            (folder / path.name).write_bytes(path.read_bytes())


def _find(address: str) -> str:
    return FIND.format(base=urlsplit(address).path)


def _moved(path: Path, place: Path, address: str) -> str:
    goal = f"{LATEST}/{place.as_posix()}".removesuffix("index.html")
    title = re.search(r"<title>(.*?)</title>", path.read_text(encoding="utf-8"), re.S)
    way = "../" * (len(place.parts) - 1) + goal
    return MOVED.format(title=title[1].strip() if title else html.escape(goal), way=way, canonical=f"{address}{goal}")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Book.find().site)
