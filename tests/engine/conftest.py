"""A small book in a temporary folder, to try the engine on."""

import contextlib
from pathlib import Path

import pytest

from galley.book import Book, Result

ROOT = Path(__file__).parents[2]
NOT_ALL_HOLDS = "Not everything on this page holds"  # a template says so of a page

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
        (root / "library").mkdir()
        (root / "library" / "code.py").write_text(LIBRARY)
        (root / "pyproject.toml").write_text(SETTINGS)
        (self.docs / "references.bib").write_text(BIBLIOGRAPHY)
        hook = ROOT / "docs/engine/galley/show/hook.py"
        (root / "mkdocs.yml").write_text(SITE.format(hook=hook.as_posix()))

    def take_theme(self) -> None:
        """Show pages by the theme and the templates of the real site."""
        settings = self.root / "mkdocs.yml"
        theme = THEME.format(overrides=(ROOT / "docs/overrides").as_posix())
        settings.write_text(settings.read_text().replace("theme: mkdocs\n", theme))

    def page(self, name: str, text: str) -> None:
        (self.docs / name).write_text(text, encoding="utf-8")

    def run(self, **options) -> dict[str, Result]:
        book = Book(self.root, **options)
        return {Path(name).name: result for name, result in book.run(book.pages()).items()}

    def check(self, text: str, **options) -> list[str]:
        """Run one page and return its problems as "line: message"."""
        self.page("page.md", text)
        return [f"{p.line}: {p.message}" for p in self.run(**options)["page.md"].problems]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def left(root: Path) -> list[str]:
    """Return what still runs of a command that was started with SERVED=root: all that it starts has this too."""
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"SERVED={root}\0" in (process / "environ").read_text():
                commands.append((process / "cmdline").read_text().replace("\0", " "))
    return commands
