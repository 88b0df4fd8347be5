"""A small site: a book of a few pages with a navigation."""

from galley.book import Book, Result
from galley.show.site import Site, SitePage

NAVIGATION = """
site_description: A book that runs.
repo_url: https://example.org/source
nav:
  - Home: index.md
  - 3 RoPE:
      - chapters/3-rope/index.md
      - chapters/3-rope/turn.md
  - Labs: labs.md
"""
PAGES = {
    "index.md": "---\ndescription: The first page.\n---\n\n# Home & dry\n",
    "chapters/3-rope/index.md": "---\ndescription: A part.\n---\n\n# Part 3: RoPE\n",
    "chapters/3-rope/turn.md": '---\ndescription: It "turns".\ntags: [rope]\n---\n\n# 3.1 Turn\n\n## Why it turns\n',
    "labs.md": "---\ndescription: Small models.\n---\n\n# The labs\n",
}


def small(project, **pages: str) -> Site:
    """Return the site of a book of four pages and of those given by name, which are read and not run."""
    for uri, text in (PAGES | {f"{name}.md": text for name, text in pages.items()}).items():
        project.page(uri, text)
    project.append("mkdocs.yml", NAVIGATION)
    book = Book(project.root)
    results = {name.removeprefix("docs/"): Result(name, book.read(name, text)) for name, text in book.pages().items()}
    return Site.of(book, results)


def page_of(site: Site, uri: str) -> SitePage:
    """Return a page by its place in docs."""
    return next(page for page in site.pages if page.uri == uri)
