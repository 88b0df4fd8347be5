"""A small site, as a builder has just written it: what stands around its pages is still to come."""

import shutil
from pathlib import Path

from galley.around.site import Site
from galley.book import Book, Result

FONTS = Path(__file__).parents[2] / "docs/assets/fonts"
NAMED = """
[project]
name = "posenc"
version = "0.2.0"
description = "Encodings."
license = "MIT"
authors = [{ name = "Someone" }]
urls = { Source = "https://example.org/source" }
"""
NAVIGATION = """
site_description: A book that runs.
nav:
  - Home: index.md
  - 3 RoPE:
      - chapters/3-rope/index.md
      - chapters/3-rope/turn.md
  - Labs: labs.md
"""
HTML = """\
<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>{title}</title>
  </head>
  <body><article>
<h1>{title}</h1>
{body}
</article></body>
</html>
"""
PAGES = {
    "index.md": "---\ndescription: The first page.\n---\n\n# Home & dry\n",
    "chapters/3-rope/index.md": "---\ndescription: A part.\n---\n\n# Part 3: RoPE\n",
    "chapters/3-rope/turn.md": '---\ndescription: It "turns".\ntags: [rope]\n---\n\n# 3.1 Turn\n\n## Why it turns\n',
    "labs.md": "---\ndescription: Small models.\n---\n\n# The labs\n",
}


def small(project, fonts: bool = False, served: bool = False, **pages: str) -> Site:
    """Return the site of a book of four pages and of those given by name; its HTML holds their titles."""
    for uri, text in (PAGES | {f"{name}.md": text for name, text in pages.items()}).items():
        (project.docs / uri).parent.mkdir(parents=True, exist_ok=True)
        project.page(uri, text)
    for name, more in (("pyproject.toml", NAMED), ("mkdocs.yml", NAVIGATION)):
        path = project.root / name
        path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    if fonts:
        shutil.copytree(FONTS, project.docs / "assets/fonts")
    book = Book(project.root)
    results = {name.removeprefix("docs/"): Result(name, book.read(name, text)) for name, text in book.pages().items()}
    site = Site.of(project.root / "site", book, results, served)
    for shown in site.pages:
        site.write(shown.file, HTML.format(title=shown.title, body='<h2 id="why-it-turns">Why it turns</h2>'))
    return site


def shown(site: Site, uri: str):
    """Return a page by its place in docs."""
    return next(page for page in site.pages if page.uri == uri)


def html(site: Site, uri: str) -> str:
    """Return the HTML of a page as it stands."""
    return (site.folder / shown(site, uri).file).read_text(encoding="utf-8")
