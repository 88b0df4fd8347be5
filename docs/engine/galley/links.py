"""Check the links of a page: files that do not exist, anchors that lead nowhere."""

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from markdown.extensions.toc import slugify, unique

from galley import cells
from galley.page import Page, Problem


class Anchors:
    """The anchors of each page, found once; `pages` are those that were read already."""

    def __init__(self, docs: Path, pages: dict[Path, Page] | None = None) -> None:
        self.docs, self.pages, self.known = docs, pages or {}, {}

    def of(self, path: Path) -> set[str]:
        """Return the anchors of a page: its headings as the site names them, and explicit ids."""
        if path not in self.known:
            page = self.pages.get(path)
            text = "" if page else path.read_text(encoding="utf-8", errors="replace")
            self.known[path] = anchors(page or cells.read(path.name, text))
        return self.known[path]


def anchors(page: Page) -> set[str]:
    """Return the anchors a page offers."""
    used: set[str] = set()
    for _, _, title, explicit in page.headings:
        if explicit:
            used.add(explicit)
        else:
            unique(slugify(_text(title), "-"), used)
    return used | set(re.findall(r'\bid="([^"]+)"', page.text))


def check_links(page: Page, path: Path, known: Anchors) -> list[Problem]:
    """Return the links inside the book that lead nowhere."""
    found = []
    for line, target in page.links:
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        file = file.partition("?")[0]  # a view of the page
        goal = Path(posixpath.normpath((path.parent / file).as_posix())) if file else path
        if not goal.exists():
            if goal.suffix != ".ipynb" or not goal.with_suffix(".md").exists():
                found.append(Problem(line, f"link to nowhere: {target}"))
        elif not anchor or goal.suffix not in (".md", cells.SUFFIX) or anchor.startswith("posenc."):
            continue
        elif anchor not in known.of(goal):
            found.append(Problem(line, f"link to nowhere: {file or 'this page'} has no #{anchor}"))
    return found


def _text(title: str) -> str:
    """Return a heading as the reader sees it."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[`*]|\\(?=[\W_])", "", title).strip()
