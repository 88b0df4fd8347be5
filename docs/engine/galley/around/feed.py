"""A feed of changes in Atom's form: one entry for each part of CHANGELOG.md."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from markdown import markdown

from galley.around.dates import changed
from galley.around.site import Shown, Site, alternate

PLACE = "feed.xml"
LOG = "CHANGELOG.md"
ATOM = "http://www.w3.org/2005/Atom"
PART = re.compile(r"^## (?P<name>.+)$", re.M)


@dataclass(frozen=True)
class Change:
    """A part of the changelog: `## 0.2.0 — 2026-12-01`, or one that is not released yet."""

    version: str
    day: date | None
    text: str

    @property
    def title(self) -> str:
        """What a reader of the feed sees first."""
        return f"{self.version} (unreleased)" if self.version[0].isdigit() and not self.day else self.version


def page(html: str, shown: Shown, site: Site) -> str:
    """Name the feed in a page's head."""
    if not (site.book.root / LOG).exists():
        return html
    return alternate(html, "application/atom+xml", f"Changes of {site.name}", f"{shown.up}{PLACE}")


def files(site: Site) -> None:
    """Write the feed."""
    path = site.book.root / LOG
    if path.exists():
        site.write(PLACE, feed(site, list(changes(path.read_text(encoding="utf-8")))))


def changes(text: str) -> Iterator[Change]:
    """Yield the parts of a changelog, the newest first, as they stand."""
    _, *parts = PART.split(text)
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        day = re.search(r"\d{4}-\d\d-\d\d", name)
        yield Change(re.split(r"\s", name)[0].strip("[]"), date.fromisoformat(day[0]) if day else None, body.strip())


def feed(site: Site, found: list[Change]) -> bytes:
    """Return the feed of these changes; what is not released is as old as the last change of the changelog."""
    latest = changed(site, LOG) or max((c.day for c in found if c.day), default=date(1970, 1, 1))
    root = Element("feed", {"xmlns": ATOM, "xml:lang": "en"})
    _say(root, title=f"Changes of {site.name}", id=site.address, updated=_time(latest))
    SubElement(root, "link", {"rel": "self", "type": "application/atom+xml", "href": site.address + PLACE})
    SubElement(root, "link", {"rel": "alternate", "type": "text/html", "href": site.address})
    _say(SubElement(root, "author"), name=", ".join(a["name"] for a in site.project.get("authors", [])) or site.name)
    source = site.project.get("urls", {}).get("Source", site.address)
    for change in found:
        entry = SubElement(root, "entry")
        _say(entry, title=f"{site.name} {change.title}", id=f"{site.address}#changes-{change.version}")
        _say(entry, updated=_time(change.day or latest))
        SubElement(entry, "link", {"rel": "alternate", "href": f"{source}/blob/main/{LOG}"})
        SubElement(entry, "content", {"type": "html"}).text = markdown(change.text, extensions=["tables"])
    indent(root)
    return tostring(root, encoding="utf-8", xml_declaration=True)


def _time(day: date) -> str:
    return f"{day}T00:00:00Z"


def _say(parent: Element, **texts: str) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = text
