"""What Zensical needs to build the book: a copy in which all that plugins and the hook do for MkDocs is plain files."""

import html
import json
import re
import shutil
from importlib import resources
from pathlib import Path, PurePosixPath

import yaml
from mkdocs.utils.yaml import yaml_load

from galley import cells
from galley.around import keywords
from galley.around.site import Shown
from galley.book import Book, Result

OWN = Path(__file__).with_name("zensical")  # templates and styles for it alone
STYLES = "assets/_mkdocstrings.css"
SETTINGS = "mkdocs.yml"
TAG = re.compile(r'(<h2 id="(tag:[^"]*)">(?:(?!</h2>|headerlink).)*)(?=</h2>)', re.S)
LINKED = r'\1<a class="headerlink" href="#\2" title="Link to this section">&para;</a>'
PLUGINS = ("mkdocs-jupyter",)  # that it does not have: a notebook is copied as the Markdown that it says


def prepare(book: Book, results: dict[str, Result], folder: Path) -> Path:
    """Copy the book into `folder`, as Zensical reads it; `results` by the pages' places in docs."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in (book.docs, *(source for source in book.sources if not source.is_relative_to(book.docs))):
        place = folder / source.relative_to(book.root)
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(book.root / "pyproject.toml", folder)
    (folder / book.folder.name).symlink_to(book.folder)  # it finds there what the pages gave
    docs = folder / book.docs.relative_to(book.root)
    for uri in notebooks(results):
        (docs / uri).with_suffix(".md").write_text(results[uri].page.text, encoding="utf-8")
        (docs / uri).unlink()
    styles = resources.files("mkdocstrings_handlers.python") / "templates/material/style.css"
    (docs / "assets/css").mkdir(parents=True, exist_ok=True)
    (docs / STYLES).write_text(styles.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / SETTINGS).write_text(settings(book, results), encoding="utf-8")
    shutil.copytree(OWN / "templates", docs / "overrides", dirs_exist_ok=True)
    shutil.copy(OWN / "zensical.css", docs / "assets/css")
    return folder


def mend(site: Path, results: dict[str, Result]) -> None:
    """Let links to the notebook of a page lead to the page, and the one to edit it to the notebook; link tags."""
    for path in site.rglob("index.html"):
        text = TAG.sub(
            r'\1<a class="headerlink" href="#\2" title="Link to this section">&para;</a>', path.read_text("utf-8")
        )
        for uri in notebooks(results):
            text = mended(text, PurePosixPath(uri))
        path.write_text(text, encoding="utf-8")


def found(site: Path, results: dict[str, Result]) -> None:
    """Let the search, which knows no keywords, find a page by them."""
    path, shown = site / "search.json", [Shown(uri, result) for uri, result in results.items()]
    words = {page.url: keywords.of(page).get("keywords", []) for page in shown}
    index = json.loads(path.read_text(encoding="utf-8"))
    for item in index["items"]:
        if told := words.get(item["location"]):
            item["text"] += f"<p>{html.escape(', '.join(told))}</p>"
    path.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def mended(text: str, uri: PurePosixPath) -> str:
    """Return a page with what it says of one notebook put right."""
    links = re.compile(rf'(href="(?!https?:)(?:[^"?#]*/)?){re.escape(uri.name)}(?=["?#])')
    text = links.sub(lambda m: f"{m[1]}{uri.stem}/", text)
    return text.replace(f'/{uri.with_suffix(".md")}" title=', f'/{uri}" title=')


def notebooks(results: dict[str, Result]) -> list[str]:
    """Return the pages that are notebooks."""
    return [uri for uri in results if uri.endswith(cells.SUFFIX)]


def settings(book: Book, results: dict[str, Result]) -> str:
    """Return the settings of the site for Zensical."""
    text = (book.root / SETTINGS).read_text(encoding="utf-8")
    for uri in notebooks(results):
        text = text.replace(uri, uri.removesuffix(cells.SUFFIX) + ".md")
    found = yaml_load(text)
    del found["hooks"]
    found["plugins"] = [plugin for plugin in found["plugins"] if not _named(plugin, PLUGINS)]
    found["theme"]["variant"] = "classic"  # what our styles were made for
    found["extra_css"] = [STYLES, *found["extra_css"], "assets/css/zensical.css"]
    return yaml.safe_dump(found, allow_unicode=True, sort_keys=False)


def _named(plugin: str | dict, names: tuple[str, ...]) -> bool:
    return any(name in names for name in ([plugin] if isinstance(plugin, str) else plugin))
