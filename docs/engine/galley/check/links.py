"""Check the links of a page: files that do not exist, anchors that lead nowhere."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from markdown.extensions.toc import slugify, unique

from galley.read import notebook
from galley.read.page import COMMENT, Link, Page, Problem

# A label that names a chapter: `3.3`, `3.3 RoPE` or `see chapter 3.3`, but neither a release, 3.3.1, nor a 2.5x.
CHAPTER = re.compile(r"(?:^|\b[Cc]hapter\s+)(\d\.\d)(?![.\d]|\w)")


class Anchors:
    """The anchors of each page, and the number in its title, found once; `pages` are those that were read already."""

    def __init__(self, pages: dict[Path, Page] | None = None) -> None:
        self.pages = pages or {}
        self._by_path: dict[Path, tuple[set[str], str]] = {}

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
        """Return the anchors of a page and the number in its title."""
        if path not in self._by_path:
            page = self.pages.get(path)
            # Where a single page is checked, those that it links to have not been read.
            text = "" if page else path.read_text(encoding="utf-8", errors="replace")
            page = page or notebook.read(path.name, text)
            title = next((title for _, level, title, _ in page.headings if level == 1), "")
            numbered = re.match(r"\d\.\d(?![.\d])", title)
            self._by_path[path] = (anchors(page), numbered[0] if numbered else "")
        return self._by_path[path]


def anchors(page: Page) -> set[str]:
    """Return the anchors a page offers."""
    used: set[str] = set()
    for _, _, title, explicit in page.headings:
        if explicit:
            used.add(explicit)
        else:
            # These two are what Python-Markdown makes ids with: of a second heading with the same words it adds _1.
            unique(slugify(plain_title(title), "-"), used)
    # A heading that a block prints, such as a card's, names itself too.
    printed = re.findall(r"^#+ .*\{:?\s*#([\w.-]+)\s*\}\s*$", page.text, re.M)
    return used.union(printed, re.findall(r'\bid="([^"]+)"', page.text))


def check_links(page: Page, path: Path, site_anchors: Anchors) -> list[Problem]:
    """Return the links inside the book that lead nowhere."""
    problems = []
    for link in page.links:
        line, target = link.line, link.target
        # A link with a scheme, such as https: or mailto:, leads out of the book.
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = unquote(target).partition("#")
        # What follows a question mark chooses a view of the page, and is read by its script.
        file = file.partition("?")[0]
        goal = Path(posixpath.normpath((path.parent / file).as_posix())) if file else path
        if not site_anchors.exists(goal):
            # The notebook of a page is made when the site is built.
            if goal.suffix != ".ipynb" or not goal.with_suffix(".md").exists():
                problems.append(Problem(line, f"link to nowhere: {target}"))
        elif goal.suffix in (".md", notebook.SUFFIX):
            problems += [Problem(line, problem) for problem in _landing(link, file, anchor, goal, site_anchors)]
    return problems


def _landing(link: Link, file: str, anchor: str, goal: Path, site_anchors: Anchors) -> Iterator[str]:
    """Yield what a reader would not find at the end of a link to a page: its section, or the chapter that it names."""
    # Anchors such as posenc.rotate.rope come from mkdocstrings; MkDocs checks these when it builds the site.
    if anchor and not anchor.startswith("posenc.") and anchor not in site_anchors.of(goal):
        yield f"link to nowhere: {file or 'this page'} has no #{anchor}"
    named = CHAPTER.search(COMMENT.sub("", link.label))
    number = site_anchors.number(goal) if named else ""
    if named and number != named[1]:
        yield f"[{named[0]}] leads to {file or 'this page'}, which is {number or 'no chapter'}"


def plain_title(title: str) -> str:
    """Return a heading as the reader sees it."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
    # Marks of emphasis and code go, and of an escaped sign, such as \_, the backslash.
    return re.sub(r"[`*]|\\(?=[\W_])", "", title).strip()
