"""Check the links of a page: files that do not exist, anchors that lead nowhere."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from markdown.extensions.toc import slugify, unique

from galley.read import notebook
from galley.read.page import COMMENT, Link, Page, Problem

CHAPTER = re.compile(r"(?:^|\b[Cc]hapter\s+)(\d\.\d)(?![.\d]|\w)")


class Anchors:
    """The anchors of each page, and the number in its title, found once; `pages` are those that were read already."""

    def __init__(self, pages: dict[Path, Page] | None = None) -> None:
        self.pages = pages or {}
        self.known: dict[Path, tuple[set[str], str]] = {}

    def exists(self, path: Path) -> bool:
        """Whether there is such a page or file."""
        return path in self.pages or path.exists()

    def of(self, path: Path) -> set[str]:
        """Return the anchors of a page: its headings as the site names them, and explicit ids."""
        return self._read(path)[0]

    def number(self, path: Path) -> str:
        """Return the number that the title of a page begins with, such as 3.3, or nothing."""
        return self._read(path)[1]

    def _read(self, path: Path) -> tuple[set[str], str]:
        if path not in self.known:
            page = self.pages.get(path)
            text = "" if page else path.read_text(encoding="utf-8", errors="replace")
            page = page or notebook.read(path.name, text)
            title = next((title for _, level, title, _ in page.headings if level == 1), "")
            numbered = re.match(r"\d\.\d(?![.\d])", title)
            self.known[path] = anchors(page), numbered[0] if numbered else ""
        return self.known[path]


def anchors(page: Page) -> set[str]:
    """Return the anchors a page offers."""
    used: set[str] = set()
    for _, _, title, explicit in page.headings:
        if explicit:
            used.add(explicit)
        else:
            unique(slugify(plain_title(title), "-"), used)
    return used | set(re.findall(r'\bid="([^"]+)"', page.text))


def check_links(page: Page, path: Path, known: Anchors) -> list[Problem]:
    """Return the links inside the book that lead nowhere."""
    problems = []
    for link in page.links:
        line, target = link.line, link.target
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        file = file.partition("?")[0]  # a view of the page
        goal = Path(posixpath.normpath((path.parent / file).as_posix())) if file else path
        if not known.exists(goal):
            if goal.suffix != ".ipynb" or not goal.with_suffix(".md").exists():
                problems.append(Problem(line, f"link to nowhere: {target}"))
        elif goal.suffix in (".md", notebook.SUFFIX):
            problems += [Problem(line, problem) for problem in _landing(link, file, anchor, goal, known)]
    return problems


def _landing(link: Link, file: str, anchor: str, goal: Path, known: Anchors) -> Iterator[str]:
    """Yield what a reader would not find at the end of a link to a page: its section, or the chapter that it names."""
    if anchor and not anchor.startswith("posenc.") and anchor not in known.of(goal):
        yield f"link to nowhere: {file or 'this page'} has no #{anchor}"
    named = CHAPTER.search(COMMENT.sub("", link.label))
    if named and known.number(goal) != named[1]:
        yield f"[{named[0]}] leads to {file or 'this page'}, which is {known.number(goal) or 'no chapter'}"


def plain_title(title: str) -> str:
    """Return a heading as the reader sees it."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[`*]|\\(?=[\W_])", "", title).strip()
