"""A small book in a temporary folder, to try the engine on."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from galley.book import Book, Result
from galley.update import rewrite

ROOT = Path(__file__).parents[2]
NOT_ALL_HOLDS = "Not everything on this page holds"  # a template says so of a page
ENVIRONMENT = os.environ | {"NO_MKDOCS_2_WARNING": "1", "SOURCE_DATE_EPOCH": "1763683200"}

SETTINGS = """\
[tool.galley]
docs = "docs"
sources = ["library"]
bibliography = "docs/references.bib"
site = "https://example.org/book/"
limit = 20
memory = 1
"""
BIBLIOGRAPHY = """\
@article{someone2020,
  author = {One, Some},
  title = {A Paper},
  year = {2020},
  quoted = {table 1: 94.82, 11.16}
}
"""
SITE = """\
site_name: book
site_url: https://example.org/book/
theme: mkdocs
hooks: [{hook}]
markdown_extensions:
  - md_in_html
  - tables
  - pymdownx.superfences
  - pymdownx.arithmatex: {{generic: true}}
  - galley.show.extension
validation:
  links: {{not_found: warn, anchors: warn}}
"""
THEME = """\
theme:
  name: material
  custom_dir: {overrides}
  font: false
"""
LIBRARY = '''\
def double(x):
    """Return twice x."""
    return 2 * x
'''


class Project:
    """A book of a few pages, written by a test."""

    def __init__(self, root: Path) -> None:
        self.root, self.docs = root, root / "docs"
        self.docs.mkdir()
        self.write("library/code.py", LIBRARY)
        self.write("pyproject.toml", SETTINGS)
        self.write("docs/references.bib", BIBLIOGRAPHY)
        hook = ROOT / "docs/engine/galley/show/hook.py"
        self.write("mkdocs.yml", SITE.format(hook=hook.as_posix()))

    def write(self, name: str, text: str) -> Path:
        """Write a file of the book, in a folder that need not be there."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace what a file of the book contains."""
        text = (self.root / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def append(self, name: str, text: str) -> None:
        """Write more below what a file of the book contains."""
        self.write(name, (self.root / name).read_text(encoding="utf-8") + text)

    def page(self, name: str, text: str) -> None:
        self.write(f"docs/{name}", text)

    def take_theme(self) -> None:
        """Show pages by the theme and the templates of the real site."""
        self.edit("mkdocs.yml", "theme: mkdocs\n", THEME.format(overrides=(ROOT / "docs/overrides").as_posix()))

    def run(self, **options) -> dict[str, Result]:
        book = Book(self.root, **options)
        return {Path(name).name: result for name, result in book.run(book.pages()).items()}

    def run_page(self, text: str, name: str = "page.md") -> Result:
        """Write one page, run the book, and return the page's result."""
        self.page(name, text)
        return self.run()[name]

    def check(self, text: str, **options) -> list[str]:
        """Run one page and return its problems as "line: message"."""
        self.page("page.md", text)
        return [f"{p.line}: {p.message}" for p in self.run(**options)["page.md"].problems]

    def update(self) -> dict[str, Result]:
        """Rewrite what the pages show, and return the results of the pages as they are then."""
        book = Book(self.root)
        return book.run(rewrite(book, book.run(book.pages())))

    def command(self, *arguments: str, **options) -> tuple[int, str]:
        """Run a module of Python in the book's folder; return its status and what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.root,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **options,
        )
        return done.returncode, done.stdout

    def build(self, *options: str) -> dict[str, str]:
        """Build the site, and return its HTML by the place of each page."""
        status, output = self.command("mkdocs", "build", *options)
        assert status == 0, output
        site = self.root / "site"
        return {path.parent.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("index.html")}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def block(code: str, options: str = "", output: str | None = None) -> str:
    """Return a block of a page, with its options above it and its output below it."""
    above = f"<!-- block: {options} -->\n" if options else ""
    below = "" if output is None else f"\n```output\n{output}\n```\n"
    return f"{above}```python\n{code}\n```\n{below}"


def running(root: Path) -> list[str]:
    """Return the processes of a command that was started with SERVED=root: all that it starts has this too."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"SERVED={root}\0" in (process / "environ").read_text():
                commands.append((process / "cmdline").read_text().replace("\0", " "))
    return commands


def leftover(root: Path, limit: float = 60) -> list[str]:
    """Return what of a command still runs after a while: a fork server loads torch before it looks around."""
    end = time.monotonic() + limit
    while running(root) and time.monotonic() < end:
        time.sleep(0.1)
    return running(root)
