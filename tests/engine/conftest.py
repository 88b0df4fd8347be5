"""A small book in a temporary folder, to try the engine on."""

from pathlib import Path

import pytest

from galley.book import Book, Result

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
  - galley.markdown
validation:
  links: {{not_found: warn, anchors: warn}}
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
        hook = Path(__file__).parents[2] / "docs" / "engine" / "hook.py"
        (root / "mkdocs.yml").write_text(SITE.format(hook=hook.as_posix()))

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
