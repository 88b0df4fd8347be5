"""The MkDocs hook: run what changed before the site is built, report what is wrong, add the notebooks.

A build writes beside the site that stands and takes its place at the end, so a build that fails or is killed costs
nothing. mkdocs-jupyter makes a notebook of the book a page; what it says is set as Markdown, like all other pages.
"""

import logging
from functools import partial
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils import CountHandler

from galley import aside, cells, notebook, search
from galley.__main__ import summary
from galley.book import Book, Result, Stopwatch, timed
from galley.markdown import shared_book
from galley.memory import digest_of
from galley.render import Renderer
from galley.store import digest

log = logging.getLogger("mkdocs.galley")
_in_place = False  # whether to write straight into the site's folder
_site: Path | None = None  # where the site belongs while it is built beside
_warnings = CountHandler(level=logging.WARNING)
_outcomes: dict[str, str] = {}  # by page: a digest of what its code gave
_renderer: Renderer | None = None

FIRST, LAST = 1000, -1000


def on_startup(command: str, dirty: bool) -> None:
    """Note what MkDocs is to do: what it serves lies in a temporary folder, and a dirty build mends a site."""
    global _in_place
    _in_place = command == "serve" or dirty


@event_priority(FIRST)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Build beside the site that stands."""
    global _site
    if not _in_place:
        _site = Path(config.site_dir).resolve()
        config.site_dir = str(aside.beside(_site))
        _warnings.counts.clear()
        logging.getLogger("mkdocs").addHandler(_warnings)
    return config


@event_priority(LAST)
def on_post_build(config: MkDocsConfig) -> None:
    """Put the site in its place."""
    if config.strict and _warnings.counts:
        return  # MkDocs is about to say that warnings fail a strict build
    if _site:
        aside.replace(_site, Path(config.site_dir))
        config.site_dir = str(_site)  # for those who go on, such as gh-deploy
    shared_book().memory.sweep()
    _end_build()


def on_build_error(error: Exception) -> None:
    """Leave the site as it was."""
    if _site:
        log.info("The site in %s stays as it was", _site)
    _end_build()


def _end_build() -> None:
    global _site
    _site = None
    logging.getLogger("mkdocs").removeHandler(_warnings)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run the pages; a problem is a warning, which fails a strict build."""
    book, watch = shared_book(), Stopwatch()
    prefix = book.docs.relative_to(book.root).as_posix()
    pages = {}
    for file in files.documentation_pages():
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(book.docs):
            pages[f"{prefix}/{file.src_uri}"] = Path(file.abs_src_path).read_text(encoding="utf-8", errors="replace")
    results = book.run(pages, _progress)
    _outcomes.clear()
    for name, result in results.items():
        _outcomes[name.removeprefix(f"{prefix}/")] = result.outcome
        for problem in result.report:
            log.warning("%s", problem)
        if notebook.portable(result):
            uri = _download(name.removeprefix(f"{prefix}/"))
            files.append(File.generated(config, uri, content=_notebook(result, book)))
    log.info("%s", summary(results, watch))
    if config.strict and (wrong := sum(len(result.problems) for result in results.values())):
        raise Abort(f"{wrong} problems on the pages")  # MkDocs counts warnings, and --quiet hides them from it
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Prepare to render, now that all files are known."""
    global _renderer
    _renderer = Renderer(shared_book(), _outcomes, config)
    search.remember(config, shared_book().memory)
    return nav


def on_pre_page(page: Page, config: MkDocsConfig, files: Files) -> Page:
    """Render the page by memory, and a notebook like all others: as mkdocs-jupyter does it, it brings 600 KB of styles.

    MkDocs has no event around the rendering of a page; that plugin replaces the method, and so does this.
    """
    if _renderer:
        vars(page)["render"] = partial(_renderer.render, page)
    return page


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Return what a notebook says as Markdown."""
    path = page.file.abs_src_path or ""
    return cells.read(path, Path(path).read_text(encoding="utf-8")).text if path.endswith(cells.SUFFIX) else None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Tell the theme where the page's notebook is."""
    made = files.get_file_from_path(_download(page.file.src_uri))
    if made is not None:
        page.meta["notebook"] = made.url_relative_to(page.file)
    return markdown


def _download(uri: str) -> str:
    """Return where the notebook made from a page lies: beside it, or in the folder of a page that is one itself."""
    path = PurePosixPath(uri)
    is_one = path.suffix == cells.SUFFIX
    return (path.with_suffix("") / path.name if is_one else path.with_suffix(cells.SUFFIX)).as_posix()


def _notebook(result: Result, book: Book) -> str:
    reads = [digest_of(book.root / path) for path in result.reads]
    key = digest("notebook", book.around, result.name, result.page.text, result.outcome, *reads)
    made = book.memory.get(key)
    if made is None:
        made = notebook.notebook(result, book.site, book.root)
        book.memory.put(key, made)
    return made


def _progress(result: Result) -> None:
    if not result.cached:
        log.info("ran %s in %s", result.name, timed(result.seconds))
