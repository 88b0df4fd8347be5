"""The day on which each page was last changed, as git knows it: at the page's foot and in the sitemap.

Where git does not know the history, as in an archive or in a clone of the last commit alone, the day is that of
SOURCE_DATE_EPOCH, and without it none is shown.
"""

import gzip
import os
import re
import subprocess
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

from galley.around.site import Shown, Site

ENTRY = re.compile(r"(?P<loc><loc>(?P<address>[^<]*)</loc>)(?P<day>\s*<lastmod>[^<]*</lastmod>)?")


@cache
def history(root: Path) -> dict[str, date]:
    """Return the day of the last commit of each file, by its place below `root`."""
    if _git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
        return {}
    found: dict[str, date] = {}
    commits = _git(root, "-c", "core.quotePath=off", "log", "--format=%x00%cs", "--name-only", "--relative")
    for commit in commits.split("\0")[1:]:
        day, *names = filter(None, commit.split("\n"))
        for name in names:
            found[name] = max(found.get(name, date.min), date.fromisoformat(day))
    return found


def changed(site: Site, name: str) -> date | None:
    """Return the day on which a file of the project was last changed, where that is known."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    given = datetime.fromtimestamp(int(epoch), UTC).date() if epoch else None
    return history(site.book.root).get(name, given)


def page(html: str, shown: Shown, site: Site) -> str:
    """Say at the end of a page's article when it was last changed."""
    day = None if site.served else changed(site, shown.result.name)
    before, end, after = html.rpartition("</article>")
    if not day or not end:
        return html
    said = f'<time datetime="{day}">{day.day} {day:%B %Y}</time>'
    return f'{before}<p class="updated">Last updated {said}</p>\n{end}{after}'


def sitemap(site: Site) -> None:
    """Give each page of the sitemap its own day in place of the day of the build."""
    path = site.folder / "sitemap.xml"
    if site.served or not path.exists():
        return
    days = {site.address + shown.url: changed(site, shown.result.name) for shown in site.pages}

    def dated(entry: re.Match) -> str:
        day = days.get(entry["address"])
        return entry["loc"] + (f"\n         <lastmod>{day}</lastmod>" if day else "")

    text = ENTRY.sub(dated, path.read_text(encoding="utf-8"))
    site.write("sitemap.xml", text)
    site.write("sitemap.xml.gz", gzip.compress(text.encode("utf-8"), mtime=0))


def _git(root: Path, *command: str) -> str:
    """Return what git says, and nothing where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""
